"""Locator of the record that blocks a connector, from the snapshot, Connect, logs and operators.

It only reads. What it cannot read becomes a reason, not an exception. record_window.py reads the
logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from offsetwatch.clients.databases.row_times import find_time_zone
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, properties
from offsetwatch.config.files import describe_file_error
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.decode.source_offsets import format_partition_label
from offsetwatch.errors import ClientError, NotFound
from offsetwatch.formatting import format_count
from offsetwatch.model.findings import FailureRun
from offsetwatch.model.records import Headers, RawRecord
from offsetwatch.model.row_positions import format_log_offset
from offsetwatch.model.topology import MirrorFlow, SinkGroup, TopicPartition
from offsetwatch.remedy.gather.live_queries import (
    ALTER_OFFSETS_SINCE,
    Brokers,
    compute_config_sha256,
    parse_kafka_version,
)
from offsetwatch.remedy.gather.record_window import (
    DEFAULT_LIMITS,
    BoundedLogReader,
    FindLimits,
    open_record_reader,
)
from offsetwatch.remedy.gather.snapshot_queries import (
    LiveConnectorState,
    RemediationCase,
    find_longest_run_of,
    has_failed_at,
    parse_version,
)
from offsetwatch.remedy.gather.source_logs import find_reading_sources
from offsetwatch.remedy.locate.recommendations import recommend_for_sink
from offsetwatch.remedy.locate.search import (
    WORKER_SETTINGS,
    IdentifiedRecord,
    MirrorSubject,
    NoIdentification,
    OpaqueSubject,
    PositionParser,
    ReadPosition,
    SearchAnswer,
    SearchSubject,
    SinkSubject,
    SourceSubject,
    SubjectPartition,
    build_unknown_order,
    parse_fields,
    read_mirror_facts,
    read_row_order,
    read_sink_facts,
    read_source_delivery,
)
from offsetwatch.remedy.locate.sinks import (
    LOG_CHARS_MAX,
    find_in_sink,
    parse_sink_position,
    refuse_sink,
)
from offsetwatch.remedy.locate.source_records import (
    check_line_begin,
    find_in_source,
    parse_source_position,
    refuse_source,
)
from offsetwatch.remedy.locate.sources import (
    explain_unsupported_source,
    find_in_mirror,
    parse_mirror_position,
    refuse_mirror,
    select_own_partitions,
)
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.plan import (
    SOURCE_PREFIX,
    PartitionOffset,
    RecordLocation,
    build_offset_after,
)
from offsetwatch.remedy.model.policy import Policy, SinkProfile, classify_sink
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.mirror.mm2_names import find_remote_topic
from offsetwatch.state.snapshot import Snapshot

OPERATOR_METHOD: Final = "named_by_a_person"
MIRROR_BATCH: Final = 500  # max.poll.records of MirrorMaker's consumer, unless it is set
READ_S: Final = 20.0
IDS_MAX: Final = 10_000
OBSERVATIONS_MAX: Final = 10_000
READ_BYTES: Final = 64 * 1024 * 1024


_log = structlog.get_logger()


class PoisonLocator:
    """Locator of the record that a connector cannot get past. For one thread."""

    def __init__(self, config: Config, brokers: Brokers, policy: Policy, clock: UnixClock) -> None:
        self._connects = {cluster.name: cluster for cluster in config.connect}
        self._brokers = brokers
        self._policy = policy
        self._clock = clock
        self._sources = config.sources
        self._open_reader = partial(open_record_reader, config.kafka, config.sources)
        self._build_reader = partial(BoundedLogReader, self._open_reader, brokers, clock)
        self._topic_ids: dict[tuple[str, str, str], str | None] = {}
        self._positions = FailurePositions()

    def find(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
    ) -> SearchAnswer:
        """Return the record that an incident is about."""
        subject = self._build_subject(case, now, snapshot)
        if isinstance(subject, NoIdentification):
            return subject
        if isinstance(subject, SourceSubject):
            return self._find_in_source(case, subject, snapshot)
        return find_record(subject, self._build_reader)

    def observe(self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot) -> None:
        """Remember the next record of a source: if it fails again, it fails on that one."""
        if now.config is None or now.pairs is None:
            return
        index = snapshot.index
        if case.key in index.sink_groups or case.key in index.flows:
            return  # their logs keep the order of all records
        subject = self._build_source_subject(case, now, snapshot)
        if isinstance(subject, SourceSubject):
            self._find_in_source(case, subject, snapshot)

    def observe_config(
        self, key: ConnectorKey, config: dict[str, str | None], run: FailureRun
    ) -> None:
        """Remember a configuration that is read after these failures of a connector.

        Failures count for the setting of one record at a time from then on.
        """
        self._positions.failures_under(key, compute_config_sha256(key[1], config), run)

    def forget_config(self, key: ConnectorKey) -> None:
        """Forget a configuration, so that no failure counts that came before it is read again."""
        self._positions.forget_config(key)

    def _build_subject(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
    ) -> SearchSubject | SourceSubject | NoIdentification:
        if now.config is None or now.pairs is None:
            return _explain_missing_answers(case, now, snapshot)
        index = snapshot.index
        sink, flow = index.sink_groups.get(case.key), index.flows.get(case.key)
        if sink is not None:
            return self._build_sink_subject(case, now, snapshot, sink)
        if flow is not None:
            return self._build_mirror_subject(case, now, snapshot, flow)
        view = snapshot.index.connectors.get(case.key)
        pair = next(iter(now.pairs), None)
        if view is None or pair is None:
            return NoIdentification("no_offset", "its offset is unknown")
        return self._build_source_subject(case, now, snapshot) or OpaqueSubject(
            case.connector, view.class_name, pair, _version_of(now)
        )

    def _build_source_subject(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
    ) -> SourceSubject | NoIdentification | None:
        """Return a source whose records can be read; None if they cannot."""
        assert now.config is not None
        assert now.pairs is not None
        settings = parse_connector_settings(case.connector, now.config)
        sources = find_reading_sources(
            self._sources, case.connect, case.connector, settings.class_name
        )
        readable = [source for source in sources if source.kind in {"file", "sql"}]
        database = settings.database
        if len(readable) != 1:
            return None
        order = None if database is None else read_row_order(database, now.config)
        if isinstance(order, NoIdentification) or (database is not None and order is None):
            return order
        if order is not None and order.times and find_time_zone(order.zone) is None:
            return build_unknown_order("its db.timezone is not known here")
        kafka = f"{SOURCE_PREFIX}{readable[0].name}"
        worker = read_worker_settings(self._connects[case.connect].worker_properties_file)
        run = _find_run(case, snapshot)
        partitions = []
        for pair in now.pairs:
            fields = parse_fields(pair.partition)
            if settings.filename not in {None, fields.get("filename")}:
                continue  # of a file that it read before
            position = parse_source_position(pair, order)
            label = format_partition_label(fields)
            partitions.append(
                SubjectPartition(
                    pair,
                    topic_id=self._read_initial_topic_id(case, kafka, position),
                    moved=self._positions.moved(case.key, run, position, label),
                )
            )
        return SourceSubject(
            connector=case.connector,
            kafka=kafka,
            failure=case.failure,
            partitions=tuple(partitions),
            facts=read_source_delivery(now.config, order, worker),
            connect_version=_version_of(now),
        )

    def _find_in_source(
        self, case: RemediationCase, subject: SourceSubject, snapshot: Snapshot
    ) -> SearchAnswer:
        denied = refuse_source(subject)
        if denied is not None:
            return denied
        parse = partial(parse_source_position, order=subject.facts.order)
        with closing(
            self._build_reader(DEFAULT_LIMITS, kafka=subject.kafka, committed=True, batch=1)
        ) as reader:
            readings = reader.read_partitions(subject.partitions, parse)
        run = _find_run(case, snapshot)

        def count_failures(partition: TopicPartition, record: RawRecord) -> int:
            if run is None:
                return 0
            return self._positions.failures_before(case.key, partition, record.sha256, run)

        return find_in_source(subject, readings, count_failures)

    def _build_sink_subject(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot, sink: SinkGroup
    ) -> SinkSubject | NoIdentification:
        assert now.config is not None
        assert now.pairs is not None
        view = snapshot.index.connectors.get(case.key)
        if sink.kafka is None or view is None:
            return NoIdentification("cluster_unknown", "its Kafka cluster is not configured here")
        connect = self._connects[case.connect]
        facts = read_sink_facts(now.config, read_worker_settings(connect.worker_properties_file))
        profile = classify_sink(self._policy, view.class_name)
        run = _find_run(case, snapshot)
        key = (case.connect, case.connector)
        config = compute_config_sha256(case.connector, now.config)
        failures = self._positions.failures_under(key, config, run)
        ends = {
            TopicPartition(partition.topic, partition.partition): partition.log_end
            for partition in snapshot.index.sink_partitions.get(case.key, ())
        }
        partitions = []
        for pair in now.pairs:
            position = parse_sink_position(pair)
            partitions.append(
                SubjectPartition(
                    pair,
                    topic_id=self._read_initial_topic_id(case, sink.kafka, position),
                    moved=self._positions.moved(key, run, position),
                    highest_end=None if position is None else ends.get(position.partition),
                )
            )
        return SinkSubject(
            connector=case.connector,
            kafka=sink.kafka,
            failure=case.failure,
            partitions=tuple(partitions),
            facts=facts,
            failures_alone=failures if facts.batch_max == 1 else 0,
            put_at_once=profile is SinkProfile.SAFE,
            log=read_log_end(connect.worker_logs) if facts.logs_records else None,
            topics=sink.topics,
            letters_kafka=connect.kafka,  # unless a worker is told otherwise
            connect_version=_version_of(now),
            class_name=view.class_name,
            profile=profile,
        )

    def _build_mirror_subject(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot, flow: MirrorFlow
    ) -> MirrorSubject | NoIdentification:
        assert now.config is not None
        assert now.pairs is not None
        if flow.upstream is None:
            return NoIdentification(
                "cluster_unknown", "its upstream cluster is not configured here"
            )
        worker = read_worker_settings(self._connects[case.connect].worker_properties_file)
        run = _find_run(case, snapshot)
        partitions = []
        for pair in now.pairs:
            position = parse_mirror_position(pair)
            if run is None:
                moved = _is_mirror_moving(snapshot, case, position)
            else:
                moved = self._positions.moved((case.connect, case.connector), run, position)
            partitions.append(
                SubjectPartition(
                    pair,
                    topic_id=self._read_initial_topic_id(case, flow.upstream, position),
                    moved=moved,
                    remote=None
                    if position is None
                    else find_remote_topic(flow, position.partition.topic),
                )
            )
        return MirrorSubject(
            connector=case.connector,
            kafka=flow.upstream,
            failure=case.failure,
            partitions=tuple(partitions),
            facts=read_mirror_facts(now.config, worker),
            target_kafka=flow.downstream,
            connect_version=_version_of(now),
        )

    def _read_initial_topic_id(
        self, case: RemediationCase, kafka: str, position: ReadPosition | None
    ) -> str | None:
        """Return the topic's id when this incident was first inspected; None if unknown.

        By then the problem had begun.
        """
        if position is None or case.incident is None:
            return None
        key = (case.incident.key, kafka, position.partition.topic)
        if key not in self._topic_ids:
            if len(self._topic_ids) >= IDS_MAX:
                self._topic_ids.clear()
            try:
                self._topic_ids[key] = self._brokers.topic_id(kafka, position.partition.topic)
            except ClientError:
                return None
        return self._topic_ids[key]

    def named(
        self,
        case: RemediationCase,
        now: LiveConnectorState,
        snapshot: Snapshot,
        to: PartitionOffset | None,
    ) -> SearchAnswer:
        """Return the record that is skipped if a partition gets this offset.

        Without an offset it is the next record of this partition; None: of the only partition.
        """
        index = snapshot.index
        sink, flow = index.sink_groups.get(case.key), index.flows.get(case.key)
        if now.pairs is None:
            return _explain_missing_answers(case, now, snapshot)
        if to is None:
            if len(now.pairs) != 1:
                said = f"it has {format_count(len(now.pairs), 'partition')}: name one"
                return NoIdentification("partition_not_named", said)
            to = PartitionOffset(now.pairs[0].partition, None)
        mine = next((pair for pair in now.pairs if pair.partition == to.partition), None)
        if mine is None or mine.offset is None:
            return NoIdentification("no_offset", f"it has no offset for {to.partition}")
        if sink is not None and sink.kafka is not None:
            return self._find_between(sink.kafka, mine, to, parse_sink_position)
        if flow is not None and flow.upstream is not None:
            return self._find_between(flow.upstream, mine, to, parse_mirror_position)
        source = None if now.config is None else self._build_source_subject(case, now, snapshot)
        if isinstance(source, NoIdentification):
            return source
        if source is not None:
            parse = partial(parse_source_position, order=source.facts.order)
            return self._find_between(source.kafka, mine, to, parse)
        said = (
            "what it would skip cannot be copied first; `offsets alter` sets an offset, with a "
            "backup of all"
        )
        return NoIdentification("opaque", said)

    def _find_between(
        self, kafka: str, mine: PartitionOffset, to: PartitionOffset, parse: PositionParser
    ) -> SearchAnswer:
        """Return the only record from one offset to the other; without the other, the next one."""
        before, after = parse(mine), parse(to if to.offset is not None else mine)
        if before is None or after is None or before.partition != after.partition:
            return NoIdentification("offset_shape", f"{to.offset} is no offset of such a connector")
        try:
            topic_id = self._brokers.topic_id(kafka, before.partition.topic)
            with self._open_reader(kafka, committed=True) as reader:
                window = reader.window(
                    before.partition,
                    before.next,
                    count_max=2,
                    bytes_max=READ_BYTES,
                    timeout_s=READ_S,
                )
        except NotFound as exc:
            return NoIdentification("topic_unknown", str(exc))
        except ClientError as exc:
            return NoIdentification(exc.reason, str(exc))
        if to.offset is None and window.records:
            to = build_offset_after(mine, window.records[0].offset)
            after = ReadPosition(before.partition, window.records[0].offset + 1)
        records = [record for record in window.records if record.offset < after.next]
        if len(records) != 1:
            said = (
                f"{format_count(len(records), 'record')} from {format_log_offset(before.next)} "
                f"to before {format_log_offset(after.next)}"
            )
            return NoIdentification("not_one_record", f"{said}, and one is skipped at a time")
        record = records[0]
        if record.offset + 1 != after.next or topic_id is None:
            offset, expected = format_log_offset(record.offset), format_log_offset(after.next)
            said = f"after the record at {offset} comes {format_log_offset(record.offset + 1)}"
            return NoIdentification("not_the_next", f"{said}, and not {expected}")
        if kafka.startswith(SOURCE_PREFIX):
            inside = check_line_begin(before, record)
            if inside is not None:
                return inside
        location = RecordLocation(kafka, record.topic, topic_id, record.partition, record.offset)
        return IdentifiedRecord(
            location, mine, to, OPERATOR_METHOD, record.sha256, record.size_bytes
        )


def find_record(
    subject: SearchSubject,
    build_reader: Callable[..., BoundedLogReader],
    limits: FindLimits = DEFAULT_LIMITS,
) -> SearchAnswer:
    """Return the record that blocks the connector, or why none can be identified."""
    match subject:
        case OpaqueSubject():
            return explain_unsupported_source(subject)
        case SinkSubject():
            denied, partitions = refuse_sink(subject), subject.partitions
            batch = min(subject.facts.batch, limits.records)
        case MirrorSubject():
            denied, partitions = refuse_mirror(subject), select_own_partitions(subject)
            batch = MIRROR_BATCH
    if denied is not None:
        return denied
    stalled = tuple(
        partition
        for partition in partitions
        if not partition.moved and partition.pair.offset is not None
    )
    if len(stalled) > limits.partitions:
        return NoIdentification(
            "too_many_partitions",
            f"{len(stalled)} partitions stand still, of which {limits.partitions} at most are "
            "inspected: a record does not stop so many",
        )
    with closing(
        build_reader(
            limits, kafka=subject.kafka, committed=subject.facts.read_committed, batch=batch
        )
    ) as reader:
        if isinstance(subject, MirrorSubject):
            target = None if subject.failure is None else subject.target_kafka
            readings = reader.read_partitions(stalled, parse_mirror_position, target)
            return find_in_mirror(subject, readings)
        readings = reader.read_partitions(stalled, parse_sink_position)
        letters: tuple[Headers, ...] | None = ()
        if subject.facts.dead_letters is not None and subject.letters_kafka is not None:
            letters = reader.read_dead_letters(subject.letters_kafka, subject.facts.dead_letters)
        positions = (parse_sink_position(partition.pair) for partition in subject.partitions)
        known = frozenset(position.partition for position in positions if position is not None)
        uncommitted = reader.find_uncommitted(known, subject.topics)
        return find_in_sink(subject, readings, letters, uncommitted)


def _find_run(case: RemediationCase, snapshot: Snapshot) -> FailureRun | None:
    """Return the longest run of failures of the incident's connector; None without an incident.

    What was read of Connect since the incident was observed came after the failures of this
    snapshot: with the incident's own run, those in between would count as later ones.
    """
    if case.incident is None or case.incident.worst is None:
        return None
    return find_longest_run_of(snapshot, case.key) or case.incident.worst


def _is_mirror_moving(
    snapshot: Snapshot, case: RemediationCase, position: ReadPosition | None
) -> bool | None:
    """Return whether a partition of a mirror without failures is caught up; None if unknown."""
    if position is None:
        return None
    for view in snapshot.index.mirror_partitions.get(case.key, ()):
        if (view.topic, view.partition) == (position.partition.topic, position.partition.partition):
            return None if view.lag is None else view.lag == 0 or view.caught_up
    return None


def _explain_missing_answers(
    case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
) -> NoIdentification:
    """Explain what Connect does not return; old workers have no offsets over REST."""
    version = "" if now.root is None else now.root.version
    if (parse_kafka_version(version) or ALTER_OFFSETS_SINCE) >= ALTER_OFFSETS_SINCE:
        return NoIdentification("not_told", "Connect does not return its configuration and offsets")
    said = (
        f"its worker has version {version}, and offsets can be changed over REST "
        "since Kafka 3.6: upgrade it, or stop every worker and use `offsets alter` with "
        "--worker-config"
    )
    is_sink = case.key in snapshot.index.sink_groups
    stage = None if case.failure is None else case.failure.stage
    recommend = recommend_for_sink(stage) if is_sink else ()
    return NoIdentification("old_connect", said, recommend=recommend)


def _version_of(now: LiveConnectorState) -> tuple[int, ...] | None:
    return None if now.root is None else parse_version(now.root.version)


# --- files of the worker -------------------------------------------------------------------------


def read_worker_settings(path: Path | None) -> dict[str, str | None] | None:
    """Read the worker's defaults for connectors from its properties file; None if unreadable.

    The file may hold secrets: no other properties are returned.
    """
    if path is None:
        return None
    try:
        settings = properties.read_properties(path)
    except (OSError, ValueError) as exc:
        _log.warning("worker_properties_unread", path=str(path), reason=describe_file_error(exc))
        return None
    return {name: value for name, value in settings.items() if name in WORKER_SETTINGS}


def read_log_end(paths: Sequence[str]) -> str | None:
    """Read whole lines from the end of each log, at most LOG_CHARS_MAX in all.

    None if no log can be read.
    """
    ends = []
    for path in paths:
        try:
            ends.append(_read_end(path, LOG_CHARS_MAX // len(paths)))
        except (OSError, ValueError) as exc:  # ValueError: a name with a NUL
            _log.warning("worker_log_unread", path=path, reason=describe_file_error(exc))
    return "\n".join(ends) if ends else None


def _read_end(path: str, size_max: int) -> str:
    # A pipe would wait for a writer; it opens at once like this, and has no end to seek.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - size_max))
        raw = file.read(size_max)
    if size > size_max:
        raw = raw.partition(b"\n")[2]
    return raw.decode(errors="replace")


# --- positions at failures -----------------------------------------------------------------------


class _PositionObservation(NamedTuple):
    """A configuration or a position, and the run of failures when it was first observed.

    value                       the configuration or the position
    first_at, last_at, times    of the run of failures at that time
    """

    value: str
    first_at: float
    last_at: float
    times: int

    def covers(self, run: FailureRun) -> bool:
        """Return whether the number of this run's failures since the observation is known."""
        return run.first_at == self.first_at or is_later(run.first_at, self.last_at)

    def failures(self, run: FailureRun) -> int:
        """Return how often the run has failed since the observation."""
        return max(0, run.count - self.times) if run.first_at == self.first_at else run.count


