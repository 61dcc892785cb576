"""The values that travel between clients, stores and workers; frozen, and they check themselves."""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

import msgspec

from fairlane.domain.checks import MAX_INT, text, whole
from fairlane.domain.lanes import LaneKey, Rule, Start
from fairlane.domain.phases import check_task_name, lane_task, plain_task
from fairlane.domain.policy import DEFAULT_QUEUE, DEFAULT_TENANT
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidJob, InvalidValue

MAX_ARGS_BYTES: Final = 256 * 1024
MAX_RESULT_BYTES: Final = 256 * 1024
MAX_ERROR_BYTES: Final = 16 * 1024
MAX_BATCH: Final = 10_000
MAX_ERRORS: Final = 50
"""Failed and crashed runs kept with a job; the oldest after the first are dropped beyond it."""

MAX_IDS: Final = 1_000
"""Jobs that a filter may name one by one."""

Phase = Literal["process", "verify"]
PHASES: Final[tuple[Phase, ...]] = ("process", "verify")
OnFailure = Literal["cancel", "run"]
ON_FAILURE: Final[tuple[OnFailure, ...]] = ("cancel", "run")
"""What becomes of a job when one that it waits for ends in any way but success, by the number that is stored."""
OnConflict = Literal["return", "raise", "replace", "successor"]
Kind = Literal["completed", "retry", "dead", "cancelled", "snoozed", "released", "crashed", "handed", "pending"]


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to store.

    Attributes:
        id: A UUIDv7, 16 bytes.
        task: Name of the task, 1 to 255 bytes; not one that ends in ``:verify``.
        queue: Name of the queue, 1 to 255 bytes.
        tenant: On whose behalf, 1 to 255 bytes.
        tier: How urgent, 0 to 4.
        args: The named arguments, a JSON object as text, at most 256 KiB.
        delay_ms: Wait before it becomes available, from the store's time of now.
        scheduled_at_ms: The instant at which it becomes available; None: ``delay_ms`` says.
        expires_at_ms: Instant after which it is cancelled instead of started.
        dedup_key: At most one live job per key and queue.
        on_conflict: What an enqueue does when a live job holds the key; see ``domain/intake.py``.
        express: Whether it goes to the express lane.
        tags: Free words to find it by.
        trace: A trace context to hand on.
        after: Ids of the jobs that must end first, at most 10,000; not with ``on_conflict="replace"``.
        on_failure: What becomes of it when one of those ends in any way but success.
        dedup_ttl_ms: How long its key stays taken after its end, 1 or more; as long as the job itself is kept.
        bundle: The id of the jobs with one result that it belongs to.
    """

    id: bytes
    task: str
    queue: str = DEFAULT_QUEUE
    tenant: str = DEFAULT_TENANT
    tier: int = Tier.NORMAL
    args: str = "{}"
    delay_ms: int = 0
    scheduled_at_ms: int | None = None
    expires_at_ms: int | None = None
    dedup_key: str | None = None
    on_conflict: OnConflict = "return"
    express: bool = False
    tags: tuple[str, ...] = ()
    trace: str | None = None
    after: tuple[bytes, ...] = ()
    on_failure: OnFailure = "cancel"
    dedup_ttl_ms: int | None = None
    bundle: bytes | None = None

    def __post_init__(self) -> None:
        try:
            check_task_name("task", self.task)
            text("queue", self.queue)
            text("tenant", self.tenant)
            Tier.of(self.tier)
            text("args", self.args, max_bytes=MAX_ARGS_BYTES)
            if self.delay_ms:
                whole("delay_ms", self.delay_ms)
            if self.scheduled_at_ms is not None:
                whole("scheduled_at_ms", self.scheduled_at_ms)
            if self.expires_at_ms is not None:
                whole("expires_at_ms", self.expires_at_ms)
            if self.dedup_key is not None:
                text("dedup_key", self.dedup_key)
            for tag in self.tags:
                text("tag", tag)
            if self.trace is not None:
                text("trace", self.trace, max_bytes=1024)
            if self.after or self.dedup_ttl_ms is not None:
                self._check_ties()
        except InvalidValue as error:
            raise InvalidJob(f"task {self.task!r}: {error}") from None

    def _check_ties(self) -> None:
        """Refuse what cannot be meant about other jobs.

        Raises:
            InvalidValue: It waits for too many jobs, would take the place of another that waits for none of them, or
                keeps a key that it does not have.
        """
        if len(self.after) > MAX_BATCH:
            raise InvalidValue(f"after names {len(self.after):,} jobs; at most {MAX_BATCH:,} are allowed")
        if self.after and self.dedup_key is not None and self.on_conflict == "replace":
            raise InvalidValue('after cannot be used with on_conflict="replace"; use "successor" or another key')
        if self.dedup_ttl_ms is not None:
            whole("dedup_ttl_ms", self.dedup_ttl_ms, least=1, most=MAX_INT >> 20)
            if self.dedup_key is None:
                raise InvalidValue("dedup_ttl needs a dedup_key: it is that key which it keeps")

    @property
    def lane(self) -> LaneKey:
        """The lane it will wait in."""
        return LaneKey(self.queue, self.task, self.tenant, int(self.tier))

    @property
    def bare(self) -> bool:
        """Whether nothing is said of it but its lane and arguments, as of most jobs: a store may write those together.

        It is available from its enqueue on, and nothing ties it to other jobs.
        """
        return not (
            self.delay_ms
            or self.tags
            or self.express
            or self.after
            or self.trace is not None
            or self.dedup_key is not None
            or self.scheduled_at_ms is not None
            or self.expires_at_ms is not None
            or self.bundle is not None
            or self.on_failure != "cancel"
        )

    def arrival_ms(self, now_ms: int) -> int:
        """Return its arrival: the later of the enqueue's instant and the scheduled one."""
        due = now_ms + self.delay_ms if self.scheduled_at_ms is None else self.scheduled_at_ms
        return min(max(now_ms, due), MAX_INT >> 20)


