"""The page of faults stays true: every class is there once, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text()
CONTRACT = ROOT / "src" / "fairlane" / "testing" / "contract"
NUMBERS = (*range(1, 12), 13, 14, 15, 17, 18, 19, 20, 22, 25, 26, 27, 28, 31, 32, 36, 37, 39, 40, 50)
CLASSES = [f"B{number:02}" for number in NUMBERS]
ROWS = {row[2:5]: row for row in PAGE.splitlines() if re.match(r"\| B\d\d \|", row)}
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_every_class_has_a_row():
    assert list(ROWS) == CLASSES
    assert PAGE.count("\n| B") == len(CLASSES), "and only one"


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_names_tests_and_stores(name: str):
    _, _, what, where, stores, _ = (part.strip() for part in ROWS[name].split("|"))
    assert what
    assert stores in {"all", "SQLite", "PostgreSQL", "SQLite, PostgreSQL"}
    assert re.search(r"::test_\w+`", where)
    assert ("contract `" in where) == (stores == "all"), "what is for all stores is in the suite that all pass"


@pytest.mark.parametrize(("path", "test"), NAMED, ids=lambda part: str(part).rpartition("/")[2])
def test_every_test_that_is_named_exists(path: str, test: str):
    file = ROOT / path if path.startswith("tests/") else CONTRACT / path
    assert re.search(rf"^\s*(async )?def {test}\(", file.read_text(), re.MULTILINE)


def test_the_page_names_no_file_without_a_test():
    assert len(re.findall(r"\.py::", PAGE)) == len(re.findall(r"`[\w/]+\.py::\w+`", PAGE))
