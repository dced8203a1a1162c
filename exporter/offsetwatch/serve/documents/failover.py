"""What a failover would meet, as rows of the API, of `explain` and of `status`. Pure."""

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
    """What a group would meet in one partition; see GroupView."""
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
    """The groups of the flows that a connector belongs to, with the flow of each.

    A checkpoint connector's are those of all flows of its Connect cluster: which it serves, its
    aliases would tell, which are not kept.
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
    """The cells under HEADINGS, of a row that `concerning` made."""
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
