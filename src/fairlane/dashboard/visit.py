"""One request for a page: who asks, what they may do, and how the answer is made."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

import fairlane
from fairlane.dashboard.desk import Desk
from fairlane.dashboard.render import MENU, Urls, html
from fairlane.dashboard.sampler import Sample, Sampler
from fairlane.settings import without_password

NOTES: Final = 1_000
NOTE_MS: Final = 30_000
SEE_OTHER: Final = 303


class Notes:
    """What was done, to be told on the page that follows; the latest :data:`NOTES`, for half a minute each."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[int, str, str]] = OrderedDict()

    def put(self, kind: str, text: str, now_ms: int) -> str:
        """Keep a note and return its name."""
        name = secrets.token_urlsafe(9)
        self._held[name] = (now_ms, kind, text)
        if len(self._held) > NOTES:
            self._held.popitem(last=False)
        return name

    def get(self, name: str, now_ms: int) -> list[tuple[str, str]]:
        """Return a note as kind and text, or nothing when it is over."""
        at_ms, kind, text = self._held.get(name, (0, "", ""))
        return [(kind, text)] if text and now_ms - at_ms < NOTE_MS else []


@dataclass(slots=True)
class Visit:
    """One request.

    Attributes:
        request: The request.
        desk: What its actor may do.
        sampler: What was seen lately.
        notes: What was done lately.
        now_ms: The instant.
        urls: Addresses under the server's prefix.
        open: Whether everybody at this machine may do everything: there is no account to show.
        told: Notices for the page.
    """

    request: Request
    desk: Desk
    sampler: Sampler
    notes: Notes
    now_ms: int
    urls: Urls
    open: bool = False
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def tenant(self) -> str | None:
        """The only tenant that the actor sees, or None."""
        return self.desk.actor.tenant

    def may(self) -> dict[str, bool]:
        """Return what the actor may do: what would be refused is not offered."""
        actor = self.desk.actor
        return {
            "operate": actor.may("operator"),
            "set": actor.may("admin") and actor.tenant is None,
            "hold": actor.may("operator") and actor.tenant is None,
            "all": actor.tenant is None,
            "audit": actor.may("operator") and actor.tenant is None,
            "tokens": actor.may("admin") and actor.tenant is None,
        }

    def asked(self, name: str, otherwise: str = "") -> str:
        """Return a value of the address's query."""
        return self.request.query_params.get(name, otherwise)

    async def sample(self) -> Sample:
        """Return the latest sample, or one taken now when something was just done."""
        held = self.sampler.fresh
        return held if held is not None else await asyncio.to_thread(self.sampler.latest)

    def page(
        self,
        template: str,
        title: str,
        *,
        section: str = "",
        live: bool = True,
        charts: bool = False,
        status: int = 200,
        **values: Any,  # Any: what the template shows
    ) -> Response:
        """Return a page, or only the part of it that changes when htmx asks.

        Args:
            template: The template's file.
            title: The page's name.
            section: The entry of the menu that it belongs to, by its path.
            live: Whether it is asked for again when there is something new.
            charts: Whether it has charts.
            status: The answer's status.
            values: What the template shows.
        """
        query = self.request.url.query
        here = self.urls(self.path) + (f"?{query}" if query else "")
        may = self.may()
        told = [*self.told, *self.notes.get(self.asked("note"), self.now_ms)]
        shared: dict[str, Any] = {  # Any: as above
            "title": title,
            "section": section,
            "live": live,
            "charts": charts,
            "here": here,
            "url": self.urls,
            "asset": self.urls.asset,
            "menu": [entry for entry in MENU if self._shown(entry.path, may)],
            "may": may,
            "tenant": self.tenant,
            "account": "" if self.open else self.desk.actor.name.rpartition(":")[2],
            "told": told,
            "now_ms": values.pop("as_of_ms", self.now_ms),
            "store": without_password(self.desk.app.url),
            "version": fairlane.__version__,
        }
        part = live and self.request.headers.get("hx-request") == "true"
        shared["layout"] = "part.html" if part else "base.html"
        return HTMLResponse(html(template, shared | values), status)

    @property
    def path(self) -> str:
        """The address's path without the prefix."""
        path = self.request.url.path
        root = self.urls.root
        return path[len(root) :] if root and path.startswith(root) else path

    def _shown(self, path: str, may: Mapping[str, bool]) -> bool:
        if path == "/whatif":
            return may["hold"]
        if path in {"/workers", "/schedules"}:
            return may["all"]
        return may["audit"] if path == "/audit" else True

    def go(self, path: str, /, **query: object) -> Response:
        """Return where to go on."""
        return RedirectResponse(self.urls(path, **query), SEE_OTHER)

    def done(self, text: str, path: str, /, *, kind: str = "ok", **query: object) -> Response:
        """Return where to go on after something was done, with a note about it."""
        self.sampler.spoil()
        note = self.notes.put(kind, text, self.now_ms)
        return RedirectResponse(self.urls(path, **query, note=note), SEE_OTHER)


def chart(label: str, unit: str, series: list[tuple[str, str]], at_s: list[int], *values: list[float | None]) -> str:
    """Return what the browser needs to draw a chart: series as (name, colour), points in seconds, values by series."""
    spec = {
        "label": label,
        "unit": unit,
        "series": [{"label": name, "colour": colour} for name, colour in series],
        "data": [at_s, *values],
    }
    return json.dumps(spec, separators=(",", ":"))
