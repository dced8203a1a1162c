"""Samples of ends and of committed group offsets, taken while the pipeline runs.

Offsets topics hold the position of a mirror or a source connector and never the log end or the end
of its source, and nothing retains the commits of a consumer group for a week: without these samples
the usual lag, or the cost of a past failover, would be unknown. What is not sampled stays unknown.
A round that fails leaves a hole, and never fails a run.

Ends of sources come from the daemon: only it asks databases, and only from its own series of reads
follow the seconds that a connector is behind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.errors import AccessDenied, ClientError, ConfigError, OffsetwatchError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.offsets_topic_queries import quote_text
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_SOURCE_ENDS,
    CHECKPOINTS,
    SILVER_NEWEST,
)
from offsetwatch.history.tables.source_end_rows import build_row
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.failover import GROUP_PARTITIONS_MAX, GROUPS_MAX
from offsetwatch.state.mirror.mm2_names import (
    find_remote_topic,
    locate_checkpoints,
    resolve_checkpoint_topic,
)

_ClusterPartition = tuple[str, TopicPartition]  # on which Kafka cluster
_Row = tuple[object, ...]
SourceEndsQuery = Callable[[], Iterable[SourceEndSample]]
"""Returns the newest samples of all sources. Raises ClientError, ConfigError."""

_log = structlog.get_logger()
_PENDING_ROWS_MAX: Final = 500_000  # rows that wait to be written: some hundred megabytes


class _GroupOffsetsQuery(NamedTuple):
    """A consumer group, and the partitions to query on each Kafka cluster."""

    group: str
    partitions: dict[str, set[TopicPartition]]


class _CheckpointKey(msgspec.Struct):
    """Fields of an observed checkpoint that identify it (decode/topic_records.py)."""

    group: str
    topic: str
    partition: int


@dataclass(slots=True)
class Sampler:
    """Sampler of ends and group offsets. Rows wait until `write`. Not thread-safe.

    A flow on a Kafka cluster without an entry in `_admins` is left out.
    """

    _base: Path
    _flows: Sequence[MirrorFlow]
    _admins: Mapping[str, KafkaAdmin]
    _clock: UnixClock
    _query_source_ends: SourceEndsQuery = tuple
    _ends: list[_Row] = field(default_factory=list)
    _groups: list[_Row] = field(default_factory=list)
    _source_ends: list[_Row] = field(default_factory=list)
    _source_read_at: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)

    def take(self) -> None:
        """Take one sample of everything that the tables name now.

        Group offsets come first, so that a group beyond the end of its log is really beyond it, and
        the log end is not merely too old.
        """
        if len(self._ends) + len(self._groups) + len(self._source_ends) > _PENDING_ROWS_MAX:
            return  # nothing could be written for very long, and that is reported elsewhere
        self._source_ends += self._read_source_ends()
        at = to_utc(self._clock.now())
        progress = reader.read_flow_progress(self._base)
        queries = self._build_group_queries(progress)
        for query in queries:
            self._groups += self._read_group_offsets(at, query)
        logs: dict[str, set[TopicPartition]] = defaultdict(set)
        for kafka, partition in self._list_mirrored(progress):
            logs[kafka].add(partition)
        for query in queries:
            for kafka, partitions in query.partitions.items():
                logs[kafka] |= partitions
        for kafka, partitions in sorted(logs.items()):
            self._ends += self._read_log_ends(at, kafka, partitions)

    def write(self) -> None:
        """Write the pending samples into the tables. Raises HistoryError; it then retains them."""
        for rows, table in (
            (self._ends, BRONZE_LOG_ENDS),
            (self._groups, BRONZE_GROUP_OFFSETS),
            (self._source_ends, BRONZE_SOURCE_ENDS),
        ):
            if rows:
                commits.append_rows(rows, self._base, table)
                rows.clear()

    def close(self) -> None:
        """Close the clients."""
        for admin in self._admins.values():
            admin.close()

    def _list_mirrored(
        self, progress: Iterable[reader.FlowProgressRow]
    ) -> Iterator[_ClusterPartition]:
        """Yield both sides of every partition that a flow has committed an offset for."""
        flows = {(flow.connect_cluster, flow.connector): flow for flow in self._flows}
        for row in progress:
            flow = flows.get((row.connect_cluster, row.connector))
            if flow is None:
                continue
            for kafka, topic in (
                (flow.upstream, row.topic),
                (flow.downstream, find_remote_topic(flow, row.topic)),
            ):
                if kafka is not None and kafka in self._admins and topic is not None:
                    yield kafka, TopicPartition(topic, row.partition)

    def _build_group_queries(
        self, progress: Collection[reader.FlowProgressRow]
    ) -> list[_GroupOffsetsQuery]:
        """Return a query for every group with a checkpoint, newest first.

        The daemon's limits on groups and partitions apply (state/failover.py).
        """
        queries: list[_GroupOffsetsQuery] = []
        for flow in self._flows:
            topic = locate_checkpoints(flow)
            upstream, downstream = flow.upstream, flow.downstream
            if topic is None or upstream not in self._admins or downstream not in self._admins:
                continue
            assert upstream is not None
            assert downstream is not None
            subject = (flow.connect_cluster, flow.connector)
            known = {
                row.topic for row in progress if (row.connect_cluster, row.connector) == subject
            }
            groups: dict[str, _GroupOffsetsQuery] = {}
            count = 0
            for key in self._checkpointed(topic.kafka, topic.topic):
                copied = resolve_checkpoint_topic(flow, key.topic, known)
                new = key.group not in groups
                full = count >= GROUP_PARTITIONS_MAX or (new and len(groups) >= GROUPS_MAX)
                if copied is None or full:
                    continue
                name, copy = copied
                query = groups.setdefault(
                    key.group, _GroupOffsetsQuery(key.group, {upstream: set(), downstream: set()})
                )
                query.partitions[upstream].add(TopicPartition(name, key.partition))
                query.partitions[downstream].add(TopicPartition(copy, key.partition))
                count += 1
            queries += groups.values()
        return queries

    def _checkpointed(self, kafka: str, topic: str) -> list[_CheckpointKey]:
        """Return the keys of checkpoints in a topic, newest first."""
        query = f"""
            SELECT observation FROM records
            WHERE kind = '{CHECKPOINTS}' AND error IS NULL AND observation IS NOT NULL
                  AND kafka = {quote_text(kafka)} AND topic = {quote_text(topic)}
            ORDER BY kts DESC, koffset DESC
            """  # noqa: S608 - quoted
        rows = reader.run_query(self._base, query, records=SILVER_NEWEST).to_pylist()
        return [msgspec.json.decode(row["observation"], type=_CheckpointKey) for row in rows]

    def _read_group_offsets(self, at: datetime, query: _GroupOffsetsQuery) -> list[_Row]:
        """Return the group's committed offsets on both clusters; none if one of them fails.

        No row means that the group has no commit there.
        """
        rows: list[_Row] = []
        for kafka, partitions in query.partitions.items():
            try:
                offsets = self._admins[kafka].group_offsets(query.group, partitions)
            except ClientError as exc:
                self._log_failure(f"{kafka}/{query.group}", exc)
                return []
            rows += [
                (at, kafka, query.group, where.topic, where.partition, offset, at.date())
                for where, offset in sorted(offsets.items())
            ]
        return rows

    def _read_log_ends(
        self, at: datetime, kafka: str, partitions: set[TopicPartition]
    ) -> list[_Row]:
        try:
            log_ends = self._admins[kafka].bounds(partitions, stable=False)
        except ClientError as exc:
            self._log_failure(kafka, exc)
            return []
        return [
            (at, kafka, where.topic, where.partition, log.start, log.end, at.date())
            for where, log in sorted(log_ends.items())
        ]

    def _read_source_ends(self) -> list[_Row]:
        """Return a row for each end that was read since the sample before."""
        try:
            samples = tuple(self._query_source_ends())
        except (ClientError, ConfigError) as exc:
            self._log_failure("ends of sources", exc)
            return []
        known = self._source_read_at
        self._source_read_at = {_build_key(sample): sample.read_at for sample in samples}
        return [
            build_row(sample)
            for sample in samples
            if known.get(_build_key(sample)) != sample.read_at
        ]

    def _log_failure(self, what: str, why: OffsetwatchError) -> None:
        """Log a failure. A denial is logged once for each subject; any other failure may pass."""
        if what in self._refused:
            return
        if isinstance(why, AccessDenied):
            self._refused.add(what)
        _log.warning("history_sample_failed", what=what, reason=str(why))


def _build_key(sample: SourceEndSample) -> tuple[str, str, str]:
    return sample.connect_cluster, sample.connector, sample.source_partition
