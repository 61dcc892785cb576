"""Every command line in the documentation is one that the program takes; nothing is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs_pages import PAGES, ROOT, Block, blocks_of, name_of

from fairlane.cli.main import cli

SHELLS = {"", "sh", "bash", "console"}
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
OURS = re.compile(r"(?:^|^\$ |-- |opentelemetry-instrument |\$\()(fairlane .*)$")
UNKNOWN = ("…", "[", "COMMAND")


def lines_of(block: Block) -> Iterator[str]:
    """Give the lines of a block that are commands, those that go on in one piece."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language != "console" or line.startswith("$ "):
            yield line


def commands_of(page: Path) -> Iterator[tuple[str, str]]:
    """Give each command of ours in the blocks of a page, with where it is."""
    for block in blocks_of(page):
        if block.language in SHELLS:
            for line in lines_of(block):
                if found := OURS.search(line):
                    yield str(block), found[1]


def words(line: str) -> list[str]:
    """Return the words of a command up to where the shell would end it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    taken = []
    for word in lexer:
        if word in {"|", "||", "&", "&&", ";", ">", ">>", "<", ")"}:
            break
        taken.append(word)
    return taken


def parsed(line: list[str]) -> click.Context:
    """Parse a command line as `fairlane` would, and run nothing."""
    assert line[0] == "fairlane"
    group: click.Command = cli
    ctx: click.Context | None = None
    rest = line[1:]
    while isinstance(group, click.Group):
        ctx = group.make_context(rest[0], [], parent=ctx, resilient_parsing=True)
        _, command, rest = group.resolve_command(ctx, rest)
        if command is None:
            raise click.UsageError(f"there is no command {rest[0] if rest else line}")
        group = command
    return group.make_context(" ".join(line[:2]), list(rest), parent=ctx)


def mentions_of(page: Path) -> Iterator[str]:
    """Give each command of ours that the text of a page mentions."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"`(fairlane [^`]+)`", text):
        yield " ".join(found.split())


def fault_of(mention: str) -> str | None:
    """Return what is wrong with a command that the text mentions, which may be less than a whole one."""
    command: click.Command = cli
    ctx = click.Context(cli, info_name="fairlane")
    rest = mention.split()[1:]
    while rest and isinstance(command, click.Group):
        if rest[0].startswith(UNKNOWN):
            return None
        found = command.get_command(ctx, rest[0])
        if found is None:
            return f"there is no `{rest[0]}`"
        command, rest = found, rest[1:]
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    wrong = [word for word in rest if re.match(r"--?[a-z]", word) and word.split("=")[0] not in options]
    return f"it takes no {wrong}" if wrong else None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_command_lines_are_right(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for where, line in commands_of(page):
        for word in words(line):  # some commands look whether a file is there
            if re.fullmatch(r"[\w-]+(\.\w+)+", word):
                Path(word).touch()
        if page.parent.name == "reference" and "[OPTIONS]" in line:
            continue
        try:
            parsed(words(line))
        except click.ClickException as error:
            pytest.fail(f"{where}: {line}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_are_right(page: Path) -> None:
    assert not [(mention, fault) for mention in mentions_of(page) if (fault := fault_of(mention))]


def test_there_are_many() -> None:
    assert sum(1 for page in PAGES for _ in commands_of(page)) > 100
    assert sum(1 for page in PAGES for _ in mentions_of(page)) > 100


@pytest.mark.parametrize(("line", "why"), [("fairlane frob", "command"), ("fairlane stats --frob", "option")])
def test_a_wrong_line_is_found(line: str, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        parsed(words(line))
    assert fault_of(line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_of_make_exist(page: Path) -> None:
    asked = [found for block in blocks_of(page) if block.language in SHELLS for line in lines_of(block)
             for found in re.findall(r"^(?:\$ )?make ([a-z-]+)", line)]  # fmt: skip
    asked += re.findall(r"`make ([a-z-]+)[^`]*`", page.read_text("utf-8"))
    assert set(asked) <= TARGETS
