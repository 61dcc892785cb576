"""SQLite files that cannot be used, are not ours, or are damaged: a clear error, and nothing is changed. T-C8."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob
from fairlane.errors import ConfigError, StoreBusy, StoreError, StoreVersion
from fairlane.stores.sqlite import connection
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite

NOBODY = 65_534


def opened(path: Path, **options: Any) -> SqliteStore:
    return open_sqlite(f"sqlite:///{path}", clock=SystemClock(), **options)


def a_store(path: Path) -> None:
    with contextlib.closing(opened(path)) as store, store.transaction():
        store.enqueue([NewJob(id=uuid4().bytes, task="t", args="{}")], 1)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---------------------------------------------------------------- how it is opened


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_what_was_asked_for_on_every_connection_that_writes(tmp_path: Path, durability: Any, level: int):
    with contextlib.closing(opened(tmp_path / "jobs.db", durability=durability)) as store:
        other = store.sibling()
        assert other is not None
        with contextlib.closing(other):
            for one in (store, other):
                assert one._raw.execute("PRAGMA synchronous").fetchone() == (level,)
                assert one._raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
                with one.transaction():
                    assert one._raw.in_transaction
        assert store.facts()["durability"] == durability


def test_the_app_passes_durability_on_and_full_is_the_default(tmp_path: Path):
    for options, level in (({}, 2), ({"durability": "full"}, 2), ({"durability": "normal"}, 1)):
        app = Fairlane(f"sqlite:///{tmp_path}/jobs.db", **options)
        assert app.owner.call(lambda store, now_ms: store._raw.execute("PRAGMA synchronous").fetchone()) == (level,)
        app.close()
    with pytest.raises(ConfigError):
        opened(tmp_path / "other.db", durability="none")


def test_a_transaction_holds_the_write_lock_from_its_start(tmp_path: Path):
    """B17: no read is ever upgraded to a write."""
    path = tmp_path / "jobs.db"
    with contextlib.closing(opened(path)) as store, contextlib.closing(sqlite3.connect(path, timeout=0)) as other:  # noqa: SIM117  the inner ones need the outer ones
        with store.transaction(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")


def test_no_statement_of_ours_begins_a_transaction_later_than_at_once():
    """B17: in the sources too, but for reading."""
    folder = Path(connection.__file__).parent
    for path in [*folder.glob("*.py"), *folder.rglob("*.sql")]:
        for line in path.read_text().splitlines():
            if '"BEGIN' in line or line.lstrip().upper().startswith("BEGIN"):
                assert "BEGIN IMMEDIATE" in line or 'execute("BEGIN")' in line, f"{path.name}: {line}"


# ---------------------------------------------------------------- files that are not ours


@pytest.mark.parametrize("mode", ["delete", pytest.param("wal")])
def test_a_file_of_another_program_keeps_its_rows(tmp_path: Path, mode: str):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA journal_mode={mode}")
        db.execute("CREATE TABLE job (theirs)")
        db.execute("INSERT INTO job VALUES (1)")
    with pytest.raises(StoreError, match="another program"):
        opened(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM job").fetchall() == [(1,)]
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (1,)


def test_a_file_of_another_program_is_not_changed_at_all(tmp_path: Path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE job (theirs)")
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="another program"):
        opened(path)
    assert contents(tmp_path) == before


def test_a_file_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path):
    path = tmp_path / "jobs.db"
    a_store(path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        ((last,),) = db.execute("SELECT max(number) FROM migration").fetchall()
        db.execute("INSERT INTO migration SELECT number + 1, 'later', 'x', 0 FROM migration WHERE number = ?", (last,))
    before = contents(tmp_path)
    with pytest.raises(StoreVersion, match="upgrade fairlane"):
        opened(path)
    assert contents(tmp_path) == before


def test_a_migration_that_was_changed_since_is_refused(tmp_path: Path):
    path = tmp_path / "jobs.db"
    a_store(path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE migration SET checksum = 'x'")
    with pytest.raises(StoreError, match="is not the one"):
        opened(path)


@pytest.mark.parametrize("damage", ["header", "all", "short", "page"])
def test_a_damaged_file_is_refused_or_found_out_and_not_changed(tmp_path: Path, damage: str):
    path = tmp_path / "jobs.db"
    a_store(path)
    body = bytearray(path.read_bytes())
    if damage == "header":
        body[:16] = b"not a database!!"
    elif damage == "all":
        body = bytearray(b"garbage " * 1_000)
    elif damage == "short":
        del body[5_000:]
    else:
        body[4096:8192] = os.urandom(4096)
    path.write_bytes(body)
    before = set(os.listdir("/proc/self/fd"))
    try:
        store = opened(path)
    except StoreError:
        assert set(os.listdir("/proc/self/fd")) <= before, "what was opened on the way is closed"
    else:
        with contextlib.closing(store):
            assert store.check(), "it was found out neither when it was opened nor when it was checked"
    assert path.read_bytes() == bytes(body)


@pytest.mark.parametrize("kind", ["folder", "missing folder", "a file for a folder", "a file where the folder goes"])
def test_paths_that_name_no_file_are_refused(tmp_path: Path, kind: str):
    path = tmp_path / "jobs.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "missing folder":
        path = tmp_path / "missing" / "jobs.db"
    elif kind == "a file for a folder":
        (tmp_path / "file").touch()
        path = tmp_path / "file" / "jobs.db"
    else:
        (tmp_path / "jobs.db.fairlane").touch()
    with pytest.raises((StoreError, ConfigError)) as caught:
        opened(path)
    assert str(tmp_path) in str(caught.value)


# ---------------------------------------------------------------- rights


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can reach; tests may run as root, whom no rights hold up."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(folder: Path) -> str:
    """Open a store and enqueue, without any rights but those given to all, and return what was raised."""
    program = f"""
        import os
        from fairlane.app import Fairlane
        from fairlane.errors import FairlaneError
        import fairlane.stores.sqlite.store, sqlite3, tomllib  # what is imported late may lie where nobody can look
        if os.getuid() == 0:
            os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
        app = Fairlane("sqlite:///{folder}/jobs.db")
        try:
            app.enqueue("t", {{}})
        except BaseException as error:
            print(type(error).__name__, isinstance(error, FairlaneError), error)
        else:
            print("stored")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=folder,
    )
    return run.stdout or run.stderr


