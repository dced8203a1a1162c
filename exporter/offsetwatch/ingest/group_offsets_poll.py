"""Polls for the cost of a failover: existing MM2 topics, and committed offsets on both sides.

Each poll is one function, as in polls.py. The daemon schedules them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, TargetUnreachable
from offsetwatch.ingest.polls import Batch, build_failure, build_partial_failures
from offsetwatch.model.observations import (
    GroupOffset,
    GroupOffsetsRead,
    InputSucceeded,
    TopicsChecked,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import GroupOffsetsRequest, GroupPartition


def poll_topics(admin: KafkaAdmin, wanted: Collection[str]) -> Batch:
    """Return those of the topics that exist on a cluster; a missing topic is no failure."""
    try:
        topics, _ = admin.topics()
    except ClientError:
        return ()  # what reads this cluster reports it
    return (TopicsChecked(kafka=admin.name, there=frozenset(topics.keys() & wanted)),)


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
        for rows in _split_by_group(request.partitions):
            try:
                offsets += _read_group_offsets(rows, upstream, downstream, failures)
            except TargetUnreachable:
                raise
            except ClientError as exc:
                failures[rows[0].group] = exc
        if failures and not offsets:
            return (build_failure(input_id, next(iter(failures.values()))),)
        refused: dict[TopicPartition, ClientError] = {}
        alive = [offset for offset in offsets if offset.upstream is not None]
        read = GroupOffsetsRead(
            flow=request.flow,
            offsets=tuple(offsets),
            upstream=upstream.bounds(
                {
                    TopicPartition(group_offset.topic, group_offset.partition)
                    for group_offset in alive
                },
                stable=False,
                refused=refused,
            ),
            downstream=downstream.bounds(
                {
                    TopicPartition(group_offset.remote, group_offset.partition)
                    for group_offset in alive
                },
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


def _split_by_group(partitions: Iterable[GroupPartition]) -> list[list[GroupPartition]]:
    found: dict[str, list[GroupPartition]] = {}
    for partition in partitions:
        found.setdefault(partition.group, []).append(partition)
    return list(found.values())


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
