"""A tenant with a few jobs behind another one's thousands."""

from __future__ import annotations

from bench.compare.adapters.base import Batch
from bench.compare.figures import Figure
from bench.compare.joblog import now
from bench.compare.scenarios.base import BACKGROUND, PROBE, SLEEP_MS, TOTAL, Scenario
from bench.compare.system import Producer, System, Trouble

FEW = 100


def noisy(system: System) -> dict[str, float]:
    """Fill for A, start workers, store B's jobs, see when the last of them is done; then the same once more."""
    jobs = 2_000 if system.quick else 5_000
    producer = system.producer()
    producer.do("many", Batch(BACKGROUND, jobs, sleep_ms=SLEEP_MS))
    system.work_total(TOTAL)
    if not system.wait(lambda: len(system.ends(BACKGROUND)) >= 200, 30):
        raise Trouble("200 jobs did not run within 30 s")
    ratio, seconds, rate = _wave(system, producer, PROBE)
    figures = {"ratio": ratio, "seconds": seconds, "total_per_s": rate}
    if len(system.ends(BACKGROUND)) < jobs - 3 * FEW:  # else A's are all done
        figures["again"] = _wave(system, producer, PROBE + 1)[0]
    return figures


def _wave(system: System, producer: Producer, kind: int) -> tuple[float, float, float]:
    """Return B's time over that of an even share, B's time in seconds, and all jobs a second meanwhile."""
    began = now()
    producer.do("many", Batch(kind, FEW, sleep_ms=SLEEP_MS, tenant="b"), portion=FEW)
    system.wait(lambda: len(system.ends(kind)) >= FEW, 30)
    ends = system.ends(kind)
    if len(ends) < FEW:
        raise Trouble(f"{len(ends)} of B's {FEW} jobs ran within 30 s")
    last = ends[-1].at_ns
    others = sum(began < end.at_ns <= last for end in system.ends(BACKGROUND))
    seconds = (last - began) / 1e9
    rate = (others + FEW) / seconds
    return seconds / (2 * FEW / rate), seconds, rate  # two tenants share evenly: done when twice as many are


SCENARIO = Scenario(
    "noisy",
    "Tenant A has 5,000 jobs of 5 ms, then B stores 100 of the same tier; 4 run at once. 1.0 is an even share.",
    (
        Figure("ratio", "B's time over that of an even share", more=False),
        Figure("again", "B's next 100 likewise", more=False),
        Figure("seconds", "B done after, s", more=False),
        Figure("total_per_s", "all jobs/s", more=True),
    ),
    noisy,
)
