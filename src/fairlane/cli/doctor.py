"""`fairlane doctor`: settings, store and machine, and what is wrong with them."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click

from fairlane.cli.configure import shape
from fairlane.cli.groups import UNHEALTHY, example, store_options
from fairlane.cli.migrate import standing
from fairlane.cli.output import print_facts, print_json, print_table, safe
from fairlane.cli.signs import folder_of, leftovers, seen
from fairlane.cli.stores import Keeper, must_exist
from fairlane.cli.version import versions
from fairlane.clock import SystemClock
from fairlane.errors import FairlaneError
from fairlane.settings import without_password
from fairlane.stores.named import on_server

NETWORK: Final = frozenset(
    (
        "9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs",
        "nfs", "nfs4", "smb3", "smbfs", "vboxsf",
    )
)  # fmt: skip
"""File systems whose locks and shared memory SQLite's WAL cannot rely on."""
MIN_FREE_BYTES: Final = 100 * 1024 * 1024
OLDEST_SERVER: Final = 130_000
FEW_CONNECTIONS: Final = 0.8
"""Part of a server's connections from which on there may soon be none left."""
CLOCKS_APART_MS: Final = 1_000
SHOWN_OPTIONS: Final = ("ENABLE_STAT4", "THREADSAFE", "DEFAULT_SYNCHRONOUS", "MAX_VARIABLE_NUMBER", "OMIT_", "COMPILER")


class Finding(NamedTuple):
    """Something worth knowing: ``wrong`` makes the doctor's exit code 3, ``note`` does not."""

    level: Literal["wrong", "note"]
    what: str


def compile_options() -> list[str]:
    """Return the options that Python's SQLite was built with."""
    with closing(sqlite3.connect(":memory:")) as db:
        return [str(row[0]) for row in db.execute("PRAGMA compile_options")]