class Enqueued(msgspec.Struct, frozen=True):
    """What became of one new job: its id, and whether it was created (False: the live job with the same key)."""

    id: bytes
    created: bool


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One failed or crashed run.

    Attributes:
        attempt: The run's number, from 1.
        at_ms: When it ended.
        kind: ``"failure"`` or ``"crash"``.
        type: Name of the exception type, or of the cause of the crash.
        message: Its text, sanitised and cut.
        traceback: Its traceback, sanitised and cut.
        worker: Who ran it.
        check: Which check of the attempt's work failed, from 1; 0 when the attempt itself did.
        frame: The innermost function of the user's own code in the traceback; ``""``: there is none.
    """

    attempt: int
    at_ms: int
    kind: Literal["failure", "crash"]
    type: str
    message: str = ""
    traceback: str = ""
    worker: str = ""
    check: int = 0
    frame: str = ""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One job as it is stored; instants in milliseconds UTC, JSON as text. See SPEC section 1 for each field."""

    seq: int
    id: bytes
    task: str
    queue: str
    tenant: str
    tier: int
    state: State
    phase: Phase
    args: str
    arrival_ms: int
    express: int | None
    fence: int
    failures: int
    crashes: int
    checks: int
    preemptions: int
    worker: str | None
    rule: Rule | None
    enqueued_at_ms: int
    scheduled_at_ms: int
    available_at_ms: int | None
    started_at_ms: int | None
    finished_at_ms: int | None
    expires_at_ms: int | None
    lease_expires_at_ms: int | None
    dedup_key: str | None
    progress: str | None
    checkpoint: str | None
    result: str | None
    reason: str | None
    errors: tuple[ErrorRecord, ...]
    tags: tuple[str, ...]
    trace: str | None
    reference: str | None = None
    """What the other system calls the work, as JSON; what the process phase returned."""
    behind: int = 0
    """How many jobs it still waits for."""
    handed: int = 0
    """The attempt whose work is checked."""
    on_failure: OnFailure = "cancel"
    successor: bool = False
    """Whether it waits behind the running job of its dedup key."""
    bundle: bytes | None = None

    @property
    def uuid(self) -> UUID:
        """The id as a UUID."""
        return UUID(bytes=self.id)

    @property
    def attempt(self) -> int:
        """Number of the run that it waits for or is in, from 1; in the verify phase, of the one that is checked."""
        return self.handed if self.phase == "verify" else self.failures + self.crashes + 1

    @property
    def lane(self) -> LaneKey:
        """The lane that it is in; a phase of its own has a lane of its own."""
        return LaneKey(self.queue, lane_task(self.task, self.phase), self.tenant, self.tier)


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The right to run one job for a limited time; ``fence`` proves it to every later call.

    Attributes:
        fence: Grows with every claim of the job; never repeats.
        attempt: This run's number, from 1; in the verify phase, that of the run whose work is checked.
        deadline_ms: When the lease ends unless it is renewed.
        start: The decision that started it.
    """

    seq: int
    id: bytes
    fence: int
    attempt: int
    failures: int
    crashes: int
    checks: int
    phase: Phase
    args: str
    checkpoint: str | None
    arrival_ms: int
    available_at_ms: int
    started_at_ms: int
    deadline_ms: int
    trace: str | None
    start: Start
    reference: str | None = None

    @property
    def task(self) -> str:
        """Name of the task to run; in the verify phase, of the task whose work is checked."""
        return plain_task(self.start.lane.task, self.phase)

    @property
    def uuid(self) -> UUID:
        """The job's id as a UUID."""
        return UUID(bytes=self.id)


