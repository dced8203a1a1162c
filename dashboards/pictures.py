"""Draws boards as SVG, from what a Prometheus answers to their queries. Grafana is not run.

`python -m dashboards.pictures --prometheus http://127.0.0.1:9090 --at 1763712000 --minutes 40
--set connector=mirror docs/boards` draws every board. What is set counts for boards of one thing.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import httpx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from dashboards.build import BOARDS
from dashboards.panels import Json
from dashboards.words import BLUE_GREY
from tools.figures import to_svg

LABEL: Final = (
    "drawn from the queries of this board by offsetwatch's own builder; Grafana was not run"
)
DPI = 72  # a point is a pixel
CELL_W, CELL_H, HEAD, PAD = 52, 32, 44, 8
FAINT: Final = "#777777"
POINTS: Final = 80
RATE_WINDOW_S: Final = 60
LEGENDS_MAX: Final = 5
PALETTE: Final = ("#3274d9", "#e0752d", "#56a64b", "#8f3bb8", "#b7a600", "#c4162a", "#1f9e9e")
COLOURS: Final = {
    "green": "#56a64b",
    "dark-red": "#8f0d1f",
    "red": "#e02f44",
    "orange": "#e0752d",
    "yellow": "#d9b60c",
    "blue": "#3274d9",
    "gray": "#8e8e8e",
    BLUE_GREY: BLUE_GREY,
}
_SCALES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "s": ((86400, " d"), (3600, " h"), (60, " min"), (1, " s"), (0.001, " ms")),
    "bytes": ((2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB")),
    "cps": ((1000, " K/s"), (0, "/s")),
    "short": ((10**9, " Bil"), (10**6, " Mil"), (1000, " K")),
}

Labels = dict[str, str]
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Source:
    """Whom the queries are put to, up to which moment, for how long, and what is chosen."""

    url: str
    at: int
    seconds: int
    chosen: Mapping[str, str]
    client: httpx.Client

    def of(self, board: Json) -> Source:
        """With what is chosen on a board of one thing, and everything on all others."""
        single = {
            item["name"] for item in board["templating"]["list"] if item.get("multi") is False
        }
        return replace(
            self, chosen={item: self.chosen[item] for item in single & self.chosen.keys()}
        )

    def instant(self, expr: str) -> list[tuple[Labels, float]]:
        """As of the moment."""
        result = self._ask("query", expr, {"time": self.at})
        return [(entry["metric"], float(entry["value"][1])) for entry in result]

    def range(self, expr: str) -> list[tuple[Labels, Points]]:
        """Up to the moment."""
        step = max(1, self.seconds // POINTS)
        when = {"start": self.at - self.seconds, "end": self.at, "step": step}
        result = self._ask("query_range", expr, when)
        return [
            (
                entry["metric"],
                [(float(t), float(v)) for t, v in entry["values"] if math.isfinite(float(v))],
            )
            for entry in result
        ]

    def _ask(self, how: str, expr: str, when: dict[str, int]) -> list[Json]:
        window = max(RATE_WINDOW_S, self.seconds // POINTS)
        expr = expr.replace("$__rate_interval", f"{window}s")
        expr = re.sub(r"\$(\w+)", lambda match: self.chosen.get(match[1], ".+"), expr)
        params: dict[str, str | int] = {"query": expr, **when}
        answer = self.client.get(f"{self.url}/api/v1/{how}", params=params).json()
        if answer["status"] != "success":
            raise ValueError(answer.get("error", "no answer"))
        result: list[Json] = answer["data"]["result"]
        return result


def format_value(value: float, unit: str) -> str:
    """A number as people read it."""
    for scale, suffix in _SCALES.get(unit, ()):
        if abs(value) >= scale and value:
            return f"{value / (scale or 1):.3g}{suffix}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def legend(template: str, labels: Labels) -> str:
    """`{{label}}` filled in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), template)


