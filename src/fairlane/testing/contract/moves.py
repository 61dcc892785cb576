"""What people do to jobs: every move in every state, boosts, cancels, retries by hand, clear."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlane.domain.jobs import JobFilter
from fairlane.domain.states import MOVES, State
from fairlane.errors import IllegalMove, JobNotFound
from fairlane.store import Boosted
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench, job_id

ACTIONS: dict[str, tuple[str, Callable[[Bench, bytes], object]]] = {
    # action: (the move it makes, the call)
    "expedite": ("be expedited", lambda b, job: b.expedite(job)),
    "boost": ("change tier", lambda b, job: b.boost(job, 0)),
    "set tier": ("change tier", lambda b, job: b.boost(job, 4, lower=True)),
    "cancel": ("be cancelled", lambda b, job: b.cancel(job)),
    "retry": ("be retried", lambda b, job: b.retry(job)),
}


def job_in(b: Bench, state: State) -> bytes:
    """Return a job that has come into a state the usual way."""
    job = b.put(delay_ms=60_000 if state is State.SCHEDULED else 0)
    if state is State.CANCELLED:
        b.cancel(job)
    elif state > State.AVAILABLE:
        claim = b.take()
        if state is State.COMPLETED:
            b.done(claim)
        elif state is State.DEAD:
            b.die(claim)
    assert b.state(job) is state
    return job


class MovesContract(Contract):
    """T-C2, T-M8, T-M17, T-M18, T-O4, T-O5, B22, F11, F15."""

    # ------------------------------------------------------------------ the table

    @pytest.mark.parametrize("state", list(State), ids=lambda state: state.label)
    @pytest.mark.parametrize("action", ACTIONS)
    def test_every_move_in_every_state(self, b: Bench, state: State, action: str) -> None:
        """T-M8: the table decides; what it does not allow is refused and changes no row."""
        job = job_in(b, state)
        move, act = ACTIONS[action]
        allowed, target = MOVES[move]
        if state not in allowed:
            with b.refused(IllegalMove) as caught:
                act(b, job)
            assert caught.value.state == state.label
            return
        act(b, job)
        stays = target is None or (state is State.RUNNING and target is State.CANCELLED)
        assert b.state(job) is (state if stays else target)

    @pytest.mark.parametrize("action", ACTIONS)
    def test_unknown_job(self, b: Bench, action: str) -> None:
        """T-M6: an id that no job has is told apart from a job in the wrong state."""
        with b.refused(JobNotFound):
            ACTIONS[action][1](b, job_id(b.now_ms))

    @pytest.mark.parametrize("state", [state for state in State if not state.waiting and state is not State.RUNNING])
    def test_ended_job_never_starts(self, b: Bench, state: State) -> None:
        """F15: what has ended stays ended, for claims, rescues and time."""
        job = job_in(b, state)
        b.clock.advance(seconds=10**6)
        assert b.claim(5) == []
        assert b.rescue() == 0
        assert b.state(job) is state

    # ------------------------------------------------------------------ boost

    def test_boost_tells_what_it_did(self, b: Bench) -> None:
        """T-O5: boosted; or not higher, which changes nothing."""
        job = b.put(tier=3)
        assert b.boost(job, 1) == Boosted("boosted", 1)
        for tier in (1, 2, 4):
            with b.unchanged():
                assert b.boost(job, tier) == Boosted("not_higher", 1)

    def test_boosted_job_keeps_its_arrival(self, b: Bench) -> None:
        """T-B5, 2.1 no. 11: an old boosted job stands before younger ones of its new tier, in both directions."""
        old = b.put(tier=4)
        b.clock.advance(seconds=5)
        critical = [b.put(tier=0) for _ in range(3)]
        arrival_ms = b.job(old).arrival_ms
        b.boost(old, 0)
        assert b.job(old).arrival_ms == arrival_ms
        assert b.drain() == [old, *critical]

    def test_tier_can_be_lowered_by_its_own_verb(self, b: Bench) -> None:
        """Lowering needs to be asked for; the arrival stays."""
        first, second = b.put(tier=0), b.put(tier=2)
        assert b.boost(first, 2, lower=True).tier == 2
        assert b.drain() == [first, second]
        third, fourth = b.put(tier=0), b.put(tier=2)
        b.boost(third, 4, lower=True)
        assert b.drain() == [fourth, third]

    def test_boost_of_a_scheduled_job_waits_for_its_time(self, b: Bench) -> None:
        """A boost changes the tier, not the time."""
        job = b.put(tier=4, delay_ms=5_000)
        assert b.boost(job, 0) == Boosted("boosted", 0)
        assert b.claim() == []
        b.clock.advance(seconds=5)
        other = b.put(tier=1)
        assert b.drain() == [job, other]

    def test_boost_leaves_one_job(self, b: Bench) -> None:
        """2.1 no. 2: a boosted job runs once, at its new tier, and leaves nothing behind at the old one."""
        boosted, other = b.put(tier=4), b.put(tier=3)
        b.boost(boosted, 0)
        assert b.drain() == [boosted, other]
        again = b.put(tier=4)
        low = b.put(tier=3)
        assert b.drain() == [low, again]

    def test_boost_of_an_express_job_keeps_it_in_the_lane(self, b: Bench) -> None:
        """A boost does not take an express place away."""
        other, job = b.put(express=True), b.put(tier=4, express=True)
        critical = b.put(tier=0)
        b.boost(job, 1)
        assert b.drain() == [other, job, critical]

    # ------------------------------------------------------------------ cancel

    @pytest.mark.parametrize("delay_ms", [0, 60_000])
    def test_cancelled_waiting_job_never_runs(self, b: Bench, delay_ms: int) -> None:
        """A waiting job is cancelled at once, with the reason; a second cancel is told so."""
        job = b.put(delay_ms=delay_ms)
        assert b.cancel(job, reason="typo") is State.CANCELLED
        b.clock.advance(seconds=61)
        assert b.claim() == []
        assert (b.state(job), b.job(job).reason) == (State.CANCELLED, "typo")
        with b.refused(IllegalMove):
            b.cancel(job)

    def test_cancelled_retry_never_runs(self, b: Bench) -> None:
        """B22: a job that waits for its retry can be cancelled."""
        job = b.put()
        b.fail(b.take(), delay_ms=1_000)
        assert b.cancel(job) is State.CANCELLED
        b.clock.advance(seconds=2)
        assert b.claim() == []

    def test_running_job_is_asked_to_stop(self, b: Bench) -> None:
        """B22: its holder learns of it by heartbeat and ends it; asking twice is fine; its slot is free after."""
        b.rule("queue", "q", max_running=1)
        job, other = b.put(), b.put()
        claim = b.take()
        assert b.beat(claim) == "ok"
        assert [b.cancel(job), b.cancel(job)] == [State.RUNNING] * 2
        assert b.beat(claim) == "cancel"
        assert b.settle(claim, "cancelled", reason="asked to stop")
        assert b.state(job) is State.CANCELLED
        assert b.start() == [other]

    def test_job_that_completes_before_it_stops_is_completed(self, b: Bench) -> None:
        """B22: the ack was first."""
        job = b.put()
        claim = b.take()
        b.cancel(job)
        assert b.done(claim, result="1")
        assert (b.state(job), b.job(job).result) == (State.COMPLETED, "1")

    @pytest.mark.parametrize("way", ["fail", "snooze", "release", "crash"])
    def test_job_that_was_asked_to_stop_does_not_come_back(self, b: Bench, way: str) -> None:
        """B22: however a cancelled run ends short of success, the job is cancelled and not run again."""
        job = b.put()
        claim = b.take()
        b.cancel(job)
        {"fail": b.fail, "snooze": b.snooze, "release": b.release, "crash": b.crash}[way](claim)
        b.clock.advance(seconds=10)
        assert b.drain() == []
        assert b.state(job) is State.CANCELLED

    def test_cancel_of_an_unknown_id_is_forgotten(self, b: Bench) -> None:
        """B22: it does not lie in wait for the next job of that id."""
        unknown = job_id(b.now_ms)
        with b.refused(JobNotFound):
            b.cancel(unknown)
        assert b.put(id=unknown) == unknown
        assert b.drain() == [unknown]

    # ------------------------------------------------------------------ retry by hand

    def test_dead_letter_keeps_everything(self, b: Bench) -> None:
        """T-M16, T-M19: arguments, place, tags, key, trace, checkpoint, and the history of its runs."""
        job = b.put(args='{"n":1}', tier=1, tags=("x",), dedup_key="k", trace="00-1")
        before = b.job(job)
        b.fail(b.take(), message="one")
        claim = b.take()
        b.save(claim, progress='"half"', checkpoint='{"at":7}')
        b.die(claim, message="two")
        dead = b.job(job)
        for field in ("args", "tier", "tags", "dedup_key", "trace", "task", "queue", "tenant", "arrival_ms", "seq"):
            assert getattr(dead, field) == getattr(before, field), field
        assert (dead.failures, dead.checkpoint, dead.progress) == (2, '{"at":7}', '"half"')
        assert [error.message for error in dead.errors] == ["one", "two"]

    def test_retry_resets_counts_and_keeps_history(self, b: Bench) -> None:
        """Section 5: the job is available at its old place, has all its attempts, and remembers its runs."""
        job = b.put()
        b.crash(b.take())
        b.fail(b.take(), message="one")
        b.die(b.take(), message="two")
        arrival_ms = b.job(job).arrival_ms
        b.clock.advance(seconds=5)
        younger = b.put()
        b.retry(job)
        record = b.job(job)
        assert (record.state, record.failures, record.crashes, record.arrival_ms) == (
            State.AVAILABLE,
            0,
            0,
            arrival_ms,
        )
        assert [error.message for error in record.errors] == ["", "one", "two"]
        assert (record.finished_at_ms, record.reason) == (None, None)
        assert b.drain() == [job, younger]

    def test_retry_does_not_bring_the_express_place_back(self, b: Bench) -> None:
        """Section 4: express ends with the phase; a dead job comes back as an ordinary one."""
        job = b.put(express=True)
        b.die(b.take())
        b.retry(job)
        assert b.job(job).express is None

    # ------------------------------------------------------------------ clear

    def test_clear_cancels_what_waits_and_counts_it(self, b: Bench) -> None:
        """T-O4, 2.1 no. 7: waiting jobs are cancelled for good, running and other ones are left alone."""
        b.put()
        claim = b.take()
        waiting = [b.put(), b.put(delay_ms=5_000), b.put(express=True)]
        other = b.put(queue="q2")
        assert b.clear(queue="q") == 3
        assert [(b.state(job), b.job(job).reason) for job in waiting] == [(State.CANCELLED, "cleared")] * 3
        b.clock.advance(seconds=10)
        assert b.drain() == [other]
        assert b.done(claim)
        with b.unchanged():
            assert b.clear(queue="q") == 0

    def test_clear_is_bounded(self, b: Bench) -> None:
        """A pass cancels no more than asked."""
        b.fill({"a": 5})
        assert [b.clear(limit=2) for _ in range(4)] == [2, 2, 1, 0]

    def test_clear_goes_on_where_it_was(self, b: Bench) -> None:
        """Each portion looks at a bounded number of jobs, wherever the ones lie that are meant."""
        b.enqueue(*(b.new(tenant="a") for _ in range(7_000)))
        late = [b.put(tenant="b"), b.put(tenant="b")]
        portions: list[int] = []
        place: int | None = 0
        while place is not None:
            after = place
            cleared = b.write(
                lambda store, now_ms: store.clear(
                    JobFilter(tenant="b"),
                    reason="",
                    limit=1,
                    now_ms=now_ms,
                    after=after,  # noqa: B023  called at once
                )
            )
            portions.append(cleared.count)
            place = cleared.place
        assert (portions[0], sum(portions)) == (0, 2)
        assert [b.state(job) for job in late] == [State.CANCELLED] * 2

    @pytest.mark.parametrize(
        "which",
        [{"queue": "x"}, {"task": "x"}, {"tenant": "x"}, {"tier": 0}, {"tag": "x"}, {"states": (State.SCHEDULED,)}],
    )
    def test_clear_takes_a_filter(self, b: Bench, which: dict[str, Any]) -> None:  # Any: JobFilter's fields
        """Only what matches is cancelled."""
        match = b.put("x", "x", "x", tier=0, tags=("x", "y"), delay_ms=1_000)
        other = b.put()
        assert b.clear(**which) == 1
        assert (b.state(match), b.state(other)) == (State.CANCELLED, State.AVAILABLE)

    def test_clear_frees_the_express_lane(self, b: Bench) -> None:
        """Cleared express jobs no longer take up room."""
        for _ in range(5):
            b.put(express=True)
        b.clear()
        job = b.put(express=True)
        assert b.start() == [job]
