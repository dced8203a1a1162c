"""Ask once, enqueue the answer: one function per poll. Scheduled by the daemon.

Every function returns the observations of one attempt, the failure of the attempt among them, and
raises nothing the outside world can cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from exporter.clients.connect_sweep import Answer, ConnectSweep, Listener
from exporter.clients.kafka import KafkaAdmin
from exporter.clients.wire import forget_locals
from exporter.clock import Clock
from exporter.errors import ClientError, Denied
from exporter.ingest import rest
from exporter.model.observations import (
    CONNECT_REST,
    GROUPS,
    BrokersSeen,
    ConnectorsListed,
    InputFailed,
    InputId,
    InputSucceeded,
    Observation,
    PartitionsAssigned,
    RestOffsetsAsked,
    RestOffsetsRead,
    SinkOffset,
    SinkOffsetsRead,
)
from exporter.model.readings import LogBounds
from exporter.model.topology import SinkGroup, TopicPartition

Batch = tuple[Observation, ...]

_JAVA_SETS = re.compile(r"&&|\[[^\]]*\[")  # intersections and unions inside brackets


def failure(input_id: InputId, error: ClientError) -> InputFailed:
    """What a failed attempt says. The error is not needed any more."""
    forget_locals(error)
    return InputFailed(input=input_id, reason=error.reason, detail=error.detail)


def poll_connectors(poll: rest.ConnectorsPoll, clock: Clock) -> Batch:
    """Connectors, tasks, and the settings that say who reads what."""
    input_id = InputId(poll.name, CONNECT_REST)
    try:
        listed = poll.ask()
    except ClientError as exc:
        return (failure(input_id, exc),)
    return (
        ConnectorsListed(connect_cluster=poll.name, connectors=listed),
        InputSucceeded(input=input_id, at=clock.now()),
    )


def poll_rest_offsets(
    sweep: ConnectSweep,
    connectors: Sequence[str],
    put: Callable[[Batch], bool],
    stopped: Callable[[], bool],
) -> None:
    """The truth check, of all connectors. A failure here says nothing of the state polls.

    That a connector is asked for enters the queue before the question goes out: what the tail shows
    from then on may be what REST has seen.
    """

    def announce(names: Sequence[str]) -> bool:
        return put(tuple(RestOffsetsAsked(sweep.name, name) for name in names))

    def take(answers: Sequence[Answer]) -> None:
        failed: ClientError | None = None
        batch: list[Observation] = []
        for connector, body in answers:
            try:
                offsets = rest.offsets_in(sweep.name, connector, body)
            except ClientError as exc:
                failed = exc
            else:
                batch.append(RestOffsetsRead(sweep.name, connector, offsets))
        put(tuple(batch))
        if failed is not None:
            raise failed

    try:
        sweep.offsets(connectors, Listener(announce, take, stopped))
    except ClientError as exc:
        put((failure(InputId(sweep.name, CONNECT_REST), exc),))


def poll_assignment(poll: rest.AssignmentsPoll, connector: str) -> Batch:
    """What a MirrorSourceConnector gave its tasks.

    While it is stopped it has none, and what it had is still what it has to do; whether it is has
    to be asked after. That a question fails is no news: it may during a rebalance, and the state
    poll asks the same workers.
    """
    try:
        assigned = poll.ask(connector)
        if not (assigned or poll.runs(connector)):
            return ()
    except ClientError:
        return ()
    return (PartitionsAssigned(poll.name, connector, assigned),)


def poll_brokers(admin: KafkaAdmin) -> Batch:
    """The addresses a cluster answers at, beside its bootstrap servers."""
    try:
        brokers = admin.addresses()
    except ClientError:
        return ()  # the log-end poll of the same cluster reports it
    return (BrokersSeen(kafka=admin.name, addresses=brokers),)


def poll_groups(
    connect_cluster: str,
    admins: Mapping[str, KafkaAdmin],
    sinks: Iterable[SinkGroup],
    clock: Clock,
) -> Batch:
    """Committed offsets of sink connectors, then the log ends of the same partitions.

    A sink whose group or topics we may not see is left out and counted as a failure; the others are
    read all the same. Where it is all of them, nothing is.
    """
    input_id = InputId(connect_cluster, GROUPS)
    found: list[SinkOffset] = []
    denied: list[Denied] = []
    read = 0
    existing: dict[str, dict[str, int]] = {}
    asked_at = clock.now()
    try:
        for sink in sinks:
            if sink.kafka is None:
                continue
            admin = admins[sink.kafka]
            if sink.kafka not in existing:
                existing[sink.kafka], _ = admin.topics()
            try:
                found.extend(_sink_offsets(admin, sink, existing[sink.kafka]))
                read += 1
            except Denied as exc:
                denied.append(exc)
    except ClientError as exc:
        return (failure(input_id, exc),)
    if denied and not read:
        return (failure(input_id, denied[0]),)
    return (
        *(failure(input_id, exc) for exc in denied),
        SinkOffsetsRead(connect_cluster=connect_cluster, offsets=tuple(found), at=asked_at),
        InputSucceeded(input=input_id, at=clock.now()),
    )


def _sink_offsets(
    admin: KafkaAdmin, sink: SinkGroup, existing: Mapping[str, int]
) -> list[SinkOffset]:
    committed = admin.group_offsets(sink.group, _read_by(sink, existing))
    # Where the level is not known the log end is the one that every reader can get to.
    stable = sink.read_committed is True
    bounds = admin.bounds(tuple(committed), stable=stable)
    return [
        SinkOffset(
            connector=sink.connector,
            topic=at.topic,
            partition=at.partition,
            committed=offset,
            log_end=_end_of(bounds[at], stable=stable) if at in bounds else None,
            log_start=bounds[at].start if at in bounds else None,
            committed_only=sink.read_committed is not False,
        )
        for at, offset in sorted(committed.items())
    ]


def _end_of(bounds: LogBounds, *, stable: bool) -> int:
    return bounds.stable_end if stable else bounds.end


def _read_by(sink: SinkGroup, existing: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions that a sink reads: what its group committed in others is left over.

    Of a pattern that Python does not know, everything: a group commits nothing that it never read.
    """
    wanted: Collection[str] = sink.topics
    if sink.topics_regex is not None:
        pattern = _compiled(sink.topics_regex)
        wanted = [topic for topic in existing if pattern is None or pattern.fullmatch(topic)]
    return [
        TopicPartition(topic, number)
        for topic in sorted(wanted)
        for number in range(existing.get(topic, 0))
    ]


def _compiled(java: str) -> re.Pattern[str] | None:
    """A pattern of java.util.regex, unless Python knows it not or as something else."""
    if _JAVA_SETS.search(java):
        return None
    try:
        return re.compile(java)
    except re.error:
        return None
