"""Tasks with a verify phase: what checks are given and may say, in workers and in programs that pull."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import LONG_S, make_claim

import fairlane as fl
from fairlane.alerts import Alert
from fairlane.domain.jobs import Settlement
from fairlane.domain.phases import TIMED_OUT, Verification
from fairlane.outcomes import reference_json
from fairlane.pulled import PulledClaim
from fairlane.testing.clock import ManualClock
from fairlane.worker.verdict import Ending, Judge, bad_arguments

AT_ONCE = fl.Retry(max_attempts=2, base=0.0, jitter=0.0)
SOON: dict[str, Any] = {"every": 0.01}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[fl.Fairlane]:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as made:
        yield made


@dataclasses.dataclass
class Proof:
    number: int
    at: dt.date


class Sink:
    """Takes alerts, or refuses them."""

    name = "mine"

    def __init__(self, *, broken: bool = False) -> None:
        self.got: list[Alert] = []
        self.broken = broken
        self.asked = threading.Event()

    def send(self, alert: Alert) -> None:
        self.asked.set()
        if self.broken:
            raise OSError("out of order")
        self.got.append(alert)


def done(ref: str) -> fl.Verified[str]:
    """A check that always finds the work done."""
    return fl.Verified(ref)


def ended(app: fl.Fairlane, job: fl.Job[Any], **options: Any) -> fl.Job[Any]:
    """Run a worker until the job has ended."""
    with app.worker(**({"concurrency": 4} | options)):
        job.join(timeout=LONG_S)
    return job.refresh()


# ---------------------------------------------------------------- what a check is given


def test_a_check_gets_the_reference_typed_the_jobs_arguments_and_a_context(app: fl.Fairlane) -> None:
    seen: list[Any] = []

    @app.task(queue="gpu", tier="high")
    def prove(block: int, day: dt.date, kind: str = "full") -> Proof:
        return Proof(block, day)

    @prove.verify(every=0.01, queue="checks", tier="low")
    def check(proof: Proof, ctx: fl.Context, day: dt.date, kind: str) -> fl.Verified[Proof] | fl.Pending:
        seen.append((proof, day, kind, ctx.task, ctx.phase, ctx.queue, ctx.tier, ctx.attempt, ctx.check))
        return fl.Verified(proof) if len(seen) > 1 else fl.Pending()

    day = dt.date(2030, 1, 2)
    job = ended(app, prove.enqueue(7, day))
    assert seen == [(Proof(7, day), day, "full", "prove", "verify", "checks", fl.Tier.LOW, 1, n) for n in (1, 2)]
    assert job.result() == Proof(7, day)
    assert (job.task, job.phase, job.queue, job.checks) == ("prove", "verify", "checks", 2)
    assert job.reference == {"number": 7, "at": "2030-01-02"}
    assert app.owner.read(lambda store, now_ms: store.check()) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_handlers_of_both_kinds(app: fl.Fairlane, kind: str) -> None:
    if kind == "sync":

        @app.task
        async def submit() -> str:
            await asyncio.sleep(0)
            return "ref"

        @submit.verify(**SOON)
        def check(ref: str) -> fl.Verified[str]:
            return fl.Verified(ref)

    else:

        @app.task
        def submit() -> str:
            return "ref"

        @submit.verify(**SOON)
        async def check(ref: str) -> fl.Verified[str]:
            await asyncio.sleep(0)
            return fl.Verified(ref)

    assert ended(app, submit.enqueue()).result() == "ref"


def test_a_check_is_a_plain_function_still_and_none_is_a_reference(app: fl.Fairlane) -> None:
    @app.task
    def submit() -> None: ...

    @submit.verify(**SOON)
    def check(ref: None, ctx: fl.Context | None = None) -> fl.Verified[None]:
        assert ref is None
        return fl.Verified(None)

    assert check(None) == fl.Verified(None)
    job = ended(app, submit.enqueue())
    assert (job.state, job.result(), job.reference, job.record.reference) == ("completed", None, None, "null")


def nothing() -> None: ...


def spread(ref: str, **more: int) -> None: ...


def yields(ref: str) -> Iterator[int]:
    yield 1


def block_first(block: int) -> None: ...


def stranger(ref: str, colour: str) -> None: ...


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (nothing, "its first parameter takes the reference"),
        (spread, "arguments of any name"),
        (yields, "yields"),
        (block_first, "takes 'block' first, which is an argument of the task"),
        (stranger, "takes 'colour', which is no argument of the task"),
    ],
)
def test_what_cannot_be_a_check_is_refused_and_told_why(app: fl.Fairlane, fn: Callable[..., Any], says: str) -> None:
    @app.task
    def prove(block: int) -> str:
        return str(block)

    with pytest.raises(fl.ConfigError, match=says):
        prove.verify()(fn)
    assert prove.check is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"every": 0}, "every is 0"),
        ({"every": 1e9}, "every_ms is"),
        ({"every": "soon"}, "every must be a number"),
        ({"max_checks": 0}, "max_checks is 0"),
        ({"max_checks": 1.5}, "max_checks must be a whole number"),
        ({"queue": ""}, "queue is empty"),
        ({"tier": 7}, "tier"),
        ({"limits": "api"}, "limits must be a list"),
        ({"timeout": 0}, "timeout is 0"),
    ],
)
def test_wrong_options_are_refused(app: fl.Fairlane, options: dict[str, Any], says: str) -> None:
    @app.task
    def prove(block: int) -> str:
        return str(block)

    with pytest.raises(fl.ConfigError, match=says):
        prove.verify(**options)


def test_names_and_second_checks(app: fl.Fairlane) -> None:
    with pytest.raises(fl.ConfigError, match="names the verify phase"):
        app.task(name="prove:verify")(nothing)
    with pytest.raises(fl.InvalidJob, match="names the verify phase"):
        app.enqueue("prove:verify")
    with pytest.raises(fl.ConfigError, match="248 bytes"):
        app.task(name="x" * 250)(lambda: "").verify()
    task = app.task(name="prove")(lambda: "")
    task.verify()(lambda ref: fl.Pending())
    with pytest.raises(fl.ConfigError, match="has a check already"):
        task.verify()(lambda ref: fl.Pending())
    assert app.registry.names == {"x" * 250, "prove", "prove:verify"}


def test_options_default_to_the_tasks_own(app: fl.Fairlane) -> None:
    @app.task(limits=["api"], timeout=3)
    def prove() -> str:
        return ""

    @prove.verify(tier="high")
    def check(ref: str) -> fl.Pending:
        return fl.Pending()

    assert prove.check is not None
    assert prove.terms == Verification(every_ms=30_000, max_checks=900, tier=1)
    assert (prove.check.limits, prove.check.timeout_ms) == (("api",), 3_000)
    app.run_worker(until_idle=True, signals=False)
    rules = app.owner.read(lambda store, now_ms: store.rules("task"))
    assert {name: rule.limits for name, rule in rules.items()} == {"prove": ("api",), "prove:verify": ("api",)}


def test_a_check_that_is_registered_later_is_served_too(app: fl.Fairlane) -> None:
    @app.task
    def prove() -> str:
        return "ref"

    app.enqueue("prove")  # what was known of the task has been declared
    assert app.registry.names == {"prove"}
    prove.verify(**SOON)(done)
    job = ended(app, prove.enqueue())
    assert (job.result(), job.phase) == ("ref", "verify")
    assert app.owner.read(lambda store, now_ms: store.verification("prove")) == prove.terms


# ---------------------------------------------------------------- what a check may say


def test_rejected_work_is_processed_again_then_dead(app: fl.Fairlane) -> None:
    runs: list[int] = []

    @app.task(retry=AT_ONCE)
    def prove(ctx: fl.Context) -> int:
        runs.append(ctx.attempt)
        return ctx.attempt

    @prove.verify(**SOON)
    def check(attempt: int, ctx: fl.Context) -> fl.Rejected:
        assert ctx.attempt == attempt
        return fl.Rejected(f"proof {attempt}\0 is wrong")

    job = ended(app, prove.enqueue())
    assert runs == [1, 2]
    assert (job.state, job.failures) == ("dead", 2)
    assert job.reason == "rejected; failed 2 times; max_attempts is 2"
    assert [(error.type, error.attempt, error.message) for error in job.errors] == [
        ("Rejected", 1, "proof 1\ufffd is wrong"),
        ("Rejected", 2, "proof 2\ufffd is wrong"),
    ]


def test_a_check_that_fails_is_tried_again_and_uses_no_attempt(app: fl.Fairlane) -> None:
    @app.task(retry=fl.Retry(max_attempts=1))
    def prove() -> str:
        return "ref"

    @prove.verify(**SOON)
    def check(ref: str, ctx: fl.Context) -> fl.Verified[int]:
        if ctx.check < 3:
            raise ConnectionError(f"no route, check {ctx.check}")
        return fl.Verified(ctx.check)

    job = ended(app, prove.enqueue())
    assert (job.state, job.result(), job.failures, job.checks) == ("completed", 3, 0, 3)
    assert [(error.check, error.message) for error in job.errors] == [
        (1, "no route, check 1"),
        (2, "no route, check 2"),
    ]
    assert "raise ConnectionError" in job.errors[0].traceback


def test_checks_that_are_used_up_end_the_job(app: fl.Fairlane) -> None:
    @app.task
    def prove() -> str:
        return "ref"

    prove.verify(every=0.01, max_checks=3)(lambda ref: fl.Pending())
    job = ended(app, prove.enqueue())
    assert (job.state, job.reason, job.checks, job.failures) == ("dead", TIMED_OUT, 3, 0)
    with pytest.raises(fl.JobFailed, match=TIMED_OUT):
        job.result()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_check_that_takes_too_long_is_a_failure_of_the_check(app: fl.Fairlane, kind: str) -> None:
    @app.task
    def prove() -> str:
        return "ref"

    if kind == "sync":

        @prove.verify(every=0.01, max_checks=2, timeout=0.05)
        def check(ref: str, ctx: fl.Context) -> fl.Verified[str]:
            while True:
                ctx.raise_if_stopping()
                threading.Event().wait(0.002)

    else:

        @prove.verify(every=0.01, max_checks=2, timeout=0.05)
        async def check(ref: str) -> fl.Verified[str]:
            await asyncio.Event().wait()
            return fl.Verified(ref)

    job = ended(app, prove.enqueue())
    assert (job.state, job.reason, job.failures) == ("dead", TIMED_OUT, 0)
    assert [error.type for error in job.errors] == ["TimeoutError"] * 2
    assert "longer than its timeout of 0.05 s" in job.errors[0].message


def test_wishes_of_a_check_are_carried_out(app: fl.Fairlane) -> None:
    said = {"snoozed": 0}

    @app.task(retry=fl.Retry(give_up_on=(PermissionError,)))
    def prove(way: str) -> str:
        return way

    @prove.verify(**SOON)
    def check(ref: str, way: str) -> Any:
        if way == "snooze":
            said["snoozed"] += 1
            if said["snoozed"] == 1:
                raise fl.Snooze(0)
            if said["snoozed"] == 2:
                raise fl.NotReady(0.001)
            return fl.Verified("late")
        if way == "dead":
            raise fl.Dead("hopeless")
        if way == "give up":
            raise PermissionError("no")
        raise fl.Cancel("no need")

    jobs = {way: prove.enqueue(way) for way in ("snooze", "dead", "give up", "cancel")}
    with app.worker(concurrency=4):
        for job in jobs.values():
            job.join(timeout=LONG_S)
    told = {way: (job.refresh().state, job.reason, job.checks, job.failures) for way, job in jobs.items()}
    assert told == {
        "snooze": ("completed", None, 1, 0),
        "dead": ("dead", "hopeless", 1, 0),
        "give up": ("dead", "PermissionError is not tried again", 1, 0),
        "cancel": ("cancelled", "no need", 0, 0),
    }


def test_a_check_can_be_cancelled_while_it_waits_and_while_it_runs(app: fl.Fairlane) -> None:
    running = threading.Event()

    @app.task
    def prove(wait: bool) -> str:
        return "ref"

    @prove.verify(every=0.01)
    async def check(ref: str, wait: bool) -> fl.Pending:
        if wait:
            running.set()
            await asyncio.Event().wait()
        return fl.Pending()

    with app.worker():
        job = prove.enqueue(True)
        assert running.wait(LONG_S)
        assert app.cancel(job) == "running"
        assert job.join(timeout=LONG_S) == "cancelled"
    assert app.claim() is None
    waiting = prove.using(delay=0).enqueue(False)
    claim = claimed(app)
    claim.ack("ref")
    assert app.cancel(waiting) == "cancelled"
    assert (waiting.refresh().reference, waiting.phase) == ("ref", "verify")


def test_a_checkpoint_belongs_to_its_phase(app: fl.Fairlane) -> None:
    seen: list[Any] = []

    @app.task
    def prove(ctx: fl.Context) -> str:
        ctx.checkpoint({"step": 1})
        return "ref"

    @prove.verify(**SOON)
    def check(ref: str, ctx: fl.Context) -> fl.Verified[str] | fl.Pending:
        seen.append(ctx.saved)
        ctx.checkpoint(ctx.check)
        return fl.Verified(ref) if ctx.check == 2 else fl.Pending()

    ended(app, prove.enqueue())
    assert seen == [None, 1]


def test_a_reference_that_cannot_be_stored_is_not_lost_in_silence(app: fl.Fairlane) -> None:
    @app.task
    def prove(big: bool) -> Any:
        return "x" * 300_000 if big else object()

    prove.verify()(lambda ref: fl.Pending())
    jobs = [prove.enqueue(big) for big in (True, False)]
    app.run_worker(until_idle=True, signals=False)
    assert [job.refresh().state for job in jobs] == ["dead", "dead"]
    assert "reference has 300002 bytes; the maximum is 262144" in str(jobs[0].reason)
    assert "reference is of type object" in str(jobs[1].reason)


def test_what_is_shown_and_paused_by_its_own_name(app: fl.Fairlane) -> None:
    @app.task
    def prove() -> str:
        return "ref"

    prove.verify(every=0.001)(done)
    app.tasks["prove:verify"].pause(reason="the chain is down")
    job = prove.enqueue()
    with app.worker():
        while job.refresh().phase != "verify" or job.state != "available":
            threading.Event().wait(0.002)
        assert job.record.task == "prove"
        assert "the chain is down" in app.explain(job).summary
        assert [(row.task, row.available) for row in app.depth(by="task")] == [("prove:verify", 1)]
        assert [one.id for one in app.jobs(task="prove")] == [job.id]
        app.tasks["prove:verify"].resume()
        assert job.result(timeout=LONG_S) == "ref"


def test_hooks_hear_the_phase(app: fl.Fairlane) -> None:
    heard: list[tuple[str, str, str | None, str]] = []
    done = threading.Event()

    def note(event: fl.Event) -> None:
        heard.append((event.moment, event.phase, event.outcome, event.task))
        if event.moment == "finish":
            done.set()

    for add in (app.on_start, app.on_success, app.on_failure, app.on_dead, app.on_finish):
        add(note)

    @app.task
    def prove() -> str:
        return "ref"

    @prove.verify(**SOON)
    def check(ref: str, ctx: fl.Context) -> fl.Verified[str] | fl.Pending:
        if ctx.check == 1:
            raise ValueError("no")
        return fl.Verified(ref) if ctx.check == 3 else fl.Pending()

    ended(app, prove.enqueue())
    assert done.wait(LONG_S)
    assert heard == [
        ("start", "process", None, "prove"),
        ("start", "verify", None, "prove"),
        ("failure", "verify", "pending", "prove"),
        ("start", "verify", None, "prove"),
        ("start", "verify", None, "prove"),
        ("success", "verify", "completed", "prove"),
        ("finish", "verify", "completed", "prove"),
    ]


# ---------------------------------------------------------------- the judge


def judged(*, claim: dict[str, Any] | None = None, terms: Verification | None = None, **end: Any) -> Settlement:
    fields = {"phase": "verify", "reference": '"ref"', "task": "t:verify"} | (claim or {})
    judge = Judge("w1", random.Random(1))
    retry = fl.Retry(base=2.0, jitter=0.0)
    return judge(make_claim(**fields), retry, Ending(terms=terms or Verification(max_checks=5), **end), 5_000)


def test_the_last_check_ends_the_job_however_it_fails() -> None:
    last = {"checks": 4}
    for end in ({"value": fl.Pending()}, {"error": ValueError("x")}, {"value": "nonsense"}, {"stop": "timeout"}):
        told = judged(claim=last, **end)
        assert (told.kind, told.reason, told.checked) == ("dead", TIMED_OUT, True), end
        told = judged(**end)
        assert (told.kind, told.delay_ms, told.checked) == ("pending", 30_000, True), end
    assert judged(claim=last, value=fl.Verified(1)).kind == "completed"
    assert judged(claim=last, value=fl.Rejected("x")).kind == "retry"


@pytest.mark.parametrize("value", [None, True, "verified", fl.Verified, 7])
def test_anything_else_is_a_failure_of_the_check_that_says_so(value: object) -> None:
    told = judged(value=value)
    assert told.kind == "pending"
    assert told.error is not None
    assert (told.error.type, told.error.check) == ("TypeError", 1)
    assert "returns Verified, Pending or Rejected" in told.error.message


def test_what_ends_a_run_of_either_phase_ends_a_check() -> None:
    assert judged(error=SystemExit(1)).kind == "crashed"
    assert judged(error=fl.StopRequested("shutdown"), stop="shutdown").kind == "released"
    assert judged(error=ValueError("x"), stop="cancel").kind == "cancelled"
    assert judged(error=bad_arguments("t", ValueError("x"))).kind == "dead"
    crash = judged(error=MemoryError(), claim={"checks": 2, "attempt": 3}).error
    assert crash is not None
    assert (crash.attempt, crash.check) == (3, 3)


def test_an_exception_that_breaks_whoever_looks_at_it_rejects_all_the_same() -> None:
    class Liar:
        def __str__(self) -> str:
            raise RuntimeError

    told = judged(value=fl.Rejected(Liar()))
    assert told.kind == "retry"
    assert told.error is not None
    assert "Liar" in told.error.message


@pytest.mark.parametrize("value", [{"proof": 7}, None, "ref", [1, 2], Proof(1, dt.date(2030, 1, 2))])
def test_references_are_kept_exactly(value: object) -> None:
    told = judged(claim={"phase": "process", "task": "t"}, value=value, run_us=7)
    assert (told.kind, told.reference, told.delay_ms, told.run_us) == ("handed", reference_json(value), 30_000, 7)
    assert told.to is not None
    assert told.to[1] == make_claim(task="t:verify").start.lane


def test_a_reference_whose_own_code_fails_is_dead() -> None:
    class Liar:
        def model_dump(self, **_: Any) -> Any:
            raise ZeroDivisionError

    told = judged(claim={"phase": "process", "task": "t"}, value=Liar())
    assert told.kind == "dead"
    assert "ZeroDivisionError" in str(told.reason)


# ---------------------------------------------------------------- programs that pull


def claimed(app: fl.Fairlane, **options: Any) -> PulledClaim:
    claim = app.claim(**options)
    assert claim is not None
    return claim


@pytest.fixture
def pulled(clock: ManualClock) -> Iterator[fl.Fairlane]:
    """An app whose task was declared by code, and a producer that has no worker."""
    with fl.Fairlane("sqlite://", clock=clock) as app:

        @app.task(name="prove", retry=AT_ONCE)
        def prove(block: int) -> str:
            return str(block)

        prove.verify(every=10, max_checks=3)(lambda ref: fl.Pending())
        yield app


def test_an_acked_claim_hands_over_and_an_acked_check_completes(pulled: fl.Fairlane, clock: ManualClock) -> None:
    job = pulled.enqueue("prove", {"block": 7})
    claimed(pulled).ack({"proof": 7})
    assert (job.refresh().state, job.phase, job.reference) == ("scheduled", "verify", {"proof": 7})
    assert pulled.claim() is None
    clock.advance(seconds=10)
    assert pulled.claim(tasks=["prove"]) is None
    claim = claimed(pulled, tasks=["prove:verify"])
    assert (claim.phase, claim.task, claim.reference, claim.args) == ("verify", "prove", {"proof": 7}, {"block": 7})
    claim.pending()
    clock.advance(seconds=10)
    claimed(pulled).ack("paid")
    assert (job.refresh().state, job.result(), job.checks) == ("completed", "paid", 2)


def test_a_pulled_check_may_fail_be_rejected_or_be_dead(pulled: fl.Fairlane, clock: ManualClock) -> None:
    job = pulled.enqueue("prove", {"block": 7})
    claimed(pulled).ack("one")
    clock.advance(seconds=10)
    claimed(pulled).nack("no route", retry_in=2)
    clock.advance(seconds=2)
    claimed(pulled).reject("bad proof")
    claim = claimed(pulled)
    assert (claim.phase, claim.attempt) == ("process", 2)
    claim.ack("two")
    clock.advance(seconds=10)
    claimed(pulled).dead("hopeless")
    assert (job.refresh().state, job.reason, job.failures) == ("dead", "hopeless", 1)
    told = [(error.attempt, error.check, error.message) for error in job.errors]
    assert told == [(1, 1, "no route"), (1, 0, "bad proof"), (2, 1, "hopeless")]


def test_a_pulled_check_that_never_finds_it_done(pulled: fl.Fairlane, clock: ManualClock) -> None:
    job = pulled.enqueue("prove", {"block": 7})
    claimed(pulled).ack("one")
    for _ in range(3):
        clock.advance(seconds=10)
        claimed(pulled).pending()
    assert (job.refresh().state, job.reason) == ("dead", TIMED_OUT)
    assert pulled.reverify(job).state == "available"
    claimed(pulled).ack("late")
    assert job.refresh().result() == "late"


def test_what_is_no_check_cannot_end_as_one(pulled: fl.Fairlane) -> None:
    pulled.enqueue("prove", {"block": 7})
    claim = claimed(pulled)
    for call in (claim.pending, lambda: claim.reject("no")):
        with pytest.raises(fl.IllegalMove, match="in its process phase"):
            call()
    with pytest.raises(fl.InvalidJob, match="reference"):
        claim.ack(object())
    claim.ack("ref")
    with pytest.raises(fl.LeaseLost):
        claim.ack("again")


async def test_twins(pulled: fl.Fairlane, clock: ManualClock) -> None:
    job = await pulled.aenqueue("prove", {"block": 7}, delay=60)
    assert (await pulled.aprocess(job, by="ops")).state == "available"
    claim = await pulled.aclaim()
    assert claim is not None
    await claim.aack("ref")
    assert (await pulled.areverify(job.id, expedite=True)).express
    claim = await pulled.aclaim()
    assert claim is not None
    await claim.areject("bad")
    claim = await pulled.aclaim()
    assert claim is not None
    await claim.aack("ref")
    clock.advance(seconds=10)
    claim = await pulled.aclaim()
    assert claim is not None
    await claim.apending()
    assert (await job.arefresh()).checks == 1


def test_process_and_reverify_check_their_arguments(pulled: fl.Fairlane) -> None:
    for call in (pulled.process, pulled.reverify):
        with pytest.raises(fl.InvalidValue, match="expedite"):
            call("018f0000-0000-7000-8000-000000000000", expedite="yes")  # type: ignore[arg-type]
        with pytest.raises(fl.InvalidValue):
            call("no id")
        with pytest.raises(fl.JobNotFound):
            call("018f0000-0000-7000-8000-000000000000")


# ---------------------------------------------------------------- alerts


def used_up(app: fl.Fairlane, sink: Sink, *, workers: int = 1) -> fl.Job[Any]:
    """Let a job's checks be used up among several workers, and return it."""
    app.alerts.add(sink)

    @app.task
    def prove() -> str:
        return "ref-7"

    @prove.verify(every=0.01, max_checks=3)
    def check(ref: str, ctx: fl.Context) -> fl.Pending:
        if ctx.check == 2:
            raise ConnectionError("no route")
        return fl.Pending()

    job = prove.enqueue()
    made = [app.worker() for _ in range(workers)]
    for worker in made:
        worker.start()
    job.join(timeout=LONG_S)
    for worker in made:
        worker.stop()
    return job.refresh()


