"""The oracle log: what handlers wrote, outside of the queue; and what it says about jobs lost and jobs run twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """What a handler wrote: ``what`` is start or end, ``at_s`` the instant by the machine's monotonic clock."""

    job: str
    attempt: int
    pid: int
    what: str
    at_s: float


@dataclass(slots=True)
class Attempt:
    """One run of a job, by the log."""

    number: int
    pid: int
    started_s: float
    ended_s: float | None = None


class Oracle:
    """Reads a log that others are writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def poll(self) -> list[Line]:
        """Return the lines that are new since the last call; a line that is not yet whole comes with the next."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                body = file.read()
        except FileNotFoundError:
            return []
        body = body[: body.rfind(b"\n") + 1]
        self._at += len(body)
        return [_line(text) for text in body.decode().splitlines()]


def _line(text: str) -> Line:
    job, attempt, pid, what, at_s = text.split()
    return Line(job, int(attempt), int(pid), what, float(at_s))


class Twice(NamedTuple):
    """A job that started more than once: its number, its runs, and why."""

    number: int
    runs: Sequence[Attempt]
    why: str


class Verdict(NamedTuple):
    """What the log says about the jobs that were accepted, by their numbers."""

    accepted: int
    completed: int
    lost: Sequence[int]
    twice: Sequence[Twice]


def judge(accepted: Sequence[int], runs: Sequence[Sequence[Attempt]], killed: Mapping[int, int]) -> Verdict:
    """Return what became of jobs.

    Args:
        accepted: The numbers of the jobs whose enqueue returned.
        runs: By number, the runs of each job.
        killed: By process id, the number of each worker that was killed.

    Example:
        >>> judge([0, 1, 2], [[Attempt(1, 7, 0.0)], [Attempt(1, 7, 0.0), Attempt(2, 8, 1.0, 2.0)], []], {7: 3})[:3]
        (3, 1, [0, 2])
    """
    lost = [number for number in accepted if all(run.ended_s is None for run in runs[number])]
    twice = [Twice(number, own, _why(own, killed)) for number, own in enumerate(runs) if len(own) > 1]
    return Verdict(len(accepted), len(accepted) - len(lost), lost, twice)


def _why(runs: Sequence[Attempt], killed: Mapping[int, int]) -> str:
    reasons: list[str] = []
    for run in runs[:-1]:
        worker = killed.get(run.pid)
        if worker is None:
            reasons.append("unexplained")
        elif run.ended_s is None:
            reasons.append(f"in flight when worker {worker} was killed")
        else:
            reasons.append(f"ended on worker {worker}, which was killed before it had said so")
    return "; ".join(dict.fromkeys(reasons))
