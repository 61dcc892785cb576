"""The page on what calls return: every name on it is public, and every type that a call returns is on it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import fairlane as fl

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "results.md"
NAMED = set(re.findall(r"`([A-Z]\w+)`", PAGE.read_text(encoding="utf-8")))
CALLS = sorted(name for name in dir(fl.Fairlane) if not name.startswith("_") and callable(getattr(fl.Fairlane, name)))
OF_DECLARATIONS = {"NewJob", "Retry"}
"""What calls return that is no result: a job to be stored, and a task's settings."""


def test_the_names_on_the_page_are_public() -> None:
    assert set(fl.__all__) >= NAMED
    assert len(NAMED) > 30


@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_returns_is_on_the_page(name: str) -> None:
    call = inspect.unwrap(getattr(fl.Fairlane, name))
    told = re.findall(r"\b[A-Z]\w+", str(call.__annotations__.get("return", "")))
    ours = {one for one in told if one in fl.__all__}
    assert ours - OF_DECLARATIONS <= NAMED


def test_no_call_returns_what_is_not_public() -> None:
    words = {"Any", "Callable", "Coroutine", "None", "Steps", "T", "H", "Self", "Maintenance"}
    returned = {
        one
        for name in CALLS
        for one in re.findall(
            r"\b[A-Z]\w*", str(inspect.unwrap(getattr(fl.Fairlane, name)).__annotations__.get("return", ""))
        )
    }
    assert returned - words <= set(fl.__all__)
