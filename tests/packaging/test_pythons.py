"""Which Pythons `make test-pythons` finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def found(path: str, pyenv: Path) -> list[str]:
    env = os.environ | {"PATH": path, "PYENV_ROOT": str(pyenv)}
    command = [sys.executable, str(ROOT / "tools" / "pythons.py")]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()


def program(file: Path, body: str) -> Path:
    """Make a program that answers as an interpreter would."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    file.chmod(0o755)
    return file


def test_the_newest_of_each_version_that_runs_and_is_new_enough(tmp_path: Path) -> None:
    pyenv = tmp_path / "pyenv"
    program(pyenv / "versions/3.10.13/bin/python", "echo 3 10 13")
    program(pyenv / "versions/3.11.7/bin/python", "echo 3 11 7")
    newer = program(pyenv / "versions/3.11.10/bin/python", "echo 3 11 10")
    program(pyenv / "versions/3.12.1/bin/python", "echo there is no venv >&2; exit 1")
    on_path = program(tmp_path / "bin/python3.13", "echo 3 13 0")
    program(tmp_path / "bin/python3.14", "exit 127")
    assert found(str(tmp_path / "bin"), pyenv) == [f"3.11 {newer}", f"3.13 {on_path}"]


def test_what_it_finds_here_runs() -> None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    lines = found(os.environ["PATH"], pyenv)
    for line in lines:
        version, _, python = line.partition(" ")
        done = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == version
