"""The wall clock is set while processes work: B07, B36. What is a span of time stays one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from field import Field
from set_clock import SetClock, put

pytestmark = [pytest.mark.crash, pytest.mark.timeout(90)]

HOUR_S = 3600


@pytest.fixture
def clock_file(tmp_path: Path) -> Path:
    path = tmp_path / "clock"
    path.write_text("0")
    return path


@pytest.fixture
def field(tmp_path: Path, clock_file: Path) -> Iterator[Field]:
    made = Field(tmp_path, clock=SetClock(str(clock_file)))
    yield made
    made.close()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_takes_no_lease_away(field: Field, clock_file: Path, hours: int):
    """Two workers, one with free slots: news of work makes it claim, and a claim takes back what has lapsed."""
    env = {"CLOCK": str(clock_file)}
    held = field.enqueue("hold", 2, ms=4_000)
    busy = field.run("worker", env=env, concurrency=2, lease=30)
    field.until_started(2)
    free = field.run("worker", env=env, concurrency=2, lease=30)
    (before,) = field.enqueue("nap")
    field.until(lambda: field.ends()[before], "a run of the other")
    put(clock_file, hours * HOUR_S)
    (after,) = field.enqueue("nap")
    field.until_done()
    assert field.starts() == field.ends() == dict.fromkeys([*held, before, after], 1)
    assert (busy.poll(), free.poll()) == (None, None)
    field.audit(crash_budget=0)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_process_whose_clock_is_wrong_takes_no_lease_away(field: Field, tmp_path: Path, hours: int):
    """As one would be that has not yet seen that the clock was set."""
    wrong = tmp_path / "wrong"
    put(wrong, hours * HOUR_S)
    field.enqueue("hold", 2, ms=2_500)
    field.run("worker", concurrency=2, lease=30)
    field.until_started(2)
    field.run("worker", env={"CLOCK": str(wrong)}, concurrency=2, lease=30)
    field.until_done()
    (more,) = field.enqueue("nap")
    field.until_done()
    assert set(field.starts().values()) == {1}
    assert field.ends()[more] == 1
    field.audit(crash_budget=0)


def test_a_clock_that_is_set_back_holds_nothing_up(field: Field, clock_file: Path):
    """A retry, a run whose holder is gone, and one that nobody renews come back as if nothing had happened."""
    env = {"CLOCK": str(clock_file)}
    put(clock_file, HOUR_S)
    (pulled,) = field.enqueue("nap")
    puller = field.run("puller", env=env, lease=2.0)
    field.until_started(1)
    (killed,) = field.enqueue("wait_for", path=str(field.folder / "release"), first=True)
    (retried,) = field.enqueue("fails_once")
    worker = field.run("worker", env=env, concurrency=4, lease=30)
    field.until(lambda: field.starts()[killed] and field.lines("fail"), "the starts")
    field.kill9(worker)
    put(clock_file, 0)
    field.kill9(puller)
    began = time.monotonic()
    field.run("worker", env=env, concurrency=4, lease=30)
    field.until_done()
    assert time.monotonic() - began < 60, "far below the hour"
    assert {job: field.ends()[job] for job in (pulled, killed, retried)} == {pulled: 1, killed: 1, retried: 1}
    field.audit(crash_budget=1)
