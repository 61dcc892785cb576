"""A worker process ends when it is told to, in time, and gives back what it holds unharmed: B27, T-M26, T-C11."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from field import Field, Process

from fairlane import owner as owner_module
from fairlane.errors import StoreBusy

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]

LATE_S = 2.0
"""What an end may take beyond the grace."""
BUSY_S = 1.0
"""What a busy machine may add."""


def ends(process: Process, within: float) -> float:
    """Wait for a process that was told to end, see that it ends well, and return how long it took."""
    began = time.monotonic()
    assert process.wait(within + 5) == 0
    took = time.monotonic() - began
    assert took < within, f"it took {took:.1f} s"
    return took


def beside(field: Field) -> list[str]:
    return sorted(path.name.partition(".")[2] or path.name for path in (field.folder / "jobs.db.fairlane").iterdir())


def up(field: Field, process: Process) -> None:
    field.until(
        lambda: process.poll() is None and field.app.owner.read(lambda store, now_ms: store.workers()), "a worker"
    )


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_at_once_and_leaves_nothing_behind(field: Field, which: signal.Signals):
    process = field.worker(grace=30.0)
    up(field, process)
    time.sleep(0.1)  # the worker is on record before it listens to signals no later than this
    process.send_signal(which)
    ends(process, LATE_S)
    assert field.app.owner.read(lambda store, now_ms: store.workers()) == []
    assert beside(field) == ["gate"], "its sign of life and its bell are gone"
    field.audit()


def test_a_run_that_ends_within_the_grace_is_completed(field: Field):
    (job,) = field.enqueue("hold", ms=700)
    (waits,) = field.enqueue("nap")
    process = field.worker(concurrency=1, grace=10.0)
    field.until_started(1)
    process.send_signal(signal.SIGTERM)
    ends(process, 0.7 + LATE_S)
    assert field.ends() == {job: 1}
    assert (field.app.get(job).state, field.app.get(waits).state) == ("completed", "available")
    field.audit(crash_budget=0)


@pytest.mark.parametrize("task", ["deaf", "block"])
def test_what_does_not_end_is_given_back_unharmed(field: Field, task: str):
    (job,) = field.enqueue(task, **({"ms": 60_000} if task == "block" else {}))
    process = field.worker(grace=0.3)
    field.until_started(1)
    process.send_signal(signal.SIGTERM)
    ends(process, 0.3 + LATE_S + BUSY_S)
    record = field.app.get(job)
    assert (record.state, record.failures, record.crashes) == ("available", 0, 0)
    claim = field.app.claim()
    assert claim is not None, "it can be claimed at once"
    assert (claim.attempt, str(claim.id)) == (1, job), "and its attempts are as they were"
    claim.release()
    field.audit(crash_budget=0)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_gives_back_at_once(field: Field, which: signal.Signals):
    field.enqueue("wait_for", 3, path=str(field.folder / "never"))
    process = field.worker(grace=60.0)
    field.until_started(3)
    process.send_signal(which)
    field.until(lambda: len(field.lines("told")) == 3, "the handlers' notice")
    assert process.poll() is None, "it waits for them"
    process.send_signal(which)
    ends(process, LATE_S + BUSY_S)
    assert field.states() == {"available": 3}
    field.audit(crash_budget=0)


@pytest.mark.parametrize("place", ["after_claim_commit", "before_ack", "after_ack_before_return"])
def test_a_signal_at_a_place_loses_and_charges_nothing(field: Field, place: str):
    """The process stands still at the place while the signal comes."""
    field.enqueue("nap", 6)
    process = field.worker(fail=f"{place}:pause", concurrency=2)
    field.until(lambda: _stopped(process), "the place")
    process.send_signal(signal.SIGTERM)
    field.resume(process)
    ends(process, LATE_S + BUSY_S)
    assert "running" not in field.states()
    field.finish()
    assert set(field.starts().values()) == {1}
    assert set(field.ends()) == set(field.accepted())
    field.audit(crash_budget=0)


@pytest.mark.parametrize("what", ["the lock", "the gate"])
def test_a_worker_ends_in_time_although_somebody_holds_the_store(field: Field, what: str):
    """B27: during an outage. Its job is not given back; it is rescued, for the process is gone."""
    (job,) = field.enqueue("wait_for", path=str(field.folder / "release"))
    process = field.worker(grace=0.5, lease=30)
    field.until_started(1)
    if what == "the lock":
        other = field.run("holder", pipe=True, seconds=14)
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
    else:
        other = field.run("stops_inside")
        field.until(lambda: _stopped(other), "the stop")
    try:
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < 0.5 + LATE_S + 2 * BUSY_S:
            time.sleep(0.02)
        assert process.poll() == 0
    finally:
        field.kill9(other)
        process.kill()
        process.wait()
    (field.folder / "release").touch()
    field.finish()
    assert field.app.get(job).state == "completed"


def test_a_process_that_stands_still_inside_a_transaction_makes_others_raise_busy(field: Field, monkeypatch):
    """Section 7: other calls wait, then raise StoreBusy; one that was given up is never carried out."""
    other = field.run("stops_inside")
    field.until(lambda: _stopped(other), "the stop")
    monkeypatch.setattr(owner_module, "BUSY_S", 1.0)
    carried_out = []
    try:
        with pytest.raises(StoreBusy, match="has held the store for 1 s"):
            field.app.owner.call(lambda store, now_ms: carried_out.append(now_ms))
    finally:
        field.kill9(other)
    field.app.owner.call(lambda store, now_ms: None)
    assert carried_out == []


def test_old_and_new_overlap_under_one_name(field: Field):
    """B20: a rolling restart; the old one claims nothing more, and nothing runs twice."""
    field.enqueue("hold", 60, ms=20)
    old = field.worker(name="w", concurrency=2)
    field.until_started(5)
    new = field.worker(name="w", concurrency=2)
    old.send_signal(signal.SIGTERM)
    ends(old, LATE_S + BUSY_S)
    after = len(field.lines())
    field.until_done()
    assert {line.pid for line in field.lines()[after:]} <= {new.pid}
    assert set(field.starts().values()) == {1}
    field.audit(crash_budget=0)


def test_a_worker_that_runs_until_idle_ends_by_itself(field: Field):
    """T-C11."""
    field.enqueue("nap", 20)
    field.app.enqueue("nap", {}, delay=3600)
    process = field.worker(until_idle=True)
    assert process.wait(15) == 0
    assert field.states() == {"completed": 20, "scheduled": 1}
    field.audit(crash_budget=0)


def _stopped(process: Process) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
