"""Commands about the store as a whole: rules, stats, configure, health, doctor, migrate, bench, version."""

import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

import fairlane as fl_
from fairlane.bench import FIGURES
from fairlane.cli.doctor import file_system
from fairlane.settings import SETTINGS

STATES = ("scheduled", "available", "running", "completed", "dead", "cancelled")
TIERS = ("critical", "high", "normal", "low", "background")


@pytest.fixture
def fl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in os.environ:
        if name.startswith("FAIRLANE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    made = Cli(tmp_path)
    with made.app() as app:
        app.depth()  # the first use makes the store
    return made


@pytest.fixture
def store(fl: Cli) -> Cli:
    with fl.app() as app:
        app.enqueue("x", tenant="acme", queue="mail")
    return fl


# ---------------------------------------------------------------- stats


def test_stats_equal_the_rows(fl):
    """T-C12: every figure is the number of rows, jobs in all six states, express ones too."""
    fl.die("a", "b")
    with fl.app() as app:
        app.enqueue_many(app.new("x", tenant=f"t{n % 7}", queue=f"q{n % 3}", tier=n % 5) for n in range(200))
        app.enqueue_many(app.new("x", tenant=f"t{n % 2}", delay=60) for n in range(11))
        app.enqueue("x", tenant="t1", expedite=True)
        app.claim_many(17)
        for _ in range(3):
            app.claim().ack(1)
        app.clear(tenant="t6")
        told = fl.json("stats")
    assert told["counts"] == {name: fl.states().get(name, 0) for name in STATES}
    assert min(told["counts"].values()) > 0, "every state is there"
    rows = fl.rows(
        "SELECT tier, queue, tenant, sum(state = 0), sum(state = 1), sum(state = 2),"
        " min(CASE WHEN state = 1 THEN arrival_ms END)"
        " FROM job JOIN lane ON lane.id = job.lane WHERE state <= 2 GROUP BY tier, queue, tenant ORDER BY 1, 2, 3"
    )
    shown = [
        (TIERS.index(row["tier"]), row["queue"], row["tenant"], row["scheduled"], row["available"], row["running"])
        for row in told["depth"]
    ]
    assert shown == [row[:6] for row in rows]
    for row, (*_, oldest_ms) in zip(told["depth"], rows, strict=True):
        assert (row["oldest_at"] is None) == (oldest_ms is None)
        assert (row["oldest_wait_s"] is None) == (oldest_ms is None)
    for name in STATES[:3]:
        assert sum(row[name] for row in told["depth"]) == told["counts"][name]
    by_task = fl.json("stats", "--by", "task")["depth"]
    assert [(row["task"], row["scheduled"] + row["available"] + row["running"]) for row in by_task] == [
        ("x", sum(told["counts"][name] for name in STATES[:3]))
    ]


def test_stats_in_plain_columns(store):
    with store.app() as app, app.worker(name="mine", queues=["mail"], concurrency=3):
        shown = store("stats").stdout
    assert "scheduled  available  running  completed  dead  cancelled" in shown
    assert "normal  mail   acme            0          1        0" in shown
    assert "mine-" in shown
    assert "yes" in shown
    assert "Workers: none" in store("stats").stdout


def test_stats_again_and_again(store):
    lines = store("stats", "--watch", "--every", "0.05", "--times", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["counts"]["available"] for line in lines] == [1, 1, 1]
    assert store("stats", "--watch", "--every", "0.05", "--times", "2").stdout.count("Jobs at ") == 2


def test_stats_live_on_a_terminal(store, monkeypatch):
    import rich.live

    from fairlane.cli import stats

    drawn = []

    class Live:
        def __init__(self, first, **options):
            drawn.append(first)

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            pass

        def update(self, picture, *, refresh):
            drawn.append(picture)

    monkeypatch.setattr(rich.live, "Live", Live)
    monkeypatch.setattr(stats, "on_terminal", lambda: True)
    store("stats", "--watch", "--every", "0.05", "--times", "3")
    assert len(drawn) == 3
    assert "acme" in store("stats").stdout, "once, by rich"


# ---------------------------------------------------------------- rules


def test_tenants(store):
    told = store.json("tenants", "set", "acme", "--weight", "2.5", "--max-running", 10, "--rate", 100, "--per", 60)
    assert told == {
        "kind": "tenant", "name": "acme", "max_running": 10, "max_waiting": None, "weight": 2.5, "rate": 100,
        "per": 60.0, "burst": 10, "pause": None,
    }  # fmt: skip
    store("tenants", "set", "acme", "--max-running", "none", "--max-waiting", 0)
    listed = store.json("tenants", "list")["tenants"]
    assert listed["acme"] == {
        "max_running": None, "max_waiting": 0, "weight": 2.5, "rate": 100, "per": 60.0, "burst": 10, "pause": None,
        "scheduled": 0, "available": 1, "running": 0,
    }  # fmt: skip
    assert "current: 1, maximum: 0" in store("enqueue", "x", "--tenant", "acme", code=1).stderr
    assert "acme" in store("tenants", "list").stdout


def test_queues(store):
    told = store.json("queues", "set", "mail", "--max-running", 5, "--tenant-max-running", 2, "--pool", "slow")
    assert (told["max_running"], told["tenant_max_running"], told["pool"]) == (5, 2, "slow")
    assert store.json("queues", "list")["queues"]["mail"]["available"] == 1


def test_limits_and_tasks(store):
    assert store.json("limits", "set", "smtp:{tenant}", "--max-running", 1)["max_running"] == 1
    assert list(store.json("limits", "list")["limits"]) == ["smtp:{tenant}"]
    assert store.json("tasks", "list")["tasks"]["x"]["available"] == 1
    assert "No such command 'set'" in store("tasks", "set", "x", code=2).stderr


@pytest.mark.parametrize("kind", ["tenants", "queues", "tasks", "limits"])
def test_pause_and_resume(store, kind):
    name = {"tenants": "acme", "queues": "mail", "tasks": "x", "limits": "openai"}[kind]
    told = store.json(kind, "pause", name, "--reason", "down", "--for", 600)
    assert told["pause"]["reason"] == "down"
    assert told["pause"]["by"].startswith("cli:")
    assert told["pause"]["until"] is not None
    with store.app() as app:
        assert (app.claim() is None) == (kind != "limits")
        assert "down" in store(kind, "list").stdout
        assert store.json(kind, "resume", name)["pause"] is None
        if kind != "limits":
            assert app.claim() is not None


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("tenants", "set", "acme"), 2, "nothing to set: give at least one of --weight, --max-running"),
        (("tenants", "set", "acme", "--weight", "0"), 1, "weight is 0.0; it must be at least 0.001"),
        (("tenants", "set", "acme", "--max-running", "few"), 2, "'few' is neither a whole number nor none"),
        (("queues", "set", "q", "--max-running", "-1"), 1, "max_running is -1; it must be from 0"),
        (("limits", "set", "l", "--per", "5"), 1, "there is no rate; give rate too"),
        (("tenants", "pause", "acme", "--for", "0"), 2, "0.0 is not in the range 0<x<="),
        (("tenants", "pause", "", "--reason", "x"), 1, "tenant is empty"),
    ],
)
def test_rules_refuse_with_figures(store, line, code, words):
    assert words in store(*line, code=code).stderr.replace("\n", " ")
    assert store.rows("SELECT * FROM rule") == []


