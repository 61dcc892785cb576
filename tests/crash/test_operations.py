"""Processes are killed while they bring dead jobs back: none comes back twice, none is passed over. T-M17, T-M20."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter

import pytest
from field import Field, seeded

from fairlane.bulk import Operation

pytestmark = [pytest.mark.crash]


def dead(field: Field, count: int) -> None:
    field.enqueue("nap", count)
    while claims := field.app.claim_many(1_000):
        for claim in claims:
            claim.dead("no")


def retried(field: Field) -> Counter[str]:
    """Return how often each job was brought back, from the record that is written with it."""
    with sqlite3.connect(f"file:{field.path}?mode=ro", uri=True) as db:
        return Counter(target for (target,) in db.execute("SELECT target FROM audit WHERE what = 'retry'"))


def finish(field: Field, operation: Operation, count: int) -> None:
    field.worker(concurrency=16)
    assert operation.join(15).done == count
    field.until_done()
    assert retried(field) == Counter(dict.fromkeys(field.accepted(), 1))
    assert field.ends() == Counter(dict.fromkeys(field.accepted(), 1))
    field.audit()


@pytest.mark.parametrize("hit", [1, 150, 201, 399])
def test_death_in_the_middle_of_a_portion(field: Field, hit: int):
    dead(field, 500)
    operation = field.app.dead.replay(rate=None)
    field.died(field.worker(fail=f"mid_replay:exit:{hit}", queues=["none"]))
    done = operation.refresh().done
    assert done == (hit - 1) // 200 * 200
    assert field.states() == {name: count for name, count in (("dead", 500 - done), ("available", done)) if count}
    finish(field, operation, 500)


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_any_moment(field: Field, seed: int):
    """Two workers carry a steady replay on, about six seconds long; six kills."""
    rng = seeded(seed)
    dead(field, 150)
    operation = field.app.dead.replay(rate=25)
    workers = [field.worker(queues=["none"]) for _ in range(2)]
    for _ in range(6):
        wanted = min(140, operation.refresh().done + rng.randint(1, 8))
        field.until(lambda wanted=wanted: operation.refresh().done >= wanted, "progress")
        time.sleep(rng.uniform(0, 0.02))
        victim = rng.randrange(2)
        field.kill9(workers[victim])
        workers[victim] = field.worker(queues=["none"])
    finish(field, operation, 150)
