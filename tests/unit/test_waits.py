"""The rules of waits, by themselves."""

from __future__ import annotations

import msgspec
import pytest

from fairlane.domain.lanes import LaneKey
from fairlane.domain.limits import Gate
from fairlane.domain.policy import Pause, Rate
from fairlane.domain.waits import (
    MAX_ESCALATED,
    Breach,
    Cause,
    GateFacts,
    IncidentRecord,
    Objective,
    ObjectiveRule,
    Objectives,
    Scope,
    Standing,
    Waiter,
    WaitingLane,
    breaches,
    causes,
    checked,
    gate_facts,
    next_incident,
    to_escalate,
)
from fairlane.errors import InvalidValue

NOW = 1_000_000
NONE = Objectives({})


def lane(wait_ms: int, *, tier: int = 1, queue: str = "q", tenant: str = "a", count: int = 1) -> WaitingLane:
    key = LaneKey(queue, "t", tenant, tier)
    job = f"{queue}{tenant}{tier}{wait_ms}".encode().ljust(16)
    return WaitingLane(key, tier, count, (Waiter(job, NOW - wait_ms),))


def held(breach: Breach, **fields: object) -> IncidentRecord:
    incident, event = next_incident(None, breach, (), NOW)
    assert incident is not None
    assert event == "raised"
    return msgspec.structs.replace(incident, id=1, **fields)


# ---------------------------------------------------------------- objectives


def test_the_narrowest_scope_that_says_something_holds():
    objectives = Objectives(
        {
            Scope(1): ObjectiveRule(on_breach="boost"),
            Scope(1, "q"): ObjectiveRule(objective_ms=50),
            Scope(1, None, "a"): ObjectiveRule(objective_ms=20, on_breach="alert"),
            Scope(1, "q", "a"): ObjectiveRule(on_breach="expedite"),
            Scope(2, "q"): ObjectiveRule(objective_ms=9),
        }
    )
    assert objectives.of(1) == (120_000, "boost")
    assert objectives.of(1, "q") == objectives.of(1, "q", "b") == (50, "boost")
    assert objectives.of(1, None, "a") == objectives.of(1, "z", "a") == (20, "alert")
    assert objectives.of(1, "q", "a") == (20, "expedite")
    assert objectives.of(2, "q", "a") == (9, "alert")
    assert objectives.of(2).objective is None
    assert objectives.tiers() == {0, 1, 2}


def test_a_tier_without_any_objective_is_not_looked_at():
    nowhere = Objectives({Scope(tier): ObjectiveRule(objective_ms=None) for tier in (0, 1)})
    assert nowhere.tiers() == frozenset()
    assert NONE.tiers() == {0, 1}


@pytest.mark.parametrize(
    "wrong", [{"objective_ms": 0}, {"objective_ms": -1}, {"objective_ms": 10**15}, {"on_breach": "x"}]
)
def test_wrong_objectives_are_refused(wrong: dict[str, object]):
    with pytest.raises(InvalidValue):
        ObjectiveRule(**wrong)


@pytest.mark.parametrize("scope", [Scope(5), Scope(-1), Scope(1, ""), Scope(1, None, "a\0"), Scope(1, "x" * 300)])
def test_wrong_scopes_are_refused(scope: Scope):
    with pytest.raises(InvalidValue):
        checked(scope)


def test_what_is_not_set_is_not_stored():
    assert msgspec.json.encode(ObjectiveRule(objective_ms=None)) == b'{"objective_ms":null}'
    assert msgspec.json.decode(b"{}", type=ObjectiveRule) == ObjectiveRule()


# ---------------------------------------------------------------- breaches


def test_a_wait_equal_to_the_objective_is_none_too_long():
    assert breaches([lane(120_000)], NONE, NOW)["q", 1].over is False
    assert breaches([lane(120_001)], NONE, NOW)["q", 1].over is True
    assert breaches([lane(90_000)], NONE, NOW) == {}
    assert breaches([lane(10**6, tier=2)], NONE, NOW) == {}


def test_only_lanes_that_wait_too_long_are_counted_and_the_longest_is_named():
    found = breaches(
        [lane(130_000, tenant="a", count=5), lane(150_000, tenant="b", count=2), lane(100_000, tenant="c", count=90)],
        NONE,
        NOW,
    )["q", 1]
    assert (found.count, found.lane.tenant, len(found.late)) == (7, "b", 2)
    assert [late.lane.tenant for late in found.late] == ["b", "a"]


# ---------------------------------------------------------------- incidents


def test_an_incident_goes_on_until_waits_are_well_below_the_objective():
    over = breaches([lane(130_000)], NONE, NOW)["q", 1]
    near = breaches([lane(110_000)], NONE, NOW)["q", 1]
    assert next_incident(None, near, (), NOW) == (None, None)
    assert next_incident(None, None, (), NOW) == (None, None)
    incident = held(over)
    on, event = next_incident(incident, near, (), NOW + 5)
    assert (on is not None, event) == (True, None)
    done, event = next_incident(incident, None, (), NOW + 5)
    assert done is not None
    assert (event, done.resolved_at_ms, done.notices) == ("resolved", NOW + 5, 2)


