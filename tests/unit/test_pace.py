"""How many runs that ended together are settled together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairlane.worker.pace import Pace


def ended(run_s: float, many: int = 1) -> Any:
    return [SimpleNamespace(settlement=SimpleNamespace(run_us=round(run_s * 1e6)))] * many


@pytest.mark.parametrize(
    ("trade_s", "run_s", "portions"),
    [
        (0.001, 0.005, [0, 1, 1, 2, 2]),  # four transactions fit into a run: the slots get out of step
        (0.001, 0.003, [0, 1, 2, 3, 4]),
        (0.0005, 0.0001, [0, 1, 2, 3, 4]),  # jobs that do nothing share each flush
    ],
)
def test_slots_get_out_of_step_where_each_can_have_a_transaction(
    trade_s: float, run_s: float, portions: list[int]
) -> None:
    pace = Pace(slots=4)
    for _ in range(100):
        pace.traded(trade_s, ended(run_s))
    assert [pace.portion(count) for count in range(5)] == portions


def test_before_anything_is_known_all_go_together() -> None:
    assert Pace(slots=8).portion(8) == 8
    pace = Pace(slots=8)
    pace.traded(0.01, [])
    pace.traded(0.0, [SimpleNamespace(settlement=None)])  # type: ignore[list-item]  # a lease that was lost
    assert pace.portion(8) == 8
