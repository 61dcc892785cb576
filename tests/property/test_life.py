"""The life of jobs at random, through three programs on one file: what holds whatever is done to them, in any order.

Tasks with one phase and two, keys, order, groups, express, expiry, schedules, operations on many, retention, lapsed
leases, backups and restores. Each program steers and claims. After every few steps the store's books must be right; a
claim must start what another program, which loads the state anew, says that it would; a refused call must change
nothing; and in the end every job must have ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, get_args
from uuid import UUID

import pytest

import fairlane as fl
from fairlane.domain.operations import Action
from fairlane.domain.states import State
from fairlane.domain.tiers import Tier
from fairlane.maintenance import Retention, operate, preempt, prune
from fairlane.pulled import PulledClaim
from fairlane.testing import ManualClock
from fairlane.testing.invariants import all_jobs, book_faults

STEPS: Final = 150
LATEST: Final = 60
"""Jobs that are steered: older ones have mostly ended."""
REFUSED: Final = (
    fl.IllegalMove, fl.JobNotFound, fl.DedupConflict, fl.ExpressFull, fl.LeaseLost, fl.OperationNotFound,
)  # fmt: skip


def code(app: fl.Fairlane) -> list[fl.Task[..., Any]]:
    """Give a program its tasks."""

    @app.task(queue="gpu", retry=fl.Retry(max_attempts=2, base=5, jitter=0, max_crashes=1))
    def prove(n: int = 0) -> str: ...

    @prove.verify(every=10, max_checks=3)
    def check(reference: str) -> fl.Pending: ...

    @app.task(queue="gpu", preemptible=True)
    def render(n: int = 0) -> str: ...

    @render.verify(every=5, max_checks=2, queue="checks", tier="high")
    def look(reference: str) -> fl.Pending: ...

    @app.task(retry=fl.Retry(max_attempts=2, base=3, jitter=0))
    def plain(n: int = 0) -> int: ...

    return [prove, render, plain]


class Life:
    """Three programs, the jobs they made, the claims they hold."""

    def __init__(self, folder: Path, rng: random.Random, stack: ExitStack) -> None:
        self.rng, self.clock, self.folder = rng, ManualClock(), folder
        url = f"sqlite:///{folder / 'jobs.db'}"
        self.apps = [stack.enter_context(fl.Fairlane(url, clock=self.clock, durability="normal")) for _ in range(3)]
        self.tasks = [code(app) for app in self.apps]
        self.apps[0].configure(express_capacity=4)
        self.ids: list[UUID] = []
        self.claims: list[PulledClaim] = []
        self.restored = False

    @property
    def app(self) -> fl.Fairlane:
        """One of the programs."""
        return self.rng.choice(self.apps)

    # ------------------------------------------------------------------ what may happen

    def enqueue(self) -> None:
        """Store a job, or a group of three."""
        rng = self.rng
        options: dict[str, Any] = {  # Any: each option has its own type
            "tenant": rng.choice("abc"),
            "tier": rng.choice(["critical", "normal", "low"]),
            "delay": rng.choice([0, 0, 0, 1, 15]),
            "expires_in": rng.choice([None, None, 20, 40]),
            "expedite": rng.random() < 0.15,
        }
        which = rng.randrange(3)
        task = self.tasks[which][rng.randrange(3)]
        if self.ids and rng.random() < 0.4:
            latest = self.ids[-20:]
            options |= {
                "after": rng.sample(latest, min(len(latest), rng.randint(1, 3))),
                "on_failure": rng.choice(["cancel", "run"]),
            }
        if rng.random() < 0.15:
            group = self.apps[which].group(task.using(**options).new(number) for number in range(3))
            self.ids += [job.id for job in group]
            return
        if rng.random() < 0.5:
            modes = ["return", "raise", "successor"] + (["replace"] if "after" not in options else [])
            options |= {"dedup_key": rng.choice("kl"), "on_conflict": rng.choice(modes)}
            options |= {"dedup_ttl": rng.choice([None, None, 1, 20])}
        job = task.using(**options).enqueue(rng.randrange(9))
        if job.created:
            self.ids.append(job.id)

    def claim(self) -> None:
        """Start a job, and compare with what another program sees that loads the state anew."""
        first, second, third = self.rng.sample(self.apps, 3)
        queue = self.rng.choice([None, "gpu", "default", "checks"])
        third.rescue()
        for _ in range(2):  # a look ahead tells no followers and no timers
            assert third.claim(queues=["nobody"]) is None
        expected = [job.id for job in second.peek(queue=queue, limit=1)]
        claim = first.claim(queues=None if queue is None else [queue], lease=self.rng.choice([5, 1_000]))
        assert ([] if claim is None else [claim.id]) == expected
        if claim is not None:
            self.claims.append(claim)

    def settle(self) -> None:
        """End a run, or say something about it; its lease may have lapsed."""
        if not self.claims:
            return
        claim = self.claims.pop(self.rng.randrange(len(self.claims)))
        ways: list[Callable[[], object]] = [
            lambda: claim.ack("reference"),
            lambda: claim.nack(ValueError("x"), retry_in=self.rng.choice([None, 0, 5])),
            lambda: claim.dead(ValueError("y")),
            lambda: claim.snooze(self.rng.choice([0, 8])),
            claim.cancelled,
            lambda: claim.release(preempted=self.rng.random() < 0.5),
            lambda: self._go_on(claim, claim.heartbeat),
            lambda: self._go_on(claim, lambda: claim.save({"at": 1})),
        ]
        if claim.phase == "verify":
            ways += [claim.pending, lambda: claim.reject("no")] * 2
        self.rng.choice(ways)()

    def _go_on(self, claim: PulledClaim, call: Callable[[], object]) -> None:
        call()
        self.claims.append(claim)

    def steer(self) -> None:
        """Do something to one job; refused, it must be as it was."""
        if not self.ids:
            return
        app, job = self.app, self.rng.choice(self.ids[-LATEST:])
        calls: list[Callable[[], object]] = [
            lambda: app.cancel(job),
            lambda: app.retry(job),
            lambda: app.process(job, expedite=self.rng.random() < 0.3),
            lambda: app.reverify(job, expedite=self.rng.random() < 0.3),
            lambda: app.expedite(job),
            lambda: app.boost(job, "critical"),
            lambda: app.set_tier(job, Tier(self.rng.randrange(5))),
        ]
        before = app.owner.read(lambda store, _: all_jobs(store))
        try:
            self.rng.choice(calls)()
        except REFUSED:
            assert app.owner.read(lambda store, _: all_jobs(store)) == before
            raise

    def start_operation(self) -> None:
        """Begin to do something to many jobs."""
        rng = self.rng
        action = rng.choice(get_args(Action))
        to = Tier(rng.randrange(5)) if action in {"boost", "set_tier"} else None
        state = (State.RUNNING, State.SCHEDULED) if action == "cancel" and rng.random() < 0.5 else None
        rate, limit = rng.choice([None, 2]), rng.choice([None, 3])
        self.app.bulk(action, tenant=rng.choice("ab"), state=state, to=to, rate=rate, limit=limit)

    def keep_up(self) -> None:
        """Do what workers do beside running jobs, and people now and then."""
        app, rng = self.app, self.rng
        kept = Retention(completed=rng.choice([1, 60]), cancelled=30, dead=60, keep_completed=rng.choice([2, 100]))
        backup = self.folder / "backup.db"
        chores: list[Callable[[], object]] = [
            lambda: operate(app.owner),
            lambda: prune(app.owner, kept),
            app.rescue,
            lambda: preempt(app.owner),
            lambda: app.clear(tenant=rng.choice("ab"), task=rng.choice(["plain", "prove"])),
            lambda: app.backup(backup, overwrite=True),
            app.tasks["prove:verify"].resume,
            app.tasks["prove:verify"].pause,
            self._fire,
        ]
        if backup.exists() and not self.restored:
            chores.append(self._restore)
        rng.choice(chores)()

    def _fire(self) -> None:
        app, rng = self.app, self.rng
        app.schedule("again", "prove", queue="gpu", every=rng.choice([5, 7]), overlap=rng.choice(["skip", "queue"]))
        app.schedules.fire()

    def _restore(self) -> None:
        self.restored = True
        self.app.restore(self.folder / "backup.db")

    def wait(self) -> None:
        """Let time pass."""
        self.clock.advance(seconds=self.rng.choice([0, 1, 5, 11]))

    # ------------------------------------------------------------------ all of it

    def step(self) -> None:
        """Let one of these happen."""
        weights = {
            self.enqueue: 5, self.claim: 6, self.settle: 6, self.steer: 4, self.start_operation: 1, self.keep_up: 3,
            self.wait: 3,
        }  # fmt: skip
        with suppress(*REFUSED):
            self.rng.choices(list(weights), list(weights.values()))[0]()

    def faults(self) -> list[str]:
        """Return what is wrong with the store's books."""
        return self.app.owner.read(book_faults)

    def left(self) -> Iterator[int]:
        """Let everything come to its end; give how many jobs have not, again and again."""
        self.app.tasks["prove:verify"].resume()
        while True:
            self.clock.advance(seconds=20)
            self.app.rescue()
            operate(self.app.owner)
            while (claim := self.app.claim()) is not None:
                claim.ack("done")
            depth = self.app.depth()
            yield depth.scheduled + depth.available + depth.running


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_books_are_right_and_every_job_ends(seed: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        life = Life(tmp_path, random.Random(seed), stack)
        for number in range(STEPS):
            life.step()
            if number % 5 == 0:
                assert life.faults() == []
        assert any(left == 0 for _, left in zip(range(200), life.left(), strict=False))
        assert life.faults() == []
