"""`enqueue` and `jobs` on a real SQLite file."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

from fairlane.cli.main import cli

NIL = "0198f0de-0000-7000-8000-000000000001"


@pytest.fixture
def fl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("FAIRLANE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


# ---------------------------------------------------------------- enqueue


def test_enqueue_stores_what_was_said(fl):
    line = ("enqueue", "mail.send", '{"to": "ä"}', "--tenant", "acme", "--tier", "HIGH", "--queue", "mail")
    told = fl.json(*line, "--delay", "60", "--dedup-key", "k", "--tag", "a", "--tag", "b", "--expires-in", "90")
    assert told == {
        "id": told["id"], "created": True, "task": "mail.send", "queue": "mail", "tenant": "acme",
        "state": "scheduled", "tier": "high",
    }  # fmt: skip
    job = fl.json("jobs", "show", told["id"])
    assert job["args"] == {"to": "ä"}
    assert (job["tags"], job["dedup_key"], job["express"]) == (["a", "b"], "k", False)
    assert job["expires_at"] > job["scheduled_at"] > job["enqueued_at"]


def test_enqueue_behind_others_with_a_key_that_outlives_it(fl):
    first = fl("enqueue", "x").stdout.strip()
    line = ("enqueue", "x", "--after", first, "--on-failure", "run", "--dedup-key", "k", "--dedup-ttl", "60")
    second = fl.json(*line)
    assert (second["created"], second["state"]) == (True, "scheduled")
    shown = fl.json("jobs", "show", second["id"])
    assert (shown["behind"], shown["on_failure"], shown["successor"], shown["bundle"]) == (1, "run", False, None)
    fl("jobs", "cancel", first)
    assert fl.json("jobs", "show", second["id"])["state"] == "available"
    fl("jobs", "cancel", second["id"])
    again = fl(*line[:2], "--dedup-key", "k")
    assert again.stdout.strip() == second["id"]
    assert "this job, which has ended, still holds the dedup key 'k'" in again.stderr
    assert "no job has the id" in fl("enqueue", "x", "--after", NIL, code=1).stderr


def test_enqueue_prints_the_id_alone(fl):
    shown = fl("enqueue", "x").stdout
    assert [(shown.strip(), 1)] == [(job["id"], 1) for job in fl.json("jobs", "list")["jobs"]]


def test_enqueue_reads_standard_input(fl):
    result = CliRunner().invoke(cli, ["enqueue", "x", "-", "--url", fl.url], input='{"n": 1}')
    assert result.exit_code == 0, result.output
    assert fl.json("jobs", "show", result.stdout.strip())["args"] == {"n": 1}


def test_enqueue_with_a_held_key_tells_so(fl):
    first = fl.json("enqueue", "x", "--dedup-key", "k")
    again = fl.json("enqueue", "x", "--dedup-key", "k")
    assert (again["id"], again["created"]) == (first["id"], False)
    assert "holds the dedup key 'k'" in fl("enqueue", "x", "--dedup-key", "k").stderr
    assert (
        fl.json("enqueue", "x", "--dedup-key", "k", "--on-conflict", "raise", code=1)["error"]["type"]
        == "DedupConflict"
    )


def test_enqueue_into_the_express_lane_up_to_its_capacity(fl):
    for _ in range(5):
        fl("enqueue", "x", "--tenant", "acme", "--expedite")
    error = fl.json("enqueue", "x", "--tenant", "acme", "--expedite", code=1)["error"]
    assert (error["type"], error["current"], error["maximum"]) == ("ExpressFull", 5, 5)
    assert fl.states() == {"available": 5}, "nothing was stored"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("x", "{bad"), 2, "'{bad' is not JSON: "),
        (("x", "[1]"), 2, "'[1]' is no JSON object"),
        (("x", "[" * 100_000), 2, "is not JSON" if sys.version_info >= (3, 13) else "nested too deeply"),
        (("x", "--tier", "urgent"), 2, "'urgent' is not one of 'critical', 'high', 'normal', 'low', 'background'"),
        (("x", "--delay", "soon"), 2, "'soon' is not a valid float"),
        (("x", "--delay", "-1"), 1, "delay is -1.0; it must be at least 0"),
        (("x", "--expires-in", "1", "--delay", "5"), 1, "expires_in is 1; it must be above delay, 5"),
        (("x", "--tenant", "t" * 256), 1, "tenant has 256 bytes; the maximum is 255"),
        (("x", "--tenant", ""), 1, "tenant is empty"),
        (("", "{}"), 1, "task is empty"),
        (("x", '{"a": {"b": NaN}}'), 1, "args.a.b is nan"),
        (("x", '{"a": 9223372036854775808}'), 1, "args.a"),
        (("x", '{"a": "' + "y" * 262_144 + '"}'), 1, "262144"),
    ],
)
def test_enqueue_refuses_with_value_rule_and_figures(fl, line, code, words):
    result = fl("enqueue", *line, code=code)
    assert words in result.stderr.replace(",", "").replace("\n", " ") or words in result.stderr
    assert not fl.file.exists() or fl.states() == {}


def test_enqueue_with_the_code_at_hand(fl):
    told = json.loads(fl.process("enqueue", "send", '{"to": "a"}', "--app", "tasksapp:app", "--json")[0])
    assert (told["queue"], told["tier"]) == ("mail", "high"), "the task's own"
    _, err = fl.process("enqueue", "send", '{"ot": "a"}', "--app", "tasksapp:app", code=1)
    assert err == "fairlane: task 'send': argument 'to' is missing\n"
    assert fl.states() == {"available": 1}


# ---------------------------------------------------------------- looking


def test_list_filters_and_goes_on(fl):
    with fl.app() as app:
        for n in range(5):
            app.enqueue("a", {"n": n}, tenant="acme", tier="high", tags=["red"])
            app.enqueue("b", tenant="other", queue="mail", delay=60)
    for line, count in (
        (("--task", "a"), 5), (("--tenant", "other"), 5), (("--queue", "mail"), 5), (("--tier", "high"), 5),
        (("--tag", "red"), 5), (("--state", "scheduled"), 5), (("--state", "scheduled", "--state", "available"), 10),
        (("--state", "dead"), 0), (("--tenant", "nobody"), 0),
    ):  # fmt: skip
        assert len(fl.json("jobs", "list", *line)["jobs"]) == count, line
    seen, cursor = [], None
    while True:
        page = fl.json("jobs", "list", "--limit", 3, *(("--cursor", cursor) if cursor else ()))
        seen += [job["id"] for job in page["jobs"]]
        if (cursor := page["cursor"]) is None:
            break
    assert len(seen) == len(set(seen)) == 10
    assert seen == sorted(seen, reverse=True), "newest first"
    plain = fl("jobs", "list", "--limit", 3)
    assert "more: --cursor " in plain.stderr
    assert len(plain.stdout.splitlines()) == 4
    assert fl("jobs", "list", "--state", "dead").stdout == "no jobs\n"
    assert fl.json("jobs", "list", "--cursor", "zz", code=1)["error"]["type"] == "InvalidValue"
    assert "is not in the range 1<=x<=1000" in fl("jobs", "list", "--limit", "0", code=2).stderr


def test_show_tells_everything(fl):
    fl.die("over\nthere")
    (job,) = fl.json("jobs", "list")["jobs"]
    told = fl.json("jobs", "show", job["id"])
    assert job.items() <= told.items()
    (error,) = told["errors"]
    assert (error["type"], error["message"], error["attempt"], error["kind"]) == (
        "ValueError",
        "over\nthere",
        1,
        "failure",
    )
    assert told["args"] == {"why": "over\nthere"}
    shown = fl("jobs", "show", job["id"]).stdout
    assert "attempt 1, failure at 2" in shown
    assert "  ValueError: over\\nthere\n" in shown
    assert "raise ValueError(why)\n" in shown
    assert fl.json("jobs", "show", NIL, code=1)["error"] == {
        "type": "JobNotFound",
        "message": f"no job has the id {NIL}",
    }


# ---------------------------------------------------------------- steering


def test_cancel_one_several_and_refused(fl):
    ids = [fl("enqueue", "x").stdout.strip() for _ in range(3)]
    assert fl("jobs", "cancel", ids[0], "--reason", "enough").stdout == f"{ids[0]}  cancelled\n"
    assert fl.json("jobs", "show", ids[0])["reason"] == "enough"
    told = fl.json("jobs", "cancel", ids[1], NIL, "zz", ids[2], code=1)["jobs"]
    assert [one.get("state") or one["error"]["type"] for one in told] == [
        "cancelled", "JobNotFound", "InvalidValue", "cancelled",
    ]  # fmt: skip
    assert "no job has the id" in fl("jobs", "cancel", NIL, code=1).stderr
    assert f"{NIL}  refused: no job has" in fl("jobs", "cancel", NIL, NIL, code=1).stdout
    assert fl.states() == {"cancelled": 3}


def test_cancel_by_filter_previews_first(fl):
    with fl.app() as app:
        app.enqueue_many(app.new("x", tenant="acme", queue="mail") for _ in range(1203))
        app.enqueue_many(app.new("x", tenant="acme", delay=60, tags=["red"]) for _ in range(7))
        app.enqueue("x", tenant="other")
    preview = fl("jobs", "cancel", "--tenant", "acme")
    assert preview.stdout == "1,210 jobs would be cancelled. Nothing has changed: add --yes to do it.\n"
    assert fl.json("jobs", "cancel", "--tag", "red") == {"matched": 7, "done": False}
    assert fl.json("jobs", "cancel", "--tenant", "acme", "--state", "scheduled") == {"matched": 7, "done": False}
    assert fl.states() == {"available": 1204, "scheduled": 7}
    done = fl.json("jobs", "cancel", "--tenant", "acme", "--state", "scheduled", "--yes", "--reason", "r")
    assert done.items() >= {"matched": 7, "done": True, "cancelled": 7, "left": 0}.items()
    assert fl("jobs", "cancel", "--tenant", "acme", "--yes").stdout == "1,203 jobs cancelled\n"
    assert fl.states() == {"available": 1, "cancelled": 1210}
    assert fl.json("jobs", "cancel", "--tenant", "acme", "--yes")["cancelled"] == 0


def test_boost_by_id_and_by_filter(fl):
    low = fl("enqueue", "x", "--tier", "low", "--tenant", "acme").stdout.strip()
    fl("enqueue", "x", "--tier", "critical", "--tenant", "acme")
    assert fl.json("jobs", "boost", low, "--to", "normal")["jobs"] == [
        {"id": low, "outcome": "boosted", "tier": "normal"}
    ]
    assert fl.json("jobs", "boost", low, "--to", "low")["jobs"][0]["outcome"] == "not_higher"
    assert fl.json("jobs", "boost", "--tenant", "acme", "--to", "high") == {"matched": 2, "done": False}
    assert (
        fl("jobs", "boost", "--tenant", "acme", "--to", "high", "--yes").stdout
        == "1 jobs boosted; 1 left as they were\n"
    )
    assert sorted(job["tier"] for job in fl.json("jobs", "list")["jobs"]) == ["critical", "high"]


def test_expedite_and_retry(fl):
    job = fl("enqueue", "x", "--delay", "60").stdout.strip()
    assert fl.json("jobs", "expedite", job, "--reason", "VIP")["jobs"] == [
        {"id": job, "state": "available", "express": True}
    ]
    assert fl("jobs", "expedite", job).stdout == f"{job}  available, express\n"
    assert "it cannot be retried" in fl("jobs", "retry", job, code=1).stderr
    who = fl.rows("SELECT DISTINCT by FROM audit WHERE what = 'expedite'")
    assert who[0][0].startswith("cli:")


def test_who_cancelled_by_hand_is_on_record(fl):
    job = fl("enqueue", "x").stdout.strip()
    fl("jobs", "boost", job, "--to", "high", "--reason", "late")
    fl("jobs", "cancel", job, "--reason", "twice")
    rows = fl.rows("SELECT what, reason, by LIKE 'cli:%' FROM audit ORDER BY id")
    assert rows == [("boost", "late", 1), ("cancel", "twice", 1)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("cancel",), "name jobs: by their ids, or by --queue"),
        (("cancel", NIL, "--queue", "q"), "give ids or filters (--queue), not both"),
        (("cancel", "--queue", "q", "--state", "dead"), "--state dead: only scheduled, available and running jobs"),
        (("boost", "--queue", "q", "--state", "running", "--to", "high"), "only scheduled and available jobs"),
        (("boost", NIL), "Missing option '--to'"),
        (("retry",), "name jobs: by their ids, or by --queue"),
        (("retry", NIL, "--find", "x"), "give ids or filters (--find), not both"),
        (("expedite", "--queue", "q", "--state", "completed"), "only scheduled and available jobs"),
        (("cancel", "JOB", "--dry-run"), "only a filter goes with --dry-run, ids do not; nothing has changed"),
        (("expedite", "JOB", "--rate", "5", "--limit", "1"), "only a filter goes with --rate and --limit"),
        (("boost", "JOB", "--to", "high", "--dry-run"), "only a filter goes with --dry-run"),
    ],
)
def test_steering_refuses_unclear_lines(fl, line, words):
    job = fl("enqueue", "x").stdout.strip()
    before = fl.json("jobs", "show", job)
    assert words in fl("jobs", *(job if word == "JOB" else word for word in line), code=2).stderr
    assert fl.json("jobs", "show", job) == before


def test_wait_tells_how_it_ended(fl):
    with fl.app() as app:

        @app.task
        def double(n: int) -> int:
            return 2 * n

        done = double.enqueue(21)
        with app.worker():
            told = fl.json("jobs", "wait", done.id, "--timeout", 10)
    assert (told["state"], told["result"]) == ("completed", 42)
    assert fl("jobs", "wait", done.id).stdout == "completed\n42\n"
    waiting = fl("enqueue", "x").stdout.strip()
    error = fl.json("jobs", "wait", waiting, "--timeout", "0.05", code=1)["error"]
    assert error == {"type": "WaitTimeout", "message": f"job {waiting} is still available after 0.05 s"}
    fl("jobs", "cancel", waiting, "--reason", "no")
    assert fl("jobs", "wait", waiting, code=1).stdout == "cancelled: no\n"
