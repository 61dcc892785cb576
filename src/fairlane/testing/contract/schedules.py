"""Schedules: what is stored of them, and that each tick is fired once, whatever happens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlane.declarations import declare
from fairlane.domain import schedules as rules
from fairlane.domain.jobs import JobRecord
from fairlane.domain.policy import Pause
from fairlane.domain.schedules import KEEP_GONE_MS, RETRY_MS, ScheduleRecord, Spec, Template, declared
from fairlane.domain.states import State
from fairlane.domain.ticks import CATCH_UP, COUNTED, Cron, Every
from fairlane.errors import InvalidValue, StoreError
from fairlane.firing import Fired, fire
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def spec(every_ms: int = MINUTE_MS, **said: Any) -> Spec:  # Any: fields of Spec and Template
    """Return what is said of a schedule: every minute unless told otherwise, counted from its making."""
    own: dict[str, Any] = {name: said.pop(name) for name in tuple(said) if name in Spec.__struct_fields__}
    fields: dict[str, Any] = {"task": "t", "queue": "q", "tenant": "a", **said}
    job = Template(**fields)
    own.setdefault("when", Every(every_ms))
    return Spec(job=job, **own)


def say(b: Bench, name: str = "s", made: Spec | None = None, *, source: str = "app") -> ScheduleRecord:
    """Declare one schedule and return it."""
    told = made or spec()
    b.write(lambda store, now_ms: declare(store, {name: (told, source)}, (), now_ms))
    return held(b, name)


def held(b: Bench, name: str = "s") -> ScheduleRecord:
    """Return a schedule, which there must be."""
    record = b.store.schedule(name)
    assert record is not None, "no such schedule"
    return record


def put(b: Bench, record: ScheduleRecord) -> None:
    """Store a schedule."""
    b.write(lambda store, now_ms: store.put_schedule(record, now_ms=now_ms))


def look(b: Bench, *, limit: int = 20) -> int:
    """Fire what is due; return how many jobs that made."""
    return b.write(lambda store, now_ms: fire(store, now_ms, limit=limit)).jobs


def jobs(b: Bench, name: str = "s") -> list[JobRecord]:
    """Return the jobs of a schedule, oldest first."""
    return b.all_jobs(tag=rules.tag_of(name))[::-1]


class SchedulesContract(Contract):
    """T-B13: one fire per tick, across looks, restarts and clocks; what is due late goes by the rule."""

    # ------------------------------------------------------------------ what is stored

    def test_a_schedule_comes_back_as_it_was_stored(self, b: Bench) -> None:
        """Every field, the largest name, and any text."""
        full = ScheduleRecord(
            name="ж" * 100,
            spec=spec(
                when=Cron("0 7 * * mon-fri", "Europe/Paris"),
                args='{"n":1}',
                tier=0,
                express=True,
                tags=("x", "y"),
                expires_in_ms=5,
                misfire="run_all",
                grace_ms=0,
                overlap="skip",
            ),
            source="mod",
            created_at_ms=1,
            next_at_ms=2,
            due_at_ms=3,
            pause=Pause("why", "who", 4),
            last_at_ms=5,
            last_job=bytes(16),
            runs=6,
            missed=7,
            skipped=8,
            refused=9,
            error="e",
            error_at_ms=10,
            gone_at_ms=11,
            changed_at_ms=12,
            changed_by="me",
        )
        put(b, full)
        bare = ScheduleRecord(name="a", spec=spec(), created_at_ms=0, next_at_ms=None, due_at_ms=None, changed_at_ms=0)
        put(b, bare)
        assert held(b, full.name) == full
        assert b.store.schedules() == [bare, full]
        assert b.store.schedule("other") is None

    def test_what_is_due_comes_in_order_and_bounded(self, b: Bench) -> None:
        """The longest due first; those without an instant never."""
        for name, due_ms in (("c", 3), ("a", 2), ("b", None), ("d", b.now_ms + 1), ("e", b.now_ms)):
            put(b, msgspec.structs.replace(say(b, name), due_at_ms=due_ms))
        due = b.write(lambda store, now_ms: store.due_schedules(now_ms, limit=2))
        assert [record.name for record in due] == ["a", "c"]
        due = b.write(lambda store, now_ms: store.due_schedules(now_ms, limit=9))
        assert [record.name for record in due] == ["a", "c", "e"]
        assert b.store.next_schedule_ms() == due[0].due_at_ms

    def test_without_schedules_nothing_is_due(self, b: Bench) -> None:
        """An empty table, and one with nothing to come."""
        assert b.store.next_schedule_ms() is None
        put(b, msgspec.structs.replace(say(b), due_at_ms=None))
        assert b.store.next_schedule_ms() is None
        with b.unchanged():
            assert look(b) == 0

    def test_one_that_is_removed_is_gone_and_its_jobs_stay(self, b: Bench) -> None:
        """Removing it tells whether it was there."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        assert b.write(lambda store, now_ms: store.remove_schedule("s", by="me", now_ms=now_ms))
        with b.unchanged():
            assert not b.write(lambda store, now_ms: store.remove_schedule("s", by="me", now_ms=now_ms))
        assert b.store.schedules() == []
        assert len(jobs(b)) == 1

    def test_reading_changes_nothing(self, b: Bench) -> None:
        """Also when something is due."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        with b.unchanged():
            b.store.schedules()
            b.store.schedule("s")
            b.store.next_schedule_ms()

    # ------------------------------------------------------------------ a tick

    def test_a_tick_makes_a_job(self, b: Bench) -> None:
        """With its lane, arguments, options, tags and key; it can be claimed at once, and others hear of it."""
        say(b, "s", spec(args='{"n":1}', tenant="z", tier=1, tags=("x",), expires_in_ms=5_000))
        first = held(b)
        assert (first.next_at_ms, first.due_at_ms) == (b.now_ms + MINUTE_MS,) * 2
        b.clock.advance(ms=MINUTE_MS - 1)
        assert look(b) == 0
        b.clock.advance(ms=1)
        b.heard.clear()
        assert look(b) == 1
        assert "work" in b.heard
        (job,) = jobs(b)
        assert (job.task, job.queue, job.tenant, job.tier, job.args) == ("t", "q", "z", 1, '{"n":1}')
        assert job.tags == ("x", "schedule:s", "tick:2023-11-14T22:14:20.000Z")
        assert job.dedup_key == f"schedule:s:{b.now_ms}"
        assert (job.state, job.expires_at_ms) == (State.AVAILABLE, b.now_ms + 5_000)
        after = held(b)
        assert (after.runs, after.last_job, after.last_at_ms) == (1, job.id, b.now_ms)
        assert after.next_at_ms == b.now_ms + MINUTE_MS
        assert b.start() == [job.id]

    def test_a_tick_is_fired_once(self, b: Bench) -> None:
        """However often one looks."""
        say(b)
        for tick in range(1, 4):
            b.clock.advance(ms=MINUTE_MS)
            assert [look(b) for _ in range(3)] == [1, 0, 0]
            assert len(jobs(b)) == tick

    def test_a_tick_whose_job_has_ended_is_not_fired_again(self, b: Bench) -> None:
        """Its key is free then: what counts is that the schedule has moved on."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        look(b)
        b.done(b.take())
        assert look(b) == 0

    def test_an_express_schedule_takes_the_express_lane(self, b: Bench) -> None:
        """``expedite`` holds for each of its jobs."""
        say(b, "s", spec(express=True))
        b.clock.advance(ms=MINUTE_MS)
        look(b)
        assert jobs(b)[0].express is not None

    def test_a_transaction_that_fails_leaves_the_tick_to_the_next(self, b: Bench) -> None:
        """Jobs and schedule go together: nothing is lost, nothing doubled."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)

        def torn(store: Any, now_ms: int) -> None:  # Any: a Store
            assert fire(store, now_ms) == Fired(1, 1)
            raise StoreError("the disk is full")

        with b.unchanged(), pytest.raises(StoreError):
            b.write(torn)
        assert look(b) == 1
        assert len(jobs(b)) == 1

    # ------------------------------------------------------------------ late

    @pytest.mark.parametrize(("misfire", "fired", "missed"), [("skip", 0, 3), ("run_once", 1, 2), ("run_all", 3, 0)])
    def test_ticks_that_nothing_was_there_to_fire(self, b: Bench, misfire: str, fired: int, missed: int) -> None:
        """Three hours without a process: the rule decides, and it is told how many were passed over."""
        say(b, "s", spec(HOUR_MS, misfire=misfire))
        b.clock.advance(ms=3 * HOUR_MS + HOUR_MS // 2)
        assert look(b) == fired
        after = held(b)
        assert (after.runs, after.missed) == (fired, missed)
        assert after.next_at_ms == b.now_ms + HOUR_MS // 2
        assert [job.tags[-1][-13:] for job in jobs(b)] == ["23:13:20.000Z", "00:13:20.000Z", "01:13:20.000Z"][
            3 - fired :
        ]
        assert look(b) == 0

    def test_a_tick_within_its_grace_is_on_time(self, b: Bench) -> None:
        """``skip`` does not pass over what a restart has held up for a little."""
        say(b, "s", spec(HOUR_MS, misfire="skip", grace_ms=30_000))
        b.clock.advance(ms=HOUR_MS + 30_000)
        assert look(b) == 1
        b.clock.advance(ms=HOUR_MS + 1)
        assert look(b) == 0
        assert held(b).missed == 1

    def test_catching_up_is_bounded(self, b: Bench) -> None:
        """A year of minutes: the latest hundred, in one transaction, and the rest is counted."""
        say(b, "s", spec(misfire="run_all"))
        b.clock.advance(ms=365 * 24 * HOUR_MS)
        assert look(b) == CATCH_UP
        assert held(b).missed == COUNTED - CATCH_UP
        assert look(b) == 0

    def test_a_clock_that_is_set_back_fires_nothing_twice(self, b: Bench) -> None:
        """The ticks of the hour that comes again were fired; the next one is the first after them."""
        say(b, "s", spec(misfire="run_all"))
        for _ in range(60):
            b.clock.advance(ms=MINUTE_MS)
            assert look(b) == 1
        b.clock.step(seconds=-3_600)
        for _ in range(60):
            b.clock.advance(ms=MINUTE_MS)
            assert look(b) == 0
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        assert len({job.tags[-1] for job in jobs(b)}) == len(jobs(b)) == held(b).runs

    def test_a_resume_after_the_clock_was_set_back_fires_nothing_twice(self, b: Bench) -> None:
        """The next tick is the first from now on, and after the latest that was fired."""
        say(b)
        for _ in range(5):
            b.clock.advance(ms=MINUTE_MS)
            look(b)
        last_ms = b.now_ms
        b.clock.step(seconds=-200)
        put(b, rules.paused(held(b), Pause("", "me"), now_ms=b.now_ms))
        after = rules.resumed(held(b), by="me", now_ms=b.now_ms)
        assert after is not None
        assert after.next_at_ms == last_ms + MINUTE_MS

    def test_a_clock_that_was_years_ahead_does_not_stop_a_schedule_for_years(self, b: Bench) -> None:
        """When a worker starts, a latest tick that lies far ahead binds nobody."""
        say(b)
        b.clock.step(seconds=3 * 365 * 86_400)
        look(b)
        b.clock.step(seconds=-3 * 365 * 86_400)
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1

    # ------------------------------------------------------------------ trouble

    def test_one_that_is_refused_holds_up_no_other_and_goes_on(self, b: Bench) -> None:
        """A full queue: the reason is told, the tick is not tried again and again, and the next one finds room."""
        b.rule("queue", "full", max_waiting=0)
        say(b, "bad", spec(queue="full"))
        say(b, "good", spec())
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        after = held(b, "bad")
        assert (after.refused, after.runs, after.next_at_ms) == (1, 0, b.now_ms + MINUTE_MS)
        assert after.error.startswith("QueueFull: queue 'full' is full")
        assert after.error_at_ms == b.now_ms
        assert held(b, "good").runs == 1
        with b.unchanged():
            assert look(b) == 0
        b.rule("queue", "full", max_waiting=None)
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == len(("bad", "good"))
        after = held(b, "bad")
        assert (after.refused, after.runs, after.error, after.error_at_ms) == (1, 1, "", None)

    def test_one_whose_zone_is_unknown_here_holds_up_no_other(self, b: Bench) -> None:
        """Another machine may know the zone: its tick stays due, and is looked at again in a minute."""
        good, bad = say(b, "good"), say(b, "bad")
        strange = msgspec.structs.replace(bad, spec=spec(when=Cron("* * * * *", "Mars/Olympus")))
        put(b, strange)
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        after = held(b, "bad")
        assert "Mars/Olympus" in after.error
        assert (after.next_at_ms, after.due_at_ms) == (good.next_at_ms, b.now_ms + RETRY_MS)
        with b.unchanged():
            assert look(b) == 0

    def test_looks_are_bounded_and_leave_nobody_out(self, b: Bench) -> None:
        """Thirty that are due at once, ten at a look."""
        for number in range(30):
            say(b, f"s{number}")
        b.clock.advance(ms=MINUTE_MS)
        assert [look(b, limit=10) for _ in range(4)] == [10, 10, 10, 0]

    # ------------------------------------------------------------------ overlap

    def test_ticks_are_passed_over_while_an_earlier_job_is_live(self, b: Bench) -> None:
        """``overlap="skip"``: waiting, running or waiting for a retry; they are counted, and no arrears run later."""
        say(b, "s", spec(overlap="skip"))
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 0
        claim = b.take()
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 0
        assert (held(b).runs, held(b).skipped) == (1, 2)
        b.beat(claim)
        b.settle(claim, "completed")
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        assert (held(b).runs, held(b).skipped, len(jobs(b))) == (2, 2, 2)

    def test_without_it_ticks_queue(self, b: Bench) -> None:
        """``overlap="queue"``: one job for each tick, whatever has become of the earlier ones."""
        say(b)
        for _ in range(3):
            b.clock.advance(ms=MINUTE_MS)
            look(b)
        assert b.waiting() == held(b).runs == len(jobs(b))

    # ------------------------------------------------------------------ people

    def test_a_pause_passes_over_ticks_and_is_not_made_up_for(self, b: Bench) -> None:
        """After it the next tick is the first from then on."""
        record = say(b, "s", spec(misfire="run_all"))
        put(b, rules.paused(record, Pause("holidays", "me"), now_ms=b.now_ms))
        b.clock.advance(ms=10 * MINUTE_MS + 1)
        assert look(b) == 0
        after = rules.resumed(held(b), by="me", now_ms=b.now_ms)
        assert after is not None
        put(b, after)
        assert look(b) == 0
        assert held(b).next_at_ms == b.now_ms - 1 + MINUTE_MS
        b.clock.advance(ms=MINUTE_MS - 1)
        assert look(b) == 1
        assert rules.resumed(held(b), by="me", now_ms=b.now_ms) is None

    def test_a_pause_that_ends_by_itself(self, b: Bench) -> None:
        """Its end is an instant at which there is something to do; the ticks from then on are fired."""
        record = say(b, "s", spec(misfire="run_all", grace_ms=0))
        until_ms = b.now_ms + 5 * MINUTE_MS
        put(b, rules.paused(record, Pause("", "me", until_ms), now_ms=b.now_ms))
        assert b.store.next_schedule_ms() == until_ms
        b.clock.advance(ms=5 * MINUTE_MS - 1)
        assert look(b) == 0
        b.clock.advance(ms=2 * MINUTE_MS)
        look(b)
        assert [job.dedup_key for job in jobs(b)] == [f"schedule:s:{until_ms + after}" for after in (0, MINUTE_MS)]
        assert held(b).pause is None

    # ------------------------------------------------------------------ deploys

    def test_code_that_says_the_same_changes_nothing(self, b: Bench) -> None:
        """A worker that starts writes nothing, and a tick that came meanwhile is fired by the rule."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        with b.unchanged():
            say(b)
        assert look(b) == 1

    def test_other_ticks_count_from_now(self, b: Bench) -> None:
        """A changed interval or expression: the next tick is the first from now; pause and figures stay."""
        record = say(b)
        b.clock.advance(ms=MINUTE_MS)
        look(b)
        put(b, rules.paused(held(b), Pause("x", "me"), now_ms=b.now_ms))
        b.clock.advance(ms=HOUR_MS + 1)
        after = say(b, "s", spec(when=Cron("0 * * * *")))
        assert after.pause == Pause("x", "me")
        assert (after.runs, after.created_at_ms) == (1, record.created_at_ms)
        assert after.next_at_ms == -(-b.now_ms // HOUR_MS) * HOUR_MS
        assert after.due_at_ms is None, "it is paused"

    def test_other_options_keep_the_tick(self, b: Bench) -> None:
        """A changed tier or argument is no reason to lose what is due."""
        say(b)
        b.clock.advance(ms=MINUTE_MS)
        assert say(b, "s", spec(tier=0)).next_at_ms == b.now_ms
        assert look(b) == 1
        assert jobs(b)[0].tier == 0

    def test_what_the_code_no_longer_has_is_gone_and_comes_back(self, b: Bench) -> None:
        """It fires nothing; it is kept for a week with its pause, so that a rollback does not wake what was paused."""
        say(b)
        put(b, rules.paused(held(b), Pause("broken", "me"), now_ms=b.now_ms))
        answer = b.write(lambda store, now_ms: declare(store, {}, {"app"}, now_ms))
        assert answer == ([], ["s"])
        with b.unchanged():
            b.write(lambda store, now_ms: declare(store, {}, {"app"}, now_ms))
        b.clock.advance(ms=10 * MINUTE_MS)
        assert look(b) == 0
        after = say(b)
        assert (after.gone_at_ms, after.pause) == (None, Pause("broken", "me"))

    def test_what_is_gone_is_forgotten_after_a_week(self, b: Bench) -> None:
        """By whoever looks then."""
        say(b)
        b.write(lambda store, now_ms: declare(store, {}, {"app"}, now_ms))
        b.clock.advance(ms=KEEP_GONE_MS - 1)
        look(b)
        assert held(b).runs == 0
        b.clock.advance(ms=1)
        assert look(b) == 0
        assert b.store.schedules() == []

    def test_one_code_leaves_alone_what_others_have(self, b: Bench) -> None:
        """Other modules' schedules, and those made by hand."""
        say(b, "theirs", source="other")
        mine = declared(None, "hand", spec(), source="", by="me", now_ms=b.now_ms)
        assert mine is not None
        put(b, mine)
        with b.unchanged():
            b.write(lambda store, now_ms: declare(store, {}, {"app"}, now_ms))

    def test_code_takes_over_what_was_made_by_hand(self, b: Bench) -> None:
        """The same name: its ticks go on, and from then on the code decides."""
        mine = declared(None, "s", spec(), source="", by="me", now_ms=b.now_ms)
        assert mine is not None
        put(b, mine)
        b.clock.advance(ms=1_000)
        after = say(b)
        assert (after.source, after.next_at_ms) == ("app", mine.next_at_ms)

    # ------------------------------------------------------------------ by hand

    def test_a_job_by_hand_has_no_tick(self, b: Bench) -> None:
        """``run``: it has the schedule's tag and, unless overlaps are passed over, no key."""
        record = say(b, "s", spec(overlap="skip"))
        job = rules.job_of("s", record.spec, None, b.new().id, b.now_ms)
        assert (job.tags, job.dedup_key) == (("schedule:s",), "schedule:s")
        record = say(b, "s", spec())
        assert rules.job_of("s", record.spec, None, b.new().id, b.now_ms).dedup_key is None

    def test_wrong_words_are_refused(self) -> None:
        """They would be stored as JSON, and fail at every look."""
        wrong: tuple[dict[str, Any], ...] = ({"misfire": "never"}, {"overlap": "both"}, {"grace_ms": -1})
        for said in wrong:
            with pytest.raises(InvalidValue):
                spec(**said)


class SharedSchedulesContract(Contract):
    """What holds between several programs on one database."""

    def test_a_tick_is_fired_once_among_programs(self, open_bench: OpenBench) -> None:
        """Eight look at every tick, one after the other, and each has the others' clock."""
        benches = [open_bench() for _ in range(8)]
        say(benches[0])
        for tick in range(5):
            benches[0].clock.advance(ms=MINUTE_MS)
            assert sum(look(benches[(tick + at) % 8]) for at in range(8)) == 1
        assert len({job.dedup_key for job in jobs(benches[3])}) == len(jobs(benches[3])) == held(benches[5]).runs

    def test_a_tick_is_fired_once_across_restarts(self, b: Bench) -> None:
        """The schedule and its jobs outlive the program, and what is due meanwhile is there."""
        say(b)
        before = held(b)
        b.reopen()
        assert held(b) == before
        b.clock.advance(ms=MINUTE_MS)
        assert look(b) == 1
        b.reopen()
        assert look(b) == 0

    def test_programs_whose_clocks_differ(self, open_bench: OpenBench) -> None:
        """One is ten minutes behind: it fires nothing twice, whoever is first."""
        fast = open_bench()
        slow = open_bench(clock=ManualClock(fast.now_ms - 10 * MINUTE_MS))
        say(fast)
        for _ in range(30):
            for one in (slow, fast):
                one.clock.advance(ms=MINUTE_MS)
                look(one)
        keys = [job.dedup_key for job in jobs(fast)]
        assert len(keys) == len(set(keys)) == held(fast).runs
        assert held(fast).runs == len(range(30))
