"""Jobs in the transactions of Django, and of drivers that are only like others: psycopg2's, asyncpg's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg2
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.contract.transactional_rig import PostgresPlace, SqlitePlace
from tests.pg import Server, server

import fairlane as fl


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def place(running: Server) -> Iterator[PostgresPlace]:
    url = running.database()
    made = PostgresPlace(url)
    yield made
    made.close()
    running.drop(url)


def parts(url: str) -> dict[str, Any]:
    return {name: value for name, value in conninfo_to_dict(url).items() if name != "connect_timeout"}


# Django is one set of settings a process, so it has one of its own.
DJANGO = """
import sys
import django
from django.conf import settings
import fairlane as fl

engine, name, host, port, user, url = sys.argv[1:]
settings.configure(DATABASES={"default": {
    "ENGINE": engine, "NAME": name, "HOST": host, "PORT": port, "USER": user, "TEST": {}, "CONN_MAX_AGE": 0,
}}, USE_TZ=True)
django.setup()
from django.db import connection, connections, transaction

app = fl.Fairlane(url, durability="normal")
app.owner


class Undone(Exception):
    pass


with transaction.atomic():
    connection.cursor().execute("INSERT INTO mine VALUES (1)")
    first = app.enqueue("one", {"n": 1}, conn=connection)
    app.enqueue("one", {"n": 2}, conn=connections["default"], dedup_key="k")
    assert not app.enqueue("one", {"n": 3}, conn=connection, dedup_key="k").created
    try:
        with transaction.atomic():
            app.enqueue("one", {"n": 4}, conn=connection)
            raise Undone
    except Undone:
        pass
    assert sum(app.owner.read(lambda store, now_ms: store.counts()).values()) == 0
try:
    with transaction.atomic():
        connection.cursor().execute("INSERT INTO mine VALUES (5)")
        app.enqueue("one", {"n": 5}, conn=connection)
        raise Undone
except Undone:
    pass
try:
    app.enqueue("one", {"n": 6}, conn=connection)
except fl.InvalidValue as error:
    assert "no transaction is open" in str(error)
else:
    raise AssertionError
transaction.set_autocommit(False)
app.enqueue("one", {"n": 7}, conn=connection)
transaction.commit()
transaction.set_autocommit(True)
done = []
while (claim := app.claim()) is not None:
    done.append(claim.args["n"])
    claim.ack()
assert done == [1, 2, 7], done
app.close()
connection.close()
print("done")
"""


def django(*arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", DJANGO, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.stdout == "done\n", ended.stderr


def test_django_on_sqlite(tmp_path: Path):
    place = SqlitePlace(tmp_path)
    django("django.db.backends.sqlite3", str(place.path), "", "", "", place.url)
    assert place.mine() == [1]
    place.close()


@pytest.mark.postgres
def test_django_on_postgresql(place: PostgresPlace):
    where = parts(place.url)
    django(
        "django.db.backends.postgresql", where["dbname"], where["host"], where.get("port", ""), where["user"], place.url
    )
    assert place.mine() == [1]


@pytest.mark.postgres
@pytest.mark.parametrize("cursors", [False, True])
def test_psycopg2(place: PostgresPlace, cursors: bool):
    raw = psycopg2.connect(**parts(place.url))
    conn = raw.cursor() if cursors else raw
    place.app.enqueue("one", {"n": 1, "text": "100 % ünï \\ '"}, conn=conn)
    place.app.enqueue("one", {"n": 2}, conn=conn, dedup_key="k")
    assert not place.app.enqueue("one", {"n": 3}, conn=conn, dedup_key="k").created
    assert place.jobs() == 0
    raw.commit()
    place.app.enqueue("one", {"n": 4}, conn=conn)
    raw.rollback()
    raw.autocommit = True
    with pytest.raises(fl.InvalidValue, match="no transaction is open"):
        place.app.enqueue("one", {"n": 5}, conn=conn)
    raw.close()
    assert place.claim_all() == [1, 2]


class Unknown:
    """A connection that tells nothing of itself, as PEP 249 allows."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def cursor(self) -> Any:
        return self._raw.cursor()

    def commit(self) -> None:
        self._raw.commit()

    def rollback(self) -> None:
        self._raw.rollback()


@pytest.mark.postgres
def test_a_driver_that_tells_nothing(place: PostgresPlace):
    raw = psycopg2.connect(**parts(place.url))
    place.app.enqueue("one", {"n": 1}, conn=Unknown(raw))
    assert place.jobs() == 0
    raw.commit()
    raw.autocommit = True
    with pytest.raises(psycopg2.errors.NoActiveSqlTransaction):
        place.app.enqueue("one", {"n": 2}, conn=Unknown(raw))
    raw.close()
    assert place.claim_all() == [1]


@pytest.mark.postgres
def test_asyncpg(place: PostgresPlace):
    where = parts(place.url)

    async def go() -> None:
        pool = await asyncpg.create_pool(
            user=where["user"],
            database=where["dbname"],
            host=where["host"],
            port=where.get("port"),
            min_size=1,
            max_size=1,
        )
        async with pool.acquire() as conn:
            async with conn.transaction():
                await place.app.aenqueue("one", {"n": 1}, conn=conn)
                await place.app.aenqueue("one", {"n": 2}, conn=conn, dedup_key="k")
                assert not (await place.app.aenqueue("one", {"n": 3}, conn=conn, dedup_key="k")).created
                jobs = [place.app.new("one", {"n": 0}, dedup_key="k", on_conflict="raise")]
                with pytest.raises(fl.DedupConflict):
                    await place.app.aenqueue_many([place.app.new("one", {"n": 5}), *jobs], conn=conn)
                assert place.jobs() == 0
            with pytest.raises(fl.InvalidValue, match="no transaction is open"):
                await place.app.aenqueue("one", {"n": 6}, conn=conn)
            with pytest.raises(fl.InvalidValue, match="use aenqueue"):
                place.app.enqueue("one", {"n": 7}, conn=conn)
        await pool.close()

    asyncio.run(go())
    assert place.claim_all() == [1, 2]