class Settlement(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How one claim ended.

    Attributes:
        seq: The job's number.
        fence: The claim's fence.
        kind: ``completed``, ``retry`` (a failure, again after ``delay_ms``), ``dead`` (a failure, or a handler's wish,
            and never again), ``cancelled``, ``snoozed`` (again after ``delay_ms``, counts for nothing), ``released``
            (given back at once, counts for nothing), ``crashed`` (again at once, or dead beyond ``max_crashes``),
            ``handed`` (process is done: on to verify after ``delay_ms``), ``pending`` (a check found the work not
            finished, or failed, which its ``error`` says: again after ``delay_ms``).
        run_us: Run time in microseconds.
        delay_ms: Wait before the job becomes available again.
        result: The result as JSON text.
        error: The failed run, for ``retry``, ``dead``, ``crashed`` and a check that failed.
        reason: Why it is dead or cancelled.
        units_us: What the handler reported with ``ctx.charge``, one unit as 1,000,000.
        preempted: Whether a released run counts as a preemption.
        wait_for: A named limit that was told to wait, and for how many milliseconds.
        reference: What the other system calls the work, as JSON text; kept when None.
        checked: Whether the run was a check that counts.
        to: The phase that the job goes on with if it goes on, and its lane there (None: the one that it had there
            before); None: the phase that it is in.
    """

    seq: int
    fence: int
    kind: Kind
    run_us: int = 0
    delay_ms: int = 0
    result: str | None = None
    error: ErrorRecord | None = None
    reason: str | None = None
    units_us: int | None = None
    preempted: bool = False
    wait_for: tuple[str, int] | None = None
    reference: str | None = None
    checked: bool = False
    to: tuple[Phase, LaneKey | None] | None = None


class Beat(msgspec.Struct, frozen=True):
    """What a heartbeat found: ``ok``, ``lost``, or a wish that the holder stops (``cancel``, ``preempt``)."""

    seq: int
    fence: int
    answer: Literal["ok", "lost", "cancel", "preempt"]


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is alive, as it declared itself; its id is new at every start."""

    id: str
    pool: str
    queues: tuple[str, ...] | None
    slots: int
    tasks: tuple[str, ...] | None = None
    host: str = ""
    pid: int = 0
    started_at_ms: int = 0
    seen_at_ms: int = 0
    queue_slots: tuple[int, ...] | None = None
    """How many of its slots each of ``queues`` may use; None: all of them."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant; None means any. Several states are any of them; a task is meant in both its phases.

    Attributes:
        states: The states that they may be in.
        queue: Their queue; ``task``, ``tenant`` and ``tier`` likewise.
        tag: A tag that they have.
        fingerprint: What dead jobs are grouped by.
        dedup_key: Their dedup key, in any queue.
        ids: Their ids, at most :data:`MAX_IDS`.
        bundle: The id of the jobs with one result that they belong to.
        error: The type of their last error.
        enqueued_before_ms: They were enqueued before this instant.
        ended_from_ms: They ended at this instant or later; ``ended_before_ms``: before it.
        text: What their task, tenant, dedup key, one of their tags, or the type or message of their last error
            contains, ASCII letters in either case.
    """

    states: tuple[State, ...] | None = None
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    tier: int | None = None
    tag: str | None = None
    fingerprint: str | None = None
    dedup_key: str | None = None
    ids: tuple[bytes, ...] | None = None
    bundle: bytes | None = None
    error: str | None = None
    enqueued_before_ms: int | None = None
    ended_from_ms: int | None = None
    ended_before_ms: int | None = None
    text: str | None = None


class DepthRow(msgspec.Struct, frozen=True):
    """How many jobs of one lane are in each live state, and since when the oldest waits."""

    queue: str
    task: str
    tenant: str
    tier: int
    scheduled: int
    available: int
    running: int
    oldest_arrival_ms: int | None
