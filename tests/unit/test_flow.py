"""Cumulative metrics: every start and end is counted once, in its bucket, however the looks at the store fall."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

import fairlane as fl
from fairlane import exposition, metrics
from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.lanes import Ask
from fairlane.flow import BOUNDS_S, LATE_MS, MOST_QUEUES, Flow
from fairlane.metrics import Distribution, Facts, Sample
from fairlane.store import Store
from fairlane.testing import ManualClock

HIGH = ("mail", "high")


class Looks:
    """A store on a clock that stands still, and a server's looks at it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.app = fl.Fairlane("sqlite://", clock=self.clock)
        self.flow = Flow()
        self.look()

    def facts(self, flow: Flow | None = None) -> Facts:
        after = (self.flow if flow is None else flow).after
        return self.app.owner.read(partial(metrics.facts_of, after=after))

    def look(self) -> dict[tuple[str, tuple[str, ...]], float | Distribution]:
        return {(name, labels): value for name, labels, value in self.flow.take(self.facts())}

    def run(self, *, wait_s: float = 0.0, run_s: float = 0.0, how: str = "ack", **options: object) -> None:
        """Let a job wait, run and end."""
        options = {"queue": "mail", "tier": "high"} | options
        self.app.enqueue("t", **options)  # type: ignore[arg-type]
        self.clock.advance(seconds=wait_s)
        claim = self.app.claim(queues=[str(options["queue"])], lease=86_400)
        assert claim is not None
        self.clock.advance(seconds=run_s)
        getattr(claim, how)(*(() if how == "ack" else ("why",)))


@pytest.fixture
def looks() -> Iterator[Looks]:
    made = Looks()
    yield made
    made.app.close()


def distribution(value: object) -> Distribution:
    assert isinstance(value, Distribution)
    return value


def test_waits_and_runs_by_queue_and_tier(looks: Looks) -> None:
    """T-B15."""
    looks.run(wait_s=0.25, run_s=2)
    looks.run(wait_s=130, run_s=0)
    looks.run(tier="low", run_s=1)
    told = looks.look()
    waits = distribution(told["fairlane_job_wait_seconds", HIGH])
    assert dict(zip((*BOUNDS_S, None), waits.counts, strict=True)) == dict.fromkeys((*BOUNDS_S, None), 0) | {
        0.25: 1,  # what is equal to a bound is below it
        300.0: 1,
    }
    assert waits.total == 130.25
    assert distribution(told["fairlane_job_run_seconds", HIGH]).total == 2
    assert sum(distribution(told["fairlane_job_wait_seconds", ("mail", "low")]).counts) == 1
    assert told["fairlane_jobs_finished_total", (*HIGH, "completed")] == 2
    assert told["fairlane_wait_objective_total", ("high", "true")] == 1
    assert told["fairlane_wait_objective_total", ("high", "false")] == 1
    assert ("fairlane_wait_objective_total", ("low", "true")) not in told, "the tier has no objective"


def test_each_is_counted_once_and_nothing_gets_less(looks: Looks) -> None:
    looks.run()
    first = looks.look()
    assert looks.look() == first
    looks.clock.advance(seconds=LATE_MS / 1000 + 1)
    assert looks.look() == first
    looks.run(how="dead")
    told = looks.look()
    assert told["fairlane_jobs_finished_total", (*HIGH, "completed")] == 1
    assert told["fairlane_jobs_finished_total", (*HIGH, "dead")] == 1
    assert sum(distribution(told["fairlane_job_wait_seconds", HIGH]).counts) == 2


def test_what_was_before_the_first_look_is_not_counted(looks: Looks) -> None:
    looks.run()
    flow = Flow()
    assert flow.take(looks.facts(flow)) == []
    assert flow.take(looks.facts(flow)) == []
    looks.run()
    told = {(name, labels): value for name, labels, value in flow.take(looks.facts(flow))}
    assert told["fairlane_jobs_finished_total", (*HIGH, "completed")] == 1


