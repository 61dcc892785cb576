"""Type checkers see what they should: they accept the good calls, and report each seeded mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHECKERS = {
    "mypy": ([sys.executable, "-m", "mypy", "--no-error-summary"], r":(\d+): error:"),
    "pyright": ([str(Path(sys.executable).with_name("basedpyright"))], r":(\d+):\d+ - error:"),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def errors(checker: str, name: str) -> tuple[set[int], str]:
    """Return the lines that a checker reports, and all it said."""
    command, pattern = CHECKERS[checker]
    done = subprocess.run([*command, str(HERE / name)], cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode in {0, 1}, said
    return {int(line) for line in re.findall(rf"{re.escape(name)}{pattern}", said)}, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_good_calls_pass(checker: str) -> None:
    lines, said = errors(checker, "good.py")
    assert lines == set(), said


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_reported(checker: str) -> None:
    source = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    seeded = {number for number, line in enumerate(source, 1) if "# mistake" in line}
    assert len(seeded) == 11
    lines, said = errors(checker, "mistakes.py")
    assert lines == seeded, said
