"""What tests of fairlane, and of programs that use it, need: a clock of their own, helpers, and the suite for stores.

``fairlane.testing.contract`` is imported only where it is used: it needs pytest.
"""

from __future__ import annotations

from fairlane.testing.clock import ManualClock
from fairlane.testing.helpers import assert_enqueued, drain

__all__ = ["ManualClock", "assert_enqueued", "drain"]
