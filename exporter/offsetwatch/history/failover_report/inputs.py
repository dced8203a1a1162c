"""Inputs of a failover report from the tables: a flow's records and samples in a past window.

Times are Unix seconds by the clocks of the writers: of MirrorMaker in records, of the run in
samples. Of records before the window only those that still count in it are read: of syncs the
corners of the lines they lie on (state/mirror/offset_translation.py needs no others), of
checkpoints and commits the newest of each. Samples begin a day before it, as they date records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
import pyarrow as pa

from offsetwatch.errors import HistoryError
from offsetwatch.formatting import format_count
from offsetwatch.history.tables import pipeline_status, reader
from offsetwatch.history.tables.offsets_topic_queries import (
    convert_to_datetime,
    quote_text,
    quote_time,
    quote_value,
)
from offsetwatch.history.tables.reader import read_flows
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    OFFSET_SYNCS,
    STATUS,
    Table,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import (
    find_remote_topic,
    format_routers,
    locate_checkpoints,
    resolve_checkpoint_topic,
)

# A sample counts for so long. One comes every minute; as with a series of Prometheus, what was said
# five minutes ago is no longer shown.
STALE_S: Final = 300.0
RATE_WINDOW_S: Final = 600.0  # over how long a group's rate is measured

T = TypeVar("T")
ReportGroupPartition = tuple[str, str, int]  # group, topic upstream, partition

_SYNC: Final = "sync_topic, sync_partition, sync_upstream, sync_downstream"
_COMMIT: Final = (
    "connector, connect_cluster, canonical, mirror_cluster, mirror_topic, mirror_partition, pos"
)
BATCH_START_S_MAX: Final = 30.0  # until a planned batch begins; a busy machine takes less
_CHECKPOINT_CLASS: Final = "MirrorCheckpointConnector"
LOOK_BACK_S: Final = 86_400.0
# Of one kind and one cluster: a thousand partitions over five days, and half a gigabyte.
SAMPLES_MAX: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class LoggedSync:
    """An offset sync.

    at        since when it was in its log, as far as timestamps tell (_build_log_query, settled)
    stamp     its own timestamp
    joined    no record is missing between the sync of the partition before and this one
    is_first      it is the first of its topic, or of one that was created again
    """

    at: float
    stamp: float
    where: TopicPartition
    upstream: int
    downstream: int
    joined: bool
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class LoggedCheckpoint:
    """A checkpoint: the offset where `group` starts in a topic of the target.

    where     the topic that has the copies; a checkpoint itself names the one MM2 created
    until     when the next of the same key came; None if none did
    whole     no offset is missing in between
    """

    at: float
    stamp: float
    group: str
    where: TopicPartition
    downstream: int
    until: float | None
    whole: bool
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit of the MirrorSourceConnector: the last record replicated; None for a tombstone."""

    at: float
    stamp: float
    where: TopicPartition
    offset: int | None


@dataclass(slots=True)
class Series(Generic[T]):
    """Samples in order of time."""

    times: list[float] = field(default_factory=list)
    values: list[T] = field(default_factory=list)

    def add(self, sampled_at: float, value: T) -> None:
        """Add a sample, not older than the last."""
        self.times.append(sampled_at)
        self.values.append(value)

    def newest(self, moment: float) -> tuple[float, T] | None:
        """Return the newest sample at this time, with its time; None if older than STALE_S."""
        index = bisect_right(self.times, moment) - 1
        if index < 0 or moment - self.times[index] > STALE_S:
            return None
        return self.times[index], self.values[index]

    def exactly(self, moment: float) -> T | None:
        """Return the sample of the round at this time: all samples of a round carry its time."""
        index = bisect_right(self.times, moment) - 1
        return self.values[index] if index >= 0 and self.times[index] == moment else None


