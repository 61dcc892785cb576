"""About when a job may start."""

from __future__ import annotations

from typing import Final

from fairlane.domain.explaining.ahead import Ahead
from fairlane.domain.explaining.subject import Subject
from fairlane.domain.explaining.values import SHOWN_TENANTS, Blocker
from fairlane.domain.policy import SECOND_US
from fairlane.domain.tiers import rise_delay_ms

SPREAD: Final = 2.0
"""How far the later end of an estimate lies beyond what the expected run times give: run times vary, others come."""


def estimate(job: Subject, hard: list[Blocker], ahead: Ahead) -> tuple[tuple[float, float] | None, str]:
    """Return from when to when it may start, in seconds from now, or why nobody can tell."""
    unknown = _unknown(job, hard, ahead)
    if unknown:
        return None, unknown
    pool_mean = (job.pool.mean.value_us() or 0) / SECOND_US
    mean = job.scheduler.means.get(job.key[:3])
    own_mean = pool_mean if mean is None else (mean.value_us() or 0) / SECOND_US
    slots = max(1, job.slots)
    wide = min([slots, *_caps(job)])
    opens = max((blocker.until_ms - job.now_ms for blocker in hard if blocker.until_ms is not None), default=0) / 1000
    others = ahead.express + min(ahead.tenants, SHOWN_TENANTS if ahead.more else ahead.tenants)
    if job.used() < slots and not (ahead.own or others or ahead.urgent) and not hard:
        return (0.0, SPREAD * 1.0), ""
    least = max((ahead.own * own_mean + others * min(own_mean, pool_mean)) / slots, ahead.own * own_mean / wide)
    mine = 1 if job.turn is None else job.turn.tenant.rule.weight_milli
    share = 1 + ahead.weights / mine if job.policy.kind != "fifo" else 1
    most = max((ahead.own * own_mean * share + others * pool_mean) / slots, ahead.own * own_mean / wide)
    most += max(own_mean, pool_mean) * (1 if job.used() >= slots or hard else 0) + 1
    promised = _promised(job, ahead, pool_mean / slots)
    if ahead.urgent:
        assert promised is not None, "see _unknown"
        most = promised
    return (round(opens + least, 1), round(opens + max(least, SPREAD * most), 1)), ""


def _caps(job: Subject) -> list[int]:
    """Return how many jobs like it may run at once."""
    queue, tenant = job.scheduler.queues.get(job.key.queue), job.tenant()
    caps = [gate.max_running for gate in (queue, tenant, *job.limits()) if gate is not None]
    if queue is not None:
        caps.append(queue.rule.tenant_max_running)
    return [cap for cap in caps if cap]


def _promised(job: Subject, ahead: Ahead, per_start: float) -> float | None:
    """Return the bound of the guarantee in seconds, were runs as long as they have been; None without one."""
    rise_ms = rise_delay_ms(job.key.tier, job.policy.ageing_step_ms)
    if job.policy.kind != "fair" or not job.policy.risen_every or rise_ms is None:
        return None
    rounds = job.policy.risen_every * (ahead.rivals + ahead.urgent + 1) * (ahead.own + 1)
    return max(0, rise_ms - job.waited_ms) / 1000 + rounds * per_start


def _unknown(job: Subject, hard: list[Blocker], ahead: Ahead) -> str:
    for blocker in hard:
        if blocker.cause == "order":
            return "nobody knows when the jobs that it waits for end"
        if blocker.cause == "no worker":
            return "no worker would run it"
        if blocker.cause == "pause" and blocker.until_ms is None:
            return "nobody knows when the pause ends"
        if blocker.maximum == 0:
            return f"{blocker.kind} {blocker.name!r} may run nothing"
    unknown = {
        "programs that claim by themselves serve the queue, and nobody knows how many": not job.able,
        "nothing has run in this pool yet, so nobody knows how long jobs take": job.pool.mean.value_us() is None,
        "too much waits before it": ahead.more or job.around.before.more,
        "more urgent work goes first, and nobody knows how much will come": ahead.urgent > 0
        and _promised(job, ahead, 1.0) is None,
    }
    return next((why for why, holds in unknown.items() if holds), "")
