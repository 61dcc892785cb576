"""Groups of commands: loaded when used, with ``--url`` and ``--json`` before or after the command, and exit codes.

0  done
1  failed: one line on stderr; with ``--json`` also an object ``{"error": …}`` on stdout
2  the command line is wrong
3  unhealthy, for ``health``, ``doctor`` and ``migrate --check``
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import click

from fairlane.errors import CapacityError, FairlaneError

FAILED: Final = 1
UNHEALTHY: Final = 3

URL_HELP: Final = "The store. [default: FAIRLANE_URL, the settings file, or sqlite:///fairlane.db]"
DATABASE_HELP: Final = (
    "A PostgreSQL database, where a schema is made for it and dropped at the end. [default: a SQLite file that goes]"
)
JSON_HELP: Final = "Print JSON."
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

F = TypeVar("F", bound=Callable[..., Any])  # Any: a command's own arguments


def example(*lines: str) -> str:
    """Return the end of a help text that shows how a command is typed."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def url_option(command: F) -> F:
    """Give a command ``--url``."""
    return click.option("--url", metavar="URL", help=URL_HELP)(command)


def json_option(command: F) -> F:
    """Give a command ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=JSON_HELP)(command)


def store_options(command: F) -> F:
    """Give a command ``--url`` and ``--json``."""
    return url_option(json_option(command))


LEVELS: Final = ("debug", "info", "warning", "error")


def log_level_option(command: F) -> F:
    """Give a command ``--log-level``."""
    option = click.option(
        "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What to log."
    )
    return option(command)


class Shared(click.Group):
    """A group whose ``--url`` and ``--json`` hold for the command that follows; said again after it, that one wins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: click's own
        kwargs.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **kwargs)
        self.params += [
            click.Option(["--url"], metavar="URL", help=URL_HELP),
            click.Option(["--json", "as_json"], is_flag=True, help=JSON_HELP),
        ]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were made."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments, with what was said before it put in front of them."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _let_accept(command)
            url = ctx.params.get("url")
            before = [] if url is None else [f"--url={url}"]
            rest = [*before, *(["--json"] if ctx.params.get("as_json") else []), *rest]
        return name, command, rest


def _let_accept(command: click.Command) -> None:
    """Let a command that has no use for ``--url`` or ``--json`` accept them all the same."""
    known = {opt for param in command.params for opt in param.opts}
    if "--url" not in known:
        command.params.append(click.Option(["--url"], hidden=True, expose_value=False))
    if "--json" not in known:
        command.params.append(click.Option(["--json", "_as_json"], is_flag=True, hidden=True, expose_value=False))


class Entry(NamedTuple):
    """Where a command is, and what it does in a few words."""

    module: str
    attribute: str
    short_help: str


class Root(Shared):
    """The program: knows its commands by name, imports one when it is used, and turns errors into exit codes."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:  # Any: click's own
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(entry.module), entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self.entries.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # Any: click's own
    ) -> Any:
        """Run a command line and exit with its code."""
        given = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        as_json = "--json" in (given[: given.index("--")] if "--" in given else given)
        return self._run(given, as_json, prog_name=prog_name or "fairlane", complete_var=complete_var, **extra)

    def _run(self, given: Sequence[str], as_json: bool, **extra: Any) -> NoReturn:
        try:
            code: object = super().main(given, standalone_mode=False, **extra)
        except click.ClickException as error:
            if as_json:
                _told(error, error.format_message())
            error.show()
            code = error.exit_code
        except click.Abort:
            click.echo("stopped", err=True)
            code = FAILED
        except FairlaneError as error:
            from fairlane.cli.output import safe

            if as_json:
                _told(error, str(error))
            notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            click.echo(safe(f"fairlane: {error}{notes}"), err=True)
            code = FAILED
        sys.exit(code if isinstance(code, int) else 0)


def _told(error: Exception, message: str) -> None:
    from fairlane.cli.output import print_json

    kind = "UsageError" if isinstance(error, click.UsageError) else type(error).__name__
    told: dict[str, object] = {"type": kind, "message": message}
    if isinstance(error, CapacityError):
        told |= {"current": error.current, "maximum": error.maximum}
    print_json({"error": told})
