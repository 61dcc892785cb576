"""What a PostgreSQL server says of itself: for ``doctor``, which looks before a store is opened."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairlane.stores._queries import query
from fairlane.stores.postgres.connection import address_of, connect, translated

SERVER_FACTS: Final = query("postgres", "server_facts").encode()


class ServerFacts(NamedTuple):
    """A server, as the role that asks sees it.

    Attributes:
        version: Its version, for people.
        number: Its version as a number: 130004 is 13.4.
        encoding: What texts of the database are stored in.
        flushes: Whether it flushes what was committed, and survives the loss of power.
        commits: Its ``synchronous_commit``: what a commit waits for.
        read_only: Whether it takes no changes: it follows another server, or is set so.
        connections: How many connections it takes.
        connected: How many there are.
        role: Who asks.
    """

    version: str
    number: int
    encoding: str
    flushes: bool
    commits: str
    read_only: bool
    connections: int
    connected: int
    role: str


def server_facts(url: str) -> ServerFacts:
    """Return what the server of a URL says of itself.

    Raises:
        StoreError: It cannot be reached, or refuses.
    """
    with translated("ask the server about itself"), connect(address_of(url)) as raw:
        row = raw.execute(SERVER_FACTS).fetchone()
        assert row is not None
        # Texts come as bytes from a database that says nothing of their encoding: what doctor is to find out.
        told: list[Any] = [value.decode() if isinstance(value, bytes) else value for value in row]  # Any: as they come
        return ServerFacts(*told)
