"""The pages, and the blocks of code in them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
EXCUSE = re.compile(r"<!-- not run: (.+?) -->", re.DOTALL)


def name_of(page: Path) -> str:
    """Return what a page is called in tests and tables: its path in docs/, or README.md."""
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))


def script(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        line: The number of its first line in the page.
        language: The first word after the fence.
        title: The file that it becomes, if it says one.
        excuse: Why it is not run, if it is not.
    """

    page: Path
    line: int
    language: str
    title: str | None
    excuse: str | None
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """Give the fenced blocks of a page in order."""
    before: Token | None = None
    for token in MarkdownIt("commonmark").parse(page.read_text("utf-8")):
        if token.type == "fence":
            assert token.map is not None
            said = EXCUSE.search(before.content) if before is not None and before.type == "html_block" else None
            title = re.search(r'title="([^"]+)"', token.info)
            yield Block(
                page=page,
                line=token.map[0] + 2,
                language=token.info.partition(" ")[0],
                title=title[1] if title else None,
                excuse=said[1].strip() if said else None,
                text=token.content,
            )
        before = token
