"""What tracing must offer: the seam that clients and workers call when, and only when, an app is instrumented."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from fairlane.domain.jobs import Claim, Enqueued, NewJob, Settlement


class Sending(Protocol):
    """Jobs on their way into the store.

    Attributes:
        jobs: The jobs to store: as given, or with the trace context that they are to carry.
        stored: What the store answered; whoever stores them sets it.
    """

    jobs: Sequence[NewJob]
    stored: Sequence[Enqueued]


class Run(Protocol):
    """One attempt, as tracing sees it."""

    @property
    def claim(self) -> Claim:
        """The right to run it."""
        ...

    @property
    def settlement(self) -> Settlement | None:
        """How it ended; None until then, and when the lease was lost."""
        ...


class Tracer(Protocol):
    """Follows jobs from those who store them to those who run them. Nothing of it raises or waits."""

    def sending(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sending]:
        """Follow jobs, at least one, while they are stored in one transaction."""
        ...

    def running(self, run: Run) -> AbstractContextManager[object]:
        """Follow an attempt, in the context in which its handler runs."""
        ...
