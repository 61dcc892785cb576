"""What the tests of the dashboard share: a server on a store in memory with something of everything in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from starlette.testclient import TestClient

import fairlane as fl
from fairlane.dashboard.routes import Dashboard
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.testing import ManualClock

HERE = ("127.0.0.1", 50_000)
TENANTS = ("acme", "globex", "initech")
HOSTILE = "\"'><img src=x onerror=alert(1)></script><svg/onload=x>\x1b[31m{{7*7}}\u202egnp"
"""Markup, an escape sequence, a template and a mark that turns the direction of writing, in one text."""
PAGES = (
    "/", "/jobs", "/jobs?q=state:dead", "/tenants", "/tenant?name=acme", "/queues", "/queue?name=mail", "/inflight",
    "/dead", "/bulk", "/bulk/new?action=retry&of=all&q=state:dead", "/schedules", "/workers",
    "/whatif", "/whatif?run=1&window=sample&workers=8", "/fairness", "/audit", "/settings",
)  # fmt: skip


@dataclass
class World:
    """A server, its store and somebody who uses it."""

    app: fl.Fairlane
    clock: ManualClock
    client: TestClient
    board: Dashboard
    token: str = ""
    root: str = ""

    def get(self, path: str, *, code: int = 200, fresh: bool = True, **headers: str) -> str:
        """Return a page."""
        return self.raw(path, code=code, fresh=fresh, **headers).text

    def raw(self, path: str, *, code: int = 200, fresh: bool = True, **headers: str) -> Any:
        """Return the answer to a request for a page, made from a sample of now."""
        if fresh:
            self.board.sampler.sample()
        answer = self.client.get(self.root + path, headers=self._headers(headers), follow_redirects=False)
        assert answer.status_code == code, (path, answer.status_code, answer.text[:2000])
        return answer

    def post(self, path: str, *, code: int = 303, **fields: Any) -> Any:
        """Send a form."""
        headers = {"content-type": "application/x-www-form-urlencoded", "origin": "http://127.0.0.1"}
        body = urlencode(fields, doseq=True)
        answer = self.client.post(
            self.root + path, content=body, headers=self._headers(headers), follow_redirects=False
        )
        assert answer.status_code == code, (path, answer.status_code, answer.text[:2000])
        return answer

    def follow(self, answer: Any) -> str:
        """Return the page that a form leads to."""
        where = urlsplit(answer.headers["location"])
        return self.get((where.path + "?" + where.query).removeprefix(self.root), fresh=False)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        sent = {"accept": "text/html"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return sent | ({"authorization": f"Bearer {self.token}"} if self.token else {})

    def as_(self, role: str, tenant: str | None = None) -> World:
        """Return somebody with a token of their own."""
        made = self.app.tokens.create(f"a {role}", role=role, tenant=tenant)  # type: ignore[arg-type]
        return World(self.app, self.clock, self.client, self.board, made.token, self.root)

    def rows(self) -> Any:
        """Return every row that a form could change."""
        store = self.app.owner.store
        db = store._raw  # type: ignore[attr-defined]
        names = ("job", "lane", "rule", "objective", "setting", "operation", "schedule", "audit")
        return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def fill(app: fl.Fairlane, clock: ManualClock, *, names: Mapping[str, str] | None = None) -> None:
    """Put something of everything into a store; ``names`` takes the place of ordinary texts."""
    text = {"task": "send", "queue": "mail", "tag": "invoice", "key": "order-1", "note": "half", "worker": "w"} | dict(
        names or {}
    )
    tenants = [names["tenant"]] if names and "tenant" in names else list(TENANTS)
    error = text.get("error", "it did not answer")
    for number, tenant in enumerate(tenants):
        for tier in fl.Tier:
            app.enqueue(text["task"], {"to": text.get("arg", "a@b.c")}, queue=text["queue"], tenant=tenant, tier=tier)
        for _ in range(2):
            claim = app.claim(queues=[text["queue"]])
            assert claim is not None
            clock.advance(ms=40 + number)
            claim.ack({"done": text.get("arg", "yes")})
    dead = app.enqueue(
        text["task"], {"card": {"number": 9007199254740993}}, queue=text["queue"], tenant=tenants[0],
        tier=fl.Tier.CRITICAL, tags=[text["tag"]], dedup_key=text["key"],
    )  # fmt: skip
    while (claim := app.claim(queues=[text["queue"]])) is not None and claim.id != dead.id:
        clock.advance(ms=10)
        claim.ack()
    assert claim is not None
    claim.dead(error)
    for number in range(3):
        app.enqueue(text["task"], queue=text["queue"], tenant=tenants[number % len(tenants)])
    app.enqueue(text["task"], queue=text["queue"], tenant=tenants[0], delay=3600)
    app.enqueue("render", queue="render", tenant=tenants[0], tier=fl.Tier.BACKGROUND)
    running = app.claim(queues=["render"], lease=3_600)
    assert running is not None
    running.save({"next": text.get("arg", "3")})
    express = app.enqueue(text["task"], queue=text["queue"], tenant=tenants[-1])
    app.expedite(express, reason=text.get("reason", "a customer waits"), by=text.get("by", "ops"))
    app.cancel(
        app.enqueue(text["task"], queue=text["queue"], tenant=tenants[0]), reason=text.get("reason", "not needed")
    )
    app.tenants[tenants[-1]].pause(text.get("reason", "their database moves"), by=text.get("by", "ops"))
    app.tenants[tenants[0]].set(weight=2, max_running=5)
    app.queues[text["queue"]].set(max_running=50)
    app.limits[text.get("limit", "openai")].set(max_running=2)
    app.schedule(text.get("schedule", "nightly"), text["task"], cron="0 7 * * *", tz="Europe/Paris")
    app.bulk("retry", state="dead", tag="nobody has it", reason=text.get("reason", "a trial"), by=text.get("by", "ops"))


@contextmanager
def world(
    *, filled: bool = True, names: Mapping[str, str] | None = None, root: str = "", open_: bool = True, **options: Any
) -> Iterator[World]:
    """Give a server on a store in memory."""
    clock = ManualClock()
    app = fl.Fairlane("sqlite://", clock=clock)
    if filled:
        fill(app, clock, names=names)
    given = HttpOptions(open_on_loopback=open_, maintenance=False, rate=None, **options)
    web = create_app(app, options=given, root_path=root)
    try:
        with TestClient(web, client=HERE, base_url="http://127.0.0.1") as client:
            yield World(app, clock, client, web.state.dashboard, root=root)
    finally:
        app.close()


class Page(HTMLParser):
    """A page taken apart as a browser would."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self._quiet = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._quiet += tag in {"script", "style"}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self._quiet -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        """What it says."""
        return re.sub(r"\s+", " ", " ".join(self.text))

    def links(self, base: str) -> list[str]:
        """Return the pages of ours that it leads to."""
        found = [urljoin(base, attrs["href"]) for tag, attrs in self.tags if tag == "a" and "href" in attrs]
        return [link for link in found if urlsplit(link).netloc == "127.0.0.1" and "/static/" not in link]

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element of one kind."""
        return [attrs for name, attrs in self.tags if name == tag]


def crawl(world: World, start: str = "/", *, most: int = 150) -> Iterator[tuple[str, Page, str]]:
    """Go through the pages by their links, and give each with its address: forms are looked at, never sent."""
    base = "http://127.0.0.1"
    todo, seen = [world.root + start], {world.root + start}
    shapes: dict[str, int] = {}
    world.board.sampler.sample()
    while todo and len(seen) <= most:
        path = todo.pop(0)
        answer = world.client.get(path, headers=world._headers({}), follow_redirects=False)
        if answer.status_code == 303:
            links = [urljoin(base + path, answer.headers["location"])]
        else:
            assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
            page = Page(answer.text)
            yield path, page, answer.text
            links = page.links(base + path)
        for link in links:
            parts = urlsplit(link)
            where = parts.path + (f"?{parts.query}" if parts.query else "")
            shape = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", parts.path) + ",".join(
                re.findall(r"(\w+)=", parts.query)
            )
            if where not in seen and shapes.get(shape, 0) < 4:
                shapes[shape] = shapes.get(shape, 0) + 1
                seen.add(where)
                todo.append(where)
