"""Real processes race for dedup keys, and are killed while jobs wait for each other. B13, B14, B28; T-B14, T-M24.

What ran is judged from the oracle log; what was answered, from what the producers print.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest
from field import Field, Process, seeded

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

LONG_S = 60.0
"""Longest wait for an event; only a failing test waits that long."""


class Answer(NamedTuple):
    """What one enqueue was told: created, held or conflict."""

    what: str
    job: str
    key: str
    value: str
    asked_ns: int


def race(field: Field, producers: int, **options: Any) -> list[Answer]:
    """Let producers begin at one instant, and return all that they were told."""
    running = gathered(field, producers, **options)
    go(field)
    assert running.wait(LONG_S) == 0
    return told(field)


def gathered(field: Field, producers: int, **options: Any) -> Process:
    """Start producers and wait until all are ready to begin."""
    folder = field.folder / "race"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    running = field.run("herd", count=producers, folder=str(folder), **options)
    field.until(lambda: len(list(folder.glob("*.ready"))) == producers, "the last producer", LONG_S)
    return running


def go(field: Field) -> None:
    (field.folder / "race" / "go").touch()


def told(field: Field) -> list[Answer]:
    answers: list[Answer] = []
    for path in (field.folder / "race").glob("*.told"):
        for line in path.read_text().splitlines():
            what, job, key, value, asked_ns = line.split()
            answers.append(Answer(what, job, key, value, int(asked_ns)))
    return answers


def rows(field: Field) -> dict[str, tuple[str, int, bool]]:
    """Return each stored job's key, state and whether it waits as a successor, by id."""
    db = sqlite3.connect(f"file:{field.path}?mode=ro", uri=True)
    try:
        found = db.execute("SELECT lower(hex(id)), dedup, state, successor FROM job").fetchall()
    finally:
        db.close()
    return {job: (key, state, bool(successor)) for job, key, state, successor in found}


def plain(job: str) -> str:
    return job.replace("-", "")


def assert_answers_fit_the_rows(answers: list[Answer], stored: dict[str, tuple[str, int, bool]]) -> None:
    """Every id that was told exists and has the key that was asked for; what was created was created once."""
    for answer in answers:
        assert stored[plain(answer.job)][0].endswith(f":k{answer.key}")
    created = [plain(answer.job) for answer in answers if answer.what == "created"]
    assert len(created) == len(set(created))
    assert set(created) == set(stored)


def test_fifty_producers_make_one_job_of_each_key(field: Field) -> None:
    """B14: nobody works; one live job a key, and every caller got an id that exists."""
    answers = race(field, 50, mode="return", keys=40, times=2)
    stored = rows(field)
    assert_answers_fit_the_rows(answers, stored)
    assert Counter(key for key, _, _ in stored.values()) == {f"7:default:k{number}": 1 for number in range(40)}
    assert Counter(answer.what for answer in answers) == {"created": 40, "held": 50 * 40 * 2 - 40}
    field.finish(LONG_S)
    field.audit()


@pytest.mark.parametrize("mode", ["return", "raise", "replace", "successor"])
def test_four_modes_under_eight_producers(field: Field, mode: str) -> None:
    """T-B14: eight producers, three keys, two workers beside them; never two runs of a key at once."""
    for _ in range(2):
        field.worker(concurrency=4)
    answers = race(field, 8, mode=mode, keys=3, times=40)
    field.until_done(LONG_S)
    stored = rows(field)
    assert_answers_fit_the_rows(answers, stored)
    key_of = {answer.job: answer.key for answer in answers}
    most = field.running(by=lambda line: key_of.get(line.job, line.job))
    assert {key: count for key, count in most.items() if count > 1} == {}
    ran = [line.job for line in field.lines("value")]
    assert Counter(ran).most_common(1)[0][1] == 1, "the same arguments ran twice"
    assert len(ran) == len(stored)
    check = {"return": _returned, "raise": _raised, "replace": _replaced, "successor": _succeeded}[mode]
    check(field, answers, ran)
    field.audit()


def _returned(field: Field, answers: list[Answer], ran: list[str]) -> None:
    assert {answer.what for answer in answers} == {"created", "held"}
    assert set(ran) == {answer.value for answer in answers if answer.what == "created"}


def _raised(field: Field, answers: list[Answer], ran: list[str]) -> None:
    assert {answer.what for answer in answers} == {"created", "conflict"}
    assert set(ran) == {answer.value for answer in answers if answer.what == "created"}


def _replaced(field: Field, answers: list[Answer], ran: list[str]) -> None:
    """What ran was accepted; the last that ran of each key is the last that some producer had accepted."""
    accepted = [answer for answer in answers if answer.what != "conflict"]
    assert set(ran) <= {answer.value for answer in accepted}
    latest: dict[str, dict[str, str]] = defaultdict(dict)
    for answer in accepted:
        latest[answer.key][answer.value.split(".")[0]] = answer.value
    last = {line.job.split(".")[2]: line.job for line in field.lines("value")}
    for key, value in last.items():
        assert value in latest[key].values()


