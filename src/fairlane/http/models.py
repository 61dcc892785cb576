"""The JSON of requests and answers, for checking and for the OpenAPI document. Unknown fields are refused on write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=255)]
Reason = Annotated[str, Field(max_length=1024, description="Why, for the record of changes.")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Tier = Literal["critical", "high", "normal", "low", "background"]
Phase = Literal["process", "verify"]
OnFailure = Literal["cancel", "run"]
State = Literal["scheduled", "available", "running", "completed", "dead", "cancelled"]
Instant = Annotated[AwareDatetime, Field(strict=False, description="RFC 3339, with a time zone.")]
Time = Annotated[str | None, Field(json_schema_extra={"format": "date-time"})]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Json = dict[str, Any]  # Any: JSON values


class Sent(BaseModel):
    """What clients send: exact types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """What the server answers."""

    model_config = ConfigDict(extra="allow")


# ---------------------------------------------------------------- errors


class Problem(Told):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="Stable; what programs look at.")
    errors: list[Json] | None = Field(
        None, description="What is wrong where: a JSON pointer into the body, or a parameter as `query.limit`."
    )
    retry_after: int | None = Field(None, description="Seconds after which to try again.")
    current: int | None = Field(None, description="How many there are, when something is full.")
    max: int | None = Field(None, description="How many there may be.")


# ---------------------------------------------------------------- jobs


class JobIn(Sent):
    """A job to store."""

    task: Name
    args: Json = Field(default_factory=dict, description="Named arguments, at most 256 KiB as JSON.")
    queue: Name | None = None
    tenant: Name | None = None
    tier: Tier | None = None
    delay: Seconds | None = Field(None, description="Seconds before it may run; not with `scheduled_at`.")
    scheduled_at: Instant | None = None
    expires_in: Seconds | None = Field(None, description="Seconds after which it is cancelled instead of started.")
    expires_at: Instant | None = None
    dedup_key: Name | None = None
    on_conflict: Literal["return", "raise", "replace", "successor"] | None = None
    dedup_ttl: Seconds | None = Field(None, description="Seconds for which its key stays taken after its end.")
    expedite: bool = False
    after: Annotated[list[str], Field(max_length=10_000)] | None = Field(
        None, description="Ids of jobs that must end first."
    )
    on_failure: OnFailure | None = None
    tags: Annotated[list[Name], Field(max_length=100)] | None = None
    trace: Annotated[str, Field(max_length=1024)] | None = Field(
        None, description="A W3C traceparent; the request's own by default."
    )


class BatchIn(Sent):
    """Jobs to store, all or none."""

    jobs: Annotated[list[JobIn], Field(min_length=1, max_length=1000)]


class Why(Sent):
    """A reason."""

    reason: Reason = ""


class TierIn(Why):
    """A tier to raise a job to, or with `lower` to give it whatever it was."""

    tier: Tier
    lower: bool = False


class JobOut(Told):
    """A job as lists show it."""

    id: str
    task: str
    queue: str
    tenant: str
    tier: Tier
    state: State
    phase: Phase
    express: bool
    failures: int
    crashes: int
    checks: int
    fence: int
    worker: str | None
    dedup_key: str | None
    tags: list[str]
    reason: str | None
    enqueued_at: Time
    scheduled_at: Time
    available_at: Time
    started_at: Time
    finished_at: Time
    expires_at: Time
    lease_expires_at: Time


class Attempt(Told):
    """A failed or crashed run."""

    attempt: int
    at: Time
    kind: Literal["failure", "crash"]
    type: str
    message: str
    traceback: str
    worker: str


class JobFull(JobOut):
    """Everything of a job; secrets in `args`, `result` and `checkpoint` may be redacted."""

    args: Any  # Any: JSON, redacted as it may be
    progress: Json | None
    checkpoint: Any  # Any: JSON
    result: Any  # Any: JSON
    errors: list[Attempt]
    trace: str | None
    reference: Any  # Any: JSON
    behind: int = Field(description="How many jobs it still waits for.")
    on_failure: OnFailure = Field(description="What becomes of it when one of those does not succeed.")
    successor: bool = Field(description="Whether it waits behind the running job of its dedup key.")
    bundle: str | None = Field(description="The id of the group of jobs that it belongs to.")


class JobStored(JobOut):
    """A job, and whether this request made it."""

    created: bool


class JobMoved(JobFull):
    """A job after a change of its tier."""

    outcome: Literal["boosted", "not_higher"]


class JobsOut(Told):
    """A page of jobs, newest first."""

    items: list[JobOut]
    next_cursor: str | None = Field(description="Give it as `cursor` to go on; null: there are no more.")
    count: Json | None = Field(
        None, description="With `count=true`: `value`, and `capped` when counting stopped there."
    )


class StoredOut(Told):
    """Jobs of a batch, in order."""

    items: list[JobStored]


class AttemptsOut(Told):
    """A job's failed and crashed runs, oldest first."""

    items: list[Attempt]


class ResultOut(Told):
    """How a job ended, or where it is."""

    id: str
    state: State
    result: Any  # Any: JSON
    stored: bool = Field(description="False: the result was too large to be stored.")
    reason: str | None


class Items(Told):
    """A list."""

    items: list[Json]


class Paged(Items):
    """A page of a list."""

    next_cursor: str | None


# ---------------------------------------------------------------- leases


class LeaseIn(Sent):
    """What a worker asks for."""

    queues: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Queues of one pool; null: all of the pool."
    )
    tasks: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    pool: Name | None = None
    lease: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False)] = Field(
        30.0, description="Seconds that the claim lasts unless it is renewed."
    )
    wait: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = Field(
        0.0, description="Seconds to wait for a job."
    )
    max: Annotated[int, Field(ge=1, le=100)] = 1


