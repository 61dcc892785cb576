"""Every error that fairlane raises on purpose, in one tree.

    FairlaneError
    ├── ConfigError            a setting is wrong, or differs from the store's
    ├── InvalidJob             a job's fields or arguments break a rule
    ├── InvalidValue           another argument has the wrong type or range
    ├── JobNotFound            no job has this id
    ├── OperationNotFound      no operation has this id
    ├── GroupNotFound          no group has this id
    ├── ScheduleNotFound       no schedule has this name
    ├── IllegalMove            the job's state does not allow this
    ├── LeaseLost              the claim is no longer the job's current one
    ├── UnknownTask            the task is not registered in this process
    ├── DedupConflict          a live job holds the dedup key
    ├── JobFailed              the job whose result was asked for is dead
    ├── JobCancelled           the job whose result was asked for was cancelled
    ├── GroupFailed            jobs of the group whose results were asked for have none
    ├── WaitTimeout            what was waited for has not come in time
    ├── Forbidden              the caller's role or tenant does not allow this
    ├── TokenNotFound          no access token has this id
    ├── Outdated               what is set is no longer what the caller saw
    ├── KeyReused              an idempotency key came with another request before
    ├── CapacityError          there is no room; try again later
    │   ├── ExpressFull        the express lane is full
    │   └── QueueFull          a queue or tenant holds its maximum of waiting jobs
    └── StoreError             the store could not do it
        ├── StoreBusy          another process holds the store; try again
        ├── StoreFull          the disk is full
        └── StoreVersion       the store was written by a newer version

A call that raises one of these has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FairlaneError(Exception):
    """Base of all errors below; catch it to catch them all."""


class ConfigError(FairlaneError):
    """A setting is wrong, or not the one the store was created with: correct it, or use ``app.configure``."""


class InvalidJob(FairlaneError, ValueError):
    """A job breaks a rule; the message names the path, the value and the rule: correct the call."""


class InvalidValue(FairlaneError, ValueError):
    """An argument has the wrong type or lies outside its range: correct the call."""


class JobNotFound(FairlaneError, LookupError):
    """No job has this id: it never existed or retention removed it."""

    def __init__(self, job_id: object) -> None:
        super().__init__(f"no job has the id {job_id}")
        self.job_id = job_id


class GroupNotFound(FairlaneError, LookupError):
    """No group has this id: it never existed, had no jobs, or retention removed them all."""

    def __init__(self, group_id: object) -> None:
        super().__init__(f"no group has the id {group_id}")
        self.group_id = group_id


class ScheduleNotFound(FairlaneError, LookupError):
    """No schedule has this name: it was never made, was removed, or no worker that declares it has started yet."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.name = name


class OperationNotFound(FairlaneError, LookupError):
    """No operation has this id: it never existed, or it is over and a thousand younger ones came after it."""

    def __init__(self, operation: object) -> None:
        super().__init__(f"no operation has the id {operation}")
        self.operation = operation


class IllegalMove(FairlaneError):
    """The job's state does not allow this move: look at the job again before you decide what to do."""

    def __init__(self, job_id: object, state: str, move: str) -> None:
        super().__init__(f"job {job_id} is {state}: it cannot {move}")
        self.job_id = job_id
        self.state = state
        self.move = move


class LeaseLost(FairlaneError):
    """The claim is no longer the job's current one: stop working on it and write nothing more."""

    def __init__(self, job_id: object, fence: int) -> None:
        super().__init__(f"job {job_id}: the lease of claim {fence} is lost; its holder may change nothing any more")
        self.job_id = job_id
        self.fence = fence


class UnknownTask(FairlaneError, LookupError):
    """The task is not registered in this process: import the module that defines it."""


