"""The program of a worker process: ``python -m fairlane.show.hands LOG SLOTS NAME``, with the store in FAIRLANE_URL.

Its handlers write a line into the log when they start and when they end: the oracle, which no queue has touched. It
stops when it is told to, and when its parent is gone: then it takes the folder of the log away, and the schema that was
made for the show, for nobody else will.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.context import Context
from fairlane.errors import FairlaneError
from fairlane.stores.named import drop_schema, on_server

if TYPE_CHECKING:
    from fairlane.worker import Worker

TASK: Final = "work"
THREAD_TASK: Final = "work_in_thread"
GRACE_S: Final = 0.5


class Log:
    """Where handlers write; a line is one write to the end of the file, so lines of many processes do not mix."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._pid = os.getpid()
        self._clock = SystemClock()

    def note(self, what: str, ctx: Context) -> None:
        """Write that a run starts or ends; the instant is of the clock that all processes of the machine share."""
        line = f"{ctx.job_id.hex} {ctx.attempt} {self._pid} {what} {self._clock.monotonic():.6f}\n"
        os.write(self._fd, line.encode())


def make_app(log: Log) -> Fairlane:
    """Return an app whose two tasks sleep and write the log."""
    app = Fairlane(durability="full")

    @app.task(name=TASK)
    async def work(seconds: float, ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]  the app has it
        log.note("start", ctx)
        await asyncio.sleep(seconds)
        log.note("end", ctx)

    @app.task(name=THREAD_TASK)
    def work_in_thread(seconds: float, ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]  as above
        log.note("start", ctx)
        time.sleep(seconds)
        log.note("end", ctx)

    return app


def _follow_parent(worker: Worker, orphaned: threading.Event) -> None:
    """Stop the worker when the parent is gone: then nobody holds the other end of standard input."""
    while os.read(0, 1024):
        pass
    orphaned.set()
    worker.request_stop(at_once=True)


def main(log_path: str, slots: str, name: str) -> None:
    """Work until told to stop."""
    app = make_app(Log(Path(log_path)))
    worker = app.worker(concurrency=int(slots), grace=GRACE_S, name=name)
    orphaned = threading.Event()
    threading.Thread(target=_follow_parent, args=(worker, orphaned), daemon=True).start()
    worker.run()
    app.close()
    if orphaned.is_set():
        shutil.rmtree(Path(log_path).parent, ignore_errors=True)
        if on_server(app.url):
            with suppress(FairlaneError):
                drop_schema(app.url)
    os._exit(0)  # no thread of a handler may hold it up


if __name__ == "__main__":
    main(*sys.argv[1:])
