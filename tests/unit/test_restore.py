"""A backup is put back while the store is open elsewhere: what comes back, what only goes on, who notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import fairlane as fl
from fairlane.app import Fairlane
from fairlane.domain.jobs import NewJob, Settlement, WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import LimitRule, Rate, TenantRule
from fairlane.domain.states import State
from fairlane.errors import ConfigError, InvalidValue, StoreBusy, StoreError, StoreVersion
from fairlane.stores.sqlite import connection
from fairlane.stores.sqlite.backup import backup_file
from fairlane.stores.sqlite.restore import FROM_LIVE, JUMP, Draft, restore_file
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.testing.clock import ManualClock

SCHEMA_1 = Path(__file__).parents[1] / "migrations" / "schema_1.sql"


class Place:
    """A folder with a store, its backups, and a clock."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder = folder
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"
        self.saved = folder / "saved.bak"
        self.clock = clock
        self._stores: list[SqliteStore] = []

    def store(self, path: Path | None = None) -> SqliteStore:
        """Open the store, as a process of its own does."""
        url = f"sqlite:///{path or self.path}"
        self._stores.append(open_sqlite(url, clock=self.clock, durability="normal"))
        return self._stores[-1]

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def back_up(self, to: Path | None = None) -> None:
        backup_file(self.path, to or self.saved)

    def restore(self, source: Path | None = None, **options: Any) -> fl.Restored:
        return restore_file(self.url, source or self.saved, clock=self.clock, **options)

    def do(self, store: SqliteStore, call: str, *args: Any, **options: Any) -> Any:
        """Do one thing in a transaction of its own."""
        with store.transaction():
            return getattr(store, call)(*args, **options)

    def put(self, store: SqliteStore, n: int = 1, **options: Any) -> list[bytes]:
        fields = {"task": "t", "args": "{}"} | options
        jobs = [NewJob(id=os.urandom(16), **fields) for _ in range(n)]
        return [one.id for one in self.do(store, "enqueue", jobs, self.clock.now_ms())]

    def claim(self, store: SqliteStore, n: int = 1, *, worker: str = "", lease_ms: int = 60_000) -> list[Any]:
        ask = Ask("default", n)
        return self.do(store, "claim", ask, worker=worker, lease_ms=lease_ms, now_ms=self.clock.now_ms())

    def settle(self, store: SqliteStore, claims: list[Any], kind: Any = "completed", **options: Any) -> list[bool]:
        ends = [Settlement(seq=one.seq, fence=one.fence, kind=kind, run_us=1_000, **options) for one in claims]
        return self.do(store, "settle", ends, self.clock.now_ms())

    def rows(self, sql: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(path or self.path)) as db:
            return db.execute(sql).fetchall()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, ManualClock())
    yield made
    made.close()


def jobs_of(store: SqliteStore) -> dict[bytes, State]:
    return {job: State(state) for job, state in store._raw.execute("SELECT id, state FROM job")}


# ---------------------------------------------------------------- what comes back


def test_jobs_are_as_the_backup_has_them(place: Place):
    store = place.store()
    ids = place.put(store, 6)
    done = place.claim(store, 2)
    place.settle(store, done)
    place.back_up()
    before = jobs_of(store)
    place.settle(store, place.claim(store, 3))
    place.put(store, 4)
    assert place.restore() == (6, 0, 10, ())
    assert jobs_of(store) == before
    assert set(before) == set(ids)
    assert store.check() == []
    assert [path.name for path in place.folder.iterdir() if path.name.startswith(".")] == [], "no draft is left"


def test_settings_rules_and_turns_come_back(place: Place):
    store = place.store()
    place.do(store, "set_rule", "tenant", "a", TenantRule(weight_milli=3_000), by="", now_ms=place.clock.now_ms())
    for tenant in "abc":
        place.put(store, 9, tenant=tenant)
    place.settle(store, place.claim(store, 8))
    place.back_up()
    with contextlib.closing(place.store(place.saved)) as copy:
        order = [record.id for record in copy.peek(Ask("default", 19), place.clock.now_ms())]
    place.do(store, "set_rule", "tenant", "a", TenantRule(weight_milli=1), by="", now_ms=place.clock.now_ms())
    place.settle(store, place.claim(store, 11))
    place.restore()
    assert store.rule("tenant", "a") == TenantRule(weight_milli=3_000)
    assert [record.id for record in store.peek(Ask("default", 19), place.clock.now_ms())] == order
    assert [one.id for one in place.claim(store, 19)] == order


