"""Databases that outlive a store object and that several may have open: restarts, and many programs at once."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from fairlane.domain.policy import Capacities, Policy, Rate
from fairlane.domain.states import State
from fairlane.errors import ConfigError, ExpressFull, QueueFull
from fairlane.testing.clock import ManualClock
from fairlane.testing.contract.base import OpenBench
from fairlane.testing.contract.bench import Bench, Database
from fairlane.testing.contract.reading import Traffic
from fairlane.testing.contract.schedules import SharedSchedulesContract
from fairlane.testing.contract.verify import SharedVerifyContract

BY_COUNT = Policy.fair(charge="count", risen_every=0)


class SharedContract(SharedSchedulesContract, SharedVerifyContract):
    """T-C7, T-O10, T-M10, B04, B05, F10, F18, 3.1 no. 1 and 10."""

    # ------------------------------------------------------------------ restarts

    def test_jobs_outlive_the_store_object(self, b: Bench) -> None:
        """Promise 1: what was stored is there, unchanged, for the next that opens the database."""
        b.put(args='{"n":1}', dedup_key="k")
        b.put(delay_ms=1_000, tier=0)
        b.put(express=True)
        before = b.all_jobs()
        b.reopen()
        assert b.all_jobs() == before

    @pytest.mark.parametrize("deed", ["put", "put for later", "time", "end", "rule", "cancel", "lapse"])
    def test_a_look_tells_that_another_claim_may_find_more(self, b: Bench, open_bench: OpenBench, deed: str) -> None:
        """B05: whatever any program has done since the last claim, and what time does; else looks say the same."""
        other = open_bench()
        later = b.put(delay_ms=5_000)
        b.put()
        claim = b.take()
        assert b.claim(1) == []
        before = b.store.look(b.now_ms).version
        assert before is not None
        assert b.claim(1) == []
        assert other.store.look(b.now_ms).version == b.store.look(b.now_ms).version == before
        deeds: dict[str, Callable[[], object]] = {
            "put": other.put,
            "put for later": lambda: other.put(delay_ms=1_000),
            "time": lambda: b.clock.advance(ms=5_000),
            "end": lambda: other.done(claim),
            "rule": lambda: other.rule("tenant", "a", max_running=1),
            "cancel": lambda: other.cancel(later),
            "lapse": b.lapse,
        }
        deeds[deed]()
        assert b.store.look(b.now_ms).version != before

    def test_opening_changes_nothing(self, b: Bench) -> None:
        """A second opening writes nothing."""
        b.fill({"a": 2, "b": 2})
        b.take()
        with b.unchanged():
            b.reopen()
            b.store.check()

    def test_order_outlives_a_restart(self, open_bench: OpenBench) -> None:
        """T-O10, 2.1 no. 5: order is the same after a restart, without any checkpoint call."""
        b = open_bench(policy=Policy.fair(ageing_step=10))
        for n in range(40):
            b.put(f"t{n % 2}", f"q{n % 3}", "abcd"[n * n % 4], tier=n * 7 % 5, express=n == 17)
            b.clock.advance(seconds=1)
            if n % 3 == 0:
                b.run(1)
        expected = b.peek(40)
        b.reopen()
        assert b.peek(40) == expected
        assert b.start(40) == expected

    @pytest.mark.parametrize("policy", [BY_COUNT, Policy.fair()], ids=["count", "time"])
    def test_restart_after_every_job(self, open_bench: OpenBench, policy: Policy) -> None:
        """B04, 3.1 no. 10: a hundred restarts, and starts per tenant differ by at most one."""
        b = open_bench(policy=policy)
        b.fill({"flood": 120} | dict.fromkeys("bcde", 30))
        shares = Counter[str]()
        for _ in range(100):
            shares[b.run(1)[0].start.lane.tenant] += 1
            b.reopen()
        assert max(shares.values()) - min(shares.values()) <= 1
        assert len(shares) == 5

    def test_claim_outlives_a_restart(self, b: Bench) -> None:
        """T-C7: a job that ran when its program went is running still, may be ended, or lapses to its old place."""
        first, second, third = b.put(), b.put(), b.put()
        claim, lost = b.claim(2)
        b.reopen()
        assert b.state(first) is State.RUNNING
        assert b.done(claim)
        b.lapse()
        b.reopen()
        assert b.rescue() == 1
        assert not b.done(lost)
        assert b.drain() == [second, third]

    def test_fence_never_repeats_over_restarts(self, b: Bench) -> None:
        """Promise 2: not after the newest row is deleted, not after all are, not after a restart."""
        seen: set[tuple[int, int]] = set()
        stale = None
        for _ in range(6):
            b.put()
            claim = b.take()
            assert (claim.seq, claim.fence) not in seen
            seen.add((claim.seq, claim.fence))
            if stale is not None:
                with b.unchanged():
                    assert not b.done(stale)
            b.done(claim)
            b.clock.advance(seconds=1)
            assert b.prune() == 1
            b.reopen()
            stale = claim

    def test_limits_and_pauses_outlive_a_restart(self, b: Bench) -> None:
        """Limits, what counts against them, pauses, weights: all are facts in the database."""
        b.declare("t", "openai")
        b.rule("limit", "openai", max_running=2)
        b.fill({"a": 3})
        b.put("u", tenant="p")
        claim = b.take(tasks=["t"])
        b.pause("tenant", "p")
        b.reopen()
        assert len(b.claim(5)) == 1
        b.reopen()
        assert b.claim(5) == []
        b.done(claim)
        b.reopen()
        assert len(b.claim(5)) == 1
        b.resume("tenant", "p")
        b.reopen()
        assert len(b.claim(5)) == 1

    # ------------------------------------------------------------------ settings

    @pytest.mark.parametrize(
        "other",
        [
            {"policy": Policy.strict()},
            {"policy": Policy.fair(ageing_step=61)},
            {"capacities": Capacities(express_capacity=21)},
            {"capacities": Capacities(express_per_tenant=4)},
        ],
        ids=["kind", "step", "capacity", "per tenant"],
    )
    def test_opening_with_other_settings_is_refused(self, b: Bench, other: dict[str, Policy | Capacities]) -> None:
        """Section 2: a process that opens the store with other values gets ``ConfigError`` and has changed nothing."""
        with b.refused(ConfigError):
            b.database.open_store(b.clock, **other)  # type: ignore[arg-type]  # the two settings
        assert b.store.settings() == (Policy.fair(), Capacities())

    def test_opening_with_the_same_settings_or_none(self, open_bench: OpenBench) -> None:
        """Equal values are fine, and who says nothing takes the store's."""
        policy, capacities = Policy.strict(ageing_step=7), Capacities(express_capacity=3)
        first = open_bench(policy=policy, capacities=capacities)
        second, third = open_bench(policy=policy, capacities=capacities), open_bench()
        assert first.store.settings() == second.store.settings() == third.store.settings() == (policy, capacities)

    def test_configure_changes_it_for_everybody(self, open_bench: OpenBench) -> None:
        """A store object that is open already decides by the new policy and the new capacities at once."""
        first, second = open_bench(), open_bench()
        jobs = [first.put(tier=tier) for tier in (3, 1, 2)]
        assert second.peek(3) == [jobs[1], jobs[2], jobs[0]]
        first.write(
            lambda store, now_ms: store.configure(
                Policy.fifo(), Capacities(express_capacity=1), by="ops", now_ms=now_ms
            )
        )
        assert second.store.settings() == (Policy.fifo(), Capacities(express_capacity=1))
        second.put(express=True)
        with second.refused(ExpressFull):
            second.put(tenant="b", express=True)
        assert second.drain()[1:] == jobs
        open_bench(policy=Policy.fifo())

    # ------------------------------------------------------------------ two programs

    def test_job_of_one_is_claimed_by_the_other(self, open_bench: OpenBench) -> None:
        """3.1 no. 1: any program may put, start, end, look at and steer any job."""
        first, second = open_bench(), open_bench()
        jobs = [first.put(), second.put()]
        assert second.start() == jobs[:1]
        claim = first.take()
        assert claim.id == jobs[1]
        assert second.done(claim)
        assert not first.done(claim)
        assert first.job(jobs[1]) == second.job(jobs[1])

    def test_alternate_claims_keep_the_turns_exact(self, open_bench: OpenBench) -> None:
        """3.1 no. 10: two programs that claim in turn start what one alone would have, job by job."""
        first, second = open_bench(policy=BY_COUNT), open_bench()
        first.rule("tenant", "b", weight_milli=3_000)
        for tier in (2, 3):
            second.fill({"a": 15, "b": 15, "c": 15}, tier=tier)
        expected = first.peek(90)
        started = [(first, second)[n % 2].start()[0] for n in range(90)]
        assert started == expected

    def test_alternate_runs_keep_the_weights_exact(self, open_bench: OpenBench) -> None:
        """Claims of one and ends by the other: 1 : 3 : 1 of a hundred starts, exactly."""
        first, second = open_bench(policy=BY_COUNT), open_bench()
        first.rule("tenant", "b", weight_milli=3_000)
        first.fill({"a": 100, "b": 100, "c": 100})
        shares = Counter[str]()
        for n in range(100):
            one, other = (first, second) if n % 2 else (second, first)
            claim = one.take()
            shares[claim.start.lane.tenant] += 1
            assert other.done(claim)
        assert shares == {"a": 20, "b": 60, "c": 20}

    def test_alternate_claims_keep_the_guarantee(self, open_bench: OpenBench) -> None:
        """Rule 1 counts the starts of the pool, whoever makes them."""
        first, second = open_bench(), open_bench()
        first.fill({"a": 5}, tier=4)
        first.clock.advance(seconds=180)
        second.fill({"z": 50}, tier=0)
        tenants = "".join((first, second)[n % 2].tenants(1) for n in range(24))
        assert tenants == ("z" * 7 + "a") * 3

    def test_limits_are_exact_over_both(self, open_bench: OpenBench) -> None:
        """F18, B05: queue, tenant and named limits count the leases of all programs."""
        first, second = open_bench(), open_bench()
        first.declare("t", "openai")
        first.rule("limit", "openai", max_running=4)
        second.rule("queue", "q", max_running=3)
        first.rule("tenant", "a", max_running=1)
        first.fill({"a": 5, "b": 5})
        claims = [claim for n in range(10) for claim in (first, second)[n % 2].claim(1)]
        assert Counter(claim.start.lane.tenant for claim in claims) == {"a": 1, "b": 2}
        second.done(claims[0])
        assert len(first.claim(5)) + len(second.claim(5)) == 1

    def test_rates_are_exact_over_both(self, open_bench: OpenBench) -> None:
        """T-B11: a token bucket is one for all programs."""
        first, second = open_bench(), open_bench()
        first.rule("tenant", "a", rate=Rate(1, 1_000, 2))
        second.fill({"a": 20})
        assert len(first.run(5)) + len(second.run(5)) == 2
        first.clock.advance(seconds=1)
        assert len(second.run(5)) + len(first.run(5)) == 1

    def test_express_capacity_is_exact_over_both(self, open_bench: OpenBench) -> None:
        """T-M2, F6, F10: twenty in all, and every program sees and starts them in one order."""
        first, second = open_bench(), open_bench()
        jobs = [(first, second)[n % 2].put(tenant=f"x{n}", express=True) for n in range(20)]
        for bench in (first, second):
            with bench.refused(ExpressFull):
                bench.put(tenant="y", express=True)
        assert [(second, first)[n % 2].start()[0] for n in range(20)] == jobs

    def test_max_waiting_is_exact_over_both(self, open_bench: OpenBench) -> None:
        """Programs that take turns are bounded together."""
        first, second = open_bench(), open_bench()
        first.rule("queue", "q", max_waiting=2)
        first.put()
        second.put()
        with second.refused(QueueFull):
            second.put()

    def test_pause_of_one_stops_the_other(self, open_bench: OpenBench) -> None:
        """A pause, a cap and a boost hold for every program from their commit on."""
        first, second = open_bench(), open_bench()
        first.fill({"a": 3})
        assert len(second.claim(1)) == 1
        first.pause("tenant", "a")
        assert second.claim(5) == []
        first.resume("tenant", "a")
        job = first.put(tier=4)
        first.boost(job, 0)
        assert second.start() == [job]

    def test_dedup_key_holds_over_both(self, open_bench: OpenBench) -> None:
        """B14: a key that one program's job holds returns that job to the other."""
        first, second = open_bench(), open_bench()
        job = first.put(dedup_key="k")
        assert second.put(dedup_key="k") == job
        second.done(second.take())
        assert first.put(dedup_key="k") != job

    def test_stale_holder_in_another_program(self, open_bench: OpenBench) -> None:
        """B01: a job rescued and started by one program is lost to the other, which is told so."""
        first, second = open_bench(), open_bench()
        job = first.put()
        stale = first.take()
        first.lapse()
        current = second.take()
        assert current.id == job
        for lost in (first.done(stale), first.fail(stale), first.save(stale, progress="1"), first.beat(stale) == "ok"):
            assert lost is False
        assert second.done(current)

    def test_jobs_of_a_killed_worker_come_back_before_their_lease_ends(self, open_bench: OpenBench) -> None:
        """B06: a worker that is gone is noticed by its missing sign of life; its neighbour's jobs stay."""
        b, other = open_bench(), open_bench()
        b.worker("w1")
        b.worker("w2")
        b.fill({"a": 2})
        lost, kept = b.take(worker="w1", lease_ms=600_000), b.take(worker="w2", lease_ms=600_000)
        assert other.rescue() == 0
        b.kill("w1")
        b.clock.advance(seconds=12)
        assert other.rescue() == 1
        assert (b.state(lost.id), b.state(kept.id)) == (State.AVAILABLE, State.RUNNING)
        assert not b.done(lost)
        assert b.done(kept)

    def test_two_processes_whose_clocks_differ_by_an_hour(self, open_bench: OpenBench, clock: ManualClock) -> None:
        """T-C6: order is that of the enqueues, not of the clocks of two programs."""
        ahead = ManualClock(now_ms=clock.now_ms() + 3_600_000)
        first, second = open_bench(), open_bench(clock=ahead)
        jobs = [(first, second)[n % 2].put() for n in range(10)]
        started = [first.start()[0] for _ in range(10)]
        assert started == jobs

    def test_claims_from_many_threads(self, open_bench: OpenBench, database: Database, clock: ManualClock) -> None:
        """T-M10, 3.1: four programs at once start two hundred jobs, each exactly once, limits kept."""
        b = open_bench()
        b.rule("tenant", "a", max_running=2)
        b.fill({"a": 100, "b": 100})
        started: list[bytes] = []
        most: list[int] = []
        failed: list[BaseException] = []

        def work() -> None:
            bench = Bench(database, clock)
            try:
                while claims := bench.claim(3):
                    most.append(sum(job.tenant == "a" for job in bench.all_jobs(states=(State.RUNNING,))))
                    for claim in claims:
                        started.append(claim.id)
                        assert bench.done(claim)
            except BaseException as error:  # noqa: BLE001  # shown by the test's own thread
                failed.append(error)
            finally:
                bench.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert len(started) == len(set(started)) == 200
        assert max(most) <= 2

    @pytest.mark.parametrize("seed", range(2))
    def test_figures_equal_the_rows_under_random_calls_of_two(self, open_bench: OpenBench, seed: int) -> None:
        """Promise 11: two programs at random, one restarted at times; the books of both balance (see teardown)."""
        first, second = open_bench(), open_bench()
        one, two = Traffic(first, seed), Traffic(second, seed + 50)
        two.jobs = one.jobs
        for n in range(120):
            (one if n % 3 else two).step()
            if n % 40 == 39:
                second.reopen()
        assert first.peek(20) == second.peek(20)
        assert first.all_jobs() == second.all_jobs()

    def test_restart_in_the_middle_of_a_release(self, open_bench: OpenBench) -> None:
        """What the end of a job has yet to tell those behind it is in the store: another program goes on with it."""
        first, second = open_bench(), open_bench()
        parent = first.put()
        first.enqueue(*(first.new(after=(parent,)) for _ in range(1_005)))
        first.done(first.take())
        first.reopen()
        assert second.store.counts()[State.SCHEDULED] == 5
        assert len(second.drain()) == 1_005
