"""Tasks with fairlane's options, and Django's priorities as tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from fairlane.domain.retries import Retry
from fairlane.domain.tiers import Tier
from fairlane.errors import InvalidJob
from fairlane.integrations.django.flavour import InvalidTask, base, timezone
from fairlane.options import OPTION_NAMES, JobOptions, Plan

PRIORITIES: Final[Mapping[Tier, tuple[int, int]]] = {
    Tier.CRITICAL: (61, 80),
    Tier.HIGH: (21, 40),
    Tier.NORMAL: (-20, 0),
    Tier.LOW: (-60, -40),
    Tier.BACKGROUND: (-100, -80),
}
"""For each tier, the lowest of Django's priorities that means it, and one that stands for it: fifths of the scale."""

OPTIONS: Final = OPTION_NAMES - {"queue", "delay", "scheduled_at", "after", "on_failure"}
"""What ``using`` takes of fairlane's options: Django has words of its own for some, and no ids before the enqueue."""


def tier_of(priority: int) -> Tier:
    """Return the tier that one of Django's priorities means.

    Example:
        >>> [tier_of(priority).label for priority in (100, 61, 21, 20, 0, -21, -100)]
        ['critical', 'critical', 'high', 'normal', 'normal', 'low', 'background']
    """
    return next(tier for tier, (lowest, _) in PRIORITIES.items() if priority >= lowest)


def priority_of(tier: Tier) -> int:
    """Return the priority that stands for a tier.

    Example:
        >>> [priority_of(tier) for tier in Tier]
        [80, 40, 0, -40, -80]
    """
    return PRIORITIES[tier][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FairlaneTask(base.Task):  # type: ignore[misc]  # Django does not say its types
    """A Django task with what fairlane knows besides. ``@task(retry=…, timeout=…)`` gives the first four.

    Attributes:
        retry: How often and how soon failed runs are tried again; None: not at all, as with Django's own backends.
        timeout: Longest run, in seconds; None sets no bound.
        limits: Keys of named limits that its jobs count against.
        preemptible: Whether a run may be asked to give way to urgent work.
        options: Options of its jobs, as pairs; :meth:`using` gives them.
    """

    retry: Retry | None = None
    timeout: float | None = None
    limits: tuple[str, ...] = ()
    preemptible: bool = False
    options: tuple[tuple[str, Any], ...] = ()  # Any: each option has its own type

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Any,  # Any: each option has its own type
    ) -> FairlaneTask:
        """Return this task with other values for the jobs to come.

        Args:
            priority: How urgent, -100 to 100; see :data:`PRIORITIES`. ``tier=`` says it in fairlane's words.
            queue_name: Name of the queue.
            run_after: The earliest instant at which it may run.
            backend: Name of another backend in ``TASKS``.
            options: Those of :class:`~fairlane.options.JobOptions`: ``tenant``, ``tier``, ``dedup_key``,
                ``on_conflict``, ``dedup_ttl``, ``expires_in``, ``expires_at``, ``expedite``, ``tags`` and ``trace``.

        Raises:
            TypeError: There is no such option.
            InvalidTask: A value breaks a rule; the message names the value and the rule.
        """
        if unknown := options.keys() - OPTIONS:
            raise TypeError(
                f"using() got an unexpected option {min(unknown)!r}; there are {', '.join(sorted(OPTIONS))}"
            )
        try:
            Plan().changed(options, "using")
        except InvalidJob as error:
            raise InvalidTask(str(error)) from None
        changes: dict[str, Any] = {
            "priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend,
        }  # fmt: skip
        if options:
            held = {**dict(self.options), **options}
            changes["options"] = tuple(sorted((name, _hashable(value)) for name, value in held.items()))
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given)


def options_of(task: Any) -> JobOptions:  # Any: Django's own tasks too, which do not say their types
    """Return what the jobs of a task are enqueued with: fairlane's options, with the tier that its priority means."""
    told: dict[str, Any] = {"tier": tier_of(task.priority), **dict(getattr(task, "options", ()))}
    return cast("JobOptions", {**told, "queue": task.queue_name, "scheduled_at": _aware(task.run_after)})


def retry_of(task: Any) -> Retry:  # Any: as above
    """Return how often failed runs of a task are tried again: not at all unless it says so, as with Django's own."""
    given: Retry | None = getattr(task, "retry", None)
    return Retry(max_attempts=1) if given is None else given


def _aware(at: datetime | None) -> datetime | None:
    """Return an instant with a timezone: without ``USE_TZ`` Django's instants have none, and mean the default one."""
    aware: datetime | None = timezone.make_aware(at) if at is not None and timezone.is_naive(at) else at
    return aware


def _hashable(value: Any) -> Any:  # Any: as for options
    """Return an option's value as a task can hold it: Django compares tasks, and may hash them."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value
