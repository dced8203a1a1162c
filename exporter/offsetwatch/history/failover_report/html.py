"""HTML page of a failover report, self-contained: no script, nothing to fetch. Pure.

Plots are inline SVG, stretched to the available width; labels stand beside it as text, which is not
stretched. Unknown values are a gap in a curve and a shade behind it.

It is well-formed as XML too. It follows the reader's choice of light or dark, and a phone's width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import groupby
from typing import Final

from offsetwatch.clock import format_utc, to_utc
from offsetwatch.formatting import format_count
from offsetwatch.history.failover_report.summary import (
    CURVE_LABELS,
    REASON_LABELS,
    STEP_S,
    Curve,
    FailoverSummary,
    PartitionMinutes,
    Report,
    format_figure,
)

WIDTH, HEIGHT = 1000, 200  # of the SVG's own units
# As many as a wide screen has room for. Where minutes are more, each step is the worst of several.
STEPS_MAX: Final = 720
TICKS_MAX: Final = 5
_BOX: Final = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
_UNKNOWN: Final = '<span class="key"><i class="gap"></i>not known</span>'
_TICKS_MIN: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 43200)

# Beyond that a browser has long to draw; all of them are in the table, and in the Parquet file.
GROUPS_DRAWN_MAX: Final = 50
PARTITIONS_MAX: Final = 3  # named of a worst moment
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #5b636d; --paper: #ffffff;
  --card: #f4f6f8; --rule: #d5dae0; --gap: #d9dde2; --a: #b34700; --b: #a3004d; --c: #0059a8;
  --d: #5f6b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --faint: #a4adb8; --paper: #14171a;
  --card: #1d2126; --rule: #394049; --gap: #333a43; --a: #ff9d57; --b: #ff7fb5; --c: #6cb8ff;
  --d: #c9d45a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .3rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
p, li { max-width: 48rem; } .faint { color: var(--faint); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; } .n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; padding: .8rem; background: var(--card); border-radius: .5rem; }
figcaption { font-weight: 600; }
.legend { font-size: .85rem; color: var(--faint); margin: .2rem 0 .6rem; }
.key { margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: 1.1rem; border-top: 3px solid; margin-right: .35rem;
  vertical-align: middle; } .key i.gap { border-top: .7rem solid var(--gap); }
.plot { display: grid; grid-template-columns: auto 1fr; gap: .5rem; }
.y { display: flex; flex-direction: column; justify-content: space-between; height: 11rem;
  min-width: 4.5rem; font-size: .8rem; color: var(--faint); text-align: right; }
svg { display: block; width: 100%; height: 11rem; }
.x { position: relative; height: 1.2rem; font-size: .8rem; color: var(--faint); }
.x span { position: absolute; }
path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
path.grid { stroke: var(--rule); stroke-width: 1; } rect.gap { fill: var(--gap); }
.a { stroke: var(--a); border-color: var(--a) !important; }
.b { stroke: var(--b); border-color: var(--b) !important; }
.c { stroke: var(--c); border-color: var(--c) !important; }
.d { stroke: var(--d); border-color: var(--d) !important; }
.key i.b, .key i.d { border-top-style: dashed; } path.b, path.d { stroke-dasharray: 6 4; }
"""
_METHOD: Final = """\
After a failover a group continues from its own commit on the target, if it had one, else from its
newest checkpoint. The exact position follows from the offset syncs that MirrorMaker had sent by
then. The records between the two would have been read again, or never. Every figure is of the
moment at which the group's position was sampled.

Records that were not on the target lie between the last that MirrorMaker was known to have copied
and the end of the upstream log: at most so many, as commits come up to a minute late, and
transaction markers and compaction gaps count as records. The age of the oldest lies between the two
samples around its coming.

The time to read records again is at the group's own rate: that of the ten minutes before, each
partition by itself. A group that waits for new records can read old ones faster.

Where others write into the target topic, or MirrorMaker copies a topic written in transactions in
transactions of its own, what is no record may be counted as one.

What is not known is a gap, and is in no median. A group's figure is not known where that of one of
its partitions is not. Clocks are those of MirrorMaker's hosts and of the host of history run: what
they differ by, a moment may be out.
"""
# The browser itself refuses whatever else might be asked for.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A curve, its label, and the CSS class that it is drawn by."""

    name: str
    drawn_by: str
    values: Curve


