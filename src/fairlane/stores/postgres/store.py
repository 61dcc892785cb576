"""The PostgreSQL store: opening it, migrating it, and what it does with whole sets of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairlane.clock import Clock
from fairlane.domain.lanes import Start
from fairlane.domain.policy import Capacities, Policy
from fairlane.domain.preempting import MAX_PREEMPTIONS, PREEMPT_AFTER_MS
from fairlane.errors import StoreError, StoreVersion
from fairlane.failpoints import failpoint
from fairlane.store import Look
from fairlane.stores._migrate import Migration, migrations
from fairlane.stores._mirror import RULE_NUMBERS
from fairlane.stores.postgres.base import Base
from fairlane.stores.postgres.connection import address_of, in_schema, translated
from fairlane.stores.postgres.lent import Lent
from fairlane.stores.postgres.life import LOST_S
from fairlane.stores.postgres.tail import PostgresFollower
from fairlane.stores.tables.access import Access
from fairlane.stores.tables.explaining import Explaining, Follower
from fairlane.stores.tables.ground import PROBE, SETTINGS, Db
from fairlane.stores.tables.looking import Looking
from fairlane.stores.tables.operating import Operating
from fairlane.stores.tables.preempting import Preempting
from fairlane.stores.tables.running import CLAIM
from fairlane.stores.tables.scheduling import Scheduling
from fairlane.stores.tables.watching import Watching
from fairlane.stores.tables.writing import JOB_INSERT

COPY_FROM: Final = 20
"""From so many new jobs on, COPY is cheaper than one INSERT each."""


class PostgresStore(Lent, Looking, Operating, Watching, Explaining, Preempting, Access, Scheduling, Base):
    """A schema of a PostgreSQL database. See the ``Store`` protocol."""

    def sibling(self) -> PostgresStore:
        """Return another connection to the same database for another thread."""
        return PostgresStore(self.url, self.address, self._clock)

    def follower(self, db: Db) -> Follower:
        """Return what follows the state on a connection that only reads."""
        return PostgresFollower(db)

    def plan(self) -> list[Migration]:
        """Return the migrations that are to come.

        Raises:
            StoreVersion: The schema was written by a newer version.
            StoreError: A migration that was run has been changed since.
        """
        known = migrations("postgres")
        with translated("look at the schema"):
            there = self._raw.execute("SELECT to_regclass(%s)", (f"{self.address.schema}.migration",)).fetchone()
            done = [] if there is None or there[0] is None else self._own.execute("migrations_done").fetchall()
        if len(done) > len(known):
            raise StoreVersion(
                f"schema {self.address.schema!r} has {len(done)} migrations, this version of fairlane knows "
                f"{len(known)}: use the version that wrote it"
            )
        for step, (number, name, checksum) in zip(known, done, strict=False):
            if (step.number, step.name, step.checksum) != (number, name, checksum):
                raise StoreError(f"migration {name} of schema {self.address.schema!r} is not the one of this version")
        return known[len(done) :]

    def migrate(self, now_ms: int) -> list[str]:
        """Bring the schema to this version; return the names of the migrations that were run.

        Raises:
            StoreVersion, StoreError: As for :meth:`plan`.
        """
        schema = self.address.schema
        with translated("migrate the schema"), self._raw.transaction():
            self._raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"fairlane:{schema}",))
            (there,) = self._raw.execute("SELECT to_regnamespace(%s) IS NOT NULL", (schema,)).fetchone() or (False,)
            if not there:  # asking costs no right to make one
                self._raw.execute(f"CREATE SCHEMA {schema}".encode())
            self._own.execute("migration_table")
            to_come = self.plan()
            for step in to_come:
                self._raw.execute(in_schema(step.sql, schema))
                failpoint("mid_migration")
                values = {"number": step.number, "name": step.name, "checksum": step.checksum, "now_ms": now_ms}
                self._own.execute("migration_put", values)
        return [step.name for step in to_come]

    def agree(self, policy: Policy | None, capacities: Capacities | None) -> None:
        """Write the settings of a new store, or see that an existing one has those that were asked for.

        Raises:
            ConfigError: The store was created with others.
        """
        with translated("read the settings"):
            if self._x(SETTINGS).fetchall():
                self._agree(policy, capacities)
                *_, of_another = self._x(PROBE).fetchone()
                if not of_another:  # so a store can be opened where nobody may write
                    return
        with self.transaction():
            self._agree(policy, capacities)

    def preempt(
        self,
        now_ms: int,
        *,
        after_ms: int = PREEMPT_AFTER_MS,
        max_preemptions: int = MAX_PREEMPTIONS,
        limit: int = 100,
    ) -> int:
        """Ask running jobs to give way, counting what stands in the inbox; see the protocol."""
        self._copy()
        return super().preempt(now_ms, after_ms=after_ms, max_preemptions=max_preemptions, limit=limit)

    def look(self, now_ms: int) -> Look:
        """Return what may be due, in one transaction; see the protocol."""
        with self.beside("look at what is due") as db:
            (row,) = db.execute("look", {"now_ms": now_ms, "most_s": LOST_S}).fetchall()
        preempt, operation_ms, schedule_ms, lapsed, lost, last, timer_ms = row
        version = None if last is None else (last, timer_ms)
        rescue = lapsed or (lost and self._lives.steady())
        return Look(rescue, preempt, operation_ms, schedule_ms, version)

    # ------------------------------------------------------------------ whole sets of rows

    def _put_jobs(self, rows: Sequence[tuple[Any, ...]]) -> None:  # Any: the database's own types
        """Write the rows of new jobs."""
        if len(rows) == 1:
            self._x(JOB_INSERT, rows[0])
            return
        if len(rows) < COPY_FROM:
            super()._put_jobs(rows)
            return
        with self._raw.cursor().copy(self._own.text("job_copy")) as copy:
            for row in rows:
                copy.write_row(row)

    def _take(
        self, starts: Sequence[Start], worker: str, lease_ms: int, now_ms: int
    ) -> list[tuple[Any, ...] | None]:  # Any: the database's own types
        """Write that these jobs run; return what their claims need, in order, None for one that is not available."""
        values = (
            self._least_fence,
            worker,
            now_ms,
            now_ms,
            now_ms + lease_ms,
            [start.place.seq for start in starts],
            [RULE_NUMBERS[start.rule] for start in starts],
            [start.expected_us for start in starts],
            [start.divided_by for start in starts],
        )
        self._deadline_ms = min(now_ms + lease_ms, self._deadline_ms or now_ms + lease_ms)
        found = {row[0]: row[1:] for row in self._x(CLAIM, values).fetchall()}
        return [found.get(start.place.seq) for start in starts]


def open_postgres(
    url: str,
    *,
    clock: Clock,
    policy: Policy | None = None,
    capacities: Capacities | None = None,
    migrate: bool = False,
) -> PostgresStore:
    """Open a store.

    Args:
        url: ``postgresql://…``; ``schema=`` names the schema (default ``fairlane``), ``pooled=yes`` says that a
            transaction pooler stands between.
        clock: Where instants come from when a migration is recorded.
        policy: The policy; None takes the store's own, or the default for a new store.
        capacities: The capacities; likewise.
        migrate: Whether the schema is brought to this version first.

    Raises:
        ConfigError: The URL is wrong, or the store was created with another policy or other capacities.
        StoreVersion: The schema is older or newer than this version.
        StoreError: The database cannot be reached, or refuses.
    """
    store = PostgresStore(url, address_of(url), clock)
    try:
        if migrate:
            store.migrate(clock.now_ms())
        elif to_come := store.plan():
            raise StoreVersion(
                f"schema {store.address.schema!r} lacks migrations ({len(to_come)}), from {to_come[0].name} on: "
                "run `fairlane migrate`"
            )
        store.agree(policy, capacities)
    except BaseException:
        store.close()
        raise
    return store
