"""The site builds strictly, holds everything, and loads nothing from elsewhere. One test: it is built once."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from docs_pages import DOCS, ROOT, script

import fairlane as fl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_site(tmp_path: Path) -> None:
    site = built(tmp_path / "site")
    every_page_is_there(site)
    every_public_name_has_its_place(site)
    pages_load_nothing_from_elsewhere(site)
    lists_and_tables_are_read_as_such(site)


def built(folder: Path) -> Path:
    """Build the site as `make docs` does, without a network."""
    unheard = {"NO_MKDOCS_2_WARNING": "1"}  # not about these pages
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env=os.environ | closed | unheard, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "WARNING" not in told, told
    return folder


class Loads(HTMLParser):
    """Collects what a browser would fetch to show a page, and the text of its paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.paragraphs: list[str] = []
        self._in = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video"} and said.get("src"):
            self.loaded.append(str(said["src"]))
        if tag == "link" and {"stylesheet", "preload", "preconnect", "dns-prefetch"} & set(
            str(said.get("rel")).split()
        ):
            self.loaded.append(str(said["href"]))
        if tag == "p":
            self._in = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = self._in and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._in:
            self.paragraphs[-1] += data


def read(page: Path) -> Loads:
    parser = Loads()
    parser.feed(page.read_text("utf-8"))
    return parser


def every_page_is_there(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        made = page.relative_to(DOCS).with_suffix(".html")
        made = made.with_name("index.html") if made.name == "README.html" else made
        assert (site / made).is_file(), made
    assert not list(site.rglob("*.py"))


def every_public_name_has_its_place(site: Path) -> None:
    anchors = {found for page in (site / "reference" / "api").glob("*.html")
               for found in re.findall(r'id="(fairlane\.[\w.]+)"', page.read_text("utf-8"))}  # fmt: skip
    assert {f"fairlane.{name}" for name in fl.__all__ if name != "__version__"} <= anchors
    calls = {name for name in dir(fl.Fairlane) if not name.startswith("_") and callable(getattr(fl.Fairlane, name))}
    twins = {name for name in calls if name[:1] == "a" and name[1:] in calls}
    internal = script("_griffe").INTERNAL
    told = {name for name in calls - twins if inspect.unwrap(getattr(fl.Fairlane, name)).__qualname__ not in internal}
    assert {f"fairlane.Fairlane.{name}" for name in told} <= anchors
    app = (site / "reference" / "api" / "app.html").read_text("utf-8")
    assert all(f"await {name}(" in app or f"fairlane.Fairlane.{name}" in anchors for name in twins)


def pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not [what for what in read(page).loaded if re.match(r"(https?:)?//", what)], page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def lists_and_tables_are_read_as_such(site: Path) -> None:
    """The site's Markdown is stricter than the repository's: a list that it does not see becomes a paragraph."""
    for page in site.rglob("*.html"):
        for text in read(page).paragraphs:
            assert not re.search(r"(?:^|\n)\s*(?:[-*] |\|[-|: ]+\|)", text), (page.relative_to(site), text[:200])
