"""``fairlane init``: what it writes runs, holds every setting, and takes the place of nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.cli.init import JOBS, starter
from fairlane.settings import SETTINGS, Settings


def run(folder: Path, *words: str, code: int = 0) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


@pytest.mark.timeout(120)
def test_what_it_writes_runs(tmp_path: Path) -> None:
    told = run(tmp_path, "-m", "fairlane", "init", "--dir", "new/project")
    assert "wrote new/project/jobs.py" in told
    folder = tmp_path / "new" / "project"
    assert f"next: cd {Path('new/project')}" in told
    last = told.splitlines()[-1]
    assert last == "then: python jobs.py && fairlane worker jobs:app --burst && fairlane jobs list"
    for line in last.removeprefix("then: ").split(" && "):
        program, *rest = line.split()
        out = run(folder, *({"python": [], "fairlane": ["-m", "fairlane"]}[program]), *rest)
    assert "greet" in out
    assert "completed" in out
    (job,) = json.loads(run(folder, "-m", "fairlane", "jobs", "list", "--json"))["jobs"]
    assert (job["state"], job["tenant"], job["queue"]) == ("completed", "acme", "greetings")
    assert {path.name for path in folder.iterdir()} >= {"fairlane.toml", "jobs.db", "jobs.py"}


def test_nothing_is_replaced_unless_told_to(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("mine")
    told = run(tmp_path, "-m", "fairlane", "init", code=1)
    assert told == "fairlane: jobs.py would be replaced, so nothing was written: --force does it\n"
    assert (tmp_path / "jobs.py").read_text() == "mine"
    assert not (tmp_path / "fairlane.toml").exists()
    told = run(tmp_path, "-m", "fairlane", "init", "--force", "--json")
    assert json.loads(told) == {"written": ["fairlane.toml", "jobs.py"]}
    assert (tmp_path / "jobs.py").read_text() == JOBS
    assert "and jobs.py would" in run(tmp_path, "-m", "fairlane", "init", code=1)
    (tmp_path / "file").touch()
    told = run(tmp_path, "-m", "fairlane", "init", "--dir", "file/below", code=1)
    assert told.startswith("fairlane: cannot write to file/below: Not a directory")


def test_the_settings_are_all_there_and_as_they_are_by_default(tmp_path: Path) -> None:
    file = tmp_path / "fairlane.toml"
    file.write_text(starter())
    written = Settings.load(environment={}, folder=tmp_path)
    assert written.values["url"] == ("sqlite:///jobs.db", "fairlane.toml")
    assert {name for name, held in written.values.items() if held.is_set} == {"url"}
    assert re.findall(r"^(?:# )?(\w+) = ", starter(), re.MULTILINE) == [setting.name for setting in SETTINGS]
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", starter(), flags=re.MULTILINE))  # every setting said
    said = Settings.load(environment={}, folder=tmp_path)
    for setting in SETTINGS:
        assert said.is_set(setting.name)
        if setting.default is not None and setting.name != "url":
            assert said[setting.name] == setting.default, setting.name
    file.write_text("")
    from fairlane.domain.policy import Capacities, Policy

    assert said.policy() == Policy.fair()
    assert said.capacities() == Capacities()
