"""From what a page knows to its HTML. Every stored text goes through :func:`words.visible` and is escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairlane.dashboard import words
from fairlane.dashboard.assets import assets
from fairlane.domain.tiers import TIERS

PLAIN: Final = "/?#[]@!$&'()*+,;=:-._~"
HTMX: Final = json.dumps(
    {
        "history": False,
        "includeIndicatorCSS": False,
        "morphIgnore": ["data-htmx-powered", "open"],
        "noSwap": [204, 304, "4xx", "5xx"],
        "defaultTimeout": 20000,
    }
)
"""How htmx behaves: no styles of its own, an open menu stays open, a page that is not answered is asked for again."""


class Entry(NamedTuple):
    """An entry of the menu: its path, its name, and the key that leads to it after ``g``."""

    path: str
    name: str
    key: str = ""


MENU: Final = (
    Entry("/", "Overview", "o"),
    Entry("/jobs", "Jobs", "j"),
    Entry("/tenants", "Tenants", "t"),
    Entry("/queues", "Queues", "q"),
    Entry("/inflight", "In flight", "i"),
    Entry("/dead", "Dead letters", "d"),
    Entry("/bulk", "Operations", "b"),
    Entry("/schedules", "Schedules", "s"),
    Entry("/workers", "Workers", "w"),
    Entry("/whatif", "What if", "f"),
    Entry("/audit", "Audit", "a"),
)


@dataclass(frozen=True, slots=True)
class Urls:
    """Addresses of pages under the prefix that the server was given.

    Attributes:
        root: The prefix, without a stroke at its end.
    """

    root: str

    def __call__(self, path: str, /, **query: object) -> str:
        """Return the address of a page; parts of the query that are None or empty are left out."""
        kept = {name: value for name, value in query.items() if value not in {None, ""}}
        address = quote(self.root + path, safe=PLAIN)
        return f"{address}?{urlencode(kept, doseq=True)}" if kept else address

    def asset(self, name: str) -> str:
        """Return the address of a file; it changes with the file."""
        return f"{quote(self.root, safe=PLAIN)}/static/{name}?v={assets()[name].mark}"


@cache
def environment() -> Environment:
    """Return what templates are made with."""
    made = Environment(
        loader=PackageLoader("fairlane.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    shown: dict[str, Any] = {  # Any: functions and values of all kinds
        "span": words.span,
        "whole": words.whole,
        "rate": words.rate,
        "percent": words.percent,
        "clock": words.clock,
        "iso": words.iso,
        "since": words.since,
        "heat": words.heat,
        "tier_name": _tier_name,
        "tiers": TIERS,
        "pretty": pretty,
        "ms": ms_of,
        "htmx": HTMX,
    }
    made.globals.update(shown)
    return made


def _tier_name(number: int) -> str:
    return TIERS[number].label


def _shown(value: object) -> object:
    """Return a value as it is put on a page."""
    if value is None:
        return words.NONE
    return words.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def pretty(value: Any) -> str:  # Any: JSON values
    r"""Return a JSON value for reading: indented, in its own letters, big integers as they are.

    Example:
        >>> pretty({"n": 9007199254740993, "s": "é"})
        '{\n  "n": 9007199254740993,\n  "s": "é"\n}'
    """
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def ms_of(at: str | datetime | int | None) -> int | None:
    """Return an instant in milliseconds, from ISO 8601, a datetime or milliseconds.

    Example:
        >>> ms_of("2027-01-15T08:00:00.123Z"), ms_of(5), ms_of(None)
        (1800000000123, 5, None)
    """
    if at is None or isinstance(at, int):
        return at
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return round(moment.timestamp() * 1000)


def warm() -> None:
    """Compile the templates and pack the files, which takes a moment, before somebody waits for it."""
    assets()
    made = environment()
    for name in made.list_templates():
        made.get_template(name)


def html(template: str, values: Mapping[str, Any]) -> str:  # Any: what a template shows
    """Return a page."""
    return environment().get_template(template).render(values)
