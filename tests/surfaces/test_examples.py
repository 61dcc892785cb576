"""Each example runs alone, with its defaults, and says what it should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *options: str, cwd: Path) -> str:
    """Run an example in an empty folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", sorted(file.name for file in EXAMPLES.glob("*.py")))
def test_every_example_runs_and_leaves_nothing_behind(tmp_path: Path, name: str):
    assert run(name, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_proof_pipeline_finishes_every_block(tmp_path: Path):
    """T-M15, T-M21: six kinds of work with their own attempts, checks and limits; the express block overtakes."""
    rows = {}
    lines = run("proof_pipeline.py", "--blocks", "10", "--speed", "1000", cwd=tmp_path).splitlines()
    for line in lines:
        if line.startswith("│"):
            name, *figures = (cell.strip() for cell in line.strip("│").split("│"))
            rows[name] = [int(figure) for figure in figures]
    for name in ("Snos", "Proving", "ProofRegistration", "DA", "StateUpdate"):
        jobs, completed, attempts, checks, rejected, at_once = rows[name]
        assert (jobs, completed) == (10, 10), name
        assert attempts == 10 + rejected
        assert checks >= jobs
        assert at_once <= {"Snos": 5, "StateUpdate": 1}.get(name, 10), name
    assert rows["ProofRegistration"][4] == 2
    assert rows["Aggregator"][:3] == [3, 3, 3]
    found = re.fullmatch(r"The express block was sent last and is final as number (\d+) of 10\.", lines[-1])
    assert found is not None
    assert int(found[1]) < 10