def plot(
    title: str,
    minutes: Sequence[float],
    lines: Sequence[PlotLine],
    format_value: Callable[[float], str],
) -> str:
    """Return a figure as HTML. `format_value` formats a value with its unit."""
    each = math.ceil(len(minutes) / STEPS_MAX)
    starts = range(0, len(minutes), each)
    steps = [[line.values[start : start + each] for start in starts] for line in lines]
    curves: list[Curve] = [
        [max((value for value in step if value is not None), default=None) for step in line]
        for line in steps
    ]
    unknown = [any(None in step for step in line) for line in zip(*steps, strict=True)]
    top = max((value for curve in curves for value in curve if value is not None), default=0) or 1
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
            *(f"<span>{escape(format_value(value))}</span>" for value in (top, 0)),
            "</div><div>",
            f'<svg {_BOX} role="img" aria-label="{escape(title)}">',
            *_gaps(unknown),
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
    parts: list[str] = []
    pen = False
    for step, value in enumerate(curve):
        if value is None:
            pen = False
            continue
        y = f"{HEIGHT * (1 - value / top):.1f}"
        parts.append(f"V{y}" if pen else f"M{step * wide:.1f} {y}")
        parts.append(f"H{(step + 1) * wide:.1f}")
        pen = True
    return "".join(parts)


def _gaps(unknown: list[bool]) -> Iterator[str]:
    wide = WIDTH / len(unknown)
    for gap, steps in groupby(enumerate(unknown), key=lambda step: step[1]):
        if gap:
            numbers = [number for number, _ in steps]
            yield (
                f'<rect class="gap" x="{numbers[0] * wide:.1f}" y="0" '
                f'width="{len(numbers) * wide:.1f}" height="{HEIGHT}"/>'
            )


def _ticks(minutes: Sequence[float]) -> Iterator[str]:
    """Yield labels at round times of day; TICKS_MAX bounds their number."""
    span_min = len(minutes) or 1
    every_s = STEP_S * next(
        (tick for tick in _TICKS_MIN if span_min / tick <= TICKS_MAX),
        math.ceil(span_min / TICKS_MAX),
    )
    form = "%H:%M" if span_min <= 1440 else "%m-%d %H:%M"
    position = math.ceil(minutes[0] / every_s) * every_s
    while position <= minutes[-1]:
        left_percent = (position - minutes[0]) / STEP_S / span_min * 100
        if left_percent <= 92:  # a label that began later would not end on the page
            label = to_utc(position).strftime(form)
            yield f'<span style="left:{left_percent:.2f}%">{label}</span>'
        position += every_s


def render_page(report: Report) -> str:
    """Return the report as an HTML page that needs no other file."""
    title = f"Failover {report.source} → {report.target}"
    drawn = sorted(
        report.groups,
        key=lambda summary: (summary.figures["reread"].most or 0, summary.group or ""),
        reverse=True,
    )[:GROUPS_DRAWN_MAX]
    begin, end = format_utc(report.minutes[0]), format_utc(report.minutes[-1])
    about = (
        f"Connect cluster {report.connect_cluster}, {begin} to {end}, "
        f"{format_count(len(report.minutes), 'minute')}. What moving a group to the target would "
        "have met at each of them."
    )
    left_out = len(report.groups) - len(drawn)
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="faint">{escape(about)}</p>',
            *_render_list(report.notes),
            *_render_table(report),
            f"<h2>The flow: {format_count(report.flow.partitions, 'partition')}</h2>",
            *_render_unreplicated(report, report.flow),
            *(part for summary in drawn for part in _render_group(report, summary)),
            *(
                [f'<p class="faint">Not drawn: {format_count(left_out, "more group")}.</p>']
                if left_out
                else ()
            ),
            "<h2>How it is reckoned</h2>",
            *_render_list(_METHOD.split("\n\n")),
            "</body></html>\n",
        )
    )


def _render_list(rows: Iterable[str]) -> Iterator[str]:
    items = "".join(f"<li>{escape(row)}</li>" for row in rows)
    if items:
        yield f"<ul>{items}</ul>"


