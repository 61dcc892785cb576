"""Watching over waits: incidents are raised while jobs wait, once, with their cause, and resolved."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from typing import Any, TypeVar, cast
from uuid import UUID

import pytest

from fairlane.alerts import Alert, Alerts
from fairlane.domain.policy import LimitRule, Pause, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.states import State
from fairlane.domain.waits import IncidentRecord, ObjectiveRule, Scope
from fairlane.monitor import Monitor, Pass
from fairlane.owner import Op, Owner
from fairlane.store import RuleKind
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench

T = TypeVar("T")

HIGH, NORMAL, LOW = 1, 2, 3
LIMIT_S = 120.001
QUARTER_H = 15 * 60


class Desk:
    """What a monitor needs of an owner, over a bench: each call a transaction of its own, in this thread."""

    def __init__(self, b: Bench) -> None:
        self.b = b

    def call(self, op: Op[T], *, light: bool = False) -> T:
        """Carry out a call."""
        return self.b.write(op, light=light)

    def read(self, op: Op[T]) -> T:
        """Carry out a call that only reads."""
        return op(self.b.store, self.b.now_ms)


class Told:
    """Sinks that remember."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alert: Alert) -> None:
        """Remember an alert."""
        self.alerts.append(alert)

    def health(self) -> list[Any]:  # Any: there are none
        """Return that no sink is there."""
        return []

    @property
    def events(self) -> list[str]:
        """What was told, in order."""
        return [alert.event.removeprefix("wait_") for alert in self.alerts]


def monitor_of(b: Bench, told: Told | None = None) -> Monitor:
    """Return a monitor on a bench."""
    return Monitor(cast("Owner", Desk(b)), cast("Alerts", told or Told()))


def objective(b: Bench, tier: int, queue: str | None = None, tenant: str | None = None, **fields: Any) -> None:
    """Set an objective. Any: ObjectiveRule's fields."""
    rule = ObjectiveRule(**fields)
    b.write(lambda store, now_ms: store.set_objective(Scope(tier, queue, tenant), rule, by="ops", now_ms=now_ms))


class Watch:
    """A bench with a monitor on it."""

    def __init__(self, b: Bench) -> None:
        self.b = b
        self.told = Told()
        self.monitor = monitor_of(b, self.told)

    def __call__(self, *, after_s: float = 0) -> Pass:
        """Make a pass, some time later."""
        self.b.clock.advance(seconds=after_s)
        return self.monitor.look()

    def one(self, *, after_s: float = 0) -> IncidentRecord:
        """Make a pass and return the one open incident."""
        (incident,) = self(after_s=after_s).incidents
        assert self.b.store.incidents() == [incident]
        return incident