def draw_board(board: Json, source: Source) -> str:
    """Draw a whole board, with its rows opened."""
    panels = list(_opened(board))
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    source = source.of(board)
    width, height = 24 * CELL_W + 2 * PAD, bottom * CELL_H + HEAD + PAD
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="#f4f5f5")
    page = _add_axes(figure, 0, 0, width, height)
    page.axis("off")
    page.text(PAD, 20, board["title"], fontsize=16)
    page.text(PAD, 37, LABEL, fontsize=11, color=FAINT)
    for panel in panels:
        grid = panel["gridPos"]
        x, y = PAD + grid["x"] * CELL_W, HEAD + grid["y"] * CELL_H
        if panel["type"] == "row":
            sign = "\u25b8 " if panel["collapsed"] else ""
            page.text(x, y + 21, sign + panel["title"], fontsize=14, fontweight="bold")
            continue
        axes = _add_axes(figure, x + 2, y + 2, grid["w"] * CELL_W - 4, grid["h"] * CELL_H - 4)
        axes.spines[:].set_color("#dddddd")
        axes.text(8, 17, panel["title"], clip_on=True)
        _DRAW[panel["type"]](panel, source, axes)
    return to_svg(figure)


def _add_axes(figure: Figure, x: float, y: float, w: float, h: float) -> Axes:
    """Add axes there, in pixels from the top left; their own units are pixels too."""
    width, height = figure.bbox.size
    axes = figure.add_axes((x / width, 1 - (y + h) / height, w / width, h / height))
    axes.set(xlim=(0, w), ylim=(h, 0), xticks=(), yticks=())
    return axes


def _add_plot(axes: Axes, remaining: float, top: float, bottom: float, source: Source) -> Axes:
    """Add a plot over time inside of a panel, with these margins in pixels."""
    w, h = axes.bbox.size
    plot = axes.inset_axes(
        (remaining / w, bottom / h, (w - remaining - 10) / w, (h - top - bottom) / h)
    )
    backs = (source.seconds, source.seconds / 2, 0)
    plot.set(xlim=(-source.seconds, 0), xticks=[-back for back in backs])
    plot.set_xticklabels([f"-{back / 60:.0f} min" if back else "now" for back in backs])
    first, _, last = plot.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    plot.tick_params(labelsize=9, length=0)
    plot.tick_params(axis="x", pad=7)
    plot.spines[:].set_visible(False)
    return plot


def _opened(board: Json) -> Iterator[Json]:
    """Return rows and panels with their places once every row is opened."""
    pushed = 0
    for panel in board["panels"]:
        inside = panel.get("panels", [])
        for item in (panel, *inside):
            location = item["gridPos"]
            yield item | {"gridPos": location | {"y": location["y"] + pushed}}
        if inside:
            last = max(entry["gridPos"]["y"] + entry["gridPos"]["h"] for entry in inside)
            pushed += last - panel["gridPos"]["y"] - 1


def _nothing(axes: Axes, words: str = "no data") -> None:
    axes.text(0.5, 0.45, words, fontsize=14, color="#999999", ha="center", transform=axes.transAxes)


def _stat(panel: Json, source: Source, axes: Axes) -> None:
    target, config = panel["targets"][0], panel["fieldConfig"]
    series = source.instant(target["expr"])
    if not series:
        _nothing(axes, config["defaults"]["noValue"])
        return
    labels, value = series[0]
    if panel["options"]["textMode"] == "name":
        words = legend(target["legendFormat"], labels)
        colour = _coloured(panel).get(words, COLOURS["gray"])
    else:
        words = format_value(value, config["defaults"]["unit"])
        steps = config["defaults"]["thresholds"]["steps"]
        passed = [
            step["color"] for step in steps if step["value"] is None or value >= step["value"]
        ]
        colour = COLOURS[passed[-1]]
    axes.set_facecolor(colour)
    axes.texts[0].set_color("white")
    axes.text(0.5, 0.35, words, fontsize=30, color="white", ha="center", transform=axes.transAxes)


