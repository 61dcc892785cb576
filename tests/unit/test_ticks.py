"""When ticks are: cron expressions, intervals, daylight saving time, late ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairlane.domain.ticks import (
    CATCH_UP,
    COUNTED,
    DAY_MS,
    Cron,
    Every,
    When,
    cron,
    due,
    every,
    in_words,
    latest_ticks,
    next_tick,
    ticks,
)
from fairlane.errors import InvalidValue

PARIS = "Europe/Paris"


def ms(text: str) -> int:
    """Return an instant, UTC, in milliseconds."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def shown(at_ms: int, tz: str = "UTC") -> str:
    at = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(tz))
    return at.isoformat(timespec="minutes")


def between(when: When, first: str, last: str, tz: str = PARIS) -> list[str]:
    """Return the ticks from one instant to another, both UTC, as people there see them."""
    found = takewhile(lambda at_ms: at_ms < ms(last), ticks(when, ms(first) - 1))
    return [shown(at_ms, tz) for at_ms in found]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "5-3 * * * *",
        "*/0 * * * *",
        "every day",
        "@reboot",
        "1/1/1 * * * *",
        "* * * * MON#6",
        "* * * * L",
        "* * ٣ * *",
        "9" * 250 + " * * * *",
        "0 0 1 1 *\0",
    ],
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidValue, match="cron"):
        cron(expression)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 */30 2 MON#5"])
def test_an_expression_that_never_matches_is_refused(expression: str) -> None:
    with pytest.raises(InvalidValue, match="cron"):
        cron(expression)


def test_a_long_expression_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidValue, match="the maximum is 255"):
        cron(",".join(["1"] * 5_000) + " * * * *")


@pytest.mark.parametrize("tz", ["Mars/Olympus", "Europe", "../../etc/passwd", "/etc/localtime", "a\ud800", "", 3])
def test_an_unknown_zone_is_refused(tz: object) -> None:
    with pytest.raises(InvalidValue, match="tz"):
        cron("* * * * *", tz)


@pytest.mark.parametrize("every_ms", [0, 999, -1, 36_600 * DAY_MS + 1, 1000.0, True, None])
def test_an_interval_out_of_range_is_refused(every_ms: object) -> None:
    with pytest.raises(InvalidValue, match="every_ms"):
        every(every_ms)


@given(
    st.text(alphabet="0123456789*/,-#LWMONSUN ", max_size=40)
    | st.lists(st.text(alphabet="0123456789*/,-#LWMOU", min_size=1, max_size=6), min_size=5, max_size=6).map(" ".join)
)
@example("* * L/2 * *")
@example("* * * * 5L/2")
@example("L * * * *")
def test_nothing_that_is_typed_does_worse_than_to_be_refused(expression: str) -> None:
    try:
        made = cron(expression, PARIS)
    except InvalidValue:
        return
    assert in_words(made)
    assert next_tick(made, ms("2026-01-01")) is not None


def test_aliases_and_case() -> None:
    assert cron(" @Daily ") == Cron("0 0 * * *")
    assert cron("0  7 * * MON-fri").expression == "0 7 * * MON-fri"
    assert between(cron("0 7 * * mon-fri"), "2027-01-01", "2027-01-06", "UTC") == [
        "2027-01-01T07:00+00:00",
        "2027-01-04T07:00+00:00",
        "2027-01-05T07:00+00:00",
    ]


def test_six_fields_begin_with_the_second() -> None:
    assert list(islice(ticks(cron("*/20 * * * * *"), ms("2027-01-01")), 3)) == [
        ms("2027-01-01T00:00:20"),
        ms("2027-01-01T00:00:40"),
        ms("2027-01-01T00:01:00"),
    ]


# ---------------------------------------------------------------- daylight saving time


def test_a_time_that_the_gap_leaves_out_comes_right_after_it() -> None:
    """Paris, 28 March 2027: after 01:59 comes 03:00."""
    assert between(cron("30 2 * * *", PARIS), "2027-03-27", "2027-03-30") == [
        "2027-03-27T02:30+01:00",
        "2027-03-28T03:00+02:00",
        "2027-03-29T02:30+02:00",
    ]


