"""How figures are put in words: one place, so that a number reads alike on every page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

NONE: Final = "\u2013"
"""Stands where there is no figure."""
COUNTED: Final = 10_000
"""Where a count of jobs is cut short when it would have to walk over them: shown as ``10,000+``."""
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"))


def span(ms: float | None) -> str:
    """Return a length of time with about two digits that count.

    Example:
        >>> [span(ms) for ms in (0, 4, 640, 6_400, 75_000, 3_720_000, 200_000_000)]
        ['0 s', '4 ms', '0.6 s', '6.4 s', '1 m 15 s', '1 h 2 m', '2 d 7 h']
    """
    if ms is None:
        return NONE
    if ms < 100:  # noqa: PLR2004  where tenths of a second begin to tell less
        return "0 s" if ms < 1 else f"{ms:.0f} ms"
    whole = round(ms / 1000) * 1000
    if whole < _UNITS[-1][0]:  # 59.5 s are told as a minute
        seconds = ms / 1000
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"  # noqa: PLR2004  else it would say 10.0
    for (unit, name), (lower, lower_name) in zip(_UNITS, (*_UNITS[1:], (1_000, "s")), strict=True):
        if whole >= unit:
            rest = whole % unit // lower
            return f"{whole // unit} {name} {rest} {lower_name}" if rest else f"{whole // unit} {name}"
    return f"{whole // 1000} s"


def whole(value: float | None, *, more: bool = False) -> str:
    """Return a count with thousands set apart; ``more`` says that counting stopped there.

    Example:
        >>> whole(12345), whole(10_000, more=True)
        ('12,345', '10,000+')
    """
    return NONE if value is None else f"{value:,.0f}{'+' if more else ''}"


def rate(per_second: float | None) -> str:
    """Return a rate a second, or a minute where it is small.

    Example:
        >>> rate(42.31), rate(0.5), rate(0)
        ('42.3/s', '30/min', '0/s')
    """
    if per_second is None:
        return NONE
    if per_second == 0:
        return "0/s"
    return f"{per_second:,.1f}/s" if per_second >= 1 else f"{per_second * 60:,.0f}/min"


def percent(share: float | None) -> str:
    """Return a share in percent; what is not all is never rounded up to 100.

    Example:
        >>> percent(0.5), percent(0.9996), percent(1), percent(0.004)
        ('50 %', '99.9 %', '100 %', '0.4 %')
    """
    if share is None:
        return NONE
    value = share * 100
    if value in {0, 100}:
        return f"{value:.0f} %"
    if not 1 <= value <= 99:  # noqa: PLR2004  percent
        return f"{min(max(value, 0.1), 99.9):.1f} %"
    return f"{value:.0f} %"


def clock(at_ms: int | None) -> str:
    """Return an instant for people, UTC, with milliseconds.

    Example:
        >>> clock(1_800_000_000_123)
        '2027-01-15 08:00:00.123 UTC'
    """
    if at_ms is None:
        return NONE
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03} UTC"


def iso(at_ms: int) -> str:
    """Return an instant for ``<time datetime>``.

    Example:
        >>> iso(1_800_000_000_123)
        '2027-01-15T08:00:00.123Z'
    """
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03}Z"


def since(at_ms: int | None, now_ms: int) -> str:
    """Return how far an instant lies behind or ahead.

    Example:
        >>> since(0, 5_000), since(65_000, 5_000)
        ('5.0 s ago', 'in 1 m')
    """
    if at_ms is None:
        return NONE
    return f"in {span(at_ms - now_ms)}" if at_ms > now_ms else f"{span(now_ms - at_ms)} ago"


def heat(count: int) -> int:
    """Return which of the six shades a count has, on a log scale.

    Example:
        >>> [heat(count) for count in (0, 1, 9, 10, 99, 100, 1_000, 9_999, 10_000)]
        [0, 1, 1, 2, 2, 3, 4, 4, 5]
    """
    return 0 if count <= 0 else min(5, len(str(count)))


def visible(text: str) -> str:
    r"""Return stored text with what would act on the reader's screen made visible.

    Escape sequences, other control characters and marks that turn the direction of writing are shown by their number,
    so that no stored text can hide, reorder or imitate what stands around it. HTML is escaped by the templates.

    Example:
        >>> visible("a\x1b[31mb"), visible("x\u202ey"), visible("tab\tline\n")
        ('a␛[31mb', 'x⟨U+202E⟩y', 'tab\tline\n')
    """
    return text.translate(_ACTING)


_ACTING: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in {0x09, 0x0A}},
    0x7F: "␡",
    **{code: f"⟨U+{code:04X}⟩" for code in (*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, 0xFEFF)},
    **{code: f"⟨U+{code:04X}⟩" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)},
}
