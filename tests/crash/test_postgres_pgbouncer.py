"""PgBouncer and workers behind it die, and nothing accepted is lost; B50."""

from __future__ import annotations

import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from field import Field
from postgres_proxy import PORT, Proxy
from psycopg.conninfo import conninfo_to_dict
from tests.contract.postgres_pgbouncer import PgBouncer, needed
from tests.pg import Server, server

from fairlane.clock import SystemClock
from fairlane.domain.jobs import NewJob
from fairlane.stores.postgres.connection import lost
from fairlane.stores.postgres.store import open_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(150), needed]

TENANTS = ["a", "b", "c"]
PROCESSES = 4


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def bouncer(running: Server) -> Iterator[PgBouncer]:
    made = PgBouncer(running, PROCESSES)
    yield made
    made.close()


@pytest.fixture
def field(tmp_path: Path, running: Server, bouncer: PgBouncer) -> Iterator[Field]:
    direct = running.database()
    made = Field(tmp_path, url=bouncer.pooled(direct))
    yield made
    made.close()
    running.drop(direct)


def new() -> NewJob:
    return NewJob(id=uuid.uuid4().bytes, queue="mail", task="send")


def insisting(field: Field, count: int) -> object:
    return field.run(
        "insists", program="postgres_program.py", task="nap", count=count, args={"ms": 5}, tenants=TENANTS, pause_ms=5
    )


def until_more(field: Field, lines: int) -> None:
    wanted = len(field.lines()) + lines
    field.until(lambda: len(field.lines()) >= wanted, "work", 30)


def test_workers_behind_it_are_killed(field: Field) -> None:
    workers = [field.worker(concurrency=4, lease=2.0) for _ in range(3)]
    insisting(field, 300)
    for victim in (0, 1, 2):
        until_more(field, 30)
        field.kill9(workers[victim])
    field.worker(concurrency=16)
    field.until_done()
    assert len(field.accepted()) == 300
    assert set(field.accepted()) <= set(field.ends())
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_it_is_started_anew_under_running_workers(field: Field, bouncer: PgBouncer, how: signal.Signals) -> None:
    workers = [field.worker(concurrency=4, lease=5.0) for _ in range(2)]
    producer = insisting(field, 300)
    for _ in range(3):
        until_more(field, 30)
        bouncer.stop(how)
        bouncer.start()
    assert producer.wait(60) == 0  # type: ignore[attr-defined]  # a process
    field.until_done()
    assert all(worker.poll() is None for worker in workers)
    assert len(field.accepted()) >= 300
    assert set(field.accepted()) <= set(field.ends())
    field.audit()


@pytest.fixture
def proxy(running: Server) -> Iterator[Proxy]:
    parts = conninfo_to_dict(running.url)
    with tempfile.TemporaryDirectory(prefix="fairlane-proxy-") as folder:
        made = Proxy(str(parts["host"]), Path(folder), int(str(parts.get("port", 5432))))
        for path, mode in ((Path(folder), 0o755), (Path(folder, f".s.PGSQL.{PORT}"), 0o777)):
            path.chmod(mode)
        made.folder = Path(folder)  # type: ignore[attr-defined]  # ours
        yield made
        made.close()


@pytest.mark.parametrize("light", [True, False])
def test_a_commit_whose_answer_does_not_reach_it_is_told_as_it_was(running: Server, proxy: Proxy, light: bool) -> None:
    """The server commits; PgBouncer sees its connection end, and tells its client something of its own."""
    direct = running.database()
    bouncer = PgBouncer(running, PROCESSES, proxy.folder)  # type: ignore[attr-defined]  # ours
    store = open_postgres(bouncer.pooled(direct), clock=SystemClock())
    try:
        with store.transaction():  # which makes the lane
            store.enqueue([new()], SystemClock().now_ms())
        proxy.cut_next_commit()
        with store.transaction(light=light):
            store.enqueue([new()], SystemClock().now_ms())
        assert proxy.cut == 1
        assert sum(store.counts().values()) == 2
    finally:
        store.close()
        bouncer.close()
        running.drop(direct)


def test_its_own_word_for_a_server_that_is_gone_is_known(running: Server, proxy: Proxy) -> None:
    bouncer = PgBouncer(running, PROCESSES, proxy.folder)  # type: ignore[attr-defined]  # ours
    try:
        with psycopg.connect(bouncer.url_of("postgres"), autocommit=True, prepare_threshold=None) as db:
            db.execute("BEGIN")
            proxy.cut_next_commit()
            with pytest.raises(psycopg.OperationalError) as told:
                db.execute("COMMIT")
        assert told.value.sqlstate == "08P01"
        assert lost(told.value)
    finally:
        bouncer.close()
