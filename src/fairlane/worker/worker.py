"""The worker: settings in, threads out, and one contract for starting and stopping them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self
from uuid import uuid4

from fairlane.clock import SystemClock
from fairlane.domain.jobs import WorkerRecord
from fairlane.domain.policy import QueueRule
from fairlane.hooks import Hooks
from fairlane.maintenance import Maintenance, Retention
from fairlane.owner import Owner
from fairlane.registry import Registry, tell_tasks
from fairlane.store import Presence, Store
from fairlane.worker.hands import Hands
from fairlane.worker.heartbeat import Heartbeat
from fairlane.worker.loop import Dispatcher
from fairlane.worker.notices import Notices
from fairlane.worker.options import Options, Queues, Reserve
from fairlane.worker.shutdown import TIDY_S, Drain, Signals
from fairlane.worker.verdict import Judge

log = logging.getLogger("fairlane.worker")


class Worker:
    """Runs the jobs of one pool in this process, in threads and in an event loop of its own.

    Embedded, it is started and stopped (or entered, with ``with`` or ``async with``) and installs no signal handlers;
    :meth:`run` is for a process of its own. Start and stop are safe to call twice, and to stop before the start. After
    :meth:`stop` returns nothing of it runs, but for handlers that ignore every request to stop: :attr:`abandoned`
    counts those, their jobs have been given back, and nothing that they do counts any more. Threads cannot be killed;
    they are daemons.

    Args:
        owner: Owner of the store.
        registry: The tasks it knows; jobs of others are left for other workers.
        concurrency: How many jobs run at once, 1 to 10,000.
        queues: Queues to serve, or slots by queue; None for all of the pool.
        pool: The pool; None for that of ``queues``, or the default one.
        reserve: Slots kept for a base tier or better, by tier or name, for example ``{"critical": 1}``.
        lease: Length of a lease, in seconds; renewed at a third of it.
        grace: How long a shutdown waits for running jobs, in seconds.
        hooks: Who is told of starts and ends.
        retention: How long jobs that ended are kept.
        rng: Source of jitter; pass a seeded one to replay a run.
        name: How its id begins, for people; the rest is new at every start.

    Raises:
        ConfigError: A setting is wrong; the message says which and why.
    """

    def __init__(
        self,
        owner: Owner,
        registry: Registry,
        *,
        concurrency: int = 8,
        queues: Queues = None,
        pool: str | None = None,
        reserve: Reserve = None,
        lease: float = 30.0,
        grace: float = 25.0,
        hooks: Hooks | None = None,
        retention: Retention | None = None,
        rng: random.Random | None = None,
        name: str | None = None,
    ) -> None:
        self._owner = owner
        self._registry = registry
        self._hooks = Hooks() if hooks is None else hooks
        self._retention = retention
        self._rng = random.Random() if rng is None else rng
        self.options: Final = Options.checked(
            concurrency=concurrency,
            queues=queues,
            pool=pool,
            reserve=reserve,
            lease=lease,
            grace=grace,
            name=name,
            pool_of=self._pool_of,
        )
        self._lock = threading.Lock()
        self._start: _Start | None = None

    def _pool_of(self, queue: str) -> str:
        rule = self._owner.read(lambda store, now_ms: store.rule("queue", queue))
        return rule.pool if isinstance(rule, QueueRule) else QueueRule().pool

    # ------------------------------------------------------------------ life

    def start(self, *, until_idle: bool = False) -> None:
        """Start, under a new id; does nothing while it runs.

        Args:
            until_idle: Whether to end by itself when no job is left that it could start now, and none runs here. Jobs
                scheduled for later, and those that a pause or a limit holds back, are not waited for.

        Raises:
            StoreError: The store could not take it on.
        """
        with self._lock:
            if self._now is not None and not self._now.ended.is_set():
                return
            self._start = _Start(
                self._owner,
                self._registry,
                self.options,
                hooks=self._hooks,
                retention=self._retention,
                rng=self._rng,
                until_idle=until_idle,
                kept=self,
            )

    def request_stop(self, *, at_once: bool = False) -> None:
        """Begin to stop and return: claim no more, wait for running jobs up to the grace, then give them back.

        Args:
            at_once: Whether to give them back without waiting.
        """
        if (start := self._now) is not None:
            start.request_stop(at_once=at_once)

    def stop(self, *, grace: float | None = None) -> None:
        """Stop, and return when nothing of it runs any more (see the class for the exception).

        Args:
            grace: How long running jobs are waited for, in seconds; None as the worker was told.
        """
        if (start := self._now) is not None:
            start.request_stop(grace=grace)
            start.wait_for_end()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, at most ``timeout`` seconds, and return whether it has."""
        return self._now is None or self._now.ended.wait(timeout)

    def run(self, *, until_idle: bool = False, signals: bool = True) -> None:
        """Start, run until it ends, and stop; the main job of a worker process.

        SIGTERM and SIGINT stop it as :meth:`stop` does, a second one gives running jobs back at once. Handlers for them
        are installed while it runs, in the main thread only. When it returns and :attr:`abandoned` is not 0, a process
        should end with ``os._exit``: a handler that ignored every request to stop could hold it up.

        Args:
            until_idle: As for :meth:`start`.
            signals: Whether to listen to signals at all.

        Raises:
            StoreError: The store could not take it on.
        """
        with Signals(install=signals) as heard:
            try:
                self.start(until_idle=until_idle)
                if (start := self._now) is not None:
                    start.on_end(heard.wake)
                    self._run_until_told(start, heard)
            finally:
                self.stop()

    def _run_until_told(self, start: _Start, heard: Signals) -> None:
        """Wait for its end, or for signals and then no longer than the end may take."""
        count = 0
        while not start.ended.is_set() and (not count or start.left_s > 0):
            count, before = heard.wait(start.left_s if count else None), count
            if count > before:
                start.request_stop(at_once=count > 1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def _now(self) -> _Start | None:
        """Its present or last life, unless that is a parent process's: its threads are not in this one."""
        return self._start if self._start is not None and self._start.process == os.getpid() else None

    # ------------------------------------------------------------------ what it is doing

    @property
    def id(self) -> str:
        """Its id, new at every start; empty before the first."""
        return "" if self._now is None else self._now.worker

    @property
    def running(self) -> int:
        """How many jobs hold a lease here."""
        return 0 if self._now is None else len(self._now.hands.held)

    @property
    def abandoned(self) -> int:
        """How many handlers still ran at its end; at least 1 when its own threads wait for a store that hangs."""
        return 0 if self._now is None else self._now.abandoned

    @property
    def healthy(self) -> bool:
        """Whether it runs and its store answers.

        False after ten failed claims in a row, until one succeeds, and while the store says nothing for 15 s.
        """
        start = self._now
        return start is not None and not start.ended.is_set() and start.dispatcher.healthy


class _Start:
    """One life of a worker, from a start to its end.

    Its threads hold it, and so through ``kept`` the worker: whoever finds workers by weak references finds this one.
    """

    def __init__(
        self,
        owner: Owner,
        registry: Registry,
        options: Options,
        *,
        hooks: Hooks,
        retention: Retention | None,
        rng: random.Random,
        until_idle: bool,
        kept: Worker,
    ) -> None:
        self.kept = kept
        self.process = os.getpid()
        unique = uuid4().hex
        self.worker = f"{options.name}-{unique}" if options.name else unique
        self.ended = threading.Event()
        self.abandoned = 0
        self._owner = owner
        self._options = options
        self._wake = threading.Event()
        self._on_end: list[Callable[[], object]] = []
        self._drain = Drain(options.grace_s)
        self.hands = Hands(owner, Judge(self.worker, rng), hooks, lease_ms=options.lease_ms, wake=self._wake.set)
        self._notices = Notices(hooks, owner)
        self._heartbeat = Heartbeat(owner, self.hands.attempts, options.lease_ms)
        self.hands.watch.ask = self._heartbeat.at_once
        self._maintenance = Maintenance(
            owner, retention, rng=rng, ready=lambda: not self.hands.overdue(), busy=lambda: bool(self.hands.held)
        )
        self.dispatcher = Dispatcher(
            owner,
            registry,
            options,
            worker=self.worker,
            hands=self.hands,
            notices=self._notices,
            drain=self._drain,
            wake=self._wake,
            rng=rng,
            until_idle=until_idle,
        )
        self._thread = threading.Thread(target=self._run, name="fairlane-dispatcher", daemon=True)
        with ExitStack() as began:  # the system may give no more threads: then all of it ends again
            began.callback(self._maintenance.discard, TIDY_S)
            self._presence: Presence = owner.store.presence(self.worker)
            began.callback(self._presence.close)
            self._register(registry)
            self._stop_listening = owner.listen(self.dispatcher.heard)
            began.callback(self._stop_listening)
            began.callback(self.hands.watch.stop)
            self.hands.watch.start()
            began.callback(self._heartbeat.stop, TIDY_S)
            self._heartbeat.start()
            self._maintenance.start()
            self._thread.start()
            began.pop_all()

    def _register(self, registry: Registry) -> None:
        tell_tasks(self._owner, registry)
        options = self._options

        def register(store: Store, now_ms: int) -> None:
            record = WorkerRecord(
                id=self.worker,
                pool=options.pool,
                queues=None if options.queues is None else tuple(options.queues),
                slots=options.concurrency,
                tasks=tuple(sorted(registry.names)),
                host=socket.gethostname(),
                pid=os.getpid(),
                started_at_ms=now_ms,
                seen_at_ms=now_ms,
                queue_slots=None if options.queues is None else tuple(options.queues.values()),
            )
            store.register(record, now_ms)

        self._owner.call(register)
        log.info("worker_started worker=%s pool=%s slots=%d", self.worker, options.pool, options.concurrency)

    def _run(self) -> None:
        try:
            self.dispatcher.run()
        finally:
            self._close()

    def _close(self) -> None:
        self._stop_listening()
        clock = SystemClock()
        until = clock.monotonic() + TIDY_S

        def left_s() -> float:
            return max(0.01, until - clock.monotonic())

        self._notices.close(lambda: max(until - clock.monotonic(), self._drain.spare_s()))
        until = clock.monotonic() + TIDY_S
        self.hands.watch.stop()
        self._maintenance.stop(left_s())
        self._heartbeat.stop(left_s())
        self.abandoned = self.hands.close(left_s())
        self._presence.close()
        log.info("worker_stopped worker=%s abandoned=%d", self.worker, self.abandoned)
        self.ended.set()
        for told in self._on_end:
            told()

    def on_end(self, told: Callable[[], object]) -> None:
        """Call ``told`` at the end, or now if it is over."""
        self._on_end.append(told)
        if self.ended.is_set():
            told()

    def request_stop(self, *, grace: float | None = None, at_once: bool = False) -> None:
        """Begin to end."""
        if at_once:
            self._drain.hurry()
        else:
            self._drain.wish(grace)
        self._wake.set()

    @property
    def left_s(self) -> float:
        """How long the end may still take."""
        return self._drain.left_s()

    def wait_for_end(self) -> None:
        """Wait for the end, no longer than it may take; a store that hangs is left behind."""
        if threading.current_thread() is self._thread:
            return
        if self.ended.wait(self.left_s):
            self._thread.join()
        else:
            self.abandoned = max(1, len(self.hands.held))
            log.error("stop_incomplete worker=%s: its store hangs", self.worker)
