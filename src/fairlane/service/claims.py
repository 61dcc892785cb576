"""Claims of workers in other languages: they hold a job's id and the fence of their claim, and prove it with both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fairlane import shapes
from fairlane.domain.checks import whole
from fairlane.errors import JobNotFound
from fairlane.pulled import PulledClaim, lease_ms_of, resumed
from fairlane.service.base import Base, Json
from fairlane.views import JobId, id_of

MAX_CLAIMS: Final = 100
"""Jobs that one request may start: each is held by a lease that begins now."""
LEASE_MS: Final = 30_000


class Claims(Base):
    """What an actor that runs jobs does. It takes an operator for all tenants: a claim starts whoever's turn it is."""

    async def claim(
        self,
        *,
        queues: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        pool: str | None = None,
        lease: float = 30.0,
        wait: float = 0.0,
        most: int = 1,
    ) -> list[PulledClaim]:
        """Start up to ``most`` jobs, 1 to 100; see ``app.claim_many``. Their arguments are not redacted.

        Raises:
            Forbidden: The actor may not run jobs.
            InvalidValue, ConfigError: An argument is wrong.
        """
        self.need("operator")
        self.need_all_tenants("claims")
        whole("max", most, least=1, most=MAX_CLAIMS)
        return await self.app.aclaim_many(most, queues=queues, tasks=tasks, pool=pool, lease=lease, wait=wait)

    async def held(self, job_id: JobId, fence: int, *, lease: float | None = None) -> PulledClaim:
        """Return a claim that was handed out before, by the job's id and the claim's fence.

        Whether it is the job's current one is told by the call that is made with it. ``lease`` is how long a heartbeat
        makes it last from then on, in seconds. How long the claim's was is on no record, so without it that is 30 s,
        or what is left if that is more: a sign of life takes nothing away.

        Raises:
            Forbidden: The actor may not run jobs.
            JobNotFound: There is no such job.
            LeaseLost: The claim is not the job's current one.
            InvalidValue: An argument is wrong.
        """
        self.need("operator")
        self.need_all_tenants("claims")
        whole("fence", fence)
        lease_ms = None if lease is None else lease_ms_of(lease)
        wanted = id_of(job_id)
        record, now_ms = await self.read(lambda store, now_ms: (store.get(wanted), now_ms))
        if record is None:
            raise JobNotFound(job_id)
        if lease_ms is None:
            lease_ms = max(LEASE_MS, (record.lease_expires_at_ms or 0) - now_ms)
        return resumed(self.app, record, fence, lease_ms=lease_ms, now_ms=now_ms)


def claimed(claim: PulledClaim) -> Json:
    """Return a claim ready for JSON."""
    told: dict[str, Any] = {  # Any: ready for JSON
        "id": str(claim.id),
        "fence": claim.fence,
        "task": claim.task,
        "phase": claim.phase,
        "queue": claim.queue,
        "tenant": claim.tenant,
        "tier": claim.tier.label,
        "attempt": claim.attempt,
        "args": claim.args,
        "checkpoint": claim.saved,
        "reference": claim.reference,
        "trace": claim.trace,
        "lease_expires_at": shapes.instant(claim.lease_expires_at),
    }
    return told
