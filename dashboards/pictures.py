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
from xml.sax.saxutils import escape

import httpx

from dashboards.build import BOARDS
from dashboards.panels import Json
from dashboards.words import BLUE_GREY

LABEL: Final = (
    "drawn from the queries of this board by offsetwatch's own builder; Grafana was not run"
)
CELL_W, CELL_H, HEAD, PAD = 52, 32, 44, 8
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
        single = {at["name"] for at in board["templating"]["list"] if at.get("multi") is False}
        return replace(self, chosen={at: self.chosen[at] for at in single & self.chosen.keys()})

    def instant(self, expr: str) -> list[tuple[Labels, float]]:
        """As of the moment."""
        found = self._ask("query", expr, {"time": self.at})
        return [(at["metric"], float(at["value"][1])) for at in found]

    def range(self, expr: str) -> list[tuple[Labels, Points]]:
        """Up to the moment."""
        step = max(1, self.seconds // POINTS)
        when = {"start": self.at - self.seconds, "end": self.at, "step": step}
        found = self._ask("query_range", expr, when)
        return [
            (
                at["metric"],
                [(float(t), float(v)) for t, v in at["values"] if math.isfinite(float(v))],
            )
            for at in found
        ]

    def _ask(self, how: str, expr: str, when: dict[str, int]) -> list[Json]:
        window = max(RATE_WINDOW_S, self.seconds // POINTS)
        expr = expr.replace("$__rate_interval", f"{window}s")
        expr = re.sub(r"\$(\w+)", lambda found: self.chosen.get(found[1], ".+"), expr)
        params: dict[str, str | int] = {"query": expr, **when}
        answer = self.client.get(f"{self.url}/api/v1/{how}", params=params).json()
        if answer["status"] != "success":
            raise ValueError(answer.get("error", "no answer"))
        found: list[Json] = answer["data"]["result"]
        return found


def shown(value: float, unit: str) -> str:
    """A number as people read it."""
    for scale, suffix in _SCALES.get(unit, ()):
        if abs(value) >= scale and value:
            return f"{value / (scale or 1):.3g}{suffix}"
    return f"{value:.3g}" if value % 1 else f"{value:.0f}"


def legend(template: str, labels: Labels) -> str:
    """`{{label}}` filled in."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template)


def text(
    x: float, y: float, words: str, *, size: int = 12, fill: str = "#222", more: str = ""
) -> str:
    """A line of text."""
    place = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}"'
    return f"<text {place}{more}>{escape(words)}</text>"


def box(x: float, y: float, w: float, h: float, fill: str, stroke: str = "none") -> str:
    """A rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}" '
        f'stroke="{stroke}" rx="2"/>'
    )


def picture(board: Json, source: Source) -> str:
    """Draw a whole board, with its rows opened."""
    shown = list(_opened(board))
    bottom = max(at["gridPos"]["y"] + at["gridPos"]["h"] for at in shown)
    source = source.of(board)
    w, h = 24 * CELL_W + 2 * PAD, bottom * CELL_H + HEAD + PAD
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" font-family="sans-serif">',
        box(0, 0, w, h, "#f4f5f5"),
        text(PAD, 20, board["title"], size=16),
        text(PAD, 37, LABEL, size=11, fill="#777"),
    ]
    for panel in shown:
        at = panel["gridPos"]
        x, y = PAD + at["x"] * CELL_W, HEAD + at["y"] * CELL_H
        pw, ph = at["w"] * CELL_W, at["h"] * CELL_H
        if panel["type"] == "row":
            sign = "\u25b8 " if panel["collapsed"] else ""
            out.append(text(x, y + 21, sign + panel["title"], size=14, more=' font-weight="bold"'))
            continue
        out += [f'<svg x="{x + 2}" y="{y + 2}" width="{pw - 4}" height="{ph - 4}">']
        out += [box(0.5, 0.5, pw - 5, ph - 5, "white", "#ddd"), text(8, 17, panel["title"])]
        out += _DRAW[panel["type"]](panel, source, pw - 4, ph - 4)
        out.append("</svg>")
    return "\n".join([*out, "</svg>\n"])


