"""Writes ``docs/reference/settings.md`` from where settings are defined: run it after a change of one.

A test holds the page equal to what this gives.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import griffe

import fairlane as fl
from fairlane import rules
from fairlane.cli.main import cli
from fairlane.settings import DAY_S, SETTINGS, Setting

PAGE: Final = Path(__file__).parent / "reference" / "settings.md"
HEAD: Final = """# Settings

<!-- Written by docs/gen_settings.py from where settings are defined; change those, then run it. -->

What does not say otherwise has a default that works. `fairlane doctor` shows every setting of a process, with where it
came from.

## Of a process

A setting comes from, the first that has it:

1. an argument: of `fl.Fairlane(…)`, of `app.worker(…)`, or an option of the command line,
2. the environment: the variable in the table,
3. the file `fairlane.toml` in the working directory or, where there is none, the table `[tool.fairlane]` of
   `pyproject.toml` there,
4. the default.

A name in a file that is no setting, or a value that is none, is a `ConfigError` at the start; the message says where it
came from. In the environment yes and no are `true`, `1`, `yes`, `on` and `false`, `0`, `no`, `off`.

```toml
# fairlane.toml
url = "sqlite:////var/lib/jobs.db"
concurrency = 16
keep_completed = 3600
```
"""
URLS: Final = """## The store's URL

| URL | store |
|---|---|
| `sqlite:///jobs.db` | a file, relative to the working directory |
| `sqlite:////var/lib/jobs.db` | a file, by its whole path |
| `sqlite://` | in memory, of this process alone: for tests |
| `postgresql://user@host/database` | a schema of a PostgreSQL database; see [PostgreSQL](../guides/postgres.md) |

A SQLite URL takes no options. A PostgreSQL URL takes those of libpq (`sslmode`, `connect_timeout`, several hosts and so
on), and two of fairlane's own: `schema=` (default `fairlane`) and `pooled=yes` or `no` (default; `yes` behind a pooler
that hands out connections by the transaction).
"""
STORED: Final = """## Of a store

