"""The ground of stores over tables: lanes by number, the mirror and its log.

Everything here is the same on every database: the names of queries, the mirror in memory, what a transaction collects
and writes at its end. What differs (connections, transactions, how a row of the log is numbered) is the store's own.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import msgspec

from fairlane.domain.backlog import FIRST
from fairlane.domain.charging import Mean
from fairlane.domain.fairness import Scheduler
from fairlane.domain.jobs import JobRecord
from fairlane.domain.lanes import LaneKey, Place
from fairlane.domain.policy import Capacities, Policy, TaskRule
from fairlane.store import AnyRule, News, RuleKind
from fairlane.stores._mirror import RULE_TYPES, Event, LogRow, Mirror, set_rule
from fairlane.stores._queries import named

LANE_BUFFER: Final = 256
REFILL: Final = LANE_BUFFER // 2
FIRST_HEADS: Final = 8
"""Jobs of each lane brought into memory at first; the rest follow as they are needed."""
HEADS_AT_ONCE: Final = 1_000
"""Lanes whose first jobs are read together."""
LOG_ROWS: Final = 4_096
LOG_BYTES: Final = 16 * 2**20
"""Rows of the log that are kept, and their length together; a process further behind loads the state anew."""
STORE_EVERY: Final = 512
STORE_EVERY_BYTES: Final = 4 * 2**20
"""Log rows, or bytes of them, that a process writes between two times that it stores the state and prunes the log."""
MOST_DEATHS: Final = 1_000
"""Jobs that died and were not asked for yet, the latest: nobody reads ten thousand alerts."""

RELOAD: Final = '[["c"]'
"""How a row begins that asks every process to load its state anew: the policy has changed."""

LANE_BY_ID: Final = named("lane_by_id")
LANE_BY_KEY: Final = named("lane_by_key")
LANE_INSERT: Final = named("lane_insert")
LANE_COUNTS: Final = named("lane_counts")
LANES_WAITING: Final = named("lanes_waiting")
LANE_HEADS: Final = named("lane_heads")
EXPRESS_WAITING: Final = named("express_waiting")
RUNNING: Final = named("running")
LOG_INSERT: Final = named("log_insert")
LOG_AFTER: Final = named("log_after")
LOG_STORED: Final = named("log_stored")
LOG_PRUNE: Final = named("log_prune")
NOTICED: Final = named("noticed")
PROBE: Final = named("probe")
JOB_LAST: Final = named("job_last")
SETTINGS: Final = named("settings")
RULES_ALL: Final = named("rules_all")
TASKS_ALL: Final = named("tasks_all")
WORKERS_ALL: Final = named("workers_all")
ASKED_ALL: Final = named("asked_all")
POOLS_ALL: Final = named("pools_all")
TURNS_ALL: Final = named("turns_all")
MEANS_ALL: Final = named("means_all")
GATES_ALL: Final = named("gates_all")
PUT: Final = {
    "t": named("turn_put"),
    "p": named("pool_put"),
    "m": named("mean_put"),
    "g": named("gate_put"),
    "n": named("noticed_put"),
}


Values = Mapping[str, Any] | Sequence[Any]  # Any: the database's own types


class Rows(Protocol):
    """What a statement gives back."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:  # Any: a row of the database's own types, or None
        """Return the next row, or None."""
        ...

    def fetchmany(self, size: int) -> list[Any]:  # Any: likewise
        """Return the next rows."""
        ...

    def fetchall(self) -> list[Any]:  # Any: likewise
        """Return all rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:  # Any: likewise
        """Go over the rows that are left."""
        ...


class Db(Protocol):
    """A connection whose statements are called by the names of their files."""

    def execute(self, name: str, values: Values = ()) -> Rows:
        """Run the statement of that name."""
        ...

    def executemany(self, name: str, rows: Iterable[Values]) -> object:
        """Run the statement of that name for each of the rows."""
        ...


class Replica:
    """The state of decisions as one connection sees it: lanes by number, and the mirror that follows the log."""

    _db: Db

    def __init__(self) -> None:
        self._lane_ids: dict[LaneKey, int] = {}
        self._lane_keys: dict[int, LaneKey] = {}
        self._mirror: Mirror | None = None
        self._probed: tuple[int, int | None, int | None] | None = None

    # ------------------------------------------------------------------ statements

    def _x(self, name: str, values: Values = ()) -> Rows:
        """Run a statement on the connection."""
        return self._db.execute(name, values)

    def _probe(self) -> tuple[int, int | None, int | None]:
        """Return the log's last row, when the first lease lapses, when the first timer is due; once a transaction."""
        if self._probed is None:
            last, lapse_ms, timer_ms = self._x(PROBE).fetchone()
            self._probed = (last or 0, lapse_ms, timer_ms)
        return self._probed

    # ------------------------------------------------------------------ lanes

    def lane_key(self, lane: int) -> LaneKey:
        """Return the lane with this number."""
        key = self._lane_keys.get(lane)
        if key is None:
            row = self._x(LANE_BY_ID, {"lane": lane}).fetchone()
            key = self._lane_keys[lane] = LaneKey(*row)
            self._lane_ids[key] = lane
        return key

    def lane_id(self, key: LaneKey) -> int:
        """Return the number of a lane, made when it is new."""
        lane = self._lane_ids.get(key)
        if lane is None:
            row = self._x(LANE_BY_KEY, key).fetchone() or self._x(LANE_INSERT, key).fetchone()
            lane = self._lane_ids[key] = row[0]
            self._lane_keys[lane] = key
        return lane

    # ------------------------------------------------------------------ the mirror

    def _live(self) -> Mirror:
        """Return the mirror, loaded when this process has not claimed before."""
        if self._mirror is None:
            self._mirror = self._load(self._db)
        return self._mirror

    def _rows_after(self, db: Db, version: int) -> list[LogRow]:
        """Return number, kind and body of what was logged after a row, in order."""
        return db.execute(LOG_AFTER, {"version": version}).fetchall()

    def _catch_up(self) -> None:
        """Replay what other processes have logged; too far behind, load anew when it is needed."""
        mirror = self._mirror
        if mirror is None or self._probe()[0] == mirror.version:
            return
        self._replay(mirror, self._rows_after(self._db, mirror.version))

    def _replay(self, mirror: Mirror, rows: Sequence[LogRow]) -> None:
        """Replay what was logged after the state in memory, or drop it: rows are missing, or the policy has changed."""
        due = range(mirror.version + 1, mirror.version + 1 + len(rows))
        if any(row[0] != number or row[2].startswith(RELOAD) for row, number in zip(rows, due, strict=True)):
            self._mirror = None
        else:
            mirror.replay(rows)

    # ------------------------------------------------------------------ loading

    def _settings(self, db: Db) -> tuple[Policy, Capacities]:
        values = dict(db.execute(SETTINGS).fetchall())
        return (
            msgspec.json.decode(values["policy"], type=Policy),
            msgspec.json.decode(values["capacities"], type=Capacities),
        )

    def _all_rules(self, db: Db) -> list[tuple[RuleKind, str, AnyRule]]:
        """Return every rule that is set; what the code declares of a task is part of its rule."""
        rules: dict[tuple[RuleKind, str], AnyRule] = {
            (kind, name): msgspec.json.decode(body, type=RULE_TYPES[kind])
            for kind, name, body in db.execute(RULES_ALL).fetchall()
        }
        for name, limits, _, _ in db.execute(TASKS_ALL).fetchall():
            rule = rules.get(("task", name))
            pause = rule.pause if isinstance(rule, TaskRule) else None
            rules["task", name] = TaskRule(pause, tuple(msgspec.json.decode(limits, type=list[str])))
        return [(kind, name, rule) for (kind, name), rule in rules.items()]

    def _load(self, db: Db) -> Mirror:
        """Load the state as it is stored: as of the last row that a mirror folded, then the rows after it."""
        policy, _ = self._settings(db)

        def refill(lanes: Sequence[tuple[LaneKey, Place]]) -> list[tuple[list[Place], bool]]:
            asked = [(self.lane_id(key), after) for key, after in lanes]
            return [(heads, len(heads) == REFILL) for heads in self._heads(db, asked, REFILL)]

        scheduler = Scheduler(policy, refill=refill, lane_buffer=LANE_BUFFER)
        (scheduler.now_ms,) = db.execute(NOTICED).fetchone()
        for kind, name, rule in self._all_rules(db):
            set_rule(scheduler, kind, name, rule)
        self._load_policy_state(db, scheduler)
        stored = db.execute(LOG_STORED).fetchone()[0] or 0
        mirror = Mirror(scheduler, self, stored)
        mirror.load(self._rows_after(db, stored), lambda: self._load_jobs(db, scheduler))
        return mirror

    def _heads(self, db: Db, lanes: Sequence[tuple[int, Place]], most: int) -> list[list[Place]]:
        """Return the first available jobs of lanes, of each at most so many behind a place."""
        heads: list[list[Place]] = []
        for lane, (arrival_ms, seq) in lanes:
            values = {"lane": lane, "arrival_ms": arrival_ms, "seq": seq, "most": most}
            heads.append([Place(*row) for row in db.execute(LANE_HEADS, values).fetchall()])
        return heads

    def _load_jobs(self, db: Db, scheduler: Scheduler) -> None:
        waiting = db.execute(LANES_WAITING).fetchall()
        for start in range(0, len(waiting), HEADS_AT_ONCE):
            rows = waiting[start : start + HEADS_AT_ONCE]
            found = self._heads(db, [(row[0], FIRST) for row in rows], FIRST_HEADS)
            for (lane, available, *key), places in zip(rows, found, strict=True):
                lane_key = LaneKey(*key)
                self._lane_ids[lane_key], self._lane_keys[lane] = lane, lane_key
                scheduler.load_lane(lane_key, places, more=available > len(places))
        for lane, arrival_ms, seq, number in db.execute(EXPRESS_WAITING).fetchall():
            scheduler.load_express(self._key_from(db, lane), Place(arrival_ms, seq), number)
        for lane, seq, limits in db.execute(RUNNING).fetchall():
            keys = () if limits is None else tuple(msgspec.json.decode(limits, type=list[str]))
            scheduler.load_running(self._key_from(db, lane), seq, keys)

    def _load_policy_state(self, db: Db, scheduler: Scheduler) -> None:
        for name, now, since, activations, seen, runs, total_us in db.execute(POOLS_ALL).fetchall():
            pool = scheduler.pool(name)
            pool.now, pool.since, pool.activations, pool.seen = now, since, activations, seen
            pool.mean = Mean(runs, total_us)
            pool.saved = pool.facts()
        for pool_name, tenant, virtual, activation, last_ms, able, seen in db.execute(TURNS_ALL).fetchall():
            turn = scheduler.turn(pool_name, tenant)
            turn.virtual, turn.activation, turn.last_ms = virtual, activation, last_ms
            turn.able, turn.seen = bool(able), seen
            turn.saved = turn.facts()
        for name, *_, seen, _, _ in db.execute(POOLS_ALL).fetchall():
            scheduler.pool(name).seen = seen
        for queue, task, tenant, runs, total_us in db.execute(MEANS_ALL).fetchall():
            scheduler.means[queue, task, tenant] = Mean(runs, total_us)
        for kind, name, tat, held_until_ms in db.execute(GATES_ALL).fetchall():
            gate = scheduler.tenant(name) if kind == "tenant" else scheduler.limit(name)
            scheduler.assign_gate(gate, tat=tat, held_until_ms=held_until_ms)
        for pool_name, slots, queues in self._declared(db):
            scheduler.set_workers(pool_name, slots, queues)
        for pool_name, queue, at_ms in db.execute(ASKED_ALL).fetchall():
            scheduler.ask(scheduler.pool(pool_name), [queue] if queue else None, at_ms)

    def _declared(self, db: Db) -> list[tuple[str, int, frozenset[str] | None]]:
        """Return what the workers of each pool declare together."""
        together: dict[str, tuple[int, frozenset[str] | None]] = {}
        for _, pool, queues, _, slots, *_ in db.execute(WORKERS_ALL).fetchall():
            served = None if queues is None else frozenset(msgspec.json.decode(queues, type=list[str]))
            before_slots, before = together.get(pool, (0, frozenset()))
            together[pool] = (before_slots + slots, None if served is None or before is None else before | served)
        return [(pool, slots, queues) for pool, (slots, queues) in together.items()]

    def _key_from(self, db: Db, lane: int) -> LaneKey:
        key = self._lane_keys.get(lane)
        if key is None:
            key = self._lane_keys[lane] = LaneKey(*db.execute(LANE_BY_ID, {"lane": lane}).fetchone())
            self._lane_ids[key] = lane
        return key


