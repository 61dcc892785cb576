"""A scheduler in memory that follows a store's log.

The state of a decision (lanes' heads, turns, gates) is held in memory by every process that claims. Whatever moves it
is written to the log in the transaction that does it, one row a transaction, as the scheduler calls themselves; a
process that claims first replays the rows it has not seen, under the write lock, and so holds the same state as the
process that wrote them. What the jobs do not say (virtual times, activations, means, rates) is stated in the row by the
process that changed it, and that word is law: replicas take it over. Every few hundred rows the process that writes
stores it in tables too, which is what a process that starts reads first.

Processes that only enqueue hold nothing and write nothing but jobs and their row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

import msgspec

from fairlane.domain.charging import Mean
from fairlane.domain.fairness import Scheduler
from fairlane.domain.lanes import RULES, LaneKey, Place, Start
from fairlane.domain.policy import LimitRule, QueueRule, TaskRule, TenantRule
from fairlane.domain.turns import Limit, Tenant
from fairlane.store import AnyRule, RuleKind

Event = Sequence[Any]  # Any: one of the shapes below, as JSON
"""One scheduler call as it is logged; the first item says which:

``+`` lane, [[arrival, seq], …], more · ``x`` lane, arrival, seq, number · ``-`` lane, arrival, seq, number?
``b`` *start, now_ms · ``f`` *start, run_us, in_mean, units_us? · ``n`` now_ms · ``q`` pool, queues?, now_ms
``r`` kind, name, rule · ``w`` pool, slots, queues? · ``h`` limit, until_ms
and what replicas take over: ``t`` turn · ``p`` pool · ``m`` mean · ``g`` gate
where *start is lane, arrival, seq, number?, rule, expected_us, divided_by.
"""

LogRow = tuple[int, int, str]
"""A row of the log: its number, its kind, its events as JSON."""

PLAIN, STATED, STORED = 0, 1, 2
"""Kinds of log rows: by a writer without the state, with it, and with the tables stored as of the row."""

RULE_NUMBERS: Final = {rule: number for number, rule in enumerate(RULES)}
"""Each rule's number as it is stored."""

KEY_ENDS: Final = {"t": 3, "p": 2, "m": 4, "g": 3, "n": 1}
"""How many items, the first among them, name what an event gives a value to."""

RULE_TYPES: Final[dict[RuleKind, type[AnyRule]]] = {
    "queue": QueueRule,
    "task": TaskRule,
    "tenant": TenantRule,
    "limit": LimitRule,
}

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(list[list[Any]]).decode  # Any: as Event


class Names(Protocol):
    """Knows lanes by number."""

    def lane_key(self, lane: int) -> LaneKey:
        """Return the lane with this number."""
        ...

    def lane_id(self, key: LaneKey) -> int:
        """Return the number of a lane, made when it is new."""
        ...