def test_what_is_found_late_is_counted(looks: Looks) -> None:
    """Another process may commit after a look what it decided before it."""
    before = looks.facts()
    looks.run()
    after = looks.facts()
    flow = Flow()
    flow.take(before._replace(now_ms=before.now_ms))
    flow.take(before._replace(now_ms=before.now_ms + LATE_MS))
    told = {(name, labels): value for name, labels, value in flow.take(after._replace(now_ms=before.now_ms + LATE_MS))}
    assert told["fairlane_jobs_finished_total", (*HIGH, "completed")] == 1


def test_queues_are_bounded_and_keep_their_names(looks: Looks) -> None:
    for number in range(MOST_QUEUES + 5):
        looks.run(queue=f"q{number}")
    told = looks.look()
    named = {labels[0] for name, labels in told if name == "fairlane_job_wait_seconds"}
    assert len(named) == MOST_QUEUES + 1
    assert told["fairlane_jobs_finished_total", ("other", "high", "completed")] == 5


def test_jobs_that_were_stored_are_counted_once(looks: Looks) -> None:
    looks.app.enqueue_many(looks.app.new("t", queue="mail", tier="high") for _ in range(3))
    looks.app.enqueue("t", queue="mail", tier="low", delay=60)
    looks.app.enqueue("t", queue="mail", tier="low", dedup_key="k")
    looks.app.enqueue("t", queue="mail", tier="low", dedup_key="k")
    told = looks.look()
    assert told["fairlane_jobs_enqueued_total", HIGH] == 3
    assert told["fairlane_jobs_enqueued_total", ("mail", "low")] == 2, "a dedup return stores no job"
    assert looks.look() == told
    looks.run()
    assert looks.look()["fairlane_jobs_enqueued_total", HIGH] == 4, "also one that has ended by now"


