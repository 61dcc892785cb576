"""`jobs explain`, and waits and inversions in `stats`, on a real SQLite file."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # "importlib" mode finds no neighbours by itself

from cli_rig import Cli

from fairlane.app import Fairlane


@pytest.fixture
def fl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("FAIRLANE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


def test_explain_in_words(fl):
    job = fl.json("enqueue", "x", "--queue", "mail", "--tenant", "acme")["id"]
    fl("queues", "pause", "mail", "--reason", "provider\x1b[2J down")
    shown = fl("jobs", "explain", job).stdout
    assert shown.startswith("pause: queue 'mail' is paused")
    assert "provider\\x1b[2J down" in shown
    assert "also no worker: no live worker serves queue 'mail' (pool 'default')" in shown
    assert "queue mail, task x, tenant acme" in shown
    assert "not known: nobody knows when the pause ends" in shown


def test_explain_as_json(fl):
    for _ in range(2):
        job = fl.json("enqueue", "x")["id"]
    told = fl.json("jobs", "explain", job)
    assert (told["id"], told["state"], told["cause"], told["tier"]) == (job, "available", "no worker", "normal")
    assert (told["place"], told["tenants_ahead"], told["next"], told["starts_in_s"]) == (1, 0, False, None)
    assert [blocker["cause"] for blocker in told["blockers"]] == ["no worker", "own jobs ahead"]


def test_explain_of_a_job_that_has_ended(fl):
    job = fl.json("enqueue", "x")["id"]
    fl("jobs", "cancel", job, "--reason", "changed my mind")
    assert fl("jobs", "explain", job).stdout.startswith(
        "not waiting: it does not wait: it is cancelled (changed my mind)"
    )


def test_explain_of_no_job(fl):
    fl.json("enqueue", "x")
    assert "no job has the id" in fl("jobs", "explain", "0198f0de-0000-7000-8000-000000000001", code=1).stderr


def test_stats_with_waits_and_inversions(fl):
    fl.json("enqueue", "x", "--queue", "mail", "--tier", "high")
    with Fairlane(fl.url) as app:
        claim = app.claim()
        assert claim is not None
        claim.ack()
    told = fl.json("stats", "--waits", "--inversions", "--by", "tier")
    assert [(row["tier"], row["jobs"]) for row in told["waits"]["rows"]] == [("high", 1)]
    assert (told["inversions"]["starts"], told["inversions"]["unexplained"]) == (1, [])
    shown = fl("stats", "--waits", "--inversions").stdout
    assert "Waits of 1 starts since" in shown
    assert "Less urgent before more urgent, among 1 starts since" in shown
    assert "Waits" not in fl("stats").stdout
