"""How answers are shown: tables by rich on a terminal, plain columns elsewhere, JSON when asked for.

Stored text is data: control characters are shown as escapes, and nothing in it is ever taken for markup.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, cast

import click

from fairlane.domain.payloads import TRICKY, one_line

if TYPE_CHECKING:
    from rich.table import Table

_UNSAFE_IN_JSON: Final = re.compile(f"[{TRICKY}]")
MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400
FOLDED_WIDTH: Final = 20
"""Characters that a column has at least which is folded."""


def safe(value: object) -> str:
    r"""Return ``value`` as one line of text that cannot drive a terminal.

    Example:
        >>> safe("a\x1b[2Jb\n")
        'a\\x1b[2Jb\\n'
    """
    return one_line(str(value))


def print_json(value: object, *, one_line: bool = False) -> None:
    """Print a value as JSON, keys in the order given."""
    body = json.dumps(value, indent=None if one_line else 2, ensure_ascii=False)
    click.echo(_UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", body))


def on_terminal() -> bool:
    """Return whether somebody looks at stdout."""
    return sys.stdout.isatty()


def span(seconds: float | None) -> str:
    """Return a time as people say it.

    Example:
        >>> [span(seconds) for seconds in (None, 0.25, 75, 7300, 200_000)]
        ['', '0.2 s', '1 min 15 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds is None:
        return ""
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  two digits are enough
    whole = int(seconds)
    for unit, name, part, part_name in ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "min")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part} {part_name}"
    return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"


def rich_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, whole: bool = False
) -> Table:
    """Return a table for rich; a column whose name begins with ``>`` is aligned to the right.

    Where there is too little room, texts are folded; with ``whole`` those of the last column alone.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left", title_style="bold")
    if title is not None:
        table.title = Text(title)
    for index, column in enumerate(columns, 1):
        right = column.startswith(">")
        no_wrap = right or (whole and index < len(columns))
        justify: Literal["left", "right"] = "right" if right else "left"
        table.add_column(column.removeprefix(">"), justify=justify, no_wrap=no_wrap, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return aligned columns.

    Example:
        >>> print(plain_table(("name", ">jobs"), [("mail", 5), ("etl", 12)]))
        name  jobs
        mail     5
        etl     12
    """
    cells, widths = _measured(columns, rows)
    return "\n".join(
        "  ".join(
            _padded(cell, width, right=column.startswith(">"))
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in cells
    )


def _measured(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> tuple[list[list[str]], list[int]]:
    names = [column.removeprefix(">") for column in columns]
    cells = [names, *([_cell(value) for value in row] for row in rows)]
    return cells, [max(_width(line[index]) for line in cells) for index in range(len(names))]


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None, nothing: str = "none"
) -> None:
    """Print a table, or the word for an empty one.

    On a terminal the last column may be folded, the others never: an id that is cut in four cannot be copied. What has
    no room for that is printed as into a pipe, and the terminal breaks the lines.
    """
    if not rows:
        click.echo(nothing if title is None else f"{title}: {nothing}")
        return
    if on_terminal():
        from rich.console import Console

        console = Console(highlight=False)
        *others, last = _measured(columns, rows)[1]
        if sum(others) + 2 * len(others) + min(last, FOLDED_WIDTH) < console.width:
            console.print(rich_table(columns, rows, title=title, whole=True))
            return
    if title is not None:
        click.echo(f"{title}:")
    click.echo(plain_table(columns, rows))


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair a line; what is None or empty is left out."""
    told = [(name, _cell(value)) for name, value in facts if value is not None and value != ""]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        click.echo(f"{name:<{width}}  {value}")


def note(message: str) -> None:
    """Tell people something beside the answer, on stderr."""
    click.echo(safe(message), err=True)


@contextmanager
def progress(what: str, total: int | None) -> Generator[Callable[[int], None], None, None]:
    """Show a progress bar on a terminal, and nothing elsewhere; gives what is to be told how much is done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(what), total=total)
        yield lambda done: bar.update(task, completed=done)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in cast("Sequence[object]", value))
    return safe(value)


def _width(cell: str) -> int:
    if cell.isascii():
        return len(cell)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in cell
    )


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space
