"""OpenTelemetry (extra ``otel``): a span for each enqueue, one for each attempt, and a link from this to that.

Spans and metrics follow OpenTelemetry's semantic conventions for messaging, as of the schema that :data:`SCHEMA` names.
Those are still in development and may change their names; fairlane writes one version of them at a time, so the
variable ``OTEL_SEMCONV_STABILITY_OPT_IN``, which chooses between an old and a new one, has nothing to choose here.

An attempt's span is the root of a trace of its own: it may come hours after the enqueue, and several times, and a
batch's jobs would make one trace of ten thousand runs. It *links* to the producer's context instead, which the job
carries as a W3C ``traceparent`` (the 55 characters; ``tracestate`` and baggage are not kept).

A fault in here, in a span processor or in an exporter is logged and harms neither the enqueue nor the attempt.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, Protocol, Self
from uuid import UUID

from msgspec.structs import replace
from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fairlane.clock import SystemClock
from fairlane.domain.jobs import Claim, Enqueued, NewJob, Settlement
from fairlane.domain.payloads import one_line
from fairlane.domain.tiers import Tier
from fairlane.hooks import Hooks
from fairlane.tracing import Run
from fairlane.worker.records import message_of, type_name

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM: Final = "fairlane"
LOST: Final = "fairlane.errors.LeaseLost"
MAX_TEXT: Final = 1024
"""Characters of an error's text in a span."""
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bounds of the histograms' buckets, as the conventions advise, and longer ones, for handlers that take minutes."""
LONG_SECONDS: Final = (*SECONDS, 30, 60, 300, 1800, 3600)

log = logging.getLogger("fairlane.telemetry")

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_PARENT: Final = "traceparent"

Attributes = dict[str, str | int | bool]


class Instrumented(Protocol):
    """What can be instrumented: an app, or a client."""

    @property
    def hooks(self) -> Hooks:
        """The hooks that its calls and its workers share."""
        ...


