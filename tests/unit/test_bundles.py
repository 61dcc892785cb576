"""Groups: one result, one progress, one cancel for jobs that were enqueued together."""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path

import pytest

import fairlane as fl
from fairlane import bundles
from fairlane.testing.clock import ManualClock


def one(app: fl.Fairlane) -> fl.PulledClaim:
    claim = app.claim()
    assert claim is not None
    return claim


def test_results_come_in_the_order_of_the_jobs(app: fl.Fairlane) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    group = app.group(double.using(tier=n % 5).new(n) for n in range(12))  # type: ignore[typeddict-item]
    app.run_worker(until_idle=True, signals=False)
    assert group.result(timeout=5) == [2 * n for n in range(12)]
    assert app.get_group(group.id).result(timeout=5) == [2 * n for n in range(12)]


def test_results_are_typed_as_the_handler_says(app: fl.Fairlane) -> None:
    @app.task
    def name() -> uuid.UUID:
        return uuid.UUID(int=5)

    group = app.group([name.new()])
    app.run_worker(until_idle=True, signals=False)
    assert group.result(timeout=5) == [uuid.UUID(int=5)]


def test_waiting_ends_with_the_last_job(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(3))
    found: list[list[int]] = []
    waiting = threading.Thread(target=lambda: found.append(group.result(timeout=15)))
    waiting.start()
    for n in range(3):
        assert found == []
        one(app).ack(n)
    waiting.join(15)
    assert found == [[0, 1, 2]]


def test_the_last_jobs_may_end_first(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(4))
    claims = [one(app) for _ in range(4)]
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(group.join(timeout=15)))
    waiting.start()
    for claim in reversed(claims):
        claim.ack()
    waiting.join(15)
    assert found == [bundles.GroupProgress(4, {"completed": 4})]


def test_progress(app: fl.Fairlane) -> None:
    group = app.group([app.new("t"), app.new("t"), app.new("t", delay=5), app.new("t")])
    assert (group.progress().share, group.progress().counts) == (0.0, {"scheduled": 1, "available": 3})
    one(app).ack()
    one(app).dead("no")
    claim = one(app)
    progress = group.progress()
    assert progress.counts == {"scheduled": 1, "running": 1, "completed": 1, "dead": 1}
    assert (progress.total, progress.ended, progress.share, progress.removed) == (4, 2, 0.5, 0)
    claim.ack()
    group.jobs[2].owner.call(lambda store, now_ms: store.cancel(group.jobs[2].id.bytes, reason="", now_ms=now_ms))
    assert group.progress().share == 1.0


def test_failures_are_told_together(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(4))
    one(app).ack("fine")
    one(app).dead("broken")
    app.cancel(group.jobs[2], reason="unwanted")
    one(app).ack(None)
    with pytest.raises(fl.GroupFailed) as caught:
        group.result(timeout=5)
    error = caught.value
    assert (error.group_id, error.total) == (group.id, 4)
    assert [type(each) for each in error.failed] == [fl.JobFailed, fl.JobCancelled]
    for job in group.jobs[1:3]:
        assert str(job.id) in str(error)
    results = group.result(timeout=5, return_exceptions=True)
    assert (results[0], results[3]) == ("fine", None)
    assert isinstance(results[1], fl.JobFailed)
    assert isinstance(results[2], fl.JobCancelled)


def test_a_long_list_of_failures_is_cut(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(9))
    group.cancel(reason="enough")
    with pytest.raises(fl.GroupFailed, match=r"9 of the 9 jobs .* and 4 more"):
        group.result(timeout=5)


def test_a_wait_that_is_too_long(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(2))
    one(app).ack()
    with pytest.raises(fl.WaitTimeout, match=str(group.jobs[1].id)) as caught:
        group.result(timeout=0)
    assert "1 of the 2 jobs" in caught.value.__notes__[0]
    with pytest.raises(fl.InvalidValue):
        group.result(timeout=-1)


def test_closing_the_app_wakes_who_waits(tmp_path: Path) -> None:
    app = fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal")
    group = app.group([app.new("t")])
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            group.result(timeout=15)
        except fl.StoreError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not app.ends._waiting:
        threading.Event().wait(0.001)  # until it waits
    app.close()
    waiting.join(15)
    assert len(raised) == 1


def test_an_empty_group_is_done(app: fl.Fairlane) -> None:
    group = app.group([])
    assert group.result(timeout=0) == []
    assert (len(group), group.progress().share, group.cancel()) == (0, 1.0, 0)
    job = app.enqueue("t", after=group)
    assert job.state == "available"
    with pytest.raises(fl.GroupNotFound):
        app.get_group(group.id)


