"""Queries about single logs: which offsets topics there are, their newest commits, their holes.

This is the SQL behind history/queries/asof.py, through delta-rs: without a JVM, and opening only
the files whose statistics do not rule them out. A log is one topic under one topic id; in each of
its partitions the offset is a total order. Times are Unix seconds.

Of several raw keys of one source partition the daemon's rule decides (state/connect/raw_keys.py).
The tables do not store the header of our own writes, so a record that offsetwatch wrote counts as
one of the connector's here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import QueryBuilder

from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.reader import BronzeGap, convert_rows
from offsetwatch.history.tables.schemas import (
    ARROW,
    BRONZE_RECORDS,
    CONNECT_OFFSETS,
    DAYS_BACK_MAX,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_SNAPSHOTS,
    Table,
)
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import SourceKey, SourceOffset, Undecodable
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.raw_keys import SpellingInUse, collect_spellings

# So many of the newest records under each raw key are enough to judge by.
EVIDENCE_RECORDS_MAX: Final = 4
_EPOCH: Final = datetime.fromtimestamp(0, tz=UTC)

_SUBJECT = ("kafka", "topic", "topic_id", "connector", "source_partition", "key", "kpartition")
_STATE = ("koffset", "kts", "source_offset", "tombstone", "error", "dialect")
_COLUMN_TYPES = {
    column.name: ARROW[column.type]
    for column in SILVER_COMMITS.columns
    if column.name in {*_SUBJECT, *_STATE}
}
# Bytes of a map in an order of its own, of which silver/commits has those of known classes only.
_IN_OWN_ORDER: Final = "(NOT canonical AND coalesce(key_form, 'ordered') = 'ordered')"
Row = dict[str, Any]
Terms = list[tuple[str, str, Any]]
"""Comparisons that must all hold, in columns of a table."""

_EMPTY: Final = pa.schema(list(_COLUMN_TYPES.items())).empty_table()


def find_keys_in_use(
    rows: Iterable[Mapping[str, Any]], class_name: str = ""
) -> dict[str, SpellingInUse]:
    """Return for each source partition of one connector the raw key that its task looks up.

    `class_name` is the connector's; "" where it is not known.

    Each row is a record of an offsets topic with key, source_offset, tombstone, error, kpartition,
    koffset, and kts in Unix seconds.
    """
    in_order = sorted(rows, key=itemgetter("kpartition", "koffset"))
    records = [record for row in in_order if (record := _build_record(row)) is not None]
    spellings = collect_spellings(records, class_name)
    identities = {record.key.identity for record in records}
    return {identity: spellings.in_use(identity) for identity in identities}


def _build_record(row: Mapping[str, Any]) -> SourceRecord | None:
    key = decode_key(row["key"])
    if not isinstance(key, SourceKey):
        return None
    offset: SourceOffset | Undecodable | None = None
    if row["error"] is not None:
        offset = Undecodable(row["error"])
    elif not row["tombstone"]:
        offset = decode_value(row["source_offset"].encode())
    return SourceRecord(
        key=key,
        raw_key=row["key"],
        offset=offset,
        partition=row["kpartition"],
        log_offset=row["koffset"],
        at=row["kts"],
        advanced_at=None,
        live=False,
    )


class OffsetsTopicLog(NamedTuple):
    """Records of one offsets topic under one topic id.

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
        """Return the topic, without its id."""
        return KafkaTopic(self.kafka, self.topic)


class NewestCommits(NamedTuple):
    """The newest commit under every raw key of a source partition in every log.

    files, files_skipped    files opened for it, and how many of the same tables were not
    """

    rows: list[Row]
    files: tuple[str, ...]
    files_skipped: int


