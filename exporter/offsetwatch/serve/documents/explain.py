"""The document /api/v1/explain: everything known of one connector, and the source of each number.

The `explain` verb prints it. Pure: a snapshot in, a document out, all of it from that snapshot.

The types of its parts are in types.py. It has the connector's state, tasks and offsets topic, its
source partitions, flow and consumer group, the position of each group of its flow after a failover,
verdicts and findings, and the inputs that all of this depends on. `problems` are other problems, in
words: what a finding reports is not repeated.

Times are by our own clock; that of a committed or synced offset is the timestamp of its record.
Counts are since the tail caught up.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import asdict

from offsetwatch import documents
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_count
from offsetwatch.judge.progress.verdict_rules import RULE_TEXTS
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import FindingName
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    InputId,
    build_rest_offsets_input,
    build_source_end_input,
)
from offsetwatch.model.topology import (
    KafkaTopic,
    MirrorFlow,
    SinkGroup,
    describe_missing_topics,
    is_provided,
)
from offsetwatch.serve.documents.api import (
    build_connector_group_rows,
    build_flow_losses,
    build_lag_age,
    build_retention,
    build_router_rows,
    build_sink_partition,
    build_source_partition,
)
from offsetwatch.serve.documents.findings import (
    AHEAD_FINDINGS,
    FAILURE_FINDINGS,
    build_finding_row,
    build_judgement_row,
)
from offsetwatch.serve.documents.types import (
    REST,
    DatedOffset,
    ExplainBody,
    ExplainedConnector,
    ExplainedFlow,
    ExplainedGroup,
    ExplainedInput,
    ExplainedJudgement,
    ExplainedMirrorOffsets,
)
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.mirror.mm2_names import locate_checkpoints
from offsetwatch.state.snapshot import (
    ConnectorView,
    InputView,
    MirrorPartitionView,
    Snapshot,
    SourcePartitionView,
)
from offsetwatch.state.totals import flow_of


def encode_explain(snapshot: Snapshot, name: str, cluster: str | None) -> bytes:
    """Return the body of /api/v1/explain. Raises ConfigError as `find_connector` does."""
    document = build_explained_connector(snapshot, find_connector(snapshot, name, cluster))
    body: ExplainBody = {**document, "waiting_for": snapshot.waiting_for}
    return documents.encode(body)


def _list_known_connectors(snapshot: Snapshot) -> list[ConnectorView]:
    """Return the listed connectors, then those known only by offsets or by a configured flow."""
    index = snapshot.index
    connectors = dict(index.connectors)
    for cluster, name in (*index.source_partitions, *index.flows):
        connectors.setdefault(
            (cluster, name),
            ConnectorView(
                connect_cluster=cluster,
                name=name,
                kind=ConnectorKind.UNKNOWN,
                class_name="",
                version="",
                state="unknown",
                tasks=(),
            ),
        )
    return list(connectors.values())


def find_connector(snapshot: Snapshot, name: str, cluster: str | None) -> ConnectorView:
    """Return the only connector of this name. Raises ConfigError with a hint for the user."""
    listed = [
        view for view in _list_known_connectors(snapshot) if cluster in {None, view.connect_cluster}
    ]
    matches = [view for view in listed if view.name == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        clusters = ", ".join(view.connect_cluster for view in matches)
        raise ConfigError((f"several Connect clusters have a {name} ({clusters}): say --connect",))
    where = "any Connect cluster" if cluster is None else f"Connect cluster {cluster}"
    near = difflib.get_close_matches(name, [view.name for view in listed], n=1)
    hint = f', did you mean "{near[0]}"?' if near else ": `offsetwatch connectors status` lists all"
    raise ConfigError((f"no connector {name} in {where}{hint}",))


def build_explained_connector(snapshot: Snapshot, view: ConnectorView) -> ExplainedConnector:
    """Build the document of one connector."""
    key, index = (view.connect_cluster, view.name), snapshot.index
    topic = _find_offsets_topic(snapshot, view)
    flow, group = index.flows.get(key), index.sink_groups.get(key)
    sources = index.source_partitions.get(key, ())
    inputs = _list_inputs(snapshot, view, topic, flow)
    explained_flow = None if flow is None else _build_flow(snapshot, view, flow)
    said = {finding.name for finding in snapshot.findings if _is_of_connector(finding, view)}
    return {
        "at": Moment(snapshot.at),
        "connect_cluster": view.connect_cluster,
        "name": view.name,
        "kind": view.kind,
        "class": view.class_name,
        "version": view.version,
        "state": view.state,
        "tasks": [
            {"task": task.number, "state": task.state, "failure": task.failure}
            for task in view.tasks
        ],
        "offsets_topic": None if topic is None or view.kind is ConnectorKind.SINK else str(topic),
        "source_partitions": [build_source_partition(source, snapshot) for source in sources],
        "flow": explained_flow,
        "group": None if group is None else _build_group(snapshot, view, group),
        "failover": build_connector_group_rows(snapshot, view),
        "judgements": [
            ExplainedJudgement(
                **asdict(build_judgement_row(judgement)), rule_text=RULE_TEXTS.get(judgement.rule)
            )
            for judgement in snapshot.judgements
            if _is_of_connector(judgement, view)
        ],
        "findings": [
            build_finding_row(finding)
            for finding in snapshot.findings
            if _is_of_connector(finding, view)
        ],
        "inputs": [_build_input(input_id, input_view) for input_id, input_view in inputs],
        "problems": [
            *_find_state_problems(view, said),
            *_find_input_problems(inputs),
            *_find_source_problems(view, sources, topic, said),
            *_find_flow_problems(view, flow, explained_flow, said),
            *_find_topic_problems(snapshot, topic, flow),
            *_find_group_problems(snapshot, view, group),
        ],
    }


def _find_offsets_topic(snapshot: Snapshot, view: ConnectorView) -> KafkaTopic | None:
    """Return the connector's own offsets topic, or that of its cluster; None if it is not known."""
    topics = snapshot.index.offsets_topics
    shared = topics.get((view.connect_cluster, None))
    own = view.dedicated_offsets_topic
    if own is None or (shared is not None and own == shared.topic):
        return shared
    return topics.get((view.connect_cluster, view.name))