def _opened(board: Json) -> Iterator[Json]:
    """Return rows and panels with their places once every row is opened."""
    pushed = 0
    for panel in board["panels"]:
        inside = panel.get("panels", [])
        for at in (panel, *inside):
            place = at["gridPos"]
            yield at | {"gridPos": place | {"y": place["y"] + pushed}}
        if inside:
            last = max(at["gridPos"]["y"] + at["gridPos"]["h"] for at in inside)
            pushed += last - panel["gridPos"]["y"] - 1


def _nothing(w: float, h: float, words: str = "no data") -> list[str]:
    return [text(w / 2, h / 2 + 10, words, size=14, fill="#999", more=' text-anchor="middle"')]


def _stat(panel: Json, source: Source, w: float, h: float) -> list[str]:
    target, config = panel["targets"][0], panel["fieldConfig"]
    series = source.instant(target["expr"])
    if not series:
        return _nothing(w, h, config["defaults"]["noValue"])
    labels, value = series[0]
    if panel["options"]["textMode"] == "name":
        words = legend(target["legendFormat"], labels)
        colour = _coloured(panel).get(words, COLOURS["gray"])
    else:
        words = shown(value, config["defaults"]["unit"])
        steps = config["defaults"]["thresholds"]["steps"]
        passed = [at["color"] for at in steps if at["value"] is None or value >= at["value"]]
        colour = COLOURS[passed[-1]]
    middle = ' text-anchor="middle"'
    return [
        box(0, 0, w, h, colour),
        text(8, 17, panel["title"], fill="white"),
        text(w / 2, h / 2 + 20, words, size=30, fill="white", more=middle),
    ]


