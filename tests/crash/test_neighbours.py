"""Many processes on one file, forks, and programs that know nothing of us: B05, B17, B26, T-M10, T-C11."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from collections import Counter

import pytest
from field import Field, cpu_ticks

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]


def test_eight_processes_claim_one_job_three_hundred_times(field: Field):
    """T-M10: every claim has one winner, and no two hold it at once."""
    field.enqueue("nap")
    racers = [field.run("racer", claims=300) for _ in range(8)]
    field.until(lambda: len(field.lines("end")) >= 300, "300 claims")
    starts = field.lines("start")
    assert [line.fence for line in starts] == list(range(1, 301))
    assert field.running() == {"all": 1}
    for process in racers:
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            process.kill()
            process.wait()
    print("wins:", sorted(Counter(line.pid for line in starts).values()))  # noqa: T201  a figure for people
    assert len({line.pid for line in starts}) > 1


def test_two_claiming_processes_keep_turns_fair(field: Field):
    for tenant in "abc":
        field.app.enqueue_many([field.app.new("nap", {"ms": 4}, tenant=tenant) for _ in range(150)])
    workers = [field.worker(concurrency=2) for _ in range(2)]
    field.until_done()
    starts = field.lines("start")
    shares = Counter(line.tenant for line in starts[:300])
    print("shares of the first 300:", dict(shares), "by process:", Counter(line.pid for line in starts).values())  # noqa: T201  a figure for people
    assert all(90 <= shares[tenant] <= 110 for tenant in "abc"), shares
    assert {line.pid for line in starts} == {process.pid for process in workers}
    assert len(starts) == 450
    field.audit(crash_budget=0)


def test_eight_processes_keep_to_limits_at_every_instant(field: Field):
    """B05: a named limit of 3 for all, 2 for each tenant; judged by the handlers' own log."""
    field.app.limits["shared"].set(max_running=3)
    for tenant in "abc":
        field.app.tenants[tenant].set(max_running=2)
    for tenant in "abc":
        field.app.enqueue_many([field.app.new("limited", {"ms": 3}, tenant=tenant) for _ in range(60)])
    for _ in range(8):
        field.worker(concurrency=4)
    field.until_done(30)
    assert 1 < field.running()["all"] <= 3
    most = field.running(by=lambda line: line.tenant)
    assert set(most) == set("abc")
    assert 1 < max(most.values()) <= 2  # on a busy machine a tenant may never have had two at once
    assert set(field.starts().values()) == {1}
    field.audit(crash_budget=0)


def test_an_idle_worker_uses_next_to_no_processor_time(field: Field, record_property):
    process = field.worker()
    field.enqueue("nap", 3)
    field.until_done()
    time.sleep(0.5)
    before = cpu_ticks(process.pid)
    time.sleep(5)
    share = (cpu_ticks(process.pid) - before) / os.sysconf("SC_CLK_TCK") / 5
    record_property("share_of_a_core", share)
    print(f"an idle worker uses {share:.2%} of a core")  # noqa: T201  a figure for people
    assert share < 0.05


def test_a_program_that_holds_the_lock_stops_nobody_for_good(field: Field):
    """B17: a foreign write lock of 3 s and a reader of 5 s; eight writers and four workers go on after it."""
    reader = sqlite3.connect(field.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM job").fetchone()
    workers = [field.worker(concurrency=2) for _ in range(4)]
    writers = [field.run("writer", count=30) for _ in range(8)]
    field.until_started(1)
    holder = field.run("holder", pipe=True, seconds=3)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    began = time.monotonic()
    ended = len(field.lines("end"))
    assert holder.wait(10) == 0
    field.until(lambda: len(field.lines("end")) > ended + 20, "work after the lock")
    print(f"work again {time.monotonic() - began:.2f} s after the lock was taken")  # noqa: T201  a figure for people
    assert [process.wait(15) for process in writers] == [0] * 8, "no enqueue was refused"
    reader.execute("ROLLBACK")
    reader.close()
    field.until_done()
    assert [process.poll() for process in workers] == [None] * 4, "no worker died"
    assert len(field.accepted()) == 240
    assert field.starts() == field.ends() == Counter(field.accepted())
    field.audit(crash_budget=0)


@pytest.mark.parametrize(
    "busy",
    [False, True],
)
def test_fifty_forked_children_enqueue_and_end_in_both_ways(field: Field, busy: bool):
    """B26: while the parent's own threads are in the middle of a write, when ``busy``."""
    forker = field.run("forker", children=50, busy=busy)
    assert forker.wait(18) == 0
    field.app.enqueue("nap", {})
    assert len(field.accepted()) >= 52
    field.audit()


def test_a_child_outlives_its_parents_store(field: Field):
    """B26: the parent closes the last real connection; what the child stores then must be kept."""
    field.app.close()
    forker = field.run("outlived")
    assert forker.wait(15) == 0
    with contextlib.closing(sqlite3.connect(field.path)) as db:
        stored = {row[0].lower() for row in db.execute("SELECT hex(id) FROM job").fetchall()}
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {job.replace("-", "") for job in field.accepted()} <= stored


def test_a_child_that_outlives_a_killed_parent_does_not_keep_the_store_shut(field: Field):
    """B26: a handler forks (multiprocessing does), the worker is killed inside a transaction, its child lives on."""
    release = field.folder / "release"
    field.enqueue("forks", path=str(release))
    worker = field.worker()
    field.until_started(1)
    try:
        for _ in range(20):  # its handler writes all the time: one of these hits it inside a transaction
            field.kill9(worker)
            answer = field.app.owner.submit(lambda store, now_ms: None)
            answer.result(3)
            before = len(field.lines("start"))
            worker = field.worker()
            field.until_started(before + 1)
    finally:
        field.kill9(worker)
        release.touch()
        with contextlib.suppress(TimeoutError):
            answer.result(5)


def test_a_child_that_closes_what_it_inherited_leaves_the_parents_bell_alone(field: Field):
    process = field.run("child_closes", pipe=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    field.enqueue("nap")
    assert process.stdout.readline() == b"heard\n"
