"""A temporary folder, or schema, with a store, and real worker processes on it. It leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Self

from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.domain.policy import Policy
from fairlane.domain.states import State
from fairlane.errors import FairlaneError
from fairlane.show.site import Site
from fairlane.stores.named import drop_schema, pinned, scratch_schema

READY_S: Final = 30.0
STOP_S: Final = 3.0
LOOK_S: Final = 0.02
ERRORS_SHOWN: Final = 2_000
ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


class StageError(Exception):
    """The worker processes cannot do their part; the text says why."""


@dataclass(slots=True)
class Hand:
    """One worker process.

    Attributes:
        number: From 1; a replacement gets a number of its own.
        slots: How many jobs it runs at once.
        killed_s: When it was killed, by the monotonic clock, or None.
    """

    number: int
    slots: int
    process: subprocess.Popen[bytes]
    errors: Path
    killed_s: float | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid


class Stage:
    """The store and the workers; enter it to set it up.

    Args:
        name: What the folder is called after.
        policy: The store's policy.
        server: A PostgreSQL database, in which a schema is made for it; None: the store is a file in the folder.

    Attributes:
        app: An app on the store, for the producer.
        hands: The workers, dead ones too.
        log: Where handlers write.
    """

    app: Fairlane
    log: Path

    def __init__(self, name: str, policy: Policy, server: str | None = None) -> None:
        self._name = name
        self._policy = policy
        self._server = None if server is None else pinned(server)
        self._scratch: str | None = None
        self._clock = SystemClock()
        self._folder: Path | None = None
        self._site: Site | None = None
        self.hands: list[Hand] = []

    def __enter__(self) -> Self:
        folder = self._folder = Path(tempfile.mkdtemp(prefix=f"fairlane-{self._name}-"))
        try:
            self.log = folder / "oracle.log"
            if self._server is not None:
                self._scratch = scratch_schema(self._server, self._name)
            self.app = Fairlane(
                self._scratch or f"sqlite:///{folder / 'jobs.db'}",
                policy=self._policy,
                durability="full",
                express_capacity=20,
                express_per_tenant=5,
            )
            self.app.owner  # noqa: B018  opens the store before the workers do
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self, slots: int) -> Hand:
        """Start a worker process; it takes a moment until it works, see :meth:`ready`."""
        assert self._folder is not None
        number = len(self.hands) + 1
        errors = self._folder / f"worker-{number}.err"
        # Its settings come from here alone, not from the caller's environment or folder.
        env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
        with errors.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603  this python, and a module of our own
                [sys.executable, "-m", "fairlane.show.hands", str(self.log), str(slots), f"worker-{number}"],
                stdin=subprocess.PIPE,  # its end tells the worker that we are gone
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=env | {"PYTHONSAFEPATH": "1", "FAIRLANE_URL": self.app.url},  # others can read a command line
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        hand = Hand(number, slots, process, errors)
        self.hands.append(hand)
        return hand

    def serve(self) -> Site:
        """Start the dashboard's process; it takes a moment until it has an address."""
        assert self._folder is not None
        self._site = Site(self.app.url, self._folder)
        return self._site

    def ready(self) -> int:
        """Return how many of the workers that live have signed on."""
        pids = {worker.pid for worker in self.app.owner.read(lambda store, now_ms: store.workers())}
        return sum(1 for hand in self.alive if hand.pid in pids)

    def wait_until_ready(self) -> None:
        """Wait until every worker has signed on.

        Raises:
            StageError: One of them ended, or it takes too long.
        """
        until = self._clock.monotonic() + READY_S
        while self.ready() < len(self.alive):
            self.check()
            if self._clock.monotonic() > until:
                raise StageError(f"only {self.ready()} of {len(self.alive)} workers have started in {READY_S:g} s")
            threading.Event().wait(LOOK_S)

    @property
    def alive(self) -> list[Hand]:
        """The workers that were not killed."""
        return [hand for hand in self.hands if hand.killed_s is None]

    def check(self) -> None:
        """Make sure that no worker ended by itself.

        Raises:
            StageError: One did; the text holds what it wrote.
        """
        for hand in self.alive:
            if (code := hand.process.poll()) is not None:
                said = hand.errors.read_text(errors="replace")[-ERRORS_SHOWN:].strip()
                raise StageError(f"worker {hand.number} ended by itself, with exit code {code}. {said}".strip())

    def kill(self, hand: Hand) -> None:
        """Kill a worker with SIGKILL, and return when it is gone."""
        hand.killed_s = self._clock.monotonic()
        hand.process.kill()
        hand.process.wait()

    def counts(self) -> dict[State, int]:
        """Return how many jobs the store says are in each state."""
        return self.app.owner.read(lambda store, now_ms: store.counts())

    def close(self) -> None:
        """Stop the workers, close the store, remove the folder; safe to call twice."""
        with _undisturbed():
            processes = [hand.process for hand in self.hands]
            for process in processes:
                if process.poll() is None:
                    process.terminate()
            until = self._clock.monotonic() + STOP_S
            for process in processes:
                try:
                    process.wait(max(0.0, until - self._clock.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if process.stdin is not None:
                    process.stdin.close()
            if self._site is not None:
                self._site.stop()
            try:
                self._leave_store()
            finally:
                if self._folder is not None:
                    shutil.rmtree(self._folder, ignore_errors=True)

    def _leave_store(self) -> None:
        if hasattr(self, "app"):
            with suppress(FairlaneError):  # it goes away anyway
                self.app.close()
        if self._scratch is not None:
            with suppress(FairlaneError):
                drop_schema(self._scratch)


@contextmanager
def _undisturbed() -> Generator[None, None, None]:
    """Put off signals: a second Ctrl-C must not leave processes and files behind. What is inside is bounded."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *ENDS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ending_well() -> Generator[None, None, None]:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does: with everything cleaned up."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
