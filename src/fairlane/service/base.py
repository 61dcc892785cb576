"""What every operation needs: the actor's right to it, its tenant, and the record of the change."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from uuid import UUID

from fairlane.app import Fairlane
from fairlane.domain.access import Role
from fairlane.domain.checks import text
from fairlane.errors import Forbidden, JobNotFound
from fairlane.faces import arun, read, within, write
from fairlane.handles import Job
from fairlane.owner import Op
from fairlane.service.actor import Actor
from fairlane.service.redaction import NOTHING, Redaction
from fairlane.store import Store
from fairlane.views import JobId

MAX_REASON_BYTES: Final = 1024

T = TypeVar("T")
Json = dict[str, Any]  # Any: ready for JSON


class Base:
    """One actor's view of an app. Making one costs nothing; surfaces make one for every request.

    Args:
        app: The app.
        actor: Who asks.
        redaction: What is shown of arguments and results.

    Attributes:
        app: The app.
        actor: Who asks.
        redaction: What is shown of arguments and results.
    """

    def __init__(self, app: Fairlane, actor: Actor, *, redaction: Redaction = NOTHING) -> None:
        self.app = app
        self.actor = actor
        self.redaction = redaction

    # ------------------------------------------------------------------ rights

    def need(self, role: Role) -> None:
        """See that the actor's role suffices.

        Raises:
            Forbidden: It does not.
        """
        if not self.actor.may(role):
            raise Forbidden(f"{self.actor.name} is {_a(self.actor.role)}; this takes {_a(role)}")

    def need_all_tenants(self, what: str) -> None:
        """See that the actor is not confined to a tenant.

        Raises:
            Forbidden: It is.
        """
        if self.actor.tenant is not None:
            raise Forbidden(
                f"{self.actor.name} is confined to tenant {self.actor.tenant!r}; {what} concern all tenants"
            )

    def sees(self, tenant: str) -> bool:
        """Return whether the actor sees what belongs to a tenant."""
        return self.actor.tenant is None or tenant == self.actor.tenant

    async def seen(self, job_id: JobId) -> Job[Any]:  # Any: whatever its task returns
        """Return a job that the actor may see. A job's tenant never changes, so what is seen may be touched too.

        Raises:
            JobNotFound: There is none, or it is another tenant's: the actor cannot tell which.
            InvalidValue: ``job_id`` is no id.
        """
        job = await self.app.aget(job_id)
        if not self.sees(job.tenant):
            raise JobNotFound(job.id)
        return job

    async def read(self, op: Op[T]) -> T:
        """Do what only reads."""
        return await arun(self.app, read(op))

    async def write(self, op: Op[T]) -> T:
        """Do something in a transaction."""
        return await arun(self.app, write(op))

    # ------------------------------------------------------------------ changes

    @contextmanager
    def changing(self, why: str, what: str = "", target: UUID | str = "", detail: str = "") -> Generator[None]:
        """Let what is written inside be on record with the actor's reason, in the same transaction.

        Args:
            why: The actor's reason, at most 1,024 bytes.
            what: What to record, for changes that the store does not record by itself; "" records no more than it does.
            target: What is changed.
            detail: The values that belong to it.

        Raises:
            InvalidValue: The reason is too long or no storable text.
        """
        text("reason", why, max_bytes=MAX_REASON_BYTES, empty=True)

        def around(op: Op[Any]) -> Op[Any]:
            def both(store: Store, now_ms: int) -> Any:
                with store.because(why):
                    answer = op(store, now_ms)
                    if what:
                        store.record(self.actor.name, what, str(target), detail=detail, now_ms=now_ms)
                return answer

            return both

        with within(around):
            yield


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
