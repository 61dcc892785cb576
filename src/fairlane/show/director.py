"""What happens on the way of a demo: a flood, urgent jobs, a kill, what follows from it, an expedited job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from fairlane.domain.tiers import Tier
from fairlane.errors import FairlaneError
from fairlane.show.board import Board
from fairlane.show.feed import Feed
from fairlane.show.play import Play
from fairlane.show.scenario import FLOOD_AT, FLOOD_FOR, HEAVY, KILL_AT, RUSH_AT, RUSH_FOR
from fairlane.show.screen import Screen
from fairlane.show.stage import Hand, Stage
from fairlane.simulate.labels import counted, duration

REPLACED_AFTER_S: Final = 1.5
AT_STAKE: Final = 3
"""A worker is killed as soon as it has so many jobs in flight."""
PATIENCE: Final = 0.3
"""Part of the time for jobs to come after which it is killed anyway."""
EXPEDITE_AT: Final = 0.6

Act = Callable[[float], bool]


class Director:
    """What happens on the way: flood, rush, kill, rescue, an expedited job. Each act says whether it is over.

    Attributes:
        killed: The worker that was killed, or None.
        back_after_s: Time from the kill until the last of its jobs ran again; None before.
    """

    def __init__(self, stage: Stage, feed: Feed, play: Play, screen: Screen, *, seconds: float, slots: int) -> None:
        self._stage = stage
        self._feed = feed
        self._play = play
        self._screen = screen
        self._seconds = seconds
        self._slots = slots
        self._board: Board = play.board
        self._acts: list[Act] = [self._flood, self._rush, self._kill, self._express, self._expedite, self._last]
        self._in_flight: list[int] = []
        self._replaced: Hand | None = None
        self.killed: Hand | None = None
        self.back_after_s: float | None = None

    def tick(self, now_s: float) -> None:
        """Do what is due."""
        for act in tuple(self._acts):
            if act(now_s):
                self._acts.remove(act)

    def _say(self, text: str, style: str = "", *, at_s: float | None = None) -> None:
        self._screen.event(self._play.now_s if at_s is None else at_s, text, style)

    # ------------------------------------------------------------------ the flood

    def _flood(self, now_s: float) -> bool:
        if now_s < self._seconds * FLOOD_AT:
            return False
        if HEAVY in self._board.tenants:
            count = counted(self._board.tenants[HEAVY].total, "job")
            self._say(f"the flood begins: {HEAVY} submits {count} in {self._seconds * FLOOD_FOR:.1f} s", "bold magenta")
            self._acts.append(self._flooded)
        return True

    def _flooded(self, now_s: float) -> bool:
        if now_s < self._seconds * (FLOOD_AT + FLOOD_FOR):
            return False
        own = self._board.tenants[HEAVY].waiting
        others = self._board.all.waiting - own
        self._say(f"the flood is in: {own:,} of {HEAVY}'s jobs wait, {others:,} of the others'")
        return True

    # ------------------------------------------------------------------ urgent jobs

    def _rush(self, now_s: float) -> bool:
        if now_s < self._seconds * RUSH_AT:
            return False
        low, high = self._seconds * RUSH_AT, self._seconds * (RUSH_AT + RUSH_FOR)
        rush = [
            number
            for number, piece in enumerate(self._board.pieces)
            if piece.tier == Tier.CRITICAL and low <= piece.due_s <= high
        ]
        if rush:
            waiting = self._board.all.waiting
            self._say(
                f"a rush: {counted(len(rush), 'CRITICAL job')} in {self._seconds * RUSH_FOR:.1f} s; "
                f"{waiting:,} others wait",
                "bold red",
            )
            self._acts.append(lambda _: self._rushed(rush))
        return True

    def _rushed(self, rush: list[int]) -> bool:
        if not all(self._board.runs[number] for number in rush):
            return False
        longest_s = max(
            self._board.runs[number][0].started_s - self._board.start_s - self._board.pieces[number].due_s
            for number in rush
        )
        self._say(f"all {len(rush)} of them have started; the longest wait was {duration(longest_s)}", "red")
        return True

    def _express(self, now_s: float) -> bool:
        express = [piece for piece in self._board.pieces if piece.express]
        if express and now_s < express[0].due_s:
            return False
        if express:
            span_s = express[-1].due_s - express[0].due_s
            self._say(
                f"{counted(len(express), 'LOW or BACKGROUND job')} of small tenants "
                f"come{'s' * (len(express) == 1)} express, within {span_s:.1f} s",
                "bold cyan",
            )
        return True

    def _expedite(self, now_s: float) -> bool:
        if now_s < self._seconds * EXPEDITE_AT:
            return False
        number = self._board.newest_waiting(HEAVY, Tier.BACKGROUND)
        if number is None:
            return True
        before = self._board.tenants[HEAVY].waiting - 1
        at_s = self._play.now_s
        try:
            self._stage.app.expedite(self._job_id(number), reason="the demo's operator")
        except FairlaneError as error:
            self._say(f"expedite was refused: {error}")
            return True
        self._board.expedited(number, at_s + self._board.start_s)
        self._say(
            f"an operator expedites {HEAVY}'s last BACKGROUND job; {before:,} were before it", "bold cyan", at_s=at_s
        )
        self._acts.append(lambda _: self._expedited(number, at_s))
        return True

    def _job_id(self, number: int) -> str:
        return str(UUID(bytes=self._feed.jobs[number].id))

    def _expedited(self, number: int, at_s: float) -> bool:
        runs = self._board.runs[number]
        if runs:
            wait_s = max(0.0, runs[0].started_s - self._board.start_s - at_s)
            self._say(f"it started after {duration(wait_s)}", "cyan")
        return bool(runs)

    # ------------------------------------------------------------------ the kill

    def _kill(self, now_s: float) -> bool:
        if now_s < self._seconds * KILL_AT:
            return False
        busiest = max(self._stage.alive, key=self._running)
        if self._running(busiest) < AT_STAKE and now_s < self._seconds * (KILL_AT + PATIENCE):
            return False
        self.kill(busiest)
        self._say(
            f"worker {busiest.number} killed with SIGKILL, {counted(len(self._in_flight), 'job')} in flight",
            "bold white on red",
        )
        self._acts += [self._replace] + [self._back] * bool(self._in_flight)
        return True

    def kill(self, hand: Hand) -> None:
        """Kill a worker, and see what it had in flight."""
        self._stage.kill(hand)
        self._play.look()  # the last that it wrote
        self._in_flight = self._board.killed(hand.pid)
        self.killed = hand

    def _running(self, hand: Hand) -> int:
        tally = self._board.hands.get(hand.pid)
        return 0 if tally is None else tally.running

    def _killed_s(self) -> float:
        assert self.killed is not None
        assert self.killed.killed_s is not None
        return self.killed.killed_s - self._board.start_s

    def _back(self, now_s: float) -> bool:
        del now_s
        again = [self._board.runs[number] for number in self._in_flight]
        if any(len(runs) == 1 for runs in again):
            return False
        last_s = max(runs[1].started_s for runs in again) - self._board.start_s
        self.back_after_s = last_s - self._killed_s()
        self._say(
            f"its {counted(len(again), 'job')} run{'s' * (len(again) == 1)} again on other workers, "
            f"{self.back_after_s:.1f} s after the kill",
            "green",
        )
        return True

    def _replace(self, now_s: float) -> bool:
        if self._replaced is None and now_s >= self._killed_s() + REPLACED_AFTER_S:
            self._replaced = self._stage.start(self._slots)
        if self._replaced is None or self._stage.ready() < len(self._stage.alive):
            return False
        self._say(f"worker {self._replaced.number} takes its place")
        return True

    def _last(self, now_s: float) -> bool:
        if now_s < self._seconds or not self._feed.finished.is_set():
            return False
        everybody = self._board.all
        self._say(f"the last job has come; {everybody.waiting:,} wait and {everybody.running:,} run")
        return True
