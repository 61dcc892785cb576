"""Looking: what a store shows is what its rows say, and looking changes nothing."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from fairlane.domain.jobs import Claim, ErrorRecord, JobFilter
from fairlane.domain.lanes import Ask
from fairlane.domain.policy import Capacities, LimitRule, Pause, Policy, QueueRule, Rate, TaskRule, TenantRule
from fairlane.domain.states import State
from fairlane.errors import FairlaneError, InvalidValue
from fairlane.store import AnyRule, RuleKind
from fairlane.testing.contract.base import Contract, OpenBench, faults
from fairlane.testing.contract.bench import Bench

RULES: dict[RuleKind, AnyRule] = {
    "queue": QueueRule("gpus", Pause("why", "who", 7), 3, 2, 100),
    "task": TaskRule(Pause("why", "who", 7)),  # its limits are declared by the code
    "tenant": TenantRule(2_500, Pause("why"), 3, 100, Rate(7, 1_000, 3)),
    "limit": LimitRule(Pause("why", "who"), 0, Rate(1, 60_000, 1)),
}


class Traffic:
    """Random calls on a bench, of every kind, refused ones too."""

    def __init__(self, b: Bench, seed: int) -> None:
        self.b = b
        self.draw = random.Random(seed)
        self.claims: list[Claim] = []
        self.jobs: list[bytes] = []
        self.acts: list[Callable[[], object]] = [
            *(self.put,) * 4,
            *(self.claim,) * 3,
            *(self.end,) * 4,
            self.boost,
            self.expedite,
            self.cancel,
            self.retry,
            self.toggle,
            self.wait,
            self.rescue,
        ]

    def step(self) -> None:
        """Carry out one call; a refusal is an answer like any other."""
        with suppress(FairlaneError):  # what may be refused and why is tested elsewhere
            self.draw.choice(self.acts)()

    def put(self) -> None:
        """Store a few jobs."""
        draw = self.draw
        self.jobs += [
            answer.id
            for answer in self.b.enqueue(
                *(
                    self.b.new(
                        draw.choice("tu"),
                        draw.choice("qr"),
                        draw.choice("abc"),
                        tier=draw.randrange(5),
                        delay_ms=draw.choice([0, 0, 2_000]),
                        dedup_key=draw.choice([None, None, "k1", "k2"]),
                        expires_at_ms=draw.choice([None, None, self.b.now_ms + 3_000]),
                        express=draw.random() < 0.1,
                    )
                    for _ in range(draw.randrange(4))
                )
            )
        ]

    def claim(self) -> None:
        """Start a few jobs."""
        self.claims += self.b.claim(self.draw.randrange(4), queues=self.draw.choice([None, {"q": 2}]))

    def end(self) -> None:
        """End a claim one way or another, a lost one too."""
        if self.claims:
            claim = self.claims.pop(self.draw.randrange(len(self.claims)))
            b = self.b
            ends: list[Callable[[Claim], object]] = [
                b.done,
                b.done,
                b.fail,
                b.die,
                b.snooze,
                b.release,
                b.crash,
                b.beat,
            ]
            self.draw.choice(ends)(claim)

    def boost(self) -> None:
        """Change a tier."""
        self.b.boost(self._job(), self.draw.randrange(5), lower=self.draw.random() < 0.5)

    def expedite(self) -> None:
        """Expedite a job."""
        self.b.expedite(self._job())

    def cancel(self) -> None:
        """Cancel a job."""
        self.b.cancel(self._job())

    def retry(self) -> None:
        """Retry a dead job."""
        self.b.retry(self._job())

    def toggle(self) -> None:
        """Pause, cap or open something."""
        kind, name = self.draw.choice([("queue", "q"), ("tenant", "a"), ("task", "u")])
        if self.draw.random() < 0.5:
            self.b.pause(kind, name)  # type: ignore[arg-type]  # one of the kinds
        else:
            self.b.resume(kind, name)  # type: ignore[arg-type]  # as above

    def wait(self) -> None:
        """Let time pass, at times more than a lease."""
        self.b.clock.advance(ms=self.draw.choice([1, 500, 2_500, 40_000]))

    def rescue(self) -> None:
        """Take back what has lapsed, and delete what ended."""
        self.b.rescue(limit=self.draw.choice([1, 100]))
        self.b.prune(keep_ms=60_000, limit=3)

    def _job(self) -> bytes:
        return self.draw.choice(self.jobs) if self.jobs else self.b.put()


class ReadingContract(Contract):
    """T-B6, T-O4, T-O8, promise 11, B47."""

    # ------------------------------------------------------------------ jobs()

    def test_unknown_job_is_none(self, b: Bench) -> None:
        """A look-up of an id that no job has answers with nothing."""
        assert b.store.get(b.new().id) is None

    def test_jobs_come_newest_first(self, b: Bench) -> None:
        """One page or many: all jobs, newest first, each once."""
        jobs = [b.put(tier=n % 5, delay_ms=n % 2 * 500) for n in range(23)]
        b.run(5)
        for size in (1, 7, 23, 100):
            assert [job.id for job in b.all_jobs(page=size)] == jobs[::-1]

    def test_paging_is_stable_under_inserts_and_moves(self, b: Bench) -> None:
        """A cursor goes on where its page ended, whatever has come, run and been deleted since."""
        jobs = [b.put() for _ in range(20)]
        first = b.store.jobs(JobFilter(), limit=8)
        b.fill({"b": 5})
        b.run(3)
        b.expedite(jobs[7])
        b.boost(jobs[6], 0)
        second = b.store.jobs(JobFilter(), limit=8, cursor=first.cursor)
        third = b.store.jobs(JobFilter(), limit=8, cursor=second.cursor)
        assert [job.id for page in (first, second, third) for job in page.jobs] == jobs[::-1]
        assert third.cursor is None

    def test_page_of_an_empty_store(self, b: Bench) -> None:
        """No jobs, no cursor."""
        assert b.store.jobs(JobFilter(), limit=10) == ([], None)

    @pytest.mark.parametrize(
        "which",
        [
            {"states": (State.SCHEDULED,)},
            {"states": (State.SCHEDULED, State.CANCELLED)},
            {"queue": "x"},
            {"task": "x"},
            {"tenant": "x"},
            {"tier": 0},
            {"tag": "x"},
            {"queue": "x", "task": "x", "tenant": "x", "tier": 0, "tag": "x", "states": (State.SCHEDULED,)},
        ],
        ids="+".join,
    )
    def test_filters(self, b: Bench, which: dict[str, object]) -> None:
        """Each field of a filter selects what has it, over as many pages as it takes."""
        matching: list[bytes] = []
        for _ in range(7):
            b.put()
            matching.append(b.put("x", "x", "x", tier=0, tags=("w", "x"), delay_ms=1_000))
            b.put("y", "y", "y", tier=1, tags=("xx", "y"))
        for size in (2, 100):
            assert [job.id for job in b.all_jobs(page=size, **which)] == matching[::-1]

    @pytest.mark.parametrize("cursor", ["", "x", "-1", "1e3", "\0", "9" * 400, "MTIz", "\u0661"])
    def test_cursor_that_is_not_ours(self, b: Bench, cursor: str) -> None:
        """A made-up cursor is refused, not guessed at."""
        b.put()
        with pytest.raises(InvalidValue):
            b.store.jobs(JobFilter(), limit=1, cursor=cursor)

    # ------------------------------------------------------------------ peek

    def test_peek_is_the_next_claim_and_changes_nothing(self, open_bench: OpenBench) -> None:
        """T-O4: what a look shows is what a claim then starts, in order, for as many as asked."""
        b = open_bench(policy=Policy.fair(risen_every=3))
        for n in range(24):
            b.put(f"t{n % 2}", f"q{n % 3}", "abcd"[n * n % 4], tier=n * 7 % 5, express=n % 11 == 0)
            b.clock.advance(seconds=9)
        b.rule("queue", "q1", max_running=3)
        for ask in ({}, {"queues": {"q0": 2, "q1": 9}}, {"tasks": frozenset({"t1"})}, {"rooms": (3, 2, 2, 1, 1)}):
            with b.unchanged():
                expected = b.peek(5, **ask)
                assert b.peek(5, **ask) == expected
            assert b.start(5, **ask) == expected

    def test_peek_sees_what_is_due(self, b: Bench) -> None:
        """A look shows what a claim would start *now*: what has become due, not what has expired or is paused."""
        due = b.put(delay_ms=1_000)
        b.put(expires_at_ms=b.now_ms + 500)
        b.put(tenant="p")
        b.pause("tenant", "p")
        b.clock.advance(seconds=1)
        with b.unchanged():
            assert b.peek(5) == [due]
        assert b.start(5) == [due]

    def test_peek_at_nothing(self, b: Bench) -> None:
        """An empty store, and one where nothing may start."""
        assert b.peek(5) == []
        b.put()
        assert b.peek(5, queues={"other": 5}) == []

    # ------------------------------------------------------------------ counts

    def test_depth_by_lane(self, b: Bench) -> None:
        """T-B6: how many wait and run by queue, task, tenant and tier, and since when the oldest waits."""
        t0 = b.now_ms
        b.fill({"a": 3})
        b.put(delay_ms=10**6)
        b.clock.advance(seconds=1)
        b.put("u", "r", "b", tier=0)
        b.take(queues={"q": 1})
        rows = {(row.queue, row.task, row.tenant, row.tier): row for row in b.store.depth(b.now_ms)}
        row, other = rows["q", "t", "a", 2], rows["r", "u", "b", 0]
        assert (row.scheduled, row.available, row.running, row.oldest_arrival_ms) == (1, 2, 1, t0)
        assert (other.scheduled, other.available, other.running, other.oldest_arrival_ms) == (0, 1, 0, t0 + 1_000)

    def test_counts_by_state(self, b: Bench) -> None:
        """How many jobs are in each state."""
        b.fill({"a": 4})
        b.put(delay_ms=1_000)
        b.done(b.take())
        b.die(b.take())
        b.take()
        assert {state: n for state, n in b.store.counts().items() if n} == {
            State.SCHEDULED: 1,
            State.AVAILABLE: 1,
            State.RUNNING: 1,
            State.COMPLETED: 1,
            State.DEAD: 1,
        }

    # ------------------------------------------------------------------ what ended, what is express

    def test_ends_are_told_since_an_instant(self, b: Bench) -> None:
        """What ended since an instant, however it did, the latest first; with its last run, and no more than asked."""
        b.put(tenant="early")
        b.run(run_ms=250)
        b.clock.advance(seconds=10)
        since_ms = b.now_ms
        b.put(tenant="done", tier=1)
        claim = b.take()
        b.clock.advance(ms=250)
        b.done(claim)
        b.clock.advance(seconds=1)
        b.put(tenant="dead")
        b.die(b.take())
        b.clock.advance(seconds=1)
        b.cancel(b.put(tenant="never ran"))
        ends = b.store.ends(since_ms, limit=10)
        assert [(one.tenant, State(one.state), one.started_ms is None) for one in ends] == [
            ("never ran", State.CANCELLED, True),
            ("dead", State.DEAD, False),
            ("done", State.COMPLETED, False),
        ]
        assert (ends[2].run_ms, ends[2].tier, ends[2].queue, ends[2].task) == (250, 1, "q", "t")
        assert [one.tenant for one in b.store.ends(since_ms, limit=2)] == ["never ran", "dead"]

    def test_ends_tell_attempts_that_failed(self, b: Bench) -> None:
        """Failures and crashes of a job since it came or came back from the dead; what was given back is neither."""
        job = b.put()
        b.fail(b.take())
        b.crash(b.take())
        b.release(b.take())
        b.die(b.take())
        (died,) = b.store.ends(0, limit=10)
        assert (died.failures, died.crashes) == (2, 1)
        b.retry(job)
        b.run()
        (once_more,) = b.store.ends(0, limit=10)
        assert (once_more.failures, once_more.crashes) == (0, 0)

    def test_arrivals_are_counted_once_each(self, b: Bench) -> None:
        """New jobs since a look, by queue and tier, however they stand by now; a first look counts none."""
        b.put(tenant="before")
        look = b.store.arrivals(None, limit=10)
        assert (look.counts, b.store.arrivals(look.last, limit=10)) == ((), look)
        b.put(tier=1, tenant="a")
        b.put(tier=1, tenant="b", task="u")
        b.run()
        b.put(queue="r", delay_ms=1_000, dedup_key="k")
        b.put(queue="r", delay_ms=1_000, dedup_key="k")
        found = b.store.arrivals(look.last, limit=10)
        assert sorted(found.counts) == [("q", 1, 2), ("r", 2, 1)]
        assert b.store.arrivals(found.last, limit=10).counts == ()
        first = b.store.arrivals(look.last, limit=2)
        rest = b.store.arrivals(first.last, limit=2)
        assert (first.counts, rest.counts, rest.last) == ((("q", 1, 2),), (("r", 2, 1),), found.last)

    def test_busy_workers(self, b: Bench) -> None:
        """How many jobs each worker runs; a claim of a program's own has none."""
        assert b.store.busy() == {}
        b.fill({"a": 4})
        b.claim(2, worker="w1")
        (other,) = b.claim(1, worker="w2")
        b.claim(1, worker="")
        assert b.store.busy() == {"w1": 2, "w2": 1, "": 1}
        b.done(other)
        assert b.store.busy() == {"w1": 2, "": 1}

    def test_ended_jobs_come_by_their_end(self, b: Bench) -> None:
        """The latest end first, whatever the order of their enqueue; a page at a time, none twice, none left out."""
        jobs = [b.put(tenant="a", tier=4 - n) for n in range(5)]  # the last one is the most urgent: it ends first
        b.put(tenant="b")
        b.run()
        found: list[bytes] = []
        cursor: str | None = None
        while True:
            page = b.store.ended(State.COMPLETED, JobFilter(tenant="a"), limit=2, cursor=cursor)
            found += [job.id for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(jobs)
        ends = [b.job(job).finished_at_ms or 0 for job in found]
        assert ends == sorted(ends, reverse=True)
        assert len(b.store.ended(State.COMPLETED, JobFilter(), limit=10).jobs) == 6
        assert b.store.ended(State.CANCELLED, JobFilter(), limit=10).jobs == []
        assert [job.tier for job in b.store.ended(State.COMPLETED, JobFilter(tier=3), limit=10).jobs] == [3]

    def test_pages_of_ended_jobs_split_one_instant(self, b: Bench) -> None:
        """Jobs that ended in one millisecond are on one page or the other."""
        jobs = [b.put() for _ in range(5)]
        for claim in b.claim(5):
            b.settle(claim, "completed")
        first = b.store.ended(State.COMPLETED, JobFilter(), limit=3)
        second = b.store.ended(State.COMPLETED, JobFilter(), limit=3, cursor=first.cursor)
        assert [job.id for job in (*first.jobs, *second.jobs)] == jobs[::-1]
        assert second.cursor is None

    @pytest.mark.parametrize("cursor", ["", "!", "c2VxMQ", "ZTEuMg.", "ZS0xLjI", "ZTE", "ZTk" + "5" * 60])
    def test_cursors_of_ended_jobs_are_ours(self, b: Bench, cursor: str) -> None:
        """A cursor that we did not give out is refused."""
        with pytest.raises(InvalidValue, match="cursor"):
            b.store.ended(State.COMPLETED, JobFilter(), limit=3, cursor=cursor)

    def test_the_express_lane_is_told_in_its_order(self, b: Bench) -> None:
        """Those that wait in it, the oldest expedite first, scheduled ones too; not those that run."""
        first, second, third = (b.put() for _ in range(3))
        b.expedite(second)
        b.expedite(first)
        b.put(express=True, tenant="x")
        assert [job.id for job in b.store.express(limit=2)] == [second, first]
        claim = b.take()
        assert claim.id == second
        assert [job.tenant for job in b.store.express(limit=10)] == ["a", "x"]
        b.fail(claim, delay_ms=60_000)
        assert second in {job.id for job in b.store.express(limit=10)}
        b.clear()
        assert third is not None
        assert b.store.express(limit=10) == []

    @pytest.mark.parametrize("seed", range(3))
    def test_figures_equal_the_rows_under_random_calls(self, open_bench: OpenBench, seed: int) -> None:
        """T-O8, promise 11: counts, depth and the store's own books agree with the rows whatever happens."""
        b = open_bench(capacities=Capacities(express_capacity=4, express_per_tenant=2))
        traffic = Traffic(b, seed)
        for n in range(150):
            traffic.step()
            if n % 15 == 0:
                assert faults(b) == []

    @pytest.mark.parametrize("seed", range(3))
    def test_nothing_is_lost_under_random_calls(self, b: Bench, seed: int) -> None:
        """Promise "nothing that was accepted is lost": in the end every job has ended, each one accounted for."""
        traffic = Traffic(b, 100 + seed)
        for _ in range(150):
            traffic.step()
        for kind, name in (("queue", "q"), ("tenant", "a"), ("task", "u")):
            b.resume(kind, name)  # type: ignore[arg-type]  # the kinds that the traffic pauses
        for _ in range(12):
            b.clock.advance(seconds=100)
            b.rescue()
            b.run()
        left = Counter(job.state.label for job in b.all_jobs())
        assert set(left) <= {"completed", "dead", "cancelled"}

    # ------------------------------------------------------------------ time

    def test_next_due_is_the_next_timer(self, b: Bench) -> None:
        """T-C11: the next instant at which time alone may make something startable; none when there is none."""
        assert b.store.next_due_ms() is None
        b.put()
        b.run()
        later, sooner = b.now_ms + 9_000, b.now_ms + 4_000
        b.put(scheduled_at_ms=later)
        assert b.store.next_due_ms() == later
        b.put()
        b.fail(b.take(), delay_ms=4_000)
        assert b.store.next_due_ms() == sooner
        b.clock.advance(ms=4_000)
        b.run()
        assert b.store.next_due_ms() == later
        b.clock.advance(ms=5_000)
        b.run()
        assert b.store.next_due_ms() is None

    # ------------------------------------------------------------------ dead letters by fingerprint

    def test_dead_jobs_are_grouped_by_cause(self, b: Bench) -> None:
        """Section 5: the same kind of error makes a group, largest first, with an example and its tasks."""
        jobs = [b.put(task) for task in "ttuv"]
        for kind, claim in zip(("ValueError",) * 3 + ("KeyError",), b.claim(4), strict=True):
            b.clock.advance(seconds=1)
            error = ErrorRecord(attempt=1, at_ms=b.now_ms, kind="failure", type=kind)
            b.settle(claim, "dead", error=error, reason="no more")
        first, second = b.store.dead_groups(limit=10)
        assert (first.count, second.count) == (3, 1)
        assert (set(first.tasks), set(second.tasks)) == ({"t", "u"}, {"v"})
        assert (first.example in jobs[:3], second.example) == (True, jobs[3])
        assert (first.first_ms, first.last_ms) == (b.now_ms - 3_000, b.now_ms - 1_000)
        assert [group.count for group in b.store.dead_groups(limit=1)] == [3]

    def test_dead_groups_forget_what_is_alive_again(self, b: Bench) -> None:
        """A retried or deleted job is in no group."""
        job = b.put()
        b.die(b.take())
        b.retry(job)
        assert b.store.dead_groups(limit=10) == []

    # ------------------------------------------------------------------ settings and rules

    @pytest.mark.parametrize("kind", RULES)
    def test_rules_are_kept(self, b: Bench, kind: RuleKind) -> None:
        """What was set can be read back, whole; what was not is the default."""
        rule = RULES[kind]
        assert b.store.rule(kind, "x") == type(rule)()
        assert "x" not in b.store.rules(kind)
        b.write(lambda store, now_ms: store.set_rule(kind, "x", rule, by="ops", now_ms=now_ms))
        assert b.store.rule(kind, "x") == rule
        assert b.store.rules(kind)["x"] == rule
        assert b.store.rule(kind, "y") == type(rule)()

    def test_declared_task_is_written_once(self, b: Bench) -> None:
        """Workers that come up with the same code write nothing."""
        b.declare("t", "openai")
        assert b.store.rule("task", "t") == TaskRule(None, ("openai",))
        with b.unchanged():
            b.declare("t", "openai")

    def test_settings_are_those_of_the_opening(self, open_bench: OpenBench) -> None:
        """A store is created with the policy and capacities it is given, or the defaults."""
        policy, capacities = Policy.strict(ageing_step=7), Capacities(express_capacity=3)
        b = open_bench(policy=policy, capacities=capacities)
        assert b.store.settings() == (policy, capacities)

    def test_default_settings(self, b: Bench) -> None:
        """``Policy.fair()``, twenty express places, five of a tenant."""
        assert b.store.settings() == (Policy.fair(), Capacities(express_capacity=20, express_per_tenant=5))

    def test_configure_acts_at_once(self, b: Bench) -> None:
        """A new policy decides about the jobs that wait already."""
        first, second, third = b.put(tier=3), b.put(tier=1), b.put(tier=2)
        assert b.peek(3) == [second, third, first]
        b.write(
            lambda store, now_ms: store.configure(
                Policy.fifo(), Capacities(express_capacity=1), by="ops", now_ms=now_ms
            )
        )
        assert b.store.settings() == (Policy.fifo(), Capacities(express_capacity=1))
        assert b.drain() == [first, second, third]

    def test_looking_changes_nothing(self, b: Bench) -> None:
        """Every call that only reads leaves every row as it is, also when something is due, lapsed or expired."""
        b.fill({"a": 3})
        b.put(delay_ms=1_000)
        b.put(expires_at_ms=b.now_ms + 1_000)
        b.take()
        b.lapse()
        store = b.store
        with b.unchanged():
            store.peek(Ask("default", 5), b.now_ms)
            store.depth(b.now_ms)
            store.counts()
            store.jobs(JobFilter(), limit=5)
            store.next_due_ms()
            store.workers()
            store.busy()
            store.arrivals(0, limit=5)
            store.settings()
            store.rules("queue")
            store.asked("w")
            store.dead_groups(limit=5)
            assert store.check() == []
            assert store.facts()
