"""Reads the .sql files: one query a file, a comment above it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

OVER_TABLES: Final = ("sqlite", "postgres")
"""The stores over tables; each has its queries in a folder of its own."""
_FILES: Final = files("fairlane.stores")
PART: Final = "%% "
"""Begins a line that stands for another file: what several queries must say alike is written once."""


@cache
def query(store: str, name: str) -> str:
    """Return the query in ``stores/<store>/queries/<name>.sql``; called at import, so a missing file fails there.

    Comments are left out, and a line ``%% other`` is replaced by what ``other.sql`` holds.

    Raises:
        FileNotFoundError: There is no such file, or no such part of it.
    """
    lines = (_FILES / store / "queries" / f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(_said(store, line) for line in lines if not line.lstrip().startswith("--")).strip()


def _said(store: str, line: str) -> str:
    part = line.strip()
    return query(store, part.removeprefix(PART).strip()) if part.startswith(PART) else line


def named(name: str) -> str:
    """Return the name of a query that every store over tables has, each in its own SQL; called at import.

    Raises:
        FileNotFoundError: A store has no file for it.
    """
    for store in OVER_TABLES:
        if not (_FILES / store / "queries" / f"{name}.sql").is_file():
            raise FileNotFoundError(f"{store} has no query {name!r}")
    return name


class Queries(dict[str, str]):
    """The queries of a store by name, each read when it is first asked for."""

    def __init__(self, store: str) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, name: str) -> str:
        """Read it."""
        text = self[name] = query(self._store, name)
        return text


@cache
def queries(store: str) -> Mapping[str, str]:
    """Return the queries of a store by name; one that has no file raises FileNotFoundError when it is asked for."""
    return Queries(store)