def test_times_that_the_gap_makes_one_are_one_tick() -> None:
    assert between(cron("0,20,40 2,3 * * *", PARIS), "2027-03-28", "2027-03-29T00:00") == [
        "2027-03-28T03:00+02:00",
        "2027-03-28T03:20+02:00",
        "2027-03-28T03:40+02:00",
    ]


def test_a_time_that_comes_twice_is_one_tick_the_first_one() -> None:
    """Paris, 31 October 2027: after the first 02:59 comes 02:00 again."""
    assert between(cron("30 2 * * *", PARIS), "2027-10-30", "2027-11-02") == [
        "2027-10-30T02:30+02:00",
        "2027-10-31T02:30+02:00",
        "2027-11-01T02:30+01:00",
    ]


def test_of_an_hour_that_comes_twice_the_first_one_counts() -> None:
    assert between(cron("0,30 2,3 * * *", PARIS), "2027-10-30T22:00", "2027-10-31T23:00") == [
        "2027-10-31T02:00+02:00",
        "2027-10-31T02:30+02:00",
        "2027-10-31T03:00+01:00",
        "2027-10-31T03:30+01:00",
    ]


@pytest.mark.parametrize("after", ["2027-10-31T00:30", "2027-10-31T00:59", "2027-10-31T01:00", "2027-10-31T01:29"])
def test_the_second_time_is_no_tick_wherever_one_begins_to_look(after: str) -> None:
    """A look that begins in the repeated hour must not find what is over: it would be fired again and again."""
    assert next_tick(cron("30 2 * * *", PARIS), ms(after)) == ms("2027-11-01T01:30")


def test_what_comes_every_hour_comes_every_hour() -> None:
    """An hour field of ``*`` goes by elapsed time: no tick in the gap, and both in the repeated hour."""
    assert between(cron("30 * * * *", PARIS), "2027-03-28T00:00", "2027-03-28T03:00") == [
        "2027-03-28T01:30+01:00",
        "2027-03-28T03:30+02:00",
        "2027-03-28T04:30+02:00",
    ]
    assert between(cron("30 * * * *", PARIS), "2027-10-31T00:00", "2027-10-31T03:00") == [
        "2027-10-31T02:30+02:00",
        "2027-10-31T02:30+01:00",
        "2027-10-31T03:30+01:00",
    ]


def test_a_minute_of_star_in_a_fixed_hour_goes_by_the_wall_clock() -> None:
    """``*/30 2``: nothing on the day without that hour, four on the day that has it twice."""
    assert between(cron("*/30 2 * * *", PARIS), "2027-03-27T23:00", "2027-03-28T22:00") == []
    assert len(between(cron("*/30 2 * * *", PARIS), "2027-10-30T22:00", "2027-10-31T23:00")) == 4


def test_zones_that_change_at_midnight() -> None:
    """Santiago, 5 September 2027: after 23:59 of the 4th comes 01:00."""
    assert between(cron("0 0 * * *", "America/Santiago"), "2027-09-04", "2027-09-07", "America/Santiago") == [
        "2027-09-04T00:00-04:00",
        "2027-09-05T01:00-03:00",
        "2027-09-06T00:00-03:00",
    ]


def test_intervals_know_no_daylight_saving_time() -> None:
    """A day is 24 hours from the anchor: an hour later on the clock after March, an hour earlier after October."""
    daily = every(DAY_MS, ms("2027-03-27T01:30"))
    assert between(daily, "2027-03-27", "2027-03-30") == [
        "2027-03-27T02:30+01:00",
        "2027-03-28T03:30+02:00",
        "2027-03-29T03:30+02:00",
    ]
    half = every(1_800_000, ms("2027-01-01"))
    found = list(islice(ticks(half, ms("2027-10-31T00:00")), 6))
    assert [later - sooner for sooner, later in pairwise(found)] == [1_800_000] * 5


