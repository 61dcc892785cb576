"""Where everything that a run needs is: ``build/compare``, made by itself from the registries of packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
REPOSITORY: Final = HERE.parents[1]
ROOT: Final = REPOSITORY / "build" / "compare"
PYTHON: Final = ROOT / "venv" / "bin" / "python"
NEWER: Final = ("python3.12", "python3.13", "python3.14")
"""Pythons that are taken for the environment: one peer needs 3.12, and the oldest has the most wheels."""


def tell(text: str) -> None:
    """Say what is going on, beside the results."""
    print(text, file=sys.stderr, flush=True)


def enter() -> None:
    """Go on in the environment of the peers; make it first, or make it fit when the versions asked for are others."""
    made = ROOT / "installed.txt"
    wanted = "\n".join((HERE / name).read_text() for name in ("requirements.txt", "package.json"))
    if not PYTHON.exists() or not made.exists() or made.read_text() != wanted:
        _install_python()
        _install_node()
        made.write_text(wanted)
    if Path(sys.prefix).resolve() != PYTHON.parents[1].resolve():
        os.chdir(REPOSITORY)
        os.execv(PYTHON, [str(PYTHON), "-m", "bench.compare", *sys.argv[1:]])


def newer_python() -> str | None:
    """Return a Python that every peer runs with, from PATH, else one that pyenv keeps; None: there is none.

    A program on PATH may be pyenv's, which refuses versions that nobody has chosen.
    """
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin")
    folders = [*os.get_exec_path(), *map(str, sorted(kept))]
    for name in NEWER:
        for program in filter(None, (shutil.which(name, path=folder) for folder in folders)):
            if subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
                return program
    return None


def _install_python() -> None:
    if not PYTHON.exists():
        newer = newer_python()
        tell(f"making {PYTHON.parents[1]} with {newer or sys.executable}")
        if newer:
            subprocess.run([newer, "-m", "venv", str(PYTHON.parents[1])], check=True)
        else:
            venv.create(PYTHON.parents[1], with_pip=True)
    tell("installing the peers")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt"), "-e", f"{REPOSITORY}[postgres]"], check=True)


def _install_node() -> None:
    folder = ROOT / "node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", folder)
    npm = shutil.which("npm")
    if npm is None:
        tell("there is no npm on PATH: nothing of Node is measured")
        return
    done = subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=False)
    if done.returncode:
        tell("npm could not install: nothing of Node is measured")
