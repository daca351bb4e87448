"""Line charts as inline SVG: no script, no style attribute, colours and dashes from the page's own style
sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from leakscope.metrics import METRICS

CURVES = ("psnr", "l_sim", "objective")
"""What is drawn of a cell's history."""
WIDTH, HEIGHT = 380, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 34
PALETTE_SIZE = 8

Point = tuple[float, float]


def title_and_scale(name: str) -> tuple[str, bool]:
    """How the axis of a curve is titled, and whether its scale is logarithmic, as that of all that falls towards 0."""
    metric = METRICS.get(name)
    return (metric.title, not metric.higher_is_better) if metric else (name, True)


@dataclass(frozen=True)
class Series:
    """One line with its name; `colour` picks the class `line-<colour>` of the style sheet."""

    name: str
    points: tuple[Point, ...]
    colour: int = 0


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else nice_ticks(self.low, self.high)


@dataclass(frozen=True)
class Chart:
    """A titled chart; `reference` is a dashed level, such as the score of a guess."""

    title: str
    x_label: str
    series: tuple[Series, ...]
    log: bool = False
    reference: float | None = None
    summary: str = ""
    """What a reader who cannot see the picture is told."""

    def svg(self) -> Markup:
        return draw(self)


def draw(chart: Chart) -> Markup:
    """The chart as an SVG element."""
    x, y = _axes(chart)
    parts = [*_grid(x, y), *_reference(chart, y), *(_line(series, x, y) for series in chart.series)]
    parts.append(f'<text class="label" x="{(x.start + x.end) / 2:.0f}" y="{HEIGHT - 4}">{escape(chart.x_label)}</text>')
    label = escape(f"{chart.title}. {chart.summary}".strip())
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that span [low, high].

    >>> nice_ticks(3, 27)
    [5, 10, 15, 20, 25]
    """
    if low == high:  # so large that nothing can be added to it
        return [low]
    raw = (high - low) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    values = (round(k * step, 12) for k in range(first, last + 1))
    return [int(value) if value == int(value) else value for value in values]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten inside [low, high], with 2 and 5 between them where there would be fewer than three.

    >>> log_ticks(0.02, 3)
    [0.1, 1.0]
    >>> log_ticks(0.03, 0.6)
    [0.05, 0.1, 0.2, 0.5]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**p for p in powers if low <= 10.0**p <= high]
    if len(tens) >= 2:
        return tens
    return [round(m * 10.0**p, 12) for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]


def _axes(chart: Chart) -> tuple[Axis, Axis]:
    points = [point for series in chart.series for point in series.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ys += [chart.reference] if chart.reference is not None else []
    low, high = min(ys), max(ys)
    if chart.log:
        low, high = low / 1.15, high * 1.15
    else:
        pad = 0.08 * (high - low) or 0.5
        low, high = low - pad, high + pad
    left, right = min(xs), max(xs)
    if left == right:
        left, right = left - 0.5, right + 0.5
    return (
        Axis(left, right, LEFT, WIDTH - RIGHT),
        Axis(low, high, HEIGHT - BOTTOM, TOP, log=chart.log),
    )


def _grid(x: Axis, y: Axis) -> list[str]:
    below, right = HEIGHT - BOTTOM + 15, WIDTH - RIGHT
    heights = [(tick, y.place(tick)) for tick in y.ticks()]
    return [
        *(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>' for _, at in heights),
        *(f'<text class="tick end" x="{LEFT - 6}" y="{at + 4:.1f}">{tick:g}</text>' for tick, at in heights),
        *(f'<text class="tick" x="{x.place(tick):.1f}" y="{below}">{tick:g}</text>' for tick in x.ticks()),
    ]


def _reference(chart: Chart, y: Axis) -> list[str]:
    if chart.reference is None:
        return []
    at = y.place(chart.reference)
    return [
        f'<line class="reference" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>',
        f'<text class="tick end" x="{WIDTH - RIGHT}" y="{at - 5:.1f}">guess</text>',
    ]


def _line(series: Series, x: Axis, y: Axis) -> str:
    places = [(x.place(a), y.place(b)) for a, b in series.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    kind = f"line-{series.colour % PALETTE_SIZE}"
    dot = f'<circle class="dot {kind}" cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="3"/>'
    return f'<polyline class="line {kind}" points="{path}"><title>{escape(series.name)}</title></polyline>{dot}'


def clean(points: Sequence[tuple[float | None, float | None]], *, log: bool) -> tuple[Point, ...]:
    """Points that can be drawn: both numbers there, and positive where the scale is logarithmic."""
    return tuple((x, y) for x, y in points if x is not None and y is not None and (y > 0 or not log))