def instrument(
    app: Instrumented, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Make spans and metrics of what an app enqueues and runs from now on, in this process; again: anew.

    Args:
        app: The app. Workers that run already follow.
        tracer_provider: Makes the spans; None: the global one, also when it is set later.
        meter_provider: Makes the metrics; None: likewise.
    """
    app.hooks.tracer = Telemetry(tracer_provider, meter_provider)


def traceparent_of(span: Span) -> str | None:
    """Return a span's context as a W3C ``traceparent``; None when it has none, as without a tracer provider."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(_PARENT)


def links_to(traceparent: str | None) -> list[Link]:
    """Return a link to the context that a job carries; none when it carries none, or something else."""
    if traceparent is None:
        return []
    found = trace.get_current_span(_PROPAGATOR.extract({_PARENT: traceparent}, Context())).get_span_context()
    return [Link(found)] if found.is_valid else []


class Telemetry:
    """The :class:`~fairlane.tracing.Tracer` of OpenTelemetry.

    Args:
        tracer_provider: Makes the spans; None: the global one.
        meter_provider: Makes the metrics; None: the global one.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        ours = version("fairlane")
        self.tracer = trace.get_tracer("fairlane", ours, tracer_provider, SCHEMA)
        meter = metrics.get_meter("fairlane", ours, meter_provider, SCHEMA)
        self.clock = SystemClock()
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Jobs that were given to the store."
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", unit="{message}", description="Jobs whose attempts began."
        )
        self.operation = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="How long an enqueue took, its transaction included.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self.process = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="How long handlers ran.",
            explicit_bucket_boundaries_advisory=LONG_SECONDS,
        )

    def sending(self, jobs: Sequence[NewJob]) -> SendSpan:
        """Follow jobs while they are stored."""
        return SendSpan(self, jobs)

    def running(self, run: Run) -> ProcessSpan:
        """Follow an attempt."""
        return ProcessSpan(self, run)


class SendSpan:
    """The span ``send {queue}`` around one transaction of an enqueue; a batch of several queues is called ``send``.

    Jobs without a trace context get that of the span. To one that the caller gave, which is kept, the span links.
    """

    def __init__(self, home: Telemetry, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.stored: Sequence[Enqueued] = ()
        self._home = home
        self._span: Span | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001  see the head of the module
            _failed("send_not_traced", self.jobs[0].id, error)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self._end(error)
        except Exception as fault:  # noqa: BLE001  see the head of the module
            _failed("send_not_traced", self.jobs[0].id, fault)

    def _begin(self) -> None:
        jobs, home = self.jobs, self._home
        self._began = home.clock.monotonic()
        queue = _common([job.queue for job in jobs])
        given = [link for parent in dict.fromkeys(job.trace for job in jobs) for link in links_to(parent)]
        span = self._span = home.tracer.start_span(
            _name("send", queue), kind=SpanKind.PRODUCER, attributes=_of_jobs(jobs, queue), links=given
        )
        parent = traceparent_of(span)
        if parent is not None:
            self.jobs = [replace(job, trace=parent) if job.trace is None else job for job in jobs]

    def _end(self, error: BaseException | None) -> None:
        home, jobs, span = self._home, self.jobs, self._span
        if span is None:
            return
        failed: Attributes = {}
        if error is not None:
            failed["error.type"] = type_name(error)
            span.set_attributes(failed)
            span.set_status(Status(StatusCode.ERROR, message_of(error, MAX_TEXT)))
        elif len(self.stored) == 1:  # a dedup key may have returned another job
            span.set_attributes(_of_stored(self.stored[0]))
        span.end()
        counts = Counter(job.queue for job in jobs)
        for queue, count in counts.items():
            home.sent.add(count, _of_operation("send", queue) | failed)
        home.operation.record(home.clock.monotonic() - self._began, _of_operation("send", _common([*counts])) | failed)


class ProcessSpan:
    """The span ``process {queue}`` around one attempt, current while its handler runs, with a link to the producer."""

    def __init__(self, home: Telemetry, run: Run) -> None:
        self._home = home
        self._run = run
        self._span: Span | None = None
        self._token: Any = None  # Any: a token of contextvars, whose type OpenTelemetry hides

    def __enter__(self) -> Self:
        try:
            self._begin(self._run.claim)
        except Exception as error:  # noqa: BLE001  see the head of the module
            _failed("attempt_not_traced", self._run.claim.id, error)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self._end(self._run.claim, self._run.settlement)
        except Exception as fault:  # noqa: BLE001  see the head of the module
            _failed("attempt_not_traced", self._run.claim.id, fault)

    def _begin(self, claim: Claim) -> None:
        queue = claim.start.lane.queue
        span = self._span = self._home.tracer.start_span(
            _name("process", queue),
            context=Context(),
            kind=SpanKind.CONSUMER,
            attributes=_of_claim(claim),
            links=links_to(claim.trace),
        )
        self._token = context.attach(trace.set_span_in_context(span, Context()))
        self._home.consumed.add(1, _of_operation("process", queue))

    def _end(self, claim: Claim, settlement: Settlement | None) -> None:
        if self._token is not None:
            context.detach(self._token)
        span = self._span
        if span is None:
            return
        failed: Attributes = {}
        outcome: Attributes = {"fairlane.outcome": "lost" if settlement is None else settlement.kind}
        if (why := _failure(settlement)) is not None:
            failed["error.type"] = why[0]
            span.set_status(Status(StatusCode.ERROR, why[1][:MAX_TEXT]))
        if settlement is not None and settlement.error is not None:
            span.add_event(
                "exception",
                {
                    "exception.type": settlement.error.type,
                    "exception.message": settlement.error.message,
                    "exception.stacktrace": settlement.error.traceback,
                },
            )
        span.set_attributes(outcome | failed)
        span.end()
        if settlement is not None:
            told = _of_operation("process", claim.start.lane.queue) | failed
            self._home.process.record(settlement.run_us / 1_000_000, told)


# ---------------------------------------------------------------- names


def _name(operation: str, queue: str | None) -> str:
    return operation if queue is None else f"{operation} {queue}"


def _common(values: Sequence[str]) -> str | None:
    """Return the value that all have, or None."""
    return values[0] if len(set(values)) == 1 else None


def _of_operation(operation: str, queue: str | None) -> Attributes:
    """Return what metrics are told apart by: few values, so no job, task, tenant or tier."""
    told: Attributes = {"messaging.system": SYSTEM, "messaging.operation.name": operation}
    return told if queue is None else told | {"messaging.destination.name": queue}


def _of_jobs(jobs: Sequence[NewJob], queue: str | None) -> Attributes:
    told = _of_operation("send", queue) | {"messaging.operation.type": "send"}
    if len(jobs) == 1:
        told["messaging.message.id"] = str(UUID(bytes=jobs[0].id))
    else:
        told["messaging.batch.message_count"] = len(jobs)
    shared: Mapping[str, str | None] = {
        "fairlane.task": _common([job.task for job in jobs]),
        "fairlane.tenant": _common([job.tenant for job in jobs]),
        "fairlane.tier": _common([Tier(job.tier).label for job in jobs]),
    }
    return told | {name: value for name, value in shared.items() if value is not None}


def _of_stored(stored: Enqueued) -> Attributes:
    return {"messaging.message.id": str(UUID(bytes=stored.id)), "fairlane.created": stored.created}


def _of_claim(claim: Claim) -> Attributes:
    lane = claim.start.lane
    return _of_operation("process", lane.queue) | {
        "messaging.operation.type": "process",
        "messaging.message.id": str(claim.uuid),
        "fairlane.task": claim.task,
        "fairlane.tenant": lane.tenant,
        "fairlane.tier": Tier(lane.tier).label,
        "fairlane.attempt": claim.attempt,
        "fairlane.phase": claim.phase,
    }


def _failure(settlement: Settlement | None) -> tuple[str, str] | None:
    """Return the type and the text of what made a run fail, or None: it did not."""
    if settlement is None:
        return LOST, "the lease was lost"
    if settlement.error is not None:
        return settlement.error.type, settlement.error.message
    if settlement.kind in {"dead", "crashed"}:  # a handler's wish, with its reason
        return settlement.kind, settlement.reason or ""
    return None


def _failed(event: str, job: bytes, error: Exception) -> None:
    words = one_line(f"{type_name(error)}: {message_of(error, MAX_TEXT)}")
    log.warning("%s job=%s error=%s", event, UUID(bytes=job), words)
