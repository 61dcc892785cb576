"""`dead`, `operations`, and the forms of `jobs` that take a filter, on a real SQLite file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import LONG_S, Cli

from fairlane import Pending

NIL = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def fl(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("FAIRLANE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


def fingerprint(fl: Cli, index: int = 0) -> str:
    return fl.json("dead", "groups")["groups"][index]["fingerprint"]


def time_out(fl: Cli, n: int) -> list[str]:
    """Let jobs die because their checks are used up; return their ids, oldest first."""
    with fl.app() as app:

        @app.task
        def prove(n: int) -> int:
            return n

        @prove.verify(every=3_600, max_checks=1)
        def check(reference: int) -> Pending:
            return Pending()

        ids = [str(prove.enqueue(n).id) for n in range(n)]
        for number, job_id in enumerate(ids):
            app.claim().ack(number)
            app.reverify(job_id)  # now, not in an hour
            app.claim().pending()
    assert fl.states()["dead"] == n
    return ids


# ---------------------------------------------------------------- the verify phase


def test_reverify_by_filter_and_by_id(fl):
    ids = time_out(fl, 3)
    with fl.app() as app:
        failed = str(app.enqueue("prove").id)
        app.claim(tasks=["prove"]).dead("bad")
    before = fl.json("jobs", "show", ids[0])
    line = ("jobs", "reverify", "--task", "prove")
    for more in ((), ("--dry-run", "--yes")):
        shown = fl(*line, *more).stdout
        assert shown == "4 jobs would be reverified. Nothing has changed: add --yes to do it.\n"
    assert fl.states() == {"dead": 4}
    assert fl.json(*line, "--limit", 1, "--rate", 50, "--yes")["reverified"] == 1
    done = fl(*line, "--yes", "--reason", "prover is back")
    assert done.stdout == "2 jobs reverified; 1 left as they were\n"
    assert f"{failed} refused: " in done.stderr
    after = fl.json("jobs", "show", ids[0])
    assert (after["state"], after["phase"], after["checks"], after["reference"]) == ("available", "verify", 0, 0)
    assert before["reason"] == "verification_timeout"
    told = fl.json("jobs", "reverify", ids[1], failed, code=1)["jobs"]
    assert told[0] == {"id": ids[1], "state": "available"}
    assert told[1]["error"]["type"] == "IllegalMove"
    assert "--state completed: only" in fl(*line, "--state", "completed", code=2).stderr
    assert "only a filter goes with --rate" in fl("jobs", "reverify", ids[1], "--rate", 1, code=2).stderr


def test_replay_of_the_verify_phase(fl):
    time_out(fl, 2)
    line = ("dead", "replay", fingerprint(fl), "--phase", "verify")
    assert "2 jobs would be reverified" in fl(*line, "--dry-run").stdout
    assert "reverify takes no tier" in fl(*line, "--to", "low", code=1).stderr
    assert fl.states() == {"dead": 2}
    assert fl(*line, "--rate", 1000).stdout == "2 jobs reverified\n"
    assert {job["phase"] for job in fl.json("jobs", "list", "--state", "available")["jobs"]} == {"verify"}


# ---------------------------------------------------------------- groups


def test_groups_show_and_replay(fl):
    fl.die("row 1", "row 2", "row 3")
    with fl.app() as app:
        app.enqueue("pulled", tenant="acme")
        app.claim().dead("given up")
    groups = fl.json("dead", "groups")["groups"]
    first = groups[0]
    assert (first["count"], first["tasks"], first["tenants"], first["type"]) == (3, ["boom"], 1, "ValueError")
    assert first["label"].startswith("ValueError: row <n> · ")
    assert first["label"].endswith(".boom")
    assert sum(group["count"] for group in groups) == fl.states()["dead"] == 4
    assert first["first_at"] <= first["last_at"]
    for group in groups:
        jobs = fl.json("dead", "show", group["fingerprint"])["jobs"]
        assert len(jobs) == group["count"]
        assert group["example"] in {job["id"] for job in jobs}
    page = fl.json("dead", "show", "ValueError", "--limit", 2)
    assert len(page["jobs"]) == 2
    assert len(fl.json("dead", "show", "ValueError", "--limit", 2, "--cursor", page["cursor"])["jobs"]) == 1
    shown = fl("dead", "show", first["fingerprint"][:5]).stdout
    assert all(f"  row {n}\n" in shown for n in (1, 2, 3))
    assert first["label"] in fl("dead", "groups").stdout
    told = fl.json("dead", "replay", "ValueError", "--limit", 2, "--rate", 1000)
    assert told.items() >= {
        "fingerprint": first["fingerprint"], "matched": 2, "retried": 2, "left": 0, "done": True,
    }.items()  # fmt: skip
    left = fl.json("dead", "show", "ValueError")["jobs"]
    assert [job["args"]["why"] for job in left] == ["row 3"], "the oldest came back"
    assert fl("dead", "replay", "ValueError").stdout == "1 jobs retried\n"
    error = fl.json("dead", "replay", "ValueError", code=1)["error"]
    assert error["type"] == "NoSuchGroup"
    assert "'ValueError'; there are " in error["message"]


def test_a_type_that_several_groups_have_is_no_name(fl):
    fl.die("one way", "another")
    error = fl.json("dead", "replay", "ValueError", code=1)["error"]
    assert error["message"].startswith("'ValueError' is 2 groups; give the fingerprint of one: ")
    assert fingerprint(fl) in error["message"]
    assert fl.states() == {"dead": 2}


def test_every_group_can_be_shown_whole(fl):
    """Whatever jobs died of, the filter by fingerprint finds what the group counts."""
    fl.die("a", "b")
    with fl.app() as app:
        for why in ("given up", KeyError("k"), ""):
            app.enqueue("pulled")
            app.claim().dead(why)
        app.enqueue("nacked")
        app.claim().nack(OSError("first"), retry_in=0)
        app.claim().dead("later")
        app.enqueue("crashing")
        for _ in range(4):
            app.claim(lease=0.1)
            app.owner.call(lambda store, now_ms: store.rescue(now_ms + 60_000, limit=10))
        groups = app.dead.groups()
        found = {group.fingerprint: len(app.dead.jobs(group.fingerprint)) for group in groups}
    assert found == {group.fingerprint: group.count for group in groups}
    assert sum(found.values()) == 7


def test_no_dead_jobs(fl):
    fl("enqueue", "x")
    assert fl("dead", "groups").stdout == "no dead jobs\n"
    assert "there are no dead jobs at all" in fl("dead", "show", "X", code=1).stderr


# ---------------------------------------------------------------- replay


def test_replay_by_filter(fl):
    fl.die("a", "b")
    with fl.app() as app:
        app.enqueue("pulled", tenant="acme", tier="high")
        app.claim().dead("given up")
    assert "name a group" in fl("dead", "replay", code=2).stderr
    preview = fl("dead", "replay", "--tenant", "acme", "--dry-run").stdout
    assert preview == "1 jobs would be retried. Nothing has changed: add --yes to do it.\n"
    assert fl.states() == {"dead": 3}
    assert fl("dead", "replay", "--find", "GIVEN", "--to", "low", "--older-than", 0).stdout == "1 jobs retried\n"
    (job,) = fl.json("jobs", "list", "--state", "available")["jobs"]
    assert (job["tenant"], job["tier"]) == ("acme", "low")
    assert fl.json("dead", "replay", "--error", "ValueError", "--task", "boom", "--rate", 1000)["retried"] == 2


def test_replay_keeps_its_rate(fl):
    from fairlane.clock import SystemClock

    fl.die(*"1234")
    since = SystemClock().monotonic()
    fl("dead", "replay", "ValueError", "--rate", "10")
    assert SystemClock().monotonic() - since >= 0.3, "four jobs at ten a second: the last one after 0.3 s"
    assert fl.states() == {"available": 4}


def test_replay_leaves_what_refuses(fl):
    with fl.app() as app:
        for _ in range(2):
            app.enqueue("x", dedup_key="k")
            app.claim().dead("no")
    told = fl.json("dead", "replay", fingerprint(fl), "--rate", 1000)
    assert (told["retried"], told["left"]) == (1, 1)
    assert fl.states() == {"available": 1, "dead": 1}
    result = fl("dead", "replay", fingerprint(fl), "--rate", 1000)
    assert result.stdout == "0 jobs retried; 1 left as they were\n"
    assert "refused: dedup key 'k'" in result.stderr
    told = fl.json("operations", "show", fl.json("operations", "list")["operations"][0]["id"])
    assert "dedup key 'k'" in told["refusals"][0]["reason"]


def test_replay_can_be_left_to_workers(fl):
    fl.die("a")
    told = fl.json("dead", "replay", "ValueError", "--detach", "--reason", "fixed")
    assert (told["matched"], told["done"]) == (1, False)
    assert fl.states() == {"dead": 1}
    shown = fl("operations", "list").stdout
    assert "retry" in shown
    assert "fixed" in shown
    assert fl("operations", "run", told["operation"]).stdout == "1 jobs retried\n"
    assert fl.states() == {"available": 1}


def test_a_killed_replay_goes_on_where_it_ended(fl):
    fl.die(*map(str, range(30)))
    line = [sys.executable, "-m", "fairlane", "dead", "replay", "ValueError", "--rate", "1000000"]
    killed = subprocess.run(
        line,
        env=os.environ | {"FAIRLANE_URL": fl.url, "FAIRLANE_FAILPOINT": "mid_replay:exit:20"},
        timeout=LONG_S,
        check=False,
    )
    assert killed.returncode == 9
    (operation,) = fl.json("operations", "list")["operations"]
    done = operation["done"]
    assert (operation["state"], done) == ("running", fl.states().get("available", 0))
    assert done < 20
    assert fl.json("operations", "run", operation["id"])["retried"] == 30
    assert fl.rows("SELECT count(*), count(DISTINCT target) FROM audit WHERE what = 'retry'") == [(30, 30)]


# ---------------------------------------------------------------- discard, export


def test_discard_previews_first(fl):
    fl.die("a", "b")
    name = fingerprint(fl)
    preview = fl("dead", "discard", name).stdout
    assert preview == "1 jobs would be discarded. Nothing has changed: add --yes to do it.\n"
    assert fl.json("dead", "discard", "--task", "boom", "--dry-run", "--yes") == {"matched": 2, "done": False}
    assert fl.states() == {"dead": 2}
    assert fl("dead", "discard", name, "--yes", "--reason", "known").stdout == "1 jobs discarded\n"
    assert fl.states() == {"dead": 1}
    assert "name a group" in fl("dead", "discard", "--yes", code=2).stderr
    (row,) = fl.rows("SELECT what, reason FROM audit WHERE what LIKE 'bulk%'")
    assert row == ("bulk discard", "known")


def test_export_writes_a_line_for_each(fl):
    fl.die("1", "2", "\u2028 over\nthere")
    name = next(group["fingerprint"] for group in fl.json("dead", "groups")["groups"] if group["count"] == 2)
    lines = fl("dead", "export", "--task", "boom").stdout.splitlines()
    assert [json.loads(line)["args"]["why"] for line in lines] == ["\u2028 over\nthere", "2", "1"]
    fl("dead", "export", name, "--output", "dead.jsonl")
    assert len((fl.folder / "dead.jsonl").read_text().splitlines()) == 2
    assert all("raise ValueError" in json.loads(line)["errors"][0]["traceback"] for line in lines)
    assert fl.states() == {"dead": 3}
    assert "name a group" in fl("dead", "export", code=2).stderr


# ---------------------------------------------------------------- jobs by filter


def test_jobs_are_found_by_more(fl):
    with fl.app() as app:
        app.enqueue("mail.send", tenant="acme", dedup_key="mail:42", tags=["red"])
        app.enqueue("other")
        app.claim(queues=["default"], tasks=["other"]).dead(OSError("disk is full"))
    for line, count in (
        (("--dedup-key", "mail:42"), 1), (("--find", "L:4"), 1), (("--find", "RED"), 1), (("--find", "disk"), 1),
        (("--error", "OSError"), 1), (("--error", "Error"), 0), (("--older-than", 0), 2), (("--older-than", 3600), 0),
    ):  # fmt: skip
        assert len(fl.json("jobs", "list", *line)["jobs"]) == count, line


def test_retry_and_expedite_by_filter(fl):
    fl.die("a", "b")
    assert fl("jobs", "retry", "--task", "boom").stdout == (
        "2 jobs would be retried. Nothing has changed: add --yes to do it.\n"
    )
    assert fl.json("jobs", "retry", "--task", "boom", "--dry-run", "--yes") == {"matched": 2, "done": False}
    assert fl("jobs", "retry", "--task", "boom", "--yes", "--limit", "1").stdout == "1 jobs retried\n"
    assert fl.states() == {"available": 1, "dead": 1}
    assert fl("jobs", "expedite", "--task", "boom", "--yes", "--reason", "VIP").stdout == "1 jobs expedited\n"
    (job,) = fl.json("jobs", "list", "--state", "available")["jobs"]
    assert job["express"] is not None
    assert fl.rows("SELECT reason FROM audit WHERE what = 'expedite'") == [("VIP",)]


def test_a_preview_that_is_cut_says_so(fl, monkeypatch):
    monkeypatch.setattr("fairlane.bulk.PREVIEW_COUNTED", 2)
    for _ in range(3):
        fl("enqueue", "x")
    assert fl("jobs", "cancel", "--task", "x").stdout.startswith("2+ jobs would be cancelled.")
    assert fl.json("jobs", "cancel", "--task", "x") == {"matched": 2, "more": True, "done": False}


# ---------------------------------------------------------------- operations


def test_operations_are_steered(fl):
    assert fl("operations", "list").stdout == "no operations\n" if fl("enqueue", "x") else ""
    fl.die("a", "b")
    ids = [
        fl.json("dead", "replay", "--task", "boom", "--detach", "--rate", "0.001", "--limit", "2")["operation"]
        for _ in range(2)
    ]
    assert fl("operations", "pause", ids[0]).stdout == "paused: 0 of 2 jobs are done\n"
    assert fl("operations", "run", ids[0]).stdout == "0 jobs retried; 2 left as they were\n"
    assert fl.json("operations", "resume", ids[0])["state"] == "running"
    assert fl("operations", "cancel", ids[0]).stdout == "cancelled: 0 of 2 jobs are done\n"
    assert "it cannot be paused" in fl("operations", "pause", ids[0], code=1).stderr
    assert [one["id"] for one in fl.json("operations", "list")["operations"]] == ids[::-1]
    shown = fl("operations", "show", ids[1]).stdout
    assert "which task" in shown
    assert "boom" in shown
    assert fl.json("operations", "show", NIL, code=1)["error"]["type"] == "OperationNotFound"
    assert fl.json("operations", "show", "zz", code=1)["error"]["type"] == "InvalidValue"
