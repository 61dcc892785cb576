"""Writes ``docs/reference/cli.md`` from the help texts: run it after a change of the command line.

A test holds the page equal to what this gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from fairlane.cli.main import cli

PAGE: Final = Path(__file__).parent / "reference" / "cli.md"
HEAD: Final = """# The command line

<!-- Written by docs/gen_cli.py from the help texts; change those, then run it. -->

`fairlane COMMAND …`, or `python -m fairlane COMMAND …`. Every command takes `--help`, and `--url URL` and `--json`
before or after its name. The store is the one that `--url` names, else `FAIRLANE_URL`, else the settings file, else
`sqlite:///fairlane.db`. A store that does not exist is made by `enqueue`, `worker` and `demo`, and by no other command;
the schema of a PostgreSQL database by `migrate` alone.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed: one line on stderr says why; with `--json` also an object `{"error": {"type", "message"}}` on stdout |
| 2 | the command line is wrong |
| 3 | unhealthy: `health`, `doctor`, `migrate --check` |

Without `--json`, answers are tables on a terminal and aligned columns elsewhere. Control characters in stored text are
shown as escapes.
"""


def walk(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Give every command below a group with its full name, groups before what is in them."""
    ctx = click.Context(group, info_name=path)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from walk(command, f"{path} {name}")


def render() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, command in walk(cli, "fairlane"):
        parts += [f"{'#' * min(3, name.count(' ') + 1)} `{name}`\n", *_section(name, command)]
    return "\n".join(parts).rstrip() + "\n"


def _section(name: str, command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        yield f"{_flowing(command.help)}\n"
        return
    arguments = [
        param.metavar or (param.name or "").upper() for param in command.params if isinstance(param, click.Argument)
    ]
    yield "```\n" + " ".join((name, "[OPTIONS]", *arguments)) + "\n```\n"
    yield f"{_flowing(command.help)}\n"
    rows = [
        row
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and param.opts[-1] not in {"--url", "--json"}
        for row in (_row(param),)
    ]
    if rows:
        yield "| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    if command.epilog:
        lines = [line.strip() for line in command.epilog.split("Example:\n", 1)[-1].splitlines()]
        yield "```\n" + "\n".join(lines) + "\n```\n"


def _row(param: click.Option) -> str:
    names = ", ".join(f"`{opt}`" for opt in (*param.opts, *param.secondary_opts))
    if not param.is_flag:
        names += f" {_value(param)}"
    default = ""
    if param.show_default and not callable(param.default):
        default = f" [default: {param.default}]"
    return f"| {names} | {_flowing(param.help).replace('|', chr(92) + '|')}{default} |"


def _value(param: click.Option) -> str:
    """Return what an option takes."""
    if isinstance(param.type, click.Choice):
        return f"({' '.join(map(str, param.type.choices))})"
    return (param.metavar or param.type.name.removesuffix(" range")).replace("|", " or ").upper()


def _flowing(text: str | None) -> str:
    """Return a help text with each paragraph on one line."""
    paragraphs = (text or "").replace("\b\n", "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
