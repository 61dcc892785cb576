"""Runs the blocks of a page: Python in one namespace, sessions as they would be typed.

As a program, ``python docs_runner.py PAGE [URL]``, it runs all of them in the working directory.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from docs_pages import Block, blocks_of, name_of

import fairlane as fl

BEFORE = Path(__file__).parent / "before"
SESSIONS = {"tutorial.md", "guides/testing.md"}
"""Pages whose console blocks are run and compared: those of the others need a server, a cluster or a store of old."""
LIMIT_S = 60


class Program:
    """What the Python blocks of a page come to: a module, with the names that the page takes for granted.

    Args:
        page: The page. What is in ``before/`` for it may define ``before_block(number)``, called before each Python
            block (they count from 1), and ``afterwards()``, called after the last.
        given: More names.
    """

    NAME = "docs_page"

    def __init__(self, page: Path, **given: object) -> None:
        self.module = sys.modules[self.NAME] = ModuleType(self.NAME)
        self.names = self.module.__dict__
        self.names |= {"fl": fl, "fairlane": fl, "before_block": lambda number: None, "afterwards": lambda: None}
        self.names |= given
        self._apps: list[fl.Fairlane] = []
        self._blocks = 0
        before = BEFORE / Path(name_of(page)).with_suffix(".py")
        if before.is_file():
            exec(compile(before.read_text("utf-8"), str(before), "exec", dont_inherit=True), self.names)
        if "app" not in self.names:
            self.names["app"] = fl.Fairlane("sqlite://")
        self._look()

    def run(self, block: Block) -> None:
        """Run a block where its page says it is, so that a traceback leads there; it may await."""
        code = compiled(block)
        self._blocks += 1
        self.names["before_block"](self._blocks)
        try:
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(code, self.names))
            else:
                exec(code, self.names)
        finally:
            self._look()

    def end(self) -> None:
        """Look at what came of it, where the page's beginning says how."""
        self.names["afterwards"]()

    def _look(self) -> None:
        self._apps += [value for value in self.names.values() if isinstance(value, fl.Fairlane)]

    def close(self) -> None:
        """Close the applications that the page has made."""
        for app in self._apps:
            app.close()
        del sys.modules[self.NAME]


def compiled(block: Block) -> Any:
    """Compile a block with the line numbers of its page."""
    text = "\n" * (block.line - 1) + block.text
    return compile(text, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def main(page: Path, url: str = "") -> None:
    """Run the blocks of a page in order, in the working directory."""
    program = Program(page, URL=url)
    try:
        for block in blocks_of(page):
            if block.language == "python" and block.title:
                Path(block.title).write_text(block.text, "utf-8")
            elif block.language == "python" and not block.excuse:
                program.run(block)
            elif block.language == "console" and name_of(page) in SESSIONS:
                for command, shown in session(block):
                    type_in(command, shown, Path.cwd())
        program.end()
    finally:
        program.close()


# ---------------------------------------------------------------- blocks that are only read


def faults_in(block: Block) -> list[str]:
    """Return what a block names that does not exist: of modules that it imports, of ``fl``, and of ``app``."""
    compiled(block)
    known: dict[str, Any] = {"fl": fl, "fairlane": fl}
    faults = []
    for node in ast.walk(ast.parse(_without_await(block.text))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = importlib.import_module(
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            faults += [f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]
    with fl.Fairlane("sqlite://") as app:
        known["app"] = app
        for node in ast.walk(ast.parse(_without_await(block.text))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                value = known[node.value.id]
                if isinstance(value, fl.Fairlane | type(fl)) and not hasattr(value, node.attr):
                    faults.append(f"{node.value.id}.{node.attr}")
    return faults


def _without_await(text: str) -> str:
    """Return a block as the body of a coroutine, so that it parses with `await` at the top."""
    return "async def _() -> None:\n" + "".join(f"    {line}\n" for line in text.splitlines()) + "    ...\n"


# ---------------------------------------------------------------- sessions


def session(block: Block) -> Iterator[tuple[str, str]]:
    """Give each command of a console block with the output that the page shows."""
    command: str | None = None
    shown: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(shown)
            command, shown = line[2:], []
        else:
            shown.append(line)
    if command is not None:
        yield command, "\n".join(shown)


ENDLESS = ("server", "dev", "demo")


def type_in(command: str, shown: str, folder: Path) -> None:
    """Run a command of a session in a folder and compare what it prints with what the page shows, if it shows any."""
    program, *rest = shlex.split(command, comments=True)
    if program == "pip" or (program == "fairlane" and rest[0] in ENDLESS):
        return
    modules = {"fairlane": ["-m", "fairlane"], "pytest": ["-m", "pytest", "-p", "no:cacheprovider"], "python": []}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLANE_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, *modules[program], *rest],
        cwd=folder, env=env | {"COLUMNS": "120"}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    if shown:
        assert re.fullmatch(pattern(shown), plain(done.stdout), re.DOTALL), f"$ {command}\n{done.stdout}"


def plain(text: str) -> str:
    """Return a text with its blanks evened out."""
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())


def pattern(shown: str) -> str:
    """Return what output must match: ``…`` stands for any text."""
    return ".*".join(re.escape(part) for part in plain(shown).split("…"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
