"""
Lines over time as SVG, in plain text: a picture in docs/ should need no library.

Called by standstill.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 76, 48
TICKS = 7
# Told apart without colour too: by width and by dashes. Chosen for people who see few colours.
STYLES = (
    'stroke="#bbbbbb" stroke-width="7"',
    'stroke="#0072b2" stroke-width="2"',
    'stroke="#d55e00" stroke-width="2" stroke-dasharray="7 4"',
)

_HEAD = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    'font-family="sans-serif" font-size="12">'
)

Row = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """A line: what it is called, and the column of the rows that it is made of (0 is time)."""

    name: str
    column: int


def picture(*, title: str, x: str, y: str, series: Sequence[Series], rows: Sequence[Row]) -> str:
    """The whole picture. Rows are ascending in time; a gap in a column is a gap in its line."""
    times = [row[0] or 0.0 for row in rows]
    values = [row[at.column] for row in rows for at in series]
    low, high = min(times), max(times)
    top = max(value for value in values if value is not None)
    scale = _Scale(low, high, top)
    return "\n".join(
        (
            _HEAD,
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
            *_axes(scale, x, y),
            *(_line(scale, at, style, rows) for at, style in zip(series, STYLES, strict=False)),
            *_legend(series),
            "</svg>\n",
        )
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """From seconds to the picture's units."""

    low: float
    high: float
    top: float

    def x(self, at: float) -> float:
        return LEFT + (at - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def _axes(scale: _Scale, x: str, y: str) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for at in _ticks(scale.low, scale.high):
        place = f"{scale.x(at):.1f}"
        yield f'<path d="M{place} {TOP}V{bottom}" stroke="#eeeeee"/>'
        yield f'<text x="{place}" y="{bottom + 16}" text-anchor="middle">{at:g}</text>'
    for at in _ticks(0.0, scale.top):
        place = f"{scale.y(at):.1f}"
        yield f'<path d="M{LEFT} {place}H{right}" stroke="#eeeeee"/>'
        yield f'<text x="{LEFT - 6}" y="{place}" dy="4" text-anchor="end">{at:g}</text>'
    yield f'<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="black" fill="none"/>'
    centre, middle = (LEFT + right) / 2, (TOP + bottom) / 2
    yield f'<text x="{centre}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x)}</text>'
    yield (
        f'<text x="16" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 16 {middle})">{escape(y)}</text>'
    )


def _ticks(low: float, high: float) -> Iterator[float]:
    """Round numbers, about as many as there is room for."""
    rough = (high - low) / TICKS
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * by for by in (1, 2, 5, 10) if size * by >= rough)
    at = math.ceil(low / step) * step
    while at <= high:
        yield at
        at += step


def _line(scale: _Scale, at: Series, style: str, rows: Sequence[Row]) -> str:
    parts, begun = [], False
    for row in rows:
        value = row[at.column]
        if value is not None:
            verb = "L" if begun else "M"
            parts.append(f"{verb}{scale.x(row[0] or 0.0):.1f} {scale.y(value):.1f}")
        begun = value is not None
    return f'<path d="{"".join(parts)}" fill="none" stroke-linejoin="round" {style}/>'


def _legend(series: Sequence[Series]) -> Iterator[str]:
    for number, (at, style) in enumerate(zip(series, STYLES, strict=False)):
        y = 34 + 15 * number
        yield f'<path d="M{LEFT} {y - 4}h36" fill="none" {style}/>'
        yield f'<text x="{LEFT + 44}" y="{y}">{escape(at.name)}</text>'
