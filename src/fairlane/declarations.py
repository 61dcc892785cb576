"""What is said of schedules, in code and in calls: checked, and made into what is stored."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from fairlane.domain import schedules as rules
from fairlane.domain import ticks
from fairlane.domain.checks import text
from fairlane.domain.jobs import MAX_ARGS_BYTES
from fairlane.domain.payloads import encode
from fairlane.domain.schedules import MAX_NAME_BYTES, Overlap, Spec, Template
from fairlane.domain.ticks import Misfire, When
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError, InvalidJob, InvalidValue
from fairlane.instants import instant_ms
from fairlane.options import Plan, TierLike, span_ms
from fairlane.registry import Registry
from fairlane.store import Store
from fairlane.tasks import Task

if TYPE_CHECKING:
    from typing_extensions import TypedDict
else:
    from typing import TypedDict

AnyTask = Task[..., Any]


class _Options(TypedDict, total=False):
    queue: str
    tenant: str
    tier: TierLike
    expires_in: float | None
    expedite: bool
    tags: Sequence[str]


# Closed as ``options.JobOptions`` is, for type checkers.
if not TYPE_CHECKING:

    class ScheduleOptions(_Options, total=False):
        """Options of a schedule's jobs; all may be left out."""

else:

    class ScheduleOptions(_Options, total=False, closed=True):
        """Options of a schedule's jobs; see :class:`~fairlane.options.JobOptions`. All may be left out.

        Attributes:
            queue: Name of the queue; the task's own by default.
            tenant: On whose behalf; ``"default"`` by default.
            tier: How urgent; the task's own by default.
            expires_in: Seconds after its tick was fired from which a job is cancelled instead of started.
            expedite: Whether it goes to the express lane; a full one refuses the tick.
            tags: Free words to find it by; ``schedule:NAME`` and ``tick:INSTANT`` are added.
        """


OPTION_NAMES: Final = frozenset(ScheduleOptions.__annotations__)


def name_of(name: object) -> str:
    """Return the name of a schedule, checked.

    Raises:
        InvalidValue: It is no text of 1 to 200 bytes.
    """
    return text("schedule", name, max_bytes=MAX_NAME_BYTES)


def when_of(cron: str | None, every: float | None, tz: str | None, anchor: datetime | None) -> When:
    """Return when the ticks are, of a cron expression with its time zone or an interval with its anchor.

    Raises:
        InvalidValue: None or both of them are given, or one of them is wrong.
    """
    if cron is not None and every is None:
        if anchor is not None:
            raise InvalidValue("anchor belongs to every=; a cron expression names its instants itself")
        return ticks.cron(cron, "UTC" if tz is None else tz)
    if every is not None and cron is None:
        if tz is not None:
            raise InvalidValue("tz belongs to cron=; an interval is the same in every time zone")
        return ticks.every(
            span_ms("every", every, above=True), None if anchor is None else instant_ms("anchor", anchor)
        )
    raise InvalidValue("a schedule has either cron= or every=")


