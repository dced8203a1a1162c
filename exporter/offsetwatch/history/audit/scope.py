"""Scope of an audit, resolved before it reads a record: topics, log bounds, anchors.

The order of the reads matters. The caller knows already what is replicated. Then come the offset
syncs, then the log ends downstream, then those upstream. So every record below a downstream end was
copied from below the upstream end, and every record reported as replicated lies below the
downstream end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.whole_topic import read_whole_topic
from offsetwatch.decode.mirror_maker import decode_sync
from offsetwatch.errors import HistoryError
from offsetwatch.history.audit.slices import (
    Anchors,
    AuditPartition,
    PartitionCoverage,
    compute_coverage,
    sample_coverage,
)
from offsetwatch.model.log_readings import LogBounds
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import find_copy_conflict, find_remote_topic, format_routers


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """Bounds of an audit: upstream offsets, upstream timestamps (Unix seconds), or neither.

    share, seed    of a sample; a share of 1 is everything
    """

    first: int | None = None
    end: int | None = None
    since: float | None = None
    until: float | None = None
    share: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AuditScope:
    """Ranges to read, and everything that is known about them without reading them.

    up, down        log bounds of each upstream partition, and of its copy by the upstream name
    compacted       topics compacted upstream, and downstream, by upstream names; those of unknown
                    policy are not in it
    notes           messages for the user
    """

    flow: MirrorFlow
    reaches: tuple[PartitionCoverage, ...]
    up: Mapping[TopicPartition, LogBounds]
    down: Mapping[TopicPartition, LogBounds]
    compacted: tuple[frozenset[str], frozenset[str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditClients:
    """librdkafka client properties of the clusters, by their configured names."""

    kafka: Mapping[str, Mapping[str, str]] = field(repr=False)  # may hold passwords

    def admin(self, name: str) -> KafkaInspector:
        """Return an inspector of one of the clusters."""
        return KafkaInspector(name, self.kafka[name])


def resolve_scope(
    flow: MirrorFlow,
    replicated: Mapping[TopicPartition, int | None],
    topics: Collection[str],
    bounds: AuditBounds,
    sides: AuditClients,
    named: Mapping[str, str] = MappingProxyType({}),
) -> AuditScope:
    """Resolve the topics, log bounds and anchors of an audit.

    replicated      upstream partitions of the flow, each with the last record that is replicated
    topics          upstream names; empty for all
    named           names of the copies of upstream topics, where the user gives them

    Raises HistoryError for what cannot be audited, ClientError.
    """
    if flow.upstream is None or flow.downstream is None:
        side = "source" if flow.upstream is None else "target"
        raise HistoryError(
            f"{flow.connector}: its {side} cluster is not among those configured under kafka"
        )
    topic_partition = sorted(
        partition for partition in replicated if not topics or partition.topic in topics
    )
    missing = sorted({*topics} - {partition.topic for partition in topic_partition})
    if missing:
        raise HistoryError(f"{flow.connector} does not copy {', '.join(missing)}")
    if not topic_partition:
        raise HistoryError(f"{flow.connector} has copied nothing that could be audited")
    upstream, downstream = sides.admin(flow.upstream), sides.admin(flow.downstream)
    anchors = _anchors(flow, frozenset(topic_partition), sides)
    names, _ = downstream.topics()
    copies_of = _copies(flow, {partition.topic for partition in replicated}, names, named)
    remotes = {
        topic: _resolve_copy(flow, topic, names, copies_of)
        for topic in {partition.topic for partition in topic_partition}
    }
    there = [
        partition
        for partition in topic_partition
        if partition.partition < names[remotes[partition.topic]]
    ]
    notes = tuple(
        f"{partition.topic}-{partition.partition}: {remotes[partition.topic]} has no such "
        "partition: not audited"
        for partition in topic_partition
        if partition not in there
    )
    copies = {
        partition: TopicPartition(remotes[partition.topic], partition.partition)
        for partition in there
    }
    policies = tuple(
        _find_compacted_topics(
            admin, {partition.topic: partition.topic for partition in there} if own else remotes
        )
        for admin, own in ((upstream, True), (downstream, False))
    )
    down = downstream.bounds(list(copies.values()), stable=True)
    up = upstream.bounds(there, stable=True)
    readable = [partition for partition in there if partition in up and copies[partition] in down]
    notes += tuple(
        f"{partition.topic}-{partition.partition}: its log end is unknown now: not audited"
        for partition in there
        if partition not in readable
    )
    firsts, ends = _resolve_bounds(upstream, readable, bounds)
    reaches = []
    for partition in readable:
        known = AuditPartition(
            at=partition,
            remote=copies[partition].topic,
            up=up[partition],
            down=down[copies[partition]],
            anchors=anchors[partition].within(up[partition], down[copies[partition]])
            if partition in anchors
            else (),
            replicated=replicated[partition],
            from_start=flow.from_start,
            committed=flow.read_committed,
        )
        whole = compute_coverage(known, firsts.get(partition), ends.get(partition))
        partly = bounds.share < 1.0
        reaches.append(
            sample_coverage(known, whole, bounds.share, bounds.seed) if partly else whole
        )
    return AuditScope(
        flow=flow,
        reaches=tuple(reaches),
        up=up,
        down={partition: down[copies[partition]] for partition in readable},
        compacted=(policies[0], policies[1]),
        notes=notes,
    )


def _copies(
    flow: MirrorFlow, topics: Collection[str], names: Collection[str], named: Mapping[str, str]
) -> dict[str, str | None]:
    """Return upstream topic -> name of its copy; None where it is unknown. Raises HistoryError."""
    strangers = sorted(named.keys() - topics)
    if strangers:
        raise HistoryError(f"--copy-topic: {flow.connector} does not copy {', '.join(strangers)}")
    return {topic: named.get(topic) or find_remote_topic(flow, topic, names) for topic in topics}


def _resolve_copy(
    flow: MirrorFlow, topic: str, names: Collection[str], copies: Mapping[str, str | None]
) -> str:
    remote = copies[topic]
    if remote is None:
        why = f"the name that {flow.connector} gives it on {flow.downstream} is unknown"
        two = find_copy_conflict(flow, topic)
        if two is not None:
            why = (
                f"its copy is {two[0]} by the configuration (flows, copies) and {two[1]} by "
                f"{flow.connector}'s own"
            )
        elif flow.routers:
            why = (
                f"copies of {flow.source}->{flow.target} have other names, which a transform of "
                f"{flow.connector} gives ({format_routers(flow)})"
            )
        raise HistoryError(
            f"{topic}: {why}; name its copy: --copy-topic {topic}=NAME, or flows[].copies"
        )
    if remote not in names:
        raise HistoryError(f"{topic}: there is no topic {remote} on {flow.downstream}")
    others = sorted(other for other, copy in copies.items() if copy == remote and other != topic)
    if others:
        raise HistoryError(
            f"{topic}: {remote} on {flow.downstream} has the copies of {', '.join(others)} too, "
            "and no record says of which topic it is a copy: not audited"
        )
    return remote


def _anchors(
    flow: MirrorFlow, wanted: frozenset[TopicPartition], sides: AuditClients
) -> dict[TopicPartition, Anchors]:
    """Return the offset syncs of these partitions.

    Without any, both logs are compared from their start.
    """
    found: dict[TopicPartition, Anchors] = {}
    syncs: KafkaTopic | None = flow.offset_syncs
    if syncs is None:
        return found
    admin = sides.admin(syncs.kafka)
    if syncs.topic not in admin.topics()[0]:
        return found
    for record in read_whole_topic(
        admin, lambda: TailReader(syncs.kafka, sides.kafka[syncs.kafka]), syncs.topic
    ):
        sync = decode_sync(record.key, record.value)
        if isinstance(sync, Undecodable):
            continue
        partition = TopicPartition(sync.topic, sync.partition)
        if partition in wanted:
            found.setdefault(partition, Anchors()).add(sync.upstream_offset, sync.downstream_offset)
    return found


def _find_compacted_topics(admin: KafkaInspector, names: Mapping[str, str]) -> frozenset[str]:
    """Return upstream names of compacted topics; `names` has their names on this cluster."""
    policies = admin.policies(set(names.values()))
    return frozenset(
        topic for topic, name in names.items() if "compact" in (policies.get(name) or "").split(",")
    )


def _resolve_bounds(
    upstream: KafkaInspector, partitions: Collection[TopicPartition], bounds: AuditBounds
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first and end upstream offsets of each partition, where a bound was requested."""
    firsts = {} if bounds.first is None else dict.fromkeys(partitions, bounds.first)
    ends = {} if bounds.end is None else dict.fromkeys(partitions, bounds.end)
    if bounds.since is not None:
        found = upstream.offsets_at(dict.fromkeys(partitions, bounds.since))
        # None: all records are older, and nothing of the partition is asked for.
        firsts = {
            partition: 2**63 - 1 if offset is None else offset
            for partition, offset in found.items()
        }
    if bounds.until is not None:
        found = upstream.offsets_at(dict.fromkeys(partitions, bounds.until))
        ends = {partition: offset for partition, offset in found.items() if offset is not None}
    return firsts, ends