def test_a_verification_timeout_is_told_once_with_its_history(app: fl.Fairlane) -> None:
    sink = Sink()
    job = used_up(app, sink, workers=3)
    assert app.alerts.drain(LONG_S)
    assert len(sink.got) == 1
    alert = sink.got[0]
    assert (alert.event, alert.key) == (TIMED_OUT, f"dead:{job.id}:{job.fence}")
    assert "was not finished after 3 checks" in alert.title
    assert "attempt 1, check 2: ConnectionError: no route" in alert.text
    assert '"ref-7"' in alert.text
    assert (alert.facts["task"], alert.facts["checks"], alert.facts["job"]) == ("prove", 3, str(job.id))


def test_a_broken_sink_fails_no_job(app: fl.Fairlane) -> None:
    sink = Sink(broken=True)
    assert used_up(app, sink).reason == TIMED_OUT
    assert sink.asked.wait(LONG_S)


@pytest.mark.parametrize("told", ["timeouts", "all"])
def test_other_deaths_are_told_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("FAIRLANE_ALERT_DEAD", told)
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as app:
        sink = Sink()
        app.alerts.add(sink)

        @app.task(retry=AT_ONCE)
        def fail(who: str) -> None:
            raise ValueError(f"no luck, {who}")

        job = fail.using(tenant="<!channel>").enqueue("<!channel>")
        ended(app, job)
        pulled = app.enqueue("other")
        claimed(app, tasks=["other"]).dead("hopeless")
        assert app.alerts.drain(LONG_S)
        assert (job.refresh().state, pulled.refresh().state) == ("dead", "dead")
    if told == "timeouts":
        assert sink.got == []
        return
    assert [alert.facts["job"] for alert in sink.got] == [str(job.id), str(pulled.id)]
    assert "attempt 2: ValueError: no luck" in sink.got[0].text
    assert "<" not in sink.got[0].text
