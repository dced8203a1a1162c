"""The documents /api/v1/connectors and /api/v1/flows, from one snapshot.

Numbers are exact at any size: offsets are the connector's own JSON, embedded as it was decoded, and
our own integers are written in full. (JavaScript rounds beyond 2^53 when it reads them.) Every part
of a document comes from one snapshot.

With `?connect_cluster=...&connector=...`, or one of the two, they have only what matches.

The types of their bodies, and the meaning of the fields, are in types.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from offsetwatch import documents
from offsetwatch.judge.progress.cases import format_raw_key
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.topology import FlowKey, MirrorFlow
from offsetwatch.serve.documents.types import (
    REST,
    ConnectorBody,
    ConnectorHead,
    ConnectorsBody,
    DocumentHead,
    FlowBody,
    FlowEnds,
    FlowGroupRow,
    FlowLossRows,
    FlowsBody,
    GroupRow,
    InputRow,
    LagAge,
    LossRow,
    MirrorPartitionRow,
    Origin,
    RawKeyRow,
    Retention,
    RouterRow,
    SinkPartitionRow,
    SourceEndRow,
    SourcePartition,
    SyncRow,
    TailRow,
)
from offsetwatch.state.mirror.lag import compute_lag_seconds
from offsetwatch.state.snapshot import (
    CheckpointView,
    ConnectorFlowKey,
    ConnectorView,
    GroupView,
    HeartbeatView,
    InputView,
    Loss,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourceEndView,
    SourcePartitionView,
    SyncView,
    TailView,
)
from offsetwatch.state.snapshot_index import ConnectorKey
from offsetwatch.state.totals import flow_of, group_views


class ConnectorFilter(NamedTuple):
    """Filter of a document by Connect cluster and connector; None matches all."""

    connect_cluster: str | None = None
    connector: str | None = None

    def matches(self, connect_cluster: str, connector: str) -> bool:
        """Check whether a connector matches."""
        return self.connect_cluster in {None, connect_cluster} and self.connector in {
            None,
            connector,
        }


ALL_CONNECTORS = ConnectorFilter()


def encode_connectors(snapshot: Snapshot, only: ConnectorFilter = ALL_CONNECTORS) -> bytes:
    """Return the body of /api/v1/connectors."""
    listed = snapshot.index.connectors
    sources, sinks = snapshot.index.source_partitions, snapshot.index.sink_partitions
    rows: list[ConnectorBody] = [
        {
            **_build_connector(key, listed.get(key)),
            "source_partitions": [
                build_source_partition(view, snapshot) for view in sources.get(key, ())
            ],
            "sink_partitions": [
                build_sink_partition(view, snapshot.at) for view in sinks.get(key, ())
            ],
        }
        for key in sorted(listed.keys() | sources.keys() | sinks.keys())
        if only.matches(*key)
    ]
    body: ConnectorsBody = {**_build_head(snapshot), "connectors": rows}
    return documents.encode(body)


def encode_flows(snapshot: Snapshot, only: ConnectorFilter = ALL_CONNECTORS) -> bytes:
    """Return the body of /api/v1/flows."""
    known = {flow_of(flow): flow for flow in snapshot.topology.flows}
    partitions = group_views(snapshot.mirror_partitions, flow_of)
    syncs = group_views(snapshot.syncs, _flow_key_of)
    groups = group_views(snapshot.groups, _flow_key_of)
    checkpoints = group_views(snapshot.checkpoints, _flow_key_of)
    heartbeats = {_flow_key_of(view): view.at for view in snapshot.heartbeats}
    rows: list[FlowBody] = []
    for key in sorted(known.keys() | partitions.keys()):
        connect_cluster, connector, source, target = key
        if not only.matches(connect_cluster, connector):
            continue
        mirrored = partitions.get(key, [])
        lags = [view.lag for view in mirrored if view.lag is not None]
        whole = bool(lags) and len(lags) == len(mirrored) and key[:2] not in snapshot.partial
        pair = (connect_cluster, source, target)
        rows.append(
            {
                "connect_cluster": connect_cluster,
                "connector": connector,
                "source": source,
                "target": target,
                **_build_flow_ends(known.get(key)),
                "partitions": [_build_mirror_partition(view, snapshot.at) for view in mirrored],
                "lag_records": sum(lags) if whole else None,
                "syncs": [_build_sync(view) for view in syncs.get(pair, ())],
                "groups": [build_group_row(view) for view in groups.get(pair, ())],
                "checkpoints": [
                    {"group": view.group, "at": Moment(view.at)}
                    for view in checkpoints.get(pair, ())
                ],
                "heartbeat_at": moment_of(heartbeats.get(pair)),
                **build_flow_losses(snapshot, key),
            }
        )
    body: FlowsBody = {**_build_head(snapshot), "flows": rows}
    return documents.encode(body)


def _flow_key_of(view: SyncView | GroupView | CheckpointView | HeartbeatView) -> FlowKey:
    return (view.connect_cluster, view.source, view.target)


def _build_head(snapshot: Snapshot) -> DocumentHead:
    return {
        "at": Moment(snapshot.at),
        "ready": snapshot.ready,
        "waiting_for": snapshot.waiting_for,
        "recorded": [str(topic) for topic in snapshot.topology.recorded()],
        "inputs": [_build_input(view) for view in snapshot.inputs],
    }


def _build_input(view: InputView) -> InputRow:
    return {
        "input": view.id.input,
        "kind": view.id.kind,
        "up": view.up,
        "live": view.live,
        "last_success_at": moment_of(view.last_success_at),
        "errors": dict(view.errors),
        "last_error": view.last_error,
        "tail": None if view.tail is None else _build_tail(view.tail),
    }


def _build_tail(tail: TailView) -> TailRow:
    return {
        "kafka": tail.topic.kafka,
        "topic": tail.topic.topic,
        "caught_up": tail.caught_up,
        "behind": tail.behind,
        "records": {
            "value": tail.values,
            "tombstone": tail.tombstones,
            "undecodable": tail.undecodable,
        },
        "positions": {str(partition): offset for partition, offset in tail.positions},
        "frozen": tail.frozen,
    }


def _build_connector(key: ConnectorKey, view: ConnectorView | None) -> ConnectorHead:
    connect_cluster, name = key
    if view is None:
        kind, class_name, version, state = ConnectorKind.UNKNOWN, None, None, None
    else:
        kind, class_name, version, state = view.kind, view.class_name, view.version, view.state
    return {
        "connect_cluster": connect_cluster,
        "name": name,
        "kind": kind,
        "class": class_name,
        "version": version,
        "state": state,
        "tasks": []
        if view is None
        else [{"task": task.number, "state": task.state} for task in view.tasks],
    }


def _embed_json(offset: SourceOffset | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if offset is None else offset.text.encode())


def _find_origin(view: SourcePartitionView | MirrorPartitionView | SinkPartitionView) -> Origin:
    """Return `rest` for a position polled over REST, `group` or `topic` for one read from Kafka."""
    if view.from_rest:
        return REST
    return "group" if isinstance(view, SinkPartitionView) else "topic"


def build_source_partition(view: SourcePartitionView, snapshot: Snapshot) -> SourcePartition:
    """Return a source partition with its offset, and the end of its source."""
    end = snapshot.index.source_ends.get((view.connect_cluster, view.connector, view.identity))
    raw_key: str | UnsetType | None = UNSET
    unsure: tuple[RawKeyRow, ...] | UnsetType = UNSET
    if view.keys is not None:
        raw_key = None if view.raw_key is None else format_raw_key(view.raw_key)
        unsure = tuple(
            RawKeyRow(format_raw_key(raw), _embed_json(offset)) for raw, offset in view.unsure
        )
    return SourcePartition(
        source_partition=msgspec.Raw(view.identity.encode()),
        label=view.label,
        offset=_embed_json(view.offset),
        kafka_partition=view.kafka_partition,
        log_offset=view.log_offset,
        committed_at=moment_of(view.committed_at),
        advanced_at=moment_of(view.advanced_at),
        commits=view.commits,
        advances=view.advances,
        rewinds=view.rewinds,
        resets=view.resets,
        variants=view.variants,
        raw_key=raw_key,
        raw_keys_unsure=unsure,
        origin=_find_origin(view),
        dialect=view.dialect,
        event_at=moment_of(view.event_at),
        poisoned=view.poisoned,
        shadow=_embed_json(view.shadow),
        source_end=UNSET if end is None else _build_source_end(end, snapshot.at),
    )


def _build_source_end(view: SourceEndView, now: float) -> SourceEndRow:
    return SourceEndRow(
        source=view.source,
        kind=view.kind,
        read_at=Moment(view.read_at),
        server=view.server or None,
        end=view.end or None,
        position=view.position,
        end_position=view.end_position,
        lag_bytes=view.lag_bytes,
        lag_transactions=view.lag_transactions,
        lag_rows=view.lag_rows,
        lag_seconds=compute_lag_seconds(view.behind_since, now, caught_up=view.caught_up),
        caught_up=view.caught_up,
        behind_since=moment_of(view.behind_since),
        ahead=view.ahead,
        retention_headroom_bytes=view.headroom_bytes,
        retained_bytes=view.retained_bytes,
        connected=view.connected,
        snapshot_in_progress=view.in_snapshot,
        lost=view.lost,
        mismatch=view.mismatch,
        problem=view.problem,
    )


def build_sink_partition(view: SinkPartitionView, now: float) -> SinkPartitionRow:
    """Return a partition that a sink consumes, with its lag."""
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": view.committed,
        "log_end": view.log_end,
        "lag_records": view.lag,
        "from": _find_origin(view),
        **build_lag_age(view, now),
    }


def build_lag_age(view: MirrorPartitionView | SinkPartitionView, now: float) -> LagAge:
    """Return the age of the oldest record that waits, and the source of that age."""
    return {
        "caught_up": view.caught_up,
        "lag_seconds": compute_lag_seconds(view.behind_since, now, caught_up=view.caught_up),
        "behind_since": moment_of(view.behind_since),
        "behind_from": view.behind_from,
    }


def _build_flow_ends(flow: MirrorFlow | None) -> FlowEnds:
    if flow is None:
        return {"upstream": None, "offset_syncs": None, "routers": [], "copies": {}}
    syncs = None if flow.offset_syncs is None else str(flow.offset_syncs)
    return {
        "upstream": flow.upstream,
        "offset_syncs": syncs,
        "routers": build_router_rows(flow),
        "copies": dict(flow.copies),
    }


def build_router_rows(flow: MirrorFlow) -> list[RouterRow]:
    """Return the routers of a flow; `regex` is None if the names of its copies are not known."""
    return [
        {
            "class": router.class_name,
            "regex": router.regex,
            "replacement": router.replacement or None,
            "conditional": router.conditional,
            "topics": router.topics,
            "negated": router.negated,
        }
        for router in flow.routers
    ]


def _build_mirror_partition(view: MirrorPartitionView, now: float) -> MirrorPartitionRow:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": view.committed,
        "committed_at": moment_of(view.committed_at),
        "from": _find_origin(view),
        "synced": view.synced,
        "replicated": view.replicated,
        "log_start": view.log_start,
        "log_end": view.log_end,
        "lag_records": view.lag,
        "ahead_records": view.ahead,
        "lag_position": view.lag_position,
        **build_lag_age(view, now),
        **build_retention(view),
    }


def _build_sync(view: SyncView) -> SyncRow:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "upstream_offset": view.upstream_offset,
        "downstream_offset": view.downstream_offset,
        "at": Moment(view.at),
    }


def build_group_row(view: GroupView) -> GroupRow:
    """Build the row of a group in one partition; GroupView explains its fields."""
    return {
        "group": view.group,
        "topic": view.topic,
        "partition": view.partition,
        "upstream": view.upstream,
        "best": view.best,
        "start_offset": view.start_offset,
        "start_offset_from": view.start_offset_from,
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


def build_retention(view: MirrorPartitionView) -> Retention:
    """Return the distance of retention to a partition's position, and the records lost so far."""
    return {
        "headroom_records": view.headroom,
        "headroom_seconds": view.headroom_s,
        "lost_records": dict(view.lost),
    }


def build_flow_losses(snapshot: Snapshot, flow: ConnectorFlowKey) -> FlowLossRows:
    """Return the newest losses and recreated topics of a flow."""
    return {
        "losses": build_loss_rows(loss for loss in snapshot.losses if flow_of(loss) == flow),
        "recreations": [
            {
                "topic": recreation.topic,
                "count": recreation.count,
                "at": Moment(recreation.at),
                "id_before": recreation.before,
                "id_after": recreation.after,
            }
            for recreation in snapshot.recreations
            if flow_of(recreation) == flow
        ],
    }


def build_loss_rows(losses: Iterable[Loss]) -> list[LossRow]:
    """Return the rows of lost ranges of offsets; both ends are included."""
    return [
        {
            "topic": loss.topic,
            "partition": loss.partition,
            "cause": loss.cause,
            "first": loss.first,
            "last": loss.last,
            "records": loss.records,
            "at": Moment(loss.at),
        }
        for loss in losses
    ]