# ---------------------------------------------------------------- intervals


def test_the_first_tick_is_the_anchor_also_when_it_lies_ahead() -> None:
    assert list(islice(ticks(Every(10_000, 50_000), 3_000), 3)) == [50_000, 60_000, 70_000]
    assert next_tick(Every(10_000, 50_000), 50_000) == 60_000


@given(
    st.integers(1_000, 10**9),
    st.integers(0, 2 * 10**12),
    st.integers(0, 2 * 10**12),
)
def test_intervals_do_not_drift(every_ms: int, anchor_ms: int, after_ms: int) -> None:
    at_ms = next_tick(Every(every_ms, anchor_ms), after_ms)
    assert at_ms is not None
    assert (at_ms - anchor_ms) % every_ms == 0
    assert at_ms > after_ms
    assert at_ms - every_ms <= after_ms or at_ms == anchor_ms


# ---------------------------------------------------------------- cron expressions, whatever they are


def _field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.integers(2, 30).map(lambda step: f"*/{step}"),
        st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}"),
        st.lists(number, min_size=2, max_size=4).map(lambda some: ",".join(map(str, some))),
    )


FIELDS = st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 7))
EXPRESSIONS = FIELDS.map(" ".join) | st.tuples(_field(0, 59), FIELDS).map(lambda two: " ".join((two[0], *two[1])))
ZONES = st.sampled_from(["UTC", PARIS, "America/New_York", "Asia/Kolkata", "America/Santiago", "Pacific/Auckland"])
INSTANTS = st.one_of(
    st.integers(ms("2000-01-01"), ms("2060-01-01")),
    st.integers(ms("2027-03-27T22:00"), ms("2027-03-28T04:00")),
    st.integers(ms("2027-10-30T22:00"), ms("2027-10-31T04:00")),
)


def made(expression: str, tz: str) -> Cron:
    try:
        return cron(expression, tz)
    except InvalidValue:  # it never matches
        assume(False)
        raise


@given(EXPRESSIONS, ZONES, INSTANTS)
def test_ticks_are_later_and_each_once(expression: str, tz: str, after_ms: int) -> None:
    found = list(islice(ticks(made(expression, tz), after_ms), 20))
    assert found[0] > after_ms
    assert all(sooner < later for sooner, later in pairwise(found))
    assert all(at_ms % 1000 == 0 for at_ms in found)


@given(EXPRESSIONS, INSTANTS)
def test_ticks_are_those_of_cronsim(expression: str, after_ms: int) -> None:
    when = made(expression, "UTC")
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=after_ms)
    theirs = [round(at.timestamp() * 1000) for at in islice(CronSim(expression, start), 10)]
    assert list(islice(ticks(when, after_ms), 10)) == theirs


@given(EXPRESSIONS, ZONES, INSTANTS)
def test_ticks_are_the_same_from_wherever_one_looks(expression: str, tz: str, after_ms: int) -> None:
    """One look after the other, as a store does it, finds what one that goes through finds."""
    when = made(expression, tz)
    through = list(islice(ticks(when, after_ms), 12))
    steps: list[int] = []
    at_ms: int | None = after_ms
    while len(steps) < len(through):
        assert at_ms is not None
        at_ms = next_tick(when, at_ms)
        assert at_ms is not None
        steps.append(at_ms)
    assert steps == through


@given(EXPRESSIONS, ZONES, INSTANTS, st.integers(1, 20))
def test_the_latest_ticks_are_the_last_of_all(expression: str, tz: str, first_ms: int, most: int) -> None:
    when = made(expression, tz)
    all_of_them = list(islice(ticks(when, first_ms), 60))
    until_ms = all_of_them[-1]
    assert latest_ticks(when, until_ms, most) == all_of_them[-most:]


def test_the_end_of_the_calendar_is_no_error() -> None:
    assert next_tick(cron("* * * * *", PARIS), ms("9999-01-01T00:00:00")) is None
    assert next_tick(Every(1_000, 0), ms("9999-01-01")) is None
    assert next_tick(cron("0 0 29 2 *"), ms("2096-02-29")) == ms("2104-02-29")