def test_cancel_stops_what_is_left(app: fl.Fairlane) -> None:
    first = app.new("t")
    group = app.group([first, app.new("t", after=first), app.new("t", delay=9), app.new("t")])
    claim = one(app)
    assert group.cancel(reason="enough") == 4
    assert [job.refresh().state for job in group.jobs] == ["running", "cancelled", "cancelled", "cancelled"]
    assert group.jobs[3].reason == "enough"
    assert claim.heartbeat() == "cancel"
    claim.ack()
    assert group.cancel() == 0


def test_cancel_counts_every_job_of_a_chain(app: fl.Fairlane) -> None:
    """A job that goes with the one in front of it was cancelled too."""
    new = [app.new("t")]
    for _ in range(4):
        new.append(app.new("t", after=new[-1]))
    group = app.group(new)
    assert group.cancel(reason="enough") == 5
    assert {job.refresh().reason for job in group.jobs} == {"enough"}


def test_a_group_larger_than_a_portion(app: fl.Fairlane) -> None:
    group = app.group(app.new("t") for _ in range(2 * bundles.AT_ONCE + 5))
    assert group.progress().counts == {"available": 2 * bundles.AT_ONCE + 5}
    assert group.cancel() == len(group) == 2 * bundles.AT_ONCE + 5
    assert len(group.result(timeout=5, return_exceptions=True)) == len(group)


def test_a_group_has_a_bound(app: fl.Fairlane) -> None:
    new = [app.new("t")] * 10_001
    with pytest.raises(fl.InvalidJob, match="at most 10,000"):
        app.group(new)
    assert len(app.jobs()) == 0


def test_only_new_jobs_form_a_group(app: fl.Fairlane) -> None:
    job = app.enqueue("t", dedup_key="k")
    with pytest.raises(fl.InvalidJob, match=r"task\.new"):
        app.group([job])  # type: ignore[list-item]
    with pytest.raises(fl.DedupConflict):
        app.group([app.new("t"), app.new("t", dedup_key="k")])
    assert len(app.jobs()) == 1


def test_a_job_that_joins_a_group(app: fl.Fairlane) -> None:
    @app.task
    def part(n: int) -> int:
        return n

    @app.task
    def total(group: str) -> int:
        return sum(app.get_group(group).result(timeout=0))

    group = app.group(part.new(n) for n in range(10))
    job = total.using(after=group, tier="critical").enqueue(str(group.id))
    assert job.behind == 10
    app.run_worker(until_idle=True, signals=False)
    assert job.result(timeout=5) == 45


def test_a_group_that_retention_has_thinned_out(app: fl.Fairlane, clock: ManualClock) -> None:
    group = app.group(app.new("t") for _ in range(2))
    one(app).ack("gone")
    clock.advance(seconds=1)
    keep = dict.fromkeys((fl.State.COMPLETED,), 0)
    app.owner.call(lambda store, now_ms: store.prune(now_ms, keep_ms=keep, surplus=(), limit=10))
    one(app).ack("kept")
    progress = group.progress()
    assert (progress.total, progress.removed, progress.share) == (2, 1, 1.0)
    with pytest.raises(fl.GroupFailed):
        group.result(timeout=5)
    gone, kept = group.result(timeout=5, return_exceptions=True)
    assert isinstance(gone, fl.JobNotFound)
    assert kept == "kept"
    assert app.get_group(group).result(timeout=5) == ["kept"]


def test_handles(app: fl.Fairlane) -> None:
    group = app.group([app.new("t")])
    other = app.get_group(str(group.id))
    assert (group == other, hash(group) == hash(other), group == 5) == (True, True, False)
    assert list(group) == list(other.jobs)
    assert repr(group) == f"<Group {group.id} of 1 jobs>"
    with pytest.raises(fl.InvalidValue):
        app.get_group("no id")


def test_the_asynchronous_face(app: fl.Fairlane) -> None:
    async def work() -> None:
        group = await app.agroup(app.new("t") for _ in range(2))
        one(app).ack(1)
        assert (await group.aprogress()).share == 0.5
        result = asyncio.create_task(group.aresult(timeout=15))
        one(app).ack(2)
        assert await result == [1, 2]
        assert await (await app.aget_group(group.id)).ajoin(timeout=5) == bundles.GroupProgress(2, {"completed": 2})
        assert await group.acancel() == 0

    asyncio.run(work())