@dataclass(slots=True)
class FailoverInputs:
    """Records and samples of a flow.

    positions     committed offsets of groups upstream, and `own` on the target (by the upstream
                  topic too)
    here, there   bounds of upstream logs and, by the upstream topic too, of their copies; the last
                  stable offset is not sampled, `stable_end` repeats the end
    syncs, checkpoints, commits    in order of `at`
    restarts      when a checkpoint task may have lost its state; before the first of them, and
                  where there is none, that is unknown
    not_ours      partitions whose syncs may be another flow's
    read_until    all older records have been read into the tables
    remote        names of upstream topics on the target, as far as they are known
    """

    flow: MirrorFlow
    remote: Mapping[str, str]
    positions: dict[ReportGroupPartition, Series[int]] = field(default_factory=dict)
    own: dict[ReportGroupPartition, Series[int]] = field(default_factory=dict)
    here: dict[TopicPartition, Series[LogBounds]] = field(default_factory=dict)
    there: dict[TopicPartition, Series[LogBounds]] = field(default_factory=dict)
    syncs: Sequence[LoggedSync] = ()
    checkpoints: Sequence[LoggedCheckpoint] = ()
    commits: Sequence[LoggedCommit] = ()
    restarts: Sequence[float] = ()
    not_ours: frozenset[TopicPartition] = frozenset()
    read_until: float = float("inf")


@dataclass(frozen=True, slots=True)
class ReportWindow:
    """Start and end in Unix seconds, both included. `groups`: only these; empty for all of them."""

    since: float
    until: float
    groups: frozenset[str] = frozenset()


def read_syncs(base: Path, topic: KafkaTopic, window: ReportWindow) -> Iterator[LoggedSync]:
    """Yield syncs in the order of the log; before the window, the corners of their lines."""
    query = f"""
        WITH {_build_log_query(topic, OFFSET_SYNCS, _SYNC)}, placed AS (
            SELECT *, sync_upstream - sync_downstream AS line,
                   lag(sync_upstream - sync_downstream) OVER own AS line_before,
                   lead(sync_upstream - sync_downstream) OVER own AS line_after,
                   lag(sync_upstream) OVER own AS before, lead(sync_upstream) OVER own AS after,
                   lag(holes) OVER own AS holes_before
            FROM logged WHERE error IS NULL
            WINDOW own AS (PARTITION BY topic_id, sync_topic, sync_partition ORDER BY koffset)
        )
        SELECT settled, kts, topic_id, sync_topic, sync_partition, sync_upstream, sync_downstream,
               coalesce(holes = holes_before, FALSE) AS joined
        FROM placed
        WHERE settled <= {quote_time(window.until)} AND (
            settled >= {quote_time(window.since - STALE_S)} OR before IS NULL OR after IS NULL
            OR line <> line_before OR line <> line_after
            OR before >= sync_upstream OR after <= sync_upstream)
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for settled, stamp, topic_id, name, partition, upstream, downstream, joined in _order_by_time(
        _query(base, BRONZE_RECORDS, query)
    ):
        where = TopicPartition(name, partition)
        yield LoggedSync(
            settled, stamp, where, upstream, downstream, joined, is_first=topic_id != last
        )
        last = topic_id


def read_checkpoints(
    base: Path, topic: KafkaTopic, window: ReportWindow
) -> Iterator[LoggedCheckpoint]:
    """Yield checkpoints in the order of the log; before the window, the newest of each key."""
    query = f"""
        WITH {_build_log_query(topic, CHECKPOINTS, "key, observation")}, placed AS (
            SELECT *, lead(settled) OVER own AS until, lead(holes) OVER own AS holes_after
            FROM logged WHERE error IS NULL AND observation IS NOT NULL
            WINDOW own AS (PARTITION BY topic_id, key ORDER BY koffset)
        )
        SELECT settled, kts, topic_id, observation, date_part('epoch', until) AS until,
               coalesce(holes = holes_after, TRUE) AS whole
        FROM placed
        WHERE settled <= {quote_time(window.until)}
          AND (until IS NULL OR until >= {quote_time(window.since - STALE_S)})
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for settled, stamp, topic_id, observation, until, whole in _order_by_time(
        _query(base, BRONZE_RECORDS, query)
    ):
        noun = msgspec.json.decode(observation)
        yield LoggedCheckpoint(
            at=settled,
            stamp=stamp,
            group=noun["group"],
            where=TopicPartition(noun["topic"], noun["partition"]),
            downstream=noun["downstream_offset"],
            until=until,
            whole=whole,
            is_first=topic_id != last,
        )
        last = topic_id


