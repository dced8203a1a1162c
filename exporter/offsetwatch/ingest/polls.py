"""Polls of Connect and Kafka, one function each: connectors, REST offsets, brokers, sink groups.

The daemon schedules them. A function returns the observations of one attempt, its failures
included; `poll_rest_offsets` enqueues them with `put`. No failure of a remote system is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from offsetwatch.clients.connect.offsets_sweep import (
    ConnectSweep,
    OffsetsAnswer,
    OffsetsSweepListener,
)
from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock
from offsetwatch.decode.java.pattern import JavaPattern
from offsetwatch.errors import ClientError, MalformedResponse, TargetUnreachable
from offsetwatch.ingest import connect_rest
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    AssignmentConfirmed,
    BrokerAddressesRead,
    ConnectorsListed,
    InputFailed,
    InputId,
    InputSucceeded,
    LogBounds,
    Observation,
    PartitionsAssigned,
    RestOffsetsRead,
    RestOffsetsRequested,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.model.topology import SinkGroup, TopicPartition

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


def poll_connectors(poll: connect_rest.ConnectorsPoll, clock: UnixClock) -> Batch:
    """Return the connectors, their tasks and the settings that name their topics.

    Once a minute, and while something is missing, other requests complete the answer: the identity
    of the Kafka cluster, the names of the connectors, configurations. If one of these fails, the
    failure is reported and the value is absent.
    """
    input_id = InputId(CONNECT_REST, connect_cluster=poll.name)
    try:
        listed = poll.ask()
    except ClientError as exc:
        return (build_failure(input_id, exc),)
    failed: list[Observation] = []
    names: frozenset[str] | None = None
    odd_names: dict[str, ClientError] = {}
    kafka_cluster_id: str | None = None
    if poll.wants_witnesses(listed, clock.now()):
        try:
            kafka_cluster_id = poll.kafka_cluster_id()
        except ClientError as exc:
            failed.append(build_failure(input_id, exc))
        try:
            names, odd = poll.names()
            if odd.count:
                why = f"GET /connectors (names): members that are no text: {odd.count}"
                odd_names = {str(odd): MalformedResponse(poll.name, why)}
        except ClientError as exc:
            failed.append(build_failure(input_id, exc))
        listed, error, failures = poll.complete(listed, names or frozenset(), clock.now())
        if error is not None:
            failed.append(build_failure(input_id, error))
        failed += build_partial_failures(input_id, failures | odd_names)
    return (
        *failed,
        ConnectorsListed(poll.name, listed, names, kafka_cluster_id, names_whole=not odd_names),
        InputSucceeded(input=input_id, at=clock.now()),
    )


def poll_rest_offsets(
    sweep: ConnectSweep,
    connectors: Sequence[str],
    put: Callable[[Batch], bool],
    stopped: Callable[[], bool],
) -> None:
    """Read the offsets of all connectors over REST, to compare them with the tail.

    A failure is reported as partial: it does not affect the state polls, and the failure of one
    connector does not affect the others.

    RestOffsetsRequested enters the queue before the request is sent: records that the tail reads
    from then on may be in the answer.
    """

    def announce(names: Sequence[str]) -> bool:
        return put(tuple(RestOffsetsRequested(sweep.name, name) for name in names))

    failures: dict[str, ClientError] = {}

    def take(answers: Sequence[OffsetsAnswer]) -> None:
        batch: list[Observation] = []
        for connector, body in answers:
            try:
                offsets, odd = connect_rest.parse_readable_offsets(sweep.name, connector, body)
            except ClientError as exc:
                # Its trace leads to this frame, which knows the answer and `failures`.
                failures[connector] = exc.with_traceback(None)
            else:
                batch.append(RestOffsetsRead(sweep.name, connector, offsets, whole=odd is None))
                if odd is not None:
                    failures[connector] = odd
        put(tuple(batch))

    input_id = InputId(CONNECT_REST, connect_cluster=sweep.name)
    try:
        failures |= sweep.offsets(connectors, OffsetsSweepListener(announce, take, stopped))
    except ClientError as exc:
        put((replace(build_failure(input_id, exc), partial=True),))
    else:
        if failures:
            put(build_partial_failures(input_id, failures))


def poll_assignment(poll: connect_rest.AssignmentsPoll, connector: str) -> Batch:
    """Return the partitions that a MirrorSourceConnector assigned to its tasks.

    A stopped connector has no tasks, and its last assignment remains valid: AssignmentConfirmed. To
    distinguish this, the poll asks for the connector's state after an empty answer. A failed
    request is a partial failure, and the last answer ages. The poll reports no success of the list
    of connectors, which the other polls request.
    """
    try:
        assigned = poll.ask(connector)
        if not (assigned or poll.runs(connector)):
            return (AssignmentConfirmed(poll.name, connector),)
    except ClientError as exc:
        return build_partial_failures(
            InputId(CONNECT_REST, connect_cluster=poll.name), {connector: exc}
        )
    return (PartitionsAssigned(poll.name, connector, assigned),)


def poll_brokers(admin: KafkaAdmin) -> Batch:
    """Return the broker addresses of a cluster, beside its bootstrap servers; empty on failure."""
    try:
        brokers = admin.addresses()
    except ClientError:
        return ()  # the log-end poll of the same cluster reports it
    return (BrokerAddressesRead(kafka=admin.name, addresses=brokers),)


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
    found: list[SinkOffset] = []
    failures: dict[str, ClientError] = {}
    by_rest: list[SinkOffset] = []
    read = 0
    existing: dict[str, dict[str, int] | ClientError] = {}
    asked_at = clock.now()
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
            found.extend(_read_sink_offsets(admin, sink, topics, failures))
            read += 1
        except ClientError as exc:
            failures[sink.connector] = exc
            if isinstance(exc, TargetUnreachable):  # each of its sinks would take as long
                existing[sink.kafka] = exc
            elif sink.connector in polled:
                with suppress(ClientError):  # the group says why
                    by_rest += _add_log_ends(admin, sink, polled[sink.connector], {})
    offsets = SinkOffsetsRead(connect_cluster, tuple(found), asked_at, tuple(by_rest))
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
            log_end=_choose_log_end(bounds[partition], stable=stable)
            if partition in bounds
            else None,
            log_start=bounds[partition].start if partition in bounds else None,
            committed_only=sink.read_committed is not False,
            from_start=sink.from_start,
        )
        for partition, offset in sorted(committed.items())
    ]


def _choose_log_end(bounds: LogBounds, *, stable: bool) -> int:
    return bounds.stable_end if stable else bounds.end


def _find_read_partitions(
    sink: SinkGroup, existing: Mapping[str, int]
) -> tuple[list[TopicPartition], bool]:
    """Return the partitions that a sink reads, and whether that is certain.

    If it is certain, offsets that the group committed in other partitions are left over. If the
    pattern cannot be evaluated, these are all partitions: a group commits nothing that it never
    read.
    """
    wanted: Collection[str] | None = sink.topics
    if sink.topics_regex is not None:
        wanted = _match_topics(sink.topics_regex, existing)
    certain = wanted is not None
    partitions = [
        TopicPartition(topic, number)
        for topic in sorted(existing if wanted is None else wanted)
        for number in range(existing.get(topic, 0))
    ]
    return partitions, certain


def _match_topics(text: str, topics: Iterable[str]) -> list[str] | None:
    """Return the topics that match a pattern of java.util.regex.

    None if the pattern cannot be evaluated, or takes more than a second: matching is linear in the
    length of a name, but takes up to 25 ms for each name.
    """
    again_at, after_s = _slow_patterns.get(text, (0.0, SLOW_PATTERN_RETRY_S / 2))
    if time.monotonic() < again_at:
        return None
    pattern, found = JavaPattern(text), []
    until = time.monotonic() + MATCHING_S_MAX
    for topic in topics:
        matches = pattern.matches(topic)
        if matches is None:
            return None
        if matches:
            found.append(topic)
        if time.monotonic() > until:
            if text in _slow_patterns or len(_slow_patterns) < SLOW_PATTERNS_MAX:
                _slow_patterns[text] = (time.monotonic() + 2 * after_s, 2 * after_s)
            return None
    _slow_patterns.pop(text, None)
    return found
