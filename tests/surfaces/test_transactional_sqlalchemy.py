"""Jobs in the transactions of SQLAlchemy: sessions and connections, blocking and awaited, on drivers of both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from tests.contract.transactional_rig import LONG_S, Place, PostgresPlace, SqlitePlace
from tests.pg import Server, server

import fairlane as fl

BLOCKING = ["sqlite", *(pytest.param(name, marks=pytest.mark.postgres) for name in ("psycopg", "psycopg2"))]
AWAITED = ["aiosqlite", *(pytest.param(name, marks=pytest.mark.postgres) for name in ("psycopg", "asyncpg"))]


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server(max_prepared_transactions="5") as one:
        yield one


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(request: pytest.FixtureRequest, driver: str, tmp_path: Path) -> Iterator[Place]:
    if "sqlite" in driver:
        made: Place = SqlitePlace(tmp_path)
        yield made
        made.close()
        return
    running: Server = request.getfixturevalue("running")
    url = running.database()
    made = PostgresPlace(url)
    yield made
    made.close()
    running.drop(url)


def address(place: Place, driver: str) -> Any:
    if isinstance(place, SqlitePlace):
        return f"sqlite{'' if driver == 'sqlite' else f'+{driver}'}:///{place.path}"
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(place.url)
    return sa.URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]),
        database=str(parts["dbname"]),
        query={"host": str(parts["host"]), **({"port": str(parts["port"])} if "port" in parts else {})},
    )


@pytest.fixture
def engine(place: Place, driver: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(address(place, driver), poolclass=NullPool)
    yield made
    made.dispose()


def add_one(place: Place) -> Any:
    @place.app.task
    def one(n: int) -> int:
        return n

    return one


PUT = sa.text("INSERT INTO mine VALUES (:n)")


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_a_session(place: Place, engine: sa.Engine):
    one = add_one(place)
    with Session(engine) as session:
        first = one.using(conn=session).enqueue(1)
        session.execute(PUT, {"n": 1})
        one.using(conn=session, dedup_key="k").enqueue(2)
        again = one.using(conn=session, dedup_key="k").enqueue(3)
        place.app.enqueue_many([one.new(4), one.new(5)], conn=session)
        with session.begin_nested() as nested:
            one.using(conn=session).enqueue(6)
            nested.rollback()
        assert place.jobs() == 0
        session.commit()
    assert first.created
    assert not again.created
    with Session(engine) as session:
        one.using(conn=session).enqueue(7)
        session.execute(PUT, {"n": 7})
        session.rollback()
    assert place.claim_all() == [1, 2, 4, 5]
    assert place.mine() == [1]


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_a_scoped_session(place: Place, engine: sa.Engine):
    one = add_one(place)
    registry = scoped_session(sessionmaker(engine))
    one.using(conn=registry).enqueue(1)
    assert place.jobs() == 0
    registry.commit()
    registry.remove()
    assert place.claim_all() == [1]


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_a_connection(place: Place, engine: sa.Engine):
    one = add_one(place)
    with engine.begin() as conn:
        conn.execute(PUT, {"n": 1})
        one.using(conn=conn).enqueue(1)
        assert place.jobs() == 0
    with engine.connect() as conn:  # it has no transaction yet, and must know of ours
        one.using(conn=conn).enqueue(2)
        conn.commit()
        one.using(conn=conn).enqueue(3)
        conn.rollback()
        one.using(conn=conn).enqueue(4)
    assert place.claim_all() == [1, 2]


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_without_a_transaction_nothing_is_stored(place: Place, driver: str):
    one = add_one(place)
    engine = sa.create_engine(address(place, driver), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as conn, pytest.raises(fl.InvalidValue, match="no transaction is open"):
        one.using(conn=conn).enqueue(1)
    engine.dispose()
    assert place.jobs() == 0


@pytest.mark.parametrize("driver", BLOCKING[1:], indirect=True)
def test_a_commit_in_two_phases(place: Place, engine: sa.Engine):
    one = add_one(place)
    with engine.connect() as conn:
        transaction = conn.begin_twophase()
        one.using(conn=conn).enqueue(1)
        transaction.prepare()
        assert place.jobs() == 0
        transaction.commit()
    with Session(engine, twophase=True) as session:
        one.using(conn=session).enqueue(2)
        session.commit()
    assert place.claim_all() == [1, 2]


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_what_is_no_connection_yet_is_refused(place: Place, engine: sa.Engine):
    one = add_one(place)
    for conn in (engine, sessionmaker(engine)):
        with pytest.raises(fl.InvalidValue, match="conn must be an open connection"):
            one.using(conn=conn).enqueue(1)


@pytest.mark.parametrize("driver", ["sqlite"], indirect=True)
def test_a_database_of_another_kind_is_refused(place: Place):
    one = add_one(place)

    class Elsewhere:
        name = "mysql"

    session = Session()
    session.get_bind = lambda *_, **__: type("Bind", (), {"dialect": Elsewhere})  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(fl.InvalidValue, match="conn is a connection to mysql"):
        one.using(conn=session).enqueue(1)


@pytest.mark.parametrize("driver", AWAITED, indirect=True)
def test_an_asynchronous_session(place: Place, driver: str):
    one = add_one(place)

    async def go() -> None:
        engine = create_async_engine(address(place, driver), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await session.execute(PUT, {"n": 1})
            first = await one.using(conn=session).aenqueue(1)
            await one.using(conn=session, dedup_key="k").aenqueue(2)
            again = await one.using(conn=session, dedup_key="k").aenqueue(3)
            with pytest.raises(fl.DedupConflict):
                await place.app.aenqueue_many(
                    [one.new(8), one.using(dedup_key="k", on_conflict="raise").new(9)], conn=session
                )
            await place.app.aenqueue_many([one.new(n) for n in range(10, 310)], conn=session)
            assert place.jobs() == 0
            with pytest.raises(fl.InvalidValue, match="use aenqueue"):
                one.using(conn=session).enqueue(5)
            await session.commit()
            assert first.created
            assert not again.created
            await one.using(conn=session).aenqueue(6)
            await session.rollback()
        maker = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        await one.using(conn=maker).aenqueue(7)
        await maker.commit()
        await maker.remove()
        await engine.dispose()

    asyncio.run(go())
    assert place.claim_all() == [1, 2, *range(10, 310), 7]
    assert place.mine() == [1]


@pytest.mark.parametrize("driver", AWAITED, indirect=True)
def test_an_asynchronous_connection(place: Place, driver: str):
    one = add_one(place)

    async def go() -> None:
        engine = create_async_engine(address(place, driver), poolclass=NullPool)
        async with engine.connect() as conn:
            assert isinstance(conn, AsyncConnection)
            await one.using(conn=conn).aenqueue(1)
            await conn.commit()
            await one.using(conn=conn).aenqueue(2)
            await conn.rollback()
        loose = await engine.connect()
        await loose.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(fl.InvalidValue, match="no transaction is open"):
            await one.using(conn=loose).aenqueue(3)
        await loose.close()
        await engine.dispose()

    asyncio.run(go())
    assert place.claim_all() == [1]


@pytest.mark.parametrize("driver", BLOCKING, indirect=True)
def test_a_handler_uses_its_transaction_with_sqlalchemy(place: Place, driver: str):
    """The connection that ``ctx.transaction()`` gives is the driver's own: an engine can be put in front of it."""
    if driver == "psycopg2":
        pytest.skip("the connection is psycopg's")

    @place.app.task
    def pay(ctx: fl.Context, n: int) -> None:
        with ctx.transaction(result=n) as raw:
            place.put(raw, n)
            place.app.enqueue("later", {"n": n}, conn=raw)

    with place.app.worker():
        assert pay.enqueue(3).result(timeout=LONG_S) == 3
    assert place.claim_all() == [3]
