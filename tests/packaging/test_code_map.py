"""The code map names what there is, and a job takes the path that it tells."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, cast

import pytest

import fairlane as fl

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SRC = ROOT / "src" / "fairlane"
NAMED = re.compile(r"\[`([\w.]+)`\]\(\.\./(src/fairlane/[\w./]+)\)")
PATHS = re.compile(r"`((?:tests|src|stores)/[\w./*-]+)`")


def named(text: str) -> list[tuple[str, Path]]:
    """Return the names that lead to code, each with the file that it leads to."""
    return [(name, ROOT / path) for name, path in NAMED.findall(text)]


def steps() -> list[str]:
    """Return the names in the tables of the path, in order."""
    path = PAGE.read_text("utf-8").partition("## The path of a job")[2].partition("\n## ")[0]
    return [name for line in path.splitlines() if line.startswith("| [`") for name, _ in named(line)]


def found(name: str) -> tuple[Any, Any]:
    """Return what a name below ``fairlane`` means, and the module that it is in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(("fairlane", *parts[:length])))
        except ModuleNotFoundError as error:
            if not error.name or not error.name.startswith("fairlane."):
                raise
            continue
        value: Any = module
        for part in parts[length:]:
            inside = cast("dict[str, Any]", value.__dict__)
            assert part in inside, f"{name}: {part} is not defined there"  # what it inherits is elsewhere
            value = inside[part]
        return value, module
    raise AssertionError(f"fairlane.{name} does not exist")


@pytest.mark.parametrize(("name", "path"), named(PAGE.read_text("utf-8")))
def test_a_name_is_in_the_file_that_it_leads_to(name: str, path: Path) -> None:
    value, module = found(name)
    assert Path(module.__file__) == path
    home = getattr(value, "__module__", module.__name__)
    assert home == module.__name__, f"{name} is imported there from {home}"


def test_folders_and_files_are_there() -> None:
    paths = PATHS.findall(PAGE.read_text("utf-8"))
    assert len(paths) > 5
    for path in paths:
        base = SRC if path.startswith("stores/") else ROOT
        assert list(base.glob(path)), path


def test_every_part_of_the_package_has_its_layer() -> None:
    drawing = PAGE.read_text("utf-8").partition("## Layers")[2].partition("```text")[2].partition("```")[0]
    for word in (
        "cli",
        "http",
        "dashboard",
        "service",
        "app",
        "client",
        "worker",
        "owner",
        "store",
        "stores",
        "domain",
    ):
        assert re.search(rf"\b{word}\b", drawing), word
        assert (SRC / word).is_dir() or (SRC / f"{word}.py").is_file(), word


class Seen:
    """Notes, in every thread, in which order functions of the package are first called."""

    def __init__(self, wanted: dict[CodeType, str]) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self.order: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name = self._wanted.get(frame.f_code) if event == "call" else None
        if name is not None:
            with self._lock:
                if name not in self.order:
                    self.order.append(name)


def code_of(name: str) -> CodeType:
    value, _ = found(name)
    value = getattr(value, "__wrapped__", value)
    assert isinstance(value, FunctionType), f"{name} is no function"
    return value.__code__


@pytest.fixture
def seen() -> Iterator[Seen]:
    noting = Seen({code_of(name): name for name in steps()})
    threading.setprofile(noting)
    before = sys.getprofile()
    sys.setprofile(noting)
    try:
        yield noting
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


@pytest.mark.timeout(60)
def test_a_job_takes_the_path_that_is_told(seen: Seen, tmp_path: Path) -> None:
    with fl.Fairlane(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def double(number: int) -> int:
            return 2 * number

        app.depth()  # opens the store, which is no part of the path
        seen.order.clear()
        job = double.enqueue(21)
        app.run_worker(until_idle=True, signals=False)
        assert job.result(timeout=10) == 42
    assert seen.order == steps(), "\n".join(seen.order)
