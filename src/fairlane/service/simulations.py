"""What if: recent or given arrivals through the scheduler on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from fairlane.domain.checks import number, whole
from fairlane.errors import InvalidValue
from fairlane.insight import MAX_WINDOW
from fairlane.service.base import Base, Json

MAX_JOBS: Final = 20_000
MAX_WORKERS: Final = 100_000
US: Final = 1_000
MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to simulate.

    Attributes:
        jobs: Arrivals as (submit in seconds, tenant, queue, tier, run time in seconds); None: those of ``window``.
        window: The arrivals of jobs that ended and had started in the last so many seconds, at most 20,000.
        workers: Jobs that run at once; None: as many as are 95 % busy.
        policies: ``fair``, ``strict``, ``fifo``, each once.
        ageing_step: Wait that raises a job by one tier, in seconds.
        weights: Weight by tenant.
        caps: Most running jobs by tenant.
        queue_caps: Most running jobs by queue.
    """

    jobs: Sequence[tuple[float, str, str, int, float]] | None = None
    window: float = 3600.0
    workers: int | None = None
    policies: Sequence[str] = ("fair",)
    ageing_step: float = 60.0
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    caps: Mapping[str, int] = field(default_factory=dict[str, int])
    queue_caps: Mapping[str, int] = field(default_factory=dict[str, int])


class Simulations(Base):
    """What an actor asks the simulator."""

    async def simulate(self, question: Question) -> Json:
        """Return the object that ``fairlane simulate --json`` prints. It takes an operator: it takes a processor.

        Raises:
            Forbidden: The actor is no operator, or is confined to a tenant and asks for everybody's arrivals.
            InvalidValue: A value breaks a rule, or there are no such jobs.
        """
        self.need("operator")
        if question.jobs is None:
            self.need_all_tenants("recent arrivals")
            number("window", question.window, least=0, most=MAX_WINDOW, above=True)
            jobs = await self._recent(round(question.window * MS))
        else:
            whole("the number of jobs", len(question.jobs), least=1, most=MAX_JOBS)
            jobs = list(question.jobs)
        if question.workers is not None:
            whole("workers", question.workers, least=1, most=MAX_WORKERS)
        return await asyncio.to_thread(partial(_simulated, question, jobs))

    async def _recent(self, window_ms: int) -> list[tuple[float, str, str, int, float]]:
        starts = await self.read(lambda store, now_ms: store.starts(now_ms - window_ms, limit=MAX_JOBS))
        jobs = [
            (one.arrival_ms / MS, one.tenant, one.queue, one.tier, (one.finished_ms - one.started_ms) / MS)
            for one in starts
            if one.started_ms is not None and one.finished_ms is not None
        ]
        if not jobs:
            raise InvalidValue("no job started and ended in the window")
        return jobs


def _simulated(question: Question, jobs: Sequence[tuple[float, str, str, int, float]]) -> Any:  # Any: ready for JSON
    from fairlane.simulate.compare import compare  # noqa: PLC0415  most servers never simulate
    from fairlane.simulate.engine import Setup, policy_named  # noqa: PLC0415
    from fairlane.simulate.traces import Trace, TraceJob  # noqa: PLC0415

    trace = Trace.of(
        "recent arrivals" if question.jobs is None else "given",
        [
            TraceJob(round(submit * US * MS), tenant, queue, tier, max(1, round(run * US * MS)))
            for submit, tenant, queue, tier, run in jobs
        ],
    )
    policies = [policy_named(name, ageing_step=question.ageing_step) for name in question.policies]
    setup = Setup(weights=question.weights, caps=question.caps, queue_caps=question.queue_caps)
    workers = trace.workers_for() if question.workers is None else question.workers
    return compare(trace, policies, workers, setup, alone=False).as_json()
