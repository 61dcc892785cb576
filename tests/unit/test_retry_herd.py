"""What fails together does not come back together: B32."""

from __future__ import annotations

import random

import pytest

from fairlane.domain.retries import Retry, retry_delay_ms


@pytest.mark.parametrize("failures", [1, 3, 40])
def test_a_thousand_that_fail_in_the_same_millisecond_spread_out(failures: int):
    """Over a fifth of the delay and more, evenly enough, and none is earlier than asked for."""
    rng = random.Random(3)
    retry = Retry()
    base_ms, cap_ms = round(retry.base * 1000), round(retry.cap * 1000)
    asked_ms = min(base_ms * retry.factor ** (failures - 1), cap_ms)
    delays = sorted(
        retry_delay_ms(failures, base_ms=base_ms, factor=retry.factor, cap_ms=cap_ms, jitter=retry.jitter, rng=rng)
        for _ in range(1_000)
    )
    assert delays[0] >= asked_ms
    assert delays[-1] - delays[0] >= 0.2 * asked_ms
    assert delays[-1] <= asked_ms * (1 + retry.jitter)
    tenth = (delays[-1] - delays[0]) / 10
    counts = [sum(delays[0] + n * tenth <= delay < delays[0] + (n + 1) * tenth for delay in delays) for n in range(10)]
    assert max(counts) < 200, "no herd is left: an even draw has 100 in each tenth"
