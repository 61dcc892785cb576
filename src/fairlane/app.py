"""The composition root: settings in, a wired application out. The only module that knows a concrete store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from weakref import WeakSet

from fairlane.bulk import BulkClient
from fairlane.clock import Clock, SystemClock
from fairlane.dead import DeadLetters
from fairlane.domain.checks import flag, text
from fairlane.domain.policy import Capacities, Policy
from fairlane.domain.tiers import Tier
from fairlane.errors import ConfigError, InvalidValue
from fairlane.faces import Steps, later, threaded, twin, write
from fairlane.hooks import H
from fairlane.insight import Insight
from fairlane.owner import Owner
from fairlane.registry import TaskMaker
from fairlane.rules import Handles, Limit, Queue, TaskHandle, Tenant
from fairlane.scheduling import SchedulingClient
from fairlane.settings import Settings, without_password
from fairlane.store import Backup, Restored, Store
from fairlane.stores.named import clock_of, need_file, open_store, pinned
from fairlane.tokens import Tokens
from fairlane.watch import WatchingClient

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fairlane.maintenance import Maintenance, Retention
    from fairlane.stores.postgres.clock import PostgresClock
    from fairlane.worker import Worker


class Fairlane(WatchingClient, Insight, SchedulingClient, BulkClient):
    """A job queue over one store. Making one only checks settings; the store is opened at the first use.

    Args:
        url: The store: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` (private, in memory) or
            ``postgresql://user@host/database`` (see the guide on PostgreSQL). None: ``FAIRLANE_URL``, the settings
            file, or ``sqlite:///fairlane.db``.
        policy: Who runs next. A new store is made with it; one that exists must have it (see :meth:`configure`).
        durability: ``"full"`` flushes every commit to the disk; ``"normal"`` may lose the last ones on a power cut.
        express_capacity: Express jobs that may wait; 1 or more. As for ``policy``, like the next.
        express_per_tenant: Express jobs of one named tenant that may wait; 1 or more.
        clock: Where instants come from; tests give one of their own. None: this machine's clock, or that of the
            PostgreSQL database.

    Attributes:
        settings: The settings that hold, each with where it came from.
        task: The decorator that makes tasks: ``@app.task`` or ``@app.task(queue="mail", ...)``; its options are those
            of :class:`~fairlane.tasks.Task`.
        queues: What is set for queues, by name; ``tenants``, ``tasks`` and ``limits`` likewise.
        tiers: How long jobs of a tier may wait.
        dead: Dead jobs: what they died of, and what to do about it.
        schedules: Jobs that come again and again, by name; ``cron`` and ``every`` declare them.
        tokens: Who may use the HTTP API and the dashboard.

    Raises:
        ConfigError: A setting is wrong; the message says which, why, and where it came from.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        policy: Policy | Literal["fair", "strict", "fifo"] | None = None,
        durability: Literal["full", "normal"] | None = None,
        express_capacity: int | None = None,
        express_per_tenant: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = Settings.load(
            {
                "url": url,
                "policy": policy,
                "durability": durability,
                "express_capacity": express_capacity,
                "express_per_tenant": express_per_tenant,
            }
        )
        self._policy = self.settings.policy()
        self._capacities = self.settings.capacities()
        self._url = pinned(self.settings.url)
        self._given_clock = clock
        self._database_clock: PostgresClock | None = None
        super().__init__(self._open, self._clock_of_store())
        self._workers: WeakSet[Worker] = WeakSet()
        self.task = TaskMaker(self.registry, self)
        self.queues = Handles(self, Queue)
        self.tenants = Handles(self, Tenant)
        self.tasks = Handles(self, TaskHandle)
        self.limits = Handles(self, Limit)
        self.tokens = Tokens(self)
        self.dead = DeadLetters(self)
        if self.settings["telemetry"]:
            self.instrument()

    def __repr__(self) -> str:
        return f"<Fairlane {without_password(self._url)}>"

    @property
    def url(self) -> str:
        """The store's address; a relative file is taken from the working directory of the start."""
        return self._url

    def use(self, url: str) -> None:
        """Take another store than the settings say, before the first use: what ``fairlane worker --url`` does.

        Raises:
            ConfigError: The URL is wrong, or the store is open already.
        """
        if self.opened:
            raise ConfigError(f"the store {without_password(self._url)} is open; choose another before the first use")
        self._url = pinned(url)
        self.clock = self._clock_of_store()

    def _clock_of_store(self) -> Clock:
        """Return where instants come from: for a database that machines share, its own clock, unless one was given."""
        if self._database_clock is not None:
            self._database_clock.close()
        self._database_clock = clock_of(self._url) if self._given_clock is None else None
        return self._given_clock or self._database_clock or SystemClock()

    def _open(self) -> Owner:
        return Owner(self._open_store, self.clock)

    def _open_store(self) -> Store:
        """Open the store, in the thread that will own it; again in a forked child."""
        return open_store(
            self._url,
            clock=self.clock,
            policy=self._policy,
            capacities=self._capacities,
            durability=self.settings["durability"],
        )

    # ------------------------------------------------------------------ settings of the store

    @twin
    def configure(
        self,
        *,
        policy: Policy | Literal["fair", "strict", "fifo"] | None = None,
        express_capacity: int | None = None,
        express_per_tenant: int | None = None,
        by: str = "",
    ) -> Steps[tuple[Policy, Capacities]]:
        """Change the store's policy or capacities for everybody; what is not named stays. Return what holds now.

        Other processes follow at once; one that is started later with other values gets ConfigError.

        Args:
            policy: Who runs next.
            express_capacity: Express jobs that may wait; 1 or more.
            express_per_tenant: Express jobs of one named tenant that may wait; 1 or more.
            by: Who does it.

        Raises:
            InvalidValue: An argument is outside the range given above.
            ConfigError: The store was created with other settings than this process asks for; leave those out.
        """
        wanted = Policy.named(policy) if isinstance(policy, str) else policy
        if wanted is not None and not isinstance(wanted, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidValue(f"policy must be a Policy or the name of one, not {policy!r}")
        text("by", by, empty=True)
        named = {
            name: value
            for name, value in (("express_capacity", express_capacity), ("express_per_tenant", express_per_tenant))
            if value is not None
        }
        replace(Capacities(), **named)  # refuses wrong values now

        def op(store: Store, now_ms: int) -> tuple[Policy, Capacities]:
            policy, capacities = store.settings()
            holds = wanted or policy, replace(capacities, **named)
            store.configure(*holds, by=by, now_ms=now_ms)
            return holds

        holds = yield from write(op)
        # A forked child opens the store again, and must not ask for what was.
        self._policy = holds[0] if self._policy is not None else None
        self._capacities = holds[1] if self._capacities is not None else None
        return holds

    aconfigure = later(configure)

    # ------------------------------------------------------------------ backups

    def backup(
        self, path: str | Path, *, overwrite: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Backup:
        """Write a copy of the store, as it is at one instant, to a file, while everybody goes on using the store.

        A file with that name is always a whole backup that was checked and is on the disk. It is a store itself:
        ``sqlite:///backup.db`` opens it. A store of an older version is copied as it is.

        Args:
            path: The file, in a folder that exists, best on another disk.
            overwrite: Whether a file with that name is replaced.
            progress: Is told from time to time how many pages are copied, and how many there are; what it raises ends
                the backup.

        Raises:
            ConfigError: The store is a PostgreSQL database.
            InvalidValue: No backup can have this name; nothing was written.
            StoreFull: The disk is full; no file was made, like for the next.
            StoreError: The store does not exist or is damaged, or the file cannot be written.
        """
        need_file(self._url, "backup")
        from fairlane.stores.sqlite.backup import backup_file, backup_memory
        from fairlane.stores.sqlite.base import Base
        from fairlane.stores.sqlite.connection import path_of

        target, file = _file_named(path), path_of(self._url)
        flag("overwrite", overwrite)
        if file is not None:  # whether or not it is open here
            return backup_file(file, target, overwrite=overwrite, progress=progress)
        store = self.owner.store
        assert isinstance(store, Base)
        return backup_memory(store, target, overwrite=overwrite, progress=progress)

    abackup = threaded(backup)

    def restore(
        self, path: str | Path, *, by: str = "", progress: Callable[[int, int], None] | None = None
    ) -> Restored:
        """Make the store what a backup says it was, for all processes that use it, in one transaction.

        What was enqueued or done since the backup is gone: jobs that ended since run again. Jobs that ran when it was
        made wait again, at no cost in attempts. Runs that are under way now lose their lease, and are told so at their
        next heartbeat. See the guide on backups.

        Args:
            path: The backup, of this version or an older one.
            by: Who does it, for the audit.
            progress: As for :meth:`backup`.

        Raises:
            ConfigError: The store is in memory, or a PostgreSQL database.
            InvalidValue: There is no such file, or ``path`` is none.
            StoreVersion: A newer version made the backup.
            StoreBusy: Another program holds the store.
            StoreError: The file is damaged or no backup. Whatever is raised, the store is as it was.
        """
        need_file(self._url, "restore")
        from fairlane.stores.sqlite.restore import restore_file

        text("by", by, empty=True)
        return restore_file(self._url, _file_named(path), clock=self.clock, by=by, progress=progress)

    arestore = threaded(restore)

    # ------------------------------------------------------------------ workers

    def worker(
        self,
        *,
        concurrency: int | None = None,
        queues: Iterable[str] | Mapping[str, int] | None = None,
        pool: str | None = None,
        reserve: Mapping[str, int] | Mapping[Tier, int] | None = None,
        lease: float | None = None,
        grace: float | None = None,
        name: str | None = None,
    ) -> Worker:
        """Return a worker for this process; ``with`` starts and stops it, and closing the app stops it too.

        Args:
            concurrency: How many jobs run at once, 1 to 10,000; 8 unless settings say otherwise.
            queues: Queues to serve, or slots by queue (``{"mail": 3}``), of one pool; None: all of the pool.
            pool: The pool; None: that of ``queues``, or the default one.
            reserve: Slots kept for a base tier or better, by tier or name: ``{"critical": 1}``.
            lease: Length of a lease, in seconds; 30 unless settings say otherwise.
            grace: How long a stop waits for running jobs, in seconds; 25 unless settings say otherwise.
            name: How the worker's id begins, for people.

        Raises:
            ConfigError: An argument is wrong, or the queues are in different pools.
        """
        from fairlane.worker import Worker

        settings = self.settings
        worker = Worker(
            owner=self.owner,
            registry=self.registry,
            concurrency=settings["concurrency"] if concurrency is None else concurrency,
            queues=queues,
            pool=pool,
            reserve=reserve,
            lease=settings["lease"] if lease is None else lease,
            grace=settings["grace"] if grace is None else grace,
            hooks=self.hooks,
            retention=self._retention(),
            name=name,
        )
        self._workers.add(worker)
        return worker

    def run_worker(
        self,
        *,
        until_idle: bool = False,
        signals: bool = True,
        concurrency: int | None = None,
        queues: Iterable[str] | Mapping[str, int] | None = None,
        pool: str | None = None,
        reserve: Mapping[str, int] | Mapping[Tier, int] | None = None,
        lease: float | None = None,
        grace: float | None = None,
        name: str | None = None,
    ) -> None:
        """Run a worker in this thread until SIGTERM, SIGINT or :meth:`close`.

        Args:
            until_idle: Whether to end when no job is left that it could start now, and none runs here.
            signals: Whether to listen to signals, which only the main thread can.
            concurrency: As for :meth:`worker`, like the rest.
            queues: Queues to serve, or slots by queue.
            pool: The pool.
            reserve: Slots kept for a base tier or better.
            lease: Length of a lease, in seconds.
            grace: How long a stop waits for running jobs, in seconds.
            name: How the worker's id begins.

        Raises:
            ConfigError: An argument is wrong, or the queues are in different pools.
        """
        worker = self.worker(
            concurrency=concurrency, queues=queues, pool=pool, reserve=reserve, lease=lease, grace=grace, name=name
        )
        worker.run(until_idle=until_idle, signals=signals)

    def maintenance(self) -> Maintenance:
        """Return what a worker does beside running jobs, for a process that runs none: ``fairlane server`` starts it.

        Jobs of lost workers are taken back, waits are watched over, schedules fire, operations go on, and jobs that
        ended long ago are deleted. ``start()`` begins it in a thread of its own, ``stop()`` ends it.
        """
        from fairlane.maintenance import Maintenance

        return Maintenance(self.owner, self._retention())

    def _retention(self) -> Retention:
        from fairlane.maintenance import Retention

        settings = self.settings
        return Retention(
            completed=settings["keep_completed"],
            keep_completed=settings["keep_completed_jobs"],
            cancelled=settings["keep_cancelled"],
            dead=settings["keep_dead"],
        )

    # ------------------------------------------------------------------ hooks

    def on_start(self, hook: H) -> H:
        """Call ``hook`` with an :class:`~fairlane.hooks.Event` before each run. A decorator, like the next ones."""
        return self.hooks.add("start", hook)

    def on_success(self, hook: H) -> H:
        """Call ``hook`` when a job is completed."""
        return self.hooks.add("success", hook)

    def on_failure(self, hook: H) -> H:
        """Call ``hook`` when a run failed, whether or not the job is tried again."""
        return self.hooks.add("failure", hook)

    def on_dead(self, hook: H) -> H:
        """Call ``hook`` when a job is dead."""
        return self.hooks.add("dead", hook)

    def on_finish(self, hook: H) -> H:
        """Call ``hook`` when a job has ended with its run: completed, dead or cancelled.

        Nobody is called for jobs that end while they wait, or whose worker is killed: see the guide on order and dedup.
        """
        return self.hooks.add("finish", hook)

    # ------------------------------------------------------------------ tracing

    def instrument(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        """Make OpenTelemetry spans and metrics of what is enqueued and run from now on; see the guide on tracing.

        The setting ``telemetry`` does it for every app. It is enough to call it once, in each process.

        Args:
            tracer_provider: Makes the spans; None: the global one, also when it is set later.
            meter_provider: Makes the metrics; None: likewise.

        Raises:
            ConfigError: OpenTelemetry is not installed: ``pip install 'fairlane[otel]'``.
        """
        try:
            from fairlane.telemetry import instrument
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise ConfigError("telemetry needs OpenTelemetry: pip install 'fairlane[otel]'") from None
        instrument(self, tracer_provider=tracer_provider, meter_provider=meter_provider)

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Stop this app's workers, carry out what is in line, close the store; safe to call twice."""
        for worker in tuple(self._workers):
            worker.stop()
        super().close()
        if self._database_clock is not None:
            self._database_clock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _file_named(path: str | Path) -> Path:
    """Return ``path`` if it can name a file, there or not.

    Raises:
        InvalidValue: It is no path, or the file system has no such names.
    """
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may not check
        raise InvalidValue(f"path must be the name of a file, not {path!r}")
    file = Path(path)
    try:
        file.absolute().stat()
    except FileNotFoundError:
        pass
    except ValueError as error:  # a NUL
        raise InvalidValue(f"{str(path)!r} names no file: {error}") from None
    except OSError as error:
        raise InvalidValue(f"{str(path)!r} names no file that can be reached: {error.strerror}") from None
    return file
