"""Dead letters and what finds jobs: groups, filters, counts, pages, and how long things are kept."""

# ruff: noqa: PLR2004  # a test's figures are its subject

from __future__ import annotations

from typing import Any

import pytest

from fairlane.domain.jobs import Claim, ErrorRecord, JobFilter
from fairlane.domain.states import State
from fairlane.store import Counted
from fairlane.testing.contract.base import Contract
from fairlane.testing.contract.bench import Bench


def died(b: Bench, claim: Claim, message: str = "boom", kind: str = "ValueError", frame: str = "app.f") -> bytes:
    """Let a claim end in death and return the job."""
    error = ErrorRecord(attempt=1, at_ms=b.now_ms, kind="failure", type=kind, message=message, frame=frame)
    assert b.settle(claim, "dead", error=error, reason="no more")
    return claim.id


class DeadContract(Contract):
    """SPEC 5, dead letters and retention; T-M16, T-M19."""

    # ------------------------------------------------------------------ groups

    def test_group_is_type_message_and_frame(self, b: Bench) -> None:
        """Numbers make no group; each of the three does."""
        b.fill({"a": 6})
        first, second, *others = b.claim(6)
        died(b, first, "row 12 is bad")
        b.clock.advance(seconds=1)
        newest = died(b, second, "row 3,456 is bad")
        died(b, others[0], "column 12 is bad")
        died(b, others[1], "row 12 is bad", kind="KeyError")
        died(b, others[2], "row 12 is bad", frame="app.g")
        b.settle(others[3], "dead", reason="row 12 is bad")
        groups = b.store.dead_groups(limit=10)
        assert [group.count for group in groups] == [2, 1, 1, 1, 1]
        assert groups[0].words.label == "ValueError: row <n> is bad · app.f"
        assert (groups[0].example, groups[0].last_ms - groups[0].first_ms) == (newest, 1_000)
        assert {group.words.label for group in groups[1:]} == {
            "ValueError: column <n> is bad · app.f", "KeyError: row <n> is bad · app.f",
            "ValueError: row <n> is bad · app.g", "row <n> is bad",
        }  # fmt: skip

    def test_group_tells_tasks_and_tenants(self, b: Bench) -> None:
        """Who is touched by a fault."""
        for tenant, task in (("a", "u"), ("a", "t"), ("b", "t"), ("c", "t")):
            b.put(task, tenant=tenant)
        for claim in b.claim(4):
            died(b, claim)
        (group,) = b.store.dead_groups(limit=10)
        assert (group.tasks, group.tenants, group.count) == (("t", "u"), 3, 4)

    def test_group_has_words_whatever_its_jobs_lived_through(self, b: Bench) -> None:
        """An earlier failure is not what a job died of; a crash is named without its worker."""
        b.fill({"a": 2})
        first, second = b.claim(2)
        b.fail(first, message="first")
        (again,) = b.claim()
        b.settle(again, "dead", reason="given up after 7 checks")
        for n in range(4):
            error = ErrorRecord(attempt=n + 1, at_ms=b.now_ms, kind="crash", type="WorkerLost", message=f"worker {n}")
            b.settle(second, "crashed", error=error)
            second = next(iter(b.claim()), second)
        assert {group.words.label for group in b.store.dead_groups(limit=9)} == {
            "given up after <n> checks", "WorkerLost",
        }  # fmt: skip

    def test_group_is_found_by_its_fingerprint(self, b: Bench) -> None:
        """The filter by fingerprint means exactly what the group counts, in every page and in every count."""
        for n in range(30):
            b.put()
            died(b, b.take(), "odd" if n % 2 else "even")
        for group in b.store.dead_groups(limit=9):
            found = b.all_jobs(page=4, fingerprint=group.fingerprint)
            assert len(found) == group.count == 15
            assert [job.seq for job in found] == sorted((job.seq for job in found), reverse=True)
            assert b.store.count(JobFilter(fingerprint=group.fingerprint), limit=99) == Counted(15, False)

    def test_group_has_a_history(self, b: Bench) -> None:
        """How many died when, of this group alone; spells are half open."""
        since_ms = b.now_ms
        for pause_ms, message in ((0, "a"), (9, "a"), (1, "a"), (0, "b"), (29, "a")):
            b.clock.advance(ms=pause_ms)
            b.put()
            died(b, b.take(), message)
        first = next(group for group in b.store.dead_groups(limit=2) if group.count > 1)
        told = b.store.dead_history(first.fingerprint, since_ms=since_ms, spell_ms=10, spells=4)
        assert told == [2, 1, 0, 1]
        assert b.store.dead_history(first.fingerprint, since_ms=since_ms + 1, spell_ms=1_000, spells=1) == [3]

    def test_second_death_report_changes_nothing(self, b: Bench) -> None:
        """T-M19: a job dies once."""
        b.put()
        claim = b.take()
        b.die(claim)
        with b.unchanged():
            assert not b.die(claim)

    # ------------------------------------------------------------------ filters

    def test_every_filter_means_the_same_everywhere(self, b: Bench) -> None:
        """Every filter means the same jobs in a list, in a count, and for an operation."""
        bundle = bytes(16)
        old = b.put("old", queue="q1", tenant="t_1", tags=("red", "a%b"), dedup_key="k:1")
        b.clock.advance(seconds=10)
        other = b.put("t", queue="q2", tenant="t11", dedup_key="k:1")
        plain = b.put("t", tags=("blue",))
        (claim,) = b.claim(1, tasks=["old"])
        died(b, claim, "No such File 7", kind="app.Gone")
        b.clock.advance(seconds=10)
        cases: list[tuple[dict[str, Any], set[bytes]]] = [
            ({}, {old, other, plain}),
            ({"dedup_key": "k:1"}, {old, other}),
            ({"dedup_key": "k:1", "queue": "q2"}, {other}),
            ({"dedup_key": "k"}, set()),
            ({"ids": (old, plain, bundle)}, {old, plain}),
            ({"ids": (old, plain), "states": (State.DEAD,)}, {old}),
            ({"bundle": bundle}, set()),
            ({"ids": (old,), "bundle": bundle}, set()),
            ({"ids": (old, plain), "dedup_key": "k:1"}, {old}),
            ({"ids": (old, plain), "fingerprint": "another"}, set()),
            ({"error": "app.Gone"}, {old}),
            ({"error": "Gone"}, set()),
            ({"enqueued_before_ms": b.now_ms - 10_000}, {old}),
            ({"ended_from_ms": b.now_ms - 10_000}, {old}),
            ({"ended_from_ms": b.now_ms - 9_999}, set()),
            ({"ended_before_ms": b.now_ms - 9_999}, {old}),
            ({"ended_before_ms": b.now_ms - 10_000}, set()),
            ({"states": (State.DEAD,)}, {old}),
            ({"text": "OLD"}, {old}),
            ({"text": "such file"}, {old}),
            ({"text": "app.gone"}, {old}),
            ({"text": "t_1"}, {old}),
            ({"text": "a%B"}, {old}),
            ({"text": "%"}, {old}),
            ({"text": "K:1"}, {old, other}),
            ({"text": "q1"}, set()),
            ({"text": "BLUE"}, {plain}),
            ({"text": '"'}, set()),
        ]
        for which, meant in cases:
            assert {job.id for job in b.all_jobs(page=1, **which)} == meant, which
            assert b.store.count(JobFilter(**which), limit=10) == Counted(len(meant), False), which
            states = which.get("states", (State.AVAILABLE,))
            if states != (State.DEAD,):
                waiting: dict[str, Any] = which | {"states": (State.AVAILABLE,)}
                asked = b.operate("cancel", limit=10, **waiting)
                assert b.operation(asked).total == len(meant - {old}), which
        assert b.clear(dedup_key="k:1") == 1
        assert b.state(other) is State.CANCELLED
        assert b.clear(text="blue") == 1
        assert b.clear(states=(State.DEAD,)) == 0

    def test_count_stops(self, b: Bench) -> None:
        """Promise 11: a figure that is cut short says so."""
        b.fill({"a": 12})
        told = [b.store.count(JobFilter(), limit=n) for n in (11, 12, 13)]
        assert told == [Counted(11, True), Counted(12, False), Counted(12, False)]
        assert b.store.count(JobFilter(tenant="nobody"), limit=1) == Counted(0, False)

    # ------------------------------------------------------------------ retention

    def test_each_queue_keeps_its_own_number(self, b: Bench) -> None:
        """At most so many completed jobs per queue: a busy queue does not take from a quiet one."""
        for queue, n in (("quiet", 2), ("busy", 6)):
            for _ in range(n):
                b.put(queue=queue, task=f"t{_ % 2}")
                b.run(1)
                b.clock.advance(ms=1)
        busy = [job.id for job in reversed(b.all_jobs(queue="busy"))]
        assert b.prune(keep_ms=10**9, keep_completed=3) == 3
        assert [b.store.get(job) is None for job in busy] == [True] * 3 + [False] * 3
        assert len(b.all_jobs(queue="quiet")) == 2
        assert b.prune(keep_ms=10**9, keep_completed=3) == 0

    def test_surplus_is_bounded_and_deleted_once(self, b: Bench) -> None:
        """Two processes that look at once delete the same jobs, not twice as many; other states are left alone."""
        b.fill({"a": 9})
        b.run(8)
        (dead,) = b.claim()
        b.die(dead)
        assert len(b.store.surplus(keep=0, limit=3)) == 3
        surplus = b.store.surplus(keep=5, limit=100)
        assert len(surplus) == 3

        def pruned(seqs: list[int]) -> int:
            return b.write(lambda store, now_ms: store.prune(now_ms, keep_ms={}, surplus=seqs, limit=9))

        assert [pruned(surplus), pruned(surplus), pruned([*surplus, dead.seq])] == [3, 0, 0]

    @pytest.mark.parametrize("way", ["age", "number", "discard"])
    def test_kept_key_keeps_its_row(self, b: Bench, way: str) -> None:
        """A job whose dedup key is kept after its end stays on record until then, whatever retention says."""
        job = b.put(dedup_key="k", dedup_ttl_ms=5_000)
        claim = b.take()
        b.die(claim) if way == "discard" else b.done(claim)
        b.clock.advance(ms=4_999)

        def gone() -> bool:
            if way == "age":
                b.prune()
            elif way == "number":
                b.prune(keep_ms=10**9, keep_completed=0)
            else:
                record = b.finish(b.operate("discard", queue="q"))
                assert record.done + record.refused == 1
            return b.store.get(job) is None

        assert not gone()
        b.clock.advance(ms=2)
        assert gone()

    def test_prune_leaves_no_trace_of_a_job(self, b: Bench) -> None:
        """What was kept beside a job goes with it; a job that others wait for is not deleted before they are told."""
        parent = b.put()
        child = b.put(after=(parent,))
        b.cancel(child)
        b.clock.advance(ms=1)
        b.prune()
        assert b.store.get(child) is None
        assert b.store.get(parent) is not None
        b.run(1)
        b.clock.advance(ms=1)
        b.prune()
        b.prune()
        assert b.all_jobs() == []
        rows = b.rows()
        assert (list(rows["edge"]), list(rows["release"])) == ([], [])

    def test_waiting_follower_outlives_its_parent(self, b: Bench) -> None:
        """Retention takes the parent when its followers are told, and they run."""
        parent = b.put()
        child = b.put(after=(parent,))
        b.run(1)
        b.clock.advance(ms=1)
        for _ in range(2):
            b.prune()
        assert b.store.get(parent) is None
        assert b.drain() == [child]
