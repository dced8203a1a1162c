"""The JSON API: one snapshot as one document. Called by http.py.

Numbers are exact at any size: offsets are the connector's own JSON, embedded as it was decoded, and
our own integers are written in full. (JavaScript rounds beyond 2^53 when it reads them.) Times are
Unix seconds. Every part of a document comes from one snapshot.

Asked with `?connect_cluster=...&connector=...` (either of them, or both) they hold that one alone.

Both documents have

    at                 when the snapshot was made
    ready, waiting_for are all inputs caught up, and in words which are not
    recorded           ["kafka/topic"] the topics that progress is read from, and that the history
                       pipeline keeps
    inputs             [{input, kind, up, live, last_success_at, errors: {reason: count},
                         last_error,
                         tail: {kafka, topic, caught_up, behind,
                                records: {value, tombstone, undecodable},
                                positions: {"partition": next offset},
                                frozen: [{partition, offset, detail, reason}]} | null}]

/api/v1/connectors adds

    connectors         [{connect_cluster, name, kind, class, version, state, tasks: [{task, state}],
                         source_partitions: [{source_partition: {...}, label, offset: {...} | null,
                            kafka_partition, log_offset, committed_at, advanced_at,
                            commits, advances, rewinds, resets, variants, from,
                            dialect, event_at, poisoned, shadow: {...} | null,
                            raw_key, raw_keys_unsure: [{raw_key, offset}]}],
                         sink_partitions: [{topic, partition, committed, log_end, lag_records,
                            from, caught_up, lag_seconds, behind_since, behind_from}]}]

`from` is "rest" where an offset was polled over REST, as no topic and no group can be read:
`committed_at` and `commits` are null there, and `advanced_at` is of the poll that saw the change.
Else it is "topic" or "group".

A connector that has offsets but is not listed (Connect's REST API is not asked, or is down) has
kind "unknown" and null for class, version and state.

`raw_key` and `raw_keys_unsure` are there only of a source partition that has been written under
other raw keys than that of a HashMap; `raw_key` is the one that its task looks up, and null while
that is not known.

`caught_up` is null while nobody knows; `lag_seconds`, the age of the oldest record that waits, is
0 when caught up and null while it is not known; it counts from `behind_since`, which `behind_from`
told: "record", read from the log, or "log_ends", when the log end was last seen at the position.

/api/v1/flows adds

    flows              [{connect_cluster, connector, source, target, upstream,
                         offset_syncs: "kafka/topic" | null,
                         routers: [{class, regex, replacement}], transforms that rename copies;
                         where regex is null the names cannot be told,
                         partitions: [{topic, partition, committed, committed_at, from, synced,
                            replicated, log_start, log_end, lag_records, ahead_records,
                            lag_position: the replicated offset that lag_records belongs to,
                            caught_up, lag_seconds, behind_since, behind_from,
                            headroom_records, headroom_seconds, lost_records: {cause: count}}],
                         lag_records: the sum over all partitions, null unless every one's is known,
                         syncs: [{topic, partition, upstream_offset, downstream_offset, at}],
                         groups: [{group, topic, partition, upstream, best, landing, landing_from,
                            translated, reread_records, skip_records, checkpoint_at}],
                         checkpoints: [{group, at}],
                         heartbeat_at,
                         losses: [{topic, partition, cause, first, last, records, at}],
                         recreations: [{topic, count, at, id_before, id_after}]}]

`losses` are the newest ranges of upstream offsets that can no longer be replicated, both ends in
them; `lost_records` are the counts of all that ever were.

What a group would meet if it moved to the target now is explained at GroupView
(state/snapshot.py). Two flows under one pair of aliases share syncs, groups, checkpoints and
heartbeats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from exporter.model.connectors import ConnectorKind
from exporter.model.topology import FlowKey, MirrorFlow
from exporter.serve import failover, fates
from exporter.serve.origins import origin
from exporter.state.lag import lag_seconds
from exporter.state.marks import ConnectorKey
from exporter.state.overall import connector_of, flow_of, grouped
from exporter.state.remote import router_rows
from exporter.state.snapshot import (
    CheckpointView,
    ConnectorView,
    GroupView,
    HeartbeatView,
    InputView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
    SyncView,
    TailView,
)

Document = dict[str, Any]


class Only(NamedTuple):
    """Of what a document is wanted; None stands for all."""

    connect_cluster: str | None = None
    connector: str | None = None

    def wants(self, connect_cluster: str, connector: str) -> bool:
        """Is this one of them?"""
        return self.connect_cluster in {None, connect_cluster} and self.connector in {
            None,
            connector,
        }


ALL = Only()


def connectors(snapshot: Snapshot, only: Only = ALL) -> bytes:
    """The body of /api/v1/connectors."""
    listed = {(view.connect_cluster, view.name): view for view in snapshot.connectors}
    sources = grouped(snapshot.source_partitions, connector_of)
    sinks = grouped(snapshot.sink_partitions, connector_of)
    rows = [
        {
            **_connector(key, listed.get(key)),
            "source_partitions": [_source_partition(view) for view in sources.get(key, ())],
            "sink_partitions": [_sink_partition(view, snapshot.at) for view in sinks.get(key, ())],
        }
        for key in sorted(listed.keys() | sources.keys() | sinks.keys())
        if only.wants(*key)
    ]
    return msgspec.json.encode({**_head(snapshot), "connectors": rows})


def flows(snapshot: Snapshot, only: Only = ALL) -> bytes:
    """The body of /api/v1/flows."""
    known = {flow_of(flow): flow for flow in snapshot.topology.flows}
    partitions = grouped(snapshot.mirror_partitions, flow_of)
    syncs = grouped(snapshot.syncs, _pair_of)
    groups = grouped(snapshot.groups, _pair_of)
    checkpoints = grouped(snapshot.checkpoints, _pair_of)
    heartbeats = {_pair_of(view): view.at for view in snapshot.heartbeats}
    rows = []
    for key in sorted(known.keys() | partitions.keys()):
        connect_cluster, connector, source, target = key
        if not only.wants(connect_cluster, connector):
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
                **_ends(known.get(key)),
                "partitions": [_mirror_partition(view, snapshot.at) for view in mirrored],
                "lag_records": sum(lags) if whole else None,
                "syncs": [_sync(view) for view in syncs.get(pair, ())],
                "groups": [failover.group(view) for view in groups.get(pair, ())],
                "checkpoints": [
                    {"group": view.group, "at": view.at} for view in checkpoints.get(pair, ())
                ],
                "heartbeat_at": heartbeats.get(pair),
                **fates.of_flow(snapshot, key),
            }
        )
    return msgspec.json.encode({**_head(snapshot), "flows": rows})


def _pair_of(view: SyncView | GroupView | CheckpointView | HeartbeatView) -> FlowKey:
    return (view.connect_cluster, view.source, view.target)


def _head(snapshot: Snapshot) -> Document:
    return {
        "at": snapshot.at,
        "ready": snapshot.ready,
        "waiting_for": snapshot.waiting_for,
        "recorded": [str(topic) for topic in snapshot.topology.recorded()],
        "inputs": [_input(view) for view in snapshot.inputs],
    }


def _input(view: InputView) -> Document:
    return {
        "input": view.id.input,
        "kind": view.id.kind,
        "up": view.up,
        "live": view.live,
        "last_success_at": view.last_success_at,
        "errors": dict(view.errors),
        "last_error": view.last_error,
        "tail": None if view.tail is None else _tail(view.tail),
    }


def _tail(tail: TailView) -> Document:
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
        "frozen": [
            {
                "partition": at.partition,
                "offset": at.offset,
                "detail": at.detail,
                "reason": at.reason,
            }
            for at in tail.frozen
        ],
    }


def _connector(key: ConnectorKey, view: ConnectorView | None) -> Document:
    connect_cluster, name = key
    if view is None:
        kind, class_name, version, state = ConnectorKind.UNKNOWN, None, None, None
    else:
        kind, class_name, version, state = view.kind, view.class_name, view.version, view.state
    return {
        "connect_cluster": connect_cluster,
        "name": name,
        "kind": kind.value,
        "class": class_name,
        "version": version,
        "state": state,
        "tasks": []
        if view is None
        else [{"task": task.number, "state": task.state} for task in view.tasks],
    }


def raw_keys(view: SourcePartitionView) -> Document:
    """What there is to tell of the raw keys of a source partition that is no HashMap's; of all
    others nothing.
    """
    if view.keys is None:
        return {}
    raw_key = view.raw_key
    return {
        "raw_key": None if raw_key is None else raw_key.decode(errors="backslashreplace"),
        "raw_keys_unsure": [
            {
                "raw_key": at.decode(errors="backslashreplace"),
                "offset": None if offset is None else msgspec.Raw(offset.text.encode()),
            }
            for at, offset in view.unsure
        ],
    }


def _source_partition(view: SourcePartitionView) -> Document:
    return {
        "source_partition": msgspec.Raw(view.identity.encode()),
        "label": view.label,
        "offset": None if view.offset is None else msgspec.Raw(view.offset.text.encode()),
        "kafka_partition": view.kafka_partition,
        "log_offset": view.log_offset,
        "committed_at": view.committed_at,
        "advanced_at": view.advanced_at,
        "commits": view.commits,
        "advances": view.advances,
        "rewinds": view.rewinds,
        "resets": view.resets,
        "variants": view.variants,
        **raw_keys(view),
        "from": origin(view),
        "dialect": view.dialect,
        "event_at": view.event_at,
        "poisoned": view.poisoned,
        "shadow": None if view.shadow is None else msgspec.Raw(view.shadow.text.encode()),
    }


def _sink_partition(view: SinkPartitionView, now: float) -> Document:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": view.committed,
        "log_end": view.log_end,
        "lag_records": view.lag,
        "from": origin(view),
        **age(view, now),
    }


def age(view: MirrorPartitionView | SinkPartitionView, now: float) -> Document:
    """How old what waits is, and what told it."""
    return {
        "caught_up": view.caught_up,
        "lag_seconds": lag_seconds(view.behind_since, now, caught_up=view.caught_up),
        "behind_since": view.behind_since,
        "behind_from": view.behind_from,
    }


def _ends(flow: MirrorFlow | None) -> Document:
    if flow is None:
        return {"upstream": None, "offset_syncs": None, "routers": []}
    syncs = None if flow.offset_syncs is None else str(flow.offset_syncs)
    return {"upstream": flow.upstream, "offset_syncs": syncs, "routers": router_rows(flow)}


def _mirror_partition(view: MirrorPartitionView, now: float) -> Document:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": view.committed,
        "committed_at": view.committed_at,
        "from": origin(view),
        "synced": view.synced,
        "replicated": view.replicated,
        "log_start": view.log_start,
        "log_end": view.log_end,
        "lag_records": view.lag,
        "ahead_records": view.ahead,
        "lag_position": view.lag_position,
        **age(view, now),
        **fates.retention(view),
    }


def _sync(view: SyncView) -> Document:
    return {
        "topic": view.topic,
        "partition": view.partition,
        "upstream_offset": view.upstream_offset,
        "downstream_offset": view.downstream_offset,
        "at": view.at,
    }
