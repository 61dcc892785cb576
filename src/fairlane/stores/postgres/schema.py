"""Which migrations a schema has, which are to come, and running them: for who migrates, and opens no store."""

from __future__ import annotations

import os
import re
from uuid import uuid4

from fairlane.clock import Clock
from fairlane.stores._migrate import Standing, migrations
from fairlane.stores.postgres.connection import address_of, connect, in_schema, translated
from fairlane.stores.postgres.store import PostgresStore


def schema_of(url: str, clock: Clock) -> Standing:
    """Return how far the schema of a URL is, with the SQL to come as it would be run there; changes nothing.

    Raises:
        StoreVersion: It was written by a newer version.
        StoreError: The database cannot be reached, or a migration that was run has been changed since.
    """
    address = address_of(url)
    store = PostgresStore(url, address, clock)
    try:
        to_come = store.plan()
    finally:
        store.close()
    known = migrations("postgres")
    return Standing(
        [step.name for step in known[: len(known) - len(to_come)]],
        [step._replace(sql=in_schema(step.sql, address.schema).decode()) for step in to_come],
    )


def migrate(url: str, clock: Clock) -> list[str]:
    """Make the schema of a URL if need be, and bring it to this version; return the migrations that were run.

    Raises:
        StoreVersion: It was written by a newer version.
        StoreError: The database cannot be reached, or refuses.
    """
    store = PostgresStore(url, address_of(url), clock)
    try:
        return store.migrate(clock.now_ms())
    finally:
        store.close()


def scratch(url: str, name: str, clock: Clock) -> str:
    """Make a schema that nobody else uses, and return the URL that names it; :func:`drop` is its end.

    Args:
        url: The database; the schema that it names is left alone.
        name: What the schema's name begins with.
        clock: Where instants come from.

    Raises:
        StoreError: The database cannot be reached, or our role may not make schemas there.
    """
    before, question, options = url.partition("?")
    rest = [option for option in options.split("&") if question and not re.match(r"schema(=|$)", option)]
    made = f"{before}?{'&'.join([*rest, f'schema=fairlane_{name}_{os.getpid()}_{uuid4().hex[:8]}'])}"
    migrate(made, clock)
    return made


def drop(url: str) -> None:
    """Drop the schema of a URL with everything in it; it need not be there.

    Raises:
        StoreError: The database cannot be reached, or refuses.
    """
    address = address_of(url)
    with translated("drop a schema"), connect(address) as raw:
        raw.execute(f"DROP SCHEMA IF EXISTS {address.schema} CASCADE".encode())
