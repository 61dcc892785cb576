"""The SQLite store: opening it, migrating it."""

from __future__ import annotations

import sqlite3
from typing import Final

from fairlane.clock import Clock
from fairlane.domain.policy import Capacities, Policy
from fairlane.errors import ConfigError
from fairlane.failpoints import failpoint
from fairlane.stores._queries import query
from fairlane.stores.sqlite.connection import Durability, path_of, same_file, translated
from fairlane.stores.sqlite.inserting import Inserting
from fairlane.stores.sqlite.lent import Lent
from fairlane.stores.sqlite.versions import APPLICATION_ID, refuse_others, schema_of
from fairlane.stores.tables.access import Access
from fairlane.stores.tables.explaining import Explaining
from fairlane.stores.tables.ground import SETTINGS
from fairlane.stores.tables.looking import Looking
from fairlane.stores.tables.operating import Operating
from fairlane.stores.tables.preempting import Preempting
from fairlane.stores.tables.scheduling import Scheduling
from fairlane.stores.tables.watching import Watching

MIGRATION_PUT: Final = query("sqlite", "migration_put")
MIGRATION_TABLE: Final = query("sqlite", "migration_table")


class SqliteStore(Inserting, Looking, Operating, Watching, Explaining, Preempting, Access, Scheduling, Lent):
    """One SQLite file, or a private database in memory. See the ``Store`` protocol."""

    def sibling(self) -> SqliteStore | None:
        """Return another connection to the same file for another thread; a store in memory has but one."""
        if self.path is None:
            return None
        same_file(self.path, self._file)
        other = SqliteStore(self.url, self.path, self._durability, self._clock, new=False)
        other._version = self._version
        return other

    def migrate(self, now_ms: int) -> list[str]:
        """Bring the file to the schema of this version; return the names of the migrations that were run.

        Raises:
            StoreVersion: The file was written by a newer version.
            StoreError: The file is another program's, or a migration that was run has been changed since.
        """
        what = self.url if self.path is None else self.path
        with self.still:
            done, to_come = schema_of(self._raw, what)
        if not to_come:  # nothing to write: the caller's own transaction may have the lock for that
            self._version = len(done)
            return []
        with self.transaction():
            done, to_come = schema_of(self._raw, what)
            self._sql(MIGRATION_TABLE)
            for step in to_come:
                for statement in _statements(step.sql):
                    self._sql(statement)
                failpoint("mid_migration")
                self._sql(
                    MIGRATION_PUT,
                    {"number": step.number, "name": step.name, "checksum": step.checksum, "now_ms": now_ms},
                )
            known = len(done) + len(to_come)
            if to_come:
                self._sql(f"PRAGMA application_id={APPLICATION_ID}")
                self._sql(f"PRAGMA user_version={known}")
        self._version = known
        return [step.name for step in to_come]

    def agree(self, policy: Policy | None, capacities: Capacities | None) -> None:
        """Write the settings of a new store, or see that an existing one has those that were asked for.

        Raises:
            ConfigError: The store was created with others.
        """
        with self.still:
            if self._x(SETTINGS).fetchall():  # as above
                self._ready = True
                self._agree(policy, capacities)
                return
        with self.transaction():
            if self._steps is not None:
                self._steps.look(self._raw)
            self._ready = True
            self._agree(policy, capacities)


def _statements(sql: str) -> list[str]:
    """Return the statements of a script; ``executescript`` would end our transaction."""
    statements: list[str] = []
    part = ""
    for line in sql.splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            statements.append(part.strip())
            part = ""
    return statements


def open_sqlite(
    url: str,
    *,
    clock: Clock,
    policy: Policy | None = None,
    capacities: Capacities | None = None,
    durability: Durability = "full",
) -> SqliteStore:
    """Open a store, making and migrating it as needed.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, or ``sqlite://`` for a private one in memory.
        clock: Asked in every transaction whether it was set, and when a migration is recorded.
        policy: The policy; None takes the store's own, or the default for a new store.
        capacities: The capacities; likewise.
        durability: ``"full"`` flushes every commit to the disk; ``"normal"`` may lose the last ones on a power cut.

    Raises:
        ConfigError: The URL is wrong, or the store was created with another policy or other capacities.
        StoreVersion: The file was written by a newer version.
        StoreError: The file cannot be opened or is another program's.
    """
    path = path_of(url)
    if path is not None:
        path = path.absolute()
        if not path.parent.is_dir():
            raise ConfigError(f"the folder {path.parent} does not exist")
        refuse_others(path)
    with translated(f"open {url}"):
        store = SqliteStore(url, path, durability, clock)
        try:
            store.migrate(clock.now_ms())
            store.agree(policy, capacities)
        except BaseException:
            store.close()
            raise
    return store
