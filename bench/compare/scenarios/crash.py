"""``kill -9`` of the whole worker in the middle of its work; another one is started at once."""

from __future__ import annotations

from collections import Counter

from bench.compare.adapters.base import Adapter, Batch
from bench.compare.figures import Figure
from bench.compare.joblog import END, START, read
from bench.compare.scenarios.base import BACKGROUND, SLEEP_MS, TOTAL, Scenario
from bench.compare.system import System

WATCH_S = 40.0
FIGURES = (
    Figure("back_s", "in flight running again after, s", more=False),
    Figure("not_done", "not done in time", more=False),
    Figure("in_flight", "in flight at the kill"),
    Figure("doubled", "started twice", more=False),
    Figure("doubled_others", "of those not in flight", more=False),
)


def crash(system: System) -> dict[str, float]:
    """Kill at two fifths, start anew, watch."""
    jobs = 1_000
    producer = system.producer()
    processes = system.work_total(TOTAL)
    system.warm(producer, processes)
    producer.do("many", Batch(BACKGROUND, jobs, sleep_ms=SLEEP_MS))
    system.wait(lambda: len(system.ends(BACKGROUND)) >= jobs * 2 // 5, 30)
    killed = system.kill()
    before = [event for event in read(system.log) if event.kind == BACKGROUND]
    flying = {e.number for e in before if e.event == START} - {e.number for e in before if e.event == END}
    system.work_total(TOTAL)
    system.wait(lambda: len({end.number for end in system.ends(BACKGROUND)}) >= jobs, WATCH_S)
    system.kill()
    starts = Counter(event.number for event in system.starts(BACKGROUND))
    back = [e.at_ns for e in system.starts(BACKGROUND) if e.at_ns > killed and e.number in flying]
    twice = {number for number, times in starts.items() if times > 1}
    left = jobs - len({end.number for end in system.ends(BACKGROUND)})
    figures = {
        "not_done": float(left),
        "in_flight": float(len(flying)),
        "doubled": float(len(twice)),
        "doubled_others": float(len(twice - flying)),
    }
    if left:
        figures["back_s"] = WATCH_S
    elif back:
        figures["back_s"] = (max(back) - killed) / 1e9
    return figures


def _tuned(kind: type[Adapter]) -> str:
    return "" if kind.tuned_crash else "no settings for it, or its defaults are meant to be right"


SCENARIOS = (
    Scenario(
        "crash",
        f"1,000 jobs of 5 ms, 4 at once; kill -9 of the worker after 400, a new one at once; watched for {WATCH_S:.0f}"
        " s (that figure means: not within it). Defaults as far as recovery goes.",
        FIGURES,
        crash,
    ),
    Scenario("crash-tuned", "The same with settings for a quick recovery.", FIGURES, crash, runs=1, excludes=_tuned),
)