def read_commits(
    base: Path, flow: MirrorFlow, home: KafkaTopic, window: ReportWindow
) -> Iterator[LoggedCommit]:
    """Yield commits of the flow's MirrorSourceConnector, in order of time.

    Of those before the window, the newest of each partition.
    """
    mine = (
        f"connector = {quote_text(flow.connector)} AND mirror_cluster = {quote_text(flow.source)} "
        f"AND connect_cluster = {quote_text(flow.connect_cluster)} AND canonical"
    )
    query = f"""
        WITH {_build_log_query(home, CONNECT_OFFSETS, _COMMIT)}, placed AS (
            SELECT *, lead(settled) OVER own AS until FROM logged WHERE error IS NULL AND {mine}
            WINDOW own AS (PARTITION BY topic_id, mirror_topic, mirror_partition ORDER BY koffset)
        )
        SELECT settled, kts, mirror_topic, mirror_partition, pos
        FROM placed
        WHERE settled <= {quote_time(window.until)}
          AND (until IS NULL OR until >= {quote_time(window.since - STALE_S)})
        ORDER BY generation, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    commits = (
        LoggedCommit(settled, stamp, TopicPartition(topic, partition), position)
        for settled, stamp, topic, partition, position in _query(base, BRONZE_RECORDS, query)
    )
    # A source partition keeps to one Kafka partition: there its commits are in order, and stay so.
    yield from sorted(commits, key=lambda commit: commit.at)


def _build_log_query(topic: KafkaTopic, kind: str, columns: str) -> str:
    """Build SQL for these columns of a topic's rows, with three more.

    generation    when the first record of the topic under this id was read
    settled       since when it was in its log: not later than it was read, nor than any behind it
    holes         how often offsets are missing up to it, from the first that was ever read
    """
    where = f"kafka = {quote_text(topic.kafka)} AND topic = {quote_text(topic.topic)}"
    return f"""
        numbered AS (
            SELECT topic_id, kpartition, koffset, kts, ingest_ts, error, {columns},
                   koffset - lag(koffset) OVER log AS step
            FROM records WHERE kind = '{kind}' AND {where}
            WINDOW log AS (PARTITION BY topic_id, kpartition ORDER BY koffset)
        ), logged AS (
            SELECT *, min(ingest_ts) OVER (PARTITION BY topic_id) AS generation,
                   sum(CASE WHEN step = 1 THEN 0 ELSE 1 END)
                       OVER (PARTITION BY topic_id, kpartition ORDER BY koffset) AS holes,
                   min(least(kts, ingest_ts)) OVER (
                       PARTITION BY topic_id, kpartition ORDER BY koffset DESC
                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS settled
            FROM numbered
        )
        """  # noqa: S608 - quoted


def _order_by_time(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows with times that never decrease, also where a topic was created again.

    Records of the old topic were in it before any in the new one.
    """
    backwards = list(rows)[::-1]
    times = accumulate((row[0] for row in backwards), min)
    return [(moment, *row[1:]) for moment, row in zip(times, backwards, strict=True)][::-1]


def read_restarts(base: Path, connect_cluster: str, window: ReportWindow) -> list[float]:
    """Return when a checkpoint task of this Connect cluster may have been restarted.

    That is when the status topic was first read, and at each status record of such a task since.
    Empty where that topic is not recorded.
    """
    name = f"connect_cluster = {quote_text(connect_cluster)} AND error IS NULL"
    configured = f"""
        SELECT DISTINCT observation FROM records WHERE kind = '{CONFIGS}' AND {name}
              AND strpos(observation, {quote_text(_CHECKPOINT_CLASS)}) > 0
        """  # noqa: S608 - quoted
    statuses = f"""
        SELECT least(kts, ingest_ts) AS at, min(ingest_ts) OVER () AS first_read, observation
        FROM records WHERE kind = '{STATUS}' AND {name}
        ORDER BY at
        """  # noqa: S608 - quoted
    nouns = (
        msgspec.json.decode(observation)
        for (observation,) in _query(base, BRONZE_RECORDS, configured)
    )
    names = {noun["connector"] for noun in nouns if noun["kind"] == "connector_config"}
    restarts: list[float] = []
    for reported_at, first_read, observation in _query(base, BRONZE_RECORDS, statuses):
        noun = msgspec.json.decode(observation)
        if not restarts:
            restarts.append(first_read)
        # Where it is not known which connectors these are, it may have been any.
        if noun["kind"] == "task_status" and (not names or noun["connector"] in names):
            restarts.append(reported_at)
    return sorted(moment for moment in restarts if restarts[0] <= moment <= window.until)


def compute_complete_until(base: Path, kafkas: Collection[str]) -> float:
    """Return the time until which all records of these Kafka clusters' topics have been read.

    A batch covers what was there when it was planned, a moment before its rows are stamped. So for
    an idle cluster nothing is certain until a record comes; that proves everything before it.
    """
    query = "SELECT kafka, max(ingest_ts) AS at FROM records GROUP BY kafka"
    last_read: dict[str, float] = dict(_query(base, BRONZE_RECORDS, query))
    return min(last_read.get(kafka, float("-inf")) for kafka in kafkas) - BATCH_START_S_MAX


def _query(
    base: Path, table: Table, query: str, rows_max: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield the result of a query on a table (`records`), with times in Unix seconds."""
    rows = reader.run_query(base, query, records=table)
    if rows_max is not None and rows.num_rows > rows_max:
        raise HistoryError(
            f"more than {rows_max} samples of {table.path} are of that time: ask for a shorter "
            "one, or name groups"
        )
    columns = []
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
            columns.append([None if micro is None else micro / 1e6 for micro in micros])
        else:
            columns.append(column.to_pylist())
    return zip(*columns, strict=True)


def load_inputs(base: Path, flow: MirrorFlow, window: ReportWindow) -> FailoverInputs:
    """Return the inputs of a report on a flow.

    Raises HistoryError where the tables are missing, damaged, or hold nothing of the flow.
    """
    if flow.upstream is None or flow.downstream is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: which configured Kafka clusters it reads from and "
            "writes to is not known, so nothing of it was sampled"
        )
    if flow.offset_syncs is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: it emits no offset syncs, or on a Kafka cluster that "
            "is not configured, or only a config provider of its workers knows where: the position "
            "after a failover is unknown"
        )
    inputs = _read_records(base, flow, window)
    upstream = _read_log_ends(base, window, flow.upstream)
    downstream = _read_log_ends(base, window, flow.downstream)
    if not upstream:
        raise HistoryError(
            f"no sample of {flow.upstream}'s log ends is of that time: `history run` takes one "
            "each time, or each minute while it goes on"
        )
    copied = {sync.where.topic for sync in inputs.syncs}
    copied |= {commit.where.topic for commit in inputs.commits}
    inputs.checkpoints = [
        replace(checkpoint, where=TopicPartition(names[1], checkpoint.where.partition))
        for checkpoint in inputs.checkpoints
        if (names := resolve_checkpoint_topic(flow, checkpoint.where.topic, copied)) is not None
    ]
    named = {partition.topic for partition in downstream}
    named |= {checkpoint.where.topic for checkpoint in inputs.checkpoints}
    remote = _name_copies(flow, named, copied)
    if copied and not remote and _has_unknown_copies(flow, named, copied):
        why = f"a transform ({format_routers(flow)})" if flow.routers else "its replication policy"
        raise HistoryError(
            f"{flow.source}->{flow.target}: {why} writes its copies to topics with unknown names: "
            "the position after a failover is unknown. Name them: flows[].copies"
        )
    source = {name: topic for topic, name in remote.items()}
    inputs.remote = remote
    inputs.here = {where: ends for where, ends in upstream.items() if where.topic in remote}
    inputs.there = {
        TopicPartition(source[where.topic], where.partition): ends
        for where, ends in downstream.items()
        if where.topic in source
    }
    same = {topic: topic for topic in remote}
    inputs.positions = _read_positions(base, window, flow.upstream, same)
    inputs.own = _read_positions(base, window, flow.downstream, source)
    inputs.not_ours = _find_shared_partitions(base, flow)
    return inputs


def _name_copies(
    flow: MirrorFlow, names: Collection[str], copied: Collection[str]
) -> dict[str, str]:
    """Return upstream topic -> name of its copy on the target, of topics that the flow copies.

    Two that share a topic there are left out.
    """
    copies = {topic: find_remote_topic(flow, topic, names) for topic in copied}
    sources = Counter(copies.values())
    return {
        topic: name
        for topic, name in copies.items()
        if name is not None and name in names and sources[name] == 1
    }


def _has_unknown_copies(flow: MirrorFlow, names: Collection[str], copied: Collection[str]) -> bool:
    return bool(flow.routers) or all(
        find_remote_topic(flow, topic, names) is None for topic in copied
    )


def _find_shared_partitions(base: Path, flow: MirrorFlow) -> frozenset[TopicPartition]:
    """Return partitions that another flow copies too, with its syncs in the same topic.

    A sync does not name its flow.
    """
    others = {
        (other.connect_cluster, other.connector)
        for other in read_flows(base)
        if other.offset_syncs == flow.offset_syncs
    } - {(flow.connect_cluster, flow.connector)}
    if not others:
        return frozenset()
    return frozenset(
        TopicPartition(row.topic, row.partition)
        for row in reader.read_flow_progress(base)
        if (row.connect_cluster, row.connector) in others
    )


def _read_log_ends(
    base: Path, window: ReportWindow, kafka: str
) -> dict[TopicPartition, Series[LogBounds]]:
    query = f"""
        SELECT at, topic, partition, log_start, log_end FROM records
        WHERE kafka = {quote_text(kafka)} AND {_build_time_condition(window, LOOK_BACK_S)}
        ORDER BY at LIMIT {SAMPLES_MAX + 1}
        """  # noqa: S608 - quoted
    log_ends: dict[TopicPartition, Series[LogBounds]] = defaultdict(Series)
    samples = _query(base, BRONZE_LOG_ENDS, query, SAMPLES_MAX)
    for sampled_at, topic, partition, start, end in samples:
        log_ends[TopicPartition(topic, partition)].add(sampled_at, LogBounds(start, end, end))
    return log_ends


def _read_positions(
    base: Path, window: ReportWindow, kafka: str, topics: dict[str, str]
) -> dict[ReportGroupPartition, Series[int]]:
    """Return committed offsets by group and upstream partition.

    topics    names on this Kafka cluster -> upstream names
    """
    named = ", ".join(quote_text(group) for group in sorted(window.groups))
    of_groups = f"AND group_id IN ({named})" if named else ""
    query = f"""
        SELECT at, group_id, topic, partition, committed FROM records
        WHERE kafka = {quote_text(kafka)}
          AND {_build_time_condition(window, RATE_WINDOW_S + STALE_S)} {of_groups}
        ORDER BY at LIMIT {SAMPLES_MAX + 1}
        """  # noqa: S608 - quoted
    positions: dict[ReportGroupPartition, Series[int]] = defaultdict(Series)
    samples = _query(base, BRONZE_GROUP_OFFSETS, query, SAMPLES_MAX)
    for sampled_at, group, topic, partition, offset in samples:
        if topic in topics:
            positions[group, topics[topic], partition].add(sampled_at, offset)
    return positions


def _build_time_condition(window: ReportWindow, before_s: float) -> str:
    since, until = convert_to_datetime(window.since - before_s), convert_to_datetime(window.until)
    return (
        f"day >= {quote_value(since.date())} AND day <= {quote_value(until.date())} "
        f"AND at >= {quote_value(since)} AND at <= {quote_value(until)}"
    )


def _read_records(base: Path, flow: MirrorFlow, window: ReportWindow) -> FailoverInputs:
    """Return the records, and until when all of them are known, without samples."""
    syncs, checkpoints = flow.offset_syncs, locate_checkpoints(flow)
    assert syncs is not None
    assert checkpoints is not None
    home = _find_offsets_topic(base, flow)
    kafkas = {syncs.kafka, checkpoints.kafka, *(set() if home is None else {home.kafka})}
    inputs = FailoverInputs(
        flow=flow,
        remote={},
        syncs=list(read_syncs(base, syncs, window)),
        checkpoints=list(read_checkpoints(base, checkpoints, window)),
        commits=[] if home is None else list(read_commits(base, flow, home, window)),
        restarts=read_restarts(base, flow.connect_cluster, window),
    )
    _refuse_backlog(base, kafkas)
    inputs.read_until = compute_complete_until(base, kafkas)
    return inputs


def _refuse_backlog(base: Path, kafkas: Collection[str]) -> None:
    """Raise HistoryError while the pipeline has a backlog on one of these Kafka clusters.

    During catch-up, the time of the last batch does not show how far it has read.
    """
    status = pipeline_status.read_status(base)
    for feed in () if status is None else status.feeds:
        if feed.kafka in kafkas and feed.behind:
            raise HistoryError(
                f"the pipeline is {format_count(feed.behind, 'record')} behind on {feed.kafka}: "
                "let it catch up first (history run), or what it has not read yet would be "
                "missing from the report"
            )


def _find_offsets_topic(base: Path, flow: MirrorFlow) -> KafkaTopic | None:
    """Return the connector's offsets topic: its own, or its Connect cluster's; None if unknown."""
    topics = {
        topic.connector: topic.at
        for topic in reader.read_topics(base)
        if topic.connect_cluster == flow.connect_cluster
    }
    home = topics.get(flow.connector, topics.get(None))
    return home if home is not None and home.topic else None
