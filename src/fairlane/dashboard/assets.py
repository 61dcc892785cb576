"""The files that pages load: packed once, named by their content, kept by browsers for a year.

Nothing is fetched from elsewhere. The two libraries are vendored as their npm packages ship them; ``static/VENDORED``
holds versions, checksums and licences, and a test compares them.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

YEAR_S: Final = 31_536_000
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its bytes as they are and packed, its type, and a mark of its content."""

    body: bytes
    packed: bytes
    kind: str
    mark: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files that may be fetched, by name."""
    found: dict[str, Asset] = {}
    for entry in files("fairlane.dashboard").joinpath("static").iterdir():
        kind = _TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            mark = hashlib.sha256(body).hexdigest()[:16]
            found[entry.name] = Asset(body, gzip.compress(body, 9, mtime=0), kind, mark)
    return found
