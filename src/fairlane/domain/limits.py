"""Gates: what a pause, a cap, a rate or a handler's "wait" closes, and when time opens it again.

Queues, tasks, tenants and named limits all have one. Whether a gate is closed is a stored fact, changed only by
:meth:`Gate.refresh`, so that a decision reads a flag and everybody who follows the same events sees the same flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlane.domain.policy import Pause, Rate

TENANT_FIELD = "{tenant}"


def filled(template: str, tenant: str) -> str:
    """Return the limit key that ``template`` names for ``tenant``.

    Example:
        >>> filled("smtp:{tenant}", "acme"), filled("openai", "acme")
        ('smtp:acme', 'openai')
    """
    return template.replace(TENANT_FIELD, tenant)


class Gate:
    """Room for the jobs of one queue, task, tenant or named limit.

    The rate is a token bucket kept as one number, the theoretical arrival time of the generic cell rate algorithm
    (ITU-T I.371, 1996), in milliseconds times ``rate.starts`` so that the arithmetic is whole.

    Attributes:
        pause: The pause set on it, or None.
        max_running: How many of its jobs may run, or None.
        rate: How many may start in a period, or None.
        running: How many run now.
        tat: The theoretical arrival time of the next start.
        held_until_ms: A handler was told to wait until then.
        closed: Whether nothing of it may start, as last refreshed.
        saved: ``tat`` and ``held_until_ms`` as they are stored (kept by the store).
        timer_ms: When a refresh is already asked for, or None (kept by the caller).
    """

    __slots__ = ("closed", "held_until_ms", "max_running", "pause", "rate", "running", "saved", "tat", "timer_ms")

    def __init__(self) -> None:
        self.pause: Pause | None = None
        self.max_running: int | None = None
        self.rate: Rate | None = None
        self.running = 0
        self.tat = 0
        self.held_until_ms = 0
        self.closed = False
        self.timer_ms: int | None = None
        self.saved: tuple[int, int] = (0, 0)

    def set(self, *, pause: Pause | None, max_running: int | None = None, rate: Rate | None = None) -> None:
        """Take new rules; a changed rate starts with a full bucket, a first one with what is stored."""
        if self.rate is not None and rate != self.rate:
            self.tat = 0
        self.pause, self.max_running, self.rate = pause, max_running, rate

    def started(self, now_ms: int) -> bool:
        """Count a start and return whether the gate needs a refresh."""
        self.running += 1
        if self.rate is not None:
            self.tat = max(self.tat, now_ms * self.rate.starts) + self.rate.per_ms
            return True
        return self.max_running is not None and self.running >= self.max_running

    def finished(self) -> bool:
        """Count an end and return whether the gate needs a refresh."""
        self.running -= 1
        return self.max_running is not None

    def refresh(self, now_ms: int) -> bool:
        """Work out whether the gate is closed and return whether that changed."""
        if self.rate is not None:  # no more than a full bucket can be owed, whatever the clock did
            self.tat = min(self.tat, now_ms * self.rate.starts + self.rate.burst * self.rate.per_ms)
        closed = (
            (self.pause is not None and self.pause.active(now_ms))
            or now_ms < self.held_until_ms
            or (self.max_running is not None and self.running >= self.max_running)
            or (
                self.rate is not None
                and self.tat - now_ms * self.rate.starts > (self.rate.burst - 1) * self.rate.per_ms
            )
        )
        changed = closed != self.closed
        self.closed = closed
        return changed

    def opens_ms(self, now_ms: int) -> int | None:
        """Return the next instant at which time alone may open the gate, or None."""
        instants: list[int] = []
        if self.pause is not None and self.pause.until_ms is not None and self.pause.active(now_ms):
            instants.append(self.pause.until_ms)
        if now_ms < self.held_until_ms:
            instants.append(self.held_until_ms)
        if self.rate is not None:
            excess = self.tat - (self.rate.burst - 1) * self.rate.per_ms
            opens = -(-excess // self.rate.starts)
            if now_ms < opens:
                instants.append(opens)
        return min(instants, default=None)
