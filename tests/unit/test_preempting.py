"""The choice of who gives way, without a store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import fairlane as fl
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.lanes import LaneKey, Place
from fairlane.domain.limits import Gate
from fairlane.domain.policy import LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.preempting import Runner, Urgent, Wish, room, rooms_of, to_ask
from fairlane.stores._queries import query

NOW = 10_000


def urgent(seq: int, *, tier: int = 0, express: int | None = None, waited: int = 1_000, **more) -> Urgent:
    fields = {"pool": "default", "queue": "q", "task": "t"} | more
    return Urgent(seq, tier=tier, express=express, since_ms=NOW - waited, **fields)


def runner(seq: int, tier: int = 4, started: int = 0, *, worker: str = "w", queue: str = "q", **more) -> Runner:
    return Runner(seq, worker, queue, tier, started, **more)


def worker(slots: int, name: str = "w", **more) -> WorkerRecord:
    return WorkerRecord(**{"id": name, "pool": "default", "queues": None, "slots": slots} | more)


def pairs(waiting: list[Urgent], running: list[Runner], *workers: WorkerRecord, rooms=None, **more):
    found = to_ask(waiting, running, workers or (worker(len(running)),), rooms or {}, now_ms=NOW, **more)
    assert len({wish.runner for wish in found}) == len({wish.urgent for wish in found}) == len(found)
    return [tuple(wish) for wish in found]


def test_the_least_urgent_then_the_latest_started_then_the_last_inserted():
    running = [runner(1, 3, 9), runner(2, 4, 5), runner(3, 4, 7), runner(4, 4, 7), runner(5, 1, 9)]
    waiting = [urgent(n) for n in range(10, 16)]
    assert pairs(waiting, running) == [(4, 10), (3, 11), (2, 12), (1, 13), (5, 14)]
    assert pairs(waiting, running, limit=2) == [(4, 10), (3, 11)]
    assert to_ask(waiting[:1], running, [worker(5)], {}, now_ms=NOW) == [Wish(runner=4, urgent=10)]


@pytest.mark.parametrize(
    "unfit",
    [
        {"preemptible": False},
        {"express": True},
        {"preemptions": 3},
        {"asked": True},
        {"tier": 0},
        {"worker": ""},
        {"worker": "gone"},
    ],
)
def test_who_is_never_asked(unfit: dict):
    assert pairs([urgent(9)], [Runner(**runner(1)._asdict() | unfit)], worker(1)) == []


def test_express_jobs_come_first_and_count_by_their_own_tier():
    running = [runner(1, 3), runner(2, 4)]
    assert pairs([urgent(8), urgent(9, tier=3, express=5)], running) == [(2, 9), (1, 8)]
    assert pairs([urgent(8, tier=4, express=1), urgent(9, tier=3, express=2)], running) == [(2, 9)]


def test_those_that_waited_longest_come_first_and_the_young_wait():
    waiting = [urgent(7, waited=999), urgent(8, waited=1_500), urgent(9, waited=1_700)]
    assert pairs(waiting, [runner(1), runner(2, started=1)]) == [(2, 9), (1, 8)]
    assert pairs(waiting, [runner(1), runner(2)], after_ms=1_600) == [(2, 9)]


def test_one_asked_serves_the_job_it_was_asked_for_and_no_other():
    running = [runner(1), runner(2, asked=True, asked_for=9)]
    assert pairs([urgent(9)], running) == []
    assert pairs([urgent(9), urgent(8)], running) == [(1, 8)]
    assert pairs([urgent(8)], running) == [(1, 8)]
    assert pairs([urgent(9), urgent(8)], running, rooms={("queue", "q"): 1}) == [(1, 8)]
    named = [urgent(n, rooms=(("queue", "q"),)) for n in (8, 9)]
    assert pairs(named, running, rooms={("queue", "q"): 1}) == [], "the place is spoken for"


def test_a_free_slot_serves_one_job_for_a_while():
    running = [runner(1), runner(2)]
    two = worker(2), worker(1, "free")
    assert pairs([urgent(8)], running, *two) == []
    assert pairs([urgent(8, waited=1_200), urgent(9)], running, *two) == [(2, 9)]
    assert pairs([urgent(8, waited=2_000)], running, *two) == [(2, 8)], "nobody uses it"
    assert pairs([urgent(8, waited=9_000)], running, worker(3)) == [], "freeing one more there helps nobody"


@pytest.mark.parametrize(
    "unfit", [{"queues": ("other",)}, {"tasks": ("other",)}, {"pool": "other"}, {"queues": ("q",), "queue_slots": (2,)}]
)
def test_only_workers_that_could_run_it_free_a_slot(unfit: dict):
    running = [runner(1, queue="r"), runner(2, queue="r"), runner(3, 0), runner(4, 0)]
    assert pairs([urgent(9)], running, worker(4)) != []
    assert pairs([urgent(9)], running, worker(4, **unfit)) == []


def test_the_slots_of_a_queue_are_freed_by_jobs_of_that_queue():
    split = worker(4, queues=("q", "r"), queue_slots=(2, 3))
    running = [runner(1), runner(2), runner(3, started=9, queue="r"), runner(4, started=9, queue="r")]
    assert pairs([urgent(9)], running, split) == [(2, 9)]
    assert pairs([urgent(9)], running[:3], split) == [(2, 9)], "although a slot is free, none is for its queue"
    assert pairs([urgent(9, queue="r")], running, split) == [(4, 9)]


def test_gates_tell_how_many_more_may_start():
    gate = Gate()
    assert room(gate, NOW) is None
    gate.set(pause=None, max_running=3, rate=Rate(2, 1_000, 4))
    assert room(gate, NOW) == 3
    gate.running = 1
    for left in (2, 1, 0):
        assert room(gate, NOW) == left
        gate.started(NOW)
    gate.running = 0
    assert room(gate, NOW) == 1
    assert room(gate, NOW + 500) == 2
    gate.started(NOW)
    assert room(gate, NOW) == 0
    gate.refresh(NOW)
    assert gate.closed


def test_rooms_of_a_lane_name_everything_that_is_bounded():
    scheduler = Scheduler(Policy())
    key = LaneKey("q", "t", "a", 0)
    scheduler.add(key, Place(0, 1))
    scheduler.set_workers("default", 16, None)

    def rooms(*, share: bool = True):
        return rooms_of(scheduler.lanes[key], scheduler.limits, share=share, now_ms=NOW)

    assert rooms() == {("queue", "q"): None, ("tenant", "a"): None, ("share", "default", "a"): 4}
    scheduler.set_queue("q", QueueRule(max_running=9, tenant_max_running=2))
    scheduler.set_task("t", TaskRule(None, ("api", "smtp:{tenant}")))
    scheduler.set_limit("api", LimitRule(None, 5))
    scheduler.set_limit("smtp:{tenant}", LimitRule(None, 7))
    scheduler.set_tenant("a", TenantRule(max_running=6))
    assert rooms(share=False) == {
        ("queue", "q"): 9, ("tenant", "a"): 6, ("tenant in queue", "q", "a"): 2, ("limit", "api"): 5,
        ("limit", "smtp:a"): 7,
    }  # fmt: skip
    scheduler.set_limit("smtp:{tenant}", LimitRule(Pause()))
    assert rooms() is None


@pytest.mark.parametrize(
    "name", ["preempt_probe", "preempt_running", "preempt_express", "preempt_lanes", "preempt_heads"]
)
def test_a_pass_reads_by_indexes_whatever_waits(tmp_path: Path, name: str):
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.depth()
        db = sqlite3.connect(tmp_path / "jobs.db")
        values = {"lane": 1, "most": 8, "before_ms": 1}
        plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + query("sqlite", name), values)]
        db.close()
    assert not [step for step in plan if step in {"SCAN job", "SCAN lane"} or "TEMP B-TREE" in step], plan