def _table(panel: Json, source: Source, axes: Axes) -> None:
    organize = panel["transformations"][-1]["options"]
    rows: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    units = {
        override["matcher"]["options"]: own["value"]
        for override in panel["fieldConfig"]["overrides"]
        for own in override["properties"]
        if own["id"] == "unit"
    }
    for target in panel["targets"]:
        value = "Value" if len(panel["targets"]) == 1 else f"Value #{target['refId']}"
        name = organize["renameByName"].get(value)
        for labels, number in source.instant(target["expr"]):
            row = rows.setdefault(tuple(sorted(labels.items())), dict(labels))
            if name is not None:
                row[name] = format_value(number, units[name])
    if not rows:
        _nothing(axes)
        return
    order = [organize["renameByName"].get(name, name) for name in organize["indexByName"]]
    columns = [name for name in order if any(name in row for row in rows.values())]
    widest = [
        max(len(name), *(len(row.get(name, "")) for row in rows.values())) + 2 for name in columns
    ]
    w, h = axes.bbox.size
    room = int((h - 50) // 17)
    lines = [[row.get(name, "") for name in columns] for row in [*rows.values()][:room]]
    tall = 17 * (len(lines) + 1)
    table = axes.table(
        lines,
        colLabels=columns,
        colWidths=[width / sum(widest) for width in widest],
        cellLoc="left",
        colLoc="left",
        edges="open",
        bbox=Bbox.from_bounds(4 / w, 1 - (26 + tall) / h, (w - 8) / w, tall / h),
    )
    table.auto_set_font_size(False)
    table.set_fontsize(11)
    for number in range(len(columns)):
        table[0, number].get_text().set_color(FAINT)
    if len(rows) > room:
        axes.text(w - 90, 17, f"and {len(rows) - room} more", fontsize=11, color=FAINT)


def _lines(panel: Json, source: Source, axes: Axes) -> None:
    series = sorted(_ranged(panel, source), key=lambda named: -named[1][-1][1])
    if not series:
        _nothing(axes)
        return
    defaults, colours = panel["fieldConfig"]["defaults"], _coloured(panel)
    values = [value for _, points in series for _, value in points]
    newest = [format_value(points[-1][1], defaults["unit"]) for _, points in series]
    stacked = "stacking" in defaults["custom"]
    if stacked:
        series, values = _stacked(series)
    low, high = min(0.0, *values), max(values) if any(values) else 1.0
    legends = min(len(series), LEGENDS_MAX)
    plot = _add_plot(axes, 58, 26, 24 + 14 * legends, source)
    ticks = (low, (low + high) / 2, high)
    plot.set(ylim=(low, high), yticks=ticks)
    plot.set_yticklabels([format_value(tick, defaults["unit"]) for tick in ticks])
    plot.grid(axis="y", color="#e5e5e5")
    for step in defaults.get("thresholds", {}).get("steps", ())[1:]:
        if low <= step["value"] <= high:
            plot.axhline(step["value"], color=COLOURS[step["color"]], linestyle="--", linewidth=1)
    keys = []
    floor: dict[float, float] = {}
    for number, (name, points) in enumerate(series):
        colour = colours.get(name, PALETTE[number % len(PALETTE)])
        for part in _unbroken(points, source):
            times = [t - source.at for t, _ in part]
            tops = [value for _, value in part]
            drawn = plot.plot(times, tops, color=colour, linewidth=1)
            if stacked:
                below = [floor.get(t, 0.0) for t in times]
                plot.fill_between(times, below, tops, color=colour, alpha=0.4, linewidth=0)
                floor.update(zip(times, tops, strict=True))
        keys.append((drawn[0], f"{name}  {newest[number]}"))
    if len(series) > legends:
        keys[legends - 1] = (keys[legends - 1][0], f"and {len(series) - legends + 1} more")
    axes.legend(
        *zip(*keys[:legends], strict=True),
        loc="lower left",
        fontsize=10,
        frameon=False,
        labelspacing=0.2,
        borderaxespad=0.1,
    )


def _stacked(series: list[tuple[str, Points]]) -> tuple[list[tuple[str, Points]], list[float]]:
    sums: dict[float, float] = {}
    piled = []
    for name, points in series:
        for t, value in points:
            sums[t] = sums.get(t, 0.0) + value
        piled.append((name, [(t, sums[t]) for t, _ in points]))
    return piled, list(sums.values())


def _unbroken(points: Points, source: Source) -> Iterator[Points]:
    """What lies without a gap. A point alone is drawn as a dash."""
    part: Points = []
    step = max(1, source.seconds // POINTS)
    for t, value in points:
        if part and t - part[-1][0] > 1.5 * step:
            yield part
            part = []
        part = part or [(t - step / 2, value)]
        part.append((t, value))
    if part:
        yield part


def _ranged(panel: Json, source: Source) -> Iterator[tuple[str, Points]]:
    for target in panel["targets"]:
        for labels, points in source.range(target["expr"]):
            if points:
                yield legend(target["legendFormat"], labels), points


def _states(panel: Json, source: Source, axes: Axes) -> None:
    series = list(_ranged(panel, source))
    if not series:
        _nothing(axes)
        return
    tall = min(26, (axes.bbox.height - 50) / len(series))
    plot = _add_plot(axes, 90, 28, axes.bbox.height - 28 - tall * len(series), source)
    step, colours = max(1, source.seconds // POINTS), _coloured(panel)
    for number, (name, points) in enumerate(series):
        spans = [
            (part[0][0] - source.at, part[-1][0] + step / 2 - part[0][0])
            for part in _unbroken(points, source)
        ]
        colour = colours.get(name, COLOURS["gray"])
        plot.broken_barh(spans, (number - 0.42, 0.84), color=colour)
    plot.set(ylim=(len(series) - 0.5, -0.5), yticks=range(len(series)))
    plot.set_yticklabels([name for name, _ in series], fontsize=11)


def _coloured(panel: Json) -> dict[str, str]:
    return {
        override["matcher"]["options"]: COLOURS[override["properties"][0]["value"]["fixedColor"]]
        for override in panel["fieldConfig"]["overrides"]
    }


def _note(panel: Json, _source: Source, axes: Axes) -> None:
    lines = [
        line for line in panel["options"]["content"].splitlines() if line and "---" not in line
    ]
    for number, line in enumerate(lines):
        words = line.strip("| ").replace("`", "").replace(" | ", ":  ")
        axes.text(8, 38 + 18 * number, words, fontsize=11, clip_on=True)


_Draw = Callable[[Json, Source, Axes], None]
_DRAW: Final[dict[str, _Draw]] = {
    "stat": _stat,
    "table": _table,
    "timeseries": _lines,
    "state-timeline": _states,
    "text": _note,
}


def main(arguments: Sequence[str]) -> int:
    """Draw every board into a folder."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.pictures")
    parser.add_argument("--prometheus", required=True, help="its URL")
    parser.add_argument("--at", type=int, required=True, help="Unix time of the right edge")
    parser.add_argument("--minutes", type=int, default=40)
    parser.add_argument("--set", action="append", default=[], metavar="VARIABLE=VALUE")
    parser.add_argument("folder", type=Path)
    inputs = parser.parse_args(arguments)
    chosen = dict(item.split("=", 1) for item in inputs.set)
    inputs.folder.mkdir(parents=True, exist_ok=True)
    with httpx.Client(trust_env=False, timeout=60) as client:
        source = Source(inputs.prometheus, inputs.at, inputs.minutes * 60, chosen, client)
        for name, board in BOARDS.items():
            (inputs.folder / f"{name}.svg").write_text(
                draw_board(board(), source), encoding="utf-8"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