def _table(panel: Json, source: Source, w: float, h: float) -> list[str]:
    organize = panel["transformations"][-1]["options"]
    rows: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    units = {
        at["matcher"]["options"]: one["value"]
        for at in panel["fieldConfig"]["overrides"]
        for one in at["properties"]
        if one["id"] == "unit"
    }
    for target in panel["targets"]:
        value = "Value" if len(panel["targets"]) == 1 else f"Value #{target['refId']}"
        name = organize["renameByName"].get(value)
        for labels, number in source.instant(target["expr"]):
            row = rows.setdefault(tuple(sorted(labels.items())), dict(labels))
            if name is not None:
                row[name] = shown(number, units[name])
    if not rows:
        return _nothing(w, h)
    order = [organize["renameByName"].get(at, at) for at in organize["indexByName"]]
    columns = [at for at in order if any(at in row for row in rows.values())]
    widest = [max(len(at), *(len(row.get(at, "")) for row in rows.values())) + 2 for at in columns]
    xs = [8 + (w - 16) * sum(widest[:at]) / sum(widest) for at in range(len(columns))]
    room = int((h - 50) // 17)
    lines = [[*columns], *([row.get(at, "") for at in columns] for row in [*rows.values()][:room])]
    out = [
        text(x, 38 + 17 * number, words, size=11, fill="#777" if number == 0 else "#222")
        for number, line in enumerate(lines)
        for x, words in zip(xs, line, strict=True)
    ]
    more = len(rows) - room
    return [
        *out,
        *([text(w - 90, 17, f"and {more} more", size=11, fill="#777")] if more > 0 else []),
    ]


def _lines(panel: Json, source: Source, w: float, h: float) -> list[str]:
    series = sorted(_ranged(panel, source), key=lambda at: -at[1][-1][1])
    if not series:
        return _nothing(w, h)
    defaults, colours = panel["fieldConfig"]["defaults"], _coloured(panel)
    values = [value for _, points in series for _, value in points]
    told = [shown(points[-1][1], defaults["unit"]) for _, points in series]
    if "stacking" in defaults["custom"]:
        series, values = _stacked(series)
    low, high = min(0.0, *values), max(values) if any(values) else 1.0
    legends = min(len(series), LEGENDS_MAX)
    left, top, bottom = 58, 26, h - 24 - 14 * legends

    def place(t: float, value: float) -> str:
        x = left + (w - left - 10) * (1 - (source.at - t) / source.seconds)
        return f"{x:.1f},{bottom - (bottom - top) * (value - low) / (high - low):.1f}"

    out = []
    for share in (0, 0.5, 1):
        y, value = bottom - (bottom - top) * share, low + (high - low) * share
        out.append(f'<path d="M{left} {y:.1f}H{w - 10}" stroke="#e5e5e5"/>')
        end = ' text-anchor="end"'
        out.append(text(left - 5, y + 4, shown(value, defaults["unit"]), size=10, more=end))
    for back in (0, source.seconds / 2, source.seconds):
        x = float(place(source.at - back, low).split(",")[0])
        ago = f"-{back / 60:.0f} min" if back else "now"
        more = f' text-anchor="{"end" if not back else "middle"}"'
        out.append(text(x, bottom + 12, ago, size=9, fill="#777", more=more))
    for step in defaults.get("thresholds", {}).get("steps", ())[1:]:
        if low <= step["value"] <= high:
            y = float(place(source.at, step["value"]).split(",")[1])
            dashes = f'stroke="{COLOURS[step["color"]]}" stroke-dasharray="6 4"'
            out.append(f'<path d="M{left} {y:.1f}H{w - 10}" {dashes}/>')
    for number, (name, points) in enumerate(series):
        colour = colours.get(name, PALETTE[number % len(PALETTE)])
        for part in _unbroken(points, source):
            path = " ".join(place(t, value) for t, value in part)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        if number < legends:
            last = number == legends - 1 and len(series) > legends
            words = f"and {len(series) - number} more" if last else f"{name}  {told[number]}"
            y = bottom + 26 + 14 * number
            out += [box(10, y - 8, 12, 4, colour), text(28, y, words, size=10)]
    return out


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


def _states(panel: Json, source: Source, w: float, h: float) -> list[str]:
    series = list(_ranged(panel, source))
    if not series:
        return _nothing(w, h)
    left, top, tall = 90, 28, min(26, (h - 50) / len(series))
    step, out = max(1, source.seconds // POINTS), []
    for number, (name, points) in enumerate(series):
        y = top + tall * number
        colour = _coloured(panel).get(name, COLOURS["gray"])
        out.append(text(8, y + tall / 2 + 4, name, size=11))
        for part in _unbroken(points, source):
            begin, end = (
                left + (w - left - 10) * min(1, max(0, 1 - (source.at - t) / source.seconds))
                for t in (part[0][0], part[-1][0] + step / 2)
            )
            out.append(box(begin, y + 2, end - begin, tall - 4, colour))
    return out


def _coloured(panel: Json) -> dict[str, str]:
    return {
        at["matcher"]["options"]: COLOURS[at["properties"][0]["value"]["fixedColor"]]
        for at in panel["fieldConfig"]["overrides"]
    }


def _note(panel: Json, _source: Source, _w: float, _h: float) -> list[str]:
    lines = [at for at in panel["options"]["content"].splitlines() if at and "---" not in at]
    return [
        text(8, 38 + 18 * number, at.strip("| ").replace("`", "").replace(" | ", ":  "), size=11)
        for number, at in enumerate(lines)
    ]


_Draw = Callable[[Json, Source, float, float], list[str]]
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
    given = parser.parse_args(arguments)
    chosen = dict(at.split("=", 1) for at in given.set)
    given.folder.mkdir(parents=True, exist_ok=True)
    with httpx.Client(trust_env=False, timeout=60) as client:
        source = Source(given.prometheus, given.at, given.minutes * 60, chosen, client)
        for name, board in BOARDS.items():
            (given.folder / f"{name}.svg").write_text(picture(board(), source), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
