"""A classic Grafana dashboard as a plain dict: its variables, its links, its panels on the grid.

Grafana 10 to 13 read this model: from a provisioned file, from the sidecar, on import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from dashboards.panels import DATASOURCE, Json, Panel
from dashboards.queries import Choice, Scope
from offsetwatch.serve.metrics.catalog import BUILD_INFO

SCHEMA_VERSION: Final = 39
TAG: Final = "offsetwatch"
GRID_WIDTH: Final = 24
OPEN_MAX: Final = 8
# As in the alert rules: README.md beside them says how to put the real address in its place.
RUNBOOKS: Final = "https://docs.example.com/offsetwatch/runbooks"
_ALERTS: Final = (("critical", "red"), ("warning", "orange"))


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one title, collapsed until it is opened.

    only    the kind of connector that has something to show there: its title says so; "" for all
    """

    title: str
    panels: Sequence[Panel]
    only: str = ""

    @property
    def heading(self) -> str:
        """Return the title with whom it is for."""
        return f"{self.title} ({self.only} only)" if self.only else self.title


def dashboard(
    name: str,
    description: str,
    *,
    scope: Scope,
    now: Sequence[Panel],
    rows: Sequence[Row],
) -> Json:
    """Return the whole file.

    name    one word: that of the file, of its address and of its title
    now     the panels that are seen without a click, OPEN_MAX at most
    """
    if len(now) > OPEN_MAX:
        raise ValueError(f"{name}: {len(now)} panels before the first collapsed row")
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
        "annotations": {"list": [_alerts(scope, *alert) for alert in _ALERTS]},
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
            "list": [
                _datasource(),
                job,
                *(_variable(choice, query) for choice, query in scope.values()),
            ]
        },
        "panels": list(_placed(now, rows)),
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


def _alerts(scope: Scope, severity: str, colour: str) -> Json:
    """Mark when alerts of one severity fired for what the board shows."""
    return {
        "name": f"Alerts: {severity}",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": scope.alerts(severity),
        "step": "60s",
        "titleFormat": "{{alertname}}",
        "textFormat": "{{connect_cluster}} {{connector}} {{kafka}} {{topic}}",
        "tagKeys": "severity",
    }


def _placed(now: Sequence[Panel], rows: Sequence[Row]) -> Iterator[Json]:
    """Give every panel its id and its place: from left to right, wrapped, row by row."""
    numbers = count(1)
    yield _row("Now", next(numbers), 0, collapsed=False)
    output, top = _laid(now, numbers, 1)
    yield from output
    for row in rows:
        number = next(numbers)
        inside, _ = _laid(row.panels, numbers, top + 1)
        yield _row(row.heading, number, top, collapsed=True) | {"panels": inside}
        top += 1


def _row(title: str, number: int, top: int, *, collapsed: bool) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": collapsed,
        "gridPos": {"x": 0, "y": top, "w": GRID_WIDTH, "h": 1},
        "panels": [],
    }


def _laid(panels: Sequence[Panel], numbers: Iterator[int], top: int) -> tuple[list[Json], int]:
    """Return the panels with their places from this line of the grid on, and the line below."""
    placed: list[Json] = []
    remaining, tallest = 0, 0
    for panel in panels:
        if remaining + panel.width > GRID_WIDTH or panel.height != (tallest or panel.height):
            remaining, top, tallest = 0, top + tallest, 0
        placed.append(_panel(panel, next(numbers), remaining, top))
        remaining, tallest = remaining + panel.width, max(tallest, panel.height)
    return placed, top + tallest


def _panel(panel: Panel, number: int, remaining: int, top: int) -> Json:
    asks: Json = {"datasource": DATASOURCE, "targets": list(panel.targets)} if panel.targets else {}
    links = [
        {
            "type": "link",
            "title": f"Runbook: {name}",
            "url": f"{RUNBOOKS}/{name}.md",
            "targetBlank": True,
        }
        for name in panel.runbooks
    ]
    return {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": panel.description,
        "gridPos": {"x": remaining, "y": top, "w": panel.width, "h": panel.height},
        **({"links": links} if links else {}),
        **asks,
        **panel.body,
    }
