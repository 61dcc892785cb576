"""Restoring a backup into a store's file while other processes have it open.

What is in the file becomes what the backup says, by SQLite's online backup in one transaction, which the others notice
like any other; no file is replaced under anybody's open handles. The work is done on a draft beside the file, a copy of
the backup; only the last steps hold the others up. If anything fails before the end, or the process dies, nothing has
changed.

What the draft is given, so that nobody is misled:

* **Numbers** only go on. Fences, numbers of jobs, of log rows, of incidents and of express jobs go :data:`JUMP` beyond
  whatever the file and the backup had. A claim raises one fence by one and writes one row of the log at least, so no
  fence was ever above the log's number. Whoever holds a claim of before is told that the lease is lost.
* **Running jobs** of the backup are given back, which counts as nothing: nobody knows what became of them.
* **Lanes** keep their numbers, which processes remember.
* **What is about processes** (workers, monitor, what was asked for, what code declares of tasks) and **what must not be
  undone** (tokens and their ends, the audit, what was taken of rates) is the file's, not the backup's.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fairlane.clock import Clock
from fairlane.domain.jobs import Settlement
from fairlane.errors import ConfigError, InvalidValue
from fairlane.failpoints import failpoint
from fairlane.store import Restored
from fairlane.stores._mirror import STORED
from fairlane.stores._queries import query
from fairlane.stores.sqlite.backup import Progress, copy_pages, integrity, writing
from fairlane.stores.sqlite.beside import opened
from fairlane.stores.sqlite.connection import path_of, translated
from fairlane.stores.sqlite.store import SqliteStore, open_sqlite
from fairlane.stores.sqlite.versions import header_of, refuse_others, schema_of

JUMP: Final = 1_000_000_000
"""How far numbers go ahead: further than a file that was lost can have come since its backup, and nine million restores
before they reach 2**53, where JSON readers lose precision."""
TOGETHER: Final = 500
RELOAD_ROW: Final = '[["c"]]'

RUNNING: Final = query("sqlite", "restore_running")
FENCES: Final = query("sqlite", "restore_fences")
SEQUENCE_DROP: Final = query("sqlite", "sequence_drop")
SEQUENCE_PUT: Final = query("sqlite", "sequence_put")
COUNTERS: Final = query("sqlite", "counters")
LIVE_COUNTERS: Final = query("sqlite", "restore_counters")
COUNTER_PUT: Final = query("sqlite", "counter_put")
LANES_ALL: Final = query("sqlite", "lanes_all")
LIVE_LANES: Final = query("sqlite", "restore_live_lanes")
LANES_DROP: Final = query("sqlite", "lanes_drop")
LANE_PUT: Final = query("sqlite", "lane_put")
MOVE_LANES: Final = query("sqlite", "restore_lanes")
LOG_DROP: Final = query("sqlite", "log_drop")
LOG_PUT: Final = query("sqlite", "log_put")
FROM_LIVE: Final = tuple(
    query("sqlite", f"restore_{name}")
    for name in (
        "worker_drop", "worker_put", "asked_drop", "asked_put", "monitor_drop", "monitor_put", "task", "token",
        "session_drop", "session_put", "gate", "audit",
    )
)  # fmt: skip
"""What is taken over from the file that is replaced."""

_Row = tuple[Any, ...]  # Any: SQLite's own types


class Draft(SqliteStore):
    """A copy of a backup that is being made ready to take the place of what is in a store's file."""

    def give_back(self, now_ms: int) -> int:
        """Give the running jobs back, and have everything stored in tables; return how many jobs that were."""
        with self.transaction():
            rows = self._sql(RUNNING).fetchall()
            for first in range(0, len(rows), TOGETHER):
                self.settle([_released(*row) for row in rows[first : first + TOGETHER]], now_ms)
            self.write_state()
        return len(rows)

    def jump(self, live: dict[str, int], now_ms: int, *, by: str, what: str) -> None:
        """Let numbers go on far ahead, empty the log, and record who restores what.

        Args:
            live: The highest numbers of the file, by table.
            now_ms: The instant.
            by: Who restores.
            what: The backup's name.
        """
        with self.transaction():
            self.record(by, "restore", "store", detail=what, now_ms=now_ms)
            own = self.sequences()
            ahead = {name: max(live.get(name, 0), own.get(name, 0)) + JUMP for name in {*live, *own, "job", "log"}}
            self._sql(FENCES, {"fence": ahead["log"]})
            self._sql(LOG_DROP)
            for name, seq in ahead.items():
                self._sql(SEQUENCE_DROP, {"name": name})
                self._sql(SEQUENCE_PUT, {"name": name, "seq": seq})
            self._sql(LOG_PUT, (ahead["log"] + 1, STORED, len(RELOAD_ROW), RELOAD_ROW))
            self._mirror = None

    def take_over(self, path: Path) -> None:
        """Take over from the file that is to be replaced what must not go back; its gate is held."""
        self._sql("ATTACH ? AS live", (str(path),))
        try:
            with self.transaction():
                for sql in FROM_LIVE:
                    self._sql(sql)
                self._keep_counters()
                self._keep_lanes()
        finally:
            self._sql("DETACH live")

    def _keep_counters(self) -> None:
        """Let numbers and instants go on, and keep what is known of this machine's clocks."""
        own, live = dict(self._sql(COUNTERS).fetchall()), dict(self._sql(LIVE_COUNTERS).fetchall())
        values = {**live, "express": max(own["express"], live["express"]) + JUMP}
        for name in ("enqueued_at_ms", "noticed_at_ms"):
            values[name] = max(own[name], live[name])
        for name, value in values.items():
            self._sql(COUNTER_PUT, {"name": name, "value": value})

    def _keep_lanes(self) -> None:
        """Let every lane of the file keep its number; those of the backup that are in the way get new ones."""
        lanes: list[_Row] = self._sql(LANES_ALL).fetchall()
        live: list[_Row] = self._sql(LIVE_LANES).fetchall()
        numbers, placed, moved = _placed(lanes, live)
        if moved:
            self._sql("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
            self._raw.executemany("INSERT INTO temp.moved VALUES (?, ?)", moved)
            self._sql(MOVE_LANES)
            self._sql("DROP TABLE temp.moved")
        self._sql(LANES_DROP)
        self._raw.executemany(LANE_PUT, placed)
        self._raw.executemany(LANE_PUT, [(*lane[:5], 0, 0) for lane in live if lane[0] not in numbers])
        self._forget_lanes()

    def replace(self, live: SqliteStore, progress: Progress | None) -> None:
        """Put what is here in the place of what is in the file, for everybody, in one transaction."""
        with live.apart() as db:
            assert live.path is not None
            self.take_over(live.path)

            def told(done: int, total: int) -> None:
                if done == total:
                    return  # it is committed, and nothing may fail any more
                failpoint("mid_restore")
                if progress is not None:
                    progress(done, total)

            copy_pages(self._raw, db, told)
        live.announce({"work", "end"})


def restore_file(url: str, source: Path, *, clock: Clock, by: str = "", progress: Progress | None = None) -> Restored:
    """Make a store what a backup says it was, while other processes use it.

    Args:
        url: The store; made when its file does not exist.
        source: The backup, of this version or an older one, which is migrated on the way.
        clock: Where instants come from.
        by: Who does it, for the audit.
        progress: Is told how far the last step is, in the thread that calls.

    Raises:
        ConfigError: The store is in memory, or its URL is wrong.
        InvalidValue: The backup is no file, or is the store itself.
        StoreVersion: The backup or the store was written by a newer version.
        StoreBusy: Another program holds the store.
        StoreError: The backup is damaged or no backup, or the store cannot be written. Whatever is raised, the store is
            as it was.
    """
    path = path_of(url)
    if path is None:
        raise ConfigError("a store in memory cannot be restored into; open the backup itself: sqlite:///backup.db")
    path = path.absolute()
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist")
    source = source.absolute()
    if not source.is_file():
        raise InvalidValue(f"there is no backup at {source}")
    if path.exists() and source.samefile(path):
        raise InvalidValue(f"{source} is the store itself; name a backup of it")
    refuse_others(source)
    with writing(path.parent), tempfile.TemporaryDirectory(prefix=f".{path.name}.restore-", dir=path.parent) as folder:
        place = Path(folder) / "draft.db"
        header = header_of(path)
        _copy(source, place, page_size=None if header is None else header.page_size)
        return _restore(url, place, source, clock, by=by, progress=progress)


def _restore(url: str, place: Path, source: Path, clock: Clock, *, by: str, progress: Progress | None) -> Restored:
    now_ms = clock.now_ms()
    with closing(Draft(f"sqlite:///{place}", place, "normal")) as draft, translated(f"restore {source}"):
        migrated = draft.migrate(now_ms)
        draft.agree(None, None)
        given_back = draft.give_back(now_ms)
        jobs = sum(draft.counts().values())
        with closing(open_sqlite(url, clock=clock)) as live:
            assert live.folder is not None
            with _alone(live.folder):  # or two restores at a time would jump to the same numbers
                with live.transaction():
                    live.write_state()
                    numbers, replaced = live.sequences(), sum(live.counts().values())
                draft.jump(numbers, now_ms, by=by, what=source.name)
                draft.replace(live, progress)
    return Restored(jobs, given_back, replaced, tuple(migrated))


def _copy(source: Path, place: Path, *, page_size: int | None) -> None:
    """Copy a backup, after a look at it, to pages of the size that the store has: SQLite copies page by page."""
    address = f"file:{quote(str(source))}?mode=ro"
    with translated(f"read {source}"), closing(sqlite3.connect(address, uri=True, isolation_level=None)) as db:
        schema_of(db, source)
        integrity(db, source)
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(place, isolation_level=None)) as draft:
            draft.execute("PRAGMA synchronous=OFF")
            copy_pages(db, draft, None)
            if page_size not in {None, draft.execute("PRAGMA page_size").fetchone()[0]}:
                draft.execute("PRAGMA journal_mode=DELETE")
                draft.execute(f"PRAGMA page_size={page_size}")
                draft.execute("VACUUM")


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Let one restore at a time go on."""
    fd = opened(folder / "restore")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _released(seq: int, fence: int, started_ms: int, beat_ms: int) -> Settlement:
    return Settlement(seq=seq, fence=fence, kind="released", run_us=max(0, beat_ms - started_ms) * 1000)


def _placed(lanes: list[_Row], live: list[_Row]) -> tuple[set[int], list[_Row], list[tuple[int, int]]]:
    """Return the numbers that lanes of a backup get, the lanes with them, and the pairs that differ.

    A lane that both have gets the number that the file has for it; a number that the file uses for another lane is
    given up for a new one.
    """
    known = {tuple(lane[1:5]): int(lane[0]) for lane in live}
    taken = {int(lane[0]) for lane in live}
    last = max((int(lane[0]) for lane in lanes + live), default=0)
    placed: list[_Row] = []
    moved: list[tuple[int, int]] = []
    for old, *rest in lanes:
        new = known.get(tuple(rest[:4]))
        if new is None:
            new = int(old)
            if new in taken:
                new = last = last + 1
        placed.append((new, *rest))
        if new != old:
            moved.append((old, new))
    return {int(lane[0]) for lane in placed}, placed, moved
