"""Records of a flow for a failover report: syncs, checkpoints, commits, and task restarts. No JVM.

They reach up to the end of a past window. Of records before the window only those that still count
in it are read: of syncs the corners of the lines they lie on (state/mirror/offset_translation.py
needs no others), of checkpoints and commits the newest of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from offsetwatch.history.failover_report.inputs import (
    STALE_S,
    LoggedCheckpoint,
    LoggedCommit,
    LoggedSync,
)
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.log_queries import quote_text, quote_time
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    OFFSET_SYNCS,
    STATUS,
    Table,
)
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition

_SYNC: Final = "sync_topic, sync_partition, sync_upstream, sync_downstream"
_COMMIT: Final = (
    "connector, connect_cluster, canonical, mirror_cluster, mirror_topic, mirror_partition, pos"
)
BATCH_START_S_MAX: Final = (
    30.0  # more than passes on a busy machine until a batch that is planned begins
)
_CHECKPOINT_CLASS: Final = "MirrorCheckpointConnector"


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
        WHERE {_build_until_condition(window)} AND (
            settled >= {quote_time(window.since - STALE_S)} OR before IS NULL OR after IS NULL
            OR line <> line_before OR line <> line_after
            OR before >= sync_upstream OR after <= sync_upstream)
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for item, stamp, topic_id, name, partition, upstream, downstream, joined in _order_by_time(
        query_rows(base, BRONZE_RECORDS, query)
    ):
        where = TopicPartition(name, partition)
        yield LoggedSync(item, stamp, where, upstream, downstream, joined, anew=topic_id != last)
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
        WHERE {_build_until_condition(window)}
          AND (until IS NULL OR until >= {quote_time(window.since - STALE_S)})
        ORDER BY generation, topic_id, koffset
        """  # noqa: S608 - quoted
    last = None
    for item, stamp, topic_id, told, until, whole in _order_by_time(
        query_rows(base, BRONZE_RECORDS, query)
    ):
        said = msgspec.json.decode(told)
        yield LoggedCheckpoint(
            at=item,
            stamp=stamp,
            group=said["group"],
            where=TopicPartition(said["topic"], said["partition"]),
            downstream=said["downstream_offset"],
            until=until,
            whole=whole,
            anew=topic_id != last,
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
        WHERE {_build_until_condition(window)}
          AND (until IS NULL OR until >= {quote_time(window.since - STALE_S)})
        ORDER BY generation, topic_id, kpartition, koffset
        """  # noqa: S608 - quoted
    found = [
        LoggedCommit(item, stamp, TopicPartition(topic, partition), position)
        for item, stamp, topic, partition, position in iterate_tuples(
            query_rows(base, BRONZE_RECORDS, query)
        )
    ]
    # A source partition keeps to one Kafka partition: there its commits are in order, and stay so.
    yield from sorted(found, key=lambda commit: commit.at)


def _build_log_query(topic: KafkaTopic, kind: str, columns: str) -> str:
    """Build SQL for these columns of a topic's rows, with three more.

    generation    when the first record of the topic under this id was read
    settled       since when it was in its log: not later than it was read, nor than any behind it
    holes         how often offsets are missing up to it, from the first that was ever read
    """
    return f"""
        numbered AS (
            SELECT topic_id, kpartition, koffset, kts, ingest_ts, error, {columns},
                   koffset - lag(koffset) OVER log AS step
            FROM records WHERE kind = '{kind}' AND {_build_topic_condition(topic)}
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


def _build_until_condition(window: ReportWindow) -> str:
    return f"settled <= {quote_time(window.until)}"


def _order_by_time(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows with times that never decrease, also where a topic was created again.

    Records of the old topic were in it before any in the new one.
    """
    found: list[tuple[Any, ...]] = []
    least = float("inf")
    for item, *rest in reversed(list(iterate_tuples(rows))):
        least = min(least, item)
        found.append((least, *rest))
    return found[::-1]


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
    told = f"""
        SELECT least(kts, ingest_ts) AS at, min(ingest_ts) OVER () AS heard, observation
        FROM records WHERE kind = '{STATUS}' AND {name}
        ORDER BY at
        """  # noqa: S608 - quoted
    nouns = (
        msgspec.json.decode(said)
        for (said,) in iterate_tuples(query_rows(base, BRONZE_RECORDS, configured))
    )
    names = {noun["connector"] for noun in nouns if noun["kind"] == "connector_config"}
    found: list[float] = []
    for item, heard, said in iterate_tuples(query_rows(base, BRONZE_RECORDS, told)):
        noun = msgspec.json.decode(said)
        if not found:
            found.append(heard)
        # Where nobody says which connectors these are, it may have been any.
        if noun["kind"] == "task_status" and (not names or noun["connector"] in names):
            found.append(item)
    return sorted(moment for moment in found if found[0] <= moment <= window.until)


def compute_complete_until(base: Path, kafkas: Collection[str]) -> float:
    """Return the time until which all records of these Kafka clusters' topics have been read.

    A batch covers what was there when it was planned, a moment before its rows are stamped. So for
    an idle cluster nothing is certain until a record comes; that proves everything before it.
    """
    query = """
        SELECT kafka, max(ingest_ts) AS at FROM records GROUP BY kafka
        """
    found: dict[str, float] = dict(iterate_tuples(query_rows(base, BRONZE_RECORDS, query)))
    return min(found.get(kafka, float("-inf")) for kafka in kafkas) - BATCH_START_S_MAX


def _build_topic_condition(topic: KafkaTopic) -> str:
    return f"kafka = {quote_text(topic.kafka)} AND topic = {quote_text(topic.topic)}"


def query_rows(base: Path, table: Table, query: str) -> pa.Table:
    """Return the result of a query on a table, which it calls `records`. Raises HistoryError."""
    return reader.run_query(base, query, records=table)


def iterate_tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, with times in Unix seconds."""
    columns = []
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
            columns.append([None if micro is None else micro / 1e6 for micro in micros])
        else:
            columns.append(column.to_pylist())
    return zip(*columns, strict=True)
