"""One action on many jobs: which jobs, how fast, how far, and what a refusal or a restart does to it."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fairlane.domain.jobs import JobFilter
from fairlane.domain.operations import ALLOWED, OperationPlan, OperationState
from fairlane.domain.states import State
from fairlane.errors import IllegalMove, InvalidValue, OperationNotFound
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench, job_id
from fairlane.testing.contract.moves import job_in
from fairlane.testing.contract.verify import handed, timed_out

DONE, CANCELLED, PAUSED, RUNNING = (
    OperationState.DONE,
    OperationState.CANCELLED,
    OperationState.PAUSED,
    OperationState.RUNNING,
)


def dead(b: Bench, n: int, **options: Any) -> list[bytes]:  # Any: NewJob's fields
    """Let ``n`` jobs die and return their ids, oldest first."""
    jobs = [b.put(**options) for _ in range(n)]
    for claim in b.claim(n):
        b.die(claim)
    assert {b.state(job) for job in jobs} == {State.DEAD}
    return jobs


class OperationsContract(Contract):
    """SPEC 4 and 5, bulk forms; T-M16, T-M17, T-M20."""

    # ------------------------------------------------------------------ what each action does

    @pytest.mark.parametrize("state", list(State), ids=lambda state: state.label)
    @pytest.mark.parametrize("action", ALLOWED)
    def test_action_by_state(self, b: Bench, action: Any, state: State) -> None:
        """T-M17: an action means the states that it is for, and a plan for another state is refused."""
        job = job_in(b, state)
        to = 0 if action in {"boost", "set_tier"} else None
        if state not in ALLOWED[action][0]:
            with b.refused(InvalidValue):
                b.operate(action, states=(state,), to=to)
        asked = b.operate(action, tenant="a", to=to)
        usual = state in ALLOWED[action][1]
        assert b.operation(asked).total == int(usual)
        before = b.rows()["job"]
        record = b.finish(asked)
        able = usual and action != "reverify"  # none of these jobs has handed anything over
        assert (record.state, record.done, record.refused) == (DONE, int(able), int(usual and not able))
        assert (b.rows()["job"] != before) == able
        if usual and action == "discard":
            assert b.store.get(job) is None

    def test_retry_starts_counts_anew_and_keeps_the_history(self, b: Bench) -> None:
        """T-M16: as one retry by hand does, with the tenant, tier and arrival of before."""
        b.declare("t")
        (job,) = dead(b, 1, tier=3)
        before = b.job(job)
        b.clock.advance(seconds=60)
        b.finish(b.operate("retry", tenant="a"))
        after = b.job(job)
        assert (after.failures, after.crashes, after.reason, after.state) == (0, 0, None, State.AVAILABLE)
        assert after.errors == before.errors != ()
        assert (after.arrival_ms, after.tier, after.tenant) == (before.arrival_ms, 3, "a")

    def test_replayed_jobs_take_turns_like_all_others(self, b: Bench) -> None:
        """A replay of one tenant's jobs is no way past the others."""
        dead(b, 4, tenant="noisy")
        b.finish(b.operate("retry", tenant="noisy"))
        b.fill({"a": 4})
        assert b.tenants(4).count("a") >= 2

    def test_retry_into_another_tier(self, b: Bench) -> None:
        """Jobs may come back less urgent than they were."""
        (job,) = dead(b, 1, tier=1)
        other = b.put(tier=3)
        b.finish(b.operate("retry", to=4))
        assert b.job(job).tier == 4
        assert b.drain() == [other, job]

    def test_cancel_means_running_jobs_only_when_asked(self, b: Bench) -> None:
        """What runs is asked to stop."""
        running = b.put()
        claim = b.take()
        waiting = b.put()
        b.finish(b.operate("cancel", queue="q"))
        assert (b.state(running), b.state(waiting)) == (State.RUNNING, State.CANCELLED)
        assert b.beat(claim) == "ok"
        record = b.finish(b.operate("cancel", states=(State.RUNNING,)))
        assert record.done == 1
        assert b.beat(claim) == "cancel"
        b.done(claim)

    def test_boosts(self, b: Bench) -> None:
        """``boost`` raises only; ``set_tier`` gives any tier; arrivals stay."""
        first, second = b.put(tier=4), b.put(tier=0)
        record = b.finish(b.operate("boost", queue="q", to=1))
        assert (record.done, record.refused) == (1, 1)
        assert record.refusals[0].job == second
        assert b.finish(b.operate("set_tier", queue="q", to=2)).done == 2
        assert b.drain() == [first, second]

    def test_expedite_stops_at_the_capacity(self, b: Bench) -> None:
        """The express lane holds five of a tenant: the others refuse, each with why, and the latest ten are kept."""
        b.fill({"a": 20})
        record = b.finish(b.operate("expedite", tenant="a"))
        assert (record.done, record.refused, record.state) == (5, 15, DONE)
        assert len(record.refusals) == 10
        assert "express lane" in record.refusals[0].reason

    def test_reverify_means_jobs_that_died_in_their_verify_phase(self, b: Bench) -> None:
        """Each has its checks anew and is not run again; dead jobs that handed nothing over refuse and are counted."""
        timed = [timed_out(b, dedup_key=key) for key in ("k", None, "k")]
        (failed,) = dead(b, 1)
        waits = handed(b)
        before = {job: b.job(job) for job in (*timed, failed, waits)}
        record = b.finish(b.operate("reverify", tenant="a"))
        assert (record.total, record.done, record.refused) == (4, 2, 2)
        for job in timed[:2]:
            after = b.job(job)
            assert (after.state, after.phase, after.checks, after.reason) == (State.AVAILABLE, "verify", 0, None)
            assert (after.failures, after.reference, after.errors) == (0, before[job].reference, before[job].errors)
        assert {job: b.job(job) for job in (timed[2], failed, waits)} == {
            job: before[job] for job in (timed[2], failed, waits)
        }
        assert [one.job for one in record.refusals] == [timed[2], failed]
        assert "'k'" in record.refusals[0].reason
        assert "process phase" in record.refusals[1].reason
        told = [(one.what, one.by, one.detail) for one in b.store.audit(limit=9) if one.what == "reverify"]
        assert told == [("reverify", "ops", "why")] * 2
        assert [(claim.phase, claim.checks) for claim in b.claim(9)] == [("verify", 0)] * 2

    def test_reverify_means_jobs_that_wait_for_a_check_only_when_asked(self, b: Bench) -> None:
        """Their check comes before its time; one that waits to be processed refuses."""
        waits, later = handed(b), b.put(delay_ms=60_000)
        assert b.finish(b.operate("reverify", tenant="a")).total == 0
        record = b.finish(b.operate("reverify", tenant="a", states=(State.SCHEDULED,)))
        assert (record.done, record.refused, record.refusals[0].job) == (1, 1, later)
        assert (b.state(waits), b.state(later)) == (State.AVAILABLE, State.SCHEDULED)
        assert b.take().id == waits

    def test_refused_job_is_as_it_was(self, b: Bench) -> None:
        """A dead job whose key a live one holds is counted, and nothing of it changes."""
        dead(b, 1, dedup_key="k")
        dead(b, 1, dedup_key="k")
        first, second = sorted(b.all_jobs(), key=lambda job: job.seq)
        record = b.finish(b.operate("retry", queue="q"))
        assert (record.done, record.refused) == (1, 1)
        assert b.state(first.id) is State.AVAILABLE
        assert b.job(second.id) == second
        assert (record.refusals[0].job, "'k'" in record.refusals[0].reason) == (second.id, True)

    # ------------------------------------------------------------------ which jobs

    @pytest.mark.parametrize("portion", [1, 3, 200])
    def test_only_jobs_that_existed(self, b: Bench, portion: int) -> None:
        """What is enqueued later is not meant, also while it goes on."""
        b.fill({"a": 3})
        asked = b.operate("cancel", tenant="a")
        b.fill({"a": 2})
        assert b.finish(asked, limit=portion).done == 3
        assert b.store.counts()[State.AVAILABLE] == 2

    def test_job_is_looked_at_once(self, b: Bench) -> None:
        """A job that dies of the same thing again while the replay goes on is not brought back a second time."""
        first, second = dead(b, 2)
        asked = b.operate("retry", tenant="a")
        b.advance(asked, limit=1)
        b.die(b.take())
        assert b.finish(asked).done == 2
        assert (b.state(first), b.state(second)) == (State.DEAD, State.AVAILABLE)

    def test_job_that_changed_meanwhile_is_passed_over(self, b: Bench) -> None:
        """The filter holds at the moment of the change."""
        first, second = b.put(tier=2), b.put(tier=2)
        asked = b.operate("cancel", tier=2)
        b.boost(second, 0)
        assert b.finish(asked).done == 1
        assert (b.state(first), b.state(second)) == (State.CANCELLED, State.AVAILABLE)

    def test_many_jobs_that_are_not_meant(self, b: Bench) -> None:
        """One portion looks at a bounded number of jobs; the operation still finds the last one."""
        for _ in range(2):
            b.fill({"b": 6_000})
        last = b.put(tenant="a")
        asked = b.operate("cancel", tenant="a")
        first = b.advance(asked)
        assert first is not None
        assert first.state is RUNNING, "a portion looked at all of 12,001 jobs"
        assert b.finish(asked).done == 1
        assert b.state(last) is State.CANCELLED

    def test_nothing_is_meant(self, b: Bench) -> None:
        """An operation without jobs is done with its first portion."""
        record = b.finish(b.operate("cancel", tenant="nobody"))
        assert (record.total, record.done, record.state, record.ended_at_ms) == (0, 0, DONE, b.now_ms)

    # ------------------------------------------------------------------ how many, how fast

    @pytest.mark.parametrize("limit", [1, 4, 5, 9])
    def test_limit_is_exact(self, b: Bench, limit: int) -> None:
        """The oldest come first; the limit counts what was changed."""
        jobs = dead(b, 5)
        asked = b.operate("retry", tenant="a", limit=limit)
        assert b.operation(asked).total == min(5, limit)
        record = b.finish(asked, limit=2)
        assert (record.done, record.state) == (min(5, limit), DONE)
        assert [b.state(job) is State.AVAILABLE for job in jobs] == [n < limit for n in range(5)]

    def test_limit_does_not_count_refusals(self, b: Bench) -> None:
        """Two shall come back, and two do, though the first refuses."""
        dead(b, 1, dedup_key="k")
        b.put(dedup_key="k", delay_ms=1_000)
        dead(b, 3)
        record = b.finish(b.operate("retry", tenant="a", limit=2))
        assert (record.done, record.refused) == (2, 1)

    def test_operation_keeps_its_rate(self, b: Bench) -> None:
        """Ten a second: the first at once, and however often somebody asks, no more than a tenth of a second allows."""
        dead(b, 30)
        asked = b.operate("retry", tenant="a", rate=10.0)
        done: list[int] = []
        for _ in range(21):
            for _ in range(3):
                b.advance(asked)
            done.append(b.operation(asked).done)
            b.clock.advance(ms=50)
        assert done == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11]

    def test_rate_is_kept_by_those_who_look_seldom(self, b: Bench) -> None:
        """Who comes every 0.7 s still gets ten a second on average; after a long pause one second is made up for."""
        dead(b, 60)
        asked = b.operate("retry", tenant="a", rate=10.0)
        for _ in range(4):
            b.advance(asked)
            b.clock.advance(ms=700)
        assert b.operation(asked).done == 22
        b.clock.advance(seconds=3_600)
        b.advance(asked)
        assert b.operation(asked).done == 33
        assert b.advance(asked) is None

    def test_portion_is_bounded(self, b: Bench) -> None:
        """Without a rate a portion changes what it is told to, no more."""
        dead(b, 7)
        asked = b.operate("retry", tenant="a")
        assert [record.done for _ in range(3) if (record := b.advance(asked, limit=3))] == [3, 6, 7]
        assert b.advance(asked) is None

    def test_operations_take_turns(self, b: Bench) -> None:
        """Of two that are under way neither waits for the end of the other."""
        dead(b, 4)
        dead(b, 4, tenant="b")
        first, second = b.operate("retry", tenant="a"), b.operate("retry", tenant="b")
        for _ in range(4):
            b.clock.advance(ms=1)
            b.advance(limit=1)
        assert (b.operation(first).done, b.operation(second).done) == (2, 2)
        while b.advance(limit=1):
            pass
        assert {b.operation(one).state for one in (first, second)} == {DONE}

    # ------------------------------------------------------------------ its life

    def test_pause_resume_cancel(self, b: Bench) -> None:
        """A paused one does nothing and is due for nobody; a cancelled one leaves the rest; what is over stays over."""
        jobs = dead(b, 3)
        asked = b.operate("retry", tenant="a")
        b.advance(asked, limit=1)
        assert b.steer(asked, PAUSED).state is PAUSED
        assert b.store.operations_due_ms() is None
        with b.unchanged():
            assert b.advance() is None
            assert b.advance(asked) is None
            assert b.steer(asked, PAUSED).state is PAUSED
        assert b.steer(asked, RUNNING).state is RUNNING
        b.advance(limit=1)
        record = b.steer(asked, CANCELLED)
        assert (record.done, record.ended_at_ms, record.state) == (2, b.now_ms, CANCELLED)
        assert b.advance(asked) is None
        assert b.state(jobs[2]) is State.DEAD
        for state in (RUNNING, PAUSED):
            with b.refused(IllegalMove, "cancelled"):
                b.steer(asked, state)
        other = b.operate("cancel", tenant="a")
        with b.refused(IllegalMove):
            b.steer(other, DONE)

    def test_unknown_operation(self, b: Bench) -> None:
        """It is told apart from one that is over."""
        assert b.store.operation(job_id(b.now_ms)) is None
        with b.refused(OperationNotFound):
            b.steer(job_id(b.now_ms), CANCELLED)
        with b.refused(OperationNotFound):
            b.advance(job_id(b.now_ms))

    def test_record_says_what_was_asked(self, b: Bench) -> None:
        """The plan, who, why and when are kept, and the newest operation is shown first."""
        dead(b, 2)
        first = b.operate("retry", tenant="a", rate=2.5, limit=7)
        b.clock.advance(seconds=1)
        second = b.operate("discard", states=(State.DEAD,), task="t")
        told = b.operation(first)
        which = JobFilter(states=(State.DEAD,), tenant="a")
        assert told.plan == OperationPlan(action="retry", which=which, rate=2.5, limit=7)
        assert (told.by, told.reason, told.total, told.more, told.ended_at_ms) == ("ops", "why", 2, False, None)
        assert told.created_at_ms == b.now_ms - 1_000
        assert [one.id for one in b.store.operations(limit=9)] == [second, first]
        assert [one.id for one in b.store.operations(limit=1)] == [second]

    def test_second_store_goes_on(self, b: Bench) -> None:
        """How far it is stands in the database; a store that is opened anew starts where the last one ended."""
        if not b.shared():
            pytest.skip("a store in memory ends with its object")
        dead(b, 6)
        asked = b.operate("retry", tenant="a")
        b.advance(asked, limit=2)
        b.reopen()
        record = b.finish(asked)
        assert (record.done, record.refused) == (6, 0)

    def test_old_operations_are_forgotten(self, b: Bench) -> None:
        """A thousand are kept; one that is under way is kept however old."""
        under_way = b.operate("retry", tenant="a", rate=0.001)
        b.steer(under_way, PAUSED)
        over = b.operate("retry", tenant="b")
        b.finish(over)
        for _ in range(1_000):
            b.clock.advance(ms=1)
            b.operate("retry", tenant="b")
        assert b.store.operation(over) is None
        assert b.operation(under_way).state is PAUSED

    # ------------------------------------------------------------------ plans

    @pytest.mark.parametrize(
        "wrong",
        [
            {"action": "explode"}, {"rate": 0.0}, {"rate": -1.0}, {"rate": float("nan")}, {"limit": 0}, {"limit": True},
            {"action": "boost"}, {"action": "boost", "tier": 7}, {"action": "cancel", "tier": 1},
            {"action": "reverify", "tier": 1}, {"action": "reverify", "which": JobFilter(states=(State.RUNNING,))},
        ],
    )  # fmt: skip
    def test_wrong_plan(self, wrong: dict[str, Any]) -> None:
        """A plan checks itself before anything is stored."""
        with pytest.raises(InvalidValue):
            replace(OperationPlan(action="retry", which=JobFilter()), **wrong).checked()

    def test_second_program_sees_replayed_jobs(self, open_bench: OpenBench) -> None:
        """Every process's view of what is available follows."""
        b = open_bench()
        if not b.shared():
            pytest.skip("a store in memory has one program")
        other = open_bench()
        dead(b, 3)
        assert other.claim(3) == []
        b.finish(b.operate("retry", tenant="a"))
        assert len(other.claim(3)) == 3