def test_a_folder_without_write_permission_is_told(shared: Path):
    said = as_nobody(shared)
    assert said.startswith("StoreError True")
    assert str(shared) in said
    assert contents(shared) == {}


@pytest.mark.parametrize(
    "gate",
    ["writable", "not"],
)
def test_a_file_without_write_permission_is_told(shared: Path, gate: str):
    a_store(shared / "jobs.db")
    (shared / "jobs.db").chmod(0o444)
    (shared / "jobs.db.fairlane").chmod(0o777)
    (shared / "jobs.db.fairlane" / "gate").chmod(0o666 if gate == "writable" else 0o444)
    before = contents(shared)
    said = as_nobody(shared)
    assert said.startswith("StoreError True"), said
    assert contents(shared) == before


# ---------------------------------------------------------------- locks of others


def test_a_foreign_lock_that_lasts_too_long_raises_busy_and_then_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "BUSY_MS", 200)
    app = Fairlane(f"sqlite:///{tmp_path}/jobs.db")
    app.enqueue("t", {})
    other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="locked"):
        app.enqueue("t", {})
    assert sum(app.owner.read(lambda store, now_ms: store.counts()).values()) == 1, "reading goes on"
    release = threading.Timer(0.1, lambda: None)
    release.start()
    other.execute("ROLLBACK")
    other.close()
    app.enqueue("t", {})
    claims = [app.claim() for _ in range(3)]
    assert [claim is not None for claim in claims] == [True, True, False], "the refused one stored nothing"
    assert app.owner.call(lambda store, now_ms: store.check()) == []
    app.close()


def test_many_may_open_a_new_file_at_once(tmp_path: Path):
    """SQLite gives up at once, and not after a while, when two connections make a file's log at the same time."""
    many = 4
    start = threading.Barrier(many)

    def opening(path: Path) -> None:
        start.wait()
        opened(path).close()

    with ThreadPoolExecutor(many) as pool:
        for number in range(40):
            for one in [pool.submit(opening, tmp_path / f"{number}.db") for _ in range(many)]:
                one.result()
