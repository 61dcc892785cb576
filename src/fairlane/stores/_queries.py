"""Reads the .sql files: one query a file, a comment above it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

PART: Final = "%% "
"""Begins a line that stands for another file: what several queries must say alike is written once."""


@cache
def query(store: str, name: str) -> str:
    """Return the query in ``stores/<store>/queries/<name>.sql``; called at import, so a missing file fails there.

    Comments are left out, and a line ``%% other`` is replaced by what ``other.sql`` holds.

    Raises:
        FileNotFoundError: There is no such file, or no such part of it.
    """
    lines = (files("fairlane.stores") / store / "queries" / f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(_said(store, line) for line in lines if not line.lstrip().startswith("--")).strip()


def _said(store: str, line: str) -> str:
    part = line.strip()
    return query(store, part.removeprefix(PART).strip()) if part.startswith(PART) else line


_named: Final[set[str]] = set()


def named(name: str) -> str:
    """Return the name of a query that every store over tables has, each in its own SQL; called at import."""
    _named.add(name)
    return name


def queries(store: str, *own: str) -> Mapping[str, str]:
    """Return the queries of a store by name: those that the stores share, and ``own`` ones.

    Raises:
        FileNotFoundError: There is no file for one of them.
    """
    return {name: query(store, name) for name in (*_named, *own)}
