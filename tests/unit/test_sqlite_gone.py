"""B19: the file is deleted or replaced while it is open: loud, nothing made in its place, and on when it is back."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import LONG_S, Rig

from fairlane.app import Fairlane
from fairlane.context import Context
from fairlane.domain.states import State
from fairlane.errors import StoreError


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Fairlane]:
    made = Fairlane(f"sqlite:///{tmp_path}/jobs.db", durability="normal")
    yield made
    made.close()


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("read_before", [False, True])
def test_a_deleted_file_is_told_and_not_made_anew(app: Fairlane, tmp_path: Path, read_before: bool):
    job = app.enqueue("t", {})
    if read_before:
        assert app.get(job.id).state == "available"
    (tmp_path / "jobs.db").rename(tmp_path / "elsewhere")
    before = files(tmp_path)
    with pytest.raises(StoreError, match=r"jobs\.db is gone"):
        app.enqueue("t", {})
    with pytest.raises(StoreError, match=r"jobs\.db is gone"):
        app.get(job.id)
    with pytest.raises(StoreError, match=r"jobs\.db is gone"):
        app.owner.store.sibling()
    assert files(tmp_path) == before
    (tmp_path / "elsewhere").rename(tmp_path / "jobs.db")
    second = app.enqueue("t", {})
    assert {one.id for one in app.jobs().jobs} == {job.id, second.id}


def test_a_replaced_file_is_told_and_left_alone(app: Fairlane, tmp_path: Path):
    app.enqueue("t", {})
    path = tmp_path / "jobs.db"
    other = Fairlane(f"sqlite:///{tmp_path}/other.db")
    other.enqueue("t", {})
    other.close()
    shutil.copy(tmp_path / "other.db", tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="was replaced by another file"):
        app.enqueue("t", {})
    with pytest.raises(StoreError, match="was replaced by another file"):
        app.jobs()
    assert path.read_bytes() == before


def test_a_worker_whose_file_is_away_for_a_while_goes_on(rig: Rig, tmp_path: Path):
    @rig.task
    def quick() -> None: ...

    path = tmp_path / "jobs.db"
    worker = rig.worker()
    worker.start()
    rig.until_state(rig.enqueue("quick"), State.COMPLETED)
    path.rename(tmp_path / "elsewhere")
    dispatcher = worker._start.dispatcher  # type: ignore[union-attr]
    rig.until(lambda: dispatcher.fails > 1)
    assert not path.exists(), "no empty file was made in its place"
    (tmp_path / "elsewhere").rename(path)
    rig.until_state(rig.enqueue("quick"), State.COMPLETED)
    assert dispatcher.fails == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_handler_commits_nothing_into_a_file_that_was_replaced(rig: Rig, tmp_path: Path, kind: str):
    running, go = threading.Event(), threading.Event()
    told: list[BaseException] = []

    def before(first: bool) -> None:
        if not first:
            running.set()
            assert go.wait(LONG_S)

    if kind == "sync":

        @rig.task
        def pay(first: bool, ctx: Context) -> None:
            before(first)
            try:
                with ctx.transaction() as conn:
                    conn.execute("CREATE TABLE IF NOT EXISTS paid (job)")
            except StoreError as error:
                told.append(error)
                raise
    else:

        @rig.task  # type: ignore[no-redef]
        async def pay(first: bool, ctx: Context) -> None:
            await asyncio.to_thread(before, first)
            try:
                async with ctx.transaction() as conn:
                    conn.execute("CREATE TABLE IF NOT EXISTS paid (job)")
            except StoreError as error:
                told.append(error)
                raise

    path = tmp_path / "jobs.db"
    with rig.worker(grace=0.0):
        rig.until_state(rig.enqueue("pay", '{"first": true}'), State.COMPLETED)
        rig.enqueue("pay", '{"first": false}')
        assert running.wait(LONG_S)
        shutil.copy(path, tmp_path / "copy.db")
        path.rename(tmp_path / "elsewhere")
        (tmp_path / "copy.db").rename(path)
        go.set()
        rig.until(lambda: told)
    assert "was replaced by another file" in str(told[0])
