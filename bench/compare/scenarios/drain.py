"""Running jobs that do nothing, by one worker process and by two."""

from __future__ import annotations

from collections.abc import Callable

from bench.compare.adapters.base import Batch
from bench.compare.figures import Figure, steady_rate
from bench.compare.scenarios.base import BACKGROUND, Scenario
from bench.compare.system import System, Trouble

LIMIT_S = 15.0
LEAST = 100
FIGURES = (
    Figure("per_s", "jobs/s", more=True),
    Figure("doubled", "ran twice"),
    Figure("commits", "commits a job"),
    Figure("wal_bytes", "WAL bytes a job"),
)


def drain(processes: int) -> Callable[[System], dict[str, float]]:
    """Return what measures so many worker processes."""

    def run(system: System) -> dict[str, float]:
        jobs = system.kind.drain_jobs // (5 if system.quick else 1)
        producer = system.producer()
        producer.do("many", Batch(BACKGROUND, jobs))
        postgres = system.servers.postgres if system.kind.store == "postgres" else None
        before = postgres.counters() if postgres else (0, 0)
        system.work(system.kind.slots, processes)
        system.wait(lambda: system.count() >= jobs, LIMIT_S)
        system.kill()
        ends = system.ends(BACKGROUND)
        if len(ends) < LEAST:
            raise Trouble(f"{len(ends)} jobs ran in {LIMIT_S:.0f} s")
        figures = {"per_s": steady_rate(ends), "doubled": float(len(ends) - len({end.number for end in ends}))}
        if postgres:
            # The connections end with their processes, and tell what they did as they do.
            commits, wal = (now - then for now, then in zip(_settled(system), before, strict=True))
            figures |= {"commits": commits / len(ends), "wal_bytes": wal / len(ends)}
        return figures

    return run


def _settled(system: System) -> tuple[int, int]:
    """Return the counters when they have stopped changing."""
    postgres = system.servers.postgres
    assert postgres is not None
    last = (-1, -1)

    def still() -> bool:
        nonlocal last
        then, last = last, postgres.counters()
        return then == last

    system.wait(still, 5.0)
    return last


SCENARIOS = (
    Scenario("drain1", "One worker process runs jobs that do nothing.", FIGURES, drain(1)),
    Scenario("drain2", "Two worker processes run jobs that do nothing.", FIGURES, drain(2)),
)
