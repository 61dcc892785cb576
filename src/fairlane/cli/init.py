"""`fairlane init`: writes a starter, a settings file and a module with one task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from fairlane.cli.groups import example, json_option
from fairlane.cli.output import print_json
from fairlane.domain.policy import Capacities, Policy
from fairlane.errors import ConfigError
from fairlane.settings import SETTINGS

URL: Final = "sqlite:///jobs.db"
HEAD: Final = """\
# Settings of fairlane. A line that begins with # shows what holds without it.
# A variable of the environment goes before this file: FAIRLANE_CONCURRENCY=16. `fairlane doctor` shows what holds.
"""
JOBS: Final = '''\
"""The jobs of this program. Where they are stored is said in fairlane.toml, beside this file.

    python jobs.py                    # stores a job
    fairlane worker jobs:app          # runs jobs until Ctrl-C; with --burst until none is left
    fairlane jobs list                # what became of them
"""

import fairlane as fl

app = fl.Fairlane()  # settings come from FAIRLANE_... variables and fairlane.toml


@app.task(queue="greetings", retry=fl.Retry(max_attempts=5), timeout=30)
def greet(name: str) -> str:
    """Greet somebody. After a crash a job runs again, so a task must be able to run twice."""
    return f"hello, {name}"


if __name__ == "__main__":
    job = greet.using(tenant="acme").enqueue("world")
    print("stored job", job.id)
'''


def starter() -> str:
    """Return the settings file: the store, and every other setting as it is by default, behind a ``#``."""
    shown = _of_the_store()
    parts = [HEAD]
    for setting in SETTINGS:
        value: Any = shown.get(setting.name, setting.default)  # Any: each setting has its own type
        said = f"{setting.name} = {_toml(value)}"
        parts.append(f"# {setting.about}\n{said}\n" if setting.name == "url" else f"# {setting.about}\n# {said}\n")
    return "\n".join(parts)


def _of_the_store() -> dict[str, object]:
    """Return what is shown of settings whose default is what the store has: what a new store gets."""
    made = Capacities()
    return {
        "url": URL,
        "policy": "fair",
        "ageing_step": Policy.fair().ageing_step_ms / 1000,
        "express_capacity": made.express_capacity,
        "express_per_tenant": made.express_per_tenant,
    }


def _toml(value: object) -> str:
    """Return a value as TOML writes it: for texts, numbers, flags and lists of texts as JSON does."""
    return json.dumps(value)  # a tuple too is an array


@click.command("init", epilog=example("fairlane init", "fairlane init --dir myproject"))
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), default=".", show_default="here",
    help="The folder to write to; it is made if need be.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the files if they are there.")
@json_option
def init_command(*, folder: Path, force: bool, as_json: bool) -> None:
    """Write a starter: fairlane.toml with every setting, and jobs.py with one task.

    Nothing that is there is replaced unless --force says so.
    """
    files = {folder / "fairlane.toml": starter(), folder / "jobs.py": JOBS}
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there and not force:
        raise ConfigError(f"{' and '.join(there)} would be replaced, so nothing was written: --force does it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, body in files.items():
            with path.open("w" if force else "x", encoding="utf-8") as file:
                file.write(body)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}") from None
    if as_json:
        print_json({"written": [str(path) for path in files]})
        return
    for path in files:
        click.echo(f"wrote {path}")
    if folder.resolve() != Path.cwd():
        click.echo(f"next: cd {folder}")
    click.echo("then: python jobs.py && fairlane worker jobs:app --burst && fairlane jobs list")
