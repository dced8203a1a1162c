"""Plots of curves over time as HTML with inline SVG, without anything to fetch. Pure.

The SVG is stretched to the available width; labels stand beside it as text, which is not stretched.
Unknown values are a gap in a curve and a shade behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from offsetwatch.history.failover_report.summary import STEP_S, Curve

WIDTH, HEIGHT = 1000, 200  # of the SVG's own units
# As many as a wide screen has room for. Where minutes are more, each step is the worst of several.
STEPS_MAX: Final = 720
TICKS_MAX: Final = 5
_BOX: Final = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
_UNKNOWN: Final = '<span class="key"><i class="gap"></i>not known</span>'
_TICKS_MIN: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200)


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A curve, its label, and the CSS class that it is drawn by."""

    name: str
    drawn_by: str
    values: Curve


@dataclass(frozen=True, slots=True)
class _Steps:
    """Division of curves into `count` steps of `minutes` minutes each."""

    count: int
    minutes: int

    def of(self, curve: Curve) -> Curve:
        """Return the highest known value in each step."""
        found: Curve = []
        for step in range(self.count):
            part = curve[step * self.minutes : (step + 1) * self.minutes]
            found.append(max((moment for moment in part if moment is not None), default=None))
        return found

    def unknown(self, curves: Sequence[Curve]) -> list[bool]:
        """Return for each step whether it has an unknown value."""
        return [
            any(None in curve[step * self.minutes : (step + 1) * self.minutes] for curve in curves)
            for step in range(self.count)
        ]


def plot(
    title: str, minutes: Sequence[float], lines: Sequence[PlotLine], shown: Callable[[float], str]
) -> str:
    """Return a figure as HTML. `shown` formats a value with its unit."""
    each = math.ceil(len(minutes) / STEPS_MAX)
    steps = _Steps(math.ceil(len(minutes) / each), each)
    curves = [steps.of(line.values) for line in lines]
    top = (
        max((moment for curve in curves for moment in curve if moment is not None), default=0) or 1
    )
    legend = "".join(
        f'<span class="key"><i class="{line.drawn_by}"></i>{escape(line.name)}</span>'
        for line in lines
    )
    worst = f" · each step is the worst of {each} minutes" if each > 1 else ""
    return "\n".join(
        (
            f"<figure><figcaption>{escape(title)}{worst}</figcaption>",
            f'<div class="legend">{legend}{_UNKNOWN}</div>',
            '<div class="plot"><div class="y">',
            *(f"<span>{escape(shown(value))}</span>" for value in (top, 0)),
            "</div><div>",
            f'<svg {_BOX} role="img" aria-label="{escape(title)}">',
            *_gaps(steps.unknown([line.values for line in lines])),
            *(f'<path class="grid" d="M0 {y}H{WIDTH}"/>' for y in (0, HEIGHT / 2, HEIGHT)),
            *(
                f'<path class="{line.drawn_by}" d="{_path(curve, top)}"/>'
                for line, curve in zip(lines, curves, strict=True)
            ),
            '</svg><div class="x">',
            *_ticks(minutes),
            "</div></div></div></figure>",
        )
    )


def _path(curve: Curve, top: float) -> str:
    """Return the path of a step curve: a value holds until the next; without one the line ends."""
    wide = WIDTH / len(curve)
    found: list[str] = []
    pen = False
    for place, value in enumerate(curve):
        if value is None:
            pen = False
            continue
        y = f"{HEIGHT * (1 - value / top):.1f}"
        found.append(f"V{y}" if pen else f"M{place * wide:.1f} {y}")
        found.append(f"H{(place + 1) * wide:.1f}")
        pen = True
    return "".join(found)


def _gaps(unknown: list[bool]) -> Iterator[str]:
    wide = WIDTH / len(unknown)
    begin: int | None = None
    for place, gap in enumerate([*unknown, False]):
        if gap and begin is None:
            begin = place
        elif not gap and begin is not None:
            yield (
                f'<rect class="gap" x="{begin * wide:.1f}" y="0" '
                f'width="{(place - begin) * wide:.1f}" height="{HEIGHT}"/>'
            )
            begin = None


def _ticks(minutes: Sequence[float]) -> Iterator[str]:
    """Yield labels at round times of day; TICKS_MAX bounds their number."""
    span_min = len(minutes) or 1
    every_s = STEP_S * next(
        (at for at in _TICKS_MIN if span_min / at <= TICKS_MAX), math.ceil(span_min / TICKS_MAX)
    )
    form = "%H:%M" if span_min <= 1440 else "%m-%d %H:%M"
    position = math.ceil(minutes[0] / every_s) * every_s
    while position <= minutes[-1]:
        left = (position - minutes[0]) / STEP_S / span_min * 100
        if left <= 92:  # a label that began later would not end on the page
            said = datetime.fromtimestamp(position, tz=UTC).strftime(form)
            yield f'<span style="left:{left:.2f}%">{said}</span>'
        position += every_s
