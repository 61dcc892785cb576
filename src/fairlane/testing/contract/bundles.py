"""Bundles: which jobs belong together, and how they do."""

from __future__ import annotations

from fairlane.domain.states import State
from fairlane.errors import DedupConflict
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench, job_id


class BundlesContract(Contract):
    """What ``app.group`` stands on."""

    def test_bundle_tells_its_jobs_in_order(self, b: Bench) -> None:
        """By the order of the enqueue, whatever their tiers and times, each with its state."""
        bundle = job_id(b.now_ms)
        new = [
            b.new(bundle=bundle),
            b.new(bundle=bundle, tier=0),
            b.new(bundle=bundle, delay_ms=1_000),
            b.new(bundle=bundle, tier=4),
        ]
        b.enqueue(*new)
        b.put()
        first = b.take()
        assert first.id == new[1].id
        b.die(first)
        b.done(b.take())
        assert b.store.bundle(bundle) == [
            (new[0].id, State.COMPLETED),
            (new[1].id, State.DEAD),
            (new[2].id, State.SCHEDULED),
            (new[3].id, State.AVAILABLE),
        ]
        assert b.job(new[0].id).bundle == bundle

    def test_unknown_bundle_is_empty(self, b: Bench) -> None:
        """There is nothing to tell."""
        b.put()
        assert b.store.bundle(job_id(b.now_ms)) == []

    def test_bundle_loses_what_retention_removes(self, b: Bench) -> None:
        """It tells the jobs that are kept."""
        bundle = job_id(b.now_ms)
        first, second = b.enqueue(b.new(bundle=bundle), b.new(bundle=bundle))
        b.done(b.take())
        b.clock.advance(seconds=1)
        assert b.prune() == 1
        assert [job for job, _ in b.store.bundle(bundle)] == [second.id]
        assert first.id != second.id

    def test_bundle_stays_with_a_job_that_is_replaced(self, b: Bench) -> None:
        """A job that takes the place of one of a bundle is counted in its place."""
        bundle = job_id(b.now_ms)
        first = b.put(bundle=bundle, dedup_key="k")
        b.put(dedup_key="k", on_conflict="replace", tier=0)
        assert b.store.bundle(bundle) == [(first, State.AVAILABLE)]

    def test_refused_bundle_leaves_nothing(self, b: Bench) -> None:
        """One held key refuses all of it."""
        bundle = job_id(b.now_ms)
        b.put(dedup_key="k")
        with b.refused(DedupConflict):
            b.enqueue(b.new(bundle=bundle), b.new(bundle=bundle, dedup_key="k", on_conflict="raise"))
        assert b.store.bundle(bundle) == []

    def test_join_of_a_bundle(self, b: Bench) -> None:
        """A job behind all of a bundle starts when the last of them has ended."""
        bundle = job_id(b.now_ms)
        new = [b.new(bundle=bundle) for _ in range(5)]
        b.enqueue(*new)
        last = b.put(after=tuple(job for job, _ in b.store.bundle(bundle)), tier=0)
        assert b.drain() == [*(job.id for job in new), last]
