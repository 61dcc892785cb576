"""What the site needs beyond Markdown: pages that link to files of the project get those files as pages.

In the repository such a link, ``../../deploy/postgres/roles.sql``, leads to the file itself, or to a folder of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
OUTWARD: Final = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")
LANGUAGES: Final = {
    ".js": "javascript", ".mjs": "javascript", ".py": "python", ".sql": "sql", ".yaml": "yaml", ".yml": "yaml",
}  # fmt: skip
FOLDER: Final = "repository"
UNSEARCHED: Final = "---\nsearch:\n  exclude: true\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file of the project that pages link to."""
    for file in [file for file in files.documentation_pages() if file.src_uri.endswith(".md")]:
        for _, target in _outward(file.content_string, file.src_uri):
            uri = _page_of(target)
            if files.get_file_from_path(uri) is None:
                page = File.generated(config, uri, content=UNSEARCHED + _shown(target))
                page.inclusion = InclusionLevel.NOT_IN_NAV
                files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the project lead to their pages."""
    del config, files
    for link, target in _outward(markdown, page.file.src_uri):
        there = relpath(_page_of(target), dirname(page.file.src_uri) or ".")
        markdown = markdown.replace(f"]({link}", f"]({there}")
    return markdown


def _outward(markdown: str, uri: str) -> Iterator[tuple[str, str]]:
    """Give each link that leads out of the documentation's folder to what exists in the project, with its path."""
    for link in dict.fromkeys(OUTWARD.findall(markdown)):
        target = normpath(os.path.join("docs", dirname(uri), link))
        if not target.startswith(("docs/", "..")) and (ROOT / target).exists():
            yield link, target


def _page_of(target: str) -> str:
    return f"{FOLDER}/{target}" if target.endswith(".md") else f"{FOLDER}/{target}.md"


def _shown(target: str) -> str:
    """Return the page of a file, or of the files in a folder."""
    if target.endswith(".md"):
        return re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", (ROOT / target).read_text(encoding="utf-8"))
    paths = sorted(path for path in (ROOT / target).rglob("*") if path.suffix in LANGUAGES)
    shown = [f"## {path.relative_to(ROOT / target)}\n\n{_code(path)}" for path in paths] or [_code(ROOT / target)]
    return "\n".join((f"# {target}\n", *shown))


def _code(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return f"````{LANGUAGES.get(path.suffix, '')}\n{text}````\n"
