"""The power is cut: every job whose enqueue had returned is there, and the file is whole. The argument is in
docs/guides/durability.md; here is what can be tested of it without pulling a plug.

* From a trace of the system calls it is known what had been flushed at each moment. Whatever part of the rest is lost,
  the store opens, is right, and has what was accepted (``full``) or a first part of it (``normal``).
* All writers are stopped and the files are copied: what a cut leaves when the disk has taken all that was written.
* Such a WAL is cut at every kind of place: the store is as of an earlier commit, in the order of commits.
* A copy of files in use is no backup. It says when one is good all the same, and that it is good then.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
import threading
from pathlib import Path

import pytest
from field import Field, seeded
from flushed import Call, Disk, can_trace, trace
from images import Held, Image, frames, header, held

pytestmark = [pytest.mark.crash]

TENANTS = ["a", "b", "c"]

ENQUEUES = """
import os, sys, uuid
from pathlib import Path
from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob, Settlement
from fairlane.domain.lanes import Ask
from fairlane.stores.sqlite.store import open_sqlite

path, durability, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = open_sqlite(f"sqlite:///{path}", clock=SystemClock(), durability=durability)
store._raw.execute("PRAGMA wal_autocheckpoint=60")  # so that there are checkpoints in a short run
accepted = os.open(path.with_name("accepted.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for n in range(count):
    job = NewJob(id=uuid.uuid4().bytes, task="t", args='{"pad": "%s"}' % ("x" * (n * 37 % 3000)), tenant="abc"[n % 3])
    with store.transaction():
        store.enqueue([job], 1_700_000_000_000 + n)
    os.write(accepted, job.id)
    if n % 4 == 3:
        with store.transaction():
            claims = store.claim(Ask("default", 1), worker="", lease_ms=60_000, now_ms=1_700_000_000_000 + n)
        with store.transaction():
            ends = [Settlement(seq=c.seq, fence=c.fence, kind="completed", run_us=1) for c in claims]
            store.settle(ends, 1_700_000_000_000 + n)
os._exit(0)
"""


# ---------------------------------------------------------------- what was flushed


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    if not can_trace(tmp_path):
        pytest.skip("strace is not there, or may not trace")
    program = tmp_path / "enqueues.py"
    program.write_text(ENQUEUES)
    return program


def _ids(calls: list[Call]) -> list[str]:
    texts = [call.body.hex() for call in calls if call.path.endswith("accepted.log") and call.name == "write"]
    return ["-".join((id_[:8], id_[8:12], id_[12:16], id_[16:20], id_[20:])) for id_ in texts]


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_after_a_power_cut_all_that_was_accepted_is_there(traced: Path, tmp_path: Path, durability: str):
    path = tmp_path / "jobs.db"
    calls = trace(tmp_path, traced, str(path), durability, "60")
    assert len(_ids(calls)) == 60
    assert any(call.name == "pwrite64" and call.path == str(path) for call in calls), "there were checkpoints"
    accepting = [n for n, call in enumerate(calls) if call.path.endswith("accepted.log")]
    rng = random.Random(durability)
    cuts = sorted({*rng.sample(range(accepting[0], len(calls)), 50), *(n + 1 for n in rng.sample(accepting, 10))})
    disk = Disk()
    done = 0
    for cut in cuts:
        for call in calls[done:cut]:
            disk.do(call)
        done = cut
        order = _ids(calls)
        accepted = len(_ids(calls[:cut]))
        there = held(disk.image(path, rng), tmp_path / "image").jobs
        assert there == order[: len(there)] or there[:-1] == order, "not a first part, in order"
        if durability == "full":
            assert len(there) >= accepted, f"cut {cut}: {accepted - len(there)} accepted jobs are lost"


@pytest.mark.parametrize(("durability", "flushes"), [("full", True), ("normal", False)])
def test_each_commit_flushes_the_wal_under_full_only(traced: Path, tmp_path: Path, durability: str, flushes: bool):
    """And the folder, before the first job is accepted: it has the names of both files."""
    calls = trace(tmp_path, traced, str(tmp_path / "jobs.db"), durability, "12")
    accepting = [n for n, call in enumerate(calls) if call.path.endswith("accepted.log")]
    flushed = [n for n, call in enumerate(calls) if call.name == "fdatasync" and call.path.endswith("jobs.db-wal")]
    between = [any(a < n < b for n in flushed) for a, b in itertools.pairwise(accepting)]
    assert all(between) if flushes else not all(between)
    folder = [n for n, call in enumerate(calls) if call.name in {"fsync", "fdatasync"} and call.path == str(tmp_path)]
    made = next(n for n, call in enumerate(calls) if call.name == "pwrite64" and call.path.endswith("jobs.db-wal"))
    assert any(made < n < accepting[0] for n in folder)


# ---------------------------------------------------------------- all that was written


def stopped(field: Field) -> tuple[Image, list[str]]:
    """Stop every process, copy the files, read who was accepted, and let them go on."""
    running = [process for process in field.processes if process.poll() is None]
    for process in running:
        field.pause(process)
    image, accepted = Image.of(field.path), field.accepted()
    for process in running:
        field.resume(process)
    return image, accepted


@pytest.mark.parametrize("seed", range(2))
def test_an_image_of_any_moment_opens_and_has_all_that_was_accepted(field: Field, seed: int):
    rng = seeded(seed)
    for _ in range(2):
        field.worker(concurrency=4)
    field.run("producer", task="nap", count=2_000, args={"ms": 3}, tenants=TENANTS)
    field.run("burst", coroutines=15)
    ending = threading.Event()
    checkpoints = threading.Thread(target=_checkpoint, args=(field.path, ending, seed))
    checkpoints.start()
    try:
        before: Held | None = None
        for _ in range(10):
            wanted = len(field.accepted()) + rng.randint(1, 150)
            field.until(lambda wanted=wanted: len(field.accepted()) >= wanted, "commits")
            image, accepted = stopped(field)
            torn = bytes(rng.randbytes(rng.randint(0, 6_000)))
            now = held(image.cut(len(image.wal), torn if rng.random() < 0.5 else b""), field.folder / "image")
            assert set(accepted) <= set(now.jobs)
            if before is not None:
                assert before.jobs == now.jobs[: len(before.jobs)], "numbers are those of before"
                assert all(now.fences[job] >= fence for job, fence in before.fences.items())
            before = now
    finally:
        ending.set()
        checkpoints.join()


def _checkpoint(path: Path, ending: threading.Event, seed: int) -> None:
    """Move pages from the WAL to the file, and let the WAL begin anew, now and then."""
    rng = seeded(seed)
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        while not ending.wait(rng.uniform(0.005, 0.05)):
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute(f"PRAGMA wal_checkpoint({rng.choice(['PASSIVE', 'RESTART', 'TRUNCATE'])})")


# ---------------------------------------------------------------- a part of it


def test_a_wal_that_is_cut_anywhere_holds_a_first_part_of_the_commits(field: Field):
    """At a boundary of frames, inside a frame, with a damaged frame, with rubbish behind it."""
    base = len(frames(Image.of(field.path).wal))
    assert base > 0, "the WAL reaches back to the beginning"
    field.worker(concurrency=4)
    field.run("producer", task="nap", count=300, args={"ms": 1}, tenants=TENANTS)
    field.until(lambda: len(field.accepted()) >= 120, "commits")
    image, accepted = stopped(field)
    whole = frames(image.wal)
    assert header(field.path) == image.wal[:32]
    assert len(whole) > base + 100
    rng = seeded(7)
    chosen = sorted({*rng.sample(range(base, len(whole)), 40), *range(len(whole) - 12, len(whole))})
    before: list[str] = []
    for n in chosen:
        frame = whole[n]
        spoilt = rng.choice(("boundary", "torn", "flipped", "rubbish"))
        if spoilt == "torn":
            cut = image.cut(frame.end - rng.randint(1, 4_000))
        elif spoilt == "flipped":
            place = rng.randrange(frame.start, frame.end)
            cut = image.cut(place, bytes([image.wal[place] ^ 0x40]) + image.wal[place + 1 :])
        else:
            cut = image.cut(frame.end, rng.randbytes(5_000) if spoilt == "rubbish" else b"")
        now = held(cut, field.folder / "image").jobs
        assert now == accepted[: len(now)] or now[:-1] == accepted, f"frame {n} {spoilt}: not the first ones, in order"
        assert before == now[: len(before)], f"frame {n} {spoilt}: less than a shorter WAL has"
        before = now
    assert set(accepted) <= set(held(image, field.folder / "image").jobs)
    last = max(n for n, frame in enumerate(whole) if frame.commits)
    assert set(accepted) <= set(held(image.cut(whole[last].end), field.folder / "image").jobs)


# ---------------------------------------------------------------- copies of files in use


def test_a_copy_of_files_in_use_is_good_if_the_wal_did_not_begin_anew(field: Field):
    """The main file first, then the WAL, and the WAL's header the same before and after.

    All that a checkpoint has written into the main file meanwhile is in that WAL too, which wins. If the header has
    changed, the copy may lack what was moved and overwritten since: it must be thrown away.
    """
    field.worker(concurrency=4)
    field.run("producer", task="nap", count=3_000, args={"ms": 2}, tenants=TENANTS)
    field.run("burst", coroutines=10)
    field.until(lambda: len(field.accepted()) >= 50, "commits")
    ending = threading.Event()
    checkpoints = threading.Thread(target=_checkpoint, args=(field.path, ending, 3))
    checkpoints.start()
    good = 0
    try:
        for _ in range(400):
            accepted = set(field.accepted())
            first = header(field.path)
            image = Image.of(field.path)
            if header(field.path) != first or len(first) < 32 or image.wal[:32] != first:
                continue
            good += 1
            assert accepted <= set(held(image, field.folder / "image").jobs)
            if good == 12:
                break
    finally:
        ending.set()
        checkpoints.join()
    assert good == 12
