"""`fairlane bench`: figures of this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from fairlane.bench import FIGURES, bench
from fairlane.cli.groups import example, json_option
from fairlane.cli.output import print_facts, print_json, print_table, progress


@click.command("bench", epilog=example("fairlane bench", "fairlane bench --only cycle_100 --folder /var/lib --json"))
@click.option("--only", multiple=True, type=click.Choice(list(FIGURES)), help="A figure; may be given again.")
@click.option("--jobs", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Jobs of a figure.")
@click.option("--repeat", type=click.IntRange(1, 100), default=3, show_default=True, help="How often each is measured.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Where the stores are made: its disk is measured. [default: the system's folder for temporary files]",
)
@json_option
def bench_command(*, only: tuple[str, ...], jobs: int, repeat: int, folder: Path | None, as_json: bool) -> None:
    """Measure enqueue, claim, run and latency on this machine, at durability full; medians.

    A folder in memory (tmpfs) flushes nothing: name one on the disk that your store will be on.
    """
    names = tuple(dict.fromkeys(only))
    total = (len(names) or len(FIGURES)) * repeat
    with (
        tempfile.TemporaryDirectory(prefix="fairlane-bench-", dir=folder) as place,
        progress("measuring", total) as told,
    ):
        found = bench(Path(place), only=names, jobs=jobs, repeat=repeat, told=told)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    rows = [
        (
            name,
            one["about"],
            f"{one['median']:,.0f}" if one["unit"] == "jobs/s" else f"{one['median']:.2f}",
            one["unit"],
        )
        for name, one in found["results"].items()
    ]
    print_table(("figure", "what", ">median", "unit"), rows)
    click.echo()
    print_facts([*found["machine"].items(), *found["versions"].items(), *found["settings"].items()])
