"""Small line charts as inline SVG: no script, no network, colours from the page's style sheet.

All charts share one size, so that text keeps its size beside each other and on a phone. A series is drawn in the
class of its policy, which sets colour and dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fairlane.simulate.labels import DAY_S, HOUR_S, MINUTE_S, percent

WIDTH: Final = 360
HEIGHT: Final = 212
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 38

MOST_TICKS: Final = 7
ROOM: Final = 300
"""An axis of powers that spans less than this factor has ticks between the powers too."""

Point = tuple[float, float]
Tick = tuple[float, str]

_STEPS_S: Final = tuple(
    unit * times
    for unit, several in (
        (1e-3, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1.0, (1, 2, 5, 10, 15, 30)),
        (MINUTE_S, (1, 2, 5, 10, 15, 20, 30)),
        (HOUR_S, (1, 2, 3, 6, 12)),
        (DAY_S, (1, 2, 5, 7, 14, 30, 60, 120, 365)),
    )
    for times in several
)
_WAIT_TICKS: Final[tuple[Tick, ...]] = (
    (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1.0, "1 s"), (10.0, "10 s"),
    (MINUTE_S, "1 min"), (10 * MINUTE_S, "10 min"), (HOUR_S, "1 h"), (10 * HOUR_S, "10 h"),
    (4 * DAY_S, "4 d"), (40 * DAY_S, "40 d"), (400 * DAY_S, "400 d"),
)  # fmt: skip
"""About one for each factor of ten, at round lengths of time."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its ends, its ticks, and whether equal steps are equal factors. Values outside are drawn at the end."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    title: str
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end."""
        value = min(self.high, max(self.low, value))
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def time_axis(until_s: float, title: str) -> Axis:
    """Return an axis of time from 0, in the largest unit that gives at least three ticks."""
    until_s = max(until_s, 1e-3)
    step = next((step for step in _STEPS_S if until_s / step <= MOST_TICKS), until_s)
    unit_s, unit = next(
        (pair for pair in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")) if step >= pair[0] and not step % pair[0]),
        (1.0, "s"),
    )
    ticks = tuple((number * step, f"{number * step / unit_s:g}") for number in range(int(until_s / step) + 1))
    return Axis(0, until_s, ticks, f"{title}, {unit}")


def wait_axis(longest_s: float, title: str = "") -> Axis:
    """Return an axis of waits, in powers: four decades or more, the lowest tick standing for all that lies below."""
    high = max(longest_s, 0.1)
    low = max(tick for tick, _ in _WAIT_TICKS if tick <= max(high / 5_000, 0.001))
    lowest, *more = (tick for tick in _WAIT_TICKS if low <= tick[0] <= high)
    return Axis(low, high * 1.1, ((low, f"≤ {lowest[1]}"), *more), title, log=True)


def power_axis(low: float, high: float, title: str) -> Axis:
    """Return an axis of plain numbers, in powers; ticks at 1, 2 and 5 where there is room for them."""
    high = max(high, low * 4) * 1.1
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < ROOM else (1,)
    values = [digit * 10**exponent for exponent in exponents for digit in digits]
    return Axis(low, high, tuple((value, f"{value:,}") for value in values if low <= value <= high), title, log=True)


def share_axis(title: str) -> Axis:
    """Return an axis from 0 to 100 %."""
    return Axis(0, 1, tuple((part / 4, percent(part / 4)) for part in range(5)), title)


def rest_axis(title: str) -> Axis:
    """Return an axis of what is left, from 0.1 % to 100 % in powers."""
    return Axis(0.001, 1, tuple((part, percent(part)) for part in (0.001, 0.01, 0.1, 1)), title, log=True)


class Chart:
    """One chart being drawn.

    Args:
        x: The horizontal axis.
        y: The vertical axis.
        label: What the chart shows, for those who cannot see it.
    """

    def __init__(self, x: Axis, y: Axis, label: str) -> None:
        self._x = x
        self._y = y
        self._label = label
        self._parts: list[str] = []

    def at(self, point: Point) -> Point:
        """Return where a point lies in the picture."""
        across, up = self._x.place(point[0]), self._y.place(point[1])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Iterable[Point | None], kind: str) -> None:
        """Draw a line; None interrupts it, and a point alone becomes a dot."""
        path: list[str] = []
        pieces: list[list[Point]] = [[]]
        for point in points:
            if point is None:
                pieces.append([])
            else:
                pieces[-1].append(self.at(point))
        for piece in pieces:
            if len(piece) == 1:
                x, y = piece[0]
                self._parts.append(f'<circle class="pip {kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>')
            elif piece:
                path.append("M" + "L".join(_pair(point) for point in piece))
        if path:
            self._parts.append(f'<path class="line {kind}" d="{"".join(path)}"/>')

    def area(self, points: Sequence[Point], kind: str) -> None:
        """Fill from the bottom up to a line."""
        if points:
            top = [self.at(point) for point in points]
            floor = HEIGHT - BOTTOM
            corners = [(top[0][0], floor), *top, (top[-1][0], floor)]
            self._parts.append(f'<path class="area {kind}" d="M{"L".join(_pair(point) for point in corners)}z"/>')

    def dot(self, point: Point, kind: str, title: str) -> None:
        """Draw a mark with a text that shows when the pointer rests on it."""
        x, y = self.at(point)
        self._parts.append(
            f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(title)}</title></circle>'
        )

    def svg(self) -> str:
        """Return the picture."""
        floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        grid: list[str] = []
        for value, text in self._y.ticks:
            y = self.at((self._x.low, value))[1]
            grid.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
            grid.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
        for value, text in self._x.ticks:
            x = self.at((value, self._y.low))[0]
            grid.append(f'<path class="tick" d="M{x:.1f} {floor}v4"/>')
            anchor = "end" if x > right - 12 else "middle"
            grid.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="{anchor}">{escape(text)}</text>')
        middle = (LEFT + right) / 2
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self._label)}">'
            f"{''.join(grid)}"
            f'<path class="axis" d="M{LEFT} {floor}H{right}"/>'
            f'<text class="title" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(self._x.title)}</text>'
            f"{''.join(self._parts)}</svg>"
        )


def _pair(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"
