"""The policy of a store, and the rules for its queues, tasks, tenants and named limits; they check themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from fairlane.domain.checks import number, optional_whole, text, whole
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidValue

Kind = Literal["fair", "strict", "fifo"]
Charge = Literal["time", "count", "cost"]

DEFAULT_POOL: Final = "default"
DEFAULT_TENANT: Final = "default"
DEFAULT_QUEUE: Final = "default"
SECOND_US: Final = 1_000_000
WEIGHT_UNIT: Final = 1000
"""A weight of 1 as it is stored: weights are whole thousandths, so that virtual time is exact arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who runs next. Make one with :meth:`fair`, :meth:`strict` or :meth:`fifo`.

    Attributes:
        kind: Which rules decide.
        charge: What a start costs its tenant: run time, one a start, or what the handler reports.
        ageing_step_ms: Wait that raises a job by one tier, in milliseconds; 1 or more.
        ageing_ceiling: Most urgent tier that ageing reaches.
        risen_every: Every how many starts one belongs to risen jobs; 0 turns the guarantee off.
        urgent_share: Share of the declared slots that one tenant's urgent jobs may fill first; above 0, at most 1.
        max_lag_us: How far below the pool's virtual time a tenant may start, in worker-microseconds at weight 1.
        unknown_run_us: Expected run time where nothing has run yet, in microseconds. Short: what a guess is too long is
            given back to its tenant, but the pool's time, where newcomers begin, stays where the guess has moved it.
    """

    kind: Kind = "fair"
    charge: Charge = "time"
    ageing_step_ms: int = 60_000
    ageing_ceiling: Tier = Tier.HIGH
    risen_every: int = 8
    urgent_share: float = 0.25
    max_lag_us: int = 600 * SECOND_US
    unknown_run_us: int = 10_000

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidValue(f"policy {self.kind!r} is not one of {', '.join(get_args(Kind))}")
        if self.charge not in get_args(Charge):
            raise InvalidValue(f"charge {self.charge!r} is not one of {', '.join(get_args(Charge))}")
        whole("ageing_step_ms", self.ageing_step_ms, least=1)
        object.__setattr__(self, "ageing_ceiling", Tier.of(self.ageing_ceiling))
        whole("risen_every", self.risen_every)
        number("urgent_share", self.urgent_share, least=0, most=1, above=True)
        whole("max_lag_us", self.max_lag_us)
        whole("unknown_run_us", self.unknown_run_us, least=1)

    @property
    def unknown_us(self) -> int:
        """What a start is charged where nothing is known of its run, in microseconds; one start or one unit is 1 s."""
        return self.unknown_run_us if self.charge == "time" else SECOND_US

    @staticmethod
    def fair(
        *,
        ageing_step: float = 60.0,
        charge: Charge = "time",
        risen_every: int = 8,
        urgent_share: float = 0.25,
        max_lag: float = 600.0,
    ) -> Policy:
        """Return the default: express, urgent tiers, then tenants in turn, with a guarantee for jobs that have risen.

        Args:
            ageing_step: Wait that raises a job by one tier, in seconds; above 0.
            charge: ``"time"``, ``"count"`` or ``"cost"``.
            risen_every: Every how many starts one belongs to risen jobs; 0 turns the guarantee off.
            urgent_share: Share of the declared slots that one tenant's urgent jobs may fill first.
            max_lag: How far below the pool's virtual time a tenant may start, in seconds.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        return Policy(
            charge=charge,
            ageing_step_ms=_ms("ageing_step", ageing_step),
            risen_every=risen_every,
            urgent_share=urgent_share,
            max_lag_us=round(number("max_lag", max_lag, least=0, most=1e9) * SECOND_US),
        )

    @staticmethod
    def strict(*, ageing_step: float = 60.0, charge: Charge = "time", ageing_ceiling: Tier = Tier.CRITICAL) -> Policy:
        """Return the policy where the effective tier decides over all tenants, who take turns within a tier.

        Args:
            ageing_step: Wait that raises a job by one tier, in seconds; above 0.
            charge: ``"time"``, ``"count"`` or ``"cost"``.
            ageing_ceiling: Most urgent tier that ageing reaches.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        return Policy(
            kind="strict", charge=charge, ageing_step_ms=_ms("ageing_step", ageing_step), ageing_ceiling=ageing_ceiling
        )

    @staticmethod
    def fifo() -> Policy:
        """Return the policy that knows neither tiers nor tenants, for comparison."""
        return Policy(kind="fifo")

    @staticmethod
    def named(name: str, *, ageing_step: float = 60.0) -> Policy:
        """Return the policy called ``name`` with its defaults.

        Args:
            name: ``"fair"``, ``"strict"`` or ``"fifo"``.
            ageing_step: Wait that raises a job by one tier, in seconds; above 0. ``fifo`` knows none.

        Raises:
            InvalidValue: There is no such policy.
        """
        if name == "fair":
            return Policy.fair(ageing_step=ageing_step)
        if name == "strict":
            return Policy.strict(ageing_step=ageing_step)
        if name == "fifo":
            return Policy.fifo()
        raise InvalidValue(f"policy {name!r} is not one of {', '.join(get_args(Kind))}")


def _ms(name: str, seconds: float) -> int:
    return max(1, round(number(name, seconds, least=0, most=1e10, above=True) * 1000))


@dataclass(frozen=True, slots=True)
class Pause:
    """Why something runs nothing for now.

    Attributes:
        reason: Free text.
        by: Who did it.
        until_ms: When it ends by itself, or None.
    """

    reason: str = ""
    by: str = ""
    until_ms: int | None = None

    def active(self, now_ms: int) -> bool:
        """Return whether the pause holds at ``now_ms``."""
        return self.until_ms is None or now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket.

    Attributes:
        starts: How many starts the period allows; 1 or more.
        per_ms: The period, in milliseconds; 1 or more.
        burst: How many starts it holds at once; 1 or more.
    """

    starts: int
    per_ms: int
    burst: int

    def __post_init__(self) -> None:
        whole("rate", self.starts, least=1)
        whole("per", self.per_ms, least=1)
        whole("burst", self.burst, least=1)

    @staticmethod
    def of(rate: int, per: float = 1.0, burst: int | None = None) -> Rate:
        """Return a rate of ``rate`` starts per ``per`` seconds.

        Args:
            rate: Starts in a period; 1 or more.
            per: The period, in seconds; above 0.
            burst: Starts that may come at once; by default a tenth of ``rate``, at least 1.

        Raises:
            InvalidValue: An argument is outside the range given above.
        """
        whole("rate", rate, least=1)
        return Rate(rate, _ms("per", per), max(1, rate // 10) if burst is None else burst)


@dataclass(frozen=True, slots=True)
class QueueRule:
    """What is set for a queue: its pool, pause and limits (None: no limit)."""

    pool: str = DEFAULT_POOL
    pause: Pause | None = None
    max_running: int | None = None
    tenant_max_running: int | None = None
    max_waiting: int | None = None

    def __post_init__(self) -> None:
        text("pool", self.pool)
        optional_whole("max_running", self.max_running)
        optional_whole("tenant_max_running", self.tenant_max_running)
        optional_whole("max_waiting", self.max_waiting)


@dataclass(frozen=True, slots=True)
class TaskRule:
    """What is set for a task: its pause and the named limits its jobs count against."""

    pause: Pause | None = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.limits:
            text("limit", key)


@dataclass(frozen=True, slots=True)
class TenantRule:
    """What is set for a tenant: its weight in thousandths, pause and limits (None: no limit)."""

    weight_milli: int = WEIGHT_UNIT
    pause: Pause | None = None
    max_running: int | None = None
    max_waiting: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        whole("weight in thousandths", self.weight_milli, least=1, most=1_000_000_000)
        optional_whole("max_running", self.max_running)
        optional_whole("max_waiting", self.max_waiting)


@dataclass(frozen=True, slots=True)
class LimitRule:
    """What is set for a named limit: pause, how many of its jobs may run, how many may start in a period."""

    pause: Pause | None = None
    max_running: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        optional_whole("max_running", self.max_running)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacities:
    """How many express jobs may wait.

    Attributes:
        express_capacity: In all; 1 or more.
        express_per_tenant: Of one named tenant; 1 or more.
    """

    express_capacity: int = 20
    express_per_tenant: int = 5

    def __post_init__(self) -> None:
        whole("express_capacity", self.express_capacity, least=1)
        whole("express_per_tenant", self.express_per_tenant, least=1)
