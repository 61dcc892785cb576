"""Signs of life: which workers live, and what earlier ones left beside a database file. It changes nothing."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fairlane.app import Fairlane
from fairlane.cli.stores import file_of
from fairlane.domain.jobs import WorkerRecord


class Seen(NamedTuple):
    """A worker on record, and whether its process lives; in a PostgreSQL store, whether it said so lately."""

    worker: WorkerRecord
    alive: bool


def folder_of(file: Path) -> Path:
    """Return the folder beside a database file."""
    return file.with_name(file.name + ".fairlane")


def seen(app: Fairlane, workers: Sequence[WorkerRecord]) -> list[Seen]:
    """Return the workers with whether they live.

    Raises:
        StoreError: The store cannot be read.
    """
    file = file_of(app)
    if file is not None:
        return [Seen(worker, _held(folder_of(file) / f"{worker.id}.alive")) for worker in workers]
    from fairlane.stores.postgres.base import Base

    store = app.owner.store
    assert isinstance(store, Base)
    alive = store.alive([worker.id for worker in workers])
    return [Seen(worker, worker.id in alive) for worker in workers]


def leftovers(workers: Iterable[WorkerRecord], file: Path) -> list[Path]:
    """Return files of processes that have ended: signs of life of no worker on record, and bells that nobody hears."""
    known = {worker.id for worker in workers}
    try:
        entries = sorted(folder_of(file).iterdir())
    except FileNotFoundError:
        return []
    return [
        path
        for path in entries
        if (path.suffix == ".alive" and path.stem not in known and not _held(path))
        or (path.suffix == ".bell" and not _heard(path))
    ]


def _held(path: Path) -> bool:
    """Return whether a process holds the lock of a sign of life; a file that cannot be looked at counts as held."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in {errno.EAGAIN, errno.EACCES}
    else:
        return False
    finally:
        os.close(fd)


def _heard(path: Path) -> bool:
    """Return whether a process reads a bell."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in {errno.ENXIO, errno.ENOENT}
    return True
