"""Builds wheel and sdist of a copy of the tree: others may be writing to the tree itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.db", "*.db-*", "site", "node_modules"
)


class Built(NamedTuple):
    """A copy of the tree, and what ``python -m build`` made of it: the wheel comes out of the sdist."""

    tree: Path
    wheel: Path
    sdist: Path


def copy_tree(to: Path) -> Path:
    """Copy what is written by hand."""
    shutil.copytree(ROOT, to, ignore=LEFT_OUT, ignore_dangling_symlinks=True)
    return to


def build(tree: Path, out: Path, *arguments: str) -> Path:
    """Build in this environment, so that nothing is fetched; all times are ``EPOCH``."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *arguments],
        cwd=tree, env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return out