def test_what_one_look_leaves_the_next_one_counts(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_ARRIVALS", 4)
    looks.app.enqueue_many(looks.app.new("t", queue="mail", tier="high") for _ in range(10))
    counts = [looks.look()["fairlane_jobs_enqueued_total", HIGH] for _ in range(4)]
    assert counts == [4, 8, 10, 10]


def test_attempts_are_counted_by_result_when_their_job_ends(looks: Looks) -> None:
    def claim() -> fl.PulledClaim:
        taken = looks.app.claim(lease=10)
        assert taken is not None
        return taken

    looks.app.enqueue("t", queue="mail", tier="high")
    claim().nack("why", retry_in=0)
    claim().release()
    claim()
    looks.clock.advance(seconds=11)
    last = claim()
    assert not [one for one in looks.look() if one[0] == "fairlane_job_attempts_total"]
    last.ack()
    looks.run(how="dead")
    looks.app.cancel(looks.app.enqueue("t", queue="mail", tier="high").id)
    told = looks.look()
    results = {labels[2]: value for (name, labels), value in told.items() if name == "fairlane_job_attempts_total"}
    assert results == {"completed": 1, "failed": 2, "crashed": 1}


def test_busy_slots_are_those_of_workers_on_record(looks: Looks) -> None:
    def register(store: Store, now_ms: int) -> None:
        for worker, slots in (("w1", 4), ("w2", 2)):
            store.register(WorkerRecord(id=worker, pool="default", queues=None, slots=slots), now_ms)
        store.claim(Ask("default", 2), worker="w1", lease_ms=60_000, now_ms=now_ms)
        store.claim(Ask("default", 1), worker="w2", lease_ms=60_000, now_ms=now_ms)

    looks.app.enqueue_many(looks.app.new("t") for _ in range(4))
    looks.app.owner.call(register)
    assert looks.app.claim() is not None, "a claim of a program's own is in no worker's slot"
    told = {(name, labels): value for name, labels, value in metrics.samples(looks.facts())}
    assert told["fairlane_worker_slots", ("default",)] == 6
    assert told["fairlane_worker_slots_busy", ("default",)] == 3


def test_tenants_are_told_only_when_asked_for_and_bounded(looks: Looks) -> None:
    for tenant, count in (("big", 5), ("small", 1), ("second", 3), ("tiny", 1)):
        looks.app.enqueue_many(looks.app.new("t", tenant=tenant) for _ in range(count))
        looks.clock.advance(seconds=1)
    assert not [name for name, _, _ in metrics.samples(looks.facts()) if "tenant" in name]
    told = {(name, labels): value for name, labels, value in metrics.samples(looks.facts(), tenants=2)}
    available = {labels[0]: value for (name, labels), value in told.items() if name == "fairlane_tenant_available_jobs"}
    assert available == {"big": 5, "second": 3, "other": 2}
    assert told["fairlane_tenant_oldest_available_seconds", ("other",)] == 3, "the oldest of all the others"
    assert told["fairlane_tenant_running_jobs", ("big",)] == 0


def text_of(*told: Sample) -> str:
    return exposition.written(told)[0].decode()


def test_a_histogram_is_written_with_buckets_that_add_up() -> None:
    told = text_of(("fairlane_job_wait_seconds", ("a", "low"), Distribution((2, 0, 1), 1_234_567.5, (0.5, 60.0))))
    assert told.splitlines()[1:] == [
        "# TYPE fairlane_job_wait_seconds histogram",
        'fairlane_job_wait_seconds_bucket{le="0.5",queue="a",tier="low"} 2.0',
        'fairlane_job_wait_seconds_bucket{le="60.0",queue="a",tier="low"} 2.0',
        'fairlane_job_wait_seconds_bucket{le="+Inf",queue="a",tier="low"} 3.0',
        'fairlane_job_wait_seconds_count{queue="a",tier="low"} 3.0',
        'fairlane_job_wait_seconds_sum{queue="a",tier="low"} 1.2345675e+06',
    ]
    (family,) = text_string_to_metric_families(text_of(("fairlane_dead_jobs", (), 1_000_001)))
    assert family.samples[0].value == 1_000_001, "no digit is lost"


def test_the_same_figures_are_openmetrics_for_who_asks_for_it() -> None:
    told: list[Sample] = [("fairlane_operations_total", ('a"\\\n', "true"), 2), ("fairlane_workers", ("p",), 3)]
    body, media_type = exposition.written(told, "application/openmetrics-text; version=nonsense, text/plain;q=0.5")
    assert media_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in openmetrics_families(body.decode())}
    assert families["fairlane_operations"].samples[0].labels == {"operation": 'a"\\\n', "priority": "true"}
    assert families["fairlane_workers"].type == "gauge"
    for accept in ("", "*/*", "text/plain; version=nonsense"):
        body, media_type = exposition.written(told, accept)
        assert media_type == "text/plain; version=0.0.4; charset=utf-8"
        assert b"fairlane_operations_total{" in body


def test_a_programs_own_registry_takes_the_metrics(looks: Looks) -> None:
    """Every metric of the store passes what prometheus-client checks of names, and names only labels of the table."""
    looks.app.enqueue("t", queue="mail", tier="high", expedite=True)
    registry = CollectorRegistry(auto_describe=True)
    mine = exposition.StoreMetrics(looks.app, tenants=1)
    registry.register(mine)
    assert registry.get_sample_value("fairlane_available_jobs", {"queue": "mail", "tier": "high"}) == 1
    looks.run()
    assert registry.get_sample_value("fairlane_jobs_enqueued_total", {"queue": "mail", "tier": "high"}) is None
    mine.look_anew()
    assert registry.get_sample_value("fairlane_jobs_enqueued_total", {"queue": "mail", "tier": "high"}) == 1
    for family in registry.collect():
        metric = metrics.BY_NAME.get(family.name) or metrics.BY_NAME[f"{family.name}_total"]
        assert family.type == metric.type
        assert all(set(one.labels) - {"le"} == set(metric.labels) for one in family.samples)
    with pytest.raises(fl.FairlaneError, match="tenants"):
        exposition.StoreMetrics(looks.app, tenants=1_001)
