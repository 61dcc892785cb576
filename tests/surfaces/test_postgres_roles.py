"""``deploy/postgres/roles.sql``: the application's role does everything that an application does, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Server

import fairlane as fl
from fairlane.stores._queries import query
from fairlane.stores.postgres.schema import migrate, schema_of
from fairlane.testing.clock import ManualClock

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]

ROOT = Path(__file__).parents[2]
ROLES = ROOT / "deploy" / "postgres" / "roles.sql"
QUERIES = ROOT / "src" / "fairlane" / "stores" / "postgres" / "queries"
OF_OWNER = {"migration_put", "migration_table"}
NO_PLAN = {"gate_lock", "job_copy"}
"""Statements that EXPLAIN does not take; the walk below runs them."""


def run_script(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(ROLES.read_text().encode())


@pytest.fixture
def roles(empty: str, postgres: Server) -> Iterator[dict[str, str]]:
    """The URLs of the owner and the application, after the steps that the script tells."""
    parts = conninfo_to_dict(empty)
    urls = {
        name: f"postgresql://fairlane_{name}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"
        for name in ("owner", "app")
    }
    run_script(empty)
    migrate(urls["owner"], ManualClock())
    run_script(empty)
    yield urls | {"admin": empty}
    postgres.drop(empty)
    for role in ("owner", "app"):
        postgres.run(f"DROP ROLE fairlane_{role}")


def rules(app: fl.Fairlane) -> None:
    """Set what can be set."""
    app.tenants["acme"].set(weight=2, max_running=3)
    app.queues["default"].set(max_running=20, max_waiting=1_000)
    app.limits["openai"].set(max_running=2, rate=10, per=60)
    app.tiers["high"].set(objective=5)
    app.tasks["work"].pause(reason="why")
    app.tasks["work"].resume()
    app.configure(express_capacity=30)
    app.tokens.create("ops", role="admin")


def life(app: fl.Fairlane, clock: ManualClock) -> None:
    """Do with jobs what can be done with them."""

    @app.task(retry=fl.Retry(max_attempts=2, base=1.0, jitter=0.0))
    def work(what: str) -> str:
        if what == "bad":
            raise ValueError(what)
        return what

    @app.every(60, name="tick")
    @app.task
    def tick() -> None: ...

    first = work.enqueue("one")
    app.enqueue_many(work.new(f"many {n}") for n in range(30))
    keyed = work.using(dedup_key="k", tenant="acme", tier="high").enqueue("two")
    assert not work.using(dedup_key="k").enqueue("two").created
    behind = work.using(after=[first]).enqueue("behind")
    bad = work.using(expedite=True).enqueue("bad")
    later = work.using(delay=500).enqueue("later")
    app.expedite(later, reason="now")
    app.boost(keyed, "critical")
    rules(app)
    claim = app.claim()
    assert claim is not None
    claim.heartbeat()
    claim.save({"next": 1})
    claim.nack("not yet", retry_in=0)
    for _ in range(3):
        app.run_worker(until_idle=True, signals=False)
        clock.advance(seconds=61)
        app.schedules.fire()
    assert first.refresh().state == behind.refresh().state == "completed"
    assert bad.refresh().state == "dead"
    (group,) = app.dead.groups()
    app.dead.replay(fingerprint=group.fingerprint)
    app.run_worker(until_idle=True, signals=False)
    app.cancel(work.using(delay=60).enqueue("never"))
    app.bulk("cancel", state="scheduled", task="work", reason="why")
    app.maintenance()
    app.monitor()
    app.rescue()
    app.explain(first.id)
    app.waits()
    app.inversions()
    clock.advance(seconds=40 * 86_400)
    app.owner.call(lambda store, now_ms: store.prune(now_ms, keep_ms=dict.fromkeys((3, 4, 5), 0), limit=500))  # type: ignore[dict-item]
    assert app.owner.read(lambda store, _: store.check()) == []


def test_the_application_lives_a_whole_life(roles: dict[str, str]) -> None:
    clock = ManualClock()
    with fl.Fairlane(roles["app"], clock=clock) as app:
        life(app, clock)


def numbered(sql: str) -> str:
    """Return a statement with its parameters as PostgreSQL itself writes them, $1 and so on."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${numbers.setdefault(found[1] or str(len(numbers)), len(numbers) + 1)}"

    return re.sub(r"%\((\w+)\)s|%s", number, sql).replace("%%", "%")


def test_every_statement_is_allowed_to_the_application(roles: dict[str, str]) -> None:
    """New queries and tables too: PostgreSQL checks rights when it plans to run a statement."""
    planned = 0
    with psycopg.connect(roles["app"], autocommit=True) as db:
        for file in sorted(QUERIES.glob("*.sql")):
            if file.stem in OF_OWNER | NO_PLAN or file.stem.startswith("part_"):
                continue
            try:
                db.execute(f"EXPLAIN (GENERIC_PLAN) {numbered(query('postgres', file.stem))}".encode())
                planned += 1
            except psycopg.errors.InsufficientPrivilege as error:
                raise AssertionError(f"{file.stem}: {error}") from error
            except (psycopg.errors.SyntaxError, psycopg.errors.IndeterminateDatatype, psycopg.errors.AmbiguousFunction):
                pass
    assert planned > 150


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE fairlane.mine (x int)",
        "CREATE TABLE public.mine (x int)",
        "CREATE SCHEMA mine",
        "ALTER TABLE fairlane.job ADD COLUMN mine int",
        "DROP TABLE fairlane.job",
        "DROP SCHEMA fairlane CASCADE",
        "TRUNCATE fairlane.job",
        "CREATE INDEX ON fairlane.job (lane)",
        "CREATE RULE r AS ON DELETE TO fairlane.job DO INSTEAD NOTHING",
        "INSERT INTO fairlane.migration VALUES (99, 'x', '', 0)",
        "DELETE FROM fairlane.migration",
        "UPDATE fairlane.audit SET by = 'nobody'",
        "DELETE FROM fairlane.audit",
        "SELECT * FROM fairlane.gate_keeper",
        "ALTER SEQUENCE fairlane.job_seq RESTART",
    ],
)
def test_more_is_refused(roles: dict[str, str], sql: str) -> None:
    with psycopg.connect(roles["app"]) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute(sql.encode())


def test_the_owner_makes_no_other_schema(roles: dict[str, str]) -> None:
    with psycopg.connect(roles["owner"]) as db, pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("CREATE SCHEMA other")


def test_the_application_cannot_migrate(roles: dict[str, str]) -> None:
    clock = ManualClock()
    with psycopg.connect(roles["admin"]) as db:
        db.execute("DROP SCHEMA fairlane CASCADE")
    with fl.Fairlane(roles["app"], clock=clock) as app:
        with pytest.raises(fl.StoreError, match="fairlane migrate"):
            app.enqueue("x")
        with pytest.raises(fl.StoreError, match="permission denied"):
            migrate(roles["app"], clock)


def test_tables_of_later_versions_are_usable_at_once(roles: dict[str, str]) -> None:
    with psycopg.connect(roles["owner"]) as db:
        db.execute("CREATE TABLE fairlane.later (id bigint GENERATED ALWAYS AS IDENTITY, x int)")
        db.execute("CREATE SEQUENCE fairlane.later_seq")
    with psycopg.connect(roles["app"]) as db:
        db.execute("INSERT INTO fairlane.later (x) SELECT nextval('fairlane.later_seq')")
        assert schema_of(roles["app"], ManualClock()).to_come == []
