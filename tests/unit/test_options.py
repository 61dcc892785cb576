"""Options of one job, and what a handler may raise or return."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
import uuid
from typing import Any

import msgspec
import pytest

import fairlane as fl
from fairlane.outcomes import UNSTORED, result_json
from fairlane.tasks import Task

NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.UTC)


@dataclasses.dataclass
class Point:
    x: int
    at: dt.datetime


class Price(msgspec.Struct):
    amount: decimal.Decimal


def send(to: str) -> None: ...


def task_of(**options: Any) -> Task[..., Any]:
    return Task(send, **options)


# ---------------------------------------------------------------- options of jobs

LATER = NOW + dt.timedelta(hours=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tier": 5}, "tier 5 is not one of"),
        ({"tier": True}, "tier True"),
        ({"tier": ""}, "tier ''"),
        ({"tenant": None}, "tenant must be text"),
        ({"tenant": "t" * 256}, "tenant has 256 bytes; the maximum is 255"),
        ({"queue": ""}, "queue is empty"),
        ({"delay": -1}, "delay is -1"),
        ({"delay": float("nan")}, "delay is nan"),
        ({"delay": 1, "scheduled_at": LATER}, "delay is 1 and scheduled_at"),
        ({"scheduled_at": NOW.replace(tzinfo=None)}, "without a timezone"),
        ({"scheduled_at": 5}, "scheduled_at must be a datetime"),
        ({"expires_in": 0}, "expires_in is 0"),
        ({"expires_in": 5, "delay": 5}, "expires_in is 5; it must be above delay, 5"),
        ({"expires_in": 5, "expires_at": LATER}, "expires_in is 5 and expires_at"),
        ({"expires_at": NOW, "scheduled_at": LATER}, "expires_at must be later"),
        ({"dedup_key": ""}, "dedup_key is empty"),
        ({"on_conflict": "ignore"}, "on_conflict 'ignore' is not one of return, raise, replace, successor"),
        ({"expedite": 1}, "expedite must be True or False"),
        ({"tags": "one"}, "tags must be a list"),
        ({"tags": ["a", ""]}, "tag is empty"),
        ({"trace": "x" * 2000}, "trace has 2000 bytes"),
    ],
)
def test_wrong_job_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(fl.InvalidJob) as refused:
        task_of().using(**options)
    assert says in str(refused.value)


def test_unknown_job_options_are_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"using\(\) got an unexpected option 'tenat'; there are after, dedup_key"):
        task_of().using(tenat="x")  # type: ignore[call-arg]


def test_options_add_up() -> None:
    plan = task_of(queue="mail", tier=1).using(tenant="a", delay=1.5).using(tier="low", tags=["x"]).plan
    job = plan.job("send", "{}", 1000)
    assert (job.queue, job.tenant, job.tier, job.delay_ms, job.tags) == ("mail", "a", 3, 1500, ("x",))
    assert uuid.UUID(bytes=job.id).version == 7


def test_instants_are_stored_in_milliseconds() -> None:
    east = dt.timezone(dt.timedelta(hours=5, minutes=30))
    plan = task_of().using(scheduled_at=NOW.astimezone(east), expires_at=LATER).plan
    assert (plan.scheduled_at_ms, plan.expires_at_ms) == (1714979289123, 1714979289123 + 3_600_000)
    assert task_of().using(expires_in=2).plan.job("send", "{}", 1000).expires_at_ms == 3000


# ---------------------------------------------------------------- outcomes


def test_outcomes_check_their_arguments() -> None:
    assert fl.Snooze(1.5).delay_ms == fl.NotReady(1.5).delay_ms == fl.RateLimited("openai", 1.5).delay_ms == 1500
    for wrong in (lambda: fl.Snooze(-1), lambda: fl.NotReady(float("nan")), lambda: fl.RateLimited("", 1)):
        with pytest.raises(fl.InvalidValue):
            wrong()


def test_a_reason_never_spoils_an_outcome() -> None:
    class Silent:
        def __str__(self) -> str:
            raise ValueError

    assert fl.Dead("a\0b").reason == "a\ufffdb"
    assert fl.Cancel(ValueError("why")).reason == "why"
    assert "Silent" in fl.Dead(Silent()).reason
    assert len(fl.Dead("x" * 100_000).reason) == 16 * 1024


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"a": [1, None, True, "x"]}, {"a": [1, None, True, "x"]}),
        ("a\0b", "a\ufffdb"),
        ("\ud800", "?"),
        (2**70, str(2**70)),
        ([float("inf")], [None]),
        ({1: 2}, {"1": 2}),
        ({"d": decimal.Decimal("NaN")}, {"d": "NaN"}),
        (Price(decimal.Decimal("1.0")), {"amount": "1.0"}),
        ([b"\xff"], ["b'\\xff'"]),
        (Point(2**70, NOW), {"x": str(2**70), "at": "2024-05-06T07:08:09.123456Z"}),
    ],
)
def test_results_are_made_storable(value: object, stored: object) -> None:
    assert json.loads(result_json(value)) == stored


def test_a_result_that_is_too_large_leaves_a_note() -> None:
    assert "262144" in json.loads(result_json("x" * 300_000))[UNSTORED]


def test_a_result_that_holds_itself_does_not_hang() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert json.loads(result_json(loop))