class Ground(Replica, ABC):
    """What a transaction collects and writes. One thread writes; others may read beside it."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self._writer_thread: int | None = None
        self._events: list[Event] = []
        self._counts: dict[int, list[int]] = {}
        self._news: set[News] = set()
        self._fresh: set[News] = set()
        self._died: deque[JobRecord] = deque(maxlen=MOST_DEATHS)  # in this transaction
        self._deaths: deque[JobRecord] = deque(maxlen=MOST_DEATHS)  # and in those before it
        self._rows_written = 0
        self._bytes_written = 0
        self._last_seq: int | None = None  # as this transaction knows it, like the next
        self._guarded: list[tuple[RuleKind, str]] | None = None
        self._clock_ms = -1  # likewise
        self._asked_ms: dict[tuple[str, str], int] = {}
        self._why = ""  # what is audited just now is done for this reason

    # ------------------------------------------------------------------ what each database does its own way

    @abstractmethod
    def reading(self, doing: str) -> AbstractContextManager[Db]:
        """Give the connection to read from: our own transaction's when we are inside one."""

    @abstractmethod
    def snapshot(self, doing: str) -> AbstractContextManager[Db]:
        """Give the connection to read from, with everything as of one instant."""

    @abstractmethod
    def numbers(self, count: int) -> Sequence[int]:
        """Draw numbers for new jobs, in order."""

    @abstractmethod
    def _flush(self) -> None:
        """Write what the transaction collected: counts, and a row of the log; now and then what the rows say."""

    @abstractmethod
    def _write_counts(self) -> None:
        """Write what was counted so far, for this transaction's own questions."""

    @abstractmethod
    def alive(self, workers: Collection[str]) -> Collection[str]:
        """Return those workers that gave a sign of life and still do."""

    @abstractmethod
    def damage(self, db: Db) -> list[str]:
        """Return what the database itself finds wrong."""

    def inside(self) -> bool:
        """Return whether this thread is inside a write transaction."""
        return self._writer_thread == threading.get_ident()

    # ------------------------------------------------------------------ transactions

    def _fresh_look(self) -> None:
        """Forget what the last transaction knew."""
        self._probed = self._last_seq = self._guarded = None
        self._clock_ms = -1

    def _keep_news(self) -> None:
        """Keep what the transaction that was committed has to tell."""
        self._news |= self._fresh
        self._fresh.clear()
        self._deaths += self._died
        self._died.clear()

    def _drop_all(self) -> None:
        """Forget what the transaction that was rolled back did, and the state that it was done on."""
        self._mirror = None
        self._forget_lanes()
        self._drop_work()

    def _forget_lanes(self) -> None:
        """Forget the numbers of lanes: some may be there no more, or mean others."""
        self._lane_ids.clear()
        self._lane_keys.clear()

    def _drop_work(self) -> None:
        """Forget what the transaction collected."""
        self._events = []
        self._counts.clear()
        self._fresh.clear()
        self._died.clear()
        self._clock_ms = -1
        self._asked_ms.clear()

    def write_state(self) -> None:
        """Have the transaction that is open store the state of decisions in tables, whatever is left of the log."""
        mirror = self._live()
        self._events.append(("n", mirror.scheduler.now_ms))
        self._rows_written = STORE_EVERY

    def tell(self, news: Collection[News]) -> None:
        """Have the transaction that is open tell this too."""
        self._fresh.update(news)

    def news(self) -> frozenset[News]:
        """Return what the transactions since the last call have to tell, and forget it."""
        news = frozenset(self._news)
        self._news.clear()
        return news

    def deaths(self) -> list[JobRecord]:
        """Return the jobs that died in the transactions since the last call, and forget them."""
        deaths = list(self._deaths)
        self._deaths.clear()
        return deaths

    # ------------------------------------------------------------------ lanes

    def _count(self, lane: int, *, available: int = 0, scheduled: int = 0) -> None:
        """Note that jobs joined or left a lane; written once at the end of the transaction."""
        counts = self._counts.get(lane)
        if counts is None:
            counts = self._counts[lane] = [0, 0]
        counts[0] += available
        counts[1] += scheduled

    # ------------------------------------------------------------------ the mirror

    def _emit(self, event: Event, *news: News) -> None:
        """Log a scheduler call and carry it out on our own mirror, if we hold one."""
        self._events.append(event)
        self._fresh.update(news)
        if self._mirror is not None:
            self._mirror.apply(event)

    def _live(self) -> Mirror:
        """Return the mirror, loaded when this process has not claimed before."""
        if self._mirror is None:
            self._write_counts()
            mirror = self._load(self._db)
            for event in self._events:
                mirror.apply(event)
            self._mirror = mirror
        return self._mirror

    def _storing(self, length: int) -> bool:
        """Count a row of the log that is about to be written; return whether it is time to store the state.

        Args:
            length: The row's, in bytes.
        """
        self._rows_written += 1
        self._bytes_written += length
        if self._rows_written < STORE_EVERY and self._bytes_written < STORE_EVERY_BYTES:
            return False
        self._rows_written = self._bytes_written = 0
        return True

    def _is_latest(self, db: Db) -> bool:
        """Return whether the mirror contains everything that was committed."""
        return self._mirror is not None and self._mirror.version == (db.execute(PROBE).fetchone()[0] or 0)

    def _store_state(self, mirror: Mirror) -> None:
        """Store turns, pools, means and gates as of the row that is about to be written."""
        rows: dict[str, list[Sequence[Any]]] = {}  # Any: the database's own types
        for event in mirror.unstored.values():
            rows.setdefault(event[0], []).append(event[1:])
        for kind, values in rows.items():
            self._db.executemany(PUT[kind], values)
        mirror.unstored.clear()
