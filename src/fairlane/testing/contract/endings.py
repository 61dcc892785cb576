"""Ways in which a job that waits ends without success; several parts of the suite go through them."""

from __future__ import annotations

from fairlane.testing.contract.bench import Bench


def dead(b: Bench, job: bytes) -> None:
    """Its handler says that it is dead."""
    b.die(b.take())


def cancelled(b: Bench, job: bytes) -> None:
    """Somebody cancels it while it waits."""
    b.cancel(job)


def cancelled_while_running(b: Bench, job: bytes) -> None:
    """It is asked to stop, and does."""
    claim = b.take()
    b.cancel(job)
    b.settle(claim, "cancelled", reason="asked to stop")


def crashed_to_death(b: Bench, job: bytes) -> None:
    """It crashes more often than it may."""
    for _ in range(4):
        b.crash(b.take())
