"""Who takes part in decisions, and what each may do now.

The pools, queues, tasks, tenants, limits and lanes that a scheduler knows, the gates that close them, and where each
tenant stands in its pools after a change.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import count

from fairlane.domain.charging import Mean
from fairlane.domain.choosing import RULEBOOK, Rulebook
from fairlane.domain.lanes import LaneKey
from fairlane.domain.limits import TENANT_FIELD, Gate, filled
from fairlane.domain.policy import LimitRule, Policy
from fairlane.domain.turns import Group, Lane, Limit, Pool, Queue, Task, Tenant, Turn


class Roster:
    """Everything that a decision looks at, looked up by name and made when it is new.

    While ``passive`` is set what another replica stated is replayed: nobody is activated, nothing counts as changed,
    and where tenants and lanes stand is worked out once, at the end.

    Args:
        policy: The rules.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now_ms = 0
        self.pools: dict[str, Pool] = {}
        self.queues: dict[str, Queue] = {}
        self.tasks: dict[str, Task] = {}
        self.tenants: dict[str, Tenant] = {}
        self.limits: dict[str, Limit] = {}
        self.means: dict[tuple[str, str, str], Mean] = {}
        self.lanes: dict[LaneKey, Lane] = {}
        self.changed_turns: set[Turn] = set()
        self.changed_pools: set[Pool] = set()
        self.changed_means: set[tuple[str, str, str]] = set()
        self.changed_gates: set[Tenant | Limit] = set()
        self.openings = 0
        self.passive = False
        self._unplaced: set[Turn] = set()  # tenants to be looked at when the replay is over
        self._rules = RULEBOOK[policy.kind](policy)
        self._limit_rules: dict[str, LimitRule] = {}
        self._groups: dict[tuple[str, str], Group] = {}
        self._bits = 0
        self._open = 0
        self._timers: list[tuple[int, int, Gate]] = []
        self._timer_numbers = count()

    @property
    def rules(self) -> Rulebook:
        """The rules of the policy."""
        return self._rules

    @contextmanager
    def replaying(self) -> Generator[None]:
        """Be passive; what others have chosen is taken over, and where everybody stands worked out at the end."""
        self.passive = True
        try:
            yield
            self._place()
        finally:
            self.passive = False

    # ------------------------------------------------------------------ where a tenant stands

    def _place(self) -> None:
        """Work out where the tenants stand that a replay has touched."""
        for turn in self._unplaced:
            self._rules.show(turn, self._groups_of(turn))
        self._unplaced.clear()

    def _groups_of(self, turn: Turn) -> tuple[int, ...]:
        """Return, by class, the groups under which a tenant stands now."""
        if turn.tenant.closed:
            return self._rules.none
        bound = turn.pool.urgent_bound
        turn.over = bound is not None and turn.urgent >= bound
        return self._rules.groups(turn, ~turn.blocked)

    def _look_at(self, turns: Iterable[Turn]) -> None:
        """Look at tenants that may become able at once, in the order in which they were first seen."""
        for turn in sorted(turns, key=by_seen):
            self._look(turn)

    def _look(self, turn: Turn) -> None:
        """Work out where a tenant stands after a change; activate it if it has become able by its own doing."""
        if self.passive:
            self._unplaced.add(turn)
            return
        groups = self._groups_of(turn)
        able = any(groups) or (not turn.tenant.closed and any(bit & ~turn.blocked for bit in turn.express))
        if able and not turn.able:
            pool = turn.pool
            pool.activations += 1
            turn.activation = pool.activations
            turn.virtual = max(turn.virtual, pool.now)
            self.changed_pools.add(pool)
        turn.able = able
        self.changed_turns.add(turn)
        self._rules.show(turn, groups)

    # ------------------------------------------------------------------ gates

    def _refresh(self, gate: Gate, now_ms: int | None = None) -> None:
        """Work out whether a gate is closed and let everybody know who depends on it."""
        self._look_at(self._reopened(gate, self.now_ms if now_ms is None else now_ms))

    def _reopened(self, gate: Gate, now_ms: int) -> set[Turn]:
        """Refresh a gate; return the tenants that must be looked at."""
        changed = gate.refresh(now_ms)
        opens = gate.opens_ms(now_ms)
        if opens is not None and (gate.timer_ms is None or opens < gate.timer_ms):
            gate.timer_ms = opens
            heapq.heappush(self._timers, (opens, next(self._timer_numbers), gate))
        touched: set[Turn] = set()
        if not changed:
            return touched
        self.openings += not gate.closed
        if isinstance(gate, Tenant):
            touched.update(gate.turns.values())
        elif isinstance(gate, Queue | Task | Limit):
            for group in gate.groups:
                self._shut(group)
        if isinstance(gate, Limit):
            for tenant, group in list(gate.own.values()):
                turn = self._turn(self._pool(group.queue.rule.pool), tenant)
                if self._blocks(turn, group):
                    touched.add(turn)
        return touched

    def _shut(self, group: Group) -> None:
        group.closed = group.shut()
        if group.closed:
            self._open &= ~group.bit
        else:
            self._open |= group.bit

    def _blocks(self, turn: Turn, group: Group) -> bool:
        """Work out whether a group is closed to one tenant alone; return whether that changed."""
        most = group.queue.rule.tenant_max_running
        blocked = most is not None and turn.tenant.by_queue.get(group.queue.name, 0) >= most
        if not blocked and group.templates:
            blocked = any(self._own_limit(template, turn.tenant, group).closed for template in group.templates)
        before = turn.blocked
        turn.blocked = before | group.bit if blocked else before & ~group.bit
        self.openings += turn.blocked < before
        return turn.blocked != before

    def _block(self, turn: Turn, group: Group) -> None:
        """A (queue, tenant) cap may have been reached or left: all groups of the queue."""
        for other in group.queue.groups:
            self._blocks(turn, other)

    def _reblock(self, groups: list[Group]) -> None:
        """Rules of groups have changed: look at every tenant with something in them."""
        touched: set[Turn] = set()
        for group in groups:
            for turn in self._pool(group.queue.rule.pool).turns.values():
                if self._blocks(turn, group):
                    touched.add(turn)
        self._look_at(touched)

    def _bind(self, group: Group) -> None:
        """Take the limits of the group's task."""
        for limit in group.limits:
            limit.groups.remove(group)
        keys = group.task.rule.limits
        group.limits = [self._limit(key) for key in keys if TENANT_FIELD not in key]
        group.templates = tuple(key for key in keys if TENANT_FIELD in key)
        for limit in group.limits:
            limit.groups.append(group)
        self._shut(group)

    def _apply_limit(self, limit: Limit, template: str) -> set[Turn]:
        """Give a limit its rule, its own or that of its template; return the tenants that must be looked at."""
        rule = self._limit_rules.get(limit.key) or self._limit_rules.get(template) or LimitRule()
        limit.set(pause=rule.pause, max_running=rule.max_running, rate=rule.rate)
        self.changed_gates.add(limit)
        return self._reopened(limit, self.now_ms)

    # ------------------------------------------------------------------ look-up, made when new

    def pool(self, name: str) -> Pool:
        """Return the pool of this name, made when it is new."""
        return self._pool(name)

    def turn(self, pool: str, tenant: str) -> Turn:
        """Return a tenant's turn in a pool, made when it is new."""
        return self._turn(self._pool(pool), self._tenant(tenant))

    def limit(self, key: str) -> Limit:
        """Return the named limit with this filled-in key, made when it is new."""
        return self._limit(key)

    def tenant(self, name: str) -> Tenant:
        """Return the tenant over all pools, made when it is new."""
        return self._tenant(name)

    def _pool(self, name: str) -> Pool:
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = Pool(name, self._rules.classes)
        return pool

    def _queue(self, name: str) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
        return queue

    def _task(self, name: str) -> Task:
        task = self.tasks.get(name)
        if task is None:
            task = self.tasks[name] = Task(name)
        return task

    def _tenant(self, name: str) -> Tenant:
        tenant = self.tenants.get(name)
        if tenant is None:
            tenant = self.tenants[name] = Tenant(name)
        return tenant

    def _turn(self, pool: Pool, tenant: Tenant) -> Turn:
        turn = pool.turns.get(tenant.name)
        if turn is None:
            pool.seen += 1
            if not self.passive:
                self.changed_pools.add(pool)
            turn = pool.turns[tenant.name] = tenant.turns[pool.name] = Turn(tenant, pool, pool.seen)
            turn.urgent = self._urgent(tenant, pool)
            for group in pool.groups:
                if group.templates or group.queue.rule.tenant_max_running is not None:
                    self._blocks(turn, group)
        return turn

    def _urgent(self, tenant: Tenant, pool: Pool) -> int:
        running = tenant.urgent_by_queue.items()
        return sum(number for queue, number in running if self._queue(queue).rule.pool == pool.name)

    def _limit(self, key: str) -> Limit:
        limit = self.limits.get(key)
        if limit is None:
            limit = self.limits[key] = Limit(key)
            if key in self._limit_rules:
                self._look_at(self._apply_limit(limit, key))
        return limit

    def _own_limit(self, template: str, tenant: Tenant, group: Group) -> Limit:
        limit = self._limit(filled(template, tenant.name))
        if (tenant.name, group.bit) not in limit.own:
            limit.own[tenant.name, group.bit] = (tenant, group)
        if limit.template != template:
            limit.template = template
            self._look_at(self._apply_limit(limit, template))
        return limit

    def _group(self, queue: Queue, task_name: str) -> Group:
        group = self._groups.get((queue.name, task_name))
        if group is None:
            task = self._task(task_name)
            group = self._groups[queue.name, task_name] = Group(1 << self._bits, queue, task)
            self._bits += 1
            queue.groups.append(group)
            task.groups.append(group)
            self._pool(queue.rule.pool).join(group)
            self._bind(group)
            if group.templates or queue.rule.tenant_max_running is not None:
                self._reblock([group])
        return group

    def _lane(self, key: LaneKey) -> Lane:
        lane = self.lanes.get(key)
        if lane is None:
            queue = self._queue(key.queue)
            group = self._group(queue, key.task)
            turn = self._turn(self._pool(queue.rule.pool), self._tenant(key.tenant))
            lane = self.lanes[key] = Lane(key, group, turn)
        return lane


def by_seen(turn: Turn) -> int:
    """Sort tenants as they were first seen in their pool."""
    return turn.seen
