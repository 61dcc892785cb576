"""`fairlane worker`, in processes of its own: what it runs, how it ends, and that nothing stays leased."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import LONG_S, Cli, children_of, end, lines_of, lives

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def fl(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    made.started = []
    start = made.start

    def kept(*args, **options):
        process = start(*args, **options)
        made.started.append(process)
        return process

    made.start = kept
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def put(fl: Cli, task: str, count: int, **args: object) -> None:
    with fl.app() as app:
        app.enqueue_many(app.new(task, args) for _ in range(count))


# ---------------------------------------------------------------- one process


def test_burst_runs_what_there_is_and_ends(fl):
    put(fl, "work", 20, n=1)
    put(fl, "boom", 1)
    out, err = fl.process("worker", "tasksapp:app", "-c", "4", "--burst")
    assert fl.states() == {"completed": 20, "dead": 1}
    assert out == ""
    assert "worker_started" in err
    assert "Traceback" not in err
    assert json.loads(fl.process("worker", "tasksapp", "--burst", "--json")[0]) == {"processes": 1, "restarts": 0}


def test_a_worker_makes_the_store(fl):
    fl.process("worker", "tasksapp:app", "--burst")
    assert fl.states() == {}


def test_url_beats_that_of_the_app(fl):
    other = f"sqlite:///{fl.folder}/other.db"
    fl.process("enqueue", "work", '{"n": 1}', "--url", other)
    fl.process("worker", "tasksapp:app", "--burst", "--url", other)
    assert not fl.file.exists()
    assert json.loads(fl.process("stats", "--url", other, "--json")[0])["counts"]["completed"] == 1


def test_queues_and_reserve_reach_the_worker(fl):
    with fl.app() as app:
        app.enqueue("work", {"n": 1}, queue="mail")
        app.enqueue("work", {"n": 1}, queue="other")
        app.enqueue("work", {"n": 1}, queue="more")
    fl.process("worker", "tasksapp:app", "-c", "4", "-q", "mail=2", "-q", "more", "--reserve", "critical=1", "--burst")
    assert fl.states() == {"available": 1, "completed": 2}


def test_sigterm_gives_back_what_runs(fl):
    runs = fl.folder / "runs"
    put(fl, "hold", 2, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "--grace", "10")
    lines_of(runs, 2)
    end(process)
    assert process.returncode == 0
    assert fl.states() == {"available": 2}


def test_a_second_signal_does_not_wait(fl):
    runs = fl.folder / "runs"
    put(fl, "stubborn", 1, path=str(runs), seconds=30)
    process = fl.start("worker", "tasksapp:app", "--grace", "30")
    lines_of(runs, 1)
    process.send_signal(signal.SIGINT)
    threading.Event().wait(0.3)
    assert process.poll() is None, "it waits for the job"
    end(process, sig=signal.SIGINT)
    assert process.returncode == 0
    assert fl.states() == {"available": 1}


SHIMMED = "from fairlane.compat.celery import Celery\napp = Celery('shop', broker='sqlite:///jobs.db')\n"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("nomodule:app",), 1, "there is no module 'nomodule' in"),
        (("tasksapp:nothing",), 1, "module 'tasksapp' has no 'nothing'"),
        (("tasksapp:notanapp",), 1, "module 'tasksapp' has a int, not a Fairlane, as 'notanapp'"),
        (("tasksapp.py",), 1, "give MODULE:app"),
        (("broken:app",), 1, "importing 'broken' failed: ZeroDivisionError: division by zero ("),
        (("refused:app",), 1, "/refused.py:4)"),
        (("shimmed",), 1, "has a Celery, not a Fairlane, as 'app'; give shimmed:app.fairlane"),
        (("tasksapp", "-c", "0"), 2, "0 is not in the range"),
        (("tasksapp", "-q", "mail=x"), 2, "'mail=x' is not NAME[=SLOTS], with a whole number of at least 1"),
        (("tasksapp", "-q", "mail=9", "-c", "8"), 1, "queue 'mail' is given 9 slots, more than concurrency, 8"),
        (("tasksapp", "--reserve", "urgent=1"), 2, "'urgent' is not one of critical, high, normal, low, background"),
        (("tasksapp", "--reserve", "critical=8", "-c", "8"), 1, "reserve keeps 8 of 8 slots"),
        (("tasksapp", "--url", "sqlite://"), 1, "in the memory of one program"),
        (("tasksapp", "--lease", "0.01"), 2, "is not in the range"),
    ],
)
def test_what_is_wrong_is_said_at_once(fl, line, code, words):
    (fl.folder / "broken.py").write_text("1 / 0\n")
    (fl.folder / "refused.py").write_text(f"{SHIMMED}\napp.task(backend='x')(print)\n")
    (fl.folder / "shimmed.py").write_text(SHIMMED)
    _, err = fl.process("worker", *line, code=code)
    assert words in err
    assert "Traceback" not in err


# ---------------------------------------------------------------- several processes


def test_two_processes_share_the_work_and_leave_nothing_leased(fl):
    runs = fl.folder / "runs"
    put(fl, "hold", 4, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "2", "--grace", "20", "--json")
    pids = {int(line) for line in lines_of(runs, 4)}
    assert pids == set(children_of(process.pid)), "both run jobs, and the parent none"
    told = json.loads(fl.process("stats", "--json")[0])
    assert {worker["pid"] for worker in told["workers"]} == pids
    assert all(worker["alive"] for worker in told["workers"])
    out, err = end(process)
    assert process.returncode == 0, err
    assert json.loads(out) == {"processes": 2, "restarts": 0}
    assert fl.states() == {"available": 4}
    assert fl.rows("SELECT count(*) FROM job WHERE worker IS NOT NULL AND state = 2") == [(0,)]
    assert fl.rows("SELECT count(*) FROM worker") == [(0,)]
    assert sorted(path.name for path in (fl.folder / "jobs.db.fairlane").iterdir()) == ["gate"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not show what a process has open")
def test_the_parent_holds_no_store(fl):
    runs = fl.folder / "runs"
    put(fl, "hold", 2, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1")
    lines_of(runs, 2)
    held = {os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.exists()}
    assert not [path for path in held if "jobs.db" in path]
    end(process)
    assert process.returncode == 0


def test_a_killed_process_is_started_again(fl):
    runs = fl.folder / "runs"
    put(fl, "hold", 2, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1", "--json")
    first = [int(line) for line in lines_of(runs, 2)]
    os.kill(first[0], signal.SIGKILL)
    pids = [int(line) for line in lines_of(runs, 3)]
    assert pids[2] not in first, "by the process that took its place"
    out, err = end(process)
    assert process.returncode == 0, err
    assert json.loads(out)["restarts"] == 1
    assert "code=-9: again in 0.2 s" in err
    assert fl.states() == {"available": 2}
    assert fl.rows("SELECT sum(crashes), sum(failures) FROM job") == [(1, 0)]


def test_burst_ends_when_all_have_ended(fl):
    put(fl, "work", 40, n=1)
    fl.process("worker", "tasksapp:app", "-p", "2", "--burst")
    assert fl.states() == {"completed": 40}


def test_signals_from_several_sides_count_once(fl):
    """systemd signals every process of a service, and the parent passes its own on: still only one wish to stop."""
    runs = fl.folder / "runs"
    put(fl, "stubborn", 2, path=str(runs), seconds=1.5)
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1", "--grace", "20")
    for pid in (*(int(line) for line in lines_of(runs, 2)), process.pid):
        os.kill(pid, signal.SIGTERM)
    process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert fl.states() == {"completed": 2}, "each job had its grace"


def test_a_second_signal_is_passed_on(fl):
    runs = fl.folder / "runs"
    put(fl, "stubborn", 2, path=str(runs), seconds=40)
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1", "--grace", "40")
    lines_of(runs, 2)
    process.send_signal(signal.SIGTERM)
    threading.Event().wait(0.3)
    assert process.poll() is None
    end(process)
    assert process.returncode == 0
    assert fl.states() == {"available": 2}


def test_children_stop_when_the_parent_is_killed(fl):
    runs = fl.folder / "runs"
    put(fl, "hold", 2, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1", "--grace", "5")
    pids = [int(line) for line in lines_of(runs, 2)]
    process.kill()
    process.communicate(timeout=LONG_S)  # returns when the last child has closed its end of our pipes
    assert not [pid for pid in pids if lives(pid)]
    assert fl.states() == {"available": 2}


def test_processes_that_cannot_start_are_not_tried_for_ever(fl):
    for line, words in (
        (("nomodule:app",), "there is no module 'nomodule'"),
        (("tasksapp:app", "--url", f"sqlite:///{fl.folder}/no/such.db"), "does not exist"),
    ):
        _, err = fl.process("worker", *line, "-p", "2", code=1)
        assert words in err
        assert "fairlane: the worker processes could not start" in err
        assert "Traceback" not in err


def test_the_terminal_signals_the_parent_alone(fl):
    """Ctrl-C goes to a whole group of processes; children are in sessions of their own."""
    runs = fl.folder / "runs"
    put(fl, "hold", 2, path=str(runs))
    process = fl.start("worker", "tasksapp:app", "-p", "2", "-c", "1", start_new_session=True)
    pids = [int(line) for line in lines_of(runs, 2)]
    assert {os.getsid(pid) for pid in pids} == set(pids)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, err
    assert err.count("signal_heard") == 1
    assert fl.states() == {"available": 2}
    assert not [pid for pid in pids if lives(pid)]