def test_running_jobs_wait_again_at_no_cost(place: Place):
    store = place.store()
    kept, express, stopped, late = [place.put(store, tenant=tenant)[0] for tenant in "abcd"]
    place.do(store, "expedite", express, reason="", by="", now_ms=place.clock.now_ms())
    place.do(store, "cancel", place.put(store)[0], reason="", now_ms=place.clock.now_ms())
    expiring = place.put(store, tenant="e", expires_at_ms=place.clock.now_ms() + 5_000)[0]
    claims = {one.id: one for one in place.claim(store, 9)}
    assert set(claims) == {kept, express, stopped, late, expiring}
    place.do(store, "save", claims[kept].seq, claims[kept].fence, progress=None, checkpoint='{"next": 3}')
    place.do(store, "cancel", stopped, reason="", now_ms=place.clock.now_ms())
    place.back_up()
    place.clock.advance(seconds=10)
    assert place.restore().given_back == 5
    jobs = {job: store.get(job) for job in claims}
    assert jobs[kept].state == jobs[express].state == jobs[late].state == State.AVAILABLE
    assert [(jobs[kept].failures, jobs[kept].crashes, jobs[kept].checkpoint)] == [(0, 0, '{"next": 3}')]
    assert jobs[express].express is not None
    assert jobs[stopped].state == State.CANCELLED, "somebody had asked for that"
    assert (jobs[expiring].state, jobs[expiring].reason) == (State.CANCELLED, "expired")
    first = place.claim(store)[0]
    assert (first.id, first.attempt) == (express, 1)
    assert store.check() == []


def test_a_store_that_does_not_exist_is_made(place: Place):
    store = place.store()
    place.put(store, 3)
    place.back_up()
    other = place.folder / "other" / "new.db"
    other.parent.mkdir()
    assert restore_file(f"sqlite:///{other}", place.saved, clock=place.clock) == (3, 0, 0, ())
    new = place.store(other)
    assert len(place.claim(new, 9)) == 3
    assert new.check() == []
    assert store.check() == []


def test_a_backup_of_an_older_schema_is_migrated_on_the_way(place: Place):
    old = place.folder / "old.bak"
    with contextlib.closing(sqlite3.connect(old)) as db:
        db.executescript(SCHEMA_1.read_text("utf-8"))
    before = old.read_bytes()
    store = place.store()
    place.put(store, 5)
    done = place.restore(old)
    assert done.migrations[0] == "0002_life.sql"
    assert done.jobs == len(jobs_of(store)) > 300
    assert done.given_back == 6
    assert old.read_bytes() == before, "the backup is as it was"
    assert store.check() == []
    assert len(place.claim(store, 10)) == 10


def test_pages_of_another_size(place: Place):
    store = place.store()
    place.put(store, 50)
    place.back_up()
    with contextlib.closing(sqlite3.connect(place.saved)) as db:
        db.execute("PRAGMA page_size=8192")
        db.execute("VACUUM")
    assert place.rows("PRAGMA page_size", place.saved) == [(8192,)]
    place.put(store, 5)
    assert place.restore().jobs == 50
    assert place.rows("PRAGMA page_size") == [(4096,)]
    assert store.check() == []


# ---------------------------------------------------------------- what only goes on


def test_no_fence_falls_or_repeats_and_old_holders_are_told(place: Place):
    store, other = place.store(), place.store()
    place.put(store, 3)
    place.back_up()
    given: dict[bytes, list[int]] = {}
    for _ in range(5):  # fences that the backup knows nothing of
        claims = place.claim(store, 3)
        for one in claims:
            given.setdefault(one.id, []).append(one.fence)
        place.settle(store, claims, "released")
    held = place.claim(store, 3)
    for one in held:
        given[one.id].append(one.fence)
    for _ in range(2):
        place.restore()
        for one in held:
            assert place.do(other, "heartbeat", [(one.seq, one.fence)], lease_ms=9, now_ms=0)[0].answer == "lost"
            assert not place.do(store, "save", one.seq, one.fence, progress="1", checkpoint=None)
        assert place.settle(store, held) == [False] * 3
        assert set(jobs_of(store).values()) == {State.AVAILABLE}
        held = place.claim(store, 3)
        for one in held:
            assert one.fence > max(given[one.id])
            given[one.id].append(one.fence)
    for fences in given.values():
        assert fences == sorted(set(fences))


