"""Dedup keys and order between jobs, as callers see them; and the rules of a batch on its way in."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from typing import Any

import pytest
from msgspec import structs

import fairlane as fl
from fairlane.domain.intake import Holders, Parent, take_in, waiting_order
from fairlane.domain.jobs import NewJob
from fairlane.domain.states import State
from fairlane.options import after_of
from fairlane.testing.clock import ManualClock


def drained(app: fl.Fairlane) -> list[uuid.UUID]:
    """Run what may run, one after the other, and return the ids."""
    ran = []
    while (claim := app.claim()) is not None:
        ran.append(claim.job.id)
        claim.ack()
    return ran


# ---------------------------------------------------------------- the order of a batch


def ident(number: int) -> bytes:
    return uuid.UUID(int=number).bytes


def test_a_batch_without_order_keeps_its_own() -> None:
    assert list(waiting_order([(ident(3), []), (ident(1), [ident(9)]), (ident(2), [])])) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_every_job_comes_after_those_that_it_waits_for(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.choice([2, 10, 200])
    ids = [ident(number) for number in range(count)]
    jobs = [(own, draw.sample(ids[:place], min(place, draw.randrange(4)))) for place, own in enumerate(ids)]
    draw.shuffle(jobs)
    order = waiting_order(jobs)
    assert sorted(order) == list(range(count))
    seen: set[bytes] = set()
    for place in order:
        own, after = jobs[place]
        assert seen.issuperset(after)
        seen.add(own)


@pytest.mark.parametrize("seed", range(20))
def test_a_circle_is_found_and_named_wherever_it_is(seed: int) -> None:
    draw = random.Random(seed)
    count, length = 60, draw.choice([1, 2, 3, 9])
    ids = [ident(number + 1) for number in range(count)]
    after: dict[bytes, list[bytes]] = {
        own: draw.sample(ids[:place], min(place, draw.randrange(3))) for place, own in enumerate(ids)
    }
    circle = [ident(1000 + number) for number in range(length)]
    for number, own in enumerate(circle):
        after[own] = [circle[number - 1], draw.choice(ids)]
    jobs = list(after.items())
    draw.shuffle(jobs)
    with pytest.raises(fl.InvalidJob, match="circle") as caught:
        waiting_order(jobs)
    named = str(caught.value).split(": ")[1].split(" after ")
    assert named[0] == named[-1]
    assert len(named) == length + 1
    for own, before in itertools.pairwise(named):
        assert uuid.UUID(before).bytes in after[uuid.UUID(own).bytes]


def test_a_batch_waits_for_a_bounded_number_of_jobs_in_all() -> None:
    parents = tuple(ident(number) for number in range(1_000))
    jobs = [NewJob(id=ident(2_000 + number), task="t", after=parents) for number in range(101)]
    with pytest.raises(
        fl.InvalidJob, match=r"the 101 jobs of this batch wait for 101,000 jobs in all; at most 100,000"
    ):
        take_in(jobs, lambda _queue, _key: Holders(), lambda _job: None)
    taken = take_in(jobs[:100], lambda _queue, _key: Holders(), lambda _job: Parent(1, State.SCHEDULED))
    assert len(taken.new) == 100


def test_a_long_chain_needs_no_deep_recursion_and_a_long_circle_is_cut_short() -> None:
    ids = [ident(number) for number in range(10_000)]
    chain = [(own, [before]) for before, own in itertools.pairwise(ids)]
    assert len(waiting_order([*chain, (ids[0], [])])) == 10_000
    with pytest.raises(fl.InvalidJob, match="9990 more"):
        waiting_order([*chain, (ids[0], [ids[-1]])])


def test_jobs_without_keys_and_order_pass_untouched() -> None:
    jobs = [NewJob(id=ident(number), task="t") for number in range(3)]

    def nobody(*_: Any) -> Any:
        raise AssertionError("nothing needs to be looked up")

    taken = take_in(jobs, nobody, nobody)
    assert (taken.new, taken.ties, taken.replaced) == (jobs, {}, {})


def test_each_parent_is_looked_up_once() -> None:
    asked: list[bytes] = []

    def parent(job_id: bytes) -> Parent:
        asked.append(job_id)
        return Parent(7, State.RUNNING)

    jobs = [NewJob(id=ident(number), task="t", after=(ident(50), ident(51))) for number in range(10)]
    take_in(jobs, lambda queue, key: Holders(), parent)
    assert sorted(asked) == [ident(50), ident(51)]


# ---------------------------------------------------------------- what callers may say


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"after": 5}, "named by its UUID"),
        ({"after": b"1234567890123456"}, "named by its UUID"),
        ({"after": ["no id"]}, "named by its UUID"),
        ({"after": [None]}, "named by its UUID"),
        ({"after": [uuid.UUID(int=number) for number in range(10_001)]}, "after names 10,001 jobs; at most 10,000"),
        ({"on_failure": "retry"}, "on_failure 'retry' is not one of cancel, run"),
        ({"dedup_ttl": 0}, "dedup_ttl is 0"),
        ({"dedup_ttl": "1 h"}, "dedup_ttl must be a number"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_stored(
    app: fl.Fairlane, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(fl.InvalidJob, match=says):
        app.enqueue("t", **options)
    assert len(app.jobs()) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dedup_ttl": 5}, "dedup_ttl needs a dedup_key"),
        ({"dedup_key": "k", "on_conflict": "replace", "after": [uuid.UUID(int=1)]}, "after cannot be used with"),
    ],
)
def test_options_that_contradict_each_other(app: fl.Fairlane, options: dict[str, Any], says: str) -> None:
    with pytest.raises(fl.InvalidJob, match=says):
        app.enqueue("t", **options)


def test_jobs_are_named_in_many_ways(app: fl.Fairlane) -> None:
    first = app.enqueue("t")
    new = app.new("t")
    group = app.group([app.new("t"), app.new("t")])
    inside = [job.id.bytes for job in group.jobs]
    own = first.id.bytes
    assert after_of("after", first) == after_of("after", first.id) == after_of("after", str(first.id)) == (own,)
    assert after_of("after", new) == (new.id,)
    assert after_of("after", group) == tuple(inside)
    assert after_of("after", [first, group, new, first.id]) == (own, *inside, new.id)
    assert after_of("after", None) == after_of("after", []) == ()


def test_order_over_every_way_to_enqueue(app: fl.Fairlane) -> None:
    @app.task
    def step(n: int) -> None: ...

    first = step.enqueue(1)
    second = step.using(after=first, tier="critical").enqueue(2)
    third = app.enqueue("step", {"n": 3}, after=[second, first.id], tier="critical")
    new = step.using(after=[third], tier="critical").new(4)
    last = step.using(after=[new], tier="critical").new(5)
    fourth, fifth = app.enqueue_many([last, new])
    assert (second.behind, third.behind, fourth.behind) == (1, 2, 1)
    assert drained(app) == [first.id, second.id, third.id, fifth.id, fourth.id]


def test_using_again_replaces_what_was_said(app: fl.Fairlane) -> None:
    @app.task
    def step() -> None: ...

    first, second = step.enqueue(), step.enqueue()
    job = step.using(after=[first]).using(after=[second], on_failure="run").enqueue()
    assert (job.behind, job.record.on_failure) == (1, "run")
    app.cancel(second)
    assert job.refresh().state == "available"


def test_the_result_of_a_job_that_was_cancelled_with_another_tells_why(app: fl.Fairlane) -> None:
    first = app.enqueue("t")
    second = app.enqueue("t", after=first)
    claim = app.claim()
    assert claim is not None
    claim.dead("broken")
    with pytest.raises(fl.JobCancelled, match=str(first.id)):
        second.result(timeout=5)


def test_an_unknown_job_is_not_waited_for(app: fl.Fairlane) -> None:
    with pytest.raises(fl.JobNotFound):
        app.enqueue("t", after=uuid.UUID(int=9))
    assert len(app.jobs()) == 0


def test_a_circle_in_a_batch_is_refused(app: fl.Fairlane) -> None:
    first, second = app.new("t"), app.new("t")
    circle = [structs.replace(first, after=(second.id,)), structs.replace(second, after=(first.id,))]
    with pytest.raises(fl.InvalidJob, match="circle"):
        app.enqueue_many(circle)
    assert len(app.jobs()) == 0


def test_batches_may_wait_for_batches_before_them(app: fl.Fairlane) -> None:
    new = [app.new("t")]
    for _ in range(4):
        new.append(app.new("t", after=new[-1]))
    jobs = app.enqueue_many(new, batch=2)
    assert drained(app) == [job.id for job in jobs]


async def _later(app: fl.Fairlane) -> list[str]:
    first = await app.aenqueue("t")
    second = await app.aenqueue("t", after=first)
    return [(await job.arefresh()).state for job in (first, second)]


def test_the_asynchronous_face(app: fl.Fairlane) -> None:
    assert asyncio.run(_later(app)) == ["available", "scheduled"]


# ---------------------------------------------------------------- dedup keys, as callers see them


def test_throttle(app: fl.Fairlane, clock: ManualClock) -> None:
    first = app.enqueue("t", dedup_key="k", dedup_ttl=60)
    drained(app)
    again = app.enqueue("t", dedup_key="k", dedup_ttl=60)
    assert (again.id, again.created, again.state) == (first.id, False, "completed")
    clock.advance(seconds=60)
    assert app.enqueue("t", dedup_key="k").created


def test_debounce(app: fl.Fairlane, clock: ManualClock) -> None:
    for n in range(5):
        job = app.enqueue("t", {"n": n}, dedup_key="k", on_conflict="replace", delay=2)
        assert job.created == (n == 0)
        clock.advance(seconds=1)
    clock.advance(seconds=1)
    claim = app.claim()
    assert claim is not None
    assert claim.job.args == {"n": 4}


def test_one_runs_and_one_waits(app: fl.Fairlane) -> None:
    app.enqueue("t", dedup_key="k")
    claim = app.claim()
    assert claim is not None
    jobs = [app.enqueue("t", dedup_key="k", on_conflict="successor") for _ in range(3)]
    assert [job.created for job in jobs] == [True, False, False]
    assert len({job.id for job in jobs}) == 1
    assert app.claim() is None
    claim.nack("broken", retry_in=0)
    assert drained(app) == [claim.job.id, jobs[0].id]


def test_a_conflict_says_who_holds_the_key(app: fl.Fairlane) -> None:
    first = app.enqueue("t", dedup_key="k")
    with pytest.raises(fl.DedupConflict, match=f"held by the live job {first.id}"):
        app.enqueue("t", dedup_key="k", on_conflict="raise")
    claim = app.claim()
    assert claim is not None
    with pytest.raises(fl.DedupConflict, match="has begun and cannot be replaced") as caught:
        app.enqueue("t", dedup_key="k", on_conflict="replace")
    assert caught.value.job_id == first.id


def test_explain_says_which_jobs_are_waited_for(app: fl.Fairlane) -> None:
    first = app.enqueue("t")
    second = app.enqueue("t", after=first)
    told = app.explain(second.id)
    assert told.cause == "order"
    assert f"it waits for the end of 1 job: {first.id}" in told.summary
