"""Django's Tasks on fairlane: a real project, each time in a process of its own, for Django has one set of settings.

From Python 3.12 on this is Django 6 with its own Tasks, before it Django 5.2 with the package ``django-tasks``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

PROJECT = Path(__file__).parent / "django_project"
LONG_S = 60.0


class Project:
    """The project, with its data and its jobs in a folder of the test."""

    def __init__(self, folder: Path, database: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.database = database or {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "shop.db")}
        self.tasks: dict[str, Any] = {}
        self.more: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLANE_", "DJANGO_"))}
        return {
            **kept,
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "PYTHONPATH": str(PROJECT),
            "PYTHONWARNINGS": "error",
            "SHOP_DATABASE": json.dumps(self.database),
            "SHOP_TASKS": json.dumps(self.tasks),
            **self.more,
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *words], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=LONG_S)
        finally:
            process.kill()
        assert process.returncode == code, (process.returncode, out, err)
        return out, err

    def play(self, scene: str, *words: str) -> None:
        out, err = self.run("-m", "scenes", scene, *words)
        assert out.splitlines()[-1:] == ["done"], (out, err)

    def manage(self, *words: str, code: int = 0) -> tuple[str, str]:
        return self.run(str(PROJECT / "manage.py"), *words, code=code)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def on_postgres(tmp_path: Path, empty: str) -> Project:
    where = conninfo_to_dict(empty)
    return Project(
        tmp_path,
        {
            "ENGINE": "django.db.backends.postgresql", "NAME": where["dbname"], "USER": where["user"],
            "HOST": where["host"], "PORT": where.get("port", ""), "PASSWORD": "p@ss/w:rd?",
            "OPTIONS": {"connect_timeout": 10},
        },
    )  # fmt: skip


pytestmark = pytest.mark.timeout(120)


def test_from_enqueue_to_result(project: Project) -> None:
    project.play("life")


def test_jobs_are_part_of_a_transaction_on_sqlite(project: Project) -> None:
    project.play("commits", f"sqlite:///{project.folder}/shop.db")


def test_jobs_of_a_store_elsewhere_come_with_the_commit(project: Project) -> None:
    project.tasks = {"OPTIONS": {"url": f"sqlite:///{project.folder}/jobs.db"}}
    project.play("commits", f"sqlite:///{project.folder}/jobs.db")


@pytest.mark.postgres
def test_from_enqueue_to_result_on_postgresql(on_postgres: Project) -> None:
    on_postgres.play("life")


@pytest.mark.postgres
def test_jobs_are_part_of_a_transaction_on_postgresql(on_postgres: Project) -> None:
    on_postgres.play("commits", "postgresql://")


def test_the_project_can_test_itself(project: Project) -> None:
    project.more = {"SHOP_TZ": "no"}
    _, err = project.manage("test", "scenes.tests_of_a_project", "--verbosity=2")
    assert "Ran 3 tests" in err


def test_a_worker_ends_when_told(project: Project) -> None:
    project.manage("migrate", "--run-syncdb", "-v0")
    mark = project.folder / "mark"
    project.run(
        "-c",
        f"import django; django.setup()\nfrom shop.tasks import hold\nhold.enqueue({str(mark)!r})",
    )
    worker = project.start(
        str(PROJECT / "manage.py"), "fairlane_worker", "-c", "2", "-q", "default=1", "--name", "shop"
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "fairlane worker: 10 tasks, 2 at once\n"
        while not mark.exists():
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=LONG_S)
    finally:
        worker.kill()
    assert worker.returncode == 0, err
    told = json.loads(project.manage("fairlane", "jobs", "list", "--json")[0])
    (job,) = told["jobs"]
    assert (job["state"], job["task"]) == ("completed", "shop.tasks.hold")


def test_fairlanes_own_worker_runs_them_too(project: Project) -> None:
    project.manage("migrate", "--run-syncdb", "-v0")
    project.run(
        "-c", "import django; django.setup()\nfrom shop.tasks import add, order\nadd.enqueue(2)\norder.enqueue(1)"
    )
    project.run("-m", "fairlane", "worker", "shop.worker:app", "-p", "2", "--burst")
    told = json.loads(project.manage("fairlane", "jobs", "list", "--json")[0])
    assert {(job["task"], job["state"]) for job in told["jobs"]} == {
        ("shop.tasks.add", "completed"),
        ("shop.tasks.order", "completed"),
    }


def test_a_database_with_tables_of_its_own_is_left_alone(project: Project) -> None:
    project.tasks = {"OPTIONS": {"url": f"sqlite:///{project.folder}/jobs.db"}}
    project.manage("migrate", "--run-syncdb", "-v0")
    project.tasks = {}
    _, err = project.manage("migrate", "-v0", code=1)
    assert "no store for jobs can be made in the database 'default'" in err
    assert "give jobs a file of their own" in err


def test_commands_say_what_is_wrong(project: Project) -> None:
    _, err = project.manage("fairlane_worker", "-q", "mail=0", code=2)
    assert "'mail=0' is not NAME or NAME=SLOTS, with a whole number of at least 1" in err
    _, err = project.manage("fairlane_worker", "--reserve", "urgent=1", code=2)
    assert "'urgent=1' is not TIER=SLOTS, with one of critical, high, normal, low, background" in err
    assert "concurrency" in project.manage("fairlane_worker", "-c", "0", "--burst", code=1)[1]
    assert "fairlane" in project.manage("fairlane", "version")[0]
    assert "Usage" in project.manage("fairlane", "frob", code=2)[1]


def test_wrong_options_are_found_by_the_check(project: Project) -> None:
    framework = "django.tasks" if importlib.util.find_spec("django.tasks") else "django_tasks"
    project.play("checks", f"{framework}.backends.immediate.ImmediateBackend")
