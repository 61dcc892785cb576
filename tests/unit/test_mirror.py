"""The state in memory, as it is loaded from the log's statements."""

from typing import Any

from fairlane.domain.fairness import Scheduler
from fairlane.domain.policy import Policy
from fairlane.stores._mirror import STATED, Mirror

NO_LANES: Any = None


def test_a_tenant_whose_pool_was_stated_before_it_is_counted_once():
    """Ties go by that number, so who loads the state must count as who has it does."""
    mirror = Mirror(Scheduler(Policy.fair()), NO_LANES, 0)
    rows = [
        (1, STATED, '[["t","other","a",0,1,-1,1,1],["p","other",0,0,1,2,0,0]]'),
        (2, STATED, '[["t","other","b",0,0,-1,0,2]]'),
    ]
    mirror.load(rows, lambda: None)
    pool = mirror.scheduler.pool("other")
    assert (pool.seen, {name: turn.seen for name, turn in pool.turns.items()}) == (2, {"a": 1, "b": 2})
