"""Schedules: said in code with ``@app.cron`` and ``@app.every``, or by programs with ``app.schedule``.

What code declares is told to the store when a worker starts, and by :meth:`Schedules.declare`. A schedule belongs to
the module of its task's function: when a worker starts, those schedules of the modules that its tasks come from which
the code no longer declares are gone. They fire nothing any more, and are forgotten after a week.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, Unpack

from fairlane import maintenance
from fairlane.client import Client
from fairlane.clock import Clock
from fairlane.declarations import (
    AnyTask,
    Declaration,
    ScheduleOptions,
    declare,
    name_of,
    source_of,
    spec_of,
    template_of,
    when_of,
)
from fairlane.domain.checks import text
from fairlane.domain.schedules import DEFAULT_GRACE_MS, Overlap, Spec
from fairlane.domain.ticks import Misfire
from fairlane.errors import ConfigError, InvalidValue
from fairlane.faces import Homed, Steps, later, read, run, twin, write
from fairlane.firing import BATCH, Beside, fire
from fairlane.owner import Owner
from fairlane.schedules import Schedule, ScheduleInfo, said_by_hand
from fairlane.tasks import Task

log = logging.getLogger("fairlane.schedules")

T = TypeVar("T")
GRACE_S: Final = DEFAULT_GRACE_MS / 1000
MAX_PASSES: Final = 1_000
"""Transactions of one :meth:`Schedules.fire`; what is left waits for the next."""


class Schedules(Homed[Client]):
    """The schedules of a store, by name, and what the code of this app declares.

    Attributes:
        source: What the schedules of this app's code belong to, in place of their modules: give two apps that share
            modules and a store a source each. None: the modules.
    """

    def __init__(self, home: Client) -> None:
        super().__init__(home)
        self._declarations: list[Declaration] = []
        self.source: str | None = None

    def __getitem__(self, name: str) -> Schedule:
        return Schedule(self._home, name)

    def __iter__(self) -> Iterator[Schedule]:
        """Go through all of the store, by name."""
        infos: list[ScheduleInfo] = run(self, self._all())
        return iter([self[info.name] for info in infos])

    def _all(self) -> Steps[list[ScheduleInfo]]:
        return (
            yield from read(lambda store, now_ms: [ScheduleInfo.of(record, now_ms) for record in store.schedules()])
        )

    @twin
    def all(self) -> Steps[list[ScheduleInfo]]:
        """Return every schedule of the store, by name, those that are gone too."""
        return (yield from self._all())

    aall = later(all)

    @twin
    def fire(self) -> Steps[int]:
        """Fire what is due now and return how many jobs that made.

        Workers and ``fairlane monitor`` do this by themselves.
        """
        total = 0
        for _ in range(MAX_PASSES):
            fired = yield from write(fire)
            total += fired.jobs
            if fired.looked < BATCH:
                break
        return total

    afire = later(fire)

    # ------------------------------------------------------------------ in code

    def add(self, declaration: Declaration) -> None:
        """Take in what a decorator says.

        Raises:
            ConfigError: It is wrong; of a function that is no task yet that is found out later.
        """
        if not callable(declaration.target):
            raise ConfigError(f"a schedule decorates a task or its function, not {declaration.target!r}")
        if isinstance(declaration.target, Task):
            declaration.settled(self._home.registry)
        self._declarations.append(declaration)

    def said(self) -> dict[str, tuple[Spec, str]]:
        """Return what the code of this app says of each schedule, with its source.

        Raises:
            ConfigError: Two have the same name, or something is wrong about one.
        """
        said: dict[str, tuple[Spec, str]] = {}
        for declaration in self._declarations:
            name, spec, source = declaration.settled(self._home.registry)
            if name in said:
                raise ConfigError(f"two schedules are called {name!r}: give one of them another name=")
            said[name] = spec, self.source or source
        return said

    @twin
    def declare(self) -> Steps[list[str]]:
        """Tell the store what the code of this app declares, as a worker does at its start.

        What is new or changed is put down, and what the code no longer has is gone: see the head of the module.

        Returns:
            The names of those that changed or are gone.

        Raises:
            ConfigError: Two schedules have the same name, or something is wrong about one.
        """
        return (yield from self._declare())

    adeclare = later(declare)

    def _declare(self) -> Steps[list[str]]:
        said = self.said()
        known = {self.source} if self.source else {source_of(task) for task in self._home.registry}
        known |= {source for _, source in said.values()}
        changed, lost = yield from write(lambda store, now_ms: declare(store, said, known, now_ms))
        for name in changed:
            log.info("schedule_declared schedule=%r source=%s", name, said[name][1])
        for name in lost:
            log.info("schedule_gone schedule=%r", name)
        return [*changed, *lost]

    def join(self, owner: Owner) -> Beside:
        """Tell the store what the code declares, and return who fires beside one maintenance thread of a worker."""
        run(Opened(owner), self._declare())
        return Beside(owner)


class Opened(NamedTuple):
    """A store that is open, as far as a call needs it."""

    owner: Owner
    opened: bool = True


class SchedulingClient(Client):
    """A client with schedules, whose workers fire them.

    Attributes:
        schedules: The schedules of the store, by name: ``app.schedules["nightly"].pause("holidays")``.
    """

    def __init__(self, open_owner: Callable[[], Owner], clock: Clock) -> None:
        super().__init__(lambda: self._begin_to_fire(open_owner()), clock)
        self.schedules = Schedules(self)

    def _begin_to_fire(self, owner: Owner) -> Owner:
        maintenance.also(owner, partial(self.schedules.join, owner))
        return owner

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        misfire: Misfire = "run_once",
        grace: float = GRACE_S,
        overlap: Overlap = "queue",
        args: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[T], T]:
        """Run a task at the instants of a cron expression: a decorator, above or below ``@app.task``.

        Args:
            expression: Minute, hour, day of month, month and day of week; six fields begin with the second. Or one of
                ``@yearly``, ``@monthly``, ``@weekly``, ``@daily`` and ``@hourly``.
            tz: The time zone that it is meant in.
            name: The schedule's name, 1 to 200 bytes; the task's own by default.
            misfire: What is done about ticks that nothing was there to fire: ``run_once`` for all of them together,
                ``run_all`` for each (the latest 100), or ``skip``.
            grace: Up to how late a tick is on time all the same, in seconds; 0 to a week.
            overlap: Whether a tick makes its job while an earlier one's is live (``queue``), or is passed over
                (``skip``).
            args: The arguments of each run, by name.
            options: See :class:`~fairlane.declarations.ScheduleOptions`.

        Raises:
            ConfigError: Something is wrong; the message says what.
        """
        return self._declared(expression, None, tz, None, name, misfire, grace, overlap, args, options)

    def every(
        self,
        seconds: float,
        *,
        anchor: datetime | None = None,
        name: str | None = None,
        misfire: Misfire = "run_once",
        grace: float = GRACE_S,
        overlap: Overlap = "queue",
        args: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[T], T]:
        """Run a task every so many seconds, whatever restarts meanwhile: a decorator, above or below ``@app.task``.

        Args:
            seconds: From a tick to the next; 1 or more.
            anchor: The first tick, a datetime with a timezone; the others are whole intervals after it. None: one
                interval after the schedule was first stored.
            name: As for :meth:`cron`, like the rest.
            misfire: What is done about late ticks.
            grace: Up to how late one is on time, in seconds.
            overlap: What a tick does while an earlier one's job is live.
            args: The arguments of each run, by name.
            options: See :class:`~fairlane.declarations.ScheduleOptions`.

        Raises:
            ConfigError: Something is wrong; the message says what.
        """
        return self._declared(None, seconds, None, anchor, name, misfire, grace, overlap, args, options)

    def _declared(
        self,
        cron: str | None,
        every: float | None,
        tz: str | None,
        anchor: datetime | None,
        *said: Any,  # Any: the fields of Declaration, from its name on
    ) -> Callable[[T], T]:
        try:
            when = when_of(cron, every, tz, anchor)
        except InvalidValue as error:
            raise ConfigError(f"a schedule: {error}") from None
        name, *rest = said

        def decorate(target: T) -> T:
            self.schedules.add(Declaration(target, name, when, *rest))
            return target

        return decorate

    @twin
    def schedule(
        self,
        name: str,
        task: str | AnyTask,
        *,
        cron: str | None = None,
        every: float | None = None,
        tz: str | None = None,
        anchor: datetime | None = None,
        misfire: Misfire = "run_once",
        grace: float = GRACE_S,
        overlap: Overlap = "queue",
        args: Mapping[str, Any] | None = None,
        by: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Steps[Schedule]:
        """Make a schedule by hand, or say anew what one is; return a handle on it.

        Said again in the same words nothing changes. With other ticks the next one is the first from now on. Pause and
        figures stay.

        Args:
            name: Its name, 1 to 200 bytes.
            task: The task that it runs, or its name; the code need not be here.
            cron: A cron expression; or
            every: an interval, in seconds, 1 or more.
            tz: The time zone of ``cron``; UTC by default.
            anchor: The first tick of ``every``; by default one interval from now.
            misfire: As for :meth:`cron`, like the next.
            grace: Up to how late a tick is on time, in seconds; 0 to a week.
            overlap: What a tick does while an earlier one's job is live.
            args: The arguments of each run, by name.
            by: Who does it.
            options: See :class:`~fairlane.declarations.ScheduleOptions`.

        Raises:
            ConfigError: Code declares a schedule of this name.
            InvalidValue, InvalidJob: An argument breaks a rule.
        """
        text("by", by, empty=True)
        when = when_of(cron, every, tz, anchor)
        job = template_of(task, self.registry, args, options)
        spec = spec_of(name_of(name), when, job, misfire=misfire, grace=grace, overlap=overlap)
        yield from write(lambda store, now_ms: said_by_hand(store, name, spec, by=by, now_ms=now_ms))
        return self.schedules[name]

    aschedule = later(schedule)
