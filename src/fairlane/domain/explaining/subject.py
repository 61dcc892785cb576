"""A job that an explanation is about, and what surrounds it."""

from __future__ import annotations

from fairlane.domain.explaining.values import Around
from fairlane.domain.fairness import ASKED_MS, Scheduler
from fairlane.domain.jobs import JobRecord
from fairlane.domain.lanes import Place
from fairlane.domain.limits import filled
from fairlane.domain.policy import Policy
from fairlane.domain.tiers import effective_tier
from fairlane.domain.turns import Lane, Limit, Pool, Tenant, Turn


class Subject:
    """A waiting job with all that its explanation needs."""

    def __init__(self, scheduler: Scheduler, record: JobRecord, around: Around, now_ms: int) -> None:
        self.scheduler = scheduler
        self.record = record
        self.around = around
        self.now_ms = now_ms
        self.policy: Policy = scheduler.policy
        self.key = record.lane
        self.place = Place(record.arrival_ms, record.seq)
        self.waited_ms = max(0, now_ms - record.arrival_ms)
        rule = scheduler.queues[record.queue].rule if record.queue in scheduler.queues else None
        self.pool_name = "default" if rule is None else rule.pool
        self.pool: Pool = scheduler.pool(self.pool_name)
        self.lane: Lane | None = scheduler.lanes.get(self.key)
        self.turn: Turn | None = self.pool.turns.get(record.tenant)
        self.level = self.level_at(record.tier, record.arrival_ms)
        if not record.state.waiting:  # it has aged until it started
            since_ms = record.arrival_ms + now_ms - (record.started_at_ms or record.arrival_ms)
            self.level = self.level_at(record.tier, since_ms)
        self.serving = [
            worker
            for worker in around.workers
            if worker.pool == self.pool_name and (worker.queues is None or record.queue in worker.queues)
        ]
        self.able = [worker for worker in self.serving if worker.tasks is None or self.key.task in worker.tasks]

    def level_at(self, tier: int, arrival_ms: int) -> int:
        """Return the tier that a job counts as now."""
        policy = self.policy
        waited = self.now_ms - arrival_ms
        return effective_tier(tier, waited, step_ms=policy.ageing_step_ms, ceiling=policy.ageing_ceiling)

    @property
    def pulled(self) -> bool:
        """Whether a claim that is no worker's asked for the queue lately."""
        pool, since = self.pool, self.now_ms - ASKED_MS
        asked = pool.asked_ms.get(self.key.queue)
        return (pool.asked_all_ms is not None and pool.asked_all_ms >= since) or (asked is not None and asked >= since)

    @property
    def slots(self) -> int:
        """The slots of the workers that may run it."""
        return sum(worker.slots for worker in self.able)

    def used(self) -> int:
        """Return how many of those slots are in use."""
        return sum(min(worker.slots, self.around.busy.get(worker.id, 0)) for worker in self.able)

    def tenant(self) -> Tenant | None:
        """Return its tenant, if the scheduler knows it."""
        return self.scheduler.tenants.get(self.key.tenant)

    def limits(self) -> list[Limit]:
        """Return the named limits that it counts against."""
        task = self.scheduler.tasks.get(self.key.task)
        keys = () if task is None else task.rule.limits
        found = (self.scheduler.limits.get(filled(key, self.key.tenant)) for key in keys)
        return [limit for limit in found if limit is not None]
