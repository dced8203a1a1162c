"""The kinds of panels: what each shows, and how Grafana is told. See grafana.py for the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Final

Json = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
BLUE: Final = "blue"
GREEN: Final = "green"


@dataclass(frozen=True, slots=True)
class Bad:
    """When a number is bad, and the runbooks of the alerts that fire then.

    above    colours from these values up
    below    colours below these values
    """

    above: Mapping[float, str] = field(default_factory=dict)
    _: KW_ONLY
    below: Mapping[float, str] = field(default_factory=dict)
    runbooks: tuple[str, ...] = ()

    def steps(self) -> list[Json]:
        """Return the steps of thresholds: a colour is that of all values from its own up."""
        bounds = sorted(self.below)
        starts: list[float | None] = [None, *bounds]
        colours = [*(self.below[bound] for bound in bounds), GREEN]
        steps: list[Json] = [
            {"color": colour, "value": value} for value, colour in zip(starts, colours, strict=True)
        ]
        return steps + [
            {"color": self.above[value], "value": value} for value in sorted(self.above)
        ]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Numbers of a table."""

    title: str
    expr: str
    unit: str
    bad: Bad | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """From a column of a table, or from the lines of a graph, to a board with these variables set
    to the labels of what was clicked. The time, the data source and the job stay as they are.
    """

    title: str
    board: str
    variables: tuple[str, ...]
    column: str = ""

    def json(self) -> Json:
        """As Grafana wants it."""
        field = "__data.fields" if self.column else "__field.labels"
        chosen = [f"var-{name}=${{{field}.{name}}}" for name in self.variables]
        retained = ("${__url_time_range}", "${datasource:queryparam}", "${job:queryparam}")
        return {"title": self.title, "url": f"/d/{self.board}?{'&'.join((*retained, *chosen))}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its place.

    body        what its type adds to the common part
    runbooks    names of the alerts that fire when it turns bad
    """

    title: str
    description: str
    type: str
    width: int
    height: int
    targets: tuple[Json, ...]
    body: Json
    runbooks: tuple[str, ...] = ()


def stat(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str,
    bad: Bad | None = None,
    no_value: str = "unknown",
) -> Panel:
    """One number, blue where it is neither good nor bad. No data stays no data."""
    steps = [{"color": BLUE, "value": None}] if bad is None else bad.steps()
    defaults = {
        "unit": unit,
        "noValue": no_value,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    return Panel(
        title=title,
        description=description,
        type="stat",
        width=4,
        height=4,
        targets=_targets([Query(expr)], instant=True),
        body={"fieldConfig": {"defaults": defaults, "overrides": []}, "options": _stat("value")},
        runbooks=_runbooks(bad),
    )


def word(
    title: str,
    description: str,
    expr: str,
    legend: str,
    colours: Mapping[str, str],
    *,
    bad: Bad | None = None,
) -> Panel:
    """The one of a state set that holds now, as its name: the legend of the only series."""
    return Panel(
        title=title,
        description=description,
        type="stat",
        width=4,
        height=4,
        targets=_targets([Query(f"{expr} == 1", legend)], instant=True),
        body={
            "fieldConfig": {
                "defaults": {"unit": "none", "noValue": "unknown"},
                "overrides": _coloured(colours),
            },
            "options": _stat("name"),
        },
        runbooks=_runbooks(bad),
    )


def table(
    title: str,
    description: str,
    numbers: Sequence[Column],
    *,
    labels: Sequence[str],
    links: Sequence[Link] = (),
    size: tuple[int, int] = (24, 8),
    bad: Bad | None = None,
    colours: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Panel:
    """One row for each set of labels, then its numbers. A number without a title is not shown;
    `colours` go by label and value, `size` is width and height on the grid.
    """
    values = (
        ["Value"]
        if len(numbers) == 1
        else [f"Value #{_ref(number)}" for number in range(len(numbers))]
    )
    hidden = [name for name, column in zip(values, numbers, strict=True) if not column.title]
    rows = {name: column for name, column in zip(values, numbers, strict=True) if column.title}
    targets = _targets([Query(number.expr) for number in numbers], instant=True)
    organize = {
        "excludeByName": dict.fromkeys(["Time", *hidden], True),
        "indexByName": {name: offset for offset, name in enumerate([*labels, *values])},
        "renameByName": {name: column.title for name, column in rows.items()},
    }
    merge = [{"id": "merge", "options": {}}] if len(numbers) > 1 else []
    units = [_override(column.title, "unit", column.unit) for column in rows.values()]
    cells = [_cell(column.title, column.bad) for column in rows.values() if column.bad is not None]
    return Panel(
        title=title,
        description=description,
        type="table",
        width=size[0],
        height=size[1],
        targets=tuple({**target, "format": "table"} for target in targets),
        body={
            "fieldConfig": {
                "defaults": {"unit": "short", "custom": {"align": "left", "filterable": True}},
                "overrides": [
                    *units,
                    *cells,
                    *(_labelled(label, of_values) for label, of_values in colours.items()),
                    *(_override(link.column, "links", [link.json()]) for link in links),
                ],
            },
            "options": {"cellHeight": "sm", "showHeader": True},
            "transformations": [*merge, {"id": "organize", "options": organize}],
        },
        runbooks=_runbooks(bad),
    )


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str,
    stacked: bool = False,
    bad: Bad | None = None,
    link: Link | None = None,
    colours: Mapping[str, str] = MappingProxyType({}),
) -> Panel:
    """Series over time. What is bad is drawn as dashed lines; `colours` go by the legend."""
    custom: Json = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    defaults: Json = {"unit": unit, "custom": custom}
    if stacked:
        custom |= {"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 40}
    if bad is not None and (bad.above or bad.below):
        custom["thresholdsStyle"] = {"mode": "dashed"}
        defaults["thresholds"] = {"mode": "absolute", "steps": bad.steps()}
    if link is not None:
        defaults["links"] = [link.json()]
    return Panel(
        title=title,
        description=description,
        type="timeseries",
        width=12,
        height=8,
        targets=_targets(queries, instant=False),
        body={
            "fieldConfig": {"defaults": defaults, "overrides": _coloured(colours)},
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
        runbooks=_runbooks(bad),
    )


def states(
    title: str,
    description: str,
    expr: str,
    legend: str,
    colours: Mapping[str, str],
    *,
    bad: Bad | None = None,
) -> Panel:
    """State sets over time: a bar while a state holds. Nothing where nobody knew."""
    custom = {"fillOpacity": 80, "lineWidth": 0}
    holds = {"type": "value", "options": {"1": {"text": "yes", "index": 0}}}
    return Panel(
        title=title,
        description=description,
        type="state-timeline",
        width=12,
        height=8,
        targets=_targets([Query(f"{expr} == 1", legend)], instant=False),
        body={
            "fieldConfig": {
                "defaults": {"unit": "none", "custom": custom, "mappings": [holds]},
                "overrides": _coloured(colours),
            },
            "options": {
                "mergeValues": True,
                "rowHeight": 0.8,
                "showValue": "never",
                "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "single"},
            },
        },
        runbooks=_runbooks(bad),
    )


def note(title: str, description: str, markdown: str) -> Panel:
    """What no metric says, and where it is to be had."""
    return Panel(
        title=title,
        description=description,
        type="text",
        width=24,
        height=7,
        targets=(),
        body={"options": {"mode": "markdown", "content": markdown}},
    )


def _stat(text: str) -> Json:
    return {
        "colorMode": "background",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": text,
    }


def _runbooks(bad: Bad | None) -> tuple[str, ...]:
    return () if bad is None else bad.runbooks


def _cell(column: str, bad: Bad) -> Json:
    return {
        "matcher": {"id": "byName", "options": column},
        "properties": [
            {"id": "thresholds", "value": {"mode": "absolute", "steps": bad.steps()}},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ],
    }


def _labelled(label: str, colours: Mapping[str, str]) -> Json:
    values = {value: {"color": colour} for value, colour in colours.items()}
    return {
        "matcher": {"id": "byName", "options": label},
        "properties": [
            {"id": "mappings", "value": [{"type": "value", "options": values}]},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ],
    }


def _override(field: str, key: str, value: Any) -> Json:
    return {
        "matcher": {"id": "byName", "options": field},
        "properties": [{"id": key, "value": value}],
    }


def _coloured(colours: Mapping[str, str]) -> list[Json]:
    return [
        _override(name, "color", {"mode": "fixed", "fixedColor": colour})
        for name, colour in colours.items()
    ]


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _targets(queries: Sequence[Query], *, instant: bool) -> tuple[Json, ...]:
    return tuple(
        {
            "refId": _ref(number),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "instant": instant,
            "range": not instant,
        }
        for number, query in enumerate(queries)
    )