# ---------------------------------------------------------------- configure


def test_configure_shows_and_changes(store):
    assert store.json("configure") == {
        "policy": "fair", "ageing_step": 60.0, "ageing_ceiling": "high", "charge": "time", "risen_every": 8,
        "urgent_share": 0.25, "max_lag": 600.0, "express_capacity": 20, "express_per_tenant": 5,
    }  # fmt: skip
    told = store.json("configure", "--ageing-step", 30, "--risen-every", 4, "--express-capacity", 7)
    assert (told["policy"], told["ageing_step"], told["risen_every"], told["express_capacity"]) == ("fair", 30.0, 4, 7)
    assert store.json("configure", "--max-lag", 60)["ageing_step"] == 30.0, "what is not named stays"
    assert store.json("configure", "--policy", "strict")["ageing_ceiling"] == "critical"
    with fl_.Fairlane(store.url, policy="strict") as app:
        app.depth()
    assert "policy" in store("configure").stdout


def test_configure_gets_in_where_settings_disagree(store):
    """Whoever wrote the new policy into the settings must be able to give it to the store."""
    (store.folder / "fairlane.toml").write_text('policy = "strict"\n')
    assert "leave it out, or change it with configure" in store("enqueue", "x", code=1).stderr
    wrong = [one["what"] for one in store.json("doctor", code=3)["findings"] if one["level"] == "wrong"]
    assert len(wrong) == 1
    assert "settings here ask for the policy" in wrong[0]
    store("stats")
    store("configure", "--policy", "strict")
    store("enqueue", "x")
    assert store.json("doctor")["well"] is True


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("--policy", "best"), 2, "'best' is not one of 'fair', 'strict', 'fifo'"),
        (("--ageing-step", "0"), 1, "ageing_step is 0"),
        (("--urgent-share", "2"), 1, "urgent_share is 2.0; it must be above 0 and at most 1"),
        (("--express-capacity", "0"), 1, "express_capacity is 0; it must be from 1"),
        (("--policy", "strict", "--max-lag", "5"), 1, "max_lag says nothing under policy strict"),
        (("--policy", "fifo", "--ageing-step", "5"), 1, "ageing_step says nothing under policy fifo"),
    ],
)
def test_configure_refuses(store, line, code, words):
    before = store.json("configure")
    assert words in store("configure", *line, code=code).stderr.replace("\n", " ")
    assert store.json("configure") == before


