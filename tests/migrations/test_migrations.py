"""Files of every released schema become files of this one: equal to a fresh one, with all that was in them.

``schema_1.sql`` is such a file, ``schema_1.json`` what the code of its time said of it; ``make_fixture.py`` made them.
``released.json`` has the checksums of the migrations that users have run: those files never change again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.domain.states import State
from fairlane.errors import StoreError, StoreVersion
from fairlane.failpoints import FailpointHit
from fairlane.stores._migrate import Migration, migrations
from fairlane.stores.sqlite import store as store_module
from fairlane.stores.sqlite import versions
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.testing.clock import ManualClock

HERE: Final = Path(__file__).parent
TOLD: Final[dict[str, Any]] = json.loads((HERE / "schema_1.json").read_text("utf-8"))
KNOWN: Final = [step.name for step in migrations("sqlite")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of schema 1."""
    file = tmp_path / "jobs.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.executescript((HERE / "schema_1.sql").read_text("utf-8"))
        db.execute("PRAGMA journal_mode=WAL")
    return file


def opened(path: Path) -> SqliteStore:
    return open_sqlite(f"sqlite:///{path}", clock=ManualClock(TOLD["now_ms"]), durability="normal")


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def schema(path: Path) -> list[tuple[Any, ...]]:
    """Return every table and index, with its SQL in one line and without comments."""
    rows = ask(path, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
    plain = [re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql or "")) for *_, sql in rows]
    columns = [tuple(ask(path, f'PRAGMA table_xinfo("{name}")')) for _, name, *_ in rows]
    return [(*row[:3], sql, *its) for row, sql, its in zip(rows, plain, columns, strict=True)]


def known_to(monkeypatch: pytest.MonkeyPatch, steps: list[Migration]) -> None:
    """Let the code know these migrations."""
    monkeypatch.setattr(versions, "migrations", lambda _: steps)


# ---------------------------------------------------------------- released migrations


def test_a_released_migration_is_never_changed():
    """Users have run it: change the schema with a new one. A release adds the checksums of its migrations here."""
    released: dict[str, str] = json.loads((HERE / "released.json").read_text("utf-8"))
    have = {step.name: step.checksum for step in migrations("sqlite")}
    assert {name: have.get(name) for name in released} == released
    assert list(released) == KNOWN[: len(released)]


def test_the_fixture_is_a_file_of_the_schema_that_it_says(path: Path):
    assert ask(path, "SELECT number, name FROM migration") == [(1, "0001_initial.sql")]
    assert ask(path, "PRAGMA user_version") == [(1,)]
    assert ask(path, "PRAGMA application_id") == [(versions.APPLICATION_ID,)]
    states = dict(ask(path, "SELECT state, count(*) FROM job GROUP BY state"))
    assert set(states) == {int(state) for state in State}, "jobs in every state"
    for table in ("lane", "pool", "turn", "mean", "gate", "rule", "task", "worker", "incident", "audit", "log"):
        assert ask(path, f"SELECT count(*) FROM {table}")[0][0] > 0, table
    assert ask(path, "SELECT count(*) FROM log WHERE id > (SELECT max(id) FROM log WHERE kind = 2)")[0][0] > 0


# ---------------------------------------------------------------- what becomes of a file


def test_a_migrated_file_has_the_schema_of_a_fresh_one(path: Path, tmp_path: Path):
    fresh = tmp_path / "fresh.db"
    opened(path).close()
    opened(fresh).close()
    assert schema(path) == schema(fresh)
    for pragma in ("user_version", "application_id"):
        assert ask(path, f"PRAGMA {pragma}") == ask(fresh, f"PRAGMA {pragma}")
    record = "SELECT number, name, checksum FROM migration ORDER BY number"
    assert ask(path, record) == ask(fresh, record)


