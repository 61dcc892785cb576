"""What must hold whatever happens to processes: judged from the store's own books, and from a log that it cannot write.

I1 every job that was accepted is stored, or ended and was pruned · I2 what runs has a lease · I3 no more run at one
instant than a limit allows · I4 no job fails or crashes more often than it may · I5 a dedup key has one live job · I6
figures equal rows · I7 no job is in a state that nothing leads out of.

:func:`book_faults` looks at the store. The rest looks at the **oracle log**: what handlers wrote down outside the
queue, and what was done to their processes, in the order in which it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from fairlane.domain.jobs import JobFilter, JobRecord
from fairlane.domain.lanes import LaneKey
from fairlane.domain.states import State
from fairlane.store import Store

PAGE: Final = 500


class Mark(NamedTuple):
    """One line of the oracle log.

    Attributes:
        job: The job's id as text; ``-`` where a process is meant.
        attempt: The run's number, or 0.
        fence: The run's fence, or 0.
        pid: The process.
        what: ``start`` and ``end`` of a handler that returned; ``fail``, ``snooze`` and ``yield`` of one that ended in
            another way and may run again; ``kill``, ``stop``, ``cont`` and ``term``: what is about to be done to a
            process; anything else is for the test alone.
        at_ns: When, on the machine's steady clock.
        tenant: The job's tenant, or ``-``.
    """

    job: str
    attempt: int
    fence: int
    pid: int
    what: str
    at_ns: int
    tenant: str


def parse(text: str) -> list[Mark]:
    r"""Return the lines of a log; one that a killed process wrote in part is left out.

    Example:
        >>> parse("j 1 1 42 start 5 acme\nj 1 1 4")
        [Mark(job='j', attempt=1, fence=1, pid=42, what='start', at_ns=5, tenant='acme')]
    """
    marks: list[Mark] = []
    for line in text.splitlines():
        parts = line.split(" ", 6)
        if len(parts) == len(Mark._fields):
            job, attempt, fence, pid, what, at_ns, tenant = parts
            marks.append(Mark(job, int(attempt), int(fence), int(pid), what, int(at_ns), tenant))
    return marks


# ---------------------------------------------------------------------------------------------- the store's books


def all_jobs(store: Store) -> list[JobRecord]:
    """Return every job, newest first."""
    jobs: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = store.jobs(JobFilter(), limit=PAGE, cursor=cursor)
        jobs += page.jobs
        if page.cursor is None:
            return jobs
        cursor = page.cursor


def book_faults(store: Store, now_ms: int) -> list[str]:
    """Return what is wrong with a store that nobody changes just now: I2, I5, I6, I7 and its own check."""
    jobs = all_jobs(store)
    found = [f"check(): {fault}" for fault in store.check()]
    if len({job.id for job in jobs}) != len(jobs):
        found.append("I1: jobs() returns a job twice")
    states = Counter(job.state for job in jobs)
    counted = {state: n for state, n in store.counts().items() if n}
    if counted != dict(states):
        found.append(f"I6: counts() says {counted}, the rows say {dict(states)}")
    found += _depth_faults(store, now_ms, jobs)
    found += _key_faults(jobs)
    for job in jobs:
        found += [f"job {job.uuid}: {fault}" for fault in _job_faults(job)]
    return found


def lease_faults(jobs: Iterable[JobRecord], now_ms: int, *, sweep_ms: int) -> list[str]:
    """Return the runs whose lease has been over for longer than rescue takes to find out (I2)."""
    return [
        f"I2: job {job.uuid} runs on a lease that ended {now_ms - job.lease_expires_at_ms} ms ago"
        for job in jobs
        if job.lease_expires_at_ms is not None and now_ms - job.lease_expires_at_ms > sweep_ms
    ]


def budget_faults(jobs: Iterable[JobRecord], *, failures: int, crashes: int) -> list[str]:
    """Return the jobs that failed or crashed more often than the test or their task allows (I4)."""
    return [
        f"I4: job {job.uuid} has {job.failures} failures of {failures} and {job.crashes} crashes of {crashes}"
        for job in jobs
        if job.failures > failures or job.crashes > crashes
    ]


def lost(accepted: Iterable[str], jobs: Iterable[JobRecord], pruned: Collection[str] = ()) -> set[str]:
    """Return what was accepted and is nowhere (I1).

    Args:
        accepted: Ids of jobs whose enqueue has returned.
        jobs: What is stored.
        pruned: Ids of jobs that may have been deleted, because they had ended.
    """
    stored = {str(job.uuid) for job in jobs}
    return {job for job in accepted if job not in stored and job not in pruned}


def _depth_faults(store: Store, now_ms: int, jobs: Sequence[JobRecord]) -> list[str]:
    rows: Counter[tuple[LaneKey, State]] = Counter((job.lane, job.state) for job in jobs if job.state.live)
    shown: Counter[tuple[LaneKey, State]] = Counter()
    for row in store.depth(now_ms):
        lane = LaneKey(row.queue, row.task, row.tenant, row.tier)
        shown[lane, State.SCHEDULED] += row.scheduled
        shown[lane, State.AVAILABLE] += row.available
        shown[lane, State.RUNNING] += row.running
    return [] if +shown == rows else [f"I6: depth() says {dict(+shown)}, the rows say {dict(rows)}"]


def _key_faults(jobs: Iterable[JobRecord]) -> list[str]:
    live = (job for job in jobs if job.dedup_key is not None and job.state.live and not job.successor)
    keys = Counter((job.queue, job.dedup_key) for job in live)
    return [f"I5: dedup key {key!r} is held by {n} live jobs" for key, n in keys.items() if n > 1]


def _job_faults(job: JobRecord) -> Iterator[str]:
    """Yield what no row may look like: limbo (I7), a run without a lease (I2), an end without its time."""
    running = job.state is State.RUNNING
    if running != (job.lease_expires_at_ms is not None):
        yield f"I2: {job.state.label} with lease_expires_at_ms={job.lease_expires_at_ms}"
    if running and (job.worker is None or job.fence < 1):
        yield f"I2: running with worker={job.worker!r} and fence={job.fence}"
    if job.state.live != (job.finished_at_ms is None):
        yield f"I7: {job.state.label} with finished_at_ms={job.finished_at_ms}"
    if job.state is State.AVAILABLE and job.available_at_ms is None:
        yield "I7: available without available_at_ms"
    if job.state is State.DEAD and job.reason is None:
        yield "I7: dead without a reason"


# ---------------------------------------------------------------------------------------------- the oracle log


class Run(NamedTuple):
    """One run of a job, and the ends that the log knows of it."""

    start: Mark
    end: Mark | None


def runs_of(marks: Iterable[Mark]) -> dict[str, list[Run]]:
    """Return the runs of each job in the order in which they started."""
    found: dict[tuple[str, int, int], list[Mark | None]] = {}
    for mark in marks:
        key = (mark.job, mark.fence, mark.pid)
        if mark.what in {"start", "resume"}:
            found.setdefault(key, [mark, None])
        elif mark.what in {"end", "fail", "snooze", "yield"} and key in found:
            found[key][1] = mark
    runs: dict[str, list[Run]] = {}
    for start, end in found.values():
        assert start is not None
        runs.setdefault(start.job, []).append(Run(start, end))
    return runs


def most_at_once(marks: Iterable[Mark], by: Callable[[Mark], str | None]) -> dict[str, int]:
    """Return the most runs at one instant, by a name, as far as leases count them (I3).

    What a killed process ran, runs no more. What a stopped one ran counts as long as it stands in the log alone: its
    lease may lapse, and then its slot is free although its handler has not been told yet.

    Args:
        marks: The log.
        by: Returns what a run counts against; None leaves it out.
    """
    now: dict[tuple[str, int, int], str] = {}
    most: Counter[str] = Counter()
    gone: set[int] = set()
    for mark in marks:
        if mark.what in {"kill", "stop", "dies"}:
            gone |= {mark.pid} if mark.what != "stop" else set()
            now = {run: name for run, name in now.items() if run[2] != mark.pid}
        elif mark.what in {"start", "resume"} and mark.pid not in gone:
            name = by(mark)
            now = {run: held for run, held in now.items() if run[0] != mark.job}  # the same job: the lease was lost
            if name is not None:
                now[mark.job, mark.fence, mark.pid] = name
                most[name] = max(most[name], sum(held == name for held in now.values()))
        elif mark.what in {"end", "fail", "snooze", "yield"}:
            now.pop((mark.job, mark.fence, mark.pid), None)
    return dict(most)


def fence_faults(marks: Sequence[Mark]) -> list[str]:
    """Return the jobs that started twice under one fence, or under a lower one than before.

    A process that is stopped between a claim and the start may go on when the job is long another's: it is told then.
    """
    stopped = {mark.pid for mark in marks if mark.what == "stop"}
    found: list[str] = []
    for job, runs in runs_of(marks).items():
        fences = [run.start.fence for run in runs]
        sound = [run.start.fence for run in runs if run.start.pid not in stopped]
        if len(set(fences)) < len(fences) or sound != sorted(sound):
            found.append(f"job {job} started with fences {fences}")
    return found


CAUSES: Final[Mapping[str, str]] = {
    "kill": "its process was killed",
    "dies": "it ended its process",
    "stop": "its process was stopped",
    "term": "its process was told to end",
    "fail": "it failed and was tried again",
    "snooze": "it asked to run later",
    "yield": "it gave way",
    "asked": "somebody asked for it",
}
"""Why a job may run once more, by the line that says so."""


def doubled(marks: Sequence[Mark], asked: Collection[str] = ()) -> tuple[Counter[str], list[str]]:
    """Return how many runs were followed by another of the same job, by cause, and those without a cause.

    A run that the log saw end well was settled, unless its process was killed, stopped or told to end about then: what
    has ended and is not stored yet runs again.

    Args:
        marks: The log.
        asked: Jobs that people asked to run again.
    """
    to_processes: dict[int, list[Mark]] = {}
    for mark in marks:
        if mark.what in {"kill", "dies", "stop", "term"}:
            to_processes.setdefault(mark.pid, []).append(mark)
    causes: Counter[str] = Counter()
    unexplained: list[str] = []
    for job, runs in runs_of(marks).items():
        for run, following in pairwise(runs):
            cause = _cause(run, following, to_processes.get(run.start.pid, []), asked)
            if cause is None:
                unexplained.append(f"job {job} ran again without a cause: {run}, then {following.start}")
            else:
                causes[cause] += 1
    return causes, unexplained


def _cause(run: Run, following: Run, done: Sequence[Mark], asked: Collection[str]) -> str | None:
    if run.end is not None and run.end.what != "end":
        return CAUSES[run.end.what]
    for mark in done:
        if mark.at_ns <= following.start.at_ns:
            return CAUSES[mark.what]
    return CAUSES["asked"] if run.start.job in asked else None


def ended_well(marks: Iterable[Mark]) -> set[str]:
    """Return the jobs of which the log knows a run that ended well."""
    return {mark.job for mark in marks if mark.what == "end"}


def made_up(marks: Iterable[Mark], jobs: Iterable[JobRecord]) -> list[str]:
    """Return the jobs that are stored as completed and whose last run the log did not see end."""
    ends = {(mark.job, mark.fence) for mark in marks if mark.what == "end"}
    return [
        f"job {job.uuid} is completed by fence {job.fence}, and nothing of that ended"
        for job in jobs
        if job.state is State.COMPLETED and (str(job.uuid), job.fence) not in ends
    ]


def crash_faults(marks: Sequence[Mark], jobs: Iterable[JobRecord]) -> list[str]:
    """Return the crashes on record whose process nobody killed or stopped."""
    harmed = {mark.pid for mark in marks if mark.what in {"kill", "dies", "stop"}}
    pids: dict[tuple[str, int], set[int]] = {}
    for mark in marks:
        if mark.what in {"start", "resume"}:
            pids.setdefault((mark.job, mark.attempt), set()).add(mark.pid)
    found: list[str] = []
    for job in jobs:
        for error in job.errors:
            ran = pids.get((str(job.uuid), error.attempt))
            if error.kind == "crash" and error.type in {"WorkerLost", "LeaseLapsed"} and ran and not ran & harmed:
                found.append(f"job {job.uuid}: crash {error.attempt} ({error.type}) of a process that nobody harmed")
    return found