def _succeeded(field: Field, answers: list[Answer], ran: list[str]) -> None:
    """After each call, a job of its key started: what had been changed before the call was seen by some run."""
    assert {answer.what for answer in answers} == {"created", "held"}
    assert set(ran) == {answer.value for answer in answers if answer.what == "created"}
    key_of = {answer.job: answer.key for answer in answers}
    last: dict[str, int] = {}
    for line in field.lines("start"):
        last[key_of[line.job]] = max(last.get(key_of[line.job], 0), line.at_ns)
    for answer in answers:
        assert last[answer.key] > answer.asked_ns


def test_a_key_that_is_kept_lets_one_job_through(field: Field) -> None:
    """T-B14, throttle: however fast the job ends, nobody makes another before the time is over."""
    field.worker(concurrency=4)
    answers = race(field, 8, mode="return", keys=2, times=40, ttl=600)
    field.until_done(LONG_S)
    assert_answers_fit_the_rows(answers, rows(field))
    assert Counter(answer.what for answer in answers) == {"created": 2, "held": 8 * 2 * 40 - 2}
    field.audit()


def test_killed_holders_and_producers_leak_no_key(field: Field) -> None:
    """B13: workers die with the holder in their hands; its successor gets its turn all the same, and then every key
    is free.
    """
    rng = seeded(14)
    workers = [field.worker(concurrency=2, lease=2.0) for _ in range(3)]
    lonely = field.run("keyed", folder=str(field.folder), name="lonely", mode="successor", keys=4, times=10_000)
    field.until((field.folder / "lonely.ready").exists, "a producer", LONG_S)
    producers = gathered(field, 2, mode="successor", keys=4, times=60)
    (field.folder / "go").touch()
    go(field)
    for _ in range(6):
        seen = len(field.lines("start"))
        field.until(lambda seen=seen: len(field.lines("start")) > seen + 3, "work", LONG_S)
        victim = rng.randrange(3)
        field.kill9(workers[victim])
        workers[victim] = field.worker(concurrency=2, lease=2.0)
    assert producers.wait(LONG_S) == 0
    field.kill9(lonely)
    field.until_done(LONG_S)
    stored = rows(field)
    assert {state for _, state, _ in stored.values()} == {3}
    assert set(field.ends()) >= set(field.accepted())
    answers = race(field, 1, mode="raise", keys=4, times=1)
    assert [answer.what for answer in answers] == ["created"] * 4
    field.until_done(LONG_S)
    assert len(rows(field)) == len(stored) + 4
    field.audit()


# ---------------------------------------------------------------- order


@pytest.mark.parametrize("hit", [1, 700, 1_300, 2_400])
def test_death_in_the_middle_of_a_release_loses_nobody(field: Field, hit: int) -> None:
    """2,500 jobs wait for one; the process that frees them dies at one of them, in the first or a later portion."""
    first = field.app.enqueue("nap", {})
    new = [field.app.new("nap", after=first) for _ in range(2_500)]
    made = field.app.enqueue_many(new)
    field._mine += [str(job.id) for job in (first, *made)]
    field.died(field.worker(fail=f"mid_promote:exit:{hit}", concurrency=8), LONG_S)
    states = field.states()
    assert states.get("scheduled", 0) in ({2_500} if hit <= 1_000 else {1_500, 500})
    field.finish(LONG_S)
    assert set(field.ends()) == set(field.accepted())
    assert_order(field, {str(job.id): [str(first.id)] for job in made})
    field.assert_only_killed_runs_doubled(slots=8)
    field.audit()


def test_order_holds_while_workers_are_killed(field: Field) -> None:
    """A web of chains, diamonds and joins: every job starts after all that it waits for have ended, and all run."""
    rng = seeded(24)
    new = [field.app.new("nap", {"ms": 2})]
    for place in range(1, 240):
        after = rng.sample(new[max(0, place - 30) : place], min(place, rng.choice([0, 1, 1, 2, 3])))
        new.append(field.app.new("nap", {"ms": 2}, after=after, tier=rng.randrange(5)))  # type: ignore[misc]
    made = field.app.enqueue_many(new)
    field._mine += [str(job.id) for job in made]
    workers = [field.worker(concurrency=4, lease=2.0) for _ in range(3)]
    for _ in range(6):
        wanted = len(field.lines()) + rng.randint(10, 60)
        field.until(lambda wanted=wanted: len(field.lines()) >= wanted, "work", LONG_S)
        victim = rng.randrange(3)
        field.kill9(workers[victim])
        workers[victim] = field.worker(concurrency=4, lease=2.0)
    field.until_done(LONG_S)
    assert set(field.ends()) == set(field.accepted())
    names = {job.id: str(handle.id) for job, handle in zip(new, made, strict=True)}
    assert_order(field, {names[job.id]: [names[one] for one in job.after] for job in new})
    field.assert_only_killed_runs_doubled(slots=4)
    field.audit()


def assert_order(field: Field, after: dict[str, list[str]]) -> None:
    """See that no job started before those that it waits for had ended."""
    ended: dict[str, int] = {}
    for line in field.lines("end"):
        ended.setdefault(line.job, line.at_ns)
    for line in field.lines("start"):
        for parent in after.get(line.job, ()):
            assert ended[parent] < line.at_ns, f"{line.job} started before {parent} had ended"