class Mirror:
    """Replays events on a scheduler and collects what a process that moved it must store.

    Args:
        scheduler: The state, loaded as it is stored.
        names: Knows lanes by number.
        version: The last row of the log that is contained in it.
    """

    def __init__(self, scheduler: Scheduler, names: Names, version: int) -> None:
        self.scheduler = scheduler
        self.version = version
        self.unstored: dict[tuple[str, ...], Event] = {}
        self._names = names
        self._do: dict[str, Callable[[Event], None]] = {
            "+": self._add,
            "x": self._add_express,
            "-": self._remove,
            "b": self._began,
            "f": self._finish,
            "n": lambda event: scheduler.notice(event[1]),
            "q": lambda event: scheduler.ask(scheduler.pool(event[1]), event[2], event[3]),
            "r": self._rule,
            "w": self._workers,
            "h": lambda event: scheduler.close_limit(event[1], event[2]),
            "t": self._turn,
            "p": self._pool,
            "m": self._mean,
            "g": self._gate,
        }
        self._do_told = {**self._do, "f": self._ended}

    def apply(self, event: Event) -> None:
        """Carry out one event."""
        self._do[event[0]](event)

    def replay(self, rows: Iterable[LogRow]) -> None:
        """Carry out the next rows of the log."""
        for plain, run in groupby(rows, key=_is_plain):
            if plain:
                for self.version, _, body in run:
                    for event in decode(body):
                        self._do[event[0]](event)
            else:
                self._take_over(run)

    def _take_over(self, rows: Iterable[LogRow]) -> None:
        """Carry out rows that state what became of all: of what is stated of the same thing, the last word counts."""
        do, unstored = self._do_told, self.unstored
        last_words: dict[tuple[str, ...], Event] = {}
        with self.scheduler.replaying():
            for self.version, kind, body in rows:
                for event in decode(body):
                    name = event[0]
                    end = KEY_ENDS.get(name)
                    if end is None:
                        do[name](event)
                    else:
                        key = tuple(event[:end])
                        last_words[key] = unstored[key] = event
                if kind == STORED:
                    unstored.clear()
            for word in last_words.values():
                do[word[0]](word)

    def load(self, rows: list[LogRow], load_jobs: Callable[[], None]) -> None:
        """Take over the rows of the log behind the tables, and the jobs as they are now.

        Up to the last row that states something, the statements say all. The rows behind it were written by processes
        without the state: they only say in which order tenants appeared and became able.

        Args:
            rows: Number, kind and body of each row after the one that the tables are as of.
            load_jobs: Loads lanes, express jobs and running jobs into the scheduler.
        """
        scheduler = self.scheduler
        stated = max((version for version, kind, _ in rows if kind != PLAIN), default=0)
        with scheduler.replaying():
            for statement in [event for version, _, body in rows if version <= stated for event in decode(body)]:
                if statement[0] in KEY_ENDS:
                    self._do[statement[0]](statement)
                    self._note(statement)
            untold = self._first_words([body for version, _, body in rows if version > stated])
            for event in untold:
                if event[0] in "+x":
                    scheduler.see(self._names.lane_key(event[1]))
            load_jobs()
            scheduler.settle_in()
        for event in untold:
            if event[0] == "r":
                scheduler.settle_in()
            else:
                self._do[event[0]](event)
        scheduler.settle_in()
        if rows:
            self.version = rows[-1][0]

    def _first_words(self, bodies: list[str]) -> list[Event]:
        """Return the events that matter when the jobs themselves are loaded: of jobs that join a lane, the first."""
        seen: set[int] = set()
        events: list[Event] = []
        for event in (event for body in bodies for event in decode(body)):
            if event[0] == "+":
                if event[1] not in seen:
                    seen.add(event[1])
                    events.append(event)
            elif event[0] in "x-fr":
                if event[0] == "-":
                    seen.discard(event[1])
                events.append(event)
        return events

    def _note(self, event: Event) -> None:
        """Note what the tables do not say yet."""
        self.unstored[tuple(event[: KEY_ENDS[event[0]]])] = event

    # -- events

    def _add(self, event: Event) -> None:
        _, lane, places, more = event
        key = self._names.lane_key(lane)
        add = self.scheduler.add
        for arrival_ms, seq in places:
            add(key, Place(arrival_ms, seq))
        if more:
            self.scheduler.lanes[key].more = True

    def _add_express(self, event: Event) -> None:
        _, lane, arrival_ms, seq, number = event
        self.scheduler.add(self._names.lane_key(lane), Place(arrival_ms, seq), number)

    def _remove(self, event: Event) -> None:
        _, lane, arrival_ms, seq, number = event
        self.scheduler.remove(self._names.lane_key(lane), Place(arrival_ms, seq), number)

    def _start(self, event: Event) -> Start:
        _, lane, arrival_ms, seq, number, rule, expected_us, divided_by = event[:8]
        return Start(self._names.lane_key(lane), Place(arrival_ms, seq), number, RULES[rule], expected_us, divided_by)

    def _began(self, event: Event) -> None:
        _, lane, arrival_ms, seq, number, _, _, _, now_ms = event
        self.scheduler.began(self._names.lane_key(lane), Place(arrival_ms, seq), number, now_ms)

    def _ended(self, event: Event) -> None:
        """An end of which another process states what it is charged."""
        self.scheduler.ended(self._names.lane_key(event[1]), event[3])

    def _finish(self, event: Event) -> None:
        run_us, in_mean, units_us = event[8:]
        self.scheduler.finish(self._start(event), run_us, in_mean=bool(in_mean), units_us=units_us)

    def _rule(self, event: Event) -> None:
        _, kind, name, body = event
        rule = msgspec.convert(body, RULE_TYPES[kind])
        set_rule(self.scheduler, kind, name, rule)

    def _workers(self, event: Event) -> None:
        _, pool, slots, queues = event
        self.scheduler.set_workers(pool, slots, None if queues is None else frozenset(queues))

    def _turn(self, event: Event) -> None:
        _, pool, tenant, virtual, activation, last_ms, able, seen = event
        counted = self.scheduler.pool(pool).seen
        turn = self.scheduler.turn(pool, tenant)
        turn.pool.seen = counted  # who is new in memory may have been counted when the pool was stated
        self.scheduler.assign(turn, virtual=virtual, activation=activation, last_ms=last_ms, able=bool(able), seen=seen)
        turn.saved = turn.facts()

    def _pool(self, event: Event) -> None:
        _, name, now, since, activations, seen, runs, total_us = event
        pool = self.scheduler.pool(name)
        pool.now, pool.since, pool.activations, pool.seen = now, since, activations, seen
        pool.mean = Mean(runs, total_us)
        pool.saved = pool.facts()

    def _mean(self, event: Event) -> None:
        _, queue, task, tenant, runs, total_us = event
        self.scheduler.means[queue, task, tenant] = Mean(runs, total_us)

    def _gate(self, event: Event) -> None:
        _, kind, name, tat, held_until_ms = event
        gate = self.scheduler.tenant(name) if kind == "tenant" else self.scheduler.limit(name)
        self.scheduler.assign_gate(gate, tat=tat, held_until_ms=held_until_ms)

    # -- what has changed

    def changes(self) -> list[Event]:
        """Return what replicas must take over, and count it as logged."""
        scheduler = self.scheduler
        out: list[Event] = []
        for turn in scheduler.changed_turns:
            facts = turn.facts()
            if facts != turn.saved:
                turn.saved = facts
                out.append(("t", turn.pool.name, turn.tenant.name, *facts))
        for pool in scheduler.changed_pools:
            facts = pool.facts()
            if facts != pool.saved:
                pool.saved = facts
                out.append(("p", pool.name, *facts))
        out.extend(("m", *key, *scheduler.means[key]) for key in scheduler.changed_means)
        for gate in scheduler.changed_gates:
            if (gate.tat, gate.held_until_ms) != gate.saved:
                gate.saved = gate.tat, gate.held_until_ms
                out.append(("g", *gate_name(gate), *gate.saved))
        scheduler.clear_changes()
        for event in out:
            self._note(event)
        return out