def test_a_fence_of_a_job_that_was_pruned_since_does_not_come_again(place: Place):
    """The live file does not know the job any more, but its last holder may still be about."""
    store = place.store()
    (job,) = place.put(store)
    place.back_up()
    for _ in range(40):
        held = place.claim(store)
        place.settle(store, held, "released")
    last = place.claim(store)
    place.settle(store, last)
    place.clock.advance(seconds=1)
    place.do(store, "prune", place.clock.now_ms(), keep_ms={State.COMPLETED: 0}, limit=9)
    assert jobs_of(store) == {}
    place.restore()
    assert place.claim(store)[0].fence > last[0].fence
    assert store.get(job) is not None


def test_numbers_are_not_given_twice(place: Place):
    store = place.store()
    place.put(store, 2)
    place.put(store, express=True)
    place.back_up()
    lost = place.put(store, 5)
    place.put(store, express=True)
    numbers = dict(place.rows("SELECT name, seq FROM sqlite_sequence"))
    express = place.rows("SELECT value FROM counter WHERE name = 'express'")[0][0]
    place.restore()
    (job,) = place.put(store, express=True)
    made = store.get(job)
    assert made is not None
    assert made.seq >= numbers["job"] + JUMP
    assert made.express is not None
    assert made.express >= express + JUMP
    assert place.rows("SELECT min(id) FROM log")[0][0] > numbers["log"] + JUMP
    assert all(store.get(one) is None for one in lost)
    assert store.check() == []


def test_fences_and_numbers_go_on_when_the_file_was_lost(place: Place):
    """Nobody knows how far it had come; its workers may still be about, and hold claims."""
    store = place.store()
    place.put(store, 3)
    place.back_up()
    for _ in range(30):
        held = place.claim(store, 3)
        place.settle(store, held, "released")
    held = place.claim(store, 3)
    place.put(store, 20)
    (last,) = place.put(store)
    gone = store.get(last)
    assert gone is not None
    other = place.folder / "new.db"
    restore_file(f"sqlite:///{other}", place.saved, clock=place.clock)
    new = place.store(other)
    assert min(one.fence for one in place.claim(new, 3)) > max(one.fence for one in held)
    made = new.get(place.put(new)[0])
    assert made is not None
    assert made.seq > gone.seq