class DedupConflict(FairlaneError):
    """Another job holds the dedup key, and ``on_conflict`` says to refuse: use that job or wait for its end.

    ``on_conflict="raise"`` always refuses, ``"replace"`` when that job has begun; a group takes no job of others.
    """

    def __init__(self, dedup_key: str, queue: str, job_id: object, how: str = "by the live job") -> None:
        super().__init__(f"dedup key {dedup_key!r} in queue {queue!r} is held {how} {job_id}")
        self.dedup_key = dedup_key
        self.queue = queue
        self.job_id = job_id


class JobFailed(FairlaneError):
    """The job whose result was asked for is dead: look at ``reason`` and ``errors``, then retry it or let it be."""

    def __init__(
        self, job_id: object, reason: str, errors: Sequence[Any]
    ) -> None:  # Any: error records, which live in a layer above
        last = errors[-1] if errors else None
        cause = "" if last is None else f"; last error: {last.type}: {last.message[:200]}"
        super().__init__(f"job {job_id} is dead ({reason or 'no reason given'}){cause}")
        self.job_id = job_id
        self.reason = reason
        self.errors = errors


class JobCancelled(FairlaneError):
    """The job whose result was asked for was cancelled, or it expired: there will be no result."""

    def __init__(self, job_id: object, reason: str) -> None:
        super().__init__(f"job {job_id} was cancelled ({reason or 'no reason given'})")
        self.job_id = job_id
        self.reason = reason


class GroupFailed(FairlaneError):
    """Jobs of the group whose results were asked for have none: look at ``failed``, or ask for exceptions instead.

    Attributes:
        group_id: The group's id.
        total: How many jobs it has.
        failed: What each job without a result would raise by itself, in the order of the jobs.
    """

    def __init__(self, group_id: object, total: int, failed: Sequence[FairlaneError]) -> None:
        shown = "; ".join(str(error) for error in failed[:5])
        more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""  # noqa: PLR2004  as many as are shown
        super().__init__(f"{len(failed)} of the {total} jobs of group {group_id} have no result: {shown}{more}")
        self.group_id = group_id
        self.total = total
        self.failed = tuple(failed)


class WaitTimeout(FairlaneError, TimeoutError):
    """A job or operation has not ended in time and is not affected: wait again, or look at its state."""

    def __init__(self, job_id: object, state: str, timeout: float, *, what: str = "job") -> None:
        super().__init__(f"{what} {job_id} is still {state} after {timeout:g} s")
        self.job_id = job_id
        self.state = state
        self.timeout = timeout


class Forbidden(FairlaneError):
    """The caller's role or tenant does not allow this: ask somebody who may, or use another token."""


class TokenNotFound(FairlaneError, LookupError):
    """No access token has this id: look at the list of tokens."""

    def __init__(self, token_id: object) -> None:
        super().__init__(f"no token has the id {token_id!r}")
        self.token_id = token_id


class Outdated(FairlaneError):
    """What is set has changed since the caller looked: read it again, then decide."""


class KeyReused(FairlaneError, ValueError):
    """An idempotency key came with another request before: use a fresh key for each request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the idempotency key {key!r} came with another request before")
        self.key = key


class CapacityError(FairlaneError):
    """There is no room now: try again later. ``current`` and ``maximum`` count jobs."""

    def __init__(self, what: str, current: int, maximum: int) -> None:
        super().__init__(f"{what} is full (current: {current}, maximum: {maximum}); try again later")
        self.current = current
        self.maximum = maximum


class ExpressFull(CapacityError):
    """The express lane, or one tenant's part of it, is full: try again when an express job has started."""


class QueueFull(CapacityError):
    """The queue or the tenant already holds its maximum of waiting jobs: slow down, try again later."""


class StoreError(FairlaneError):
    """The store could not do it; nothing that was accepted before is lost. The cause is chained."""


class StoreBusy(StoreError):
    """Another process or a caller's own transaction holds the store: try again."""


class StoreFull(StoreError):
    """The disk is full or a quota is reached: make room, then try again; no restart is needed."""


class StoreVersion(StoreError):
    """The store was written, or migrated under this process, by a newer version of fairlane: upgrade this program."""
