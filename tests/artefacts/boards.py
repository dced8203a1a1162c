"""The boards as these tests see them, and a world in which nearly every panel has something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import structs

from dashboards.build import boards
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import FindingName, Severity
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.unit.serve.worlds import (
    FOUND,
    GROUP,
    JUDGED,
    MIRROR,
    REMEDIES,
    USUAL,
    connector,
    full,
    number,
    source,
)

Board = dict[str, Any]

ALERT_RULES: dict[str, Board] = {
    rule["alert"]: rule
    for path in sorted((Path(__file__).parents[2] / "alerts").glob("*.rules.yaml"))
    for group in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["groups"]
    for rule in group["rules"]
    if "alert" in rule
}

BOARDS: dict[str, Board] = {path.stem: json.loads(text) for path, text in boards().items()}
LABEL = re.compile(r"\{\{(\w+)\}\}")

EVERYTHING = {
    **dict.fromkeys(("job", "instance", "connect_cluster", "connector"), ".+"),
    **dict.fromkeys(("source", "target", "group", "topic"), ".+"),
    "__rate_interval": "1m",
}

CONNECTORS = ("files", "mirror", "out", "whole")

# Boards of one thing are looked at once for each that there is: none fills all of its panels.
CHOSEN: dict[str, list[dict[str, str]]] = {
    name: [EVERYTHING] for name in BOARDS if name not in {"connector", "flow"}
}
CHOSEN["connector"] = [
    EVERYTHING | {"connect_cluster": "lab", "connector": name} for name in CONNECTORS
]
CHOSEN["flow"] = [
    EVERYTHING | {"connect_cluster": "lab", "source": name, "target": "east"}
    for name in ("west", "north", "south")
]


def rows(board: Board) -> list[Board]:
    return [panel for panel in board["panels"] if panel["type"] == "row"]


def open_panels(board: Board) -> list[Board]:
    """Those that are seen without a click."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def panels(board: Board) -> list[Board]:
    """All of them, those in collapsed rows too."""
    return [*open_panels(board), *(panel for row in rows(board) for panel in row["panels"])]


def select_queried(board: Board) -> list[Board]:
    """Without what is only text."""
    return [panel for panel in panels(board) if panel["type"] != "text"]


def targets(board: Board) -> Iterator[tuple[str, Board]]:
    for panel in select_queried(board):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target


def queries() -> Iterator[tuple[str, str, Board]]:
    """(board, title and number, target) of all."""
    for name, board in BOARDS.items():
        for title, target in targets(board):
            yield name, title, target


def substituted(expr: str, chosen: Mapping[str, str] = EVERYTHING) -> str:
    for name, value in chosen.items():
        expr = re.sub(rf"\${name}\b", lambda _, value=value: value, expr)
    return expr


def build_snapshot() -> Snapshot:
    """`full()`, with a sink's connector, a flow of which all is known, a group that would lose
    records, and remedies as of the moment of everything else.
    """
    snapshot = full()
    whole = replace(MIRROR, connector="whole", source="south", lag=5, headroom=-3)
    committed = source(
        '{"cluster":"south","partition":7,"topic":"orders"}',
        "cluster=south,partition=7,topic=orders",
        number("offset", 99),
        connector="whole",
        event_at=snapshot.at - 90,
    )
    poison = replace(FOUND, name=FindingName.POISON_SUSPECTED, connector="files")
    guards = ("kill_switch", "receipt")
    return replace(
        snapshot,
        connectors=(
            *snapshot.connectors,
            replace(connector("out"), kind=ConnectorKind.SINK),
            replace(connector("whole"), kind=ConnectorKind.MIRROR),
        ),
        source_partitions=(*snapshot.source_partitions, committed),
        mirror_partitions=(*snapshot.mirror_partitions, whole),
        groups=(*snapshot.groups, replace(GROUP, group="audit", reread=0, skip=4)),
        heartbeats=(
            *snapshot.heartbeats,
            replace(snapshot.heartbeats[0], source="south", at=snapshot.at - 70),
        ),
        judgements=(*snapshot.judgements, replace(JUDGED, connector="whole")),
        findings=(
            *snapshot.findings,
            poison,
            replace(poison, name=FindingName.CHECKPOINTS_STALE, severity=Severity.WARNING),
            replace(FOUND, name=FindingName.INPUT_DOWN, connect_cluster="", connector=None),
        ),
        remedies=replace(
            REMEDIES,
            at=snapshot.at - 1,
            blocked=(
                *REMEDIES.blocked,
                *(("lab", "files", "skip_one", guard, 1) for guard in guards),
            ),
            actions=(("lab", "files", "skip_one", "ineffective", 1), *REMEDIES.actions),
            stopped_by_us=(("lab", "files", snapshot.at - 100),),
        ),
        baselines=replace(
            snapshot.baselines,
            of={
                **snapshot.baselines.of,
                ("lab", "whole"): structs.replace(USUAL, connector="whole"),
            },
        ),
        topology=replace(
            snapshot.topology,
            flows=(
                *snapshot.topology.flows,
                MirrorFlow(
                    connect_cluster="lab",
                    connector="whole",
                    source="south",
                    target="east",
                    upstream=None,
                    offset_syncs=None,
                ),
            ),
        ),
    )
