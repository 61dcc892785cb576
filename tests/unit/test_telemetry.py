"""OpenTelemetry: spans of enqueues and attempts, the link between them, metrics, and what they cost when off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import messaging_attributes as semconv
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.trace import SpanKind, StatusCode

import fairlane as fl
from fairlane import telemetry
from fairlane.domain.jobs import Claim

CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SAMPLED = 1
ONCE = fl.Retry(max_attempts=1)


class Traced:
    """An app with a tracer provider of its own, and the spans and metrics that came of it."""

    def __init__(self, folder: Path) -> None:
        self.app = fl.Fairlane(f"sqlite:///{folder}/jobs.db", durability="normal")
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.app.instrument(tracer_provider=self.provider, meter_provider=self.meters)

    def close(self) -> None:
        self.app.close()
        self.provider.shutdown()
        self.meters.shutdown()

    def drain(self) -> None:
        self.app.run_worker(until_idle=True, signals=False)

    def spans(self, kind: SpanKind | None = None) -> list[ReadableSpan]:
        """Return the spans that have ended, of one kind, oldest first."""
        return [span for span in self.exporter.get_finished_spans() if kind is None or span.kind == kind]

    def one(self, kind: SpanKind) -> ReadableSpan:
        (span,) = self.spans(kind)
        return span

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the points of a metric: attributes, and the value or the count of a histogram."""
        told = self.reader.get_metrics_data()
        assert told is not None
        return [
            (dict(point.attributes or {}), point.count if hasattr(point, "count") else point.value)  # type: ignore[union-attr]
            for resource in told.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    made = Traced(tmp_path)
    yield made
    made.close()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


# ---------------------------------------------------------------- the two spans and what ties them


def test_an_attempt_links_to_its_enqueue_and_is_no_child_of_it(traced: Traced) -> None:
    """T-M27."""
    app = traced.app

    @app.task(queue="mail", tier=fl.Tier.HIGH)
    def send(to: str) -> None: ...

    with traced.provider.get_tracer("caller").start_as_current_span("request") as request:
        job = send.using(tenant="acme").enqueue("a@b.c")
    traced.drain()
    producer, consumer = traced.one(SpanKind.PRODUCER), traced.one(SpanKind.CONSUMER)
    assert (producer.name, consumer.name) == ("send mail", "process mail")
    assert producer.parent is not None
    assert producer.parent.span_id == request.get_span_context().span_id
    assert consumer.parent is None, "an attempt may come hours later, and again"
    assert linked(consumer) == [ids(producer)]
    assert ids(consumer)[0] != ids(producer)[0]
    assert attributes(producer) == {
        semconv.MESSAGING_SYSTEM: "fairlane",
        semconv.MESSAGING_OPERATION_NAME: "send",
        semconv.MESSAGING_OPERATION_TYPE: semconv.MessagingOperationTypeValues.SEND.value,
        semconv.MESSAGING_DESTINATION_NAME: "mail",
        semconv.MESSAGING_MESSAGE_ID: str(job.id),
        "fairlane.task": send.name,
        "fairlane.tenant": "acme",
        "fairlane.tier": "high",
        "fairlane.created": True,
    }
    assert attributes(consumer) == {
        semconv.MESSAGING_SYSTEM: "fairlane",
        semconv.MESSAGING_OPERATION_NAME: "process",
        semconv.MESSAGING_OPERATION_TYPE: semconv.MessagingOperationTypeValues.PROCESS.value,
        semconv.MESSAGING_DESTINATION_NAME: "mail",
        semconv.MESSAGING_MESSAGE_ID: str(job.id),
        "fairlane.task": send.name,
        "fairlane.tenant": "acme",
        "fairlane.tier": "high",
        "fairlane.attempt": 1,
        "fairlane.phase": "process",
        "fairlane.outcome": "completed",
    }
    assert {span.status.status_code for span in (producer, consumer)} == {StatusCode.UNSET}


def test_handlers_see_their_own_span_as_the_current_one(traced: Traced) -> None:
    app = traced.app
    seen: dict[str, tuple[int, int]] = {}

    def note(name: str) -> None:
        context = trace.get_current_span().get_span_context()
        seen[name] = context.trace_id, context.span_id

    @app.task(queue="threads")
    def sync() -> None:
        note("threads")

    @app.task(queue="loop")
    async def in_loop() -> None:
        await asyncio.sleep(0)
        note("loop")
        await asyncio.to_thread(note, "its thread")

    sync.enqueue()
    in_loop.enqueue()
    traced.drain()
    spans = {span.name.removeprefix("process "): ids(span) for span in traced.spans(SpanKind.CONSUMER)}
    assert seen == {**spans, "its thread": spans["loop"]}
    assert not trace.get_current_span().get_span_context().is_valid


def test_concurrent_handlers_in_one_loop_keep_their_spans_apart(traced: Traced) -> None:
    app = traced.app
    seen: dict[int, int] = {}
    inside = 0
    all_in = asyncio.Event()

    @app.task
    async def meet(n: int) -> None:
        nonlocal inside
        inside += 1
        if inside == 4:
            all_in.set()
        await all_in.wait()
        seen[n] = trace.get_current_span().get_span_context().span_id

    app.enqueue_many(meet.new(n) for n in range(4))
    traced.drain()
    assert len(set(seen.values())) == 4
    assert set(seen.values()) == {ids(span)[1] for span in traced.spans(SpanKind.CONSUMER)}


def test_a_trace_that_the_caller_gave_is_kept(traced: Traced) -> None:
    app = traced.app

    @app.task
    def plain() -> None: ...

    job = plain.using(trace=CALLERS).enqueue()
    traced.drain()
    producer, consumer = traced.one(SpanKind.PRODUCER), traced.one(SpanKind.CONSUMER)
    trace_id, span_id = (int(part, 16) for part in CALLERS.split("-")[1:3])
    assert linked(producer) == linked(consumer) == [(trace_id, span_id)]
    assert app.owner.read(lambda store, _: store.get(job.id.bytes)).trace == CALLERS  # type: ignore[union-attr]


def test_what_is_no_trace_context_is_handed_on_and_links_to_nothing(traced: Traced) -> None:
    @traced.app.task
    def plain() -> None: ...

    assert telemetry.links_to("order 17") == telemetry.links_to(None) == []
    plain.using(trace="order 17").enqueue()
    traced.drain()
    assert [linked(span) for span in traced.spans()] == [[], []]


def test_a_job_carries_a_w3c_traceparent(traced: Traced) -> None:
    job = traced.app.enqueue("elsewhere", queue="other")
    claim = traced.app.claim(queues=["other"])
    assert claim is not None
    assert claim.job.id == job.id
    assert claim.trace is not None
    trace_id, span_id = ids(traced.one(SpanKind.PRODUCER))
    head, flags = claim.trace[:-2], int(claim.trace[-2:], 16)
    assert (head, flags & SAMPLED) == (f"00-{trace_id:032x}-{span_id:016x}-", SAMPLED)


def test_the_context_goes_on_when_a_sampler_drops_the_span(traced: Traced) -> None:
    """Whoever sees the flag downstream knows that there is nothing to look for."""
    telemetry.instrument(traced.app, tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    traced.app.enqueue("elsewhere")
    claim = traced.app.claim()
    assert claim is not None
    assert claim.trace is not None
    assert not int(claim.trace[-2:], 16) & SAMPLED
    assert traced.spans() == []


def test_without_a_provider_jobs_carry_nothing(traced: Traced) -> None:
    telemetry.instrument(traced.app, tracer_provider=trace.NoOpTracerProvider())
    traced.app.enqueue("elsewhere")
    claim = traced.app.claim()
    assert claim is not None
    assert claim.trace is None


# ---------------------------------------------------------------- batches


def test_a_batch_is_one_span_for_all_its_jobs(traced: Traced) -> None:
    app = traced.app

    @app.task
    def plain(n: int) -> None: ...

    app.enqueue_many((plain.using(tenant=f"t{n}").new(n) for n in range(5)), batch=3)
    first, second = traced.spans(SpanKind.PRODUCER)
    assert [attributes(span)[semconv.MESSAGING_BATCH_MESSAGE_COUNT] for span in (first, second)] == [3, 2]
    assert "fairlane.tenant" not in attributes(first)
    assert semconv.MESSAGING_MESSAGE_ID not in attributes(first)
    traced.drain()
    assert sorted(link for span in traced.spans(SpanKind.CONSUMER) for link in linked(span)) == sorted(
        [ids(first)] * 3 + [ids(second)] * 2
    )


def test_a_batch_of_several_queues_names_none(traced: Traced) -> None:
    app = traced.app
    app.group([app.new("x", queue="a", tier="low"), app.new("y", queue="b", tier="low")])
    span = traced.one(SpanKind.PRODUCER)
    assert span.name == "send"
    assert attributes(span)["fairlane.tier"] == "low"
    assert {"fairlane.task", semconv.MESSAGING_DESTINATION_NAME}.isdisjoint(attributes(span))
    sent = traced.points(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES)
    assert sorted((told[semconv.MESSAGING_DESTINATION_NAME], count) for told, count in sent) == [("a", 1), ("b", 1)]


# ---------------------------------------------------------------- how it ends


async def test_the_asynchronous_face_makes_the_same_span(traced: Traced) -> None:
    job = await traced.app.aenqueue("elsewhere", tenant="acme")
    assert attributes(traced.one(SpanKind.PRODUCER))[semconv.MESSAGING_MESSAGE_ID] == str(job.id)


def test_a_dedup_key_tells_the_job_that_there_was(traced: Traced) -> None:
    job = traced.app.enqueue("x", dedup_key="k")
    traced.app.enqueue("x", dedup_key="k")
    told = [attributes(span) for span in traced.spans(SpanKind.PRODUCER)]
    assert [one[semconv.MESSAGING_MESSAGE_ID] for one in told] == [str(job.id)] * 2
    assert [one["fairlane.created"] for one in told] == [True, False]


def test_a_refused_enqueue_is_an_error_of_its_span(traced: Traced) -> None:
    traced.app.enqueue("x", dedup_key="k")
    with pytest.raises(fl.DedupConflict):
        traced.app.enqueue("x", dedup_key="k", on_conflict="raise")
    span = traced.spans(SpanKind.PRODUCER)[1]
    assert (span.status.status_code, attributes(span)[ERROR_TYPE]) == (
        StatusCode.ERROR,
        "fairlane.errors.DedupConflict",
    )
    failed = [told for told, _ in traced.points(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES) if ERROR_TYPE in told]
    assert len(failed) == 1


def test_every_attempt_has_a_span_that_tells_how_it_ended(traced: Traced) -> None:
    app = traced.app
    runs = 0

    @app.task(retry=fl.Retry(max_attempts=2, base=0.0, jitter=0.0))
    def fails() -> None:
        nonlocal runs
        runs += 1
        raise LookupError("no such thing") if runs == 1 else fl.Dead("enough")

    job = fails.enqueue()
    traced.drain()
    first, second = traced.spans(SpanKind.CONSUMER)
    assert attributes(first)["fairlane.outcome"] == "retry"
    assert attributes(first)[ERROR_TYPE] == "LookupError"
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "no such thing")
    (event,) = first.events
    assert event.attributes is not None
    assert event.attributes["exception.type"] == "LookupError"
    assert "raise LookupError" in str(event.attributes["exception.stacktrace"])
    assert attributes(second)["fairlane.outcome"] == "dead"
    assert second.status.status_code == StatusCode.ERROR
    assert [attributes(span)["fairlane.attempt"] for span in (first, second)] == [1, 2]
    assert linked(first) == linked(second) == [ids(traced.one(SpanKind.PRODUCER))]
    assert job.refresh().state == "dead"


def test_an_outcome_that_is_no_failure_is_no_error(traced: Traced) -> None:
    app = traced.app

    @app.task
    def cancels() -> None:
        raise fl.Cancel("not needed")

    cancels.enqueue()
    traced.drain()
    span = traced.one(SpanKind.CONSUMER)
    assert (attributes(span)["fairlane.outcome"], span.status.status_code) == ("cancelled", StatusCode.UNSET)


def test_checks_are_told_by_their_phase(traced: Traced) -> None:
    app = traced.app

    @app.task(queue="proofs")
    def prove() -> str:
        return "ref-1"

    @prove.verify(every=0.001)
    def check(reference: str) -> fl.Outcome:
        return fl.Verified("done")

    job = prove.enqueue()
    with app.worker(concurrency=1):
        assert job.result(timeout=10) == "done"
    told = [(attributes(span)["fairlane.phase"], span.name) for span in traced.spans(SpanKind.CONSUMER)]
    assert told == [("process", "process proofs"), ("verify", "process proofs")]


class HeldRun:
    """An attempt whose lease was lost: it has no settlement."""

    settlement = None

    def __init__(self, claim: Claim) -> None:
        self.claim = claim


def test_a_lost_lease_is_an_error(traced: Traced) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from rig import make_claim

    tracer = traced.app.hooks.tracer
    assert tracer is not None
    with tracer.running(HeldRun(make_claim())):
        pass
    span = traced.one(SpanKind.CONSUMER)
    assert (attributes(span)["fairlane.outcome"], attributes(span)[ERROR_TYPE]) == (
        "lost",
        "fairlane.errors.LeaseLost",
    )


def test_metrics_have_the_names_and_units_of_the_conventions(traced: Traced) -> None:
    app = traced.app

    @app.task(queue="mail", retry=ONCE)
    def fails(*, now: bool) -> None:
        if now:
            raise LookupError

    app.enqueue_many([fails.new(now=True), fails.new(now=False)])
    traced.drain()
    mail = {semconv.MESSAGING_SYSTEM: "fairlane", semconv.MESSAGING_DESTINATION_NAME: "mail"}
    send = mail | {semconv.MESSAGING_OPERATION_NAME: "send"}
    process = mail | {semconv.MESSAGING_OPERATION_NAME: "process"}
    assert traced.points(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES) == [(send, 2)]
    assert traced.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION) == [(send, 1)]
    assert traced.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES) == [(process, 2)]
    told = traced.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert sorted(told, key=str) == sorted([(process, 1), (process | {ERROR_TYPE: "LookupError"}, 1)], key=str)