def _is_of_connector(at: Any, view: ConnectorView) -> bool:
    return (at.connect_cluster, at.connector) == (view.connect_cluster, view.name)


def _list_inputs(
    snapshot: Snapshot, view: ConnectorView, topic: KafkaTopic | None, flow: MirrorFlow | None
) -> list[tuple[InputId, InputView | None]]:
    """Return the inputs that this connector depends on; None for an input that was never read."""
    listing = [
        listing_topics
        for listing_topics in snapshot.topology.listings
        if listing_topics.connect_cluster == view.connect_cluster
    ]
    connectors = InputId(CONNECT_REST, connect_cluster=view.connect_cluster)
    connectors_view = snapshot.index.inputs.get(connectors)
    is_read = connectors_view is not None and connectors_view.up
    if listing:
        input_ids = [InputId.of_tail(kafka_topic) for kafka_topic in listing[0].topics()]
    elif view.kind is ConnectorKind.UNKNOWN and is_read:
        input_ids = []  # the list does not have it
    else:
        input_ids = [connectors]
    if (view.connect_cluster, view.name) in snapshot.index.rest_connectors:
        input_ids.append(build_rest_offsets_input(view.connect_cluster, view.name))
    elif view.kind is ConnectorKind.SINK:
        input_ids.append(InputId(GROUPS, connect_cluster=view.connect_cluster))
    else:
        input_ids.append(
            InputId(TAIL, connect_cluster=view.connect_cluster)
            if topic is None
            else InputId.of_tail(topic)
        )
    key = (view.connect_cluster, view.name)
    names = {name for of, name in snapshot.source_names.items() if of[:2] == key}
    input_ids += map(build_source_end_input, sorted(names))
    if flow is not None:
        if flow.offset_syncs is not None:
            input_ids.append(InputId.of_tail(flow.offset_syncs))
        if flow.upstream is not None:
            input_ids.append(InputId(LOG_ENDS, kafka=flow.upstream))
        checkpoints = locate_checkpoints(flow)
        if checkpoints in snapshot.topology.checkpoints:
            input_ids.append(InputId.of_tail(checkpoints))
        if any(request.flow == flow.key for request in snapshot.groups_to_ask):
            input_ids.append(build_groups_input(flow.key))
    return [(input_id, snapshot.index.inputs.get(input_id)) for input_id in input_ids]


