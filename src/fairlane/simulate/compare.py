"""One trace under several policies: the simulations, their figures, and the JSON object of SPEC section 11."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.domain.checks import number
from fairlane.domain.policy import Policy
from fairlane.errors import InvalidValue
from fairlane.simulate.engine import Outcome, Progress, Setup, simulate
from fairlane.simulate.report import DEFAULT_TAU_S, Run, Statistics, statistics
from fairlane.simulate.traces import Trace


@dataclass(frozen=True, slots=True)
class Result:
    """One policy: what became of each job, and the figures.

    Attributes:
        outcome: The simulation.
        runs: Its jobs, as the report takes them.
        statistics: Its figures.
        alone: The others' mean wait in seconds in a simulation without the heaviest tenant; None if it was not asked
            for or there are no others.
    """

    outcome: Outcome
    runs: list[Run]
    statistics: Statistics
    alone: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One trace under several policies, by the policy's name."""

    trace: Trace
    workers: int
    setup: Setup
    tau_s: float
    results: dict[str, Result]

    def as_json(self) -> dict[str, Any]:  # JSON: any depth of dicts, texts and numbers
        """Return the object that ``fairlane simulate --json`` prints."""
        return {
            "trace": self.trace.name,
            "jobs": len(self.trace.jobs),
            "workers": self.workers,
            "policies": {
                name: {**result.statistics, "others_mean_wait_without_heaviest": result.alone}
                for name, result in self.results.items()
            },
        }


def compare(
    trace: Trace,
    policies: Sequence[Policy],
    workers: int,
    setup: Setup | None = None,
    *,
    tau_s: float = DEFAULT_TAU_S,
    alone: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate a trace under several policies.

    Args:
        trace: The jobs.
        policies: The policies, each kind once.
        workers: How many jobs may run at once; 1 or more.
        setup: What is set beside the policy.
        tau_s: Run time that shorter jobs count as in slowdown; above 0.
        alone: Whether to simulate again without the heaviest tenant.
        progress: Told now and then how many jobs have ended, of :func:`jobs_to_run`.

    Raises:
        InvalidValue: An argument is out of range, or ``setup`` names what the trace does not hold.
    """
    number("tau", tau_s, least=0, most=1e9, above=True)
    kinds = [policy.kind for policy in policies]
    if len(set(kinds)) != len(kinds) or not kinds:
        raise InvalidValue(f"policies are {', '.join(kinds) or 'none'}; at least one is needed, and each once")
    setup = setup or Setup()
    heaviest = trace.heaviest()
    rest = _without(trace, heaviest) if alone else None
    done = 0
    results: dict[str, Result] = {}
    for policy in policies:
        outcome = simulate(trace, policy, workers, setup, progress=_after(progress, done))
        done += len(trace.jobs)
        runs = list(outcome.runs())
        mean = None
        if rest is not None:
            again = simulate(rest, policy, workers, setup.only(rest), progress=_after(progress, done))
            done += len(rest.jobs)
            mean = statistics(list(again.runs()), workers=workers, span_s=rest.span_s, heaviest=heaviest)[
                "others_mean_wait"
            ]
        figures = statistics(runs, workers=workers, span_s=trace.span_s, tau_s=tau_s, heaviest=heaviest)
        results[policy.kind] = Result(outcome, runs, figures, mean)
    return Comparison(trace, workers, setup, tau_s, results)


def jobs_to_run(trace: Trace, policies: int, *, alone: bool = True) -> int:
    """Return how many jobs :func:`compare` simulates in all."""
    rest = len(trace.jobs) - trace.tenants()[trace.heaviest()] if alone else 0
    return policies * (len(trace.jobs) + rest)


def _without(trace: Trace, tenant: str) -> Trace | None:
    return trace.without({tenant}) if len(trace.tenants()) > 1 else None


def _after(progress: Progress | None, done: int) -> Progress | None:
    if progress is None:
        return None
    return lambda ended: progress(done + ended)
