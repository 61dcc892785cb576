"""A trace through the scheduler on virtual time: c identical workers, and a job that has started runs to its end.

The event loop counts whole microseconds, so that no two runs differ and first come, first served is exact. The
scheduler is told milliseconds, as a store tells it; waits are differences of the microsecond times.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlane.domain.checks import number, whole
from fairlane.domain.fairness import Scheduler
from fairlane.domain.lanes import Ask, LaneKey, Place, Start
from fairlane.domain.policy import DEFAULT_POOL, SECOND_US, WEIGHT_UNIT, Charge, Pause, Policy, QueueRule, TenantRule
from fairlane.errors import InvalidValue
from fairlane.simulate.report import Run, Span
from fairlane.simulate.traces import Trace

MS_US: Final = 1000
NEVER: Final = -1
"""The wait of a job that never started: its tenant was paused, or a cap of 0 held it."""

Progress = Callable[[int], None]
"""Told now and then how many jobs have ended so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is set beside the policy.

    Attributes:
        weights: Weight by tenant; others have 1.
        caps: ``max_running`` by tenant.
        queue_caps: ``max_running`` by queue.
        paused: Tenants that run nothing.
        slots: Slots that the workers declare, which bounds each tenant's urgent work; None declares all of them,
            0 none, so that there is no such bound.
    """

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    caps: Mapping[str, int] = field(default_factory=dict[str, int])
    queue_caps: Mapping[str, int] = field(default_factory=dict[str, int])
    paused: frozenset[str] = frozenset()
    slots: int | None = None

    def __post_init__(self) -> None:
        for tenant, weight in self.weights.items():
            number(f"weight of tenant {tenant!r}", weight, least=1 / WEIGHT_UNIT, most=1e6)
        for tenant, most in self.caps.items():
            whole(f"cap of tenant {tenant!r}", most)
        for queue, most in self.queue_caps.items():
            whole(f"cap of queue {queue!r}", most)
        if self.slots is not None:
            whole("slots", self.slots)

    def only(self, trace: Trace) -> Setup:
        """Return the setup for a trace that lacks some of the tenants and queues."""
        tenants, queues = trace.tenants(), trace.queues()
        return replace(
            self,
            weights={name: weight for name, weight in self.weights.items() if name in tenants},
            caps={name: most for name, most in self.caps.items() if name in tenants},
            queue_caps={name: most for name, most in self.queue_caps.items() if name in queues},
            paused=self.paused & tenants.keys(),
        )

    def check(self, trace: Trace) -> None:
        """Refuse names that the trace does not hold: they would change nothing, silently.

        Raises:
            InvalidValue: A tenant or queue has no job in the trace.
        """
        tenants, queues = trace.tenants(), trace.queues()
        for name in [*self.weights, *self.caps, *self.paused]:
            if name not in tenants:
                raise InvalidValue(f"no tenant {name!r} in trace {trace.name!r}; it has {_some(list(tenants))}")
        for name in self.queue_caps:
            if name not in queues:
                raise InvalidValue(f"no queue {name!r} in trace {trace.name!r}; it has {_some(list(queues))}")


def _some(names: list[str]) -> str:
    shown, rest = ", ".join(names[:8]), len(names[8:])
    return f"{shown} and {rest} more" if rest else shown


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of each job.

    Attributes:
        trace: The trace.
        policy: The policy that chose.
        workers: How many jobs could run at once.
        setup: What was set beside the policy.
        waits_us: By job, as in the trace: microseconds from submit to start, or :data:`NEVER`.
        starts: The starts in order; ``start.place.seq`` is the job's index in the trace.
    """

    trace: Trace
    policy: Policy
    workers: int
    setup: Setup
    waits_us: list[int]
    starts: list[Start]

    def runs(self) -> Iterator[Run]:
        """Yield the jobs that started as the report wants them."""
        for job, wait_us in zip(self.trace.jobs, self.waits_us, strict=True):
            if wait_us >= 0:
                yield Run(job.tenant, job.queue, job.tier, wait_us / SECOND_US, job.run_us / SECOND_US)

    def spans(self) -> Iterator[Span]:
        """Yield when each job that started was submitted, started and ended, in seconds."""
        for job, wait_us in zip(self.trace.jobs, self.waits_us, strict=True):
            if wait_us >= 0:
                start_us = job.submit_us + wait_us
                yield Span(job.tenant, job.submit_s, start_us / SECOND_US, (start_us + job.run_us) / SECOND_US)

    @property
    def last_start_s(self) -> float:
        """When the last job started, in seconds."""
        return (
            max(
                (job.submit_us + wait for job, wait in zip(self.trace.jobs, self.waits_us, strict=True) if wait >= 0),
                default=0,
            )
            / SECOND_US
        )