class WatchingContract(Contract):
    """T-G1, T-G2; SPEC section 6, first point."""

    @pytest.fixture
    def w(self, b: Bench) -> Watch:
        """Return a bench with a monitor."""
        return Watch(b)

    # ------------------------------------------------------------------ while it waits

    def test_a_job_is_seen_while_it_waits_and_no_worker_lives(self, b: Bench, w: Watch) -> None:
        """T-G1: at the first pass beyond the objective, not at it, and with all that people ask first."""
        job = b.put(tier=HIGH, queue="mail", task="send", tenant="acme")
        assert w(after_s=120).incidents == ()
        incident = w.one(after_s=0.001)
        assert (incident.queue, incident.tier, incident.count) == ("mail", HIGH, 1)
        assert (incident.job, incident.task, incident.tenant) == (job, "send", "acme")
        assert (incident.wait_ms, incident.objective_ms, incident.cause) == (120_001, 120_000, "no_worker")
        assert w.told.events == ["raised"]
        assert w.told.alerts[0].facts["job"] == str(UUID(bytes=job))
        assert b.state(job) is State.AVAILABLE

    def test_one_incident_for_each_queue_and_tier(self, b: Bench, w: Watch) -> None:
        """Whatever the number of jobs, tasks and tenants, and for the oldest of them."""
        first = b.put(tier=HIGH, tenant="z", task="t2")
        b.clock.advance(ms=5)
        b.fill({f"tenant{n}": 20 for n in range(10)}, tier=HIGH)
        b.fill({"a": 3}, tier=0)
        b.fill({"a": 2}, tier=HIGH, queue="mail")
        b.fill({"a": 50}, tier=NORMAL)
        done = w(after_s=LIMIT_S)
        assert [(one.queue, one.tier, one.count) for one in done.incidents] == [
            ("mail", HIGH, 2),
            ("q", 0, 3),
            ("q", HIGH, 201),
        ]
        assert done.incidents[2].job == first
        for _ in range(5):
            assert len(w(after_s=5).incidents) == 3
        assert w.told.events == ["raised"] * 3
        assert len({alert.key for alert in w.told.alerts}) == 3

    def test_tiers_without_an_objective_may_wait(self, b: Bench, w: Watch) -> None:
        """The default: CRITICAL and HIGH alone have one."""
        for tier in (2, 3, 4):
            b.fill({"a": 2}, tier=tier)
        assert w(after_s=10**6).incidents == ()

    def test_jobs_whose_time_came_while_nobody_lives_are_seen(self, b: Bench, w: Watch) -> None:
        """A scheduled job waits from its time on; without a worker only the monitor notices that it came."""
        job = b.put(tier=HIGH, delay_ms=600_000)
        assert w(after_s=700).incidents == ()
        incident = w.one(after_s=20.001)
        assert (incident.job, incident.wait_ms) == (job, 120_001)

    def test_a_monitor_that_comes_late_still_knows_since_when(self, b: Bench, w: Watch) -> None:
        """T-G1: ``fairlane monitor --once`` from cron; nobody noticed the timer before."""
        b.put(tier=HIGH, delay_ms=60_000)
        assert w.one(after_s=3_600).wait_ms == 3_540_000

    def test_delays_of_retries_are_no_waits(self, b: Bench, w: Watch) -> None:
        """A job that failed waits from when it may run again, although its arrival is old."""
        job = b.put(tier=HIGH)
        b.fail(b.take(), delay_ms=1_000_000)
        assert w(after_s=1_000).incidents == ()
        assert b.state(job) is State.AVAILABLE
        assert w(after_s=100).incidents == ()
        assert w.one(after_s=21).wait_ms == 121_000

    def test_jobs_that_came_back_hide_none_behind_them(self, b: Bench, w: Watch) -> None:
        """A job given back stands first in its lane with a fresh wait; those behind it have waited longer."""
        b.fill({"a": 3}, tier=HIGH)
        behind = b.put(tier=HIGH)
        claims = b.claim(3)
        b.clock.advance(seconds=119)
        for claim in claims:
            b.release(claim)
        incident = w.one(after_s=2)
        assert (incident.job, incident.wait_ms, incident.count) == (behind, 121_000, 4)

    def test_express_jobs_are_watched_too(self, b: Bench, w: Watch) -> None:
        """One that waits in front of all others waits all the same; a lane counts both."""
        b.put(tier=HIGH)
        b.clock.advance(ms=1)
        express = b.put(tier=HIGH, express=True)
        incident = w.one(after_s=LIMIT_S)
        assert incident.count == 2
        b.cancel(incident.job)
        incident = w.one(after_s=1)
        assert (incident.job, incident.count) == (express, 1)
        assert w.told.events == ["raised"]

    # ------------------------------------------------------------------ told once, again, over

    def test_told_again_every_quarter_of_an_hour_and_not_sooner(self, b: Bench, w: Watch) -> None:
        """At most every 15 min, however often it is looked at."""
        b.put(tier=HIGH)
        w(after_s=LIMIT_S)
        for _ in range(89):
            w(after_s=10)
        assert w.told.events == ["raised"]
        done = w(after_s=QUARTER_H - 890)
        assert w.told.events == ["raised", "again"]
        assert (done.incidents[0].notified_at_ms, done.incidents[0].notices) == (b.now_ms, 2)
        w(after_s=QUARTER_H - 1)
        assert len(w.told.alerts) == 2
        w(after_s=1)
        assert w.told.events == ["raised", "again", "again"]
        assert len({alert.key for alert in w.told.alerts}) == 3

    @pytest.mark.parametrize("way", ["start", "cancel", "expire"])
    def test_resolved_once_when_nothing_waits_too_long(self, b: Bench, w: Watch, way: str) -> None:
        """Whichever way the job stops waiting; a later breach is a new incident."""
        job = b.put(tier=HIGH, expires_at_ms=b.now_ms + 130_000)
        raised = w.one(after_s=LIMIT_S)
        if way == "start":
            b.take()
        elif way == "cancel":
            b.cancel(job)
        done = w(after_s=10)
        assert done.incidents == ()
        assert [event.incident.id for event in done.events] == [raised.id]
        for _ in range(3):
            w(after_s=5)
        assert w.told.events == ["raised", "resolved"]
        assert w.told.alerts[-1].level == "good"
        (past,) = b.store.past_incidents(limit=10)
        assert (past.id, past.resolved_at_ms, past.opened_at_ms) == (raised.id, done.at_ms, raised.opened_at_ms)
        b.put(tier=HIGH)
        assert w.one(after_s=LIMIT_S).id > raised.id
        assert w.told.events == ["raised", "resolved", "raised"]

    def test_waits_around_the_objective_are_one_incident(self, b: Bench, w: Watch) -> None:
        """A saturated queue: each start lets the longest wait fall below the objective, and the next one rises."""
        for _ in range(60):
            b.put(tier=HIGH)
            b.clock.advance(seconds=2)
        for _ in range(55):
            w(after_s=2)
            b.done(b.take())
            w()
            b.put(tier=HIGH)
        assert w.told.events == ["raised"]
        b.drain()
        w()
        assert w.told.events == ["raised", "resolved"]

    def test_passes_that_find_nothing_write_nothing(self, b: Bench, w: Watch) -> None:
        """But for the lease, at half time: a store at rest stays at rest."""
        b.put(tier=HIGH)
        w()
        with b.unchanged():
            w(after_s=5)
        w(after_s=6)
        with b.unchanged():
            w(after_s=5)

    def test_clocks_that_step_back_tell_nothing_twice(self, b: Bench, w: Watch) -> None:
        """Neither a new incident nor an early reminder."""
        b.put(tier=HIGH)
        w(after_s=LIMIT_S + 300)
        b.clock.step(seconds=-200)
        w()
        w(after_s=5)
        assert w.told.events == ["raised"]

    # ------------------------------------------------------------------ why

    @pytest.mark.parametrize(
        ("kind", "name", "rule"),
        [
            ("queue", "q", QueueRule(pause=Pause("upgrade", "ann"))),
            ("task", "t", TaskRule(pause=Pause("upgrade", "ann"))),
            ("tenant", "a", TenantRule(pause=Pause("upgrade", "ann"))),
            ("limit", "openai", LimitRule(pause=Pause("upgrade", "ann"))),
        ],
    )
    def test_cause_is_a_pause(self, b: Bench, w: Watch, kind: RuleKind, name: str, rule: Any) -> None:
        """With who and why, also while no worker lives: the pause is what somebody chose."""
        b.declare("t", "openai")
        b.write(lambda store, now_ms: store.set_rule(kind, name, rule, by="ann", now_ms=now_ms))
        b.put(tier=HIGH)
        incident = w.one(after_s=LIMIT_S)
        assert [cause.kind for cause in incident.causes] == ["paused", "no_worker"]
        assert incident.causes[0].text == f"{kind} {name!r} is paused by ann: upgrade"

    @pytest.mark.parametrize(
        ("what", "field", "who"),
        [
            (("queue", "q"), "max_running", "queue 'q'"),
            (("queue", "q"), "tenant_max_running", "tenant in queue 'a'"),
            (("tenant", "a"), "max_running", "tenant 'a'"),
            (("limit", "openai"), "max_running", "limit 'openai'"),
            (("limit", "smtp:a"), "max_running", "limit 'smtp:a'"),
        ],
    )
    def test_cause_is_a_cap(self, b: Bench, w: Watch, what: tuple[RuleKind, str], field: str, who: str) -> None:
        """With how many run and how many may, although slots are free."""
        b.worker("w1")
        b.declare("t", "openai", "smtp:{tenant}")
        fields: dict[str, Any] = {field: 1}
        b.rule(*what, **fields)
        b.fill({"a": 2}, tier=HIGH)
        b.claim(5, worker="w1", lease_ms=10**6)
        incident = w.one(after_s=LIMIT_S)
        assert [(cause.kind, cause.text) for cause in incident.causes] == [("cap", f"{who} runs 1 of at most 1 jobs")]

    @pytest.mark.parametrize("kind", ["tenant", "limit"])
    def test_cause_is_a_rate(self, b: Bench, w: Watch, kind: RuleKind) -> None:
        """A bucket that is empty for long."""
        b.worker("w1")
        b.declare("t", "openai")
        b.rule(kind, "a" if kind == "tenant" else "openai", rate=Rate.of(1, per=1_000))
        b.fill({"a": 2}, tier=HIGH)
        b.done(b.take(worker="w1"))
        assert w.one(after_s=LIMIT_S).cause == "rate"

    def test_cause_is_a_wait_that_a_handler_was_told(self, b: Bench, w: Watch) -> None:
        """``RateLimited``: the limit is closed for everyone."""
        b.worker("w1")
        b.declare("t", "openai")
        b.fill({"a": 2}, tier=HIGH)
        b.settle(b.take(worker="w1"), "released", wait_for=("openai", 500_000))
        incident = w.one(after_s=LIMIT_S)
        assert incident.cause == "rate"
        assert "limit 'openai'" in incident.causes[0].text

    def test_cause_is_that_no_worker_serves_the_queue(self, b: Bench, w: Watch) -> None:
        """Workers of other queues and pools do not count."""
        b.worker("w1", queues=("mail",))
        b.worker("w2", pool="gpus")
        b.put(tier=HIGH)
        incident = w.one(after_s=LIMIT_S)
        assert (incident.cause, len(incident.causes)) == ("no_worker", 1)
        b.worker("w3")
        assert w.one(after_s=5).cause != "no_worker"

    def test_cause_is_that_all_slots_are_busy(self, b: Bench, w: Watch) -> None:
        """Of the workers that serve the queue; free slots elsewhere do not count."""
        b.worker("w1", slots=2)
        b.worker("w2", slots=9, queues=("mail",))
        b.fill({"a": 3}, tier=HIGH)
        b.claim(2, worker="w1", lease_ms=10**6)
        incident = w.one(after_s=LIMIT_S)
        assert [cause.kind for cause in incident.causes] == ["busy"]
        assert "all 2 slots" in incident.causes[0].text

    def test_cause_is_that_others_have_their_turn(self, b: Bench, w: Watch) -> None:
        """Slots are free and nothing closes the job's way."""
        b.worker("w1", slots=2)
        b.put(tier=HIGH)
        assert w.one(after_s=LIMIT_S).cause == "turn"

    def test_claims_without_a_workers_record_are_somebody(self, b: Bench, w: Watch) -> None:
        """Pull-style workers are not on record; who asked within the last minute is there."""
        b.put(tier=HIGH, queue="other")
        b.clock.advance(seconds=100)
        b.claim(queues={"other": 1})
        b.put(tier=HIGH, queue="other")
        b.clock.advance(seconds=LIMIT_S - 1)
        b.claim(queues={"other": 1}, tasks=["unknown"])
        assert w.one(after_s=1).cause == "turn"
        assert w.one(after_s=61).cause == "no_worker"

    # ------------------------------------------------------------------ objectives

    def test_objectives_of_queues_and_tenants(self, b: Bench, w: Watch) -> None:
        """The tenant in the queue goes before the tenant, that before the queue, that before the tier."""
        objective(b, LOW, objective_ms=100_000)
        objective(b, LOW, "mail", objective_ms=50_000)
        objective(b, LOW, None, "acme", objective_ms=20_000)
        objective(b, LOW, "mail", "acme", objective_ms=10_000)
        jobs = {
            (queue, tenant): b.put(tier=LOW, queue=queue, tenant=tenant)
            for queue in ("mail", "etl")
            for tenant in ("acme", "other")
        }
        raised: list[tuple[float, bytes]] = []
        for after_s in (10.001, 10, 30, 50):
            done = w(after_s=after_s)
            raised += [(after_s, event.incident.job) for event in done.events if event.kind == "raised"]
        assert raised == [(10.001, jobs["mail", "acme"]), (10, jobs["etl", "acme"])]
        (mail,) = [one for one in b.store.incidents() if one.queue == "mail"]
        assert (mail.count, mail.objective_ms) == (2, 10_000)

    def test_no_objective_for_a_queue(self, b: Bench, w: Watch) -> None:
        """None takes it away where others have one; the wider one holds again when it is unset."""
        objective(b, HIGH, "batch", objective_ms=None)
        b.put(tier=HIGH, queue="batch")
        assert w(after_s=1_000).incidents == ()
        b.write(lambda store, now_ms: store.set_objective(Scope(HIGH, "batch"), None, by="ops", now_ms=now_ms))
        assert w.one(after_s=1).objective_ms == 120_000

    def test_objectives_act_on_those_who_wait(self, b: Bench, w: Watch) -> None:
        """A longer objective resolves, a shorter one raises."""
        b.put(tier=HIGH)
        w.one(after_s=LIMIT_S)
        objective(b, HIGH, objective_ms=1_000_000)
        assert w(after_s=1).incidents == ()
        objective(b, HIGH, objective_ms=1_000)
        assert w.one().objective_ms == 1_000
        assert w.told.events == ["raised", "resolved", "raised"]

    def test_objectives_are_there_after_a_restart(self, b: Bench) -> None:
        """Both parts of a rule, and what is not set comes from the wider scope."""
        objective(b, HIGH, "mail", on_breach="boost")
        objective(b, HIGH, objective_ms=7_000)
        held = b.store.objectives()
        assert held.of(HIGH, "mail") == (7_000, "boost")
        assert held.of(HIGH, "etl", "acme") == (7_000, "alert")
        assert held.of(0) == (120_000, "alert")
        assert held.of(NORMAL) == (None, "alert")

    # ------------------------------------------------------------------ what is done about it

    def test_boost(self, b: Bench, w: Watch) -> None:
        """T-G2: one tier up, arrival and all else kept; the incident goes on until the job starts."""
        objective(b, HIGH, on_breach="boost")
        late = [b.put(tier=HIGH, tenant=tenant) for tenant in "abc"]
        b.clock.advance(seconds=LIMIT_S)
        fresh = b.put(tier=HIGH)
        before = [b.job(job) for job in late]
        incident = w.one()
        assert sorted(incident.escalated) == sorted(late)
        for job, old in zip(late, before, strict=True):
            new = b.job(job)
            assert (new.tier, new.arrival_ms, new.express, new.seq) == (0, old.arrival_ms, None, old.seq)
        assert b.job(fresh).tier == HIGH
        for _ in range(3):
            done = w(after_s=10)
            assert [(one.id, one.tier, one.count) for one in done.incidents] == [(incident.id, HIGH, 3)]
        assert sorted(b.start(3)) == sorted(late)
        w()
        assert w.told.events == ["raised", "resolved"]
        assert all(b.job(job).tier == 0 for job in late)

    def test_boost_of_the_most_urgent_is_an_alert(self, b: Bench, w: Watch) -> None:
        """Nothing is above CRITICAL."""
        objective(b, 0, on_breach="boost")
        job = b.put(tier=0)
        before = b.job(job)
        assert w.one(after_s=LIMIT_S).escalated == ()
        assert b.job(job) == before

    def test_others_of_the_higher_tier_are_told_apart(self, b: Bench, w: Watch) -> None:
        """Boosted jobs count under the tier that they had, and a late job of the higher tier is its own incident."""
        objective(b, HIGH, objective_ms=10_000, on_breach="boost")
        b.put(tier=HIGH)
        critical = b.put(tier=0)
        w(after_s=11)
        done = w(after_s=LIMIT_S)
        assert [(one.tier, one.job, one.count) for one in done.incidents if one.tier == 0] == [(0, critical, 1)]
        assert [one.count for one in done.incidents] == [1, 1]

    def test_expedite(self, b: Bench, w: Watch) -> None:
        """T-G2: the express lane, with the reason on record."""
        objective(b, HIGH, on_breach="expedite")
        job = b.put(tier=HIGH, tenant="a")
        incident = w.one(after_s=LIMIT_S)
        assert incident.escalated == (job,)
        assert b.job(job).express is not None
        (row,) = [row for row in b.rows()["audit"] if "expedite" in row]
        assert "monitor" in row
        assert "waited 120 s; the objective is 120 s" in row
        audit = b.rows()["audit"]
        w(after_s=5)
        assert b.rows()["audit"] == audit
        b.take()
        w(after_s=5)
        assert w.told.events == ["raised", "resolved"]

    def test_a_full_express_lane_is_reported(self, b: Bench, w: Watch) -> None:
        """No error, no loop: noted with the figures, nothing changed, and done at a later pass when there is room."""
        objective(b, LOW, objective_ms=1_000, on_breach="expedite")
        express = [b.put(tier=NORMAL, tenant=f"x{n}", express=True) for n in range(20)]
        late = b.put(tier=LOW, tenant="a")
        before = b.job(late)
        for _ in range(3):
            incident = w.one(after_s=5)
            assert incident.note == "the express lane is full (current: 20, maximum: 20); try again later"
            assert incident.escalated == ()
            assert b.job(late) == before
        b.cancel(express[0])
        incident = w.one(after_s=5)
        assert (incident.note, incident.escalated) == ("", (late,))
        assert w.told.events == ["raised"]

    def test_a_tenants_full_share_holds_up_no_other_tenant(self, b: Bench, w: Watch) -> None:
        """Five of one tenant; the sixth is noted, and the others' jobs go."""
        objective(b, LOW, objective_ms=1_000, on_breach="expedite")
        b.fill({"a": 7}, tier=LOW)
        b.clock.advance(ms=1)
        other = b.put(tier=LOW, tenant="b")
        incident = w.one(after_s=5)
        assert other in incident.escalated
        assert len(incident.escalated) == 6
        assert "tenant 'a'" in incident.note

    def test_few_are_escalated_at_a_time(self, b: Bench, w: Watch) -> None:
        """Twenty that wait; when some start, others follow."""
        objective(b, LOW, objective_ms=1_000, on_breach="boost")
        b.fill({f"t{n}": 4 for n in range(10)}, tier=LOW)
        for _ in range(3):
            w(after_s=5)
        incident = w.one(after_s=5)
        assert len(incident.escalated) == 20
        assert incident.count == 40
        assert len(b.all_jobs(tier=NORMAL)) == 20
        b.start(8)
        for _ in range(3):
            w(after_s=5)
        assert len([job for job in b.all_jobs(tier=NORMAL) if job.state is State.AVAILABLE]) == 20
