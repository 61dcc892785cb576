"""Looking: jobs, depth, dead letters, and whether the books are right."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from fairlane.domain.checks import MAX_INT, whole
from fairlane.domain.fairness import Scheduler
from fairlane.domain.fingerprints import explained
from fairlane.domain.jobs import ON_FAILURE, PHASES, DepthRow, ErrorRecord, JobFilter, JobRecord
from fairlane.domain.lanes import RULES, Ask, LaneKey, Place
from fairlane.domain.limits import Gate
from fairlane.domain.phases import VERIFY, plain_task
from fairlane.domain.sightings import Arrivals, Ending
from fairlane.domain.states import State
from fairlane.domain.turns import Turn
from fairlane.errors import InvalidValue
from fairlane.store import Counted, DeadGroupRecord, Page
from fairlane.stores._queries import named
from fairlane.stores.tables.ground import Db, Ground

JOB_BY_ID: Final = named("job_by_id")
JOB_BY_SEQ: Final = named("job_by_seq")
BUNDLE: Final = named("bundle")
JOBS_PAGE: Final = named("jobs_page")
JOBS_PAGE_END: Final = named("jobs_page_end")
MEANT_COUNT: Final = named("meant_count")
DUE: Final = named("due")
DEPTH: Final = named("depth")
DEAD_GROUPS: Final = named("dead_groups")
DEAD_GROUP: Final = named("dead_group")
DEAD_HISTORY: Final = named("dead_history")
DEAD_ROW: Final = named("dead_row")
SURPLUS_ANY: Final = named("surplus_any")
SURPLUS_QUEUES: Final = named("surplus_queues")
SURPLUS_JOBS: Final = named("surplus_jobs")
COUNTS: Final = named("counts")
ENDS: Final = named("ends")
ARRIVALS: Final = named("arrivals")
ARRIVED: Final = named("job_last")
ENDED_PAGE: Final = named("ended_page")
EXPRESS_PAGE: Final = named("express_page")
NEXT_DUE: Final = named("next_due")
CHECKS: Final = {
    "a lane's count of available jobs is wrong": named("check_available"),
    "a lane's count of scheduled jobs is wrong": named("check_scheduled"),
    "a scheduled job has no time and waits for no other": named("check_timers"),
    "a running job has no worker or lease": named("check_running"),
    "a job's count of jobs that it waits for is wrong": named("check_behind"),
    "a job waits for another that will not free it": named("check_edges"),
    "a job waits for a dedup key that nobody holds": named("check_successors"),
}
SHOWN: Final = 20
MAX_END: Final = 36
"""Characters of a cursor into ended jobs at most: two numbers that SQLite can hold."""

_errors_of = msgspec.json.Decoder(tuple[ErrorRecord, ...]).decode
_tags_of = msgspec.json.Decoder(tuple[str, ...]).decode


EVERYTHING: Final = {"above": -1, "below": MAX_INT, "scan": MAX_INT}
"""The widest range of numbers, looked at whole."""
PAGE_SCAN: Final = 200_000
"""Jobs that one page looks at; one with fewer jobs than asked for and a cursor has come to this bound."""


def filter_values(which: JobFilter) -> dict[str, Any]:  # Any: the database's own types
    """Return a filter as named values; null means any."""
    return EVERYTHING | {
        "path": _path(which),
        "states": sum(1 << state for state in which.states or tuple(State)),
        "fingerprint": which.fingerprint,
        "queue": which.queue,
        "task": which.task,
        "tenant": which.tenant,
        "tier": which.tier,
        "tag": which.tag,
        "dedup_key": which.dedup_key,
        "bundle": which.bundle,
        "ids": b"".join(which.ids or ()),
        "error": which.error,
        "enqueued_before_ms": which.enqueued_before_ms,
        "ended_from_ms": which.ended_from_ms,
        "ended_before_ms": which.ended_before_ms,
        "text": None if which.text is None else f"%{_LIKE.sub(_escaped, which.text)}%",
    }


_LIKE: Final = re.compile(r"[%_\\]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _path(which: JobFilter) -> int:
    """Return the shortest way to a filter's jobs; see the query ``part_meant``."""
    ways = ((which.ids, 5), (which.bundle, 4), (which.dedup_key, 3), (which.fingerprint, 2))  # only dead ones have that
    named = next((path for given, path in ways if given is not None), None)
    if named is not None:
        return named
    only = which.states[0] if which.states is not None and len(which.states) == 1 else None
    return 1 if only is State.DEAD else 6 if only is State.RUNNING else 0


