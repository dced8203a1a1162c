"""A classic Grafana dashboard as a plain dict: its variables, its links, its panels on the grid.

Grafana 10 to 13 read this model: from a provisioned file, from the sidecar, on import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dashboards.panels import DATASOURCE, Json, Panel
from dashboards.queries import Choice, Scope
from exporter.serve.catalog import BUILD_INFO

SCHEMA_VERSION: Final = 39
TAG: Final = "offsetwatch"
GRID_WIDTH: Final = 24


def dashboard(
    name: str,
    description: str,
    *,
    scope: Scope,
    rows: Mapping[str, Sequence[Panel]],
) -> Json:
    """The whole file. `name` is one word: that of the file, of its address and of its title."""
    job = _variable(Choice("job", "Job", BUILD_INFO), f"label_values({BUILD_INFO.name}, job)")
    return {
        "uid": uid(name),
        "title": f"offsetwatch / {name.capitalize()}",
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
        "templating": {
            "list": [_datasource(), job, *(_variable(at, query) for at, query in scope.values())]
        },
        "panels": list(_placed(rows)),
    }


def uid(name: str) -> str:
    """What a board of this name is called in addresses."""
    return f"{TAG}-{name}"


def _variable(choice: Choice, query: str) -> Json:
    """A choice of label values: all of them, whichever they are by then, or the first of them."""
    every: Json = {
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }
    single: Json = {"multi": False, "includeAll": False, "current": {}}
    return {
        "name": choice.label,
        "label": choice.title,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{choice.label}"},
        "refresh": 2,  # when the time range changes
        **(every if choice.many else single),
        "sort": 1,
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
    asks: Json = {"datasource": DATASOURCE, "targets": list(panel.targets)} if panel.targets else {}
    return {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": panel.description,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        **asks,
        **panel.body,
    }
