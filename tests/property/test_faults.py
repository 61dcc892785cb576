"""The comparison of store and oracle must notice deliberate faults: each is put into a copy of the source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fairlane"
LOOK = """
import sys
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
sys.path.insert(0, {folder!r})
import test_store
run_state_machine_as_test(test_store.StoreEqualsOracle, settings=settings(
    max_examples=4000, stateful_step_count=40, deadline=None, phases=[Phase.generate], database=None,
    suppress_health_check=list(HealthCheck)))
"""


class Fault(NamedTuple):
    """One fault: where, what stands there, what is put in its place."""

    name: str
    file: str
    right: str
    wrong: str


FAULTS = [
    Fault(
        "a claim forgets to charge the lane's count",
        "stores/tables/running.py",
        "if start.express is None:\n            self._count(lane, available=-1)",
        "if False:\n            self._count(lane, available=-1)",
    ),
    Fault("a settle may end a job twice", "stores/sqlite/queries/complete.sql", "AND state = 2 ", "AND state >= 2 "),
    Fault(
        "rows of other processes are not replayed", "stores/_mirror.py", '"f": self._finish', '"f": lambda event: None'
    ),
    Fault("turns are not taken over", "stores/_mirror.py", '"t": self._turn', '"t": lambda event: None'),
    Fault("means are not stored", "stores/_mirror.py", 'out.extend(("m", *key', '[].extend(("m", *key'),
    Fault("due jobs come late", "stores/sqlite/queries/due.sql", "timer_ms <= :now_ms", "timer_ms <= :now_ms - 40000"),
    Fault(
        "a boost changes the arrival",
        "stores/sqlite/queries/move_lane.sql",
        "SET lane = :lane",
        "SET lane = :lane, arrival_ms = arrival_ms + 1",
    ),
    Fault(
        "a crash is not charged back",
        "stores/tables/running.py",
        'kind="crashed", run_us=run_us',
        'kind="crashed", run_us=run_us + 1',
    ),
    Fault(
        "only released runs teach the mean",
        "stores/tables/running.py",
        'in_mean=item.kind != "released"',
        'in_mean=item.kind == "released"',
    ),
    Fault(
        "a cold start forgets running jobs", "stores/tables/ground.py", "in db.execute(RUNNING).fetchall():", "in []:"
    ),
    Fault("a cold start forgets rates", "stores/tables/ground.py", "in db.execute(GATES_ALL).fetchall():", "in []:"),
    Fault(
        "a job behind several others starts too early",
        "stores/tables/following.py",
        "elif one.behind > 1:",
        "elif one.behind > 2:",
    ),
    Fault(
        "a job that is replaced stays where it was in memory",
        "stores/tables/writing.py",
        "        if stays and old.state == AVAILABLE:\n",
        "        if old.state == new.state == AVAILABLE:\n",
    ),
    Fault("limits of running jobs are lost", "stores/tables/running.py", "        if keys:\n", "        if False:\n"),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_noticed(fault: Fault, tmp_path: Path) -> None:
    copy = tmp_path / "fairlane"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / fault.file
    body = path.read_text()
    assert body.count(fault.right) >= 1, "the fault no longer fits the source: mend the list"
    path.write_text(body.replace(fault.right, fault.wrong))
    run = subprocess.run(
        [sys.executable, "-c", LOOK.format(folder=str(Path(__file__).parent))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0, "nobody noticed"
    assert "Error" in run.stderr
    assert "ModuleNotFoundError" not in run.stderr
