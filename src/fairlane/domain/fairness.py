"""Who runs next: the policy of SPEC section 2, stated once.

The stores, the simulator and the property tests all run this class. It holds the state of a decision in memory and
is told everything that happens, in order; it reads no clock and draws nothing. Two schedulers that are told the same
calls in the same order hold the same state and choose the same jobs.

Cost: a decision takes O(log n) plus a step for each distinct set of groups that it passes over and for each group in
which the chosen tenant has work; a job that comes, goes or ends takes O(log n). Neither grows with the number of
waiting jobs, of tenants, or of what is paused or full.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from fairlane.domain.backlog import Backlog, Refill
from fairlane.domain.charging import Mean, cost, divisor, lag
from fairlane.domain.choosing import Decision
from fairlane.domain.lanes import Ask, LaneKey, Place, Start
from fairlane.domain.limits import TENANT_FIELD, Gate
from fairlane.domain.policy import LimitRule, Policy, QueueRule, TaskRule, TenantRule
from fairlane.domain.roster import by_seen
from fairlane.domain.tiers import Tier
from fairlane.domain.turns import Lane, Limit, Pool, Queue, Tenant, Turn

CLOCK_STEP_MS = 1_000
"""A clock that goes back further than this was set."""

ASKED_MS = 60_000
"""A queue counts as served for this long after a claim asked for it."""


class Scheduler(Backlog):
    """The state of all pools of one store, and the decision.

    Args:
        policy: The rules.
        refill: Loads more of a lane whose jobs in memory are used up; without it every lane is whole in memory.
        lane_buffer: How many jobs of a lane are kept in memory when there is a ``refill``.
    """

    def __init__(self, policy: Policy, *, refill: Refill | None = None, lane_buffer: int = 256) -> None:
        super().__init__(policy, refill=refill, lane_buffer=lane_buffer)
        self._running: dict[int, Sequence[Limit]] = {}
        self._lag = lag(policy.max_lag_us)

    # ------------------------------------------------------------------ rules

    def set_queue(self, name: str, rule: QueueRule) -> None:
        """Set the rule of a queue; one that changes its pool brings its tenants in at that pool's time."""
        queue = self._queue(name)
        moved = rule.pool != queue.rule.pool
        old_pool, queue.rule = queue.rule.pool, rule
        queue.set(pause=rule.pause, max_running=rule.max_running)
        if moved:
            self._move(queue, self._pool(old_pool), self._pool(rule.pool))
        self._refresh(queue)
        self._reblock(queue.groups)

    def set_task(self, name: str, rule: TaskRule) -> None:
        """Set the rule of a task; jobs that run already keep the limits they started under."""
        task = self._task(name)
        task.rule = rule
        task.set(pause=rule.pause)
        for group in task.groups:
            self._bind(group)
        self._refresh(task)
        self._reblock(task.groups)

    def set_tenant(self, name: str, rule: TenantRule) -> None:
        """Set the rule of a tenant."""
        tenant = self._tenant(name)
        tenant.rule = rule
        tenant.set(pause=rule.pause, max_running=rule.max_running, rate=rule.rate)
        self.changed_gates.add(tenant)
        self._refresh(tenant)

    def set_limit(self, key: str, rule: LimitRule) -> None:
        """Set the rule of a named limit; a key with ``{tenant}`` sets it for every tenant without a rule of its own."""
        self._limit_rules[key] = rule
        if TENANT_FIELD not in key:
            self._look_at(self._apply_limit(self._limit(key), key))
        else:
            touched: set[Turn] = set()
            for limit in [limit for limit in self.limits.values() if limit.template == key]:
                touched |= self._apply_limit(limit, key)
            self._look_at(touched)

    def set_workers(self, pool: str, slots: int, queues: frozenset[str] | None) -> None:
        """Set what the live workers of a pool declare together: their slots, and the queues they serve (None: all)."""
        state = self._pool(pool)
        state.slots, state.served = slots, queues
        state.urgent_bound = max(1, int(slots * self.policy.urgent_share)) if slots else None
        self._look_at(turn for turn in state.turns.values() if turn.urgent)

    def close_limit(self, key: str, until_ms: int) -> None:
        """Close a named limit for everyone until an instant: a handler was told to wait."""
        limit = self._limit(key)
        limit.held_until_ms = max(limit.held_until_ms, until_ms)
        self.changed_gates.add(limit)
        self._refresh(limit)

    # ------------------------------------------------------------------ the decision

    def claim(self, ask: Ask, now_ms: int) -> list[Start]:
        """Start up to ``ask.count`` jobs, each chosen by the policy after the one before it has started.

        Args:
            ask: What the worker can run.
            now_ms: The instant of the decisions, milliseconds UTC.

        Returns:
            The starts in order; fewer than asked for when nothing more may run.
        """
        self.notice(now_ms)
        pool = self._pool(ask.pool)
        self.ask(pool, None if ask.queues is None else [name for name, free in ask.queues.items() if free > 0], now_ms)
        decision = Decision(pool, now_ms, ask, self._open, self._served(pool, now_ms))
        starts: list[Start] = []
        while len(starts) < ask.count:
            chosen = self._rules.choose(decision)
            if decision.pool_time_moved:
                self.changed_pools.add(pool)
            if chosen is None:
                break
            lane, place, express, rule = chosen
            start = self._charge(lane, place, express, rule, now_ms)
            starts.append(start)
            self.began(start.lane, place, express, now_ms)
            decision.started(lane, express is not None, self._open)
        return starts

    def decision(self, ask: Ask, now_ms: int) -> Decision:
        """Return a claim as it would be answered now, for who wants to look; :meth:`notice` comes first."""
        pool = self._pool(ask.pool)
        return Decision(pool, now_ms, ask, self._open, self._served(pool, now_ms))

    def _served(self, pool: Pool, now_ms: int) -> int:
        """The groups whose queue a live worker serves or a claim asked for lately; ``-1`` when it is all of them."""
        since = now_ms - ASKED_MS
        if pool.served is None or (pool.asked_all_ms is not None and pool.asked_all_ms >= since):
            return -1
        served = pool.served
        asked = pool.asked_ms
        mask = 0
        for group in pool.groups:
            name = group.queue.name
            if name in served or asked.get(name, since - 1) >= since:
                mask |= group.bit
        return mask

    def _charge(self, lane: Lane, place: Place, express: int | None, rule: str, now_ms: int) -> Start:
        turn = lane.turn
        pool = turn.pool
        expected = self.policy.unknown_us
        if self.policy.charge != "count":
            mean = self.means.get(lane.mean_key)
            value = (mean or pool.mean).value_us()
            if value is not None:
                expected = value
        divided_by = divisor(turn.tenant.rule.weight_milli, lane.tier)
        turn.virtual = max(turn.virtual, pool.now - self._lag) + cost(expected, divided_by)
        if rule == "risen":
            pool.since = 0
            turn.last_ms = now_ms
        else:
            pool.since += 1
        self.changed_pools.add(pool)
        return Start(lane.key, place, express, rule, expected, divided_by)  # type: ignore[arg-type]  # a Rule by construction

    def ask(self, pool: Pool, queues: Iterable[str] | None, now_ms: int) -> None:
        """Remember that a claim asked for queues (None: all of the pool)."""
        if queues is None:
            pool.asked_all_ms = now_ms
        else:
            for name in queues:
                pool.asked_ms[name] = now_ms

    def notice(self, now_ms: int) -> None:
        """Open what time has opened, and let jobs age: done at the start of every claim.

        Small steps back of the clock (another process read it a moment earlier) count as none; after a large one
        everything that waits for an instant is worked out anew, so that nothing stalls until the old time comes again.
        """
        due: list[Gate] = []
        if now_ms + CLOCK_STEP_MS < self.now_ms:
            due = [gate for _, _, gate in self._timers]
            self._timers.clear()
            for gate in due:
                gate.timer_ms = None
        else:
            now_ms = max(self.now_ms, now_ms)
        self.now_ms = now_ms
        while self._timers and self._timers[0][0] <= now_ms:
            gate = heapq.heappop(self._timers)[2]
            gate.timer_ms = None
            due.append(gate)
        touched: set[Turn] = set()
        for gate in due:
            touched |= self._reopened(gate, now_ms)
        if self._rules.ages:
            for pool in self.pools.values():
                touched |= self._rules.aged(pool, now_ms)
        if touched:
            self._look_at(touched)

    def next_opening_ms(self) -> int | None:
        """Return the next instant at which time may open a gate, or None."""
        return self._timers[0][0] if self._timers else None

    # ------------------------------------------------------------------ what runs

    def began(self, key: LaneKey, place: Place, express: int | None, now_ms: int) -> None:
        """Count a start, here or (told by another replica) elsewhere: the job leaves its lane and takes up room."""
        lane = self._lane(key)
        turn = lane.turn
        self._take(lane, place, express)
        if place.seq in self._running:
            return
        group = lane.group
        tenant = turn.tenant
        limits: Sequence[Limit] = ()
        if group.limits or group.templates:
            limits = [*group.limits, *(self._own_limit(template, tenant, group) for template in group.templates)]
        self._running[place.seq] = limits
        self._run(tenant, turn, group.queue, lane.tier)
        for gate in (group.queue, *limits, tenant):
            if gate.started(now_ms):
                if isinstance(gate, Tenant | Limit):
                    self.changed_gates.add(gate)
                self._refresh(gate, now_ms)
        if group.queue.rule.tenant_max_running is not None:
            self._block(turn, group)
        self._look(turn)

    def _run(self, tenant: Tenant, turn: Turn | None, queue: Queue, tier: int) -> None:
        tenant.by_queue[queue.name] = tenant.by_queue.get(queue.name, 0) + 1
        if tier <= Tier.HIGH:
            tenant.urgent_by_queue[queue.name] = tenant.urgent_by_queue.get(queue.name, 0) + 1
            if turn is not None:
                turn.urgent += 1

    def finish(self, start: Start, run_us: int, *, in_mean: bool = True, units_us: int | None = None) -> None:
        """A running job ended; its tenant is charged the difference to what it really used.

        Args:
            start: The start as it was returned.
            run_us: Its run time in microseconds; a crashed run counts up to its last heartbeat.
            in_mean: Whether the run teaches the expected run time; a run that was given back does not.
            units_us: What the handler reported with ``ctx.charge``, one unit as 1,000,000 (``charge="cost"``).
        """
        key = start.lane
        queue = self._queue(key.queue)
        pool = self._pool(queue.rule.pool)
        tenant = self._tenant(key.tenant)
        turn = self._turn(pool, tenant)
        charge = self.policy.charge
        used = run_us if charge == "time" else units_us if charge == "cost" else None
        if used is not None:
            turn.virtual += cost(used, start.divided_by) - cost(start.expected_us, start.divided_by)
            if in_mean:
                mean_key = key[:3]
                self.means[mean_key] = self.means.get(mean_key, Mean()).add(used)
                pool.mean = pool.mean.add(used)
                self.changed_means.add(mean_key)
                self.changed_pools.add(pool)
        self._leave(queue, turn, key, start.place.seq)

    def ended(self, key: LaneKey, seq: int) -> None:
        """Count an end that another replica tells: the job's room is free again."""
        queue = self._queue(key.queue)
        self._leave(queue, self._turn(self._pool(queue.rule.pool), self._tenant(key.tenant)), key, seq)

    def _leave(self, queue: Queue, turn: Turn, key: LaneKey, seq: int) -> None:
        limits = self._running.pop(seq, None)
        if limits is not None:
            tenant = turn.tenant
            tenant.by_queue[queue.name] -= 1
            if key.tier <= Tier.HIGH:
                tenant.urgent_by_queue[queue.name] -= 1
                turn.urgent -= 1
            if queue.finished():
                self._refresh(queue)
            if queue.rule.tenant_max_running is not None:
                self._block(turn, self._group(queue, key.task))
            for limit in limits:
                if limit.finished():
                    self._refresh(limit)
            if tenant.finished():
                self._refresh(tenant)
        self._look(turn)

    def limits_of(self, seq: int) -> list[str]:
        """Return the keys of the named limits that a running job counts against."""
        return [limit.key for limit in self._running.get(seq, ())]

    # ------------------------------------------------------------------ state taken from elsewhere

    def load_running(self, key: LaneKey, seq: int, limits: Iterable[str]) -> None:
        """Count a running job without charging it: the state as it is stored."""
        queue, tenant = self._queue(key.queue), self._tenant(key.tenant)
        held = [self._limit(name) for name in limits]
        self._running[seq] = held
        self._group(queue, key.task)
        self._run(tenant, self._pool(queue.rule.pool).turns.get(tenant.name), queue, key.tier)
        for gate in (queue, *held, tenant):
            gate.running += 1

    def settle_in(self) -> None:
        """Work out every gate and every tenant's place after loading."""
        for gate in (*self.queues.values(), *self.tasks.values(), *self.limits.values(), *self.tenants.values()):
            self._reopened(gate, self.now_ms)
        for pool in self.pools.values():
            own = [group for group in pool.groups if group.templates or group.queue.rule.tenant_max_running is not None]
            for turn in sorted(pool.turns.values(), key=by_seen):
                for group in own:
                    self._blocks(turn, group)
                self._look(turn)

    def assign(self, turn: Turn, *, virtual: int, activation: int, last_ms: int, able: bool, seen: int) -> None:
        """Take over a tenant's stored turn."""
        turn.virtual, turn.activation, turn.last_ms, turn.able, turn.seen = virtual, activation, last_ms, able, seen
        turn.pool.seen = max(turn.pool.seen, seen)
        turn.shown = ()
        self._look(turn)

    def assign_gate(self, gate: Tenant | Limit, *, tat: int, held_until_ms: int) -> None:
        """Take over what a rate or a handler's wait has stored."""
        gate.tat, gate.held_until_ms = gate.saved = tat, held_until_ms
        self._refresh(gate)

    def clear_changes(self) -> None:
        """Forget what has changed: it is stored."""
        self.changed_turns.clear()
        self.changed_pools.clear()
        self.changed_means.clear()
        self.changed_gates.clear()
