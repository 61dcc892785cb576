"""What the store is given and gives back, where the rules have no word for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

from fairlane.domain.fingerprints import Fingerprint
from fairlane.domain.jobs import (
    JobRecord,
)
from fairlane.domain.lanes import LaneKey
from fairlane.domain.policy import LimitRule, QueueRule, TaskRule, TenantRule
from fairlane.errors import DedupConflict, StoreBusy, StoreError

News = Literal["work", "end", "ask"]
"""What a commit has to tell: something may have become startable; a job ended; a running job is asked to stop."""

RuleKind = Literal["queue", "task", "tenant", "limit"]
KEPT_OPERATIONS: Final = 1_000
"""Operations on record; older ones that are over are forgotten."""
NOBODY: Final[Mapping[bytes, LaneKey]] = MappingProxyType({})
AnyRule = QueueRule | TaskRule | TenantRule | LimitRule


class Conflict(StoreBusy):
    """Two transactions met in a way that the database does not allow; nothing was changed. The owner tries again."""


class FateUnknown(StoreError):
    """The connection ended with the commit, and the database could not be asked since: it may have been carried out."""


class NeedsGate(StoreError):
    """A light transaction was to do what takes an ordinary one; nothing was changed. The owner does it in one."""


class KeyHeld(DedupConflict):
    """Another program's open transaction is about to store a job with the dedup key: wait for its end, then try again.

    Nothing was changed, and nothing spoils the transaction that this is raised in.
    """

    def __init__(self, dedup_key: str, queue: str) -> None:
        super().__init__(
            dedup_key, queue, "of another program, which is about to store a job", "by an open transaction"
        )
        self.job_id = None


class Look(NamedTuple):
    """What may be due.

    Attributes:
        rescue: Whether a rescue would find something.
        preempt: Whether running jobs may be asked to give way; see :meth:`~fairlane.store.Store.may_preempt`.
        operation_ms: When the first operation is due; None: none is under way.
        schedule_ms: When the first schedule is due; None: none ever is.
        version: The last row of the log and the first timer: it changes with whatever may let a job start but time and
            free slots. A claim after the look has found everything as long as later looks say the same. None when there
            is something that only a claim can judge.
    """

    rescue: bool
    preempt: bool
    operation_ms: int | None
    schedule_ms: int | None
    version: tuple[int, int | None] | None


class Boosted(NamedTuple):
    """What a boost did.

    Attributes:
        outcome: ``boosted``, or ``not_higher`` when the job was at least that urgent already.
        tier: The number of the tier that it has now.
    """

    outcome: Literal["boosted", "not_higher"]
    tier: int


class Page(NamedTuple):
    """Some jobs, and the cursor that the next page starts from (None: there are no more)."""

    jobs: list[JobRecord]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many jobs were counted.

    Attributes:
        count: How many.
        more: Whether there are more: counting stops somewhere.
    """

    count: int
    more: bool


@dataclass(frozen=True, slots=True)
class Cleared:
    """What one portion of a clear did: how many jobs it cancelled, and where the next goes on (None: it is over)."""

    count: int
    place: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroupRecord:
    """Dead jobs with the same fingerprint.

    Attributes:
        words: What they died of; its ``id`` is the fingerprint.
        count: How many there are.
        tasks: Their tasks, in order.
        tenants: How many tenants they belong to.
        example: The id of the youngest one.
        first_ms: When the first of them died; ``last_ms``: the last.
    """

    words: Fingerprint
    count: int
    tasks: tuple[str, ...]
    tenants: int
    example: bytes
    first_ms: int
    last_ms: int

    @property
    def fingerprint(self) -> str:
        """What they are found by."""
        return self.words.id


class MonitorRecord(NamedTuple):
    """Who watches over waits: its id, until when it holds that right, since when, and how its sinks do (JSON)."""

    holder: str
    until_ms: int
    since_ms: int
    sinks: str


class Backup(NamedTuple):
    """A backup that was made.

    Attributes:
        path: Where it is.
        bytes: Its length.
        jobs: How many jobs are in it.
    """

    path: Path
    bytes: int
    jobs: int


class Restored(NamedTuple):
    """What a restore did.

    Attributes:
        jobs: How many jobs the store has now.
        given_back: How many of them ran when the backup was made, and wait again.
        replaced: How many jobs the store had before.
        migrations: The migrations that the backup needed, by name.
    """

    jobs: int
    given_back: int
    replaced: int
    migrations: tuple[str, ...]


class Presence(Protocol):
    """A sign of life of one worker that ends with its process."""

    def close(self) -> None:
        """End it; safe to call twice."""
        ...
