"""Several worker processes: a parent that starts them, passes signals on, and starts anew what was killed.

The parent imports no app and opens no store: nothing of the jobs can bring it down. It speaks to each child over a
pipe, the child's standard input: first the plan, then ``s`` (stop: finish what runs) and ``h`` (hurry: give it back).
The end of the pipe, which the kernel brings about when the parent dies, counts as ``s``. Not by signals, because a
child may get one from elsewhere too (systemd signals every process of a service), and a second signal means hurry.
Children are in sessions of their own, so that a Ctrl-C reaches the parent alone.

    a child's exit code    what follows
    0                      with burst, or when stopping: it is done; else another takes its place
    78 (wrong plan)        all others stop, and the parent fails: another try would end the same way
    75 (no store)          the same at its first start; later it is started again
    any other, a signal    it was killed: started again, after a wait that doubles up to 30 s
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

import click
import msgspec

from fairlane.cli.output import safe
from fairlane.cli.worker import Plan, finish, make_worker, start_logging
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError, StoreError
from fairlane.worker import Worker
from fairlane.worker.shutdown import GIVE_BACK_S, LAST_S, Signals

WRONG_PLAN: Final = 78
NO_STORE: Final = 75
FIRST_WAIT_S: Final = 0.2
LAST_WAIT_S: Final = 30.0
LIVED_S: Final = 60.0
"""A child that lived this long starts the waits anew."""
SPARE_S: Final = 5.0
"""What a child may take beyond its grace before it is killed."""
AGAIN_S: Final = 0.1
"""How soon a child repeats a wish to its worker."""
STOP, HURRY = b"s", b"h"

log = logging.getLogger("fairlane.supervisor")


class WorkersFailed(FairlaneError):
    """A worker process could not start, and another try would end the same way: its own message says why."""


class Child:
    """One place for a worker process, and the process that fills it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.killed = 0
        self.started_at = 0.0
        self.due_at: float | None = 0.0

    def tell(self, what: bytes) -> None:
        """Say something to the process; one that has ended hears nothing."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.write(what)
                self.process.stdin.flush()


class Supervisor:
    """Keeps worker processes running; use it once, in the main thread.

    Args:
        plan: What each process is told.
        processes: How many there are.

    Attributes:
        restarts: How often a process took the place of one that had ended.
    """

    def __init__(self, plan: Plan, processes: int) -> None:
        self._plan = plan
        self._children = [Child(number + 1) for number in range(processes)]
        self._clock = SystemClock()
        self._failed = False
        self._stopping_since: float | None = None
        self.restarts = 0

    def run(self) -> None:
        """Run until all processes have ended for good.

        Raises:
            WorkersFailed: They could not start.
        """
        with Signals() as signals:
            try:
                heard = 0
                while self._look(signals):
                    count = signals.wait(self._wait_s())
                    for _ in range(count - heard):
                        heard += 1
                        self._signalled(heard)
            finally:
                self._kill()
        if self._failed:
            raise WorkersFailed("the worker processes could not start; the line above says why")

    # ------------------------------------------------------------------ steps

    def _look(self, signals: Signals) -> bool:
        """Deal with processes that ended and places that are due; return whether to go on."""
        now = self._clock.monotonic()
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._ended(child, child.process.returncode, now)
        for child in self._children:
            if child.process is None and child.due_at is not None and child.due_at <= now:
                self._start(child, signals)
        if self._stopping_since is not None and now >= self._stopping_since + self._patience_s():
            self._kill()
        return any(child.process is not None or child.due_at is not None for child in self._children)

    def _start(self, child: Child, signals: Signals) -> None:
        command = [sys.executable, "-m", "fairlane.cli.supervisor", self._plan.app, str(child.number)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603  ourselves
        child.process, child.due_at, child.started_at = process, None, self._clock.monotonic()
        child.starts += 1
        child.tell(msgspec.json.encode(self._plan) + b"\n")
        log.info("process_started number=%d pid=%d", child.number, process.pid)

        def wait() -> None:
            process.wait()
            signals.wake()

        threading.Thread(target=wait, name=f"fairlane-child-{process.pid}", daemon=True).start()

    def _ended(self, child: Child, code: int, now: float) -> None:
        assert child.process is not None
        pid = child.process.pid
        if child.process.stdin is not None:
            with suppress(OSError):
                child.process.stdin.close()
        child.process = None
        if code == WRONG_PLAN or (code == NO_STORE and child.starts == 1):
            self._failed = True
            self._stop()
            return
        if self._stopping_since is not None or (code == 0 and self._plan.burst):
            level = logging.INFO if code == 0 else logging.WARNING
            log.log(level, "process_ended number=%d pid=%d code=%d", child.number, pid, code)
            return
        child.killed = 0 if now - child.started_at >= LIVED_S else child.killed + 1
        wait_s = 0.0 if code == 0 else min(LAST_WAIT_S, FIRST_WAIT_S * 2 ** min(child.killed - 1, 20))
        child.due_at = now + max(0.0, wait_s)
        self.restarts += 1
        log.warning("process_lost number=%d pid=%d code=%d: again in %.1f s", child.number, pid, code, wait_s)

    def _signalled(self, count: int) -> None:
        log.info("signal_heard count=%d", count)
        if count == 1:
            self._stop()
        elif count == 2:  # noqa: PLR2004  the second one hurries
            self._say(HURRY)
        else:
            self._kill()

    def _stop(self) -> None:
        if self._stopping_since is None:
            self._stopping_since = self._clock.monotonic()
        for child in self._children:
            child.due_at = None
        self._say(STOP)

    def _say(self, what: bytes) -> None:
        for child in self._children:
            child.tell(what)

    def _kill(self) -> None:
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                log.error("process_killed number=%d pid=%d", child.number, child.process.pid)
                child.process.kill()

    # ------------------------------------------------------------------ times

    def _patience_s(self) -> float:
        return self._plan.grace + LAST_S + GIVE_BACK_S + SPARE_S

    def _wait_s(self) -> float | None:
        now = self._clock.monotonic()
        due = [child.due_at for child in self._children if child.due_at is not None]
        if self._stopping_since is not None:
            due.append(self._stopping_since + self._patience_s())
        return max(0.0, min(due) - now) if due else None


# ---------------------------------------------------------------- the child's side


def listen(worker: Worker, pipe: int, ended: threading.Event) -> None:
    """Do what the parent says, in a thread of its own, until the worker has ended.

    A wish is repeated until then: it may come before the worker has started, when there is nothing to stop yet.
    """
    stopping = hurry = closed = False
    while not ended.is_set():
        if closed:
            ended.wait(AGAIN_S)
        elif select.select([pipe], [], [], AGAIN_S if stopping else None)[0]:
            heard = os.read(pipe, 64)
            stopping, closed = True, not heard  # the end of the pipe: the parent is gone
            hurry = hurry or HURRY in heard
        worker.request_stop(at_once=hurry)


def run_child() -> int:
    """Be a worker process: read the plan, run a worker as it says, return the exit code."""
    pipe = os.dup(0)  # handlers that read standard input find it empty, and do not take our news
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(pipe, 1)  # no more than the line: what follows is for the listener
        if not piece:
            return 0
        line += piece
    plan = msgspec.json.decode(line, type=Plan)
    start_logging(plan.log_level)
    ended = threading.Event()
    try:
        app, worker = make_worker(plan)
        threading.Thread(target=listen, args=(worker, pipe, ended), daemon=True, name="fairlane-parent").start()
        worker.run(until_idle=plan.burst)
    except StoreError as error:
        click.echo(safe(f"fairlane: {error}"), err=True)
        return NO_STORE
    except FairlaneError as error:
        click.echo(safe(f"fairlane: {error}"), err=True)
        return WRONG_PLAN
    finally:
        ended.set()
    finish(app, worker)
    return 0


if __name__ == "__main__":
    sys.exit(run_child())