def _render_table(report: Report) -> Iterator[str]:
    yield (
        '<div class="wide"><table><thead><tr><th>group</th><th>at a failover</th>'
        '<th class="n">minutes known</th><th class="n">median</th><th class="n">95 %</th>'
        '<th class="n">most</th><th>worst at</th></tr></thead><tbody>'
    )
    for group in (*report.groups, report.flow):
        for name, figures in group.figures.items():
            values = (
                format_figure(name, value) or "-"
                for value in (figures.median, figures.p95, figures.most)
            )
            worst = group.worst[name][:1]
            yield (
                f"<tr><td>{escape(group.group or 'the flow')}</td><td>{CURVE_LABELS[name]}</td>"
                f'<td class="n">{figures.known} of {figures.of}</td>'
                + "".join(f'<td class="n">{value}</td>' for value in values)
                + f"<td>{format_utc(worst[0].at) if worst else '-'}</td></tr>"
            )
    yield "</tbody></table></div>"


def _render_unreplicated(report: Report, summary: FailoverSummary) -> Iterator[str]:
    curves = summary.curves
    yield plot(
        "Records that the target did not have",
        report.minutes,
        [PlotLine(CURVE_LABELS["missing"], "c", curves.missing)],
        partial(_format_value, "missing"),
    )
    yield plot(
        "Age of the oldest of them",
        report.minutes,
        [PlotLine("at least", "c", curves.age_min), PlotLine("at most", "d", curves.age_max)],
        partial(_format_value, "age_max"),
    )


def _render_group(report: Report, summary: FailoverSummary) -> Iterator[str]:
    curves = summary.curves
    yield f"<h2>{escape(summary.group or '')}: {format_count(summary.partitions, 'partition')}</h2>"
    yield plot(
        "Records read again or never after a move at this minute",
        report.minutes,
        [PlotLine("read again", "a", curves.reread), PlotLine("never read", "b", curves.skip)],
        partial(_format_value, "reread"),
    )
    yield plot(
        "Time to read them again, at the group's own rate",
        report.minutes,
        [PlotLine(CURVE_LABELS["reread_s"], "a", curves.reread_s)],
        partial(_format_value, "reread_s"),
    )
    yield from _render_unreplicated(report, summary)
    unknown = (
        f"not known: {REASON_LABELS[reason]} ({format_count(count, 'time')})"
        for reason, count in sorted(summary.unknown.items())
    )
    yield from _render_list((*_describe_worst(report, summary), *unknown))


def _format_value(name: str, value: float) -> str:
    return format_figure(name, value) or ""


def _describe_worst(report: Report, summary: FailoverSummary) -> Iterator[str]:
    members = [member for member in report.partitions if member.group == summary.group]
    for name in ("reread", "skip"):
        for worst in summary.worst[name]:
            minute = report.minutes.index(worst.at)
            shares = "; ".join(_describe_shares(members, name, minute))
            yield (
                f"{format_utc(worst.at)}: {format_figure(name, worst.value)} "
                f"{CURVE_LABELS[name]} ({shares})"
            )


def _describe_shares(members: list[PartitionMinutes], name: str, minute: int) -> Iterator[str]:
    """Yield the partitions with the largest shares of a worst minute."""
    shares = []
    for member in members:
        sample = member.moments[minute]
        count = None if sample is None else getattr(sample[1].cost, name)
        if sample is not None and count:
            shares.append((count, member, sample[1]))
    shares.sort(key=lambda share: (-share[0], share[1].topic, share[1].partition))
    for count, member, outcome in shares[:PARTITIONS_MAX]:
        by = "its own commit" if outcome.start_offset_from == "group" else "a checkpoint"
        if outcome.checkpoint_at is not None and by == "a checkpoint":
            by = f"{by} of {format_utc(outcome.checkpoint_at)}"
        yield (
            f"{member.topic}-{member.partition}: {format_figure(name, count)}, from "
            f"{outcome.position} it lands on {outcome.start_offset} by {by}, best would be "
            f"{outcome.cost.best}"
        )
    if len(shares) > PARTITIONS_MAX:
        yield f"and {len(shares) - PARTITIONS_MAX} more"