def test_two_restores_at_once_do_not_jump_to_the_same_numbers(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The second one is started when the first has read the numbers, and must wait for its end."""
    store = place.store()
    place.put(store, 2)
    place.back_up()
    second = threading.Thread(target=place.restore)
    jump = Draft.jump

    def interrupted(self: Draft, *args: Any, **options: Any) -> None:
        if second.ident is None:
            second.start()
            second.join(0.3)  # it would be through by then if nothing held it back
        jump(self, *args, **options)

    monkeypatch.setattr(Draft, "jump", interrupted)
    place.restore()
    second.join()
    assert place.claim(store)[0].fence > 2 * JUMP


def test_arrivals_of_later_jobs_stay_behind_the_clock_of_the_store(place: Place):
    store = place.store()
    place.put(store)
    place.back_up()
    place.clock.advance(seconds=60)
    place.put(store)
    latest_ms = place.clock.now_ms()
    place.clock.step(seconds=-90)
    place.restore()
    made = store.get(place.put(store)[0])
    assert made is not None
    assert made.arrival_ms >= latest_ms


# ---------------------------------------------------------------- what is not the backup's


def test_what_is_about_processes_and_what_must_not_be_undone_stays(place: Place):
    with Fairlane(place.url, clock=place.clock) as app:
        old = app.tokens.create("old", role="admin").record
        app.backup(place.saved)
        app.tokens.revoke(old.id)
        new = app.tokens.create("new", role="viewer").record
        app.queues["mail"].set(max_running=3)
        store = place.store()
        worker = WorkerRecord(id="w-9", pool="default", queues=None, slots=4)
        place.do(store, "register", worker, place.clock.now_ms())
        place.do(store, "watch", "monitor-9", lease_ms=30_000, now_ms=place.clock.now_ms())
        declared = {"limits": ("openai",), "max_attempts": 7, "max_crashes": 3, "now_ms": 1}
        place.do(store, "declare_task", "embed", **declared)
        app.restore(place.saved, by="me")
        tokens = {token.id: token for token in app.tokens.list()}
        assert set(tokens) == {old.id, new.id}
        assert tokens[old.id].revoked_at_ms is not None
        assert [one.id for one in store.workers()] == ["w-9"]
        held = store.monitor()
        assert held is not None
        assert held.holder == "monitor-9"
        assert store.rule("task", "embed").limits == ("openai",)  # type: ignore[union-attr]
        assert app.queues["mail"].get().max_running is None, "a rule is the backup's"
        done = [(one.by, one.what, one.target) for one in store.audit(limit=20)]
        assert ("me", "restore", "store") in done
        assert [what for _, what, _ in done].count("create token") == 2
        assert ("", "set queue", "mail") in done, "it is still known who did it"


def test_what_was_taken_of_a_rate_stays_taken(place: Place):
    store = place.store()
    now = {"by": "", "now_ms": place.clock.now_ms()}
    place.do(store, "set_rule", "limit", "api", LimitRule(rate=Rate.of(2, 3600, burst=2)), **now)
    place.do(store, "declare_task", "t", limits=("api",), max_attempts=4, max_crashes=3, now_ms=1)
    place.put(store, 6)
    place.back_up()
    assert len(place.claim(store, 6)) == 2, "the rate allows no more"
    place.restore()
    assert place.claim(store, 6) == [], "nor now"
    assert store.check() == []


def test_of_every_table_it_is_decided_whose_it_is(place: Place):
    """A new table must be thought about: is it the backup's, or about processes, or must it not be undone?"""
    theirs = {
        "job", "edge", "release", "lane", "setting", "counter", "pool", "turn", "mean", "rule", "objective", "incident",
        "log", "migration", "schedule", "operation", "request", "sqlite_sequence",
    }  # fmt: skip
    live = {"worker", "asked", "monitor", "task", "token", "session", "gate", "audit"}
    named = " ".join(FROM_LIVE)
    assert all(f"main.{table}" in named for table in live)
    place.store()
    tables = {name for (name,) in place.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == theirs | live
    lanes = place.rows("SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%REFERENCES lane%'")
    assert [(name, sql.count("REFERENCES lane")) for name, sql in lanes] == [("job", 2)], "lane, other_lane"


# ---------------------------------------------------------------- who notices


def test_every_kind_of_process_notices(place: Place):
    claiming, producing, looking = place.store(), place.store(), place.store()
    place.put(producing, 3, tenant="a")
    place.back_up()
    place.put(producing, 2, tenant="b", queue="later")  # a lane that the backup does not have, which it remembers
    place.claim(claiming, 2)
    waiting = place.put(producing, tenant="a")[0]
    looking.explain(waiting, place.clock.now_ms())
    place.restore()
    with pytest.raises(fl.JobNotFound):
        looking.explain(waiting, place.clock.now_ms())
    new = place.put(producing, tenant="b", queue="later")[0]
    told = looking.explain(new, place.clock.now_ms())
    assert told.state == State.AVAILABLE
    claimed = place.claim(claiming, 9)
    assert len(claimed) == 4
    assert new in {one.id for one in claimed}
    lanes = {(one.task, one.start.lane.queue, one.start.lane.tenant) for one in claimed}
    assert lanes == {("t", "default", "a"), ("t", "later", "b")}
    assert place.settle(claiming, claimed) == [True] * 4
    for store in (claiming, producing, looking):
        assert store.check() == []


def test_lanes_of_another_store_do_not_take_the_numbers_of_ours(place: Place):
    """A backup of some other store: its lane 1 is not our lane 1, which processes remember."""
    other = place.store(place.folder / "other.db")
    for tenant in ("x", "y", "b", "z"):
        place.put(other, 2, tenant=tenant)
    backup_file(place.folder / "other.db", place.saved)
    ours = place.store()
    for tenant in ("a", "b", "c"):
        place.put(ours, 1, tenant=tenant)
    place.claim(ours)
    known = dict(place.rows("SELECT id, tenant FROM lane"))
    assert place.restore() == (8, 0, 3, ())
    now = dict(place.rows("SELECT id, tenant FROM lane"))
    assert {lane: now[lane] for lane in known} == known
    assert sorted(now.values()) == ["a", "b", "c", "x", "y", "z"]
    for tenant in ("a", "b", "c"):
        place.put(ours, 1, tenant=tenant)
    claimed = [(one.start.lane.tenant, place.rows(f"SELECT lane FROM job WHERE seq = {one.seq}")[0][0])
               for one in place.claim(ours, 20)]  # fmt: skip
    assert len(claimed) == 11
    assert all(now[lane] == tenant for tenant, lane in claimed)
    assert ours.check() == []


def test_a_job_that_is_waited_for_and_is_gone_is_told(place: Place):
    with Fairlane(place.url) as app:
        app.enqueue("t", {})
        app.backup(place.saved)
        lost = app.enqueue("t", {})
        assert asyncio.run(app.arestore(place.saved)).jobs == 1
        with pytest.raises(fl.JobNotFound):
            lost.refresh()
        claim = app.claim()
        assert claim is not None
        app.restore(place.saved)
        with pytest.raises(fl.LeaseLost):
            claim.ack()


# ---------------------------------------------------------------- refused: the store is as it was


def newer(place: Place) -> None:
    with contextlib.closing(sqlite3.connect(place.saved)) as db, db:
        db.execute("INSERT INTO migration SELECT max(number) + 1, 'later', 'x', 0 FROM migration")


def newer_by_header(place: Place) -> None:
    with contextlib.closing(sqlite3.connect(place.saved)) as db, db:
        db.execute("PRAGMA user_version=999")


def another_programs(place: Place) -> None:
    place.saved.unlink()
    with contextlib.closing(sqlite3.connect(place.saved)) as db, db:
        db.execute("CREATE TABLE job (theirs)")


def changed_migration(place: Place) -> None:
    with contextlib.closing(sqlite3.connect(place.saved)) as db, db:
        db.execute("UPDATE migration SET checksum = 'x' WHERE number = 1")


def damaged(place: Place) -> None:
    body = bytearray(place.saved.read_bytes())
    page = 4096 * (len(body) // 4096 - 2)
    body[page : page + 4096] = os.urandom(4096)
    place.saved.write_bytes(body)


def inconsistent(place: Place) -> None:
    """An index that lacks jobs: all can be read, and it is wrong."""
    with contextlib.closing(sqlite3.connect(place.saved)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        sql = "replace(sql, 'express IS NULL', 'express IS NOT NULL')"
        db.execute(f"UPDATE sqlite_schema SET sql = {sql} WHERE name = 'job_head'")


def cut_short(place: Place) -> None:
    place.saved.write_bytes(place.saved.read_bytes()[:-5000])


def no_database(place: Place) -> None:
    place.saved.write_bytes(b"not a database " * 1000)


def missing(place: Place) -> None:
    place.saved.unlink()


def the_store_itself(place: Place) -> None:
    place.saved.unlink()
    place.saved.symlink_to(place.path)


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (newer, StoreVersion, "upgrade fairlane"),
        (newer_by_header, StoreVersion, "upgrade fairlane"),
        (another_programs, StoreError, "another program"),
        (changed_migration, StoreError, "is not the one that was run on"),
        (damaged, StoreError, "saved.bak"),
        (inconsistent, StoreError, "saved.bak.* is damaged"),
        (cut_short, StoreError, "saved.bak"),
        (no_database, StoreError, "not a database"),
        (missing, InvalidValue, "there is no backup"),
        (the_store_itself, InvalidValue, "is the store itself"),
    ],
)
def test_what_is_no_backup_is_refused(place: Place, spoil: Callable[[Place], None], error: type[Exception], match: str):
    store = place.store()
    place.put(store, 40)
    place.back_up()
    place.put(store, 2)
    spoil(place)
    before = (place.path.read_bytes(), jobs_of(store))
    with pytest.raises(error, match=match):
        place.restore()
    assert (place.path.read_bytes(), jobs_of(store)) == before
    assert not [path for path in place.folder.iterdir() if path.name.startswith(".")]
    other = f"sqlite:///{place.folder}/unborn.db"
    if error is not InvalidValue:
        with pytest.raises(error, match=match):
            restore_file(other, place.saved, clock=place.clock)
        assert not (place.folder / "unborn.db").exists(), "no store is made either"


def test_a_store_in_memory_is_not_restored_into(place: Place):
    place.put(place.store())
    place.back_up()
    with Fairlane("sqlite://") as app, pytest.raises(ConfigError, match=r"open the backup itself"):
        app.restore(place.saved)


def test_a_store_that_another_program_holds(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "BUSY_MS", 50)
    store = place.store()
    place.put(store, 4)
    place.back_up()
    place.put(store)
    with contextlib.closing(sqlite3.connect(place.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            place.restore()
        other.execute("ROLLBACK")
    assert len(jobs_of(store)) == 5
    assert place.restore().jobs == 4


def test_a_restore_that_fails_in_the_middle_has_changed_nothing(place: Place):
    store = place.store()
    place.put(store, 9_000)
    place.back_up()
    kept = place.put(store, 2)
    held = place.claim(store, 2)
    seen: list[int] = []

    def fail(done: int, total: int) -> None:
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.restore(progress=fail)
    assert len(seen) == 1
    assert len(jobs_of(store)) == 9_002
    assert place.settle(store, held) == [True, True]
    assert store.get(kept[0]) is not None
    assert store.check() == []
    told: list[tuple[int, int]] = []
    assert place.restore(progress=lambda done, total: told.append((done, total))).jobs == 9_000
    assert told
    assert all(done < total for done, total in told), "after the last page nothing may fail any more"


def test_a_restore_that_is_killed_in_the_middle_has_changed_nothing(place: Place):
    store = place.store()
    place.put(store, 9_000)
    place.back_up()
    place.put(store, 2)
    held = place.claim(store, 2)
    done = subprocess.run(
        [sys.executable, "-m", "fairlane", "restore", str(place.saved), "--yes", "--url", place.url],
        env=os.environ | {"FAIRLANE_FAILPOINT": "mid_restore:exit:1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 9, done.stderr
    assert len(jobs_of(store)) == 9_002
    assert place.settle(store, held) == [True, True]
    assert store.check() == []
    assert place.rows("PRAGMA integrity_check") == [("ok",)]


def test_ids_that_were_lost_can_be_enqueued_again(place: Place):
    store = place.store()
    place.put(store, dedup_key="first")
    place.back_up()
    (lost,) = place.put(store, dedup_key="second")
    place.restore()
    again = NewJob(id=lost, task="t", args="{}", dedup_key="second")
    assert place.do(store, "enqueue", [again], place.clock.now_ms())[0].created
    held = NewJob(id=os.urandom(16), task="t", args="{}", dedup_key="first")
    assert not place.do(store, "enqueue", [held], place.clock.now_ms())[0].created
    assert UUID(bytes=lost)


@pytest.mark.parametrize(("misfire", "made"), [("run_once", 1), ("skip", 0)])
def test_a_schedule_does_for_the_ticks_since_the_backup_what_its_misfire_says(place: Place, misfire: Any, made: int):
    with Fairlane(place.url, clock=place.clock) as app:

        @app.every(60, misfire=misfire, grace=5)
        @app.task
        def report() -> None: ...

        app.schedules.declare()
        app.backup(place.saved)
        for _ in range(3):
            place.clock.advance(seconds=60)
            assert app.schedules.fire() == 1
        place.clock.advance(seconds=70)
        app.schedules.fire()
        place.clock.advance(seconds=75)
        app.restore(place.saved)
        assert app.jobs().jobs == ()
        assert app.schedules.fire() == made, "not one for each"
        place.clock.advance(seconds=35)
        assert app.schedules.fire() == 1, "and goes on with the tick at six minutes"