These are kept in the store, hold for every process that uses it, and act on what waits already. They are changed by
calls, by commands or on the dashboard, and each change is on record.
"""
NAMES: Final[Mapping[str, str]] = {
    "ageing_step_ms": "ageing_step", "max_lag_us": "max_lag", "unknown_run_us": "expected run time without history",
}  # fmt: skip
"""Fields of a policy that its makers take under another name, in seconds."""


def render() -> str:
    """Return the page."""
    return "\n".join((HEAD, *_settings(), *_arguments(), URLS, STORED, *_policy(), *_rules())).rstrip() + "\n"


def _settings() -> Iterator[str]:
    yield "| setting | variable | also as | default | meaning |\n|---|---|---|---|---|"
    taken = {
        "fl.Fairlane": set(inspect.signature(fl.Fairlane.__init__).parameters),
        "app.worker": set(inspect.signature(fl.Fairlane.worker).parameters),
    }
    for setting in SETTINGS:
        places = [f"`{call}({setting.name}=)`" for call, names in taken.items() if setting.name in names]
        places += [f"`{option}`" for option in _options(setting)]
        yield (
            f"| `{setting.name}` | `{setting.variable}` | {', '.join(places)} | {_default(setting.default)} | "
            f"{_cell(setting.about)} |"
        )
    yield ""


def _options(setting: Setting) -> Iterator[str]:
    """Give the options of the command line that say it for one process."""
    if setting.name == "url":
        yield "--url"
    worker = cli.get_command(click.Context(cli), "worker")
    assert worker is not None
    for param in worker.params:
        if isinstance(param, click.Option) and param.name == setting.name != "url":
            yield f"worker {param.opts[-1]}"


def _arguments() -> Iterator[str]:
    known = {setting.name for setting in SETTINGS}
    made, ran = fl.Fairlane.__init__, fl.Fairlane.run_worker
    for title, call, texts in (
        ("`fl.Fairlane`", made, _args_of(fl.Fairlane.__doc__)),
        ("`app.worker` and `app.run_worker`", ran, _args_of(ran.__doc__) | _args_of(fl.Fairlane.worker.__doc__)),
    ):
        yield f"### Only as arguments of {title}\n\n| argument | meaning |\n|---|---|"
        for name in inspect.signature(call).parameters:
            if name not in {"self", *known}:
                yield f"| `{name}` | {_cell(texts[name])} |"
        yield ""


def _policy() -> Iterator[str]:
    yield (
        "### Policy and express lane\n\n`app.configure(…)`, `fairlane configure`, `PUT /v1/settings`; more in\n"
        "[priorities and tenants](../guides/priorities-and-tenants.md) and [express](../guides/express.md).\n"
    )
    yield "| argument | default | meaning |\n|---|---|---|"
    texts = _args_of(fl.Policy.fair.__doc__) | _args_of(fl.Policy.strict.__doc__)
    made = {**inspect.signature(fl.Policy.strict).parameters, **inspect.signature(fl.Policy.fair).parameters}
    yield "| `policy` | fair | `Policy.fair(…)`, `Policy.strict(…)` or `Policy.fifo()`, made of the next six |"
    for name, parameter in made.items():
        yield f"| `{name}` | {_default(parameter.default)} | {_cell(texts[name])} |"
    about = _args_of(fl.Fairlane.configure.__doc__)
    for field in dataclasses.fields(fl.Capacities):
        yield f"| `{field.name}` | {_default(field.default)} | {_cell(about[field.name])} |"
    yield ""


def _rules() -> Iterator[str]:
    for title, call, where in (
        ("Queues", rules.Queue.set, '`app.queues["mail"].set(…)`, `fairlane queues set`, `PUT /v1/queues/mail`'),
        ("Tenants", rules.Tenant.set, '`app.tenants["acme"].set(…)`, `fairlane tenants set`, `PUT /v1/tenants/acme`'),
        (
            "Named limits",
            rules.Limit.set,
            '`app.limits["openai"].set(…)`, `fairlane limits set`, `PUT /v1/limits/openai`',
        ),
        ("Tiers", rules.TierHandle.set, '`app.tiers["high"].set(…)`, `fairlane tiers set`, `PUT /v1/tiers/high`'),
    ):
        yield from _table(title, call, where)
    yield (
        "Queues, tasks, tenants and named limits can also be paused: `.pause(reason, by=, until=)` and `.resume()`.\n"
        "What is given to tasks in code, such as retries and timeouts, is in [tasks](api/tasks.md).\n"
    )


def _table(title: str, call: Callable[..., object], where: str) -> Iterator[str]:
    yield f"### {title}\n\n{where}\n\n| argument | meaning |\n|---|---|"
    texts = _args_of(call.__doc__)
    for name in inspect.signature(call).parameters:
        if name not in {"self", "by"}:
            yield f"| `{name}` | {_cell(texts[name])} |"
    yield ""


def _args_of(doc: str | None) -> dict[str, str]:
    """Return what a docstring says of each argument, on one line."""
    sections = griffe.Docstring(inspect.cleandoc(doc or ""), lineno=1).parse("google", warnings=False)
    return {
        item.name: " ".join(item.description.split())
        for section in sections
        if section.kind is griffe.DocstringSectionKind.parameters
        for item in section.value
    }


def _default(value: Any) -> str:  # Any: each setting has its own type
    if value is None:
        return "the store's"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == ():
        return "none"
    if isinstance(value, fl.Tier):
        return value.name
    if isinstance(value, float) and value >= DAY_S:
        return f"{value:,.0f} ({value / DAY_S:.0f} d)"
    return f"{value:,g}" if isinstance(value, int | float) else f"`{value}`" if "/" in value else str(value)


def _cell(text: str) -> str:
    """Return a text for a cell of a table: roles of reStructuredText as code, ends without a full stop."""
    plain = re.sub(r":\w+:`~?(?:fairlane\.)?([^`]+)`", r"`\1`", text.replace("``", "`"))
    return plain.replace("|", "\\|").removesuffix(".")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