def _build_input(input_id: InputId, view: InputView | None) -> ExplainedInput:
    tail = None if view is None else view.tail
    return {
        "input": input_id.input,
        "kind": input_id.kind,
        "up": view is not None and view.up,
        "live": view is not None and view.live,
        "last_success_at": None if view is None else moment_of(view.last_success_at),
        "last_error": "not read yet" if view is None else view.last_error,
        "undecodable": None if tail is None else tail.undecodable,
    }


def _build_flow(snapshot: Snapshot, view: ConnectorView, flow: MirrorFlow) -> ExplainedFlow:
    index = snapshot.index
    synced_at = {
        (sync.topic, sync.partition): sync.at
        for sync in index.syncs_of(flow.connect_cluster).values()
        if (sync.source, sync.target) == (flow.source, flow.target)
    }
    ends = index.inputs.get(InputId(LOG_ENDS, kafka=str(flow.upstream)))
    ended_at = None if ends is None else ends.last_success_at
    return {
        "source": flow.source,
        "target": flow.target,
        "upstream": flow.upstream,
        "offset_syncs": None if flow.offset_syncs is None else str(flow.offset_syncs),
        "read_committed": flow.read_committed is not False,
        "routers": build_router_rows(flow),
        "copies": dict(flow.copies),
        "partitions": [
            {
                **_build_mirror_offsets(
                    partition, flow, synced_at.get((partition.topic, partition.partition)), ended_at
                ),
                **build_lag_age(partition, snapshot.at),
                **build_retention(partition),
            }
            for partition in index.mirror_partitions.get((view.connect_cluster, view.name), ())
        ],
        **build_flow_losses(snapshot, flow_of(flow)),
    }


def _build_mirror_offsets(
    view: MirrorPartitionView, flow: MirrorFlow, synced_at: float | None, ended_at: float | None
) -> ExplainedMirrorOffsets:
    end = "high watermark" if flow.read_committed is False else "last stable offset"
    return {
        "topic": view.topic,
        "partition": view.partition,
        "committed": _build_dated_offset(
            view.committed, view.committed_at, REST if view.from_rest else "offsets topic"
        ),
        "synced": _build_dated_offset(view.synced, synced_at, str(flow.offset_syncs)),
        "log_end": _build_dated_offset(view.log_end, ended_at, f"{end} of {flow.upstream}"),
        "replicated": view.replicated,
        "log_start": view.log_start,
        "lag_records": view.lag,
        "lag_position": view.lag_position,
        "ahead_records": view.ahead,
    }


def _build_dated_offset(
    offset: int | None, moment: float | None, source: str
) -> DatedOffset | None:
    return None if offset is None else {"offset": offset, "at": moment_of(moment), "from": source}


def _build_group(snapshot: Snapshot, view: ConnectorView, group: SinkGroup) -> ExplainedGroup:
    return {
        "group": group.group,
        "kafka": group.kafka,
        "lag_unknown": group.lag_unknown,
        "partitions": [
            build_sink_partition(partition, snapshot.at)
            for partition in snapshot.index.sink_partitions.get(
                (view.connect_cluster, view.name), ()
            )
        ],
    }


# --- what is wrong -------------------------------------------------------------------------------


def _find_state_problems(view: ConnectorView, said: AbstractSet[FindingName]) -> Iterator[str]:
    if not said & FAILURE_FINDINGS:
        if view.state == "failed":
            yield "the connector has failed"
        for task in view.tasks:
            if task.state == "failed":
                yield f"task {task.number} has failed"
    if view.state == "running" and not view.tasks and view.kind is not ConnectorKind.MIRROR:
        yield "it runs without a single task"


def _find_input_problems(inputs: list[tuple[InputId, InputView | None]]) -> Iterator[str]:
    for input_id, view in inputs:
        name = input_id.in_words
        if view is None:
            yield f"{name} was not read yet"
        elif view.last_error is not None and not view.up:
            yield f"{name} cannot be read: {view.last_error}"
        elif view.tail is not None and view.tail.undecodable:
            yield f"{name}: {format_count(view.tail.undecodable, 'record')} could not be decoded"


