"""The parts that pages are made of: the search, words, the sampler and what it remembers, files, the stream."""

import asyncio
import doctest
import gzip
import hashlib
import importlib
import math
import random
import re
import sqlite3
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from dash_rig import world

import fairlane as fl
from fairlane.dashboard import words
from fairlane.dashboard.asking import MAX_QUERY, parse, written
from fairlane.dashboard.desk import Desk
from fairlane.dashboard.live import Live
from fairlane.dashboard.sampler import IDLE_S, Sampler
from fairlane.dashboard.series import (
    BUCKET_MS,
    BUCKETS,
    HOUR_MS,
    MOST_QUEUES,
    MOST_TENANTS,
    OTHER,
    Bucket,
    Series,
    Waits,
)
from fairlane.domain.sightings import Ending, Sighting
from fairlane.domain.states import State
from fairlane.service import LOCAL, Actor
from fairlane.stores._queries import query
from fairlane.testing import ManualClock

STATIC = Path(words.__file__).parent / "static"
VENDOR = Path(__file__).parent / "vendor"


@pytest.mark.parametrize("name", ["words", "series", "asking", "render", "pages.whatif"])
def test_examples_hold(name: str):
    module = importlib.import_module(f"fairlane.dashboard.{name}")
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


# ---------------------------------------------------------------- the search


@given(st.text(max_size=200))
def test_any_search_is_read_without_an_error(query: str):
    """What is not understood is said; nothing is raised, and a search of nothing means everything."""
    asked = parse(query)
    assert asked.wrong or asked.id or asked.which or not asked.text.strip('" \t\n')


