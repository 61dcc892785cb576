"""How SQLite writes many new jobs: sixteen in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from fairlane.stores.tables.writing import Bare, Writing

BARE_INSERT: Final = "bare_insert"
BARE_INSERT_16: Final = "bare_insert_16"
TOGETHER: Final = 16
"""Jobs in one statement."""


class Inserting(Writing):
    """Writes the rows of new jobs."""

    def _put_bare(self, rows: Sequence[Bare]) -> None:
        """Write the rows of new jobs that are available and bare."""
        whole = len(rows) - len(rows) % TOGETHER
        for first in range(0, whole, TOGETHER):
            self._x(BARE_INSERT_16, tuple(chain.from_iterable(rows[first : first + TOGETHER])))
        for row in rows[whole:]:
            self._x(BARE_INSERT, row)