# ---------------------------------------------------------------- health


def test_an_idle_store_is_healthy(fl):
    assert fl.json("health") == {
        "healthy": True, "problems": [], "url": fl.url, "workers": 0, "slots": 0, "scheduled": 0, "available": 0,
        "running": 0, "sinks": [],
    }  # fmt: skip
    assert fl("health").stdout.startswith("healthy\n")


def test_jobs_that_nobody_runs_are_unhealthy(store):
    told = store.json("health", code=3)
    assert told["problems"] == ["1 available jobs of task 'x' in queue 'mail', and no live worker that runs them"]
    assert "unhealthy\n- 1 available" in store("health", code=3).stdout
    with store.app() as app:

        @app.task
        def y() -> None: ...

        with app.worker():
            assert store.json("health", code=3)["workers"] == 1, "it does not know the task"


def test_a_worker_that_serves_them_makes_it_healthy(store):
    with store.app() as app:
        app.task(name="x")(lambda: None)
        app.queues["mail"].pause()
        with app.worker(queues=["other"]):
            store("health", code=3)
        with app.worker():
            assert store.json("health")["slots"] == 8


def test_a_lease_that_lapsed_is_unhealthy(store):
    with store.app() as app:
        app.claim(lease=0.1)
        app.owner.call(lambda st, now_ms: st._raw.execute("UPDATE job SET timer_ms = timer_ms - 60000").rowcount)
    (problem,) = store.json("health", code=3)["problems"]
    assert problem.startswith("1 running jobs whose lease lapsed, the first ")


def test_a_lost_worker_is_unhealthy_until_it_is_rescued(store):
    from fairlane.domain.jobs import WorkerRecord
    from fairlane.domain.lanes import Ask

    record = WorkerRecord(id="gone", pool="default", queues=None, slots=1)
    with store.app() as app:
        app.owner.call(lambda st, now_ms: st.register(record, now_ms))
        app.owner.call(lambda st, now_ms: st.claim(Ask("default", 1), worker="gone", lease_ms=60_000, now_ms=now_ms))
        store("health")  # there is time to take it back
        app.owner.call(
            lambda st, now_ms: st._raw.execute("UPDATE job SET started_at_ms = started_at_ms - 60000").rowcount
        )
        assert store.json("health", code=3)["problems"] == ["1 running jobs of workers that are gone"]
        assert store.json("stats")["workers"][0]["alive"] is False
        assert any("1 workers on record" in one["what"] for one in store.json("doctor")["findings"])
        assert app.rescue() == 1
    assert store.json("health", code=3)["running"] == 0


# ---------------------------------------------------------------- doctor


def test_doctor_tells_settings_with_their_origin(store, monkeypatch):
    monkeypatch.setenv("FAIRLANE_LEASE", "12")
    monkeypatch.setenv("FAIRLANE_LEESE", "12")
    told = store.json("doctor")
    settings = {one["name"]: one for one in told["settings"]}
    assert set(settings) == {setting.name for setting in SETTINGS}
    assert (settings["lease"]["value"], settings["lease"]["source"]) == (12.0, "FAIRLANE_LEASE")
    assert settings["url"]["source"] == "argument"
    assert {"level": "note", "what": "FAIRLANE_LEESE is set in the environment and is no setting"} in told["findings"]
    assert told["versions"]["sqlite"] == sqlite3.sqlite_version
    assert any(option.startswith("THREADSAFE") for option in told["sqlite_options"])
    assert told["store"]["journal_mode"] == "wal"
    assert told["configured"]["policy"] == "fair"
    shown = store("doctor").stdout
    assert "FAIRLANE_LEASE" in shown
    assert shown.endswith("all is well\n")


