"""Storing jobs: one caller, a hundred at once, eight processes, and in bulk."""

from __future__ import annotations

from bench.compare.adapters.base import Adapter, Batch
from bench.compare.agent import TOO_MANY
from bench.compare.figures import Figure
from bench.compare.scenarios.base import BACKGROUND, Scenario, on_postgres
from bench.compare.system import System

RATE = Figure("per_s", "jobs/s", more=True)
PROCESSES = 8
CALLERS = 100


def _seconds(system: System) -> float:
    return 0.5 if system.quick else 2.0


def one_by_one(system: System) -> dict[str, float]:
    """Let one caller store jobs one after the other."""
    producer = system.producer()
    producer.do("one_by_one", Batch(BACKGROUND, 50))
    jobs, seconds = producer.do("one_by_one", Batch(BACKGROUND, TOO_MANY, first=50), seconds=_seconds(system))
    return {"per_s": jobs / seconds}


def together(system: System) -> dict[str, float]:
    """Let a hundred callers of one process store jobs, each one by one."""
    producer = system.producer()
    producer.do("together", Batch(BACKGROUND, 500), callers=CALLERS)
    batch = Batch(BACKGROUND, TOO_MANY, first=500)
    jobs, seconds = producer.do("together", batch, callers=CALLERS, seconds=_seconds(system))
    return {"per_s": jobs / seconds}


def producers(system: System) -> dict[str, float]:
    """Let eight processes store jobs, each one by one."""
    many = [system.producer() for _ in range(PROCESSES)]
    for number, producer in enumerate(many):
        producer.do("one_by_one", Batch(BACKGROUND, 20, first=number * 20))
    for number, producer in enumerate(many, 1):
        producer.ask("one_by_one", Batch(BACKGROUND, TOO_MANY, first=number * TOO_MANY), seconds=_seconds(system))
    return {"per_s": sum(jobs / seconds for jobs, seconds in [producer.answer() for producer in many])}


def bulk(system: System) -> dict[str, float]:
    """Store jobs a thousand a call."""
    producer = system.producer()
    producer.do("many", Batch(BACKGROUND, 100), portion=100)
    count = 5_000 if system.quick else 30_000
    jobs, seconds = producer.do("many", Batch(BACKGROUND, count, first=100), portion=1_000)
    return {"per_s": jobs / seconds}


def _in_bulk(kind: type[Adapter]) -> str:
    return "" if kind.bulk else "it has no such call"


SCENARIOS = (
    Scenario("enqueue", "One caller stores jobs one by one.", (RATE,), one_by_one),
    Scenario(
        "together", "A hundred callers (coroutines, else threads) of one process store one by one.", (RATE,), together
    ),
    Scenario("producers", "Eight processes store one by one.", (RATE,), producers, excludes=on_postgres),
    Scenario("bulk", "A thousand jobs a call.", (RATE,), bulk, excludes=_in_bulk),
)
