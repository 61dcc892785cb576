"""What waits, runs and is done, by tier and tenant: from the producer's answers and the oracle log, not the queue."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from fairlane.domain.tiers import TIERS
from fairlane.show.feed import Answer
from fairlane.show.oracle import Attempt, Line
from fairlane.show.scenario import Piece
from fairlane.simulate.report import Run


class Step(IntEnum):
    """How far a job is."""

    TO_COME = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3


@dataclass(slots=True)
class Tally:
    """Jobs by how far they are, and the waits of those that have started, in ascending order."""

    total: int = 0
    waiting: int = 0
    running: int = 0
    done: int = 0
    waits: list[float] = field(default_factory=list[float])

    def move(self, old: Step, new: Step) -> None:
        """Count a job under another step."""
        for step, by in ((old, -1), (new, 1)):
            if step == Step.WAITING:
                self.waiting += by
            elif step == Step.RUNNING:
                self.running += by
            elif step == Step.DONE:
                self.done += by


class Board:
    """Follows the jobs.

    Args:
        pieces: The jobs.
        ids: Their ids, as the log writes them.
        start_s: The instant, by the monotonic clock, that the pieces count from.

    Attributes:
        tiers: By tier.
        tenants: By tenant, the one with most jobs first.
        express: Of the express jobs; their waits run from the instant at which they became express.
        hands: Of each worker, by its process id.
        runs: By job, its runs.
        accepted: The numbers of the jobs whose enqueue has returned.
        refused: The numbers of those that were refused, and the errors.
        late: By how many seconds each enqueue was done after the job's time.
    """

    def __init__(self, pieces: Sequence[Piece], ids: Sequence[str], start_s: float) -> None:
        self.pieces = pieces
        self.ids = ids
        self.start_s = start_s
        self._numbers = {job: number for number, job in enumerate(ids)}
        self._steps = [Step.TO_COME] * len(pieces)
        self._expedited_s: dict[int, float] = {}
        counts = Counter(piece.tier for piece in pieces)
        self.tiers = {tier: Tally(counts[tier]) for tier in TIERS if tier in counts}
        self.tenants = {name: Tally(count) for name, count in Counter(piece.tenant for piece in pieces).most_common()}
        self.express = Tally(sum(1 for piece in pieces if piece.express))
        self.all = Tally(len(pieces))
        self.hands: dict[int, Tally] = {}
        self.runs: list[list[Attempt]] = [[] for _ in pieces]
        self.accepted: list[int] = []
        self.refused: list[tuple[int, Exception]] = []
        self.late: list[float] = []

    # ------------------------------------------------------------------ what happened

    def answered(self, answers: Iterable[Answer]) -> None:
        """Take note of enqueues."""
        for number, at_s, error in answers:
            if error is not None:
                self.refused.append((number, error))
                continue
            self.accepted.append(number)
            insort(self.late, at_s - self.start_s - self.pieces[number].due_s)
            if self._steps[number] == Step.TO_COME:
                self._move(number, Step.WAITING)

    def heard(self, lines: Iterable[Line]) -> None:
        """Take note of what handlers wrote."""
        for line in lines:
            number = self._numbers[line.job]
            if line.what == "start":
                self._started(number, line)
            else:
                self._ended(number, line)

    def _started(self, number: int, line: Line) -> None:
        own = self.runs[number]
        own.append(Attempt(line.attempt, line.pid, line.at_s))
        hand = self.hands.setdefault(line.pid, Tally())
        hand.running += 1
        if len(own) == 1:
            for tally in self._tallies(number):
                insort(tally.waits, self._wait_s(number, line.at_s, express=tally is self.express))
        if self._steps[number] != Step.DONE:
            self._move(number, Step.RUNNING)

    def _ended(self, number: int, line: Line) -> None:
        for run in self.runs[number]:
            if (run.number, run.pid, run.ended_s) == (line.attempt, line.pid, None):
                run.ended_s = line.at_s
                break
        hand = self.hands[line.pid]
        hand.running -= 1
        hand.done += 1
        self._move(number, Step.DONE)

    def killed(self, pid: int) -> list[int]:
        """Take note that a process is gone, and return the numbers of the jobs that it had in flight."""
        in_flight = [
            number for number, own in enumerate(self.runs) if own and own[-1].pid == pid and own[-1].ended_s is None
        ]
        for number in in_flight:
            self._move(number, Step.WAITING)
        if pid in self.hands:
            self.hands[pid].running = 0
        return in_flight

    def expedited(self, number: int, at_s: float) -> None:
        """Take note that a waiting job was put into the express lane."""
        self._expedited_s[number] = at_s
        self.express.total += 1
        self.express.move(Step.TO_COME, self._steps[number])

    def _move(self, number: int, step: Step) -> None:
        old = self._steps[number]
        if old != step:
            self._steps[number] = step
            for tally in self._tallies(number):
                tally.move(old, step)

    def _tallies(self, number: int) -> list[Tally]:
        piece = self.pieces[number]
        own = [self.all, self.tiers[TIERS[piece.tier]], self.tenants[piece.tenant]]
        return [*own, self.express] if piece.express or number in self._expedited_s else own

    # ------------------------------------------------------------------ what it comes to

    def _wait_s(self, number: int, started_s: float, *, express: bool) -> float:
        since_s = self.start_s + self.pieces[number].due_s
        if express:
            since_s = self._expedited_s.get(number, since_s)
        return max(0.0, started_s - since_s)

    def newest_waiting(self, tenant: str, tier: int) -> int | None:
        """Return the number of the job that came last of those that wait, or None."""
        for number in range(len(self.pieces) - 1, -1, -1):
            piece = self.pieces[number]
            if self._steps[number] == Step.WAITING and (piece.tenant, piece.tier, piece.express) == (
                tenant,
                tier,
                False,
            ):
                return number
        return None

    def step(self, number: int) -> Step:
        """Return how far a job is."""
        return self._steps[number]

    @property
    def settled(self) -> bool:
        """Whether every job that was accepted is done."""
        return self.all.done >= len(self.accepted)

    def started(self) -> list[Run]:
        """Return the jobs that have started, as the report takes them."""
        return [
            Run(
                piece.tenant,
                piece.queue,
                piece.tier,
                self._wait_s(number, own[0].started_s, express=False),
                piece.run_s,
            )
            for number, (piece, own) in enumerate(zip(self.pieces, self.runs, strict=True))
            if own
        ]