def test_doctor_finds_wrong_books(store):
    db = sqlite3.connect(store.file)
    db.execute("UPDATE lane SET available = 5")
    db.commit()
    db.close()
    told = store.json("doctor", code=3)
    assert [one["level"] for one in told["findings"]] == ["wrong"]
    assert "a lane's count of available jobs is wrong" in told["findings"][0]["what"]
    assert store("doctor", code=3).stdout.endswith("something is wrong\n")


def test_doctor_finds_leftovers_and_leaves_them(store):
    folder = store.folder / "jobs.db.fairlane"
    (folder / "old.alive").touch()
    os.mkfifo(folder / "old.bell")
    (note,) = store.json("doctor")["findings"]
    assert note["level"] == "note"
    assert "2 files that ended processes left" in note["what"]
    assert "old.alive, old.bell" in note["what"]
    assert (folder / "old.alive").exists()
    assert (folder / "old.bell").exists()
    with store.app() as app, app.worker():
        (note,) = store.json("doctor")["findings"]
        assert " left in " in note["what"]
        assert "old.alive" in note["what"]
        names = {path.name for path in folder.iterdir()} - {"old.alive", "old.bell", "gate"}
        assert len(names) == 2, "the worker's own two"
        assert not any(name in note["what"] for name in names), "a live worker's files are no leftovers"


def test_doctor_knows_network_file_systems(store, monkeypatch):
    mounts = "/dev/x / ext4 rw 0 0\nsrv:/home /home nfs4 rw 0 0\ntmpfs /home/my\\040disk tmpfs rw 0 0\n"
    assert file_system(Path("/var/x.db"), mounts) == "ext4"
    assert file_system(Path("/home/me/x.db"), mounts) == "nfs4"
    assert file_system(Path("/homes/me/x.db"), mounts) == "ext4"
    assert file_system(Path("/home/my disk/x.db"), mounts) == "tmpfs"
    from fairlane.cli import doctor

    monkeypatch.setattr(doctor, "file_system", lambda path: "nfs4")
    assert "network file system (nfs4)" in store("doctor", code=3).stdout


def test_doctor_with_a_damaged_file(fl):
    fl.file.write_bytes(b"not a database" * 500)
    told = fl.json("doctor", code=3)
    assert "file is not a database" in told["findings"][-1]["what"]


# ---------------------------------------------------------------- migrate


def test_migrate_when_there_is_nothing_to_do(store):
    from fairlane.stores._migrate import migrations

    assert store("migrate", "--check").stdout.startswith("up to date: ")
    assert store("migrate", "--plan").stdout == ""
    names = [step.name for step in migrations("sqlite")]
    assert store.json("migrate") == {"url": store.url, "done": names, "run": []}
    assert "not both" in store("migrate", "--check", "--plan", code=2).stderr


def test_migrate_what_is_to_come(store, monkeypatch):
    from fairlane.stores._migrate import Migration, migrations

    number = len(migrations("sqlite")) + 1
    more = Migration(number, f"{number:04}_more.sql", "CREATE TABLE more (x);\n", "f00")
    further = [*migrations("sqlite"), more]
    monkeypatch.setattr("fairlane.stores.sqlite.versions.migrations", lambda _: further)
    before = store.file.read_bytes()
    assert store("migrate", "--plan").stdout == f"-- {more.name}\nCREATE TABLE more (x);\n"
    assert store.json("migrate", "--plan")["sql"] == {more.name: more.sql}
    assert store.json("migrate", "--check", code=3)["pending"] == [more.name]
    assert "run `fairlane migrate`" in store("migrate", "--check", code=3).stderr
    assert "1 migrations are to come" in store("doctor").stdout, "which does not open it"
    assert store.file.read_bytes() == before
    assert store.json("migrate")["run"] == [more.name]
    assert store.rows("SELECT count(*) FROM more") == [(0,)]
    assert store.json("migrate", "--check")["pending"] == []


