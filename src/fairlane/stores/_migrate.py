"""Numbered migrations: forward only, each in one transaction with its record, checksummed."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")


class Migration(NamedTuple):
    """One step of a schema: its number, file name, SQL and the checksum of the file."""

    number: int
    name: str
    sql: str
    checksum: str


class Standing(NamedTuple):
    """How far a schema is: the migrations that were run on it, by name, and those that are to come."""

    done: list[str]
    to_come: list[Migration]


def migrations(store: str) -> list[Migration]:
    """Return the migrations of a store in order.

    Raises:
        ValueError: A file is misnamed, or a number is missing or doubled.
    """
    found: list[Migration] = []
    for file in (files("fairlane.stores") / store / "migrations").iterdir():
        if not file.name.endswith(".sql"):
            continue
        match = _NAME.match(file.name)
        if match is None:
            raise ValueError(f"{file.name} is not named like 0001_what_it_does.sql")
        body = file.read_text("utf-8")
        found.append(Migration(int(match[1]), file.name, body, hashlib.sha256(body.encode()).hexdigest()))
    found.sort()
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations of {store} are not numbered 1 to {len(found)}")
    return found
