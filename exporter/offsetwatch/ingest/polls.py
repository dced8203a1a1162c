"""Polls of Kafka, one function each: brokers, groups of sinks, groups and topics of MM2's flows.

The daemon schedules them. A function returns the observations of one attempt, its failures
included. No failure of a remote system is raised.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock
from offsetwatch.decode.java.pattern import JavaPattern
from offsetwatch.errors import ClientError, TargetUnreachable
from offsetwatch.model.observations import (
    GROUPS,
    BrokerAddressesRead,
    GroupOffset,
    GroupOffsetsRead,
    InputFailed,
    InputId,
    InputSucceeded,
    Observation,
    SinkOffset,
    SinkOffsetsRead,
    TopicsChecked,
)
from offsetwatch.model.topology import SinkGroup, TopicPartition
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import GroupOffsetsRequest, GroupPartition

Batch = tuple[Observation, ...]

MEMBERS_NAMED_MAX = 5  # of those that failed for one reason

MATCHING_S_MAX = 1.0  # of all topics with one pattern; ten thousand take 0.05 s
# The machine may have been slow, and not the pattern: it is tried again, after twice the time.
SLOW_PATTERN_RETRY_S = 600.0
SLOW_PATTERNS_MAX = 1000
_slow_patterns: dict[str, tuple[float, float]] = {}  # pattern -> when it is tried again, after what


def build_failure(input_id: InputId, error: ClientError) -> InputFailed:
    """Return the observation of a failed attempt; release the locals that the error keeps alive."""
    forget_locals(error)
    return InputFailed(input=input_id, reason=error.reason, detail=error.detail)


def build_partial_failures(input_id: InputId, errors: Mapping[str, ClientError]) -> Batch:
    """Return the failures of an attempt that failed for some members and succeeded for others.

    There is one partial failure for each reason, with the names of the first five members it
    affects.
    """
    by_reason: dict[str, list[str]] = {}
    for member in sorted(errors):
        by_reason.setdefault(errors[member].reason, []).append(member)
        forget_locals(errors[member])
    return tuple(
        InputFailed(
            input=input_id,
            reason=reason,
            detail=_format_members(members, errors[members[0]].detail),
            partial=True,
        )
        for reason, members in sorted(by_reason.items())
    )


def _format_members(members: Sequence[str], first: str) -> str:
    named = ", ".join(repr(member) for member in members[:MEMBERS_NAMED_MAX])
    more = len(members) - MEMBERS_NAMED_MAX
    return f"{named}{f' and {more} more' if more > 0 else ''}: {first}"


def poll_brokers(admin: KafkaAdmin) -> Batch:
    """Return the broker addresses of a cluster, beside its bootstrap servers; empty on failure."""
    try:
        addresses, cluster_id = admin.list_brokers()
    except ClientError:
        return ()  # the log-end poll of the same cluster reports it
    return (BrokerAddressesRead(admin.name, addresses, cluster_id),)


def poll_groups(
    connect_cluster: str,
    admins: Mapping[str, KafkaAdmin],
    sinks: Iterable[SinkGroup],
    clock: UnixClock,
    polled: Mapping[str, Mapping[TopicPartition, int | None]] = MappingProxyType({}),
) -> Batch:
    """Return committed offsets of sink connectors, then log ends of the partitions that they read.

    `polled` are offsets by sink that only REST reports; their log ends are read if the group cannot
    be.

    A sink that cannot be read is left out and is a partial failure. If no sink can be read, the
    poll fails.
    """
    input_id = InputId(GROUPS, connect_cluster=connect_cluster)
    sink_offsets: list[SinkOffset] = []
    failures: dict[str, ClientError] = {}
    by_rest: list[SinkOffset] = []
    missing: list[tuple[str, str]] = []
    read = 0
    existing: dict[str, dict[str, int] | ClientError] = {}
    requested_at = clock.now()
    for sink in sinks:
        if sink.kafka is None:
            continue
        admin = admins[sink.kafka]
        if sink.kafka not in existing:
            existing[sink.kafka] = _read_topics(admin)
        topics = existing[sink.kafka]
        try:
            if isinstance(topics, ClientError):
                raise topics
            sink_offsets.extend(_read_sink_offsets(admin, sink, topics, failures))
            missing += ((sink.connector, topic) for topic in sorted(sink.topics - topics.keys()))
            read += 1
        except ClientError as exc:
            failures[sink.connector] = exc
            if isinstance(exc, TargetUnreachable):  # each of its sinks would take as long
                existing[sink.kafka] = exc
            elif sink.connector in polled:
                with suppress(ClientError):  # the group says why
                    by_rest += _add_log_ends(admin, sink, polled[sink.connector], {})
    offsets = SinkOffsetsRead(
        connect_cluster, tuple(sink_offsets), requested_at, tuple(by_rest), tuple(missing)
    )
    if failures and not read:
        failed = build_failure(input_id, next(iter(failures.values())))
        return (offsets, failed) if by_rest else (failed,)
    return (
        offsets,
        InputSucceeded(input=input_id, at=clock.now()),
        *build_partial_failures(input_id, failures),
    )


def _read_topics(admin: KafkaAdmin) -> dict[str, int] | ClientError:
    try:
        return admin.topics()[0]
    except ClientError as exc:
        return exc


def _read_sink_offsets(
    admin: KafkaAdmin,
    sink: SinkGroup,
    existing: Mapping[str, int],
    failures: dict[str, ClientError],
) -> list[SinkOffset]:
    """Return the offsets of one sink.

    A partition has no log end if that is refused. It is left out if its committed offset is
    refused. `failures` receives both errors.
    """
    reads, certain = _find_read_partitions(sink, existing)
    refused: dict[TopicPartition, ClientError] = {}
    committed: dict[TopicPartition, int | None]
    committed = dict(admin.group_offsets(sink.group, reads, refused=refused))
    if refused and not committed and len(refused) == len(reads):
        raise next(iter(refused.values()))
    if certain:
        committed |= dict.fromkeys(set(reads) - committed.keys() - refused.keys())
    offsets = _add_log_ends(admin, sink, committed, refused)
    failures |= {
        f"{sink.connector}: {partition.topic}-{partition.partition}": error
        for partition, error in refused.items()
    }
    return offsets


def _add_log_ends(
    admin: KafkaAdmin,
    sink: SinkGroup,
    committed: Mapping[TopicPartition, int | None],
    refused: dict[TopicPartition, ClientError],
) -> list[SinkOffset]:
    # Where the level is not known the log end is the one that every reader can get to.
    stable = sink.read_committed is True
    bounds = admin.bounds(tuple(committed), stable=stable, refused=refused)
    return [
        SinkOffset(
            connector=sink.connector,
            topic=partition.topic,
            partition=partition.partition,
            committed=offset,
            log_end=None if log is None else log.stable_end if stable else log.end,
            log_start=None if log is None else log.start,
            committed_only=sink.read_committed is not False,
            from_start=sink.from_start,
        )
        for partition, offset in sorted(committed.items())
        for log in (bounds.get(partition),)
    ]


def _find_read_partitions(
    sink: SinkGroup, existing: Mapping[str, int]
) -> tuple[list[TopicPartition], bool]:
    """Return the partitions that a sink reads, and whether that is certain.

    If it is certain, offsets that the group committed in other partitions are left over. If the
    pattern cannot be evaluated, these are all partitions: a group commits nothing that it never
    read.
    """
    topics: Collection[str] | None = sink.topics
    if sink.topics_regex is not None:
        topics = match_topics(sink.topics_regex, existing)
    certain = topics is not None
    partitions = [
        TopicPartition(topic, number)
        for topic in sorted(existing if topics is None else topics)
        for number in range(existing.get(topic, 0))
    ]
    return partitions, certain


def match_topics(text: str, topics: Iterable[str]) -> list[str] | None:
    """Return the topics that match a pattern of java.util.regex.

    None if the pattern cannot be evaluated, or takes more than a second: matching is linear in the
    length of a name, but takes up to 25 ms for each name.
    """
    again_at, after_s = _slow_patterns.get(text, (0.0, SLOW_PATTERN_RETRY_S / 2))
    if time.monotonic() < again_at:
        return None
    pattern, matching = JavaPattern(text), []
    until = time.monotonic() + MATCHING_S_MAX
    for topic in topics:
        matches = pattern.matches(topic)
        if matches is None:
            return None
        if matches:
            matching.append(topic)
        if time.monotonic() > until:
            if text in _slow_patterns or len(_slow_patterns) < SLOW_PATTERNS_MAX:
                _slow_patterns[text] = (time.monotonic() + 2 * after_s, 2 * after_s)
            return None
    _slow_patterns.pop(text, None)
    return matching


def poll_topics(admin: KafkaAdmin, names: Collection[str]) -> Batch:
    """Return those of the topics that exist on a cluster; a missing topic is no failure."""
    try:
        topics, _ = admin.topics()
    except ClientError:
        return ()  # what reads this cluster reports it
    return (TopicsChecked(kafka=admin.name, there=frozenset(topics.keys() & names)),)


def poll_failover(
    request: GroupOffsetsRequest, upstream: KafkaAdmin, downstream: KafkaAdmin, clock: UnixClock
) -> Batch:
    """Return committed offsets of a flow's groups on both sides, then the log bounds on both sides.

    In this order an offset beyond the log end really is beyond it. A group that cannot be read is
    left out and is a partial failure; if no group can be read, the poll fails.
    """
    input_id = build_groups_input(request.flow)
    offsets: list[GroupOffset] = []
    failures: dict[str, ClientError] = {}
    try:
        by_group: dict[str, list[GroupPartition]] = {}
        for partition in request.partitions:
            by_group.setdefault(partition.group, []).append(partition)
        for rows in by_group.values():
            try:
                offsets += _read_group_offsets(rows, upstream, downstream, failures)
            except TargetUnreachable:
                raise
            except ClientError as exc:
                failures[rows[0].group] = exc
        if failures and not offsets:
            return (build_failure(input_id, next(iter(failures.values()))),)
        refused: dict[TopicPartition, ClientError] = {}
        committed = [offset for offset in offsets if offset.upstream is not None]
        read = GroupOffsetsRead(
            flow=request.flow,
            offsets=tuple(offsets),
            upstream=upstream.bounds(
                {TopicPartition(offset.topic, offset.partition) for offset in committed},
                stable=False,
                refused=refused,
            ),
            downstream=downstream.bounds(
                {TopicPartition(offset.remote, offset.partition) for offset in committed},
                stable=False,
                refused=refused,
            ),
        )
    except ClientError as exc:
        return (build_failure(input_id, exc),)
    failures |= {
        f"{partition.topic}-{partition.partition}": error for partition, error in refused.items()
    }
    return (
        read,
        InputSucceeded(input=input_id, at=clock.now()),
        *build_partial_failures(input_id, failures),
    )


def _read_group_offsets(
    rows: list[GroupPartition],
    upstream: KafkaAdmin,
    downstream: KafkaAdmin,
    failures: dict[str, ClientError],
) -> list[GroupOffset]:
    """Return the offsets of one group, which need not exist on either side.

    Partitions that are refused on one side are left out; `failures` receives the errors.
    """
    group = rows[0].group
    no_here: dict[TopicPartition, ClientError] = {}
    no_there: dict[TopicPartition, ClientError] = {}
    here = upstream.group_offsets(
        group, {TopicPartition(row.topic, row.partition) for row in rows}, refused=no_here
    )
    there = downstream.group_offsets(
        group, {TopicPartition(row.remote, row.partition) for row in rows}, refused=no_there
    )
    refused = no_here | no_there
    failures |= {
        f"{group}: {partition.topic}-{partition.partition}": error
        for partition, error in refused.items()
    }
    return [
        GroupOffset(
            group=group,
            topic=row.topic,
            remote=row.remote,
            partition=row.partition,
            upstream=here.get(TopicPartition(row.topic, row.partition)),
            downstream=there.get(TopicPartition(row.remote, row.partition)),
            checkpointed=row.checkpointed,
        )
        for row in rows
        if TopicPartition(row.topic, row.partition) not in no_here
        and TopicPartition(row.remote, row.partition) not in no_there
    ]