def test_a_store_of_a_newer_version_is_refused(store):
    db = sqlite3.connect(store.file)
    db.execute("INSERT INTO migration SELECT max(number) + 1, 'later.sql', 'x', 0 FROM migration")
    db.commit()
    db.close()
    for line in (("stats",), ("migrate",), ("migrate", "--check"), ("backup", store.folder / "x.bak")):
        assert store.json(*line, code=1)["error"]["type"] == "StoreVersion"
    store("doctor", code=3)
    assert not (store.folder / "x.bak").exists()


# ---------------------------------------------------------------- backup, restore


def test_backup_and_restore(store):
    store("enqueue", "mail", '{"to": "a"}')
    jobs = sum(store.states().values())
    saved = store.folder / "saved.bak"
    assert store.json("backup", saved) == {
        "url": store.url, "file": str(saved), "bytes": saved.stat().st_size, "jobs": jobs,
    }  # fmt: skip
    store("enqueue", "mail", '{"to": "b"}')
    assert "exists" in store("backup", saved, code=1).stderr
    assert store.json("backup", store.folder / "other.bak")["jobs"] == jobs + 1
    assert f"{jobs + 1:,} jobs would be replaced" in store("restore", saved).stdout
    assert store.json("restore", saved) == {"url": store.url, "would_replace": jobs + 1, "restored": False}
    assert sum(store.states().values()) == jobs + 1, "nothing has changed without --yes"
    told = store.json("restore", saved, "--yes")
    assert told == {
        "url": store.url, "restored": True, "jobs": jobs, "given_back": 0, "replaced": jobs + 1, "migrations": [],
    }  # fmt: skip
    assert sum(store.states().values()) == jobs
    assert ("restore",) in store.rows("SELECT what FROM audit WHERE by LIKE 'cli:%'")
    assert store("backup", saved, "--overwrite").stdout.startswith(f"{saved}: {jobs:,} jobs, ")
    assert f"{jobs:,} jobs restored" in store("restore", saved, "--yes").stdout


def test_restore_makes_a_store_that_is_not_there(store, tmp_path):
    saved = store.folder / "saved.bak"
    store("backup", saved)
    new = tmp_path / "new.db"
    assert store.json("restore", saved, "--url", f"sqlite:///{new}", url=False)["replaced"] == 0
    assert new.exists()


def test_backup_and_restore_refuse_in_words(store):
    assert "there is no store" in store("backup", "x.bak", "--url", "sqlite:///none.db", url=False, code=1).stderr
    assert "in the memory of one program" in store("backup", "x.bak", "--url", "sqlite://", url=False, code=1).stderr
    assert "there is no backup at" in store("restore", store.folder / "none.bak", "--yes", code=1).stderr
    (store.folder / "text.bak").write_text("text " * 1_000)
    assert "not a database" in store("restore", store.folder / "text.bak", "--yes", code=1).stderr


# ---------------------------------------------------------------- bench


@pytest.mark.slow
def test_bench_measures_everything(fl):
    told = fl.json("bench", "--jobs", 10, "--repeat", 2, "--folder", fl.folder, url=False)
    assert set(told) == {"at_ms", "machine", "versions", "settings", "results"}
    assert set(told["results"]) == set(FIGURES)
    for name, one in told["results"].items():
        assert one["unit"] == FIGURES[name].unit
        assert len(one["runs"]) == 2
        assert min(one["runs"]) > 0
        assert min(one["runs"]) <= one["median"] <= max(one["runs"])
    assert told["settings"]["durability"] == "full"
    assert told["machine"]["flush_ms"] > 0
    assert sorted(path.name for path in fl.folder.iterdir() if path.is_dir()) == ["jobs.db.fairlane"], "no stores left"


def test_bench_one_figure(fl):
    told = fl.json("bench", "--only", "cycle_1", "--jobs", 5, "--repeat", 1, url=False)
    assert list(told["results"]) == ["cycle_1"]
    assert "cycle_1" in fl("bench", "--only", "cycle_1", "--jobs", 5, "--repeat", 1, url=False).stdout
    assert "'none' is not one of" in fl("bench", "--only", "none", code=2, url=False).stderr


def test_version(fl):
    assert fl.json("version", url=False)["sqlite"] == sqlite3.sqlite_version
