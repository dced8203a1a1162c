"""Everything the tables know of one flow in a past window, for moves.py. No JVM.

Of records before the window only what still counts in it is taken: of syncs the corners of the
lines they lie on (state/syncs.py needs no others), of checkpoints and commits the newest of each.
Samples are taken from a day before, by which the age of a record is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from exporter.errors import HistoryError
from exporter.history import read, status
from exporter.history.flows import stored
from exporter.history.logs import exact, literal, quoted
from exporter.history.moves import PACE_S
from exporter.history.moves_known import (
    ROUND_S,
    STALE_S,
    CheckpointSaid,
    Committed,
    Ends,
    Known,
    Member,
    Series,
    Sync,
)
from exporter.history.tables import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    CHECKPOINTS,
    CONNECT_OFFSETS,
    OFFSET_SYNCS,
    Table,
)
from exporter.model.pipeline import BRONZE
from exporter.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from exporter.state.remote import checkpoints_of, source_topic

_SYNC: Final = "sync_topic, sync_partition, sync_upstream, sync_downstream"
_COMMIT: Final = (
    "connector, connect_cluster, canonical, mirror_cluster, mirror_topic, mirror_partition, pos"
)
LOOK_BACK_S: Final = 86_400.0
# The samples of a thousand partitions over five days, or some gigabytes of this process.
SAMPLES_MAX: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """Unix seconds, both included. `groups`: only these; empty for all of them."""

    since: float
    until: float
    groups: frozenset[str] = frozenset()


def known(base: Path, flow: MirrorFlow, window: Window) -> Known:
    """Raises HistoryError where the tables are missing, damaged, or hold nothing of the flow."""
    if flow.upstream is None or flow.downstream is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: which configured Kafka clusters it reads from and "
            "writes to is not known, so nothing of it was sampled"
        )
    if flow.offset_syncs is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: it emits no offset syncs, or on a Kafka cluster that "
            "is not configured: nobody can say where a group would land"
        )
    read_until, records = _records(base, flow, window)
    samples = _Samples(base, window)
    upstream = samples.ends(flow.upstream)
    downstream = samples.ends(flow.downstream)
    if not upstream:
        raise HistoryError(
            f"no sample of {flow.upstream}'s log ends is of that time: `history run` takes one "
            "each time, or each minute while it goes on"
        )
    found = replace(records, read_until=read_until)
    copied = {at.where.topic for at in found.syncs} | {at.where.topic for at in found.commits}
    remote = _remotes(
        flow,
        {*(at.topic for at in downstream), *(said.where.topic for said in found.checkpoints)},
        copied,
    )
    source = {name: topic for topic, name in remote.items()}
    found.remote = remote
    found.here = {at: ends for at, ends in upstream.items() if at.topic in remote}
    found.there = {
        TopicPartition(source[at.topic], at.partition): ends
        for at, ends in downstream.items()
        if at.topic in source
    }
    found.positions = samples.positions(flow.upstream, {topic: topic for topic in remote})
    found.own = samples.positions(flow.downstream, source)
    found.not_ours = _claimed_twice(base, flow)
    return found


def _remotes(flow: MirrorFlow, names: Collection[str], copied: Collection[str]) -> dict[str, str]:
    """Upstream topics that the flow copies -> what they are called on the target."""
    found: dict[str, set[str]] = {}
    for name in names:
        topic = source_topic(flow, name, copied)
        if topic is not None and topic in copied:
            found.setdefault(topic, set()).add(name)
    return {topic: one.pop() for topic, one in found.items() if len(one) == 1}


def _claimed_twice(base: Path, flow: MirrorFlow) -> frozenset[TopicPartition]:
    """Partitions that another flow copies too, whose syncs lie in the same topic: a sync does not
    say whose it is.
    """
    others = {
        (at.connect_cluster, at.connector)
        for at in stored(base)
        if at.offset_syncs == flow.offset_syncs
    } - {(flow.connect_cluster, flow.connector)}
    if not others:
        return frozenset()
    return frozenset(
        TopicPartition(row.topic, row.partition)
        for row in read.flow_progress(base)
        if (row.connect_cluster, row.connector) in others
    )


class _Samples:
    """What was asked for, from before the window on."""

    def __init__(self, base: Path, window: Window) -> None:
        self._base = base
        self._window = window

    def ends(self, kafka: str) -> dict[TopicPartition, Series[Ends]]:
        query = f"""
            SELECT at, topic, partition, log_start, log_end FROM records
            WHERE kafka = {quoted(kafka)} AND {self._between(LOOK_BACK_S)}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[TopicPartition, Series[Ends]] = {}
        for at, topic, partition, start, end in self._rows(BRONZE_LOG_ENDS, query):
            series = found.setdefault(TopicPartition(topic, partition), Series())
            series.add(at, Ends(start, end))
        return found

    def positions(self, kafka: str, topics: dict[str, str]) -> dict[Member, Series[int]]:
        """By what each of these topics is called upstream."""
        named = ", ".join(quoted(group) for group in sorted(self._window.groups))
        of_groups = f"AND group_id IN ({named})" if named else ""
        query = f"""
            SELECT at, group_id, topic, partition, committed FROM records
            WHERE kafka = {quoted(kafka)} AND {self._between(PACE_S + STALE_S)} {of_groups}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[Member, Series[int]] = {}
        for at, group, topic, partition, offset in self._rows(BRONZE_GROUP_OFFSETS, query):
            if topic in topics:
                found.setdefault((group, topics[topic], partition), Series()).add(at, offset)
        return found

    def _between(self, before_s: float) -> str:
        since = exact(self._window.since - before_s)
        until = exact(self._window.until + ROUND_S)
        return (
            f"day >= {literal(since.date())} AND day <= {literal(until.date())} "
            f"AND at >= {literal(since)} AND at <= {literal(until)}"
        )

    def _rows(self, table: Table, query: str) -> Iterator[tuple[Any, ...]]:
        rows = _query(self._base, table, query)
        if rows.num_rows > SAMPLES_MAX:
            raise HistoryError(
                f"more than {SAMPLES_MAX} samples of {table.path} are of that time: ask for a "
                "shorter one, or name groups"
            )
        return _tuples(rows)


def _records(base: Path, flow: MirrorFlow, window: Window) -> tuple[float, Known]:
    """Until when records are known, and what they say."""
    syncs, checkpoints = flow.offset_syncs, checkpoints_of(flow)
    assert syncs is not None
    assert checkpoints is not None
    home = _home(base, flow)
    counted = [syncs, checkpoints, *([] if home is None else [home])]
    read_at = [*_read_at(base, counted), *_told_at(base)]
    found = Known(
        flow=flow,
        remote={},
        syncs=list(_syncs(base, syncs, window)),
        checkpoints=list(_checkpoints(base, checkpoints, window)),
        commits=[] if home is None else list(_commits(base, flow, home, window)),
    )
    return max(read_at, default=float("-inf")), found


def _home(base: Path, flow: MirrorFlow) -> KafkaTopic | None:
    """Where the connector's offsets are: in a topic of its own, or in its cluster's."""
    topics = {
        at.connector: at.at
        for at in read.topics(base) or ()
        if at.connect_cluster == flow.connect_cluster
    }
    home = topics.get(flow.connector, topics.get(None))
    return home if home is not None and home.topic else None


def _told_at(base: Path) -> list[float]:
    """Up to when all streams of the newest run have read, by its own account."""
    told = status.read(base)
    return [] if told is None else [at for layer, at in told.tables if layer == BRONZE]


def _read_at(base: Path, topics: Iterable[KafkaTopic]) -> list[float]:
    within = " OR ".join(f"({_of(at)})" for at in topics)
    query = f"SELECT max(ingest_ts) AS at FROM records WHERE {within}"  # noqa: S608 - quoted
    return [at for (at,) in _tuples(_query(base, BRONZE_RECORDS, query)) if at is not None]


def _syncs(base: Path, topic: KafkaTopic, window: Window) -> Iterator[Sync]:
    query = f"""
        WITH {_logged(topic, OFFSET_SYNCS, _SYNC)}, placed AS (
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
        WHERE {_until(window)} AND (
            settled >= {_moment(window.since - STALE_S)} OR before IS NULL OR after IS NULL
            OR line <> line_before OR line <> line_after
            OR before >= sync_upstream OR after <= sync_upstream)
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for at, stamp, topic_id, name, partition, upstream, downstream, joined in _settled(
        _query(base, BRONZE_RECORDS, query)
    ):
        where = TopicPartition(name, partition)
        yield Sync(at, stamp, where, upstream, downstream, joined, anew=topic_id != last)
        last = topic_id


def _checkpoints(base: Path, topic: KafkaTopic, window: Window) -> Iterator[CheckpointSaid]:
    query = f"""
        WITH {_logged(topic, CHECKPOINTS, "key, observation")}, placed AS (
            SELECT *, lead(settled) OVER own AS until, lead(holes) OVER own AS holes_after
            FROM logged WHERE error IS NULL AND observation IS NOT NULL
            WINDOW own AS (PARTITION BY topic_id, key ORDER BY koffset)
        )
        SELECT settled, kts, topic_id, observation, date_part('epoch', until) AS until,
               coalesce(holes = holes_after, TRUE) AS whole
        FROM placed
        WHERE {_until(window)} AND (until IS NULL OR until >= {_moment(window.since - STALE_S)})
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for at, stamp, topic_id, told, until, whole in _settled(_query(base, BRONZE_RECORDS, query)):
        said = msgspec.json.decode(told)
        yield CheckpointSaid(
            at=at,
            stamp=stamp,
            group=said["group"],
            where=TopicPartition(said["topic"], said["partition"]),
            downstream=said["downstream_offset"],
            until=until,
            whole=whole,
            anew=topic_id != last,
        )
        last = topic_id


def _commits(base: Path, flow: MirrorFlow, home: KafkaTopic, window: Window) -> Iterator[Committed]:
    mine = (
        f"connector = {quoted(flow.connector)} AND mirror_cluster = {quoted(flow.source)} "
        f"AND connect_cluster = {quoted(flow.connect_cluster)} AND canonical"
    )
    query = f"""
        WITH {_logged(home, CONNECT_OFFSETS, _COMMIT)}, placed AS (
            SELECT *, lead(settled) OVER own AS until FROM logged WHERE error IS NULL AND {mine}
            WINDOW own AS (PARTITION BY topic_id, mirror_topic, mirror_partition ORDER BY koffset)
        )
        SELECT settled, kts, mirror_topic, mirror_partition, pos
        FROM placed
        WHERE {_until(window)} AND (until IS NULL OR until >= {_moment(window.since - STALE_S)})
        ORDER BY generation, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    found = [
        Committed(at, stamp, TopicPartition(topic, partition), position)
        for at, stamp, topic, partition, position in _tuples(_query(base, BRONZE_RECORDS, query))
    ]
    # A source partition keeps to one Kafka partition: there its commits are in order, and stay so.
    yield from sorted(found, key=lambda commit: commit.at)


def _logged(topic: KafkaTopic, kind: str, columns: str) -> str:
    """These columns of a topic's rows, with

    generation    when the first record of the topic under this id was read
    settled       since when it was in its log: not later than it was read, nor than any behind it
    holes         how often offsets are missing up to it, from the first that was ever read
    """
    return f"""
        numbered AS (
            SELECT topic_id, kpartition, koffset, kts, ingest_ts, error, {columns},
                   koffset - lag(koffset) OVER log AS step
            FROM records WHERE kind = '{kind}' AND {_of(topic)}
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


def _until(window: Window) -> str:
    return f"settled <= {_moment(window.until + ROUND_S)}"


def _settled(rows: pa.Table) -> list[tuple[Any, ...]]:
    """In order of time as well, where a topic was created again: what stood in the old one stood
    there before anything did in the new one.
    """
    found: list[tuple[Any, ...]] = []
    least = float("inf")
    for at, *rest in reversed(list(_tuples(rows))):
        least = min(least, at)
        found.append((least, *rest))
    return found[::-1]


def _of(at: KafkaTopic) -> str:
    return f"kafka = {quoted(at.kafka)} AND topic = {quoted(at.topic)}"


def _moment(at: float) -> str:
    return literal(exact(at))


def _query(base: Path, table: Table, query: str) -> pa.Table:
    try:
        found = QueryBuilder().register("records", read.opened(base, table)).execute(query)
        return pa.table(found)
    except (DeltaError, OSError, pa.ArrowException) as exc:
        raise HistoryError(f"{base}: {table.path} cannot be read: {exc}") from exc


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Its rows, with times in Unix seconds."""
    columns = []
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
            columns.append([None if at is None else at / 1e6 for at in micros])
        else:
            columns.append(column.to_pylist())
    return zip(*columns, strict=True)