def policy_named(name: str, *, ageing_step: float = 60.0, charge: Charge = "time", **settings: float) -> Policy:
    """Return the policy ``name`` with these settings where it has them.

    Args:
        name: ``fair``, ``strict`` or ``fifo``.
        ageing_step: Wait that raises a job by one tier, in seconds.
        charge: What a start costs its tenant.
        settings: More arguments of :meth:`Policy.fair`; other policies have none of them.

    Raises:
        InvalidValue: There is no such policy, or a setting is out of range.
    """
    if name == "fair":
        return Policy.fair(ageing_step=ageing_step, charge=charge, **settings)  # type: ignore[arg-type]  # checked there
    return replace(Policy.named(name, ageing_step=ageing_step), charge=charge)


def simulate(
    trace: Trace,
    policy: Policy,
    workers: int,
    setup: Setup | None = None,
    *,
    progress: Progress | None = None,
) -> Outcome:
    """Run a trace through the scheduler.

    Every worker takes any job and runs it to its end. When workers are free, one claim asks for all of them.

    Args:
        trace: The jobs.
        policy: Who runs next.
        workers: How many jobs may run at once; 1 or more.
        setup: What is set beside the policy.
        progress: Told now and then how many jobs have ended.

    Returns:
        The wait of each job. The same arguments give the same waits.

    Raises:
        InvalidValue: An argument is out of range, or ``setup`` names what the trace does not hold.

    Example:
        >>> from fairlane.simulate.traces import TraceJob
        >>> trace = Trace.of("two", [TraceJob(0, "a", "q", 2, 5_000_000), TraceJob(1_000_000, "b", "q", 2, 1)])
        >>> simulate(trace, Policy.fair(), workers=1).waits_us
        [0, 4000000]
    """
    whole("workers", workers, least=1)
    setup = setup or Setup()
    setup.check(trace)
    loop = _Loop(trace, _scheduler(policy, workers, setup), workers)
    loop.run(progress)
    return Outcome(trace, policy, workers, setup, loop.waits_us, loop.starts)


def _scheduler(policy: Policy, workers: int, setup: Setup) -> Scheduler:
    scheduler = Scheduler(policy)
    scheduler.set_workers(DEFAULT_POOL, workers if setup.slots is None else setup.slots, None)
    for queue, most in setup.queue_caps.items():
        scheduler.set_queue(queue, QueueRule(max_running=most))
    for tenant in dict.fromkeys([*setup.weights, *setup.caps, *sorted(setup.paused)]):
        rule = TenantRule(
            weight_milli=round(setup.weights.get(tenant, 1) * WEIGHT_UNIT),
            max_running=setup.caps.get(tenant),
            pause=Pause() if tenant in setup.paused else None,
        )
        scheduler.set_tenant(tenant, rule)
    return scheduler


class _Loop:
    """The event loop: at each instant what ends is settled, what comes is added, then free workers claim once."""

    def __init__(self, trace: Trace, scheduler: Scheduler, workers: int) -> None:
        self.waits_us = [NEVER] * len(trace.jobs)
        self.starts: list[Start] = []
        self._jobs = trace.jobs
        self._scheduler = scheduler
        self._free = workers
        self._running: list[tuple[int, int, Start]] = []
        self._keys: dict[tuple[str, str, int], LaneKey] = {}
        self._next = 0

    def run(self, progress: Progress | None) -> None:
        """Go from instant to instant until nothing comes and nothing runs."""
        jobs, running, total = self._jobs, self._running, len(self._jobs)
        every = max(1, total // 100)
        tell = every
        while self._next < total or running:
            now_us = running[0][0] if running else jobs[self._next].submit_us
            if self._next < total and jobs[self._next].submit_us < now_us:
                now_us = jobs[self._next].submit_us
            self._settle(now_us)
            self._submit(now_us)
            if self._free and len(self.starts) < self._next:
                self._claim(now_us)
            if progress is not None and len(self.starts) - len(running) >= tell:
                progress(len(self.starts) - len(running))
                tell = len(self.starts) - len(running) + every
        if progress is not None:
            progress(total)

    def _settle(self, now_us: int) -> None:
        running, jobs, finish = self._running, self._jobs, self._scheduler.finish
        while running and running[0][0] <= now_us:
            _, index, start = heapq.heappop(running)
            finish(start, jobs[index].run_us, units_us=jobs[index].run_us)
            self._free += 1

    def _submit(self, now_us: int) -> None:
        jobs, keys, add = self._jobs, self._keys, self._scheduler.add
        index, total = self._next, len(self._jobs)
        while index < total and jobs[index].submit_us <= now_us:
            submit_us, tenant, queue, tier, _ = jobs[index]
            key = keys.get((tenant, queue, tier))
            if key is None:
                key = keys[tenant, queue, tier] = LaneKey(queue, queue, tenant, tier)
            add(key, Place(submit_us // MS_US, index))
            index += 1
        self._next = index

    def _claim(self, now_us: int) -> None:
        jobs, running, waits_us = self._jobs, self._running, self.waits_us
        starts = self._scheduler.claim(Ask(DEFAULT_POOL, self._free), now_us // MS_US)
        for start in starts:
            index = start.place.seq
            submit_us, _, _, _, run_us = jobs[index]
            waits_us[index] = now_us - submit_us
            heapq.heappush(running, (now_us + run_us, index, start))
        self.starts += starts
        self._free -= len(starts)
