"""What lies beside the database file, in ``<file>.fairlane/``: the gate, signs of life, bells.

The **gate** is a file that every writer locks around its transaction. SQLite's own busy handler starves: of two
processes one made 3,630 cycles and the other 1 in three seconds; behind the gate 1,589 and 1,398.

A worker's **sign of life** is a file of its own that it keeps locked. The kernel lets go of the lock when the process
ends, however it ends, and that holds across containers that share the file, where a process id would mean nothing.

A **bell** is a named pipe that a process reads; others write a byte into it after a commit. A lost byte costs a poll
interval, never a job.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import threading
import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from fairlane.background import started
from fairlane.clock import SystemClock
from fairlane.errors import StoreError
from fairlane.store import News

_LETTERS: Final[dict[News, bytes]] = {"work": b"w", "end": b"e", "ask": b"a"}
_NEWS: Final[dict[int, News]] = {letter[0]: news for news, letter in _LETTERS.items()}
_FIFO_BYTES: Final = 65_536
TICK_MS: Final = 20
"""Longer than the tick of the kernel by which file systems tell when a folder was changed."""

_held: weakref.WeakSet[SignOfLife] = weakref.WeakSet()


def opened(path: Path) -> int:
    """Return a descriptor of a file beside the database, made when it is missing.

    Raises:
        StoreError: It cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StoreError(f"could not open {path}: {error}") from error


class Gate:
    """Lets one process at a time write, in the order of asking."""

    def __init__(self, folder: Path) -> None:
        self._fd = opened(folder / "gate")

    def lock(self) -> None:
        """Wait for the gate and hold it."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def lock_at_once(self) -> bool:
        """Hold the gate if nobody does; return whether it is held."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SignOfLife:
    """Keeps a worker's file locked until it is closed or the process ends."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._path = folder / f"{worker}.alive"
        self._fd = opened(self._path)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        _held.add(self)

    def close(self) -> None:
        """Unlock and remove the file; safe to call twice."""
        if self._fd >= 0:
            with suppress(FileNotFoundError):
                self._path.unlink()
            self.let_go()

    def let_go(self) -> None:
        """Close the descriptor without touching the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _let_go_in_child() -> None:
    # A forked child shares the lock; were it to keep the descriptor, the worker would look alive after its death.
    for sign in list(_held):
        sign.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)


def alive(folder: Path, worker: str) -> bool:
    """Return whether a process still holds the worker's file; one that nobody holds is removed."""
    path = folder / f"{worker}.alive"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return True
        raise
    else:
        with suppress(FileNotFoundError):
            path.unlink()
        return False
    finally:
        os.close(fd)


def _new_bell(path: Path) -> int:
    """Make a bell and return a descriptor to hear it by. Who rings takes one that nobody hears for one of the dead.

    Raises:
        StoreError: It cannot be made.
    """
    new = path.with_suffix(".new")
    try:
        os.mkfifo(new)
        try:
            fd = os.open(new, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # RDWR: there is never an end of file
        except OSError:
            os.unlink(new)
            raise
        os.rename(new, path)
    except OSError as error:
        raise StoreError(f"could not make {path}: {error}") from error
    return fd


class Bells:
    """Rings the bells of other processes, and listens to one of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = f"{uuid4().hex}.bell"
        self._clock = SystemClock()
        self._seen_ns = -1
        self._pipes: dict[str, int] = {}

    def ring(self, news: Collection[News]) -> None:
        """Write into every other bell; what cannot be written at once is left out."""
        changed_ns = os.stat(self._folder).st_mtime_ns
        if changed_ns != self._seen_ns:
            # Whoever makes a bell in the same tick leaves the same time behind: until it is over, nothing is seen.
            over = abs(self._clock.now_ms() - changed_ns // 1_000_000) > TICK_MS
            self._seen_ns = changed_ns if over else -1
            self._look_around()
        body = b"".join(_LETTERS[item] for item in news)
        for name, fd in list(self._pipes.items()):
            try:
                os.write(fd, body)
            except BlockingIOError:
                continue  # it is full: the reader will wake anyway
            except OSError:
                self._drop(name)

    def _look_around(self) -> None:
        names = {
            entry.name for entry in os.scandir(self._folder) if entry.name.endswith(".bell") and entry.name != self._own
        }
        for name in set(self._pipes) - names:
            self._drop(name)
        for name in names - set(self._pipes):
            try:
                self._pipes[name] = os.open(self._folder / name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody reads it any more
                    with suppress(OSError):
                        os.unlink(self._folder / name)

    def _drop(self, name: str) -> None:
        fd = self._pipes.pop(name, None)
        if fd is not None:
            os.close(fd)

    def listen(self, heard: Callable[[frozenset[News]], None]) -> Callable[[], None]:
        """Call ``heard`` from a thread of its own whenever our bell rings; return how to stop."""
        path = self._folder / self._own
        fd = _new_bell(path)
        stopping = threading.Event()

        def run() -> None:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            while not stopping.is_set():
                poll.poll()
                with suppress(BlockingIOError):
                    news: frozenset[News] = frozenset(
                        _NEWS[letter] for letter in os.read(fd, _FIFO_BYTES) if letter in _NEWS
                    )
                    if news:
                        heard(news)

        thread = started(run, "fairlane-bell")

        def stop() -> None:
            if not stopping.is_set():
                stopping.set()
                with suppress(OSError):
                    os.unlink(path)
                with suppress(BlockingIOError):  # full: it wakes anyway
                    os.write(fd, b"!")
                if threading.current_thread() is not thread:
                    thread.join()
                os.close(fd)

        return stop

    def close(self) -> None:
        """Let go of the other bells; safe to call twice."""
        for name in list(self._pipes):
            self._drop(name)
