"""The pieces of a classic Grafana dashboard as plain dicts, and how they lie on the grid.

Called by build.py, which says what is on a board; here is how that is written. Grafana 10 to 13
read this model: from a provisioned file, from the sidecar, on import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 39
TAG = "offsetwatch"
GRID_WIDTH = 24
BLUE = "blue"
GREEN = "green"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its place. `body` is what its type adds to the common part."""

    title: str
    description: str
    type: str
    width: int
    height: int
    targets: tuple[Json, ...]
    body: Json


def stat(
    title: str, description: str, expr: str, *, unit: str = "short", bad: Mapping[float, str]
) -> Panel:
    """One number; `bad` gives the colours from these values up. No data stays no data."""
    steps: list[Json] = [{"color": GREEN if bad else BLUE, "value": None}]
    steps += [{"color": colour, "value": value} for value, colour in bad.items()]
    return Panel(
        title=title,
        description=description,
        type="stat",
        width=3,
        height=4,
        targets=_targets([Query(expr)], instant=True),
        body={
            "fieldConfig": {
                "defaults": {
                    "unit": unit,
                    "noValue": "unknown",
                    "thresholds": {"mode": "absolute", "steps": steps},
                },
                "overrides": [],
            },
            "options": {
                "colorMode": "background",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "textMode": "auto",
            },
        },
    )


def table(title: str, description: str, expr: str, *, columns: Sequence[str]) -> Panel:
    """One row per series of an instant query, with these labels as columns, then the value."""
    return Panel(
        title=title,
        description=description,
        type="table",
        width=24,
        height=8,
        targets=tuple({**at, "format": "table"} for at in _targets([Query(expr)], instant=True)),
        body={
            "fieldConfig": {
                "defaults": {"unit": "short", "custom": {"align": "left", "filterable": True}},
                "overrides": [],
            },
            "options": {"cellHeight": "sm", "showHeader": True},
            "transformations": [
                {
                    "id": "organize",
                    "options": {
                        "excludeByName": {"Time": True},
                        "indexByName": {name: at for at, name in enumerate([*columns, "Value"])},
                        "renameByName": {"Value": "value"},
                    },
                }
            ],
        },
    )


def lines(
    title: str, description: str, queries: Sequence[Query], *, unit: str, stacked: bool = False
) -> Panel:
    """Series over time."""
    custom: Json = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if stacked:
        custom |= {"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 40}
    return Panel(
        title=title,
        description=description,
        type="timeseries",
        width=12,
        height=8,
        targets=_targets(queries, instant=False),
        body={
            "fieldConfig": {
                "defaults": {"unit": unit, "custom": custom},
                "overrides": [],
            },
            "options": {
                "legend": {
                    "calcs": ["lastNotNull", "max"],
                    "displayMode": "table",
                    "placement": "bottom",
                    "showLegend": True,
                },
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        },
    )


def variable(name: str, label: str, query: str) -> Json:
    """A choice of label values; the default is all of them, whichever they are by then."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def dashboard(
    uid: str,
    title: str,
    description: str,
    *,
    variables: Sequence[Json],
    rows: Mapping[str, Sequence[Panel]],
) -> Json:
    """The whole file."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "utc",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "More of offsetwatch",
                "tags": [TAG],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_datasource(), *variables]},
        "panels": list(_placed(rows)),
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {},
    }


def _targets(queries: Sequence[Query], *, instant: bool) -> tuple[Json, ...]:
    return tuple(
        {
            "refId": chr(ord("A") + number),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "instant": instant,
            "range": not instant,
        }
        for number, query in enumerate(queries)
    )


def _placed(rows: Mapping[str, Sequence[Panel]]) -> Iterator[Json]:
    """Every panel with its id and its place: from left to right, wrapped, row by row."""
    number, top = 0, 0
    for title, panels in rows.items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": GRID_WIDTH, "h": 1},
            "panels": [],
        }
        left, top, tallest = 0, top + 1, 0
        for panel in panels:
            number += 1
            if left + panel.width > GRID_WIDTH:
                left, top, tallest = 0, top + tallest, 0
            yield _panel(panel, number, left, top)
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest


def _panel(panel: Panel, number: int, left: int, top: int) -> Json:
    return {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "targets": list(panel.targets),
        **panel.body,
    }