def test_every_row_is_still_there(path: Path):
    tables = [name for (name,) in ask(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    tables.remove("migration")
    columns = {name: [row[1] for row in ask(path, f'PRAGMA table_info("{name}")')] for name in tables}

    def rows() -> dict[str, list[tuple[Any, ...]]]:
        return {name: ask(path, f"SELECT {', '.join(columns[name])} FROM {name} ORDER BY 1, 2") for name in tables}

    before = rows()
    opened(path).close()
    after = rows()
    assert {name: [row for row in before[name] if row not in after[name]] for name in tables} == {
        name: [] for name in tables
    }
    assert len(after["job"]) == len(before["job"])


def test_the_books_are_right_and_the_policy_remembers(path: Path):
    with contextlib.closing(opened(path)) as store:
        assert {state.label: count for state, count in store.counts().items()} == TOLD["counts"]
        assert store.check() == []
        with store.transaction():
            scheduler = store._live().scheduler
            turns = {
                f"{name}/{tenant}": list(turn.facts())
                for name, pool in scheduler.pools.items()
                for tenant, turn in pool.turns.items()
            }
            pools = {name: list(pool.facts()) for name, pool in scheduler.pools.items()}
            means = {"/".join(key): list(mean) for key, mean in scheduler.means.items()}
            gates = [*scheduler.limits.items(), *scheduler.tenants.items()]
        assert (turns, pools, means) == (TOLD["turns"], TOLD["pools"], TOLD["means"])
        assert {key: [gate.tat, gate.held_until_ms] for key, gate in gates} == TOLD["gates"]
        assert store.check() == []


def test_the_next_claims_are_those_that_the_old_code_would_have_made(path: Path):
    assert len(TOLD["next"]) > 20
    with contextlib.closing(opened(path)) as store:
        seen = store.peek(Ask("default", len(TOLD["next"])), TOLD["now_ms"])
        assert [record.id.hex() for record in seen] == TOLD["next"]


def test_its_jobs_run(path: Path):
    clock = ManualClock(TOLD["now_ms"])
    before = {row[0]: row[1:] for row in ask(path, "SELECT id, fence, failures, crashes, state FROM job")}
    with contextlib.closing(open_sqlite(f"sqlite:///{path}", clock=clock, durability="normal")) as store:
        held = ask(path, "SELECT seq, fence FROM job WHERE state = 2 ORDER BY seq")
        with store.transaction():  # its leases are good, and their holders may still settle
            done = [Settlement(seq=held[0][0], fence=held[0][1], kind="completed", run_us=1)]
            assert store.settle(done, clock.now_ms()) == [True]
        _run_all(store, clock)
        after = {row[0]: row[1:] for row in ask(path, "SELECT id, fence, failures, crashes, state FROM job")}
        assert set(after) == set(before)
        for job, (fence, failures, _, state) in before.items():
            assert after[job][0] >= fence
            assert after[job][1] == failures
            if state >= State.COMPLETED:
                assert after[job][3] == state
        shut = store.counts()
        assert shut[State.AVAILABLE] == 1, "the job of the queue that is paused"
        assert shut[State.SCHEDULED] == shut[State.RUNNING] == 0
        assert store.check() == []


def _run_all(store: SqliteStore, clock: ManualClock) -> None:
    for _ in range(100):
        clock.advance(seconds=60)
        with store.transaction():
            store.rescue(clock.now_ms(), limit=100)
            claims = store.claim(Ask("default", 50), worker="", lease_ms=1_000, now_ms=clock.now_ms())
        with store.transaction():
            ends = [Settlement(seq=one.seq, fence=one.fence, kind="completed", run_us=1_000) for one in claims]
            assert all(store.settle(ends, clock.now_ms()))


# ---------------------------------------------------------------- all or nothing


def test_a_migration_that_fails_in_the_middle_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch):
    before = (schema(path), ask(path, "SELECT * FROM migration"))
    passed: list[str] = []

    def fail_later(name: str) -> None:
        passed.append(name)
        if len(passed) == len(KNOWN) - 1:
            raise FailpointHit(name)

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "failpoint", fail_later)
        with pytest.raises(FailpointHit):
            opened(path)
    assert len(passed) > 1, "it failed in the middle"
    assert (schema(path), ask(path, "SELECT * FROM migration")) == before
    assert ask(path, "PRAGMA user_version") == [(1,)]
    opened(path).close()
    assert ask(path, "PRAGMA user_version") == [(len(KNOWN),)]


