"""Rows of consumer groups after a failover, for the API, `explain` and `status`. Pure."""

from __future__ import annotations

from offsetwatch.model.moments import moment_of
from offsetwatch.serve.documents.types import FlowGroupRow, GroupRow
from offsetwatch.state.snapshot import ConnectorView, GroupView, Snapshot

HEADINGS = (
    "flow",
    "group",
    "topic",
    "partition#",
    "upstream#",
    "best#",
    "starts at#",
    "by",
    "reads again#",
    "skips#",
)


def build_group_row(view: GroupView) -> GroupRow:
    """Build the row of a group in one partition; GroupView explains its fields."""
    return {
        "group": view.group,
        "topic": view.topic,
        "partition": view.partition,
        "upstream": view.upstream,
        "best": view.best,
        "landing": view.landing,
        "landing_from": view.landing_from,
        "translated": view.translated,
        "reread_records": view.reread,
        "skip_records": view.skip,
        "checkpoint_at": moment_of(view.checkpoint_at),
    }


def build_connector_group_rows(snapshot: Snapshot, view: ConnectorView) -> list[FlowGroupRow]:
    """Return the groups of the flows that a connector belongs to, with the flow of each.

    A checkpoint connector gets those of all flows of its Connect cluster. Its aliases would tell
    which flows it serves, but they are not stored.
    """
    checkpoints = "MirrorCheckpoint" in view.class_name
    flows = {
        flow.key
        for flow in snapshot.topology.flows
        if flow.connect_cluster == view.connect_cluster
        and (checkpoints or flow.connector == view.name)
    }
    return [
        {"flow": f"{group.source}->{group.target}", **build_group_row(group)}
        for group in snapshot.groups
        if (group.connect_cluster, group.source, group.target) in flows
    ]


def format_table_row(view: FlowGroupRow) -> tuple[object, ...]:
    """Return the cells under HEADINGS of a row that `build_connector_group_rows` built."""
    return (
        view["flow"],
        view["group"],
        view["topic"],
        view["partition"],
        view["upstream"],
        view["best"],
        view["landing"],
        view["landing_from"],
        view["reread_records"],
        view["skip_records"],
    )