class Lease(Told):
    """The right to run one job. Its holder proves it with `id` and `fence`."""

    id: str
    fence: int
    task: str
    phase: Phase
    queue: str
    tenant: str
    tier: Tier
    attempt: int
    args: Json
    checkpoint: Any  # Any: JSON
    reference: Any = None  # Any: JSON
    trace: str | None
    lease_expires_at: Time


class LeasesOut(Told):
    """Jobs that were started; none when nothing may run."""

    items: list[Lease]


class Held(Sent):
    """Who holds a lease: the fence that came with it."""

    fence: Count


class BeatIn(Held):
    """A sign of life."""

    lease: Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False)] | None = Field(
        None,
        description="Seconds that it lasts from now on; say what the claim said. Null: 30, or what is left if more.",
    )


class BeatOut(Told):
    """What the holder should do."""

    asked: Literal["cancel", "preempt"] | None = Field(
        description="null: go on; `cancel`: ack with outcome `cancelled`; `preempt`: nack with outcome `released`."
    )
    lease_expires_at: Time


class AckIn(Held):
    """The run succeeded, or ended in a way that is no failure."""

    result: Any = Field(None, description="What it returned; at most 256 KiB as JSON.")  # Any: JSON
    outcome: Literal["completed", "cancelled"] = "completed"
    reason: Reason = ""


class NackIn(Held):
    """The run failed, or gives the job back."""

    error: Annotated[str, Field(max_length=65_536)] = ""
    outcome: Literal["retry", "dead", "snoozed", "released", "pending", "rejected"] = Field(
        "retry",
        description="`retry`: a failure, tried again while attempts remain; `dead`: never again; `snoozed`: again "
        "after `retry_in`, and `released`: again at once; both count for nothing. In the verify phase `pending`: the "
        "work is not finished; `rejected`: it failed.",
    )
    retry_in: Seconds | None = None
    preempted: bool = False


class SaveIn(Held):
    """How far a run is."""

    checkpoint: Any = None  # Any: JSON
    progress: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    note: Annotated[str, Field(max_length=1024)] = ""


# ---------------------------------------------------------------- many


class FilterIn(Sent):
    """Which jobs are meant: those that fit all of it."""

    state: State | Annotated[list[State], Field(min_length=1)] | None = None
    queue: Name | None = None
    task: Name | None = None
    tenant: Name | None = None
    tier: Tier | None = None
    tag: Name | None = None
    dedup_key: Name | None = None
    fingerprint: Name | None = None
    error: Name | None = None
    ids: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    older_than: Seconds | None = None
    ended_after: Instant | None = None
    ended_before: Instant | None = None
    q: Name | None = None


class BulkIn(Why):
    """One action on many jobs."""

    filter: FilterIn
    action: Literal["retry", "cancel", "discard", "boost", "set_tier", "expedite", "reverify"]
    tier: Tier | None = Field(None, description="For `boost` and `set_tier`; for `retry`, the tier to come back in.")
    rate: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Most jobs a second; null: as fast as the store can."
    )
    limit: Annotated[int, Field(ge=1, le=2**31)] | None = None
    dry_run: bool = Field(False, description="Only tell how many jobs it would mean, and some of them.")


class ReplayIn(Why):
    """How dead jobs of a group come back."""

    rate: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = 10.0
    limit: Annotated[int, Field(ge=1, le=2**31)] | None = None
    tier: Tier | None = None
    phase: Annotated[Phase, Field(description="`verify`: have their work checked again instead of running them.")] = (
        "process"
    )


class OperationOut(Told):
    """How far an action on many jobs is."""

    id: str
    action: str
    state: Literal["running", "paused", "done", "cancelled"]
    total: int
    done: int
    refused: int
    progress: float


class PreviewOut(Told):
    """What an action would mean; nothing has changed."""

    action: str
    count: int
    more: bool
    sample: list[JobOut]


# ---------------------------------------------------------------- tokens


class TokenIn(Sent):
    """A token to make."""

    name: Name
    role: Literal["viewer", "operator", "admin"] = "viewer"
    tenant: Name | None = None
    expires_in: Annotated[float, Field(gt=0, le=3_162_240_000, allow_inf_nan=False)] | None = None


class TokenOut(Told):
    """A token's record."""

    id: str
    name: str
    role: Literal["viewer", "operator", "admin"]
    tenant: str | None


class TokenMade(TokenOut):
    """A token that was just made; `token` cannot be had again."""

    token: str


ERRORS: Final = {
    400: "The request cannot be read.",
    401: "There is no valid token.",
    403: "The token's role or tenant does not allow this.",
    404: "There is nothing of this name that the token may see.",
    408: "The request took too long to arrive.",
    409: "The state does not allow this, or the lease is lost.",
    412: "What is set has changed since it was read.",
    413: "The request is too large, or nested too deep.",
    415: "The request is not JSON.",
    421: "The server does not know the Host.",
    422: "A value breaks a rule.",
    429: "There is no room, or there were too many requests; see Retry-After.",
    500: "Something went wrong inside.",
    503: "The store is busy or cannot be reached; see Retry-After.",
}


def answers(told: Mapping[int, type[BaseModel] | str], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's answers: these, the errors of every route, and those of ``statuses``.

    Args:
        told: By status, what the answer is: a model, or the media type of one that is no JSON.
        statuses: Errors that the route has beside those of every route.
    """
    always = (400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503)
    schema = {"$ref": "#/components/schemas/Problem"}
    documented: dict[int | str, dict[str, Any]] = {
        status: {"description": ERRORS[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in sorted({*always, *statuses})
    }
    for status, what in told.items():
        text = {"content": {what: {"schema": {"type": "string"}}}}
        documented[status] = text if isinstance(what, str) else {"model": what}
    return documented
