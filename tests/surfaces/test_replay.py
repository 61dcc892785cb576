"""`fairlane replay` as a user meets it: a made-up trace through real workers, and what is printed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlane.cli.replay import replay_command
from fairlane.cli.simulate import simulate_command
from fairlane.show.scenario import of_trace
from fairlane.simulate.traces import Trace, TraceJob, sample, write

RUN = "from fairlane.cli.replay import replay_command; replay_command()"


@pytest.fixture
def trace_path(tmp_path: Path) -> Path:
    path = tmp_path / "five.csv.gz"
    write(sample(jobs=250, tenants=8, seconds=5.0, slots=8, utilisation=0.9), path)
    return path


def run(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    return subprocess.run(
        [sys.executable, "-c", RUN, *map(str, args)],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def shape(value: object) -> object:
    """The keys at every depth; figures are all alike."""
    return {key: shape(own) for key, own in value.items()} if isinstance(value, dict) else None


@pytest.mark.slow
@pytest.mark.timeout(90)
@pytest.mark.parametrize("policy", ["fair", "fifo"])
def test_json_has_the_shape_of_simulate(trace_path: Path, tmp_path: Path, policy: str):
    done = run(tmp_path / "tmp", trace_path, "--slots", 8, "-p", 2, "--policy", policy, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    arguments = [str(trace_path), "--workers", "8", "--policy", policy, "--json"]
    simulated = json.loads(CliRunner().invoke(simulate_command, arguments).stdout)
    assert shape(found) == shape(simulated)
    for name in ("trace", "jobs", "workers"):
        assert found[name] == simulated[name]
    own, other = found["policies"][policy], simulated["policies"][policy]
    assert own["utilisation"] == pytest.approx(other["utilisation"], rel=1e-3)
    assert own["heaviest_tenant"] == other["heaviest_tenant"]
    for group in ("tiers", "queues"):
        assert {name: waits["jobs"] for name, waits in own[group].items()} == {
            name: waits["jobs"] for name, waits in other[group].items()
        }
    assert "250 jobs accepted, 250 completed, 0 lost" in done.stderr
    assert "Enqueued late by" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_tables(trace_path: Path, tmp_path: Path):
    done = run(tmp_path / "tmp", trace_path, "--slots", 8, "-p", 3, "--speed", 2)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("Waits by tier", "CRITICAL", "acme (the heaviest)", "7 others", "0 lost", "--policy fifo"):
        assert text in done.stdout


def test_speed_divides_gaps_and_run_times():
    trace = Trace.of("t", [TraceJob(0, "a", "q", 2, 3_000_000), TraceJob(4_000_000, "b", "q", 0, 1_000_000)])
    assert [(piece.due_s, piece.run_s) for piece in of_trace(trace, 2.0)] == [(0.0, 1.5), (2.0, 0.5)]


def test_usage_errors_and_bad_traces(tmp_path: Path):
    path = tmp_path / "bad.csv"
    path.write_text("submit_s,tenant,queue,tier,run_s\n1,a,q,7,1\n")
    result = CliRunner().invoke(replay_command, [str(path)])
    assert result.exit_code == 1
    assert "column tier is '7'" in result.output
    write(Trace.of("t", [TraceJob(0, "a", "q", 2, 1)]), path)
    result = CliRunner().invoke(replay_command, [str(path), "--slots", "2", "-p", "3"])
    assert result.exit_code == 2
    assert "3 processes cannot share 2 slots" in result.output
    assert CliRunner().invoke(replay_command, [str(tmp_path / "none.csv")]).exit_code == 2
