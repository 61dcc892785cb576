"""SPEC section 2 with the limits of section 3, from the text: plain lists and dicts, searched from end to end.

The fast :class:`fairlane.domain.fairness.Scheduler` must choose the same jobs, decision by decision. This one is slow
on purpose: it keeps nothing but the facts (who waits, who runs, which rules are set) and the few figures that the
SPEC says are kept, and works everything else out again whenever it is asked. Quotes are from the SPEC.

Instants never run backwards from one claim to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from fairlane.domain.charging import Mean, cost, divisor, lag
from fairlane.domain.lanes import Ask, LaneKey, Place, Rule, Start
from fairlane.domain.policy import SECOND_US, LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.tiers import Tier, effective_tier, rise_delay_ms

ASKED_FOR_MS: Final = 60_000
TENANT: Final = "{tenant}"


@dataclass(frozen=True)
class Waiting:
    """An available job."""

    lane: LaneKey
    place: Place
    express: int | None


@dataclass(frozen=True)
class Running:
    """A running job, with what it counts against until it ends."""

    start: Start
    pool: str
    limits: frozenset[str]


@dataclass
class Account:
    """A tenant in a pool."""

    v: int = 0
    act: int = 0
    last_ms: int | None = None
    able: bool = False


@dataclass
class Pool:
    """A pool. ``accounts`` are in the order in which the tenants were first seen here."""

    now: int = 0
    since: int = 0
    acts: int = 0
    slots: int = 0
    served: frozenset[str] | None = frozenset()
    mean: Mean = field(default_factory=Mean)
    accounts: dict[str, Account] = field(default_factory=dict)


@dataclass
class Bucket:
    """A token bucket: the instant, in ms x starts, up to which starts are booked (GCRA: "theoretical arrival time")."""

    rate: Rate
    template: str
    booked: int


@dataclass
class Room:
    """What is left of one ask."""

    ask: Ask
    now_ms: int
    queues: dict[str, int] | None
    tiers: list[int] | None


class PlainModel:
    """The policy, without any cleverness.

    Example:
        >>> model = PlainModel(Policy.fair())
        >>> model.add(LaneKey("mail", "send", "acme", 2), Place(0, 1))
        >>> [(start.lane.tenant, start.rule) for start in model.claim(Ask("default", 5), 0)]
        [('acme', 'shared')]
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._now_ms = 0
        self._waiting: list[Waiting] = []
        self._running: list[Running] = []
        self._pools: dict[str, Pool] = {}
        self._queues: dict[str, QueueRule] = {}
        self._tasks: dict[str, TaskRule] = {}
        self._tenants: dict[str, TenantRule] = {}
        self._limits: dict[str, LimitRule] = {}
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._closed_until_ms: dict[str, int] = {}
        self._asked_ms: dict[tuple[str, str | None], int] = {}
        self._means: dict[tuple[str, str, str], Mean] = {}

    # ---------------------------------------------------------------- rules

    def set_queue(self, name: str, rule: QueueRule) -> None:
        """Change a queue's rule: "a queue moved to another pool brings its tenants in at that pool's time".

        Those that come in together are first seen there in the order in which the old pool saw them.
        """
        old = self._pool(self._queue(name).pool)
        self._queues[name] = rule
        for tenant in old.accounts:
            if any(job.lane.queue == name and job.lane.tenant == tenant for job in self._waiting):
                self._see(rule.pool, tenant)
        self._activate()

    def set_task(self, name: str, rule: TaskRule) -> None:
        """Change a task's rule. Running jobs keep the limits that they started under."""
        self._tasks[name] = rule
        self._activate()

    def set_tenant(self, name: str, rule: TenantRule) -> None:
        """Change a tenant's rule: it acts "on the existing backlog at once". A new rate starts with a full bucket."""
        if rule.rate != self._tenant(name).rate:
            self._buckets.pop(("tenant", name), None)
        self._tenants[name] = rule
        self._activate()

    def set_limit(self, key: str, rule: LimitRule) -> None:
        """Change the rule of a named limit, or of all that a key with ``{tenant}`` in it stands for."""
        self._limits[key] = rule
        for (kind, name), bucket in list(self._buckets.items()):
            if kind == "limit" and self._limit(name, bucket.template).rate != bucket.rate:
                del self._buckets[kind, name]
        self._activate()

    def close_limit(self, key: str, until_ms: int) -> None:
        """Close a limit: "the limit closes for everyone that long". Of two such calls the later end holds."""
        self._closed_until_ms[key] = max(until_ms, self._closed_until_ms.get(key, 0))
        self._activate()

    def set_workers(self, pool: str, slots: int, queues: frozenset[str] | None) -> None:
        """Say what the pool's live workers have declared: slots in all, and queues served (None: all of the pool)."""
        self._pool(pool).slots = slots
        self._pool(pool).served = queues

    def _pool(self, name: str) -> Pool:
        return self._pools.setdefault(name, Pool())

    def _queue(self, name: str) -> QueueRule:
        return self._queues.get(name, QueueRule())

    def _task(self, name: str) -> TaskRule:
        return self._tasks.get(name, TaskRule())

    def _tenant(self, name: str) -> TenantRule:
        return self._tenants.get(name, TenantRule())

    def _limit(self, key: str, template: str) -> LimitRule:
        """Return the rule set for the exact key, else for its template, else that of no limit."""
        return self._limits.get(key, self._limits.get(template, LimitRule()))

    # ---------------------------------------------------------------- jobs come and go

    def add(self, lane: LaneKey, place: Place, express: int | None = None) -> None:
        """A job becomes available. Its tenant is "first seen in the pool" with its first job there."""
        self._see(self._queue(lane.queue).pool, lane.tenant)
        self._waiting.append(Waiting(lane, place, express))
        self._activate()

    def remove(self, lane: LaneKey, place: Place, express: int | None = None) -> None:
        """An available job leaves without a start."""
        self._waiting.remove(Waiting(lane, place, express))
        self._activate()

    def finish(self, start: Start, run_us: int, *, in_mean: bool = True, units_us: int | None = None) -> None:
        """A running job ended: "settling charges the difference to the real run time, up or down".

        "At the weight and tier of the start", in the pool that the queue is in by now: a moved queue takes its tenants
        and what they run along. Charge "cost" counts what the handler reports instead of the run time; without a
        report nothing is settled. "Count" never settles.
        """
        job = next(job for job in self._running if job.start == start)
        self._running.remove(job)
        name = self._queue(start.lane.queue).pool
        self._see(name, start.lane.tenant)
        pool = self._pool(name)
        used_us = {"time": run_us, "count": None, "cost": units_us}[self._policy.charge]
        if used_us is not None:
            refund = cost(start.expected_us, start.divided_by) - cost(used_us, start.divided_by)
            pool.accounts[start.lane.tenant].v -= refund
            if in_mean:
                runs_of = (start.lane.queue, start.lane.task, start.lane.tenant)
                self._means[runs_of] = self._means.get(runs_of, Mean()).add(used_us)
                pool.mean = pool.mean.add(used_us)
        self._activate()

    def _see(self, pool: str, tenant: str) -> None:
        self._pool(pool).accounts.setdefault(tenant, Account())

    # ---------------------------------------------------------------- what is closed

    def _paused(self, pause: Pause | None) -> bool:
        return pause is not None and pause.active(self._now_ms)

    def _full(self, max_running: int | None, counts: Callable[[Running], bool]) -> bool:
        return max_running is not None and sum(counts(job) for job in self._running) >= max_running

    def _dry(self, bucket_of: tuple[str, str], rate: Rate | None) -> bool:
        """Whether the token bucket is empty: all of ``burst`` is booked."""
        if rate is None or bucket_of not in self._buckets:
            return False
        return self._buckets[bucket_of].booked - self._now_ms * rate.starts > (rate.burst - 1) * rate.per_ms

    def _book(self, bucket_of: tuple[str, str], template: str, rate: Rate | None) -> None:
        """Take one start out of the token bucket."""
        if rate is not None:
            bucket = self._buckets.setdefault(bucket_of, Bucket(rate, template, 0))
            bucket.booked = max(bucket.booked, self._now_ms * rate.starts) + rate.per_ms

    def _limit_closed(self, template: str, tenant: str) -> bool:
        """Whether a named limit is paused, full, out of tokens or closed by a handler that was told to wait."""
        key = template.replace(TENANT, tenant)
        rule = self._limit(key, template)
        return (
            self._paused(rule.pause)
            or self._full(rule.max_running, lambda job: key in job.limits)
            or self._dry(("limit", key), rule.rate)
            or self._now_ms < self._closed_until_ms.get(key, 0)
        )

    def _held_by_its_tenant(self, lane: LaneKey) -> bool:
        """Whether the tenant's own doing holds the lane: its pause, caps, rate, or a limit kept for each tenant."""
        tenant, rule = lane.tenant, self._tenant(lane.tenant)
        return (
            self._paused(rule.pause)
            or self._full(rule.max_running, lambda job: job.start.lane.tenant == tenant)
            or self._dry(("tenant", tenant), rule.rate)
            or self._full(
                self._queue(lane.queue).tenant_max_running,
                lambda job: job.start.lane.tenant == tenant and job.start.lane.queue == lane.queue,
            )
            or any(self._limit_closed(key, tenant) for key in self._task(lane.task).limits if TENANT in key)
        )

    def _held_by_its_group(self, lane: LaneKey) -> bool:
        """Whether the queue, the task or a limit that tenants share holds the lane."""
        rule = self._queue(lane.queue)
        return (
            self._paused(rule.pause)
            or self._full(rule.max_running, lambda job: job.start.lane.queue == lane.queue)
            or self._paused(self._task(lane.task).pause)
            or any(self._limit_closed(key, "") for key in self._task(lane.task).limits if TENANT not in key)
        )

    def _activate(self) -> None:
        """Activate who has become able since the last call: "starts there if it stood lower".

        "Becomes able by its own doing": has an available job, express or not, that nothing of its own holds back.
        """
        able = {
            (self._queue(lane.queue).pool, lane.tenant)
            for lane in {job.lane._replace(tier=0) for job in self._waiting}
            if not self._held_by_its_tenant(lane)
        }
        for name, pool in self._pools.items():
            for tenant, account in pool.accounts.items():
                if (name, tenant) in able and not account.able:
                    account.v = max(account.v, pool.now)
                    pool.acts += 1
                    account.act = pool.acts
                account.able = (name, tenant) in able

    # ---------------------------------------------------------------- the claim

    def claim(self, ask: Ask, now_ms: int) -> list[Start]:
        """Start up to ``ask.count`` jobs, one decision after the other.

        What ends by time is noticed first, for all pools; this claim counts among those that ask for its queues.
        """
        self._now_ms = now_ms
        self._activate()
        asked = [None] if ask.queues is None else [queue for queue, free in ask.queues.items() if free > 0]
        self._asked_ms.update({(ask.pool, queue): now_ms for queue in asked})
        room = Room(
            ask,
            now_ms,
            None if ask.queues is None else dict(ask.queues),
            None if ask.rooms is None else list(ask.rooms),
        )
        starts: list[Start] = []
        while len(starts) < ask.count:
            self._advance(ask.pool)
            choice = self._choose(room)
            if choice is None:
                break
            starts.append(self._start(*choice, room))
            self._activate()
        return starts

    def _advance(self, name: str) -> None:
        """Move the pool's virtual time to "the larger of itself and the lowest virtual time" of who could start."""
        pool = self._pool(name)
        could_start = {
            job.lane.tenant
            for job in self._waiting
            if job.express is None
            and self._queue(job.lane.queue).pool == name
            and self._somebody_serves(name, job.lane.queue)
            and not self._held_by_its_group(job.lane)
            and not self._held_by_its_tenant(job.lane)
        }
        if could_start:
            pool.now = max(pool.now, min(pool.accounts[tenant].v for tenant in could_start))

    def _somebody_serves(self, pool: str, queue: str) -> bool:
        """Whether "a live worker serves the queue or a claim asked for it within the last 60 s"."""
        served = self._pool(pool).served
        asked = [self._asked_ms[key] for key in ((pool, queue), (pool, None)) if key in self._asked_ms]
        return served is None or queue in served or any(self._now_ms - at_ms <= ASKED_FOR_MS for at_ms in asked)

    def _may_start(self, job: Waiting, room: Room) -> bool:
        """Whether this worker could run the job: "available, whose queue, task, tenant and named limits have room"."""
        ask, lane = room.ask, job.lane
        return (
            self._queue(lane.queue).pool == ask.pool
            and (room.queues is None or room.queues.get(lane.queue, 0) > 0)
            and (ask.tasks is None or lane.task in ask.tasks)
            and (job.express is not None or self._has_room(lane, room))
            and not self._held_by_its_group(lane)
            and not self._held_by_its_tenant(lane)
        )

    def _has_room(self, lane: LaneKey, room: Room) -> bool:
        """Whether slots kept by ``reserve`` let a job that is not express in.

        They are for a base tier or better, and "not a tenant beyond its urgent share".
        """
        if room.tiers is None:
            return True
        if min(room.tiers) <= 0 and self._beyond_share(room.ask.pool, lane.tenant):
            return False
        return min(room.tiers[: lane.tier + 1]) > 0

    def _beyond_share(self, name: str, tenant: str) -> bool:
        """Whether the tenant's running urgent jobs ("base tier at start, whatever rule") fill its share of slots."""
        slots = self._pool(name).slots
        urgent = [
            job
            for job in self._running
            if self._queue(job.start.lane.queue).pool == name
            and job.start.lane.tenant == tenant
            and job.start.lane.tier <= Tier.HIGH
        ]
        return slots > 0 and len(urgent) >= max(1, int(slots * self._policy.urgent_share))

    def _choose(self, room: Room) -> tuple[Waiting, Rule] | None:
        """Return the job that starts next and the rule that says so, or None."""
        jobs = [job for job in self._waiting if self._may_start(job, room)]
        express = [job for job in jobs if job.express is not None]
        others = [job for job in jobs if job.express is None]
        if self._policy.kind == "fair":
            risen = self._guaranteed(others, room)
            if risen is not None:
                return risen, "risen"
        if express:
            return min(express, key=lambda job: job.express or 0), "express"
        if not others:
            return None
        if self._policy.kind == "fifo":
            return _first(others), "fifo"
        if self._policy.kind == "strict":
            return self._most_effective(others, room), "tier"
        urgent = self._urgent(others, room)
        return (self._shared(others, room), "shared") if urgent is None else (urgent, "urgent")

    def _guaranteed(self, jobs: list[Waiting], room: Room) -> Waiting | None:
        """Rule 1: "every eighth belongs to risen jobs, if there is one that the asking worker can run"."""
        every, pool = self._policy.risen_every, self._pool(room.ask.pool)
        if every == 0 or pool.since < every - 1:
            return None
        rise: dict[Waiting, int] = {}
        for job in jobs:
            delay_ms = rise_delay_ms(job.lane.tier, self._policy.ageing_step_ms)
            if delay_ms is not None and job.place.arrival_ms + delay_ms <= room.now_ms:
                rise[job] = job.place.arrival_ms + delay_ms
        furthest: tuple[int, str] | None = None
        for tenant, account in pool.accounts.items():
            rises = [at_ms for job, at_ms in rise.items() if job.lane.tenant == tenant]
            if rises:
                later = min(rises) if account.last_ms is None else max(account.last_ms, min(rises))
                if furthest is None or later < furthest[0]:
                    furthest = later, tenant
        return None if furthest is None else _first(job for job in rise if job.lane.tenant == furthest[1])

    def _urgent(self, jobs: list[Waiting], room: Room) -> Waiting | None:
        """Rule 3: "CRITICAL, then HIGH, strict; tenants take turns within each", within their urgent share."""
        for tier in (Tier.CRITICAL, Tier.HIGH):
            of_tier = [
                job for job in jobs if job.lane.tier == tier and not self._beyond_share(room.ask.pool, job.lane.tenant)
            ]
            if of_tier:
                return _first(self._turn(of_tier, room))
        return None

    def _shared(self, jobs: list[Waiting], room: Room) -> Waiting:
        """Rule 4: whose turn it is, then "CRITICAL, HIGH (base tier), then the more urgent effective tier"."""

        def order(job: Waiting) -> tuple[int, int, Place]:
            if job.lane.tier <= Tier.HIGH:
                return 0, job.lane.tier, job.place
            return 1, self._effective(job, room.now_ms), job.place

        return min(self._turn(jobs, room), key=order)

    def _most_effective(self, jobs: list[Waiting], room: Room) -> Waiting:
        """Policy strict: "effective tier across all tenants, tenants take turns within a tier"."""
        best = min(self._effective(job, room.now_ms) for job in jobs)
        return _first(self._turn([job for job in jobs if self._effective(job, room.now_ms) == best], room))

    def _effective(self, job: Waiting, now_ms: int) -> int:
        return effective_tier(
            job.lane.tier,
            now_ms - job.place.arrival_ms,
            step_ms=self._policy.ageing_step_ms,
            ceiling=self._policy.ageing_ceiling,
        )

    def _turn(self, jobs: list[Waiting], room: Room) -> list[Waiting]:
        """Return the jobs of the tenant whose turn it is; "ties go to the most recently activated"."""
        accounts = self._pool(room.ask.pool).accounts
        tenant = min(
            {job.lane.tenant for job in jobs},
            key=lambda tenant: (accounts[tenant].v, -accounts[tenant].act),
        )
        return [job for job in jobs if job.lane.tenant == tenant]

    def _start(self, job: Waiting, rule: Rule, room: Room) -> Start:
        """Start the job: charge its tenant, count it, take the room and the tokens that it needs."""
        lane, pool = job.lane, self._pool(room.ask.pool)
        account = pool.accounts[lane.tenant]
        if rule == "risen":
            pool.since, account.last_ms = 0, room.now_ms
        else:
            pool.since += 1
        expected_us = self._expected_us(lane, pool)
        divided_by = divisor(self._tenant(lane.tenant).weight_milli, lane.tier)
        account.v = max(account.v, pool.now - lag(self._policy.max_lag_us)) + cost(expected_us, divided_by)
        self._book(("tenant", lane.tenant), "", self._tenant(lane.tenant).rate)
        keys = {key.replace(TENANT, lane.tenant): key for key in self._task(lane.task).limits}
        for key, template in keys.items():
            self._book(("limit", key), template, self._limit(key, template).rate)
        if room.queues is not None:
            room.queues[lane.queue] -= 1
        if room.tiers is not None and job.express is None:
            room.tiers = [left - (tier <= lane.tier) for tier, left in enumerate(room.tiers)]
        start = Start(lane, job.place, job.express, rule, expected_us, divided_by)
        self._waiting.remove(job)
        self._running.append(Running(start, room.ask.pool, frozenset(keys)))
        return start

    def _expected_us(self, lane: LaneKey, pool: Pool) -> int:
        """Return the run time to expect: the mean of "that queue, task and tenant", else the pool's, else unknown."""
        if self._policy.charge != "count":
            for mean in (self._means.get((lane.queue, lane.task, lane.tenant), Mean()), pool.mean):
                value_us = mean.value_us()
                if value_us is not None:
                    return value_us
        return SECOND_US if self._policy.charge != "time" else self._policy.unknown_run_us


def _first(jobs: Iterable[Waiting]) -> Waiting:
    """Return the job that arrived first."""
    return min(jobs, key=lambda job: job.place)