def _find_source_problems(
    view: ConnectorView,
    sources: Sequence[SourcePartitionView],
    topic: KafkaTopic | None,
    said: AbstractSet[FindingName],
) -> Iterator[str]:
    own = view.dedicated_offsets_topic
    if own is not None and topic is None and not sources:
        why = "on a Kafka cluster that is not configured"
        if is_provided(own):
            why = "whose name only a config provider of its workers knows"
        yield f"it keeps its offsets in a topic of its own, {own}, {why}: they are not known"
    for source in sources:
        if source.shadow is not None and FindingName.STARTS_FROM_SCRATCH not in said:
            yield (
                f"{source.label}: only the offsets topic of the whole cluster has an offset of it. "
                "The connector has a topic of its own and reads nothing else: it starts over"
            )
        if len({raw_key for raw_key, _ in source.unsure}) == 1:
            yield (
                f"{source.label}: which offset its task would be given is not known, and no "
                "position is shown until its next commit. Its key has different offsets in several "
                "Kafka partitions of the offsets topic, with timestamps up to ten minutes apart, "
                "or the connector's class is not known"
            )
        elif source.unsure:
            yield (
                f"{source.label}: {len(source.unsure)} raw keys hold an offset of it, and which "
                "one its task looks up is not known yet: no position is shown. It is the one that "
                "the connector commits under next; a change over REST is always written in the "
                "order of a HashMap, which the connector's own map may not have"
            )
        elif source.strays and FindingName.DUPLICATE_KEYS not in said:
            yield (
                f"{source.label}: {format_count(source.strays, 'other raw key')} of this source "
                "partition. A task finds an offset by the exact bytes of its key, so what was "
                "written under them (by hand, over REST or by another program) has no effect and "
                "is not shown"
            )


def _find_flow_problems(
    view: ConnectorView,
    mirror_flow: MirrorFlow | None,
    flow: ExplainedFlow | None,
    said: AbstractSet[FindingName],
) -> Iterator[str]:
    if flow is None or mirror_flow is None:
        if view.kind is ConnectorKind.MIRROR and "MirrorSource" in view.class_name:
            yield (
                "a config provider of its workers knows its source.cluster.alias: its flow and its "
                "lag are not known. Name the flow under flows"
            )
        return
    if flow["upstream"] is None:
        yield (
            "no Kafka cluster of the configuration answers to the addresses it reads from: its lag "
            "is not known"
        )
    if mirror_flow.known_separator is None:
        yield (
            "a config provider of its workers knows its replication.policy.separator: the names of "
            "its copies and of its internal topics are not known. Name the copies: flows[].copies"
        )
    why = "its upstream log end is not known"
    if mirror_flow.read_committed is None:
        why = (
            "a config provider of its workers knows its isolation level, and the last stable "
            "offset upstream is not the high watermark now"
        )
    for explained_mirror_partition in flow["partitions"]:
        name = f"{explained_mirror_partition['topic']}-{explained_mirror_partition['partition']}"
        if explained_mirror_partition["ahead_records"]:
            if said & AHEAD_FINDINGS:
                continue
            yield (
                f"{name} is {format_count(explained_mirror_partition['ahead_records'], 'record')} "
                "beyond the log end: the upstream topic was recreated or truncated, or an "
                "operator altered the offset"
            )
        elif explained_mirror_partition["lag_records"] is None and flow["upstream"] is not None:
            yield f"{name} has no lag: {why}"
        start, last = (
            explained_mirror_partition["log_start"],
            explained_mirror_partition["replicated"],
        )
        if start is None or last is None or start <= last + 1:
            continue
        if FindingName.MM2_RECORDS_LOST not in said:
            yield (
                f"{name}: the upstream log starts at {start}, after the position: "
                f"offsets {last + 1} to {start - 1} can no longer be replicated"
            )


def _find_topic_problems(
    snapshot: Snapshot, topic: KafkaTopic | None, flow: MirrorFlow | None
) -> Iterator[str]:
    topics = {topic, None if flow is None else flow.offset_syncs}
    for problem in snapshot.topic_problems:
        if problem.at in topics:
            yield f"topic {problem.at}: {problem.problem}: {problem.detail}"


def _find_group_problems(
    snapshot: Snapshot, view: ConnectorView, group: SinkGroup | None
) -> Iterator[str]:
    missing = snapshot.missing_topics.get((view.connect_cluster, view.name))
    if missing and group is not None and group.kafka is not None:
        yield describe_missing_topics(missing, group.kafka)