@given(st.sampled_from(["tenant", "queue", "task", "tag", "key", "error", "group"]), st.text(min_size=1, max_size=50))
def test_a_term_that_we_write_is_read_as_it_was_meant(name: str, value: str):
    """Links to a search find what they are for, whatever is in the name."""
    if value.isspace() or not value.strip():
        return  # a search is trimmed, and no name is made of spaces alone
    asked = parse(written(name, value))
    assert list(asked.which.values()) == [value], (written(name, value), asked)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("tier:urgent", "tier 'urgent'"), ("state:sleeping", "state 'sleeping'"), ("age:old", "age 'old'"),
        ("tenant:a tenant:b", "tenant is given twice"), ("age:>2w", "units are s, m, h and d"),
        ("x" * 300, "longer than 255 bytes"), ("a " * (MAX_QUERY // 2 + 1), "longer than"),
        ('tag:""', "a value is missing"),
        (" ".join(f"w{n}" for n in range(40)), "more than 30 terms"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_search_is_said(query: str, wrong: str):
    assert any(wrong in text for text in parse(query).wrong), parse(query).wrong


def test_states_may_be_several():
    assert parse("state:waiting,running").which["state"] == (State.SCHEDULED, State.AVAILABLE, State.RUNNING)
    assert parse("is:dead").which["state"] == (State.DEAD,)
    assert parse("0198f0de-0000-7000-8000-000000000001").id == "0198f0de-0000-7000-8000-000000000001"
    assert parse("smtp:timeout bounced").which == {"q": "smtp:timeout bounced"}


# ---------------------------------------------------------------- words


@given(st.text())
def test_no_text_acts_on_the_screen(text: str):
    """No control character but tab and line feed is left, and nothing that turns the direction of writing."""
    shown = words.visible(text)
    assert not [char for char in shown if ord(char) < 0x20 and char not in "\t\n"]
    assert not set(shown) & set("\x7f\x9b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(st.integers(0, 10**12))
@example(59_500)
def test_times_are_never_told_as_another_unit(ms: int):
    """59.96 s is not "60 s", 59 m 59.9 s not "60 m"."""
    assert not re.search(r"\b60 (s|m)\b", words.span(ms))
    assert not re.search(r"\b24 h\b", words.span(ms))


# ---------------------------------------------------------------- what is remembered


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.floats(0.01, 1))
def test_percentiles_are_right_to_a_step(waits: list[int], share: float):
    """Nearest rank, within the 5 % of a step (or 1 ms)."""
    held = Waits()
    for ms in waits:
        held.add(ms)
    exact = sorted(waits)[max(1, math.ceil(share * len(waits))) - 1]
    found = held.percentile(share)
    assert found is not None
    assert abs(found - exact) <= max(1, 0.026 * exact)


def test_an_hour_is_kept_and_no_more():
    """However long it runs and whatever gaps there are, the buckets are at most an hour's."""
    series, now_ms = Series(), 10**12
    draw = random.Random(1)
    for _ in range(2_000):
        now_ms += draw.choice((100, 15_000, 90_000, 7_200_000))
        bucket = series.at(now_ms, now_ms)
        assert bucket is not None
        assert bucket.at_ms <= now_ms < bucket.at_ms + BUCKET_MS
        assert len(series.buckets) <= BUCKETS
        starts = [one.at_ms for one in series.buckets]
        assert all(later - sooner == BUCKET_MS for sooner, later in pairwise(starts))
    assert series.at(now_ms - 2 * HOUR_MS, now_ms) is None
    assert series.at(now_ms + HOUR_MS, now_ms) is None


def test_names_beyond_the_bound_are_counted_together():
    """A million tenants or queues do not fill the memory, and no job is left out of the sums."""
    bucket = Bucket(0)
    for number in range(5_000):
        for cell in bucket.of(number % 5, f"q{number}", f"t{number}"):
            cell.started += 1
    assert len(bucket.tenants) <= MOST_TENANTS + 1
    assert len(bucket.lanes) <= MOST_QUEUES * 5 + 5
    assert OTHER in bucket.tenants
    assert sum(cell.started for cell in bucket.tenants.values()) == 5_000
    assert sum(cell.started for cell in bucket.lanes.values()) == 5_000


# ---------------------------------------------------------------- the sampler


class Counting:
    """An app whose reads are counted."""

    def __init__(self, app: fl.Fairlane) -> None:
        self.app = app
        self.looks = 0
        read = app.owner.read

        def counted(op: Any) -> Any:
            self.looks += 1
            return read(op)

        app.owner.read = counted  # type: ignore[method-assign]


def test_every_start_and_end_is_counted_once():
    """Samples overlap in time; a job's start and its end are in one of them, whoever looks how often."""
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        sampler = Sampler(app)
        for number in range(40):
            app.enqueue("t", tenant=f"t{number % 3}", tier=fl.Tier(number % 5))
            clock.advance(ms=300)
            claim = app.claim()
            assert claim is not None
            clock.advance(ms=200)
            claim.dead("x") if number % 10 == 0 else claim.ack()
            for _ in range(number % 3):
                sampler.sample()
        sampler.sample()
        cells = sampler.lanes(HOUR_MS, clock.now_ms()).values()
        assert sum(cell.started for cell in cells) == 40
        assert sum(cell.completed for cell in cells) == 36
        assert sum(cell.dead for cell in cells) == 4
        assert sum(cell.run_ms for cell in cells) == 40 * 200
        assert {name: cell.started for name, cell in sampler.tenants(HOUR_MS, clock.now_ms()).items()} == {
            "t0": 14, "t1": 13, "t2": 13,
        }  # fmt: skip


def test_a_fresh_server_knows_the_hour_before_it():
    """The history of a server that has just started comes from the jobs that are still kept."""
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        for _ in range(10):
            app.enqueue("t")
            claim = app.claim()
            assert claim is not None
            clock.advance(seconds=60)
            claim.ack()
        sampler = Sampler(app)
        sampler.sample()
        assert sum(point.all.started for point in sampler.history()) == 10
        assert len(sampler.history(every=2)) == BUCKETS // 2


def test_objectives_are_judged_by_tenant_and_queue():
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        app.tiers["normal"].set(objective=5, tenant="strict")
        for tenant in ("strict", "strict", "easy"):
            app.enqueue("t", tenant=tenant)
        sampler = Sampler(app)
        for _ in range(3):
            claim = app.claim()
            assert claim is not None
            claim.ack()
            clock.advance(seconds=4)
        sampler.sample()
        strict = sampler.tenants(HOUR_MS, clock.now_ms())["strict"]
        assert strict.judged == 2
        assert strict.met >= 1
        assert sampler.tenants(HOUR_MS, clock.now_ms())["easy"].judged == 0


def test_one_look_at_the_store_serves_everybody():
    """A hundred visitors of one instant ask the store once."""
    with world() as w:
        w.board.sampler.stop()
        w.clock.advance(seconds=60)
        counting = Counting(w.app)
        done = threading.Barrier(8)

        def visit() -> None:
            done.wait(10)
            for _ in range(5):
                w.board.sampler.latest()

        threads = [threading.Thread(target=visit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counting.looks == 1


def test_samples_come_often_only_while_somebody_watches():
    """Each sample is told to whoever watches; one who comes need not wait for the next idle one."""
    with fl.Fairlane("sqlite://") as app:
        sampler = Sampler(app)
        heard: list[int] = []
        twice = threading.Event()

        def hear(version: int) -> None:
            heard.append(version)
            if len(heard) == 2:
                twice.set()

        sampler.start()
        sampler.start()
        try:
            assert sampler.watchers == 0
            with sampler.watch(hear):
                assert twice.wait(IDLE_S - 5)
                assert sampler.watchers == 1
            assert heard == sorted(set(heard))
        finally:
            sampler.stop()
            sampler.stop()
        assert not [thread for thread in threading.enumerate() if thread.name == "fairlane-sampler"]


def test_a_sample_that_fails_leaves_the_last_one():
    """A store that cannot be read for a while: what was seen stays, the error is told, and it goes on by itself."""
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        sampler = Sampler(app)
        first = sampler.sample()
        read = app.owner.read

        def broken(op: Any) -> Any:
            raise fl.StoreError("gone")

        app.owner.read = broken  # type: ignore[method-assign]
        clock.advance(seconds=60)
        with pytest.raises(fl.StoreError):
            sampler.latest()
        assert sampler.held is first
        assert sampler.error == "gone"
        app.owner.read = read  # type: ignore[method-assign]
        assert sampler.latest().version == first.version + 1
        assert sampler.error is None


def test_a_clock_that_steps_back_stops_nothing():
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        sampler = Sampler(app)
        app.enqueue("t")
        sampler.sample()
        clock.step(seconds=-7_200)
        assert sampler.latest().at_ms == clock.now_ms()
        clock.step(seconds=86_400)
        assert sampler.latest().at_ms == clock.now_ms()


def test_listeners_that_fail_harm_nobody():
    with fl.Fairlane("sqlite://") as app:
        sampler = Sampler(app)
        heard: list[int] = []

        def bad(version: int) -> None:
            raise RuntimeError("no")

        with sampler.watch(bad), sampler.watch(heard.append):
            sampler.sample()
        assert heard == [1]


def test_values_know_how_long_they_took():
    assert Ending(1, "q", "t", "a", 2, 5, None, 9).run_ms == 0
    assert Ending(1, "q", "t", "a", 2, 3, 4, 9).run_ms == 5
    assert Sighting(1, b"", "q", "t", "a", 2, 0, 0, False, False).wait_ms is None


# ---------------------------------------------------------------- the stream


async def test_the_stream_tells_of_samples_and_ends_with_the_server():
    clock = ManualClock()
    with fl.Fairlane("sqlite://", clock=clock) as app:
        sampler = Sampler(app)
        live = Live(sampler)

        async def may() -> bool:
            return True

        stream = live.stream(may)
        assert (await anext(stream)).startswith("retry:")
        assert sampler.watchers == 1
        await asyncio.to_thread(sampler.sample)
        assert await anext(stream) == "event: new\nid: 1\ndata: 1\n\n"
        live.stop()
        async with asyncio.timeout(10):
            assert [event async for event in stream] == []
        assert sampler.watchers == 0


async def test_a_listener_whose_token_is_revoked_is_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fairlane.dashboard.live.BEAT_S", 0.001)
    with fl.Fairlane("sqlite://") as app:

        async def may_not() -> bool:
            return False

        events = [event async for event in Live(Sampler(app)).stream(may_not)]
        assert "event: beat\ndata: 0\n\n" in events


# ---------------------------------------------------------------- files


def test_what_is_vendored_is_what_its_packages_ship():
    """The checksums of VENDORED hold, and every library has its licence beside it."""
    for folder in (STATIC, VENDOR):
        lines = (folder / "VENDORED").read_text().splitlines()
        rows = [line.split() for line in lines[lines.index("") + 1 :] if line.strip()][1:]
        assert rows
        for row in rows:
            assert hashlib.sha256((folder / row[0]).read_bytes()).hexdigest() == row[-1], row[0]
            licence = next(part.strip("()") for part in row if part.startswith("LICENSE") or part.endswith(")"))
            assert (folder / licence).stat().st_size > 100
    vendored = {line.split()[0] for line in (STATIC / "VENDORED").read_text().splitlines() if ".min." in line}
    assert vendored >= {path.name for path in STATIC.glob("*.min.*")}


def test_files_are_kept_by_browsers_until_they_change():
    with world(filled=False, open_=False) as w:
        address = next(part for part in w.client.get("/login").text.split('"') if "fairlane.css" in part)
        answer = w.client.get(address, headers={"accept-encoding": "identity"})
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].startswith("text/css")
        packed = w.client.get(address, headers={"accept-encoding": "gzip"})
        assert packed.content == answer.content  # the client unpacks it
        assert int(packed.headers["content-length"]) < len(answer.content) / 3
        again = w.client.get(address, headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
        assert "immutable" not in w.client.get("/static/fairlane.css?v=old").headers["cache-control"]
        for name in ("VENDORED", "LICENSE.htmx", "none.js", "..%2f..%2fwords.py", "%2e%2e/words.py"):
            assert w.client.get(f"/static/{name}").status_code in {404, 401}, name
        assert gzip.decompress(gzip.compress(answer.content)) == answer.content


# ---------------------------------------------------------------- what a large store costs


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 20,000 jobs of 50 tenants: small enough to make, large enough to show a walk over all rows."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))
    from _big_store import build

    path = tmp_path_factory.mktemp("large") / "jobs.db"
    build(path, waiting=10_000, ended=10_000, tenants=50)
    return path


@pytest.mark.parametrize("name", ["depth", "counts", "ends", "ended_page", "express_page"])
def test_no_sample_walks_over_the_jobs(large: Path, name: str):
    """B47: what is asked once a second goes along indexes; the table, with all that jobs carry, is not scanned."""
    values = {"since_ms": 0, "most": 10, "state": 3, "before_ms": 2**62, "before": 2**62}
    values |= dict.fromkeys(("queue", "task", "tenant", "tier"))
    db = sqlite3.connect(large)
    steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query('sqlite', name)}", values)]
    db.close()
    assert steps
    assert "SCAN job" not in steps, steps
    assert not [step for step in steps if step.startswith("SCAN job") and "INDEX" not in step], steps


def test_what_a_sample_reads_does_not_grow_with_the_jobs(large: Path):
    """The steps of SQLite's machine for a sample, once the hour is known: bounded by lanes, not by rows."""
    with fl.Fairlane(f"sqlite:///{large}", durability="normal") as app:
        sampler = Sampler(app)
        sampler.sample()
        lanes = len(sampler.sample().depth)
        store: Any = app.owner.store
        db = store._reader.raw
        steps = 0

        def tick() -> int:
            nonlocal steps
            steps += 1
            return 0

        db.set_progress_handler(tick, 100)
        sampler.sample()
        db.set_progress_handler(None, 0)
        assert steps * 100 < lanes * 150 + 20_000, (steps, lanes)


def test_counts_are_cut_where_they_would_walk(large: Path):
    """Promise 11: a figure that is cut short says ``10,000+``; one that is known is exact."""
    with fl.Fairlane(f"sqlite:///{large}", durability="normal") as app:
        desk = Desk(app, LOCAL)
        lanes = Sampler(app).sample().depth
        waiting = asyncio.run(desk.quick_count(parse("state:waiting").which, lanes))
        assert waiting is not None
        assert (waiting.count, waiting.more) == (10_000, False)
        own = asyncio.run(desk.quick_count(parse("tenant:tenant-0007 queue:mail state:available").which, lanes))
        assert own is not None
        assert own.count == len(app.jobs(tenant="tenant-0007", queue="mail", state="available", limit=1000))
        assert asyncio.run(desk.quick_count(parse("tenant:tenant-0007").which, lanes)) is None
        confined = Desk(app, Actor("somebody", "viewer", "tenant-0007"))
        other = asyncio.run(confined.quick_count(parse("tenant:tenant-0001 state:available").which, lanes))
        assert other is not None
        assert other.count == 0
    assert words.whole(10_000, more=True) == "10,000+"


def test_ended_jobs_are_found_behind_a_backlog(large: Path):
    """What ended is older than all that waits; its page shows it at once, by its end."""
    with fl.Fairlane(f"sqlite:///{large}", durability="normal") as app:
        desk = Desk(app, LOCAL)
        page = asyncio.run(desk.found(parse("state:completed tenant:tenant-0001").which, limit=20))
        ends = [job.finished_at for job in page]
        assert len(ends) == 20
        assert ends == sorted(ends, key=lambda at: at.timestamp() if at else 0, reverse=True)
        assert {job.tenant for job in page} == {"tenant-0001"}
