"""The command line on a PostgreSQL database: every command that needs a store, and no password in what they say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.pg import Server, server, set_clock

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

import fairlane as fl_
from fairlane.cli.main import COMMANDS
from fairlane.stores._migrate import migrations
from fairlane.stores.postgres.schema import migrate

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(90)]

SECRET = "s3same"


class PgCli(Cli):
    """The command line on a database."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, options="-c search_path=fairlane") as db:
            return db.execute(sql.encode()).fetchall()


def no_settings(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in os.environ:
        if name.startswith("FAIRLANE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: str) -> PgCli:
    """The command line on a database without a schema."""
    no_settings(monkeypatch, tmp_path)
    return PgCli(tmp_path, empty)


@pytest.fixture
def fl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str) -> PgCli:
    """The command line on a store."""
    no_settings(monkeypatch, tmp_path)
    return PgCli(tmp_path, database)


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as db:
        found = db.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'f%' ORDER BY 1").fetchall()
        return [name for (name,) in found]


# ---------------------------------------------------------------- migrate


def test_migrate_makes_the_schema(new):
    assert "run `fairlane migrate`" in new("enqueue", "x", code=1).stderr
    assert "run `fairlane migrate`" in new("stats", code=1).stderr
    told = new.json("migrate", "--check", code=3)
    assert told["done"] == []
    names = told["pending"]
    assert names[0] == "0001_initial.sql"
    assert schemas(new.url) == [], "--check changes nothing"
    assert new("migrate").stdout.split() == names
    assert schemas(new.url) == ["fairlane"]
    assert new.json("migrate", "--check") == {"url": new.url, "done": names, "pending": []}
    assert new("migrate").stdout == f"up to date: {len(names)} of {len(names)} migrations\n"
    assert new("migrate", "--plan").stdout == ""
    new("enqueue", "x")
    assert new.states() == {"available": 1}


def test_a_plan_is_the_sql_for_the_schema_asked_for(new):
    new.url += "&schema=jobs"
    plan = new("migrate", "--plan").stdout
    assert plan.startswith("-- 0001_initial.sql\n")
    assert "CREATE TABLE jobs.job (" in plan
    assert "fairlane." not in plan
    assert new.json("migrate", "--plan")["sql"]["0001_initial.sql"] in plan
    assert schemas(new.url.partition("&schema")[0]) == []
    with psycopg.connect(new.url.partition("&schema")[0]) as db:
        db.execute("CREATE SCHEMA jobs")
        db.execute(plan.encode())  # it is whole


def test_a_schema_of_a_newer_version_is_refused(fl):
    with psycopg.connect(fl.url) as db:
        db.execute("INSERT INTO fairlane.migration VALUES (99, '0099_more.sql', '', 0)")
    for line in (("migrate",), ("migrate", "--check"), ("stats",)):
        assert "use the version that wrote it" in fl(*line, code=1).stderr


def test_two_who_migrate_at_once_do_it_once(new):
    both = [new.start("migrate", "--json") for _ in range(2)]
    told = [json.loads(process.communicate(timeout=30)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert new.rows("SELECT count(*) FROM migration") == [(len(told[0]["done"]) + len(told[0]["run"]),)]


# ---------------------------------------------------------------- every command


def test_jobs_and_workers(fl):
    ids = [fl.process("enqueue", "send", '{"to": "a@b.c"}', "--app", "tasksapp:app", "--tenant", "acme")[0].strip()]
    ids += [fl("enqueue", task, "--delay", delay).stdout.strip() for task, delay in (("boom", 0), ("later", 600))]
    fl.process("worker", "tasksapp:app", "--burst", "-c", "4")
    assert [fl.json("jobs", "show", job)["state"] for job in ids] == ["completed", "dead", "scheduled"]
    assert fl.json("jobs", "wait", ids[0])["result"] == "sent to a@b.c"
    assert "it is due in" in fl("jobs", "explain", ids[2]).stdout
    fl("jobs", "boost", ids[2], "--to", "high")
    fl("jobs", "expedite", ids[2], "--reason", "now")
    assert fl.json("jobs", "show", ids[2])["express"]
    fl("jobs", "cancel", ids[2])
    (group,) = fl.json("dead", "groups")["groups"]
    assert len(fl.json("dead", "show", group["fingerprint"])["jobs"]) == 1
    fl("dead", "replay", group["fingerprint"])
    assert len(fl.json("operations", "list")["operations"]) == 1
    fl("jobs", "cancel", "--task", "boom", "--yes")
    assert fl.states() == {"completed": 1, "cancelled": 2}


def test_several_worker_processes(fl):
    with fl.app() as app:
        app.enqueue_many(app.new("work", {"n": n}) for n in range(40))
    fl.process("worker", "tasksapp:app", "--burst", "-p", "2", "-c", "4")
    assert fl.states() == {"completed": 40}


def test_rules_schedules_and_settings(fl):
    for line in (
        ("tenants", "set", "acme", "--weight", "3"), ("tenants", "pause", "acme", "--reason", "why"),
        ("tenants", "resume", "acme"), ("queues", "set", "mail", "--max-running", "2"),
        ("tasks", "pause", "work", "--reason", "why"), ("tasks", "resume", "work"),
        ("tiers", "set", "high", "--objective", "5"), ("limits", "set", "openai", "--max-running", "3"),
        ("configure", "--policy", "fair", "--ageing-step", "30"), ("token", "create", "ops", "--role", "admin"),
    ):  # fmt: skip
        fl(*line)
    assert fl.json("tenants", "list")["tenants"]["acme"]["weight"] == 3
    assert fl.json("queues", "list")["queues"]["mail"]["max_running"] == 2
    assert fl.json("limits", "list")["limits"]["openai"]["max_running"] == 3
    assert fl.json("configure")["ageing_step"] == 30
    assert [token["name"] for token in fl.json("token", "list")["tokens"]] == ["ops"]
    with fl.app() as app:

        @app.every(3600, name="tick")
        @app.task
        def work(n: int = 0) -> int: ...

        app.run_worker(until_idle=True, signals=False)
    assert fl.json("schedules", "list")["schedules"][0]["name"] == "tick"
    fl("schedules", "run", "tick")
    fl("schedules", "pause", "tick")
    fl("schedules", "resume", "tick")


def test_watching(fl):
    with fl.app() as app:
        app.enqueue("x", tenant="acme")
        with app.worker(queues=["mail"], name="w"):
            told = fl.json("stats", "--waits", "--inversions")
            assert told["counts"]["available"] == 1
            assert [worker["alive"] for worker in told["workers"]] == [True]
            well = fl.json("health", code=3)
            assert (well["workers"], well["url"]) == (1, fl.url)
            assert "no live worker" in well["problems"][0]
    assert "acme" in fl("stats", "--watch", "--every", "0.1", "--times", "2").stdout
    assert fl.json("monitor", "--once")["incidents"] == []
    assert fl.json("alerts", "test")["sinks"]


def test_a_worker_that_is_gone_is_told_from_one_that_lives(fl, monkeypatch):
    monkeypatch.setattr("fairlane.maintenance.rescue", lambda *args, **kwargs: 0)  # it forgets who is gone
    with fl.app() as app, app.worker(name="here"):
        with psycopg.connect(fl.url) as db:
            db.execute(
                "INSERT INTO fairlane.worker SELECT 'gone', pool, queues, tasks, slots, host, pid, started_at_ms,"
                " queue_slots FROM fairlane.worker"
            )
        assert {worker["id"][:4]: worker["alive"] for worker in fl.json("stats")["workers"]} == {
            "here": True,
            "gone": False,
        }
        assert fl.json("health")["workers"] == 1
        assert fl.json("doctor", code=3)["store"]["workers_gone"] == 1


def test_what_needs_a_file_says_so(fl):
    for line in (("backup", "x.db"), ("restore", "tasksapp.py"), ("restore", "tasksapp.py", "--yes")):
        stderr = fl(*line, code=1).stderr
        assert "is for stores in SQLite files" in stderr
        assert "pg_dump" in stderr
    assert not (fl.folder / "x.db").exists()


def test_every_command_was_tried():
    """A new command is to be tried here, on PostgreSQL, or has no store."""
    tried = set(Path(__file__).read_text().split('"'))
    elsewhere = {"server", "dev"}  # test_postgres_http.py
    without = {"init", "simulate", "sample-trace", "bench", "export-openapi", "version"}
    assert set(COMMANDS) - tried - elsewhere - without == set()


# ---------------------------------------------------------------- doctor


def findings(told: dict[str, Any], level: str) -> str:
    return "\n".join(one["what"] for one in told["findings"] if one["level"] == level)


def test_the_doctor_looks_at_the_server(fl):
    told = fl.json("doctor", code=3)
    assert "when the server's machine loses power" in findings(told, "wrong"), "the tests' server does not flush"
    assert told["store"]["schema"] == "fairlane"
    assert told["store"]["encoding"] == "UTF8"
    assert "sqlite_options" not in told
    assert set(told["versions"]) == {"fairlane", "python", "sqlite", "system", "psycopg", "libpq"}
    assert "synchronous_commit" in fl("doctor", code=3).stdout
    name = fl.url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(fl.url, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    assert "takes no changes" in findings(fl.json("doctor", code=3), "wrong")


def test_the_doctor_is_content_with_a_good_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    no_settings(monkeypatch, tmp_path)
    with server(fsync="on", full_page_writes="on", max_connections="23") as one:
        fl = PgCli(tmp_path, one.database())
        told = fl.json("doctor")
        assert told["findings"] == []
        assert told["well"]
        with ExitStack() as others:
            for _ in range(15):
                others.enter_context(psycopg.connect(fl.url))
            told = fl.json("doctor")
            assert "of the server's 20 connections are taken" in findings(told, "note")
        one.run("ALTER SYSTEM SET synchronous_commit = 'off'")
        one.run("SELECT pg_reload_conf()")
        assert "synchronous_commit" in findings(fl.json("doctor", code=3), "wrong")
        (tmp_path / "fairlane.toml").write_text('durability = "normal"\n')
        assert fl.json("doctor")["well"]


def test_the_doctor_tells_of_a_database_that_cannot_hold_every_text(new, postgres: Server):
    name = "ascii_" + new.url.partition("?")[0].rpartition("/")[2]
    postgres.run(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    new.url = postgres.url_of(name)
    try:
        assert "stores texts as SQL_ASCII" in findings(new.json("doctor", code=3), "wrong")
    finally:
        postgres.drop(new.url)


def test_the_doctor_tells_of_clocks_that_differ(fl):
    set_clock(fl.url, 3600)
    told = fl.json("doctor", code=3)
    assert 3590 < told["store"]["clock_ahead_s"] < 3610
    assert "behind the server's, whose time counts" in findings(told, "note")


def test_the_doctor_tells_what_keeps_it_from_looking(new):
    assert f"{len(migrations('postgres'))} migrations are to come" in findings(new.json("doctor", code=3), "note")
    new.url = "postgresql://me:s3same@127.0.0.1:1/jobs"
    told = new.json("doctor", code=3)
    assert "could not connect to the database" in findings(told, "wrong")
    assert SECRET not in json.dumps(told)


# ---------------------------------------------------------------- passwords


@pytest.fixture
def guarded(new, postgres: Server) -> Iterator[str]:
    """A database's URL, as a role that must give a password, with ``{}`` in its place."""
    (hba,) = postgres.run("SHOW hba_file")[0]
    before = Path(hba).read_text()
    Path(hba).write_text("local all guarded scram-sha-256\n" + before)
    postgres.run("SELECT pg_reload_conf()")
    postgres.run("DROP ROLE IF EXISTS guarded")
    postgres.run(f"CREATE ROLE guarded LOGIN SUPERUSER PASSWORD '{SECRET}'")
    parts = conninfo_to_dict(new.url)
    yield f"postgresql://guarded:{{}}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"
    Path(hba).write_text(before)
    postgres.run("SELECT pg_reload_conf()")


def test_no_command_shows_a_password(new, guarded):
    new.url = guarded.format(SECRET)
    shown = 0
    for line in (
        ("stats",), ("migrate", "--check"), ("migrate", "--plan"), ("migrate", "--json"), ("health",), ("doctor",),
        ("health", "--json"), ("doctor", "--json"), ("alerts", "test"), ("backup", "x.db"), ("restore", "tasksapp.py"),
    ):  # fmt: skip
        out, err = new.start(*line).communicate(timeout=30)
        assert SECRET not in out + err, line
        shown += "guarded:***@" in out + err
    assert shown == 8
    with fl_.Fairlane(new.url) as app:
        assert SECRET not in repr(app) + repr(app.owner.store.facts())


def test_no_error_shows_a_password(new, guarded, caplog: pytest.LogCaptureFixture):
    """Those of psycopg neither: it is refused, or nobody is there."""
    for url in (
        guarded.format("wr0ng" + SECRET),
        guarded.format(SECRET).replace("/test_", "/nosuch_"),
        f"postgresql://me:{SECRET}@127.0.0.1:1/jobs",
        f"postgresql://me:{SECRET}@nobody.invalid/jobs?password={SECRET}",
    ):
        new.url = url
        for line in (("stats",), ("migrate",), ("enqueue", "x"), ("worker", "tasksapp:app")):
            out, err = new.process(*line, code=1)
            assert "Traceback" not in err
            assert "could not" in err
            assert SECRET not in out + err
        with caplog.at_level("DEBUG"), pytest.raises(fl_.StoreError) as refused, fl_.Fairlane(url) as app:
            app.depth()
        causes = [str(error) for error in (refused.value, refused.value.__cause__, refused.value.__context__)]
        assert SECRET not in str(causes) + caplog.text


# ---------------------------------------------------------------- schemas


def test_two_schemas_of_a_database_do_not_see_each_other(new):
    urls = [f"{new.url}&schema={name}" for name in ("one", "two")]
    for url in urls:
        with fl_.Fairlane(url) as app:
            migrate(url, app.clock)
    assert schemas(new.url) == []
    with fl_.Fairlane(urls[0]) as one, fl_.Fairlane(urls[1], policy="strict") as two:
        ran: list[str] = []
        for app, name in ((one, "one"), (two, "two")):

            @app.task(name="work")
            def work(name: str = name) -> None:
                ran.append(name)

        first = one.enqueue("work", tenant="acme", dedup_key="k")
        assert two.enqueue("work", dedup_key="k").created
        assert len(one.jobs()) == len(two.jobs()) == 1
        with pytest.raises(fl_.JobNotFound):
            two.get(first.id)
        one.tenants["acme"].pause(reason="why")
        one.queues["mail"].set(max_running=1)
        one.tokens.create("ops", role="admin")
        assert (two.tokens.list(), list(two.owner.read(lambda store, _: store.rules("queue")))) == ([], [])
        heard: list[object] = []
        two.owner.listen(heard.append)
        with one.worker():
            assert fl_.Fairlane(urls[1]).url == urls[1]
            two.run_worker(until_idle=True, signals=False)
            assert two.owner.read(lambda store, _: store.workers()) == []
        assert ran == ["two"], "the other's is paused, and nobody else's"
        heard.clear()
        one.tenants["acme"].resume()
        one.run_worker(until_idle=True, signals=False)
        assert ran == ["two", "one"]
        assert heard == []


# ---------------------------------------------------------------- shows


def test_a_demo_leaves_nothing_in_the_database(new):
    process = new.start("demo", "--jobs", "120", "--seconds", "3", "--no-server", "--json", "--url", new.url)
    told = json.loads(process.communicate(timeout=80)[0])
    assert (told["completed"], told["lost"], told["killed_workers"]) == (120, 0, 1)
    assert schemas(new.url) == []


def test_a_replay_runs_in_the_database(new):
    new("sample-trace", "trace.csv", "--jobs", "60", "--slots", "2", "--seconds", "60", url=False)
    process = new.start("replay", "trace.csv", "--speed", "1000", "--slots", "8", "-p", "2", "--json", "--url", new.url)
    assert json.loads(process.communicate(timeout=80)[0])["jobs"] == 60
    assert schemas(new.url) == []


def test_a_demo_is_shown_in_a_database_or_in_a_file_of_its_own(new):
    assert "is no PostgreSQL database" in new("demo", "--url", "sqlite:///x.db", code=1, url=False).stderr
    assert "could not connect" in new("demo", "--url", "postgresql://127.0.0.1:1/x", code=1, url=False).stderr