class FailurePositions:
    """Configurations and positions at the failures of each connector. For one thread.

    A run of failures has the positions that have not changed since its first failure. A sink with
    max.poll.records=1 advances once more, up to the poison record, and stops there. A failure
    counts for that setting only if it came after the setting did, because a trace stays in the
    status until the tasks are restarted.

    A state that this process has not observed counts as no failure, and so does one whose time is
    unknown: after a restart of the daemon, and when another task's failures become the most, as
    many failures are needed again.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[ConnectorKey, str], _PositionObservation] = {}

    def failures_under(self, key: ConnectorKey, config: str, run: FailureRun | None) -> int:
        """Return how many failures certainly came under this configuration, given by its hash."""
        if run is None:
            return 0
        return self._observe(key, "", config, run).failures(run)

    def forget_config(self, key: ConnectorKey) -> None:
        """Forget the configuration; failures count from when it is observed again."""
        self._since.pop((key, ""), None)

    def failures_before(
        self, key: ConnectorKey, partition: TopicPartition, sha256: str, run: FailureRun
    ) -> int:
        """Return how many failures certainly came while this record was the next one."""
        return self._observe(key, f"next of {partition}", sha256, run).failures(run)

    def moved(
        self,
        key: ConnectorKey,
        run: FailureRun | None,
        position: ReadPosition | None,
        label: str | None = None,
    ) -> bool | None:
        """Return whether a position has moved since the run's first failure; None if unknown.

        A position that was the same at two failures has not moved.

        label   of the source partition; None for a sink's or a mirror's
        """
        if run is None or position is None:
            return None
        if has_failed_at(run, *position.partition, label):
            return False
        value = f"{position.next} in {run.first_at!r}"
        since = self._observe(key, str(position.partition), value, run)
        if since.failures(run) > 0:
            return False
        return True if run.moved else None

    def _observe(
        self, key: ConnectorKey, subject: str, value: str, run: FailureRun
    ) -> _PositionObservation:
        """Return the observation of this value; if the value is new, record it as of now."""
        known = self._since.get((key, subject))
        if known is None or known.value != value or not known.covers(run):
            if len(self._since) >= OBSERVATIONS_MAX:
                self._since.clear()
            known = self._since[key, subject] = _PositionObservation(
                value, run.first_at, run.last_at, run.count
            )
        return known
