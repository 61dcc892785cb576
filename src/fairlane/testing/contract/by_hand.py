"""What people may do with a job, in every state and phase: process, verify again, retry, expedite, boost, cancel."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from fairlane.domain.jobs import Phase
from fairlane.domain.lanes import LaneKey
from fairlane.domain.policy import Capacities
from fairlane.domain.retries import Retry
from fairlane.domain.states import MOVES, State
from fairlane.errors import DedupConflict, ExpressFull, IllegalMove, JobNotFound
from fairlane.testing.contract.base import Contract, OpenBench
from fairlane.testing.contract.bench import Bench, job_id
from fairlane.testing.contract.verify import (
    TERMS,
    check,
    fill_express,
    hand,
    handed,
    handed_back,
    pend,
    process,
    reject,
    reverify,
    timed_out,
)


@dataclass(frozen=True)
class Stand:
    """A state in a phase, and how a job comes into it."""

    state: State
    phase: Phase
    make: Callable[[Bench], bytes]


def _due(b: Bench) -> bytes:
    job = handed(b)
    b.clock.advance(ms=TERMS.every_ms)
    b.write(lambda store, now_ms: store.notice(now_ms))
    return job


def _checking(b: Bench) -> bytes:
    job = handed(b)
    check(b)
    return job


def _verified(b: Bench) -> bytes:
    job = handed(b)
    b.done(check(b))
    return job


def _given_up(b: Bench) -> bytes:
    job = handed(b)
    b.cancel(job)
    return job


def _running(b: Bench) -> bytes:
    job = b.put()
    b.take()
    return job


def _done(b: Bench) -> bytes:
    job = b.put()
    b.done(b.take())
    return job


def _dead(b: Bench) -> bytes:
    job = b.put()
    b.die(b.take())
    return job


def _cancelled(b: Bench) -> bytes:
    job = b.put()
    b.cancel(job)
    return job


STANDS: Final[tuple[Stand, ...]] = (
    Stand(State.SCHEDULED, "process", lambda b: b.put(delay_ms=60_000)),
    Stand(State.AVAILABLE, "process", lambda b: b.put()),
    Stand(State.RUNNING, "process", _running),
    Stand(State.COMPLETED, "process", _done),
    Stand(State.DEAD, "process", _dead),
    Stand(State.CANCELLED, "process", _cancelled),
    Stand(State.SCHEDULED, "verify", handed),
    Stand(State.AVAILABLE, "verify", _due),
    Stand(State.RUNNING, "verify", _checking),
    Stand(State.COMPLETED, "verify", _verified),
    Stand(State.DEAD, "verify", timed_out),
    Stand(State.CANCELLED, "verify", _given_up),
)


@dataclass(frozen=True)
class Action:
    """Something that people do: the move that it makes, the call, and the phases in which it is allowed, by state."""

    move: str
    act: Callable[[Bench, bytes], object]
    phases: Callable[[State], tuple[Phase, ...]] = lambda _: ("process", "verify")


ACTIONS: Final[dict[str, Action]] = {
    "process": Action(
        "be processed", process, lambda state: ("process", "verify") if state is State.DEAD else ("process",)
    ),
    "reverify": Action("be checked", reverify, lambda _: ("verify",)),
    "retry": Action("be retried", lambda b, job: b.retry(job)),
    "expedite": Action("be expedited", lambda b, job: b.expedite(job)),
    "boost": Action("change tier", lambda b, job: b.boost(job, 0)),
    "cancel": Action("be cancelled", lambda b, job: b.cancel(job)),
}


class ByHandContract(Contract):
    """T-M3, T-M6, T-M8, T-M9, T-M17, T-M18, F4, F15."""

    @pytest.mark.parametrize("stand", STANDS, ids=lambda stand: f"{stand.state.label}-{stand.phase}")
    @pytest.mark.parametrize("name", ACTIONS)
    def test_every_action_in_every_state_and_phase(self, b: Bench, stand: Stand, name: str) -> None:
        """T-M8, T-M9, T-M17, T-M18, F15: what the table does not allow is refused and changes no row."""
        action = ACTIONS[name]
        job = stand.make(b)
        assert (b.state(job), b.job(job).phase) == (stand.state, stand.phase)
        allowed, target = MOVES[action.move]
        if stand.state not in allowed or stand.phase not in action.phases(stand.state):
            with b.refused(IllegalMove):
                action.act(b, job)
            return
        action.act(b, job)
        stays = target is None or (stand.state is State.RUNNING and target is State.CANCELLED)
        assert b.state(job) is (stand.state if stays else target)
        if target is State.AVAILABLE:
            assert b.start() == [job]

    @pytest.mark.parametrize("act", [process, reverify])
    def test_phase_of_an_unknown_job(self, b: Bench, act: Callable[[Bench, bytes], None]) -> None:
        """T-M6: an id that no job has."""
        with b.refused(JobNotFound):
            act(b, job_id(b.now_ms))

    def test_retry_of_a_job_that_died_in_its_verify_phase(self, b: Bench) -> None:
        """T-M17: it is processed again, at its old place, with its counts at zero and its history kept."""
        job = b.put(tier=3, queue="gpu")
        hand(b, b.take())
        pend(b, check(b), failed="one")
        b.save(claim := check(b), checkpoint='{"at":1}')
        reject(b, claim, Retry(max_attempts=1))
        arrival_ms = b.job(job).arrival_ms
        b.retry(job)
        record = b.job(job)
        assert (record.state, record.phase, record.lane) == (State.AVAILABLE, "process", LaneKey("gpu", "t", "a", 3))
        assert (record.failures, record.crashes, record.checks, record.checkpoint) == (0, 0, 0, None)
        assert (record.arrival_ms, record.reason, record.finished_at_ms) == (arrival_ms, None, None)
        assert [error.message for error in record.errors] == ["one", "bad proof"]
        hand(b, b.take())
        assert b.job(job).lane == LaneKey("checks", "t:verify", "a", 1)

    def test_reverify_of_a_job_whose_checks_were_used_up(self, b: Bench) -> None:
        """T-M18: it has all its checks again, at once; its attempts, its reference and its history stay."""
        job = b.put()
        b.fail(b.take())
        hand(b, b.take())
        for _ in range(TERMS.max_checks):
            pend(b, check(b))
        reverify(b, job)
        record = b.job(job)
        assert (record.state, record.phase, record.checks, record.failures) == (State.AVAILABLE, "verify", 0, 1)
        assert (record.reference, record.reason, len(record.errors)) == ('"ref"', None, 1)
        claim = b.take()
        assert claim.attempt == 2
        b.done(claim)
        assert b.state(job) is State.COMPLETED

    def test_process_and_reverify_do_not_wait_for_the_time(self, b: Bench) -> None:
        """T-M9: asked for by hand, a delayed job and a check that is not due run now; asked twice, once."""
        job, checked = b.put(delay_ms=60_000), handed(b)
        b.clock.advance(seconds=1)
        for _ in range(2):
            process(b, job)
            reverify(b, checked)
        assert b.job(job).available_at_ms == b.job(checked).available_at_ms == b.now_ms
        assert {claim.id for claim in b.claim(9)} == {job, checked}

    @pytest.mark.parametrize("expedite", [False, True])
    def test_an_express_place_is_kept(self, b: Bench, expedite: bool) -> None:
        """Asking again does not send an express job to the back of its lane, nor out of it."""
        first, second = b.put(express=True), b.put(express=True)
        process(b, first, expedite=expedite)
        assert b.start(2) == [first, second]

    @pytest.mark.parametrize("act", [process, reverify])
    @pytest.mark.parametrize("dead", [False, True])
    def test_full_lane_changes_nothing(self, open_bench: OpenBench, act: Callable[..., None], dead: bool) -> None:
        """T-M3, F4: a job that finds the express lane full is byte for byte as before, and can be tried again."""
        b = open_bench(capacities=Capacities(express_capacity=2, express_per_tenant=2))
        make = {(process, True): _dead, (process, False): handed_back, (reverify, True): timed_out}
        job = make.get((act, dead), handed)(b)
        fill_express(b, "process" if act is process else "verify", 2)
        with b.refused(ExpressFull) as caught:
            act(b, job, expedite=True)
        assert (caught.value.current, caught.value.maximum) == (2, 2)
        b.take()
        act(b, job, expedite=True)
        assert (b.state(job), b.job(job).express is not None) == (State.AVAILABLE, True)

    @pytest.mark.parametrize("act", [process, reverify])
    def test_dead_job_whose_key_is_taken(self, b: Bench, act: Callable[[Bench, bytes], None]) -> None:
        """At most one live job a key: neither call brings a second one to life."""
        job = timed_out(b, dedup_key="k")
        b.put(dedup_key="k")
        with b.refused(DedupConflict):
            act(b, job)
