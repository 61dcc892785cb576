"""Jobs in a caller's own transaction, and connections for handlers that end their job in one.

What is done on a caller's connection is a **script**: a generator that yields what is to be done there and is sent what
came of it. It neither knows the driver nor whether it is awaited; see ``fairlane.borrowed`` for those who do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from fairlane.domain.jobs import Enqueued, NewJob, Settlement
from fairlane.domain.phases import Verification

T = TypeVar("T")

Database = Literal["postgresql", "sqlite"]
"""What kind of database a store or a connection is of."""


class Say(NamedTuple):
    """A statement to run on the caller's connection; its rows are the answer.

    Attributes:
        sql: The statement; one ``%s`` in it stands for the text, and no other ``%`` is in it.
        text: Its parameter, or None: it has none, and gives no rows.
    """

    sql: str
    text: str | None = None


class Do(NamedTuple):
    """Something to do with the caller's SQLite connection, in the thread that it belongs to; what it returns is the
    answer.
    """  # noqa: D205

    do: Callable[[Link], object]


Ask = Say | Do
Script = Generator[Ask, Any, T]  # Any: the answer to each ask, of its own type


class Link(Protocol):
    """A SQLite connection, as far as a script needs it."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    @property
    def autocommit(self) -> bool:
        """Whether every statement is a transaction of its own unless one was begun by hand."""
        ...

    def execute(self, sql: str, values: Any = ()) -> Any:  # Any: a mapping or a sequence; a cursor of whatever driver
        """Run a statement; rows are plain tuples, texts are text."""
        ...

    def executemany(self, sql: str, rows: Any) -> object:  # Any: likewise
        """Run a statement for each of the rows."""
        ...


class Declares(Protocol):
    """Takes what the code says about tasks."""

    def declare_task(
        self,
        name: str,
        *,
        limits: tuple[str, ...],
        max_attempts: int,
        max_crashes: int,
        now_ms: int,
        preemptible: bool = False,
        verify: Verification | None = None,
    ) -> None:
        """Record what the code says about a task."""
        ...


class StoredWith(NamedTuple):
    """What became of jobs in a caller's transaction.

    Attributes:
        answers: For each job, in order.
        declared: Whether what the code says about their tasks is on record, whatever becomes of the transaction.
    """

    answers: list[Enqueued]
    declared: bool


class Loan(Protocol):
    """A connection of the store's database that one handler uses for one transaction.

    :meth:`begin`, then :meth:`settle` or :meth:`undo`, each once; or the three that are awaited.
    """

    def begin(self) -> Any:  # Any: a connection of the driver's own type
        """Begin a transaction and return the connection.

        Raises:
            StoreBusy: Others hold what it needs too long.
            StoreError: The database cannot be reached, or refuses.
        """
        ...

    def settle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """End a claim with success in the transaction and commit it; return False when the lease was lost.

        Then, and when an error is raised, all of the transaction is rolled back. The database's own errors about what
        the handler has written are raised as they are.

        Args:
            settlement: How the claim ends; ``completed``.
            progress: What the run said last about how far it is, as JSON; None leaves what is stored.
            now_ms: The instant.

        Raises:
            FateUnknown: The connection ended with the commit, and nobody can tell whether it was carried out.
            StoreError: The database could not do it.
        """
        ...

    def undo(self) -> None:
        """Roll the transaction back; raises nothing."""
        ...

    async def abegin(self) -> Any:  # Any: as for begin
        """Do what :meth:`begin` does, without blocking the event loop."""
        ...

    async def asettle(self, settlement: Settlement, *, progress: str | None, now_ms: int) -> bool:
        """Do what :meth:`settle` does, without blocking the event loop."""
        ...

    async def aundo(self) -> None:
        """Do what :meth:`undo` does, without blocking the event loop."""
        ...


class Lending(Protocol):
    """What callers' transactions and handlers' transactions need; from any thread, beside the owner's."""

    database: Database

    def enqueue_with(
        self, jobs: Sequence[NewJob], now_ms: int, *, declare: Callable[[Declares], None] | None, ring: bool
    ) -> Script[StoredWith]:
        """Return the script that stores jobs in a caller's own transaction; see :meth:`Jobs.enqueue`.

        Atomic: with whatever else is done in that transaction; a job is there when it commits, and not before.
        Concurrent: nobody else waits for it; but on SQLite every writer does, and for a dedup key those who want the
        same one. Durable: as the caller's commit.

        Args:
            jobs: The jobs.
            now_ms: The instant.
            declare: Tells what the code says about their tasks; None when that is known.
            ring: Whether workers may be told at the commit; not in a transaction that is to be prepared.

        Raises:
            InvalidValue: The connection is to another database, or no transaction is open on it.
            InvalidJob: A job needs what only a transaction of the store's own can do; the message says what.
            ConfigError: The caller's commit would be less safe than the store promises.
            DedupConflict, ExpressFull, JobNotFound, QueueFull, StoreError: As for :meth:`Jobs.enqueue`.
        """
        ...

    def lend(self) -> Loan:
        """Return a connection for a handler's transaction."""
        ...
