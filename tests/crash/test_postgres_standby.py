"""A standby that follows a server: who only looks can use it, and it takes over when it is promoted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from starlette.testclient import TestClient
from tests.pg import Server, pg_ctl, program, run_as_owner, server, until

import fairlane as fl
from fairlane.clock import SystemClock
from fairlane.http.app import create_app
from fairlane.http.options import HttpOptions
from fairlane.stores.postgres.connection import address_of
from fairlane.stores.postgres.store import PostgresStore, open_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.crash, pytest.mark.timeout(120)]

PORT = 5433


class Pair(NamedTuple):
    """A server and its standby.

    Attributes:
        primary: The server.
        data: The standby's folder, where its socket is too.
    """

    primary: Server
    data: Path

    def standby(self, url: str) -> str:
        """Return the URL of the same database on the standby, once it has everything."""
        made = f"postgresql://postgres@/{conninfo_to_dict(url)['dbname']}?host={self.data}&port={PORT}"
        ((here,),) = self.primary.run("SELECT pg_current_wal_lsn()::text")
        with psycopg.connect(f"postgresql://postgres@/postgres?host={self.data}&port={PORT}", autocommit=True) as db:
            until(
                lambda: db.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (here,)).fetchone() == (True,),
                "what the server wrote",
            )
        return made


@contextmanager
def paired() -> Iterator[Pair]:
    if not program("pg_basebackup").exists():
        pytest.skip("this server comes without pg_basebackup")
    with server() as primary:
        parts = conninfo_to_dict(primary.url)
        ((data,),) = primary.run("SHOW data_directory")
        folder = Path(tempfile.mkdtemp(prefix="fairlane-pg-"))
        if os.geteuid() == 0:
            shutil.chown(folder, Path(data).owner())
        standby = folder / "data"
        where = ("-h", str(parts["host"]), "-p", str(parts.get("port", 5432)), "-U", "postgres")
        run_as_owner(folder, program("pg_basebackup"), *where, "-D", standby, "-R", "-X", "stream", "-c", "fast")
        pg_ctl(standby, "-o", f"-h '' -p {PORT} -k '{standby}'", "-l", str(standby / "log"), "start")
        try:
            yield Pair(primary, standby)
        finally:
            pg_ctl(standby, "-m", "immediate", "stop")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with paired() as made:
        yield made


@pytest.fixture
def pair_to_promote() -> Iterator[Pair]:
    with paired() as made:
        yield made


def test_who_only_looks_can_use_a_standby(pair: Pair) -> None:
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        job = app.enqueue("send", tenant="acme")
        standby = pair.standby(url)
        with fl.Fairlane(standby) as other:
            assert other.get(job.id).state == "available"
            assert other.explain(job.id).state.label == "available"
            assert [row.available for row in other.owner.read(lambda store, now_ms: store.depth(now_ms))] == [1]
            assert other.owner.read(lambda store, _: store.check()) == []
            with pytest.raises(fl.StoreError, match=r"recovery|read-only"):
                other.enqueue("send")
            late = app.enqueue("send")  # the standby follows
            pair.standby(url)
            assert other.get(late.id).state == "available"


def test_commands_that_look_work_on_a_standby(pair: Pair) -> None:
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        job = app.enqueue("send", tenant="acme")
    standby = pair.standby(url)
    for command in (("jobs", "list"), ("jobs", "show", str(job.id)), ("jobs", "explain", str(job.id)), ("stats",)):
        ended = subprocess.run(
            [sys.executable, "-m", "fairlane", *command, "--url", standby], capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, ""), command


def test_an_api_and_a_dashboard_on_a_standby(pair: Pair) -> None:
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        job = app.enqueue("send", tenant="acme")
        token = app.tokens.create("looks", role="admin")
    with fl.Fairlane(pair.standby(url)) as app:
        web = create_app(app, options=HttpOptions(maintenance=False))
        with TestClient(web, headers={"authorization": f"Bearer {token.token}"}, base_url="http://127.0.0.1") as client:
            for path in ("/v1/stats/depth", "/v1/stats/waits", "/v1/jobs", "/v1/workers", f"/v1/jobs/{job.id}/explain"):
                assert client.get(path).status_code == 200, path
            for path in ("/", "/jobs", f"/jobs/{job.id}", "/queues", "/metrics"):
                assert client.get(path).status_code == 200, path
            assert client.post("/v1/jobs", json={"task": "send"}).status_code >= 500


def test_a_server_on_a_standby_looks_at_it(pair: Pair) -> None:
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        job = app.enqueue("send", tenant="acme")
        token = app.tokens.create("looks", role="viewer")
        app.schedule("nightly", "send", cron="30 2 * * *")
        command = [sys.executable, "-m", "fairlane", "server", "--port", "0", "--no-maintenance", "--url"]
        with subprocess.Popen(
            [*command, pair.standby(url)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                where = process.stdout.readline().partition(": ")[2].strip()
                assert where.startswith("http://127.0.0.1:")

                def ask(path: str) -> bytes:
                    request = urllib.request.Request(where + path, headers={"authorization": f"Bearer {token.token}"})
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        body: bytes = answer.read()
                        return body

                for path in ("readyz", "", "jobs", "metrics"):
                    ask(path)
                assert json.loads(ask(f"v1/jobs/{job.id}"))["state"] == "available"
                app.cancel(job.id)
                pair.standby(url)
                assert json.loads(ask(f"v1/jobs/{job.id}"))["state"] == "cancelled"
            finally:
                process.terminate()
                said = process.communicate()[1]
        assert process.returncode == 0
        assert "_failed" not in said, "it made no pass of maintenance"


def test_a_store_on_a_standby_goes_on_when_it_is_promoted(pair_to_promote: Pair) -> None:
    pair = pair_to_promote
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        jobs = [app.enqueue("send", {"n": n}) for n in range(3)]
        first = app.claim()
        assert first is not None
        standby = pair.standby(url)
        with fl.Fairlane(standby) as other:
            assert other.get(jobs[0].id).state == "running"
            pg_ctl(pair.data, "promote")
            second = other.claim()
            assert second is not None
            assert second.job.id == jobs[1].id
            assert second.fence >= first.fence + 2**32
            second.ack()
            assert other.owner.read(lambda store, _: store.check()) == []


@pytest.mark.parametrize("tenant", ["known", "new"])
def test_callers_transactions_go_on_when_the_address_leads_to_another_server(pair: Pair, tenant: str) -> None:
    url = pair.primary.database()
    with fl.Fairlane(url) as app:
        app.enqueue("send", tenant="known")
    with fl.Fairlane(pair.standby(url)) as app, psycopg.connect(url) as conn:
        with pytest.raises(fl.FairlaneError, match=r"another database|read-only"):
            app.enqueue("send", tenant=tenant, conn=conn)
        store = app.owner.store
        assert isinstance(store, PostgresStore)
        assert store._beside is not None
        store._beside.address = address_of(url)  # what its name leads to from here on
        assert app.enqueue("send", tenant=tenant, conn=conn).created


def test_a_new_store_cannot_be_begun_while_nothing_may_be_written(pair: Pair) -> None:
    url = pair.primary.database()
    standby = pair.standby(url)
    with pytest.raises(fl.StoreError, match=r"recovery|read-only"):
        open_postgres(standby, clock=SystemClock())