# ---------------------------------------------------------------- late ticks

MINUTELY = Every(60_000, 0)


def test_ticks_within_the_grace_are_on_time_under_every_rule() -> None:
    for misfire in ("skip", "run_once", "run_all"):
        found = due(MINUTELY, 600_000, 661_000, misfire=misfire, grace_ms=61_000)
        assert found == ((600_000, 660_000), 0, 660_000, 720_000), misfire


def test_late_ticks() -> None:
    """At 10:59 of minutes, with a grace of a second, nobody has looked since 5:00."""
    asked = {"first_ms": 300_000, "now_ms": 659_000, "grace_ms": 1_000}
    assert due(MINUTELY, misfire="skip", **asked) == ((), 6, 600_000, 660_000)
    assert due(MINUTELY, misfire="run_once", **asked) == ((600_000,), 5, 600_000, 660_000)
    assert due(MINUTELY, misfire="run_all", **asked) == (
        (300_000, 360_000, 420_000, 480_000, 540_000, 600_000), 0, 600_000, 660_000,
    )  # fmt: skip


def test_one_that_is_on_time_stands_for_the_late_ones() -> None:
    assert due(MINUTELY, 300_000, 600_000, misfire="run_once", grace_ms=0) == ((600_000,), 5, 600_000, 660_000)


@pytest.mark.parametrize("when", [Every(1_000, 0), Cron("* * * * * *", PARIS), Cron("* * * * *", PARIS)])
def test_a_gap_of_years_is_bounded(when: When) -> None:
    """A thousand ticks are counted, a hundred made up for, the latest."""
    now_ms = ms("2027-06-01T12:00:30")
    found = due(when, ms("2020-01-01"), now_ms, misfire="run_all", grace_ms=0)
    assert len(found.fire) == CATCH_UP
    assert list(found.fire) == list(islice(ticks(when, found.fire[0] - 1), CATCH_UP))
    assert found.missed == COUNTED - CATCH_UP
    assert found.last_ms is not None
    assert found.next_ms == next_tick(when, now_ms)
    assert next_tick(when, found.last_ms) == found.next_ms


def test_nothing_is_due_before_the_first_tick() -> None:
    assert due(MINUTELY, 300_000, 299_999, misfire="run_all", grace_ms=0) == ((), 0, None, 300_000)


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(["skip", "run_once", "run_all"]),
    st.integers(0, 10**5),
)
def test_no_due_tick_is_lost_or_doubled(first: int, more: int, misfire: str, grace_ms: int) -> None:
    when = Every(7_000, 3)
    first_ms = next_tick(when, first)
    assert first_ms is not None
    now_ms = first_ms + more
    found = due(when, first_ms, now_ms, misfire=misfire, grace_ms=grace_ms)  # type: ignore[arg-type]
    all_of_them = list(range(first_ms, now_ms + 1, 7_000))
    assert set(found.fire) <= set(all_of_them)
    assert len(found.fire) + found.missed == len(all_of_them)
    on_time = [at_ms for at_ms in all_of_them if now_ms - at_ms <= grace_ms]
    assert set(on_time[-CATCH_UP:]) <= set(found.fire)
    assert found.next_ms is not None
    assert all_of_them[-1] < found.next_ms
    assert found.next_ms > now_ms


def test_cronsim_says_what_is_wrong() -> None:
    with pytest.raises(CronSimError):
        CronSim("61 * * * *", datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidValue, match="Bad minute"):
        cron("61 * * * *")


def test_in_words() -> None:
    assert in_words(cron("30 2 * * *", PARIS)) == "At 02:30 every day (Europe/Paris)"
    assert [in_words(Every(of)) for of in (1_000, 90_000, 3_600_000, 2 * DAY_MS, 1_500)] == [
        "every 1 second", "every 90 seconds", "every 1 hour", "every 2 days", "every 1.5 seconds",
    ]  # fmt: skip