def _is_plain(row: LogRow) -> bool:
    return row[1] == PLAIN


def gate_name(gate: Tenant | Limit) -> tuple[str, str]:
    """Return kind and name of a gate whose rate is stored."""
    return ("tenant", gate.name) if isinstance(gate, Tenant) else ("limit", gate.key)


def set_rule(scheduler: Scheduler, kind: RuleKind, name: str, rule: AnyRule) -> None:
    """Set a rule of any kind."""
    if isinstance(rule, QueueRule):
        scheduler.set_queue(name, rule)
    elif isinstance(rule, TaskRule):
        scheduler.set_task(name, rule)
    elif isinstance(rule, TenantRule):
        scheduler.set_tenant(name, rule)
    else:
        scheduler.set_limit(name, rule)


def add_event(lane: int, places: list[tuple[int, int]], most: int) -> Event:
    """Return the event for jobs that join a lane in order; beyond ``most`` it says that more lie in the store."""
    return ("+", lane, places[:most], int(len(places) > most))


def start_items(lane: int, start: Start) -> tuple[int, int, int, int | None, int, int, int]:
    """Return a start as events carry it."""
    return (
        lane,
        start.place.arrival_ms,
        start.place.seq,
        start.express,
        RULE_NUMBERS[start.rule],
        start.expected_us,
        start.divided_by,
    )
