"""The arithmetic and the tables of bench/compare; what it measures is not run here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from bench.compare import figures, joblog, place, report, run, targets
from bench.compare.figures import Figure, Spread
from bench.compare.joblog import END, START, Event

FIGURES = (Figure("per_s", "jobs/s", more=True), Figure("doubled", "ran twice"))


def results(*measurements: tuple[str, str, dict[str, float] | str]) -> dict[str, Any]:
    stores = {"fairlane": "sqlite", "fairlane-postgres": "postgres", "huey": "sqlite", "pgqueuer": "postgres"}
    return {
        "at": "then",
        "command": "c",
        "machine": {"cpus": 2},
        "queues": {
            name: {"store": store, "durability": "flushed", "versions": {name: "1"}, "settings": "", "tuned_crash": ""}
            for name, store in stores.items()
        },
        "measurements": [
            {"queue": queue, "scenario": scenario} | ({"trouble": told} if isinstance(told, str) else {"figures": told})
            for queue, scenario, told in measurements
        ],
        "skipped": [{"queue": "oban", "scenario": "all", "why": "it is not here"}],
    }


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    random.Random(1).shuffle(values)
    assert [figures.percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert figures.percentile([3.0, 1.0], 0.99) == 3


def test_the_first_twentieth_is_no_part_of_a_rate() -> None:
    slow = [Event(END, 0, number, 0, number * 1_000_000_000) for number in range(5)]
    quick = [Event(END, 0, 5 + number, 0, 5_000_000_000 + number * 1_000_000) for number in range(96)]
    assert figures.steady_rate([*slow, *quick]) == pytest.approx(1_000)


def test_a_place_costs_the_starts_since_all_had_risen() -> None:
    # One risen job every eighth start: eight a place, wherever counting begins.
    order = ([0] * 7 + [1]) * 3
    assert figures.most_starts_a_place(order, 0) == 8
    assert figures.most_starts_a_place([0] * 100 + order, 100) == 8
    assert figures.most_starts_a_place([0, 0, 0], 0) == 0


def test_the_log_has_what_jobs_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(joblog.FOLDER, str(tmp_path))
    monkeypatch.setattr("bench.compare.joblog._Mine.pid", 0)
    joblog.job(3, 70_000, 5, 0)
    joblog.job(4, 1, 6, 1)
    (tmp_path / "torn.log").write_bytes(b"\1" * (joblog.RECORD.size - 1))  # a process killed in the middle of a write
    events = joblog.read(tmp_path)
    assert [event[:4] for event in events] == [(END, 3, 70_000, 5), (START, 4, 1, 6), (END, 4, 1, 6)]
    assert events[0].at_ns <= events[1].at_ns < events[2].at_ns
    assert joblog.count(tmp_path) == 3


def test_a_table_has_medians_their_spread_and_the_ratio_within_one_kind_of_store() -> None:
    found = results(
        ("fairlane", "drain1", {"per_s": 7_000.0}),
        ("fairlane", "drain1", {"per_s": 9_000.0}),
        ("fairlane", "drain1", {"per_s": 8_000.0}),
        ("fairlane-postgres", "drain1", {"per_s": 3_000.0, "doubled": 0.0}),
        ("huey", "drain1", {"per_s": 4_000.0}),
        ("huey", "drain1", "the worker ended"),
        ("pgqueuer", "drain1", {"per_s": 6_000.0}),
        ("pgqueuer", "other", {"per_s": 1.0}),
    )
    assert list(report.table(found, "drain1", FIGURES)) == [
        "| queue | power cut | jobs/s | ran twice | fairlane ÷ it | runs |",
        "|---|---|---|---|---|---|",
        "| fairlane | flushed | 8,000 (7,000..9,000) |  |  | 3 |",
        "| pgqueuer | flushed | 6,000 |  | 0.50 | 1 |",
        "| huey | flushed | 4,000 |  | 2.00 | 1 |",
        "| fairlane-postgres | flushed | 3,000 | 0 |  | 1 |",
    ]


def test_a_queue_that_failed_is_in_the_table_with_the_reason() -> None:
    found = results(("huey", "drain1", "the worker ended"), ("fairlane", "drain1", {"per_s": 1.0}))
    assert list(report.table(found, "drain1", FIGURES))[-1] == "| huey | flushed | the worker ended |  |  |"


def test_what_is_left_out_is_said() -> None:
    assert "* oban, all: it is not here" in report.markdown(results(), [])


def test_aims_are_judged_against_the_best_of_the_others() -> None:
    found = results(
        ("fairlane", "flood", {"p99_ms": 12.0, "background_per_s": 640.0}),
        ("huey", "flood", {"p99_ms": 9.0}),
        ("pgqueuer", "flood", {"p99_ms": 11.0}),
        ("fairlane", "drain1", {"per_s": 8_000.0}),
        ("huey", "drain1", {"per_s": 4_000.0}),
    )
    lines = list(targets.judged(found))
    assert "| fairlane | flood | p99_ms | 12 = 1.33 x | ≤ 1.2 x huey | **no** |" in lines
    assert "| fairlane | flood | background_per_s | 640 | ≥ 650 | **no** |" in lines
    assert "| fairlane | drain1 | per_s | 8,000 = 2.00 x | ≥ 1.5 x huey | yes |" in lines
    assert "| fairlane | drain1 | per_s | 8,000 | ≥ 2 x taskiq | not measured |" in lines


def test_earlier_results_are_joined() -> None:
    earlier, later = results(("huey", "drain1", {"per_s": 1.0})), results(("huey", "drain1", {"per_s": 3.0}))
    both = run.joined(later, earlier)
    assert report.rows(both, "drain1")[0].figures == {"per_s": Spread(2.0, 1.0, 3.0, 2)}
    assert len(both["skipped"]) == 1
    assert both["command"] == "c; c"


def test_a_python_that_refuses_to_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name, answer in (("path", "python3.12", 127), ("kept/versions/3.13.0/bin", "python3.13", 0)):
        program = tmp_path / folder / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\nexit {answer}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "nothing"))
    assert place.newer_python() is None
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "kept"))
    assert place.newer_python() == str(tmp_path / "kept/versions/3.13.0/bin/python3.13")
