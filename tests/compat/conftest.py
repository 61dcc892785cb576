"""What the tests of the shims share: running what is due, and letting time pass without waiting for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fairlane as fl
from fairlane.testing import ManualClock, drain

Run = Callable[..., None]


@pytest.fixture
def run(fairlane_app: fl.Fairlane, fairlane_clock: ManualClock) -> Run:
    """Let some seconds pass, then run what may run."""

    def run(after: float = 0) -> None:
        fairlane_clock.advance(seconds=after)
        drain(fairlane_app)

    return run
