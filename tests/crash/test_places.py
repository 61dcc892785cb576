"""Processes end or stand still at every place that has a name: B06, B20, B22, B28."""

from __future__ import annotations

import random
import time

import pytest
from field import Field, armed, state_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]

SOME = random.Random(11).randint(5, 15)
TENANTS = ["a", "b", "c"]


@pytest.mark.parametrize("hit", [1, SOME])
@pytest.mark.parametrize("place", ["before_commit", "after_commit", "mid_promote"])
def test_a_worker_that_dies_around_its_commits_loses_nothing(field: Field, place: str, hit: int):
    """With ``mid_promote`` between a job's becoming available and the commit of it."""
    for n in range(40):
        field._mine.append(str(field.app.enqueue("nap", {"ms": 5}, delay=0.2 if n % 2 else 0.0).id))
    field.died(field.worker(fail=f"{place}:exit:{hit}", concurrency=4))
    field.finish()
    assert set(field.ends()) == set(field.accepted())
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit(crash_budget=1)


@pytest.mark.parametrize("hit", [1, SOME])
@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_a_producer_that_dies_around_its_commits_loses_nothing_that_was_accepted(field: Field, place: str, hit: int):
    """What was on its way is there or not, once at most."""
    producer = field.run(
        "producer", env=armed(f"{place}:exit:{hit}"), task="nap", count=100, args={"ms": 0}, tenants=TENANTS
    )
    field.died(producer)
    accepted = field.accepted()
    stored = field.app.jobs(limit=500).jobs
    assert len(accepted) <= len(stored) <= len(accepted) + 1
    field.finish()
    assert set(accepted) <= set(field.ends())
    assert set(field.starts().values()) <= {1}
    field.audit(crash_budget=0)


@pytest.mark.parametrize("place", ["after_claim_commit", "before_ack", "after_ack_before_return"])
def test_a_worker_that_stands_still_at_a_place_for_longer_than_its_lease_and_goes_on(field: Field, place: str):
    """B01: another takes over what it held; what it has in its hands when it goes on changes nothing."""
    field.enqueue("nap", 6, ms=10)
    first = field.worker(fail=f"{place}:pause", concurrency=3, lease=1.0)
    field.until(lambda: state_of(first.pid) == "T", "the stop")
    field.note(first.pid, "stop", at_ns=0)
    second = field.worker(concurrency=3, lease=30)
    field.until_done()
    field.resume(first)
    (last,) = field.enqueue("nap")
    field.until(lambda: field.ends()[last], "one more")
    field.term(first)
    assert first.wait(10) == 0
    assert second.poll() is None
    assert set(field.ends()) == set(field.accepted())
    assert field.states() == {"completed": 7}
    field.audit(crash_budget=1)


def test_a_lone_worker_that_stands_still_between_a_claim_and_the_start_takes_nothing_from_itself(field: Field):
    """Its lease is over when it goes on, and nobody else could take the job: it runs once, uncharged."""
    (job,) = field.enqueue("nap", ms=100)
    worker = field.worker(fail="after_claim_commit:pause", lease=2.0)
    field.until(lambda: state_of(worker.pid) == "T", "the stop")
    time.sleep(2.5)
    field.resume(worker)
    field.until_done()
    assert field.starts() == field.ends() == {job: 1}
    field.audit(crash_budget=0)


def test_an_error_in_the_middle_of_a_rescue_leaves_it_to_the_next_pass(field: Field):
    """B20: on the third of six jobs; nothing is half rescued, and the worker lives."""
    field.enqueue("wait_for", 6, path=str(field.folder / "release"), first=True)
    lost = field.worker(concurrency=6, lease=30)
    field.until_started(6)
    field.kill9(lost)
    worker = field.worker(fail="mid_recovery:raise:3", concurrency=6)
    field.until_started(12)
    field.until_done()
    assert worker.poll() is None
    assert set(field.starts().values()) == {2}
    field.audit(crash_budget=1)


def test_kills_every_few_hundred_milliseconds(field: Field):
    """Forty short lives of workers and producers, one after the other and beside each other."""
    rng = random.Random(23)
    lives = []
    for n in range(16):
        lives.append(field.worker(concurrency=4, lease=2.0))
        if n % 4 == 0:
            lives.append(field.run("producer", task="nap", count=200, args={"ms": 5}, tenants=TENANTS, pause_ms=2))
        time.sleep(rng.uniform(0.05, 0.3))
        if len(lives) > 4:
            field.kill9(lives.pop(rng.randrange(len(lives))))
    for process in lives:
        field.kill9(process)
    field.finish()
    assert set(field.accepted()) <= set(field.ends())
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()
