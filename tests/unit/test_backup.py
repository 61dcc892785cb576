"""Backups of a store in use: whole, checked, as of one instant, and never in the place of something else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.app import Fairlane
from fairlane.errors import InvalidValue, StoreError, StoreVersion
from fairlane.stores.sqlite import backup as backup_module
from fairlane.stores.sqlite.backup import backup_file

SCHEMA_1 = Path(__file__).parents[1] / "migrations" / "schema_1.sql"


def rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Fairlane]:
    with Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal") as made:
        made.queues["mail"].set(max_running=5)
        for n in range(30):
            made.enqueue("t", {"n": n}, tenant="ab"[n % 2], queue="mail")
        claim = made.claim(lease=60)
        assert claim is not None
        claim.ack("done")
        assert made.claim(lease=60) is not None
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder / "monday.db"


def test_a_backup_has_every_row_and_is_a_store(app: Fairlane, place: Path):
    made = app.backup(place)
    assert made == (place, place.stat().st_size, 30)
    assert rows(place) == rows(Path(app.url.removeprefix("sqlite:///")))
    assert list(place.parent.iterdir()) == [place], "nothing beside it"
    with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",), "it can be read from a read-only folder"
    with Fairlane(f"sqlite:///{place}") as copy:
        assert copy.owner.call(lambda store, now_ms: store.check()) == []
        assert copy.queues["mail"].get() == app.queues["mail"].get()
        assert sum(copy.owner.read(lambda store, now_ms: store.counts()).values()) == 30


def test_a_backup_is_as_of_one_commit_while_others_write(app: Fairlane, place: Path):
    """Jobs are enqueued two at a time: a copy with an odd number would be one of half a transaction."""
    ending, going = threading.Event(), threading.Event()
    task = app.task(name="pair")(_noop)

    def write() -> None:
        while not ending.is_set():
            app.enqueue_many([task.new(), task.new()])
            going.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        counts: list[int] = []
        for n in range(8):
            going.clear()
            assert going.wait(10)
            counts.append(app.backup(place.with_name(f"{n}.db")).jobs)
    finally:
        ending.set()
        thread.join()
    assert all(count % 2 == 0 for count in counts)
    assert counts == sorted(set(counts)), "each has what was written since the one before"
    with Fairlane(f"sqlite:///{place.with_name('7.db')}") as copy:
        assert copy.owner.call(lambda store, now_ms: store.check()) == []


def _noop() -> None:
    pass


def test_writers_go_on_while_a_backup_stands_still(app: Fairlane, place: Path):
    """The copy is held up in the middle until a write has returned, which it would not if it waited for the copy."""
    task = app.task(name="fill")(_noop)
    app.enqueue_many(task.new() for _ in range(9_000))
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        if not seen:
            app.enqueue("t", {"late": True})
        seen.append(done)

    made = app.backup(place, progress=progress)
    assert len(seen) > 1, "there were several steps"
    assert made.jobs == 9_030, "the late one is not in it, and the copy did not begin again"


def test_a_backup_of_a_store_in_memory(place: Path):
    with Fairlane("sqlite://") as app:
        job = app.enqueue("t", {})
        assert app.backup(place).jobs == 1
        app.enqueue("t", {})
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with Fairlane(f"sqlite:///{place}") as copy:
        assert copy.get(job.id).state == "available"


def test_the_twin_does_the_same(app: Fairlane, place: Path):
    assert asyncio.run(app.abackup(place)) == (place, place.stat().st_size, 30)


def test_a_store_of_an_older_schema_is_copied_as_it_is(tmp_path: Path, place: Path):
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(SCHEMA_1.read_text("utf-8"))
    before = path.read_bytes()
    assert Fairlane(f"sqlite:///{path}").backup(place).jobs > 0
    assert path.read_bytes() == before, "it was not migrated"
    assert rows(place) == rows(path)


def test_it_is_readable_for_those_alone_who_can_read_the_store(app: Fairlane, place: Path):
    Path(app.url.removeprefix("sqlite:///")).chmod(0o600)
    app.backup(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_it_has_its_name_only_when_it_is_on_the_disk(app: Fairlane, place: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[str, bool]] = []
    real = os.fsync

    def watched(fd: int) -> None:
        seen.append(("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file", place.exists()))
        real(fd)

    monkeypatch.setattr(backup_module.os, "fsync", watched)
    monkeypatch.delattr(backup_module.fcntl, "F_FULLFSYNC", raising=False)
    app.backup(place)
    assert seen == [("file", False), ("folder", True)]


# ---------------------------------------------------------------- refused, and nothing is written


def test_a_file_that_exists_is_replaced_only_when_asked(app: Fairlane, place: Path):
    app.backup(place)
    before = place.read_bytes()
    app.enqueue("t", {})
    with pytest.raises(InvalidValue, match="exists; name another file"):
        app.backup(place)
    assert files(place.parent) == {place.name: before}
    assert app.backup(place, overwrite=True).jobs == 31
    assert list(place.parent.iterdir()) == [place]


def test_a_backup_that_fails_leaves_the_old_one(app: Fairlane, place: Path):
    app.backup(place)
    before = place.read_bytes()

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.backup(place, overwrite=True, progress=fail)
    assert files(place.parent) == {place.name: before}
    app.enqueue("t", {})


def test_a_name_that_somebody_took_meanwhile_is_left_alone(app: Fairlane, place: Path):
    with pytest.raises(InvalidValue, match="exists by now"):
        app.backup(place, progress=lambda done, total: place.write_text("theirs") and None)
    assert files(place.parent) == {place.name: b"theirs"}


@pytest.mark.parametrize("beside", ["-wal", "-shm", "-journal"])
def test_a_database_in_use_is_never_written_over(app: Fairlane, place: Path, beside: str):
    place.with_name(place.name + beside).write_bytes(b"x")
    with pytest.raises(InvalidValue, match="is or was a database in use"):
        app.backup(place, overwrite=True)
    assert not place.exists()


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("jobs.db", "is the store itself"),
        ("link.db", "is the store itself"),
        ("jobs.db-wal", "belongs to the store"),
        ("backups", "is a folder"),
        ("missing/monday.db", "the folder .* does not exist"),
    ],
)
def test_names_that_no_backup_can_have(app: Fairlane, tmp_path: Path, place: Path, name: str, match: str):
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    jobs = len(app.jobs(limit=100).jobs)
    with pytest.raises(InvalidValue, match=match):
        app.backup(tmp_path / name, overwrite=True)
    assert len(app.jobs(limit=100).jobs) == jobs
    assert files(place.parent) == {}


def test_there_must_be_a_store(tmp_path: Path, place: Path):
    app = Fairlane(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(StoreError, match="does not exist"):
        app.backup(place)
    (tmp_path / "none.db").touch()
    with pytest.raises(StoreError, match="is empty"):
        app.backup(place)
    assert files(tmp_path) == {"none.db": b""}


def test_a_database_of_another_program_is_not_ours_to_back_up(tmp_path: Path, place: Path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE job (theirs)")
    with pytest.raises(StoreError, match="another program"):
        backup_file(path, place)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA application_id=1717660018")
        db.execute("PRAGMA user_version=999")
    with pytest.raises(StoreVersion, match="upgrade"):
        backup_file(path, place)
    assert files(place.parent) == {}


def test_a_damaged_store_gives_no_backup(app: Fairlane, tmp_path: Path, place: Path):
    path = tmp_path / "jobs.db"
    app.close()
    body = bytearray(path.read_bytes())
    page = 4096 * (len(body) // 4096 - 2)
    body[page : page + 4096] = os.urandom(4096)
    path.write_bytes(body)
    with pytest.raises(StoreError):
        backup_file(path, place)
    assert files(place.parent) == {}


def test_a_store_that_can_be_read_and_is_wrong_gives_no_backup(app: Fairlane, tmp_path: Path, place: Path):
    path = tmp_path / "jobs.db"
    app.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        sql = "replace(sql, 'express IS NULL', 'express IS NOT NULL')"
        db.execute(f"UPDATE sqlite_schema SET sql = {sql} WHERE name = 'job_head'")
    with pytest.raises(StoreError, match="is damaged"):
        backup_file(path, place)
    assert files(place.parent) == {}