def read_logs(base: Path) -> tuple[OffsetsTopicLog, ...]:
    """Return every offsets topic that records were read of, by topic id."""
    query = f"""
        SELECT connect_cluster, kafka, topic, topic_id,
               min(first_at) AS first_at, max(last_at) AS last_at,
               min(first_read_at) AS first_read_at, max(last_read_at) AS last_read_at
        FROM records WHERE kind = '{CONNECT_OFFSETS}'
        GROUP BY connect_cluster, kafka, topic, topic_id
        """  # noqa: S608 - a constant of ours
    rows = convert_rows(reader.run_query(base, query, records=SILVER_LOGS))
    return tuple(sorted(OffsetsTopicLog(**row) for row in rows))


def find_clusters(base: Path, connector: str) -> tuple[str, ...]:
    """Return the Connect clusters that a connector of this name committed in."""
    where = f"kind = '{CONNECT_OFFSETS}' AND connector = {quote_text(connector)}"
    query = f"SELECT DISTINCT connect_cluster FROM records WHERE {where}"  # noqa: S608 - quoted
    clusters = reader.run_query(base, query, records=SILVER_NEWEST)
    return tuple(sorted(clusters.column(0).to_pylist()))


def find_unread_keys(
    base: Path, connect_cluster: str, connector: str, moment: float
) -> tuple[bytes, ...]:
    """Return the raw keys until a time that no worker of today writes, and no task looks up."""
    query = f"""
        SELECT DISTINCT key FROM records
        WHERE kind = '{CONNECT_OFFSETS}' AND connect_cluster = {quote_text(connect_cluster)}
              AND connector = {quote_text(connector)} AND NOT canonical AND NOT {_IN_OWN_ORDER}
              AND kts <= {quote_time(moment)}
        """  # noqa: S608 - quoted
    keys = reader.run_query(base, query, records=BRONZE_RECORDS)
    return tuple(sorted(keys.column(0).to_pylist()))


def read_newest_as_of(
    base: Path,
    logs: tuple[OffsetsTopicLog, ...],
    connect_cluster: str,
    connector: str | None,
    moment: float,
) -> NewestCommits:
    """Return the newest commits as of a time, of one connector, or of all for None.

    They are those of the last day before that has a snapshot, and what came after it. Where that
    time lies so far back that an earlier commit may be stored under a later day (tables/schemas.py,
    DAYS_BACK_MAX), all days are read.

    They include raw keys in an order of their own, whatever the class of the connector.
    """
    subject = _build_subject_terms(connect_cluster, connector)
    at = convert_to_datetime(moment)
    terms: Terms = [*subject, ("at", "<=", at)]
    selections: list[tuple[Table, Terms]] = [(SILVER_COMMITS, terms)]
    last_read = convert_to_datetime(max(log.last_read_at for log in logs))
    if at.date() >= last_read.date() - timedelta(days=DAYS_BACK_MAX):
        terms.append(("day", "<=", at.date()))
        days = [day for day in reader.list_days(base, SILVER_SNAPSHOTS) if day < at.date()]
        if days:
            terms.append(("day", ">", max(days)))
            selections.append((SILVER_SNAPSHOTS, [("day", "=", max(days)), *subject]))
    newest = _read_newest_in_own_order(base, logs, connect_cluster, connector, moment)
    return _merge_newest(base, *selections, newest=newest)


def _read_newest_in_own_order(
    base: Path,
    logs: tuple[OffsetsTopicLog, ...],
    connect_cluster: str,
    connector: str | None,
    moment: float,
) -> pa.Table:
    """Return the newest commit as of a time under each raw key in an order of its own.

    As silver/commits does not have all of them, they are read from bronze, as far as silver has
    come; only of connectors that have such raw keys.
    """
    mine = f"connect_cluster = {quote_text(connect_cluster)} AND connector IS NOT NULL"
    if connector is not None:
        mine = f"{mine} AND connector = {quote_text(connector)}"
    query = f"""
        SELECT DISTINCT connector FROM records
        WHERE kind = '{CONNECT_OFFSETS}' AND {mine} AND {_IN_OWN_ORDER}
        """  # noqa: S608 - quoted
    names = reader.run_query(base, query, records=SILVER_NEWEST).column(0).to_pylist()
    if not names:
        return _EMPTY
    columns = ", ".join(_COLUMN_TYPES)
    condition = " OR ".join(f"({_build_reach_condition(log)})" for log in logs)
    query = f"""
        WITH placed AS (
            SELECT {columns}, row_number() OVER (
                PARTITION BY kafka, topic, topic_id, kpartition, key ORDER BY koffset DESC
            ) AS place
            FROM records
            WHERE kind = '{CONNECT_OFFSETS}' AND {mine} AND {_IN_OWN_ORDER}
                  AND connector IN ({", ".join(map(quote_text, names))})
                  AND ({condition}) AND {_build_time_condition(moment)}
        )
        SELECT {columns} FROM placed WHERE place = 1
        """  # noqa: S608 - quoted
    return _cast_columns(reader.run_query(base, query, records=BRONZE_RECORDS))


