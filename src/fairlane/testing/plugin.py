"""The pytest plugin: the fixtures ``fairlane_clock`` and ``fairlane_app``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairlane.app import Fairlane
    from fairlane.testing.clock import ManualClock


@pytest.fixture
def fairlane_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from fairlane.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def fairlane_app(fairlane_clock: ManualClock) -> Iterator[Fairlane]:
    """An application over a private store in memory, on ``fairlane_clock``; closed after the test."""
    from fairlane.app import Fairlane

    with Fairlane("sqlite://", clock=fairlane_clock) as app:
        yield app
