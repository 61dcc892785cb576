"""No room on the disk: StoreFull, nothing half done, and it goes on without a restart when there is room. B39."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
    import os, sys, threading, time, resource
    from pathlib import Path
    from fairlane.app import Fairlane
    from fairlane.context import Context
    from fairlane.domain.retries import Retry
    from fairlane.errors import StoreFull

    folder = Path(sys.argv[1])
    limited, paged = sys.argv[2] == "limit", sys.argv[2] == "pages"
    ballast = folder / "ballast"
    app = Fairlane(f"sqlite:///{folder}/jobs.db")
    inside, go_on, runs = threading.Event(), threading.Event(), []

    @app.task(retry=Retry(base=0.0))
    def held(ctx: Context) -> str:
        runs.append(ctx.attempt)
        inside.set()
        assert go_on.wait(20)
        return "done"

    big = {"text": "x" * 40_000}

    def most_pages(more):
        "Let the database grow by so many pages and no further."
        def op(store, now_ms):
            (pages,) = store._raw.execute("PRAGMA page_count").fetchone()
            store._raw.execute(f"PRAGMA max_page_count={pages + more}")
        app.owner.call(op)

    def fill():
        "Take what is left, to the last byte."
        if limited or paged:
            return
        with ballast.open("ab", buffering=0) as file:
            for size in (65_536, 4_096, 512, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    stored = []
    stored.append(app.enqueue(held))
    worker = app.worker(concurrency=1, lease=30)
    worker.start()
    assert inside.wait(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    elif paged:
        most_pages(50)
    refused = 0
    for n in range(300):
        try:
            stored.append(app.enqueue("other", big))
        except StoreFull as error:
            refused += 1
            assert error.__cause__ is not None
            if refused == 1:
                fill()
            if refused == 5:
                break
    assert refused == 5, refused
    go_on.set()                                  # the handler ends while nothing can be written
    time.sleep(0.5)
    assert app.get(stored[0].id).state == "running" or app.get(stored[0].id).state == "completed"
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    elif paged:
        most_pages(10**6)
    else:
        ballast.unlink()
        os.truncate(folder / "spare", 0)
    assert stored[0].result(timeout=8) == "done"
    assert runs == [1], runs
    stored.append(app.enqueue("other", {}))
    worker.stop()
    assert app.owner.call(lambda store, now_ms: store.check()) == []
    assert {job.id for job in stored} == {job.id for job in app.jobs(limit=1000)}
    app.close()
    import sqlite3
    assert sqlite3.connect(folder / "jobs.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    print("well")
"""


def run(folder: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), how],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


@pytest.fixture
def small() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("a small file system cannot be mounted here")
    (folder / "spare").write_bytes(b"x" * 300_000)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()


def test_a_full_disk_refuses_and_recovers(small: Path):
    done = run(small, "disk")
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("\n") < 60, "it does not flood the log"


def test_a_file_that_may_not_grow_refuses_and_recovers(tmp_path: Path):
    done = run(tmp_path, "limit")
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("\n") < 60


def test_a_database_that_is_full_refuses_and_recovers(tmp_path: Path):
    done = run(tmp_path, "pages")
    assert done.stdout == "well\n", done.stderr
    assert done.stderr.count("\n") < 60
