"""Bronze asked for what single logs hold: which there are, the newest records, where holes are.

The SQL behind asof.py, through delta-rs: without a JVM, and opening only the files whose statistics
do not rule them out. A log is one topic under one topic id; in each of its partitions the offset is
a total order. Times are Unix seconds.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from exporter.history.generations import Gap
from exporter.history.read import plain
from exporter.history.tables import CONNECT_OFFSETS, DAYS_BACK_MAX
from exporter.model.topology import KafkaTopic

_SUBJECT = ("kafka", "topic", "topic_id", "connector", "source_partition", "kpartition")
_STATE = ("koffset", "kts", "source_offset", "tombstone", "error", "dialect")
_KINDS = {
    "kafka": pa.string(),
    "topic": pa.string(),
    "topic_id": pa.string(),
    "connector": pa.string(),
    "source_partition": pa.string(),
    "kpartition": pa.int32(),
    "koffset": pa.int64(),
    "kts": pa.timestamp("us", tz="UTC"),
    "source_offset": pa.string(),
    "tombstone": pa.bool_(),
    "error": pa.string(),
    "dialect": pa.string(),
}

Row = dict[str, Any]


class Log(NamedTuple):
    """What bronze holds of one offsets topic under one topic id.

    first_at, last_at              of the records' own timestamps
    first_read_at, last_read_at    when they came into the table
    """

    connect_cluster: str
    kafka: str
    topic: str
    topic_id: str
    first_at: float
    last_at: float
    first_read_at: float
    last_read_at: float

    @property
    def at(self) -> KafkaTopic:
        """The topic, whichever its id."""
        return KafkaTopic(self.kafka, self.topic)


class Scope(NamedTuple):
    """Which records to look at: of a Connect cluster, of one connector, stamped `until` or before.

    days_known    every record stamped `until` or before lies in a folder of that day or an older
    one
    """

    connect_cluster: str
    connector: str | None
    until: float | None
    days_known: bool = False

    def terms(self) -> list[tuple[str, str, Any]]:
        """As comparisons that must all hold, in columns of bronze/records."""
        terms: list[tuple[str, str, Any]] = [
            ("kind", "=", CONNECT_OFFSETS),
            ("connect_cluster", "=", self.connect_cluster),
        ]
        if self.connector is not None:
            terms.append(("connector", "=", self.connector))
        if self.until is not None:
            moment = exact(self.until)
            terms.append(("kts", "<=", moment))
            if self.days_known:
                terms.append(("day", "<=", moment.date()))
        return terms

    def sql(self) -> str:
        """The same as SQL."""
        return " AND ".join(
            f"{name} {sign} {_literal(value)}" for name, sign, value in self.terms()
        )


def logs(table: DeltaTable) -> tuple[Log, ...]:
    """Every offsets topic that records were read of, by topic id."""
    rows = _query(
        table,
        f"""
        SELECT connect_cluster, kafka, topic, topic_id, min(kts) AS first_at, max(kts) AS last_at,
               min(ingest_ts) AS first_read_at, max(ingest_ts) AS last_read_at
        FROM records WHERE kind = '{CONNECT_OFFSETS}'
        GROUP BY connect_cluster, kafka, topic, topic_id
        """,  # noqa: S608 - a constant of ours
    )
    return tuple(sorted(Log(**row) for row in plain(rows)))


def clusters_of(table: DeltaTable, connector: str) -> tuple[str, ...]:
    """The Connect clusters that a connector of this name committed in."""
    where = f"kind = '{CONNECT_OFFSETS}' AND connector = {quoted(connector)}"
    query = f"SELECT DISTINCT connect_cluster FROM records WHERE {where}"  # noqa: S608 - quoted
    return tuple(sorted(_query(table, query).column(0).to_pylist()))


def scope(
    found: tuple[Log, ...], connect_cluster: str, connector: str | None, until: float | None
) -> Scope:
    """A scope; days are used where the clamping of bronze (tables.py) cannot have moved a record
    stamped `until` or before to a later one.
    """
    known = until is not None and all(
        exact(until).date() >= exact(log.last_read_at).date() - timedelta(days=DAYS_BACK_MAX)
        for log in found
    )
    return Scope(connect_cluster, connector, until, days_known=known)


def files(table: DeltaTable, of: Scope) -> tuple[tuple[str, ...], int]:
    """The files that a question about this scope opens, and how many it need not."""
    opened = tuple(sorted(table.file_uris(file_pruning_predicate=of.terms())))
    return opened, len(table.file_uris()) - len(opened)


def newest(table: DeltaTable, of: Scope, at: float) -> tuple[list[Row], list[Row]]:
    """The newest canonical record of every source partition in every log and partition of it: among
    those stamped `at` or before, and among all that are in the scope.

    Folded batch by batch: the memory needed is that of the answer, not that of the history.
    """
    columns = ", ".join((*_SUBJECT, *_STATE))
    query = f"SELECT {columns} FROM records WHERE {of.sql()} AND canonical"  # noqa: S608 - quoted
    reader = QueryBuilder().register("records", table).execute(query)
    then = now = pa.schema(list(_KINDS.items())).empty_table()
    limit = pa.scalar(exact(at), _KINDS["kts"])
    for batch in pa.RecordBatchReader.from_stream(reader):
        rows = pa.table([batch[name].cast(kind) for name, kind in _KINDS.items()], list(_KINDS))
        then = _newest(pa.concat_tables([then, rows.filter(pc.less_equal(rows["kts"], limit))]))
        now = _newest(pa.concat_tables([now, rows]))
    return list(plain(then)), list(plain(now))


def _newest(rows: pa.Table) -> pa.Table:
    ordered = rows.sort_by("koffset")
    ordered = ordered.append_column("place", pa.array(range(ordered.num_rows), pa.int64()))
    last = ordered.group_by(list(_SUBJECT)).aggregate([("place", "max")])
    return ordered.drop_columns(["place"]).take(last["place_max"])


def hidden_from(table: DeltaTable, log: Log) -> float | None:
    """From when on compaction may have taken records before this log was first read: the timestamp
    of the last record before the first hole, 0 for a hole at its beginning, None without one.

    Transactions leave holes too, which hide nothing. Compaction works from the log's start, and
    where it has been, no key is left twice; so it has not been beyond the first record that repeats
    a key which was read together with it. Below that, a hole is a hole.
    """
    here = _inside(log)
    query = f"""
        WITH log AS (
            SELECT kpartition, koffset, canonical,
                   lag(koffset) OVER (PARTITION BY kpartition ORDER BY koffset) AS before,
                   lag(kts) OVER (PARTITION BY kpartition ORDER BY koffset) AS before_at,
                   row_number() OVER (PARTITION BY kpartition, connector, source_partition,
                                                   canonical, ingest_ts ORDER BY koffset) AS place
            FROM records WHERE {here}
        ), untouched AS (
            SELECT kpartition, min(koffset) AS begins FROM log WHERE canonical AND place = 2
            GROUP BY kpartition
        )
        SELECT min(coalesce(before_at, to_timestamp(0))) AS at
        FROM log LEFT JOIN untouched USING (kpartition)
        WHERE koffset > coalesce(before, -1) + 1 AND (begins IS NULL OR koffset <= begins)
        """  # noqa: S608 - quoted
    (row,) = _query(table, query).to_pylist()
    return None if row["at"] is None else float(row["at"].timestamp())


def last_before(table: DeltaTable, log: Log, gap: Gap) -> float:
    """The timestamp of the newest record in front of a gap; 0 if there is none."""
    query = f"""
        SELECT coalesce(max(kts), to_timestamp(0)) AS at FROM records
        WHERE {_inside(log)} AND kpartition = {gap.kpartition} AND koffset < {gap.from_offset}
        """  # noqa: S608 - quoted, and numbers
    (row,) = _query(table, query).to_pylist()
    return float(row["at"].timestamp())


def _inside(log: Log) -> str:
    return (
        f"kind = '{CONNECT_OFFSETS}' AND kafka = {quoted(log.kafka)} AND "
        f"topic = {quoted(log.topic)} AND topic_id = {quoted(log.topic_id)}"
    )


def exact(at: float) -> datetime:
    """Unix seconds as a moment, to the microsecond."""
    return datetime.fromtimestamp(0, tz=UTC) + timedelta(microseconds=round(at * 1_000_000))


def quoted(text: str) -> str:
    """As a literal of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _literal(value: str | date) -> str:
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else quoted(value)


def _query(table: DeltaTable, query: str) -> pa.Table:
    return pa.table(QueryBuilder().register("records", table).execute(query))
