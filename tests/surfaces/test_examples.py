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


def test_every_example_is_short():
    assert {file.name for file in EXAMPLES.glob("*.py") if len(file.read_text().splitlines()) > 100} == set()


def test_the_page_names_every_example():
    page = (EXAMPLES / "README.md").read_text()
    assert {file.name for file in EXAMPLES.glob("*.*") if f"examples/{file.name}`" not in page} == {"README.md"}


def test_the_postman(tmp_path: Path):
    """Ageing is by the wait alone, boosts keep the place, and neither snapshot nor restart loses a letter."""
    lines = run("postman.py", cwd=tmp_path).splitlines()
    assert lines[0].endswith(": critical, high, normal, low, background")
    ageing = [line.rpartition("next is the ")[2] for line in lines if line.startswith("after ") and "minutes" in line]
    assert ageing == ["fresh one"] * 3 + ["old background one"] * 2
    assert lines[-6:] == [
        "boost to normal: boosted -> first, second, third",
        "boost to low: not_higher",
        "delivered after the snapshot: first, second - left: 1",
        "after a new start: nothing waits - and one is in somebody's hand",
        "half a minute later his lease is over, rescued: 1 -> third",
        "recovered from the snapshot: first, second, third",
    ]


def test_fair_tags(tmp_path: Path):
    """Tags take turns, a tag that joins is served at once, and a killed process loses nothing."""
    lines = run("fair_tags.py", cwd=tmp_path).splitlines()
    served = lines[0].partition(": ")[2].split()
    assert sorted(served) == ["big/0", "big/1", "small/0", "small/1"]
    assert [tag.partition("/")[0] for tag in served] in (["small", "big"] * 2, ["big", "small"] * 2)
    assert "new/0" in lines[1].split()
    assert lines[2] == "another process takes big/3 and is killed"
    assert lines[4] == "the task of the dead process: big/3 at attempt 2 (1 crash)"
    assert lines[5].startswith("the one that always fails: broken/bad is dead: failed 3 times")
    assert lines[6] == "in the end: {'completed': 10, 'dead': 1}"


def test_the_content_agency(tmp_path: Path):
    """Roles keep to their hands, what is rejected comes again at CRITICAL, and the alert needs no worker."""
    lines = run("content_agency.py", cwd=tmp_path).splitlines()
    assert lines[0].startswith("alert while nobody works: high jobs of queue writer wait")
    hands = [(int(most), int(of)) for most, of in re.findall(r"(\d) of (\d)", lines[1])]
    assert len(hands) == 5
    assert all(1 <= most <= of for most, of in hands)
    assert lines[2] == "sent back and written again at critical: 0, 3, 6"
    assert lines[3] == "published: 10 of 10"


def test_the_agent(tmp_path: Path):
    """A run that waits for a person holds no worker, and goes on in front of everything."""
    lines = run("agent.py", cwd=tmp_path).splitlines()
    found = re.fullmatch(r"the user's chat was answered as job (\d+) of (\d+)", lines[0])
    assert found is not None
    assert int(found[1]) < int(found[2]) == 18
    assert lines[1:] == [
        "the deal waits for a person after: plan, research, draft - and no worker is held",
        "the answered run went on as job 1 of 12",
        "its result: yes after plan -> research -> draft -> approve -> answer",
    ]
