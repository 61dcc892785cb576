"""`fairlane dev`: a server and a worker for an app, started again when its code changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

import click

from fairlane.cli.groups import example, url_option
from fairlane.cli.output import note
from fairlane.cli.server import PORT, need_server

LOOK_S: Final = 0.5
MOST_FILES: Final = 20_000
STOP_S: Final = 10.0
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})


def sources(folder: Path) -> Iterator[Path]:
    """Go through the Python files of a folder, not those of environments, caches and hidden folders."""
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and not name.startswith(".") and not (Path(place) / name / "pyvenv.cfg").exists()
        ]
        for name in names:
            if name.endswith(".py"):
                yield Path(place) / name


def snapshot(folder: Path) -> Mapping[Path, tuple[int, int]]:
    """Return when each source was changed and how long it is; of the first twenty thousand."""
    found: dict[Path, tuple[int, int]] = {}
    for path in sources(folder):
        if len(found) >= MOST_FILES:
            break
        try:
            status = path.stat()
        except OSError:  # it has gone since
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


class Pair:
    """The two processes. Start and stop are safe to call twice."""

    def __init__(self, commands: list[list[str]]) -> None:
        self._commands = commands
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start both, unless they run."""
        if not self._running:
            self._running = [subprocess.Popen(command) for command in self._commands]  # noqa: S603  our own program

    def stop(self) -> None:
        """Ask both to end, and end what does not."""
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []

    def ended(self) -> list[int]:
        """Return the exit codes of those that have ended by themselves, once."""
        over = [process for process in self._running if process.poll() is not None]
        self._running = [process for process in self._running if process not in over]
        return [process.returncode for process in over]


@click.command("dev", epilog=example("fairlane dev myapp:app -c 4"))
@click.argument("where", metavar="MODULE:app")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="The port.")
@click.option("--concurrency", "-c", type=click.IntRange(1), help="Jobs that the worker runs at once.")
@url_option
def dev_command(*, where: str, url: str | None, host: str, port: int, concurrency: int | None) -> None:
    """Run a server and a worker, and start both again when a Python file below the working directory changes."""
    need_server()
    program = [sys.executable, "-m", "fairlane"]
    chosen = [] if url is None else ["--url", url]
    slots = [] if concurrency is None else ["-c", str(concurrency)]
    pair = Pair(
        [
            [*program, "server", where, "--host", host, "--port", str(port), *chosen],
            [*program, "worker", where, "--grace", "2", *slots, *chosen],
        ]
    )
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _watch(pair, stopping)
    finally:
        pair.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(pair: Pair, stopping: threading.Event) -> None:
    """Keep both running until a signal."""
    folder = Path.cwd()
    seen = snapshot(folder)
    pair.start()
    while not stopping.wait(LOOK_S):
        now = snapshot(folder)
        if now != seen:
            changed = sorted(str(path.relative_to(folder)) for path, _ in now.items() ^ seen.items())
            note(f"changed: {', '.join(dict.fromkeys(changed))}: starting again")
            pair.stop()
            seen = now
            pair.start()
        for code in pair.ended():
            note(f"a process ended with code {code}; it starts again when a file changes")