def read_newest_overall(base: Path, connect_cluster: str, connector: str | None) -> NewestCommits:
    """Return the newest commits that were read, of one connector, or of all for None.

    They include all raw keys in an order of their own, whatever the class of the connector.
    """
    subject = _build_subject_terms(connect_cluster, connector)
    newest = _merge_newest(base, (SILVER_NEWEST, [("kind", "=", CONNECT_OFFSETS), *subject]))
    return newest._replace(rows=[row for row in newest.rows if _is_spelling(row["key"])])


def _is_spelling(raw_key: bytes | None) -> bool:
    key = decode_key(raw_key)
    return isinstance(key, SourceKey) and key.is_spelling


def _build_subject_terms(connect_cluster: str, connector: str | None) -> Terms:
    terms: Terms = [("connect_cluster", "=", connect_cluster)]
    return terms if connector is None else [*terms, ("connector", "=", connector)]


def read_evidence(
    base: Path, log: OffsetsTopicLog, connector: str, moment: float | None
) -> list[Row]:
    """Return the newest few commits of a connector under each raw key, up to a time.

    None: up to the newest in silver. They show which raw keys its tasks look up.
    """
    until = "" if moment is None else f"AND {_build_time_condition(moment)}"
    query = f"""
        WITH placed AS (
            SELECT key, kpartition, koffset, kts, source_offset, tombstone, error,
                   row_number() OVER (PARTITION BY kpartition, key ORDER BY koffset DESC) AS place
            FROM records
            WHERE kind = '{CONNECT_OFFSETS}'
                  AND connect_cluster = {quote_text(log.connect_cluster)}
                  AND connector = {quote_text(connector)} AND (canonical OR {_IN_OWN_ORDER})
                  AND {_build_reach_condition(log)} {until}
        )
        SELECT * FROM placed WHERE place <= {EVIDENCE_RECORDS_MAX}
        """  # noqa: S608 - quoted
    return list(convert_rows(reader.run_query(base, query, records=BRONZE_RECORDS)))


def _merge_newest(
    base: Path, *selections: tuple[Table, Terms], newest: pa.Table = _EMPTY
) -> NewestCommits:
    """Return the newest commits of these and of `newest`.

    They are merged batch by batch: memory grows with the result, not with history.
    """
    files: list[str] = []
    total = 0
    for table, terms in selections:
        delta = reader.open_table(base, table)
        where = " AND ".join(f"{name} {sign} {quote_value(value)}" for name, sign, value in terms)
        query = f"SELECT {', '.join(_COLUMN_TYPES)} FROM records WHERE {where}"  # noqa: S608 - quoted
        with reader.translate_damage(base, table):
            # The engine skips by the same statistics; this says which.
            files += delta.file_uris(file_pruning_predicate=terms)
            total += len(delta.file_uris())
            stream = QueryBuilder().register("records", delta).execute(query)
            for batch in pa.RecordBatchReader.from_stream(stream):
                newest = _select_newest(pa.concat_tables([newest, _cast_columns(batch)]))
    return NewestCommits(list(convert_rows(newest)), tuple(sorted(files)), total - len(files))