def test_a_process_killed_in_the_middle_leaves_the_old_schema(path: Path):
    before = (schema(path), ask(path, "SELECT * FROM migration"), ask(path, "SELECT count(*) FROM job"))
    done = subprocess.run(
        [sys.executable, "-m", "fairlane", "migrate", "--url", f"sqlite:///{path}"],
        env=os.environ | {"FAIRLANE_FAILPOINT": "mid_migration:exit:2"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 9, done.stderr
    assert (schema(path), ask(path, "SELECT * FROM migration"), ask(path, "SELECT count(*) FROM job")) == before
    opened(path).close()
    assert ask(path, "PRAGMA user_version") == [(len(KNOWN),)]


def test_of_many_that_open_it_at_once_one_migrates(path: Path):
    start = threading.Barrier(6)
    run: list[list[str]] = []

    def open_it() -> None:
        with contextlib.closing(SqliteStore(f"sqlite:///{path}", path, "normal")) as store:
            start.wait()
            run.append(store.migrate(TOLD["now_ms"]))

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(run, key=len) == [[]] * 5 + [KNOWN[1:]]
    assert ask(path, "SELECT count(*) FROM migration") == [(len(KNOWN),)]


# ---------------------------------------------------------------- refused


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("how", ["header", "record"])
def test_a_file_of_a_newer_version_is_refused_and_not_touched(path: Path, journal: str, how: str):
    opened(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        number = len(KNOWN) + 1
        db.execute("INSERT INTO migration VALUES (?, 'later.sql', 'x', 0)", (number,))
        if how == "header" or journal == "delete":  # every version writes it; without a WAL it is read from the header
            db.execute(f"PRAGMA user_version={number}")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode={journal}")
    before = contents(path.parent)
    with pytest.raises(StoreVersion, match=f"schema {number}.*knows {len(KNOWN)}: upgrade fairlane"):
        opened(path)
    assert contents(path.parent) == before


def test_a_migration_that_was_changed_since_it_was_run_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch):
    first, *rest = migrations("sqlite")
    known_to(monkeypatch, [first._replace(checksum="other"), *rest])
    before = contents(path.parent)
    with pytest.raises(StoreError, match=r"0001_initial\.sql is not the one that was run on"):
        opened(path)
    assert contents(path.parent) | {"jobs.db.fairlane/gate": b""} == before | {"jobs.db.fairlane/gate": b""}


def _enqueue(store: SqliteStore) -> None:
    with store.transaction():
        store.enqueue([NewJob(id=os.urandom(16), task="t", args="{}")], TOLD["now_ms"])


def _beat(store: SqliteStore) -> None:
    other = store.sibling()
    assert other is not None
    with contextlib.closing(other), other.transaction():
        other.heartbeat([(1, 1)], lease_ms=1, now_ms=TOLD["now_ms"])


@pytest.mark.parametrize("call", [_enqueue, _beat])
def test_a_process_of_old_code_whose_file_is_migrated_under_it_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[SqliteStore], None]
):
    with monkeypatch.context() as patch:
        known_to(patch, migrations("sqlite")[:1])
        old = opened(path)  # as the code that knew schema 1 only
    with contextlib.closing(old):
        with old.transaction():
            pass
        opened(path).close()
        jobs = ask(path, "SELECT * FROM job ORDER BY seq")
        for _ in range(2):
            with pytest.raises(StoreVersion, match=f"was migrated to schema {len(KNOWN)} while.*restart it"):
                call(old)
        assert ask(path, "SELECT * FROM job ORDER BY seq") == jobs
