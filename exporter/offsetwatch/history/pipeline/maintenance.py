"""Maintenance of the tables: compaction of small files, vacuum, and a count of bronze.

Compaction sorts the rows, so that queries open few files. Files of the current day are left alone,
as they are still being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from offsetwatch.clock import SystemClock, UnixClock, to_utc
from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits, silver
from offsetwatch.history.spark.run_lock import hold_run_lock
from offsetwatch.history.spark.session import spark_session, translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.parquet import ORDERED_PREFIX
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, SILVER, TABLES, Table


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """Number of files in the newest version of a table, before and after."""

    path: str
    files_before: int
    files_after: int


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Result of maintenance.

    doubled    identities that bronze holds more than once: always 0
    """

    tables: tuple[TableUpkeep, ...]
    rows: int
    doubled: int


def maintain(base: Path, *, master: str, heap: str, clock: UnixClock | None = None) -> Upkeep:
    """Finish a killed silver run, sort and vacuum the tables, count bronze. Raises HistoryError."""
    now = clock or SystemClock()
    if not reader.has_tables(base, (BRONZE_RECORDS,)):
        raise HistoryError(
            f"{base} holds no {BRONZE_RECORDS.path}: nothing to maintain before "
            "`offsetwatch history run`; history.path names the folder"
        )
    present = [table for table in TABLES if reader.has_tables(base, (table,))]
    today = to_utc(now.now()).date()
    with hold_run_lock(base, now):
        before = [len(reader.open_table(base, table).file_uris()) for table in present]
        any_fragmented = any(
            commits.find_fragmented_partitions(base, table, today) for table in present
        )
        unfinished = set(SILVER) <= set(present) and not silver.is_finished(base)
        if unfinished or any_fragmented:
            with spark_session(master=master, heap=heap, short=True) as spark:
                if unfinished:
                    silver.finish(spark, base, today)
                for table in present:  # asked again: what was finished has added files
                    for fragmented in commits.find_fragmented_partitions(base, table, today):
                        _sort_partition(spark, base, table, fragmented)
        for table in present:
            commits.vacuum(base, table)
        tables = tuple(
            TableUpkeep(table.path, files, len(reader.open_table(base, table).file_uris()))
            for table, files in zip(present, before, strict=True)
        )
        rows, doubled = count_rows(base)
    return Upkeep(tables=tables, rows=rows, doubled=doubled)


def _sort_partition(
    spark: SparkSession, base: Path, table: Table, fragmented: commits.FragmentedPartition
) -> None:
    with translate_spark_errors(f"maintaining {table.path} failed"):
        rows = commits.read_frame(spark, base, table)
        for name, value in fragmented.partition.items():
            rows = rows.where(sf.col(name) == value)
        if table.ordered_by:
            rows = rows.repartitionByRange(fragmented.target_files, *table.ordered_by)
            rows = rows.sortWithinPartitions(*table.ordered_by)
        else:
            rows = rows.coalesce(fragmented.target_files)
        adds = commits.write_frame(rows, base, table, ORDERED_PREFIX)
    commits.rearrange(adds, base, table, fragmented.partition)


def count_rows(base: Path) -> tuple[int, int]:
    """Return the rows of bronze, and the identities that it holds more than once. Needs no JVM."""
    query = """
        SELECT coalesce(sum(times), 0) AS stored,
               coalesce(sum(CASE WHEN times > 1 THEN 1 ELSE 0 END), 0) AS doubled
        FROM (SELECT count(*) AS times FROM records
              GROUP BY kafka, topic, topic_id, kpartition, koffset)
    """
    (row,) = reader.run_query(base, query, records=BRONZE_RECORDS).to_pylist()
    return int(row["stored"]), int(row["doubled"])
