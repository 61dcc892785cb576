"""Print the Pythons of this machine that fairlane runs on, the newest of each minor version: "3.12 /path/python3.12".

Looked for are `python3.N` on PATH and, where pyenv is, its versions. Those that do not run, or have no venv module, are
left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MINORS: Final = range(11, 20)
ASK: Final = "import ensurepip, sys, venv; print(*sys.version_info[:3])"


def candidates() -> Iterator[str]:
    """Give the interpreters that there may be."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(path) for path in sorted(pyenv.glob("versions/3.*/bin/python")))
    yield from filter(None, (shutil.which(f"python3.{minor}") for minor in MINORS))


def version_of(python: str) -> tuple[int, ...] | None:
    """Return an interpreter's version; None when it does not run or cannot make environments."""
    try:
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(int(part) for part in done.stdout.split())


def pythons() -> dict[tuple[int, ...], str]:
    """Return the interpreters by minor version, at least the one that the project asks for."""
    asked = re.search(
        r'^requires-python = ">=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE
    )
    assert asked is not None, "pyproject.toml says which Python is the oldest"
    oldest = (int(asked[1]), int(asked[2]))
    newest: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    for python in candidates():
        version = version_of(python)
        if version is not None and version >= oldest:
            held = newest.get(version[:2])
            if held is None or version > held[0]:
                newest[version[:2]] = version, python
    return {minor: python for minor, (_, python) in sorted(newest.items())}


if __name__ == "__main__":
    for (major, minor), python in pythons().items():
        sys.stdout.write(f"{major}.{minor} {python}\n")
