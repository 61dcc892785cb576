"""Whether an idle worker need claim: a look at the store tells that nothing has happened since its last claim."""

from __future__ import annotations

from typing import Final

from fairlane.domain.lanes import Ask
from fairlane.looks import Looker
from fairlane.owner import Owner

MOST_SPARED: Final = 30
"""Claims that are spared in a row: about half a minute."""


class Quiet:
    """Spares a worker the claims that only make up for lost news, while there are none.

    Args:
        owner: Owner of the store.
    """

    def __init__(self, owner: Owner) -> None:
        self._looker = Looker(owner)
        self._seen: tuple[tuple[int, int | None], Ask] | None = None
        self._spared = 0

    def spares(self, ask: Ask) -> bool:
        """Return whether the claim that came after the last look, with nothing left to find, would find nothing now.

        Call it right before a claim, which is left out when it says so; not while another thread reads for long,
        for a job may come.

        Raises:
            StoreError: The store cannot be read.
        """
        look = self._looker.take_soon()
        if look is None:
            return False
        version = look.version
        seen = None if version is None else (version, ask)
        spared = seen is not None and seen == self._seen and self._spared < MOST_SPARED
        self._seen = seen
        self._spared = self._spared + 1 if spared else 0
        return spared

    def wait_s(self) -> float:
        """Return how long until it is to be asked again, in seconds."""
        return self._looker.wait_s()
