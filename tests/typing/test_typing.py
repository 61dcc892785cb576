"""Type checkers see what they should: they accept the good calls, and report each seeded mistake.

Each checker runs once, over both files.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent
GOOD, MISTAKES = HERE / "good.py", HERE / "mistakes.py"


class Checker(NamedTuple):
    """How a checker is run, and how it says in which line an error is."""

    command: tuple[str, ...]
    error: str


CHECKERS = {
    "mypy": Checker((sys.executable, "-m", "mypy", "--no-error-summary"), r"{name}:(\d+): error:"),
    "pyright": Checker((str(BIN / "basedpyright"),), r"{name}:(\d+):\d+ - error:"),
    "ty": Checker(
        (str(BIN / "ty"), "check", "--python", sys.prefix, "--output-format", "concise", "--color", "never"),
        r"{name}:(\d+):\d+: error\[",
    ),
    "pyrefly": Checker(
        (str(BIN / "pyrefly"), "check", "--preset", "default", "--output-format", "min-text", "--color", "never"),
        r"ERROR .*{name}:(\d+):",
    ),
}
MISSED: dict[tuple[str, int], str] = {}
"""What a checker is known not to see, by checker and mistake, and why. A test fails when it does see it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Said(NamedTuple):
    """The lines of each file that a checker reports, and all it said."""

    good: set[int]
    mistakes: set[int]
    text: str


@cache
def said(name: str) -> Said:
    """Run a checker over both files."""
    checker = CHECKERS[name]
    done = subprocess.run(
        [*checker.command, str(GOOD), str(MISTAKES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    text = done.stdout + done.stderr
    assert done.returncode in {0, 1}, text

    def lines(file: Path) -> set[int]:
        return {int(line) for line in re.findall(checker.error.format(name=re.escape(file.name)), text)}

    return Said(lines(GOOD), lines(MISTAKES), text)


def seeded() -> dict[int, int]:
    """Return the line of each mistake by its number."""
    lines = MISTAKES.read_text("utf-8").splitlines()
    found = ((re.search(r"# mistake (\d+):", text), line) for line, text in enumerate(lines, 1))
    return {int(match[1]): line for match, line in found if match}


def test_the_mistakes_are_numbered() -> None:
    assert sorted(seeded()) == list(range(1, 20))


@pytest.mark.parametrize("checker", CHECKERS)
def test_good_calls_pass(checker: str) -> None:
    assert said(checker).good == set(), said(checker).text


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_reported_and_nothing_else(checker: str) -> None:
    expected = {line for mistake, line in seeded().items() if (checker, mistake) not in MISSED}
    assert said(checker).mistakes == expected, said(checker).text