def test_a_reminder_keeps_what_the_incident_has_done():
    over = breaches([lane(130_000)], NONE, NOW)["q", 1]
    incident = held(over, escalated=(b"x",), note="full")
    quarter = 15 * 60_000
    on, event = next_incident(incident, over, (), NOW + quarter - 1)
    assert event is None
    on, event = next_incident(incident, over, (Cause("busy", "all"),), NOW + quarter)
    assert on is not None
    assert (event, on.id, on.escalated, on.opened_at_ms, on.notices) == ("again", 1, (b"x",), NOW, 2)
    assert (on.cause, on.notified_at_ms) == ("busy", NOW + quarter)
    calm = breaches([lane(110_000)], NONE, NOW)["q", 1]
    assert next_incident(incident, calm, (), NOW + 2 * quarter)[1] is None


def test_what_is_escalated_is_bounded_and_never_twice():
    boost = Objectives({Scope(1): ObjectiveRule(on_breach="boost"), Scope(0): ObjectiveRule(on_breach="boost")})
    many = [lane(130_000 + n, tenant=f"t{n}") for n in range(50)]
    found = breaches(many, boost, NOW)["q", 1]
    first = to_escalate(found, ())
    assert len(first) == MAX_ESCALATED
    assert first[0].lane.tenant == "t49"
    ids = [late.waiter.id for late in first]
    assert to_escalate(found, ids) == []
    (one,) = to_escalate(found, ids[1:])
    assert one.waiter.id == ids[0]
    assert to_escalate(breaches([lane(130_000, tier=0)], boost, NOW)["q", 0], ()) == []
    assert to_escalate(breaches(many, NONE, NOW)["q", 1], ()) == []


def test_express_jobs_are_not_expedited_again():
    expedite = Objectives({Scope(1): ObjectiveRule(on_breach="expedite")})
    key = LaneKey("q", "t", "a", 1)
    there = WaitingLane(key, 1, 1, (Waiter(b"x", NOW - 130_000, express=True),))
    assert to_escalate(breaches([there], expedite, NOW)["q", 1], ()) == []


# ---------------------------------------------------------------- causes

KEY = LaneKey("mail", "send", "acme", 1)


@pytest.mark.parametrize(
    ("standing", "kinds"),
    [
        (Standing(pool="p"), ["no_worker"]),
        (Standing(pool="p", serving=2), ["no_worker"]),
        (Standing(pool="p", asked=True), ["turn"]),
        (Standing(pool="p", serving=1, knowing=1, slots=4, running=4), ["busy"]),
        (Standing(pool="p", serving=1, knowing=1, slots=4, running=3), ["turn"]),
        (Standing((GateFacts("queue", "mail", Pause("x")),), "p"), ["paused", "no_worker"]),
        (
            Standing(
                (
                    GateFacts("limit", "l", opens_ms=NOW + 5),
                    GateFacts("tenant", "acme", running=2, max_running=2),
                    GateFacts("task", "send", Pause()),
                ),
                "p",
                1,
                1,
                4,
                4,
            ),
            ["paused", "cap", "rate", "busy"],
        ),
        (Standing((GateFacts("tenant", "acme", running=1, max_running=2),), "p", 1, 1, 4, 0), ["turn"]),
    ],
)
def test_causes_in_the_order_of_what_people_decided(standing: Standing, kinds: list[str]):
    assert [cause.kind for cause in causes(KEY, standing, NOW)] == kinds


def test_a_worker_that_does_not_know_the_task_is_named():
    (cause,) = causes(KEY, Standing(pool="p", serving=1), NOW)
    assert cause.text == "no live worker serves queue 'mail' (pool 'p') and knows task 'send'"


def test_gates_are_looked_at_as_of_now_whatever_they_last_noticed():
    gate = Gate()
    gate.set(pause=Pause(until_ms=NOW), max_running=3, rate=Rate(2, 1_000, 1))
    gate.closed, gate.running = True, 3
    assert gate_facts("queue", "q", gate, NOW) == GateFacts("queue", "q", None, 3, 3, None)
    assert gate_facts("queue", "q", gate, NOW - 1).pause == gate.pause
    gate.started(NOW)
    assert gate_facts("queue", "q", gate, NOW).opens_ms == NOW + 500
    assert gate_facts("queue", "q", gate, NOW + 500).opens_ms is None
    gate.held_until_ms = NOW + 900
    assert gate_facts("queue", "q", gate, NOW).opens_ms == NOW + 900


def test_objectives_are_shown_in_seconds():
    assert Objective(1_500).objective == 1.5
    assert Objective(None).calm_ms is None
