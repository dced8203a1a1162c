"""Search for the record that blocks a connector, from the snapshot, Connect and operators.

record_window.WindowSearch reads the logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.errors import ClientError, NotFound
from offsetwatch.model.records import RawRecord
from offsetwatch.model.topology import MirrorFlow, SinkGroup, TopicPartition
from offsetwatch.remedy.drivers.rest.connect_state import compute_config_sha256
from offsetwatch.remedy.gather import worker_properties
from offsetwatch.remedy.gather.broker_queries import Brokers
from offsetwatch.remedy.gather.failure_positions import FailurePositions
from offsetwatch.remedy.gather.record_window import KafkaReaders, WindowSearch
from offsetwatch.remedy.gather.snapshot_queries import (
    LiveConnectorState,
    RemediationCase,
    find_connector_view,
    find_mirror_flow,
    find_sink_group,
    parse_version,
)
from offsetwatch.remedy.locate.connector_settings import read_mirror_facts, read_sink_facts
from offsetwatch.remedy.locate.mirrors import parse_mirror_position
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    MirrorSubject,
    NoIdentification,
    OpaqueSubject,
    ReadPosition,
    SinkSubject,
    SubjectPartition,
)
from offsetwatch.remedy.locate.sinks import parse_sink_position
from offsetwatch.remedy.model.plan import PartitionOffset, RecordLocation
from offsetwatch.remedy.model.policy import Policy, SinkProfile, classify_sink
from offsetwatch.state.mirror.mm2_names import find_remote_topic
from offsetwatch.state.snapshot import Snapshot

OPERATOR_METHOD: Final = "named_by_a_person"
READ_S: Final = 20.0
IDS_MAX: Final = 10_000
READ_BYTES: Final = 64 * 1024 * 1024

LocatorAnswer = IdentifiedRecord | NoIdentification


class PoisonLocator:
    """Locator of the record that a connector cannot get past. For one thread.

    It only reads. What it cannot read becomes a reason, not an exception.
    """

    def __init__(self, config: Config, brokers: Brokers, policy: Policy, clock: UnixClock) -> None:
        self._connects = {cluster.name: cluster for cluster in config.connect}
        self._brokers = brokers
        self._policy = policy
        self._readers = KafkaReaders(config.kafka)
        self._finder = WindowSearch(self._readers, brokers, clock)
        self._ids: dict[tuple[str, str, str], str | None] = {}
        self._stood = FailurePositions()

    def find(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
    ) -> LocatorAnswer:
        """Return the record that an incident is about."""
        if now.config is None or now.pairs is None:
            return NoIdentification(
                "not_told", "Connect does not return its configuration and offsets"
            )
        sink, flow = find_sink_group(snapshot, case), find_mirror_flow(snapshot, case)
        if sink is not None:
            return self._in_sink(case, now, snapshot, sink)
        if flow is not None:
            return self._in_mirror(case, now, snapshot, flow)
        view = find_connector_view(snapshot, case.connect, case.connector)
        pair = next(iter(now.pairs), None)
        if view is None or pair is None:
            return NoIdentification("no_offset", "its offset is unknown")
        return self._finder.find(
            OpaqueSubject(case.connector, view.class_name, pair, _version_of(now))
        )

    def _in_sink(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot, sink: SinkGroup
    ) -> LocatorAnswer:
        assert now.config is not None
        assert now.pairs is not None
        view = find_connector_view(snapshot, case.connect, case.connector)
        if sink.kafka is None or view is None:
            return NoIdentification("cluster_unknown", "its Kafka cluster is not configured here")
        connect = self._connects[case.connect]
        facts = read_sink_facts(
            now.config, worker_properties.read_worker_settings(connect.worker_properties_file)
        )
        run = None if case.incident is None else case.incident.worst
        key = (case.connect, case.connector)
        config = compute_config_sha256(case.connector, now.config)
        failures = self._stood.failures_under(key, config, run)
        ends = {
            (partition.topic, partition.partition): partition.log_end
            for partition in snapshot.sink_partitions
            if (partition.connect_cluster, partition.connector) == (case.connect, case.connector)
        }
        rows = []
        for pair in now.pairs:
            topic_partition = parse_sink_position(pair)
            end = (
                None
                if topic_partition is None
                else ends.get((topic_partition.at.topic, topic_partition.at.partition))
            )
            topic_id = self._id_then(case, sink.kafka, topic_partition)
            moved = self._stood.moved(key, run, topic_partition)
            rows.append(SubjectPartition(pair, moved, topic_id=topic_id, end_seen=end))
        return self._finder.find(
            SinkSubject(
                connector=case.connector,
                kafka=sink.kafka,
                failure=case.failure,
                partitions=tuple(rows),
                facts=facts,
                failures_alone=failures if facts.batch_max == 1 else 0,
                put_at_once=classify_sink(self._policy, view.class_name) is SinkProfile.SAFE,
                log=worker_properties.read_log_end(connect.worker_logs)
                if facts.logs_records
                else None,
                topics=sink.topics,
                letters_kafka=connect.kafka,  # unless a worker is told otherwise
                connect_version=_version_of(now),
            )
        )

    def _in_mirror(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot, flow: MirrorFlow
    ) -> LocatorAnswer:
        assert now.config is not None
        assert now.pairs is not None
        if flow.upstream is None:
            return NoIdentification(
                "cluster_unknown", "its upstream cluster is not configured here"
            )
        worker = worker_properties.read_worker_settings(
            self._connects[case.connect].worker_properties_file
        )
        run = None if case.incident is None else case.incident.worst
        key = (case.connect, case.connector)
        rows = []
        for pair in now.pairs:
            partition = parse_mirror_position(pair)
            remote = None if partition is None else find_remote_topic(flow, partition.at.topic)
            stood = self._stood.moved(key, run, partition)
            moved = _is_mirror_moving(snapshot, case, partition) if run is None else stood
            topic_id = self._id_then(case, flow.upstream, partition)
            rows.append(SubjectPartition(pair, moved, topic_id=topic_id, remote=remote))
        return self._finder.find(
            MirrorSubject(
                connector=case.connector,
                kafka=flow.upstream,
                failure=case.failure,
                partitions=tuple(rows),
                facts=read_mirror_facts(now.config, worker),
                target_kafka=flow.downstream,
                connect_version=_version_of(now),
            )
        )

    def named(
        self,
        case: RemediationCase,
        now: LiveConnectorState,
        snapshot: Snapshot,
        to: PartitionOffset,
    ) -> LocatorAnswer:
        """Return the record that is skipped if a partition gets this offset."""
        sink, flow = find_sink_group(snapshot, case), find_mirror_flow(snapshot, case)
        mine = next((pair for pair in now.pairs or () if pair.partition == to.partition), None)
        if mine is None or mine.offset is None:
            return NoIdentification("no_offset", f"it has no offset for {to.partition}")
        if sink is not None and sink.kafka is not None:
            return self._named(sink.kafka, mine, to, parse_sink_position)
        if flow is not None and flow.upstream is not None:
            return self._named(flow.upstream, mine, to, parse_mirror_position)
        said = (
            "what it would skip cannot be copied first; `offsets alter` sets an offset, with a "
            "backup of all"
        )
        return NoIdentification("opaque", said)

    def _named(
        self,
        kafka: str,
        mine: PartitionOffset,
        to: PartitionOffset,
        where: Callable[[PartitionOffset], ReadPosition | None],
    ) -> LocatorAnswer:
        """Identify the single record between the current and the requested position."""
        before, after = where(mine), where(to)
        if before is None or after is None or before.at != after.at:
            return NoIdentification("offset_shape", f"{to.offset} is no offset of such a connector")
        try:
            topic_id = self._brokers.topic_id(kafka, before.at.topic)
            found = self._between(kafka, before.at, before.next, after.next)
        except NotFound as exc:
            return NoIdentification("topic_unknown", str(exc))
        except ClientError as exc:
            return NoIdentification(exc.reason, str(exc))
        if len(found) != 1:
            said = f"{len(found)} records stand from {before.next} to before {after.next}"
            return NoIdentification("not_one_record", f"{said}, and one is skipped at a time")
        record = found[0]
        if record.offset + 1 != after.next or topic_id is None:
            said = f"after the record at {record.offset} comes {record.offset + 1}"
            return NoIdentification("not_the_next", f"{said}, and not {after.next}")
        location = RecordLocation(kafka, record.topic, topic_id, record.partition, record.offset)
        return IdentifiedRecord(
            location, mine, to, OPERATOR_METHOD, record.sha256, record.size_bytes
        )

    def _id_then(
        self, case: RemediationCase, kafka: str, partition: ReadPosition | None
    ) -> str | None:
        """Return the topic's id when this incident was first inspected; None if unknown.

        By then the problem had begun.
        """
        if partition is None or case.incident is None:
            return None
        key = (case.incident.key, kafka, partition.at.topic)
        if key not in self._ids:
            if len(self._ids) >= IDS_MAX:
                self._ids.clear()
            try:
                self._ids[key] = self._brokers.topic_id(kafka, partition.at.topic)
            except ClientError:
                return None
        return self._ids[key]

    def _between(
        self, kafka: str, partition: TopicPartition, start: int, end: int
    ) -> tuple[RawRecord, ...]:
        with self._readers(kafka, committed=True) as reader:
            window = reader.window(
                partition, start, count_max=2, bytes_max=READ_BYTES, timeout_s=READ_S
            )
        return tuple(record for record in window.records if record.offset < end)


def _is_mirror_moving(
    snapshot: Snapshot, case: RemediationCase, partition: ReadPosition | None
) -> bool | None:
    """Return whether a partition of a mirror without failures is caught up; None if unknown."""
    if partition is None:
        return None
    key = (case.connect, case.connector, partition.at.topic, partition.at.partition)
    for view in snapshot.mirror_partitions:
        if (view.connect_cluster, view.connector, view.topic, view.partition) == key:
            return None if view.lag is None else view.lag == 0 or view.caught_up
    return None


def _version_of(now: LiveConnectorState) -> tuple[int, ...] | None:
    return None if now.root is None else parse_version(now.root.version)
