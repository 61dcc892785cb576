"""The bound of SPEC 2 on the wait of risen jobs, checked on a whole simulation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter

from fairlane.domain.tiers import rise_delay_ms
from fairlane.simulate.engine import Outcome


def starts_beyond_the_bound(outcome: Outcome, risen_every: int = 8) -> int:
    """The most starts by which a risen job came later than the bound allows; 0 or less when the bound held.

    "The first risen job of a tenant starts within `risen_every` * (K+1) starts of its pool, K tenants having a risen
    job when it rose; its tenant's p-th within p such rounds." A later round begins when the one before it ends, so its
    K is that of then: for the p-th job the most K there was while it waited is taken, for the first that of its rise.
    """
    jobs, step_ms = outcome.trace.jobs, outcome.policy.ageing_step_ms
    start_ms = [(job.submit_us + wait) // 1000 for job, wait in zip(jobs, outcome.waits_us, strict=True)]
    started = sorted(start_ms)
    position = {start.place.seq: number for number, start in enumerate(outcome.starts)}
    rises: list[tuple[int, int]] = []
    for seq, job in enumerate(jobs):
        delay = rise_delay_ms(job.tier, step_ms)
        if delay is not None and job.submit_us // 1000 + delay < start_ms[seq]:
            rises.append((job.submit_us // 1000 + delay, seq))
    rises.sort()
    tenants, places = _risen(outcome, rises, start_ms)
    times = [rise_ms for rise_ms, _ in rises]
    worst = -(10**9)
    for number, (rise_ms, seq) in enumerate(rises):
        place = places[number]
        last = number + 1 if place == 1 else bisect_right(times, start_ms[seq])
        allowed = risen_every * (max(tenants[number:last]) + 1) * place
        worst = max(worst, position[seq] + 1 - bisect_left(started, rise_ms) - allowed)
    return worst


def _risen(outcome: Outcome, rises: list[tuple[int, int]], start_ms: list[int]) -> tuple[list[int], list[int]]:
    """At each rise: how many tenants have a risen job, and which of its tenant's the new one is."""
    jobs = outcome.trace.jobs
    leaving = sorted((start_ms[seq], jobs[seq].tenant) for _, seq in rises)
    gone, there = 0, Counter[str]()
    tenants: list[int] = []
    places: list[int] = []
    for rise_ms, seq in rises:
        while leaving[gone][0] < rise_ms:
            tenant = leaving[gone][1]
            there[tenant] -= 1
            if not there[tenant]:
                del there[tenant]
            gone += 1
        there[jobs[seq].tenant] += 1
        tenants.append(len(there))
        places.append(there[jobs[seq].tenant])
    return tenants, places
