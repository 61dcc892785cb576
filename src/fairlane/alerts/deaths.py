"""Alerts about jobs that died, each told once, by the process whose transaction ended them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal
from uuid import UUID

from fairlane.alerts.alert import Alert, mild
from fairlane.domain.jobs import ErrorRecord, JobRecord
from fairlane.domain.phases import TIMED_OUT
from fairlane.domain.tiers import Tier

Told = Literal["timeouts", "all"]
"""Which deaths are told: those of jobs whose checks were used up, or all."""


def teller(send: Callable[[Alert], None], told: Told) -> Callable[[Sequence[JobRecord]], None]:
    """Return what tells of jobs that died; it returns at once and raises nothing, as ``send`` does.

    A process that is killed between the commit and the sending loses the alert and never doubles it; the job is among
    the dead letters all the same.

    Args:
        send: Takes alerts.
        told: Which deaths are told.
    """

    def tell(jobs: Sequence[JobRecord]) -> None:
        for job in jobs:
            if told == "all" or job.reason == TIMED_OUT:
                send(alert_of_death(job))

    return tell


def alert_of_death(job: JobRecord) -> Alert:
    """Return a job's death in words, with the history of its failed runs and checks."""
    timed_out = job.reason == TIMED_OUT
    task, tier = mild(job.task), Tier(job.tier).label
    what = f"was not finished after {job.checks} checks" if timed_out else f"is dead: {mild(job.reason or 'no reason')}"
    lines = [
        f"job {UUID(bytes=job.id)}, queue {mild(job.queue)}, tenant {mild(job.tenant)}, {tier}, in its "
        f"{job.phase} phase",
        f"{job.failures} failures, {job.crashes} crashes, {job.checks} checks",
    ]
    if job.reference is not None:
        lines.append(f"reference: {mild(job.reference)}")
    lines += [_line(error) for error in job.errors]
    return Alert(
        key=f"dead:{UUID(bytes=job.id)}:{job.fence}",
        event=TIMED_OUT if timed_out else "job_dead",
        title=f"Job of task {task} {what}",
        text="\n".join(lines),
        facts={
            "job": str(UUID(bytes=job.id)),
            "task": task,
            "queue": mild(job.queue),
            "tenant": mild(job.tenant),
            "tier": tier,
            "phase": job.phase,
            "reason": mild(job.reason or ""),
            "failures": job.failures,
            "crashes": job.crashes,
            "checks": job.checks,
        },
    )


def _line(error: ErrorRecord) -> str:
    run = f"attempt {error.attempt}" + (f", check {error.check}" if error.check else "")
    return f"{run}: {mild(error.type)}" + (f": {mild(error.message)}" if error.message else "")
