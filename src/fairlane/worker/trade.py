"""What one transaction of a dispatcher brings it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlane.domain.jobs import Claim
from fairlane.errors import FairlaneError


class Trade(NamedTuple):
    """What one transaction brought.

    Attributes:
        kept: For each settlement whether the claim was still ours.
        claims: What was claimed.
        claimed_at: The instant of it, by the monotonic clock.
        due_in_s: When time alone may make something startable, from then; None when no claim asked for more.
        refusal: Why the claim was refused, or None.
    """

    kept: Sequence[bool]
    claims: Sequence[Claim]
    claimed_at: float
    due_in_s: float | None
    refusal: FairlaneError | None