def template_of(
    what: str | AnyTask, registry: Registry, args: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> Template:
    """Return what each tick's job is.

    Args:
        what: A task, or the name of one; where its code is here, the arguments are checked and its options hold.
        registry: The tasks that are known here.
        args: The named arguments.
        options: Options of the jobs, unchecked; see :class:`ScheduleOptions`.

    Raises:
        TypeError: There is no such option.
        InvalidJob: The arguments or an option break a rule.
    """
    if not isinstance(what, str | Task):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InvalidJob(f"a task is named by its name, not {what!r}")
    task = what if isinstance(what, Task) else registry.get(what)
    named: Mapping[str, Any] = {} if args is None else args
    if not isinstance(named, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  as above
        raise InvalidJob(f"args must be a mapping of names to values, not {args!r}")
    if task is None:
        plan, name = Plan(), str(what)
        body = encode(dict(named), what="args", max_bytes=MAX_ARGS_BYTES)
    else:
        plan, name = task.plan, task.name
        body = task.signature.check(dict(named))
    return template_with(Template(task=name, queue=plan.queue, tier=plan.tier, args=body), options)


def template_with(template: Template, options: Mapping[str, Any]) -> Template:  # Any: unchecked options
    """Return a template with other options.

    Raises:
        TypeError: There is no such option.
        InvalidJob: One of them breaks a rule.
    """
    if unknown := options.keys() - OPTION_NAMES:
        raise TypeError(
            f"a schedule got an unexpected option {min(unknown)!r}; there are {', '.join(sorted(OPTION_NAMES))}"
        )
    held = Plan(
        queue=template.queue,
        tenant=template.tenant,
        tier=Tier.of(template.tier),
        express=template.express,
        expires_in_ms=template.expires_in_ms,
        tags=template.tags,
    )
    plan = held.changed(options, "schedule")
    return msgspec.structs.replace(
        template,
        queue=plan.queue,
        tenant=plan.tenant,
        tier=plan.tier,
        express=plan.express,
        expires_in_ms=plan.expires_in_ms,
        tags=plan.tags,
    )


def spec_of(name: str, when: When, job: Template, *, misfire: Misfire, grace: float, overlap: Overlap) -> Spec:
    """Return what is said of a schedule, checked as a whole.

    Args:
        name: Its name.
        when: When its ticks are.
        job: What each of them makes.
        misfire: What is done about late ticks.
        grace: Up to how late one is on time, in seconds; 0 to a week.
        overlap: What a tick does while an earlier one's job is live.

    Raises:
        InvalidValue: One of them breaks a rule.
        InvalidJob: No tick could enqueue its job.
    """
    spec = Spec(when=when, job=job, misfire=misfire, grace_ms=span_ms("grace", grace), overlap=overlap)
    rules.job_of(name, spec, 0, bytes(16), 0)
    return spec


# ---------------------------------------------------------------- in code


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one ``@app.cron`` or ``@app.every`` says.

    Attributes:
        target: The task, or the function that a task will be made of.
        name: The schedule's name; None: that of the task.
    """

    target: object
    name: str | None
    when: When
    misfire: Misfire
    grace: float
    overlap: Overlap
    args: Mapping[str, Any] | None
    options: Mapping[str, Any]

    def task(self, registry: Registry) -> AnyTask:
        """Return the task.

        Raises:
            ConfigError: The function that was decorated is no task's.
        """
        if isinstance(self.target, Task):
            return cast("AnyTask", self.target)
        for task in registry:
            if task.fn is self.target:
                return task
        raise ConfigError(f"{self.target!r} has a schedule and is no task of this app: decorate it with @app.task too")

    def settled(self, registry: Registry) -> tuple[str, Spec, str]:
        """Return the schedule's name, what is said of it, and its source.

        Raises:
            ConfigError: Something about it is wrong; the message says what.
        """
        task = self.task(registry)
        name = task.name if self.name is None else self.name
        try:
            job = template_of(task, registry, self.args, self.options)
            return name_of(name), self._spec(name, job), source_of(task)
        except (InvalidValue, InvalidJob, TypeError) as error:
            raise ConfigError(f"schedule {name!r}: {error}") from None

    def _spec(self, name: str, job: Template) -> Spec:
        return spec_of(name, self.when, job, misfire=self.misfire, grace=self.grace, overlap=self.overlap)


def source_of(task: AnyTask) -> str:
    """Return the module that a task comes from; see :func:`module_of`."""
    return module_of(task.fn)


def module_of(fn: object) -> str:
    """Return the module of a function; of a program that was started itself, the name that others import it by."""
    module = str(getattr(fn, "__module__", None) or "?")
    main = sys.modules.get(module)
    if module != "__main__" or main is None:
        return module
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return module if file is None else Path(str(file)).stem


def declare(
    store: Store, said: Mapping[str, tuple[Spec, str]], known: Collection[str], now_ms: int
) -> tuple[list[str], list[str]]:
    """Tell the store what code says of schedules, in the caller's transaction; writes only what differs.

    Args:
        store: The store.
        said: What is said of each schedule, by name, with its source.
        known: The sources whose schedules all are in ``said``: those that are not are gone.
        now_ms: The instant.

    Returns:
        The names of those that changed, and of those that are gone since now.
    """
    held = {record.name: record for record in store.schedules()}
    changed: list[str] = []
    for name, (spec, source) in said.items():
        old = held.get(name)
        new = rules.declared(old, name, spec, source=source, by=f"code:{source}", now_ms=now_ms)
        if new is not None:
            store.put_schedule(new, did="declare schedule", by=new.changed_by, now_ms=now_ms)
            changed.append(name)
    lost = [record for record in held.values() if record.source in known and record.name not in said]
    lost = [record for record in lost if record.gone_at_ms is None]
    for record in lost:
        new = rules.gone(record, by=f"code:{record.source}", now_ms=now_ms)
        store.put_schedule(new, did="drop schedule", by=new.changed_by, now_ms=now_ms)
    return changed, [record.name for record in lost]
