"""Rescue where the kernel's locks tell who lives: B06, B20. The rest of it is in the contract suite."""

from __future__ import annotations

from fairlane.domain.states import State
from fairlane.testing.contract.bench import Bench


def test_the_living_whose_records_were_deleted_keep_their_jobs_and_hide_no_orphan(bench: Bench):
    """More of their runs than a pass looks at come before the one that is lost."""
    bench.worker("alive")
    bench.fill({"a": 30})
    assert len(bench.claim(30, worker="alive", lease_ms=10**9)) == 30
    bench.worker("dead")
    lost = bench.put()
    bench.take(worker="dead", lease_ms=10**9)
    for name in ("alive", "dead"):
        bench.write(lambda store, now_ms, name=name: store.unregister(name, now_ms))
    bench.kill("dead")
    assert bench.rescue(limit=10) == 1
    assert bench.state(lost) is State.AVAILABLE
    assert bench.rescue(limit=10) == 0
    bench.kill("alive")
    assert [bench.rescue(limit=10) for _ in range(4)] == [10, 10, 10, 0]
