"""Programs of other systems, before and after: each runs, and all of a system print the same lines."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "moving_over"
MAIL = ["receipt 1: sent to ann", "receipt 2: sent to ben", "charge 7: paid at run 3", "reminder: sent to ann"]
SAID = {
    "celery": MAIL,
    "rq": MAIL,
    "dramatiq": MAIL,
    "procrastinate": [
        "a second reminder: not stored",
        "charge 7: paid at run 3",
        "receipt 1: sent to ann",
        "receipt 2: sent to ann",
        "reminder: sent to ann",
    ],
}
NO_REDIS = "NO redis-server ON THE PATH: the program that uses RQ itself is not run"
NO_NODE = "NODE IS NOT INSTALLED: the programs in JavaScript are not tested"


def run(name: str, cwd: Path, **environment: str) -> list[str]:
    """Run a program in an empty folder and return the lines that it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a Redis on a socket in a folder, and give its URL."""
    socket = folder / "redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert server.poll() is None, "the Redis ended"
            assert time.monotonic() < deadline, "the Redis does not listen"
            time.sleep(0.02)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("system", SAID)
@pytest.mark.parametrize("program", ["after.py", "native.py"])
def test_the_program_on_fairlane(tmp_path: Path, system: str, program: str):
    assert run(f"{system}/{program}", tmp_path) == SAID[system]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("system", sorted(SAID.keys() - {"rq"}))
def test_the_program_before(tmp_path: Path, system: str):
    if importlib.util.find_spec(system) is None:
        pytest.skip(f"{system.upper()} IS NOT INSTALLED: the program that uses it is not run")
    assert run(f"{system}/before.py", tmp_path) == SAID[system]


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.skipif(shutil.which("redis-server") is None, reason=NO_REDIS)
def test_the_program_before_with_a_redis(tmp_path: Path):
    with redis(tmp_path) as url:
        assert run("rq/before.py", tmp_path, REDIS_URL=url) == SAID["rq"]


@pytest.mark.parametrize("system", SAID)
def test_few_lines_change(system: str):
    """What a guide says: imports, the broker, the call of the worker; all else of the program stays."""
    before, after = ((EXAMPLES / system / name).read_text().splitlines() for name in ("before.py", "after.py"))
    new = [line for line in after[after.index('"""', 1) + 1 :] if line.strip() and line not in before]
    assert 2 <= len(new) <= 5, new


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(shutil.which("node") is None, reason=NO_NODE)
def test_the_programs_in_javascript(tmp_path: Path):
    subprocess.run(["node", "--check", str(EXAMPLES / "bullmq" / "before.mjs")], check=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "fairlane", "--url", f"sqlite:///{tmp_path}/jobs.db", "server", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "http://" in line)
        url = "http://" + line.partition("http://")[2].split()[0].rstrip("/")
        done = subprocess.run(
            ["node", str(EXAMPLES / "bullmq" / "after.mjs")],
            env=os.environ | {"FAIRLANE_SERVER": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.splitlines() == [*MAIL, "a second reminder: not stored"]