class Reading(Ground):
    """What can be asked."""

    def get(self, job_id: bytes) -> JobRecord | None:
        """Return a job, or None."""
        with self.reading("read a job") as db:
            row = db.execute(JOB_BY_ID, {"id": job_id}).fetchone()
        return None if row is None else record_of(row)

    def bundle(self, bundle: bytes) -> list[tuple[bytes, State]]:
        """Return the jobs of a bundle with their states; see the protocol."""
        with self.reading("read a bundle") as db:
            return [(job_id, State(state)) for job_id, state in db.execute(BUNDLE, {"bundle": bundle}).fetchall()]

    def jobs(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Return jobs, newest first; see the protocol."""
        values = filter_values(which) | {"scan": PAGE_SCAN, "most": limit + 1}
        if cursor is not None:
            values["below"] = _decode_cursor(cursor)
        with self.reading("read jobs") as db:
            rows = db.execute(JOBS_PAGE, values).fetchall()
            if len(rows) <= limit:
                looked, last = db.execute(JOBS_PAGE_END, values).fetchone()
                return Page([record_of(row) for row in rows], _encode_cursor(last) if looked >= PAGE_SCAN else None)
        records = [record_of(row) for row in rows[:limit]]
        return Page(records, _encode_cursor(records[-1].seq if records else values["below"]))

    def count(self, which: JobFilter, *, limit: int) -> Counted:
        """Return how many jobs a filter means, as far as ``limit``; see the protocol."""
        with self.reading("count jobs") as db:
            (found,) = db.execute(MEANT_COUNT, filter_values(which) | {"most": limit + 1}).fetchone()
        return Counted(min(found, limit), found > limit)

    def peek(self, ask: Ask, now_ms: int) -> list[JobRecord]:
        """Return what a claim would start now; see the protocol."""
        with self.snapshot("look ahead") as db:
            scheduler = self._load(db).scheduler
            self._look_at_timers(db, scheduler, now_ms)
            starts = scheduler.claim(ask, now_ms)
            return [record_of(db.execute(JOB_BY_SEQ, {"seq": start.place.seq}).fetchone()) for start in starts]

    def _look_at_timers(self, db: Db, scheduler: Scheduler, now_ms: int) -> None:
        """Do in memory what a claim would do with jobs that are due or expired."""
        for seq, state, lane, arrival_ms, number, expires_ms in db.execute(DUE, {"now_ms": now_ms, "most": MAX_INT}):
            key, place = self._key_from(db, lane), Place(arrival_ms, seq)
            if expires_ms is None or expires_ms > now_ms:
                scheduler.add(key, place, number)
            elif state == State.AVAILABLE:
                scheduler.remove(key, place, number)

    def depth(self, now_ms: int) -> list[DepthRow]:
        """Return how many jobs wait and run by lane; see the protocol."""
        with self.reading("count jobs") as db:
            return [DepthRow(*row) for row in db.execute(DEPTH).fetchall()]

    def dead_groups(self, *, limit: int) -> list[DeadGroupRecord]:
        """Return the dead jobs by fingerprint; see the protocol."""
        with self.reading("group dead jobs") as db:
            rows = db.execute(DEAD_GROUPS, {"most": limit}).fetchall()
            groups = [_group(db, row) for row in rows]
        return [group for group in groups if group is not None]

    def dead_history(self, fingerprint: str, *, since_ms: int, spell_ms: int, spells: int) -> list[int]:
        """Return how many jobs of a group died, spell by spell; see the protocol."""
        values = {"fingerprint": fingerprint, "since_ms": since_ms, "spell_ms": spell_ms}
        with self.reading("count deaths") as db:
            found = dict(db.execute(DEAD_HISTORY, values).fetchall())
        return [found.get(spell, 0) for spell in range(spells)]

    def surplus(self, *, keep: int, limit: int) -> list[int]:
        """Return completed jobs beyond ``keep`` a queue; see the protocol."""
        surplus: list[int] = []
        with self.reading("look for completed jobs beyond what is kept") as db:
            (any_,) = db.execute(SURPLUS_ANY, {"keep": keep}).fetchone()
            for queue, more in db.execute(SURPLUS_QUEUES, {"keep": keep}).fetchall() if any_ else ():
                most = min(more, limit - len(surplus))
                surplus += [seq for (seq,) in db.execute(SURPLUS_JOBS, {"queue": queue, "most": most})]
        return surplus

    def counts(self) -> dict[State, int]:
        """Return how many jobs are in each state."""
        with self.reading("count jobs") as db:
            found = dict(db.execute(COUNTS).fetchall())
        return {state: found.get(int(state), 0) for state in State}

    def ends(self, since_ms: int, *, limit: int) -> list[Ending]:
        """Return the jobs that ended since an instant; see the protocol."""
        with self.reading("read ends") as db:
            return [Ending(*row) for row in db.execute(ENDS, {"since_ms": since_ms, "most": limit}).fetchall()]

    def arrivals(self, after: int | None, *, limit: int) -> Arrivals:
        """Return how many jobs were stored since a look; see the protocol."""
        with self.reading("count new jobs") as db:
            if after is None:
                return Arrivals(db.execute(ARRIVED).fetchone()[0])
            rows = db.execute(ARRIVALS, {"after": after, "most": limit}).fetchall()
        return Arrivals(
            max((last for *_, last in rows), default=after),
            tuple((queue, tier, count) for queue, tier, count, _ in rows),
        )

    def ended(self, state: State, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Return jobs that ended in one way, the latest end first; see the protocol."""
        before_ms, before = (MAX_INT, MAX_INT) if cursor is None else _decode_end(cursor)
        names = {"queue": which.queue, "task": which.task, "tenant": which.tenant, "tier": which.tier}
        values = {"state": int(state), "before_ms": before_ms, "before": before, "most": limit + 1} | names
        with self.reading("read ended jobs") as db:
            found = db.execute(ENDED_PAGE, values).fetchall()
            rows = [db.execute(JOB_BY_SEQ, {"seq": seq}).fetchone() for _, seq in found[:limit]]
        jobs = [record_of(row) for row in rows if row is not None]  # one may have been pruned in between
        return Page(jobs, _encode_end(*found[limit - 1]) if len(found) > limit else None)

    def express(self, *, limit: int) -> list[JobRecord]:
        """Return the jobs that wait in the express lane; see the protocol."""
        with self.reading("read the express lane") as db:
            numbers = db.execute(EXPRESS_PAGE, {"most": limit}).fetchall()
            rows = [db.execute(JOB_BY_SEQ, {"seq": seq}).fetchone() for (seq,) in numbers]
        return [record_of(row) for row in rows if row is not None]  # one may have started in between

    def next_due_ms(self) -> int | None:
        """Return the next instant at which time alone may make something startable."""
        with self.snapshot("read the next timer") as db:
            (due_ms,) = db.execute(NEXT_DUE).fetchone()
            mirror = self._load(db) if self._mirror is None else self._mirror
        opens = mirror.scheduler.next_opening_ms()
        instants = [at_ms for at_ms in (due_ms, opens) if at_ms is not None]
        return min(instants, default=None)

    def check(self) -> list[str]:
        """Return what is wrong with the store's own books; see the protocol."""
        wrong: list[str] = []
        with self.snapshot("check the store") as db:
            for what, sql in CHECKS.items():
                wrong += [f"{what}: {row}" for row in db.execute(sql).fetchmany(SHOWN)]
            wrong += self.damage(db)
            if self._is_latest(db):
                wrong += self._check_mirror(db)
        return wrong

    def _check_mirror(self, db: Db) -> list[str]:
        """Compare the state in memory with the state as it would be loaded now."""
        assert self._mirror is not None
        mine = self._mirror.scheduler
        fresh = self._load(db).scheduler
        wrong: list[str] = []
        for name, pool in fresh.pools.items():
            own = mine.pool(name)
            if own.facts() == own.saved != pool.facts():
                wrong.append(f"pool {name!r} in memory is {own.facts()}, stored {pool.facts()}")
            for tenant, turn in pool.turns.items():
                held = own.turns.get(tenant)
                if held is None:
                    wrong.append(f"tenant {tenant!r} of pool {name!r} is not in memory")
                elif held.facts() == held.saved != turn.facts():
                    wrong.append(f"tenant {tenant!r} of {name!r} in memory is {held.facts()}, stored {turn.facts()}")
                elif _work(held) != _work(turn):
                    wrong.append(f"tenant {tenant!r} of {name!r} in memory has {_work(held)}, stored {_work(turn)}")
        wrong += _wrong_gates(mine, fresh)
        return wrong[:SHOWN]


def _wrong_gates(mine: Scheduler, fresh: Scheduler) -> list[str]:
    """Return where means and gates in memory are not what a cold start would load."""
    wrong: list[str] = []
    if mine.means != fresh.means:
        wrong.append("the expected run times in memory are not the stored ones")
    pairs: list[tuple[str, Gate | None, Gate]] = [
        (f"limit {key!r}", mine.limits.get(key), gate) for key, gate in fresh.limits.items()
    ]
    pairs += [(f"tenant {key!r}", mine.tenants.get(key), gate) for key, gate in fresh.tenants.items()]
    for what, own, gate in pairs:
        if own is None or own.saved != (own.tat, own.held_until_ms):
            continue  # not known here, or not logged yet
        have, want = (own.running, *own.saved), (gate.running, gate.tat, gate.held_until_ms)
        if have != want:
            wrong.append(f"{what} in memory has (running, tat, held until) {have}, stored {want}")
    return wrong


def _work(turn: Turn) -> tuple[list[LaneKey], list[Place], int, int]:
    """Return a tenant's lanes with waiting jobs, their first jobs, and how many urgent ones and all it runs."""
    lanes = sorted(turn.lanes.values(), key=lambda lane: lane.key)
    return [lane.key for lane in lanes], [lane.jobs[0] for lane in lanes], turn.urgent, turn.tenant.running


def _group(db: Db, row: tuple[Any, ...]) -> DeadGroupRecord | None:  # Any: the database's own types
    """Return a group of dead jobs in words; None: it is gone by now."""
    fingerprint, count, newest, first_ms, last_ms = row
    example = db.execute(DEAD_ROW, {"seq": newest}).fetchone()
    if example is None:
        return None
    job_id, errors, reason = example
    name = fingerprint or "unknown"
    lanes = db.execute(DEAD_GROUP, {"fingerprint": fingerprint}).fetchall()
    return DeadGroupRecord(
        words=explained(name, () if errors is None else _errors_of(errors), reason),
        count=count,
        tasks=tuple(dict.fromkeys(task.removesuffix(VERIFY) for task, _ in lanes)),
        tenants=len({tenant for _, tenant in lanes}),
        example=job_id,
        first_ms=first_ms,
        last_ms=last_ms,
    )


def key_of(dedup: str) -> str:
    """Return the key of what the constraint compares: the length of the queue's name, the name, the key."""
    length, _, rest = dedup.partition(":")
    return rest[int(length) + 1 :]


def record_of(row: tuple[Any, ...]) -> JobRecord:  # Any: the database's own types
    """Return a job from a row of the ``job_by_id`` query."""
    (
        seq, job_id, task, queue, tenant, tier, state, phase, args, arrival_ms, express, fence, failures, crashes,
        checks, preemptions, worker, rule, enqueued, scheduled, available, started, finished, expires, timer, dedup,
        progress, checkpoint, result, reason, errors, tags, trace, reference, behind, on_failure, successor, bundle,
        handed,
    ) = row  # fmt: skip
    return JobRecord(
        seq=seq,
        id=job_id,
        task=plain_task(task, PHASES[int(phase)]),
        queue=queue,
        tenant=tenant,
        tier=tier,
        state=State(state),
        phase=PHASES[int(phase)],
        args=args,
        arrival_ms=arrival_ms,
        express=express if State(state).live else None,
        fence=fence,
        failures=failures,
        crashes=crashes,
        checks=checks,
        preemptions=preemptions,
        worker=worker,
        rule=None if rule is None else RULES[int(rule)],
        enqueued_at_ms=enqueued,
        scheduled_at_ms=scheduled,
        available_at_ms=available,
        started_at_ms=started,
        finished_at_ms=finished,
        expires_at_ms=expires,
        lease_expires_at_ms=timer if state == State.RUNNING else None,
        dedup_key=None if dedup is None else key_of(dedup),
        progress=progress,
        checkpoint=checkpoint,
        result=result,
        reason=reason,
        errors=() if errors is None else _errors_of(errors),
        tags=() if tags is None else _tags_of(tags),
        trace=trace,
        reference=reference,
        behind=behind,
        on_failure=ON_FAILURE[int(on_failure)],
        successor=bool(successor),
        bundle=bundle,
        handed=handed,
    )


def _encode_end(finished_ms: int, seq: int) -> str:
    return base64.urlsafe_b64encode(f"e{finished_ms}.{seq}".encode()).decode().rstrip("=")


def _decode_end(cursor: str) -> tuple[int, int]:
    try:
        body = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        finished_ms, dot, seq = body.removeprefix("e").partition(".")
        if not (dot and body.startswith("e") and finished_ms.isdecimal() and seq.isdecimal() and len(body) < MAX_END):
            raise ValueError(body)
        return int(finished_ms), int(seq)
    except (ValueError, UnicodeError):
        raise InvalidValue(f"cursor {cursor[:80]!r} is not one that fairlane gave out") from None


def _encode_cursor(seq: int) -> str:
    return base64.urlsafe_b64encode(f"s{seq}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> int:
    try:
        body = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        if not body.startswith("s"):
            raise ValueError(body)
        return whole("cursor", int(body[1:]))
    except (ValueError, UnicodeError):
        raise InvalidValue(f"cursor {cursor!r} is not one that fairlane gave out") from None
