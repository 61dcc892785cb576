"""What the tests of the command line share: running it in this process or in one of its own, on a real SQLite file."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from fairlane.app import Fairlane
from fairlane.cli.main import cli

LONG_S = 15.0
TASKS = """
import os
import threading

import fairlane as fl

app = fl.Fairlane(os.environ.get("TASKS_URL"))


@app.task(queue="mail", tier=fl.Tier.HIGH)
def send(to: str) -> str:
    return "sent to " + to


@app.task(retry=fl.Retry(max_attempts=1))
def boom(why: str = "bad") -> None:
    raise ValueError(why)


@app.task
async def work(n: int) -> int:
    return os.getpid()


@app.task
def hold(path: str, ctx: fl.Context) -> None:
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\\n")
    while not ctx.should_stop:
        threading.Event().wait(0.01)
    ctx.raise_if_stopping()


@app.task
def stubborn(path: str, seconds: float) -> str:
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\\n")
    threading.Event().wait(seconds)
    return "held out"


notanapp = 5
"""


class Cli:
    """A folder with a store and an app, and the command line run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "jobs.db"
        self.url = f"sqlite:///{self.file}"
        (folder / "tasksapp.py").write_text(TASKS)

    # ------------------------------------------------------------------ running it

    def __call__(self, *args: object, code: int = 0, url: bool = True) -> Result:
        """Run a command line in this process and hold it to its exit code."""
        line = [str(arg) for arg in args] + (["--url", self.url] if url else [])
        result = CliRunner().invoke(cli, line)
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return result

    def json(self, *args: object, code: int = 0, url: bool = True) -> Any:
        """Run a command line with ``--json`` and return what it says."""
        return json.loads(self(*args, "--json", code=code, url=url).stdout)

    def start(self, *args: object, **options: Any) -> subprocess.Popen[str]:
        """Start a command line in a process of its own."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FAIRLANE_")}
        return subprocess.Popen(
            [sys.executable, "-m", "fairlane", *(str(arg) for arg in args)],
            cwd=self.folder,
            env=environment | {"FAIRLANE_URL": self.url, "TASKS_URL": self.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def process(self, *args: object, code: int = 0) -> tuple[str, str]:
        """Run a command line in a process of its own; return stdout and stderr."""
        process = self.start(*args)
        try:
            out, err = process.communicate(timeout=LONG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == code, (process.returncode, out, err)
        return out, err

    # ------------------------------------------------------------------ looking behind it

    def app(self) -> Fairlane:
        """Return an app on the same store."""
        return Fairlane(self.url)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the file itself."""
        db = sqlite3.connect(self.file)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()

    def states(self) -> dict[str, int]:
        """Return how many rows are in each state that any is in."""
        names = ("scheduled", "available", "running", "completed", "dead", "cancelled")
        return {names[state]: count for state, count in self.rows("SELECT state, count(*) FROM job GROUP BY state")}

    def die(self, *whys: str) -> None:
        """Let jobs die of a ValueError each."""
        with self.app() as app:

            @app.task(name="boom", retry=_ONCE)
            def boom(why: str) -> None:
                raise ValueError(why)

            for why in whys:
                boom.enqueue(why)
            app.run_worker(until_idle=True, signals=False)


def _once() -> Any:
    from fairlane.domain.retries import Retry

    return Retry(max_attempts=1)


_ONCE = _once()


def lines_of(path: Path, count: int, timeout_s: float = LONG_S) -> list[str]:
    """Wait until a file has so many lines and return them."""
    pause = threading.Event()
    for _ in range(int(timeout_s / 0.02)):
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return lines
        pause.wait(0.02)
    raise AssertionError(f"{path} has {len(lines)} lines, not {count}")


def end(process: subprocess.Popen[str], *, sig: signal.Signals = signal.SIGTERM) -> tuple[str, str]:
    """Signal a process and return what it said when it has ended."""
    process.send_signal(sig)
    try:
        return process.communicate(timeout=LONG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def children_of(pid: int) -> Sequence[int]:
    """Return the process ids of a process's children."""
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in found.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def lives(pid: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody asked about does not."""
    found = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in {"", "Z"}
