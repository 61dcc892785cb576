"""`fairlane demo` as a user meets it: a program of its own, what it prints, and that it leaves nothing behind."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from rich.console import Console

from fairlane.cli.demo import _announce
from fairlane.domain.tiers import Tier
from fairlane.show.oracle import Attempt, Oracle, judge
from fairlane.show.scenario import HEAVY, SMALL, as_trace, flood
from fairlane.show.site import installed

RUN = "from fairlane.cli.demo import demo_command; demo_command()"
WAITS = {"jobs", "mean", "p50", "p90", "p99", "max"}


def children(folder: Path) -> list[str]:
    """Processes whose command line names the folder: the workers of a demo that has its files there."""
    return processes(folder, "fairlane.show.hands")


def processes(folder: Path, module: str = "fairlane.show.") -> list[str]:
    """Processes of a demo that has its files in a folder."""
    return [line for line in command_lines() if str(folder) in line and module in line]


def command_lines() -> list[str]:
    if not Path("/proc/self/cmdline").exists():  # macOS
        return subprocess.run(["ps", "-Aww", "-o", "args="], capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *args],
        env=os.environ | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_sigint,  # noqa: PLW1509 - no thread of ours runs here
    )


def heeds_sigint() -> None:
    """Heed SIGINT in a new process: one that a shell put in the background ignores it, and so would ours."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a demo puts its files. Afterwards neither files nor processes may be left."""
    made = tmp_path / "tmp"
    made.mkdir()
    yield made
    deadline = time.monotonic() + 10
    while (processes(made) or any(made.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)  # those whose parent was killed need a moment
    assert processes(made) == []
    assert list(made.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_json_says_that_nothing_was_lost_and_why_jobs_ran_twice(folder: Path):
    process = start(folder, "--jobs", "300", "--seconds", "5", "--json", "--no-server")
    out, err = process.communicate(timeout=80)
    assert (process.returncode, err) == (0, "")
    found = json.loads(out)
    assert (found["jobs"], found["completed"], found["lost"], found["killed_workers"]) == (300, 300, 0, 1)
    assert found["completed_by_store"] == 300
    assert found["ran_twice"] == len(found["ran_twice_jobs"])
    for job in found["ran_twice_jobs"]:
        assert "was killed" in job["why"]
        assert len(job["runs"]) > 1
    assert set(found["tiers"]) <= {tier.label for tier in Tier}
    assert set(found["tenants"]) == {HEAVY, *SMALL}
    for group in (found["tiers"], found["tenants"]):
        assert sum(own["jobs"] for own in group.values()) == 300
        assert all(set(own) == WAITS for own in group.values())
    assert found["tiers"]["critical"]["p99"] < found["tiers"]["background"]["p50"]
    assert found["express"]["jobs"] > 0


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_without_a_terminal_it_prints_lines_and_tables(folder: Path):
    process = start(folder, "--jobs", "120", "--seconds", "2")
    out, err = process.communicate(timeout=80)
    assert (process.returncode, err) == (0, "")
    for text in ("the flood begins", "killed with SIGKILL", "CRITICAL", "acme (the flood)", "120 completed, 0 lost"):
        assert text in out
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines()) <= 160


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_nothing_behind(folder: Path, number: int):
    process = start(folder, "--jobs", "2000", "--seconds", "60")
    assert process.stdout is not None
    assert "worker processes" in process.stdout.readline()
    assert len(children(folder)) == 4
    time.sleep(0.5)
    process.send_signal(number)
    process.communicate(timeout=15)
    assert process.returncode != 0


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_the_dashboard_is_up_until_it_is_told_to_go(folder: Path):
    """Its address is printed, it shows the demo's jobs while they run, and --keep leaves it up until Ctrl-C."""
    pytest.importorskip("uvicorn")
    process = start(folder, "--jobs", "60", "--seconds", "1", "--keep")
    assert process.stdout is not None
    address = ""
    for line in process.stdout:
        if "in a browser" in line:
            address = line.split()[-1]
            with urlopen(address, timeout=15) as answer:
                assert b"Tiers against their objective" in answer.read()
        if "stays up" in line:
            break
    with urlopen(f"{address}jobs", timeout=15) as answer:
        assert b"acme" in answer.read()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    with pytest.raises(OSError, match="refused"):
        urlopen(address, timeout=15)


def test_without_the_extra_a_demo_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    """The core alone: no dashboard, and a line that says what to install; --no-server says nothing."""
    said = io.StringIO()
    console = Console(file=said)
    _announce(console, None, server=True)
    assert "pip install 'fairlane[server]'" in said.getvalue()
    _announce(console, None, server=False)
    assert said.getvalue().count("\n") == 1
    monkeypatch.setattr("fairlane.show.site.find_spec", lambda name: None)
    assert not installed()


# ---------------------------------------------------------------------- the parts


def test_the_flood_is_what_it_says():
    pieces = flood(2400, 20.0, 24)
    assert pieces == flood(2400, 20.0, 24)
    assert len(pieces) == 2400
    assert [piece.due_s for piece in pieces] == sorted(piece.due_s for piece in pieces)
    assert sum(piece.tenant == HEAVY for piece in pieces) == 1440
    assert 0.9 < as_trace("flood", pieces).utilisation(24) < 1.2
    express = [piece for piece in pieces if piece.express]
    assert 5 <= len(express) <= 12
    assert all(piece.tenant != HEAVY and piece.tier >= Tier.LOW for piece in express)
    assert {piece.tier for piece in pieces} == set(range(5))


@pytest.mark.parametrize("jobs", [1, 2, 7, 40])
def test_few_jobs_make_a_flood_too(jobs: int):
    pieces = flood(jobs, 3.0, 24)
    assert len(pieces) == jobs
    assert all(0 < piece.run_s <= 0.2 + 1e-9 for piece in pieces)


def test_the_oracle_reads_whole_lines_only(tmp_path: Path):
    log = tmp_path / "log"
    oracle = Oracle(log)
    assert oracle.poll() == []
    log.write_text("a 1 7 start 1.5\nb 1 7 sta")
    assert [line.job for line in oracle.poll()] == ["a"]
    with log.open("a") as file:
        file.write("rt 2.5\n")
    assert oracle.poll()[0][:4] == ("b", 1, 7, "start")


def test_the_judge_tells_lost_from_twice():
    ended = Attempt(1, 7, 0.0, 1.0)
    cut = Attempt(1, 7, 0.0)
    again = Attempt(2, 8, 2.0, 3.0)
    verdict = judge(range(5), [[ended], [cut], [cut, again], [ended, again], []], {7: 3})
    assert (verdict.accepted, verdict.completed, verdict.lost) == (5, 3, [1, 4])
    assert [(one.number, one.why) for one in verdict.twice] == [
        (2, "in flight when worker 3 was killed"),
        (3, "ended on worker 3, which was killed before it had said so"),
    ]
    assert judge([0], [[cut, again]], {}).twice[0].why == "unexplained"