def _cast_columns(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    columns = [rows[name].cast(kind) for name, kind in _COLUMN_TYPES.items()]
    return pa.table(columns, list(_COLUMN_TYPES))


def _select_newest(rows: pa.Table) -> pa.Table:
    ordered = rows.sort_by("koffset")
    numbered = ordered.append_column("number", pa.array(range(ordered.num_rows), pa.int64()))
    last = numbered.group_by(list(_SUBJECT)).aggregate([("number", "max")])
    return ordered.take(last["number_max"])


def find_compaction_start(base: Path, log: OffsetsTopicLog) -> float | None:
    """Return the time from which compaction may have deleted records before the log was first read.

    It is the timestamp of the last record before the first hole, 0 for a hole at its beginning,
    None without one.

    Transactions leave holes too, which hide nothing. Compaction works from the log's start, and
    leaves no key twice; so it has not passed the first record that repeats a key which was read
    together with it. Any hole before that record counts.
    """
    query = f"""
        WITH log AS (
            SELECT kpartition, koffset, canonical,
                   lag(koffset) OVER (PARTITION BY kpartition ORDER BY koffset) AS before,
                   lag(kts) OVER (PARTITION BY kpartition ORDER BY koffset) AS before_at,
                   row_number() OVER (PARTITION BY kpartition, key, ingest_ts
                                      ORDER BY koffset) AS place
            FROM records WHERE kind = '{CONNECT_OFFSETS}' AND {_build_log_condition(log)}
        ), untouched AS (
            SELECT kpartition, min(koffset) AS begins FROM log WHERE canonical AND place = 2
            GROUP BY kpartition
        )
        SELECT min(coalesce(before_at, to_timestamp(0))) AS at
        FROM log LEFT JOIN untouched USING (kpartition)
        WHERE koffset > coalesce(before, -1) + 1 AND (begins IS NULL OR koffset <= begins)
        """  # noqa: S608 - quoted
    (row,) = convert_rows(reader.run_query(base, query, records=BRONZE_RECORDS))
    started_at: float | None = row["at"]
    return started_at


def find_time_before_gap(base: Path, log: OffsetsTopicLog, gap: BronzeGap) -> float:
    """Return the timestamp of the newest record in front of a gap; 0 if there is none."""
    query = f"""
        SELECT coalesce(max(kts), to_timestamp(0)) AS at FROM records
        WHERE kind = '{CONNECT_OFFSETS}' AND {_build_log_condition(log)}
              AND kpartition = {gap.kpartition} AND koffset < {gap.from_offset}
        """  # noqa: S608 - quoted, and numbers
    (row,) = convert_rows(reader.run_query(base, query, records=BRONZE_RECORDS))
    return float(row["at"])


def _build_log_condition(log: OffsetsTopicLog) -> str:
    return (
        f"kafka = {quote_text(log.kafka)} AND topic = {quote_text(log.topic)} AND "
        f"topic_id = {quote_text(log.topic_id)}"
    )


def _build_reach_condition(log: OffsetsTopicLog) -> str:
    """Return SQL that selects the bronze records of a log that silver has, too."""
    return f"{_build_log_condition(log)} AND ingest_ts <= {quote_time(log.last_read_at)}"


def _build_time_condition(moment: float) -> str:
    """Return SQL that selects bronze records as of a time (tables/schemas.py, `at` in silver)."""
    day = quote_value(convert_to_datetime(moment).date())
    return f"(kts <= {quote_time(moment)} OR day < {day})"


def convert_to_datetime(moment: float) -> datetime:
    """Return Unix seconds as a datetime, to the microsecond."""
    return _EPOCH + timedelta(microseconds=round(moment * 1_000_000))


def quote_text(text: str) -> str:
    """Return the text as a SQL literal."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def quote_time(moment: float) -> str:
    """Return Unix seconds as a SQL timestamp."""
    return quote_value(convert_to_datetime(moment))


def quote_value(value: object) -> str:
    """Return a value of Terms as a SQL literal."""
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else quote_text(str(value))