def file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the file system that a path is on, or None where the system does not say.

    Args:
        path: An absolute path.
        mounts: What ``/proc/self/mounts`` says; None reads it.
    """
    try:
        body = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape") if mounts is None else mounts
    except OSError:
        return None
    best, kind = -1, None
    for line in body.splitlines():
        _, point, found, *_ = line.split(" ")
        folder = Path(point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if (path == folder or folder in path.parents) and len(folder.parts) >= best:
            best, kind = len(folder.parts), found
    return kind


def about_file(file: Path) -> Iterator[Finding]:
    """Find what is wrong around a database file, without opening it."""
    kind = file_system(file.resolve())
    if kind in NETWORK:
        yield Finding(
            "wrong",
            f"{file} is on a network file system ({kind}): SQLite's WAL needs a local disk, or jobs may be lost",
        )
    for path in (file, file.parent, folder_of(file)):
        if path.exists() and not os.access(path, os.W_OK):
            yield Finding("wrong", f"{path} cannot be written by this user")
    free = shutil.disk_usage(file.parent).free
    if free < MIN_FREE_BYTES:
        yield Finding("wrong", f"the disk of {file} has {free // 2**20} MiB left; enqueues fail when it is full")


def about_server(app: Keeper, told: dict[str, Any]) -> Iterator[Finding]:
    """Find what is wrong with a PostgreSQL server, and add what it says of itself to ``told``."""
    import psycopg

    from fairlane.stores.postgres.server import server_facts

    told["versions"] |= {"psycopg": psycopg.__version__, "libpq": psycopg.pq.version_pretty(psycopg.pq.version())}
    server = server_facts(app.url)
    ahead_ms = app.clock.now_ms() - SystemClock().now_ms()
    told["store"] |= {
        "server": server.version,
        "role": server.role,
        "encoding": server.encoding,
        "synchronous_commit": server.commits,
        "connections": f"{server.connected} of {server.connections}",
        "clock_ahead_s": round(ahead_ms / 1000, 3),
    }
    if server.number < OLDEST_SERVER:
        yield Finding("wrong", f"the server is PostgreSQL {server.version}; 13 is the oldest that will do")
    if server.encoding != "UTF8":
        yield Finding("wrong", f"the database stores texts as {server.encoding}, not as UTF8: some cannot be stored")
    if server.read_only:
        yield Finding("wrong", "the database takes no changes: it follows another server, or is set read only")
    if app.settings["durability"] == "full" and not (server.flushes and server.commits != "off"):
        yield Finding(
            "wrong",
            "jobs may be lost when the server's machine loses power: fsync, full_page_writes or synchronous_commit is "
            "off there",
        )
    if server.connected > server.connections * FEW_CONNECTIONS:
        yield Finding("note", f"{server.connected} of the server's {server.connections} connections are taken")
    if abs(ahead_ms) > CLOCKS_APART_MS:
        yield Finding(
            "note",
            f"this machine's clock is {abs(ahead_ms) / 1000:.1f} s {'behind' if ahead_ms > 0 else 'ahead of'} the "
            "server's, whose time counts; log lines are stamped with this one",
        )


def examine(app: Keeper, told: dict[str, Any]) -> Iterator[Finding]:
    """Look at the store of an app, add what is found to ``told``, and give what is worth knowing."""
    file = must_exist(app)
    if file is None:
        yield from about_server(app, told)
    else:
        told["store"]["file_system"] = file_system(file.resolve())
        yield from about_file(file)
    to_come = standing(app).to_come
    if to_come:
        yield Finding(
            "note", f"{len(to_come)} migrations are to come; the store was not opened: run `fairlane migrate` first"
        )
        return
    wrong, facts, workers, (policy, capacities) = app.owner.read(
        lambda store, _: (store.check(), store.facts(), store.workers(), store.settings())
    )
    told["store"] |= dict(facts)
    told["configured"] = shape(policy, capacities)
    yield from (Finding("wrong", problem) for problem in wrong)
    for name, asked, held in (
        ("policy", app.settings.policy(), policy),
        ("capacities", app.settings.capacities(), capacities),
    ):
        if asked is not None and asked != held:
            yield Finding(
                "wrong",
                f"settings here ask for the {name} {asked}, the store has {held}: programs started here are refused. "
                f"Leave it out, or run `fairlane configure`",
            )
    dead = [one.worker.id for one in seen(app, workers) if not one.alive]
    told["store"] |= {"workers": len(workers) - len(dead), "workers_gone": len(dead)}
    if dead:
        yield Finding("note", f"{len(dead)} workers on record that are gone; the next rescue removes them")
    if file is not None and (left := leftovers(workers, file)):
        names = ", ".join(path.name for path in left[:3]) + (", …" if len(left) > 3 else "")  # noqa: PLR2004  enough
        yield Finding("note", f"{len(left)} files that ended processes left in {folder_of(file)}: {names}; harmless")


def diagnose(url: str | None) -> dict[str, Any]:  # Any: ready for JSON
    """Return everything that the doctor says.

    Raises:
        ConfigError: A setting is wrong: nothing else can be looked at.
    """
    app = Keeper(url)
    told: dict[str, Any] = {
        "versions": versions(),
        "settings": [{"name": name, "value": value, "source": source} for name, value, source in app.settings.report()],
        "store": {"url": without_password(app.url)},
    }
    if not on_server(app.url):
        told["sqlite_options"] = compile_options()
    findings = [
        Finding("note", f"{name} is set in the environment and is no setting")
        for name in app.settings.unknown_variables
    ]
    with app:
        try:
            findings += examine(app, told)
        except FairlaneError as error:
            findings.append(Finding("wrong", str(error)))
    told["findings"] = [finding._asdict() for finding in findings]
    told["well"] = all(finding.level != "wrong" for finding in findings)
    return told


@click.command("doctor", epilog=example("fairlane doctor", "fairlane doctor --json > report.json"))
@store_options
def doctor_command(*, url: str | None, as_json: bool) -> None:
    """Check settings, store and machine; exit code 3 if something is wrong.

    Shows every setting with where it comes from, facts about the store and SQLite or the PostgreSQL server, and checks
    the store's own books, which may take seconds on a large store.
    """
    told = diagnose(url)
    if as_json:
        print_json(told)
    else:
        _print(told)
    if not told["well"]:
        click.get_current_context().exit(UNHEALTHY)


def _print(told: dict[str, Any]) -> None:
    print_facts(told["versions"].items())
    if found := told.get("sqlite_options"):
        options = [option for option in found if option.startswith(SHOWN_OPTIONS)]
        print_facts([("sqlite built with", options), ("…and", f"{len(found) - len(options)} more (--json)")])
    click.echo()
    rows = [
        [one["name"], "as the store has it" if one["value"] is None else str(one["value"]), one["source"]]
        for one in told["settings"]
    ]
    print_table(("setting", "value", "from"), rows)
    click.echo()
    print_facts((name, str(value)) for name, value in told["store"].items())
    if "configured" in told:
        print_facts(told["configured"].items())
    click.echo()
    for finding in told["findings"]:
        click.echo(f"{finding['level']}: {safe(finding['what'])}")
    click.echo("all is well" if told["well"] else "something is wrong")