# ---------------------------------------------------------------- faults, and when it is off


class Broken(SpanProcessor):
    """Raises at each end of a span, or at both."""

    def __init__(self, *moments: str) -> None:
        self.moments = moments

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if "start" in self.moments:
            raise RuntimeError("the collector is on fire")

    def on_end(self, span: ReadableSpan) -> None:
        if "end" in self.moments:
            raise RuntimeError("the collector is on fire")


@pytest.mark.parametrize("moments", [("start",), ("end",), ("start", "end")])
def test_a_broken_span_processor_harms_no_job(
    traced: Traced, moments: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = traced.app
    done = threading.Event()
    traced.provider.add_span_processor(Broken(*moments))

    @app.task
    def plain() -> str:
        done.set()
        return "fine"

    job = plain.enqueue()
    traced.drain()
    assert (job.result(), done.is_set()) == ("fine", True)
    told = [record.getMessage().split()[0:2] for record in caplog.records if record.name == "fairlane.telemetry"]
    assert told == [["send_not_traced", f"job={job.id}"], ["attempt_not_traced", f"job={job.id}"]]


def test_it_is_off_unless_asked_for_and_imports_nothing_then(tmp_path: Path) -> None:
    program = f"""
import sys
import fairlane as fl
app = fl.Fairlane("sqlite:///{tmp_path}/jobs.db")
assert app.hooks.tracer is None
@app.task
def plain() -> int:
    return 1
plain.enqueue()
app.run_worker(until_idle=True, signals=False)
app.close()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, cwd=tmp_path)


def test_a_setting_turns_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRLANE_TELEMETRY", "on")
    assert isinstance(fl.Fairlane("sqlite://").hooks.tracer, telemetry.Telemetry)
    monkeypatch.setenv("FAIRLANE_TELEMETRY", "0")
    (tmp_path / "fairlane.toml").write_text("telemetry = true\n")
    assert fl.Fairlane("sqlite://").hooks.tracer is None
    monkeypatch.setenv("FAIRLANE_TELEMETRY", "maybe")
    with pytest.raises(fl.ConfigError, match="telemetry must be True or False, not 'maybe'"):
        fl.Fairlane("sqlite://")


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    app = fl.Fairlane("sqlite://")
    monkeypatch.delitem(sys.modules, "fairlane.telemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(fl.ConfigError, match=r"fairlane\[otel\]"):
        app.instrument()
    assert app.hooks.tracer is None
