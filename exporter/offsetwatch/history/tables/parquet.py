"""Parquet files with rows of a table, described as Delta's log needs them. No Spark.

It runs on Spark's executors (history/pipeline/commits.py). A file is no part of its table until
history/pipeline/commits.py has committed it: no one reads the files of a task that failed or ran
twice, and `history maintain` deletes them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offsetwatch.history.tables.schemas import Table

# What a task holds before it writes, as Arrow has it: some hundred thousand records. A batch of a
# stream becomes one file per task and day then, and a long table several.
BUFFER_BYTES_MAX = 128 * 1024 * 1024
# A longer text has no place in the log; a file without a bound is not skipped by this column.
BOUND_CHARS_MAX = 256
# As Spark names a file; and one whose rows lie in the table's order, behind those of another such.
PART_PREFIX, ORDERED_PREFIX = "part-", "ordered-"
COUNTED_COLUMN = "error"  # of this column every file says how many rows have none
# Others repeat too little: a dictionary of theirs is made and then thrown away.
_DICTIONARY_COLUMNS = frozenset(
    {"kafka", "connect_cluster", "topic", "topic_id", "kpartition", "key", "connector"}
    | {"source_partition", "canonical", "dialect", "mirror_cluster", "mirror_topic", "key_form"}
    | {"mirror_partition", "sync_topic", "sync_partition", "error", "ingest_ts", "change", "kind"}
)

FILE_DDL = "path STRING, size BIGINT, partition STRING, stats STRING"
_FILE_SCHEMA = pa.schema(
    {"path": pa.string(), "size": pa.int64(), "partition": pa.string(), "stats": pa.string()}
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

PartitionKey = tuple[Any, ...]  # a value of each column that the table is partitioned by


def write_files(
    batches: Iterable[pa.RecordBatch], table: Table, at: str, name: str = PART_PREFIX
) -> Iterator[pa.RecordBatch]:
    """Write batches of the table's rows into its folder `at`; yield a description of every file.

    The name of a file begins with PART_PREFIX or ORDERED_PREFIX.

    path         relative to the folder
    partition    the value of each column that the table is partitioned by, as JSON
    stats        of Delta's protocol: number of rows, least, greatest and missing values

    Raises ValueError if a required column is null.
    """
    batches_by_partition: dict[PartitionKey, list[pa.RecordBatch]] = {}
    size = 0
    for batch in batches:
        rows = _conform_batch(batch, table)
        size += rows.nbytes
        for key, part in _split_partitions(rows, table.partitioned_by):
            batches_by_partition.setdefault(key, []).append(part)
        if size >= BUFFER_BYTES_MAX:
            yield _write_partition_files(batches_by_partition, table, Path(at), name)
            batches_by_partition, size = {}, 0
    if batches_by_partition:
        yield _write_partition_files(batches_by_partition, table, Path(at), name)


def _conform_batch(batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    for column in table.columns:
        if column.required and batch[column.name].null_count:
            raise ValueError(f"{table.path}: {column.name} is null, which it never is")
    schema = table.schema
    arrays = [batch[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _split_partitions(
    rows: pa.RecordBatch, by: tuple[str, ...]
) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """Yield the rows of each partition; nearly always there is only one, and nothing is copied."""
    if not rows.num_rows:
        return
    if not by:
        yield (), rows
        return
    values = pc.unique(rows[by[0]]).to_pylist()
    for value in values:
        part = rows if len(values) == 1 else rows.filter(pc.equal(rows[by[0]], value))
        for rest, last in _split_partitions(part, by[1:]):
            yield (value, *rest), last


def _write_partition_files(
    batches_by_partition: dict[PartitionKey, list[pa.RecordBatch]],
    table: Table,
    at: Path,
    name: str,
) -> pa.RecordBatch:
    described = []
    for key, batches in batches_by_partition.items():
        values = {
            column: value.isoformat() if isinstance(value, date) else str(value)
            for column, value in zip(table.partitioned_by, key, strict=True)
        }
        folders = [f"{column}={value}" for column, value in values.items()]
        path = "/".join([*folders, f"{name}{uuid.uuid4()}.zstd.parquet"])
        rows = pa.Table.from_batches(batches).drop_columns(list(table.partitioned_by))
        (at / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            rows,
            at / path,
            compression="zstd",
            use_dictionary=[
                column for column in rows.column_names if column in _DICTIONARY_COLUMNS
            ],
            write_statistics=list(table.indexed_names),
            store_schema=False,
        )
        stats = _statistics(rows, table)
        described.append((path, (at / path).stat().st_size, json.dumps(values), json.dumps(stats)))
    columns = zip(*described, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _FILE_SCHEMA, strict=True)],
        schema=_FILE_SCHEMA,
    )


def _statistics(rows: pa.Table, table: Table) -> dict[str, Any]:
    """Return the statistics of the Delta protocol ("Per-file Statistics")."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    for name in table.indexed_names:
        low, high = _bounds(rows[name])
        if low is not None and high is not None:
            least[name], greatest[name] = low, high
    counted = {*table.indexed_names, *({COUNTED_COLUMN} & set(rows.column_names))}
    return {
        "numRecords": rows.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": {name: rows[name].null_count for name in sorted(counted)},
    }


def _bounds(column: pa.ChunkedArray) -> tuple[object, object]:
    """Return the least and the greatest value in JSON types; None where there is no such bound."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        bounds = pc.min_max(column.cast(pa.int64()))
        return _format_time(bounds["min"].as_py()), _format_time(bounds["max"].as_py())
    if not pa.types.is_integer(kind) and not pa.types.is_string(kind):
        return None, None
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if isinstance(low, str) and max(len(low), len(high)) > BOUND_CHARS_MAX:
        return None, None
    return low, high


def _format_time(micros: int | None) -> str | None:
    """Return a timestamp as text; None outside of the years 1000 to 9999."""
    if micros is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if moment.year >= 1000 else None
