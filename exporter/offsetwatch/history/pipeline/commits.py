"""Writes into the tables: Spark computes rows, its workers write files, this process commits them.

A commit is one line of a Delta log (delta-rs). Only the process that holds the run's lock makes
one: Spark tasks left by a killed or stopped run can write files, and files that are not committed
belong to no table. It costs a third of Spark's own writer for Delta, in which rows pass one by one,
and every write is a program of its own.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction
from pyspark.sql import DataFrame, SparkSession

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.parquet import (
    COUNTED_COLUMN,
    FILE_DDL,
    ORDERED_PREFIX,
    PART_PREFIX,
    write_files,
)
from offsetwatch.history.tables.schemas import Table

_TYPES = {
    "STRING": "string",
    "BINARY": "binary",
    "BOOLEAN": "boolean",
    "INT": "integer",
    "BIGINT": "long",
    "DOUBLE": "double",
    "TIMESTAMP": "timestamp",
    "DATE": "date",
}
RETAIN_HOURS = 168  # a reader may be in the middle of a version that was replaced a moment ago
FILE_ROWS_MAX = 1_000_000  # in order, so that a question about one connector opens one or two files

Row = tuple[object, ...]
BatchTransform = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class IdempotentWrite:
    """A write that counts once, however often it is tried: number `number` of the series `app`.

    Both are Delta's txn. A table that has applied this number or a higher one has done so for good.
    """

    app: str
    number: int

    def done(self, base: Path, table: Table) -> bool:
        """Check whether the table has applied it."""
        return self.done_in(reader.open_table(base, table))

    def done_in(self, delta: DeltaTable) -> bool:
        """Check whether this version of a table has applied it."""
        last = delta.transaction_version(self.app)
        return last is not None and last >= self.number


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows that a write added. `undecodable` rows are those whose `error` says why."""

    rows: int
    undecodable: int


@dataclass(frozen=True, slots=True)
class FragmentedPartition:
    """A partition of a table ({}: all of it) whose rows should be in `target_files`, in order."""

    partition: Mapping[str, str]
    target_files: int


def create(base: Path, table: Table) -> None:
    """Create the table if it does not exist; add columns that a table of an older version lacks.

    Those columns are null in its old rows. Raises HistoryError if it is another table, or the
    remains of one.
    """
    with _translate_errors(f"creating {table.path}"):
        if not DeltaTable.is_deltatable(str(table.at(base))):
            if next(table.at(base).rglob("*.parquet"), None) is not None:
                # A new table over them would leave them unreferenced, and vacuum deletes those.
                raise HistoryError(
                    f"{table.path} holds files and has no log (_delta_log) any more: bring that "
                    "back, or move the folder away"
                )
            table.at(base).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(table.at(base)),
                table.schema,
                partition_by=list(table.partitioned_by),
                configuration=table.properties,
            )
            return
        delta = DeltaTable(str(table.at(base)))
        types = {field.name: field.type for field in delta.schema().fields}
        missing = [column for column in table.columns if column.name not in types]
        for column in table.columns:
            if types.get(column.name, _type(column.type)) != _type(column.type):
                raise HistoryError(
                    f"{table.path} cannot be used: its column {column.name} holds "
                    f"{types[column.name]}, not {_TYPES[column.type]}"
                )
        if missing:
            delta.alter.add_columns([Field(column.name, _type(column.type)) for column in missing])


def _type(name: str) -> PrimitiveType:
    return PrimitiveType(_TYPES[name])


def read_last_committed(base: Path, table: Table, app: str) -> int | None:
    """Return the last number of this series that the table has applied; None if there is none."""
    return reader.open_table(base, table).transaction_version(app)


def read_frame(spark: SparkSession, base: Path, table: Table) -> DataFrame:
    """Return the newest version of a table."""
    return spark.read.format("delta").load(str(table.at(base)))


def write_frame(
    rows: DataFrame,
    base: Path,
    table: Table,
    name: str = PART_PREFIX,
    *,
    through: BatchTransform | None = None,
) -> list[AddAction]:
    """Compute these rows of a table, and write them into files. Only this step takes long.

    through    makes the rows, on the executors, from batches of whatever the frame holds
    """
    at = str(table.at(base))

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_files(batches if through is None else through(batches), table, at, name)

    return [_build_add_action(row) for row in rows.mapInArrow(write, FILE_DDL).collect()]


def _build_add_action(row: Any) -> AddAction:
    """Return the addition of a file that was written (tables/parquet.py, write_files)."""
    return AddAction(
        path=row["path"],
        size=row["size"],
        partition_values=json.loads(row["partition"]),
        modification_time=_now_ms(),
        data_change=True,
        stats=row["stats"],
    )


def write_batches(
    batches: Iterable[pa.RecordBatch], base: Path, table: Table, name: str = PART_PREFIX
) -> list[AddAction]:
    """Write rows of a table that need not be computed into files."""
    with _translate_errors(f"writing {table.path}"):
        described = write_files(batches, table, str(table.at(base)), name)
        return [_build_add_action(row) for files in described for row in files.to_pylist()]


def build_batch(rows: Iterable[Row], table: Table) -> pa.RecordBatch:
    """Return a batch of a few rows, in the order of the table's columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, table.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(table.names))


def append(
    files: list[AddAction], base: Path, table: Table, write: IdempotentWrite | None = None
) -> AddedRows:
    """Add these files to the table, in one commit; add none if the turn was done before."""
    delta = reader.open_table(base, table)
    if write is not None and write.done_in(delta):
        return AddedRows(0, 0)
    if files or write is not None:
        _commit_actions(delta, table, "append", files, write)
    stats = [json.loads(file.stats) for file in files]
    rows = sum(each["numRecords"] for each in stats)
    decoded = sum(each["nullCount"].get(COUNTED_COLUMN, each["numRecords"]) for each in stats)
    return AddedRows(rows, rows - decoded)


def append_rows(rows: Iterable[Row], base: Path, table: Table) -> None:
    """Add a few rows to the table, in the order of its columns."""
    append(write_batches([build_batch(rows, table)], base, table), base, table)


def replace(
    files: list[AddAction],
    base: Path,
    table: Table,
    write: IdempotentWrite | None = None,
    *,
    days: Iterable[date] | None = None,
) -> None:
    """Replace all files of the table, or those of some days, by these files."""
    delta = reader.open_table(base, table)
    if write is None or not write.done_in(delta):
        of_days = None if days is None else [("day", "in", [day.isoformat() for day in days])]
        _commit_actions(delta, table, "overwrite", files, write, of_days=of_days)


def find_fragmented_partitions(base: Path, table: Table, today: date) -> list[FragmentedPartition]:
    """Return the partitions of a table with several files that are not all in its order.

    Of days, only those before `today`: the others will get more files.
    """
    files: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for added in _list_files(reader.open_table(base, table)):
        files.setdefault(tuple(_partition(added, table).values()), []).append(added)
    fragmented = []
    for values, partition_files in sorted(files.items()):
        partition = dict(zip(table.partitioned_by, values, strict=True))
        names = [Path(file["path"]).name for file in partition_files]
        in_order = all(name.startswith(ORDERED_PREFIX) for name in names)
        over = partition.get("day", "") < today.isoformat()
        if len(names) > 1 and over and not in_order:
            rows = sum(file["num_records"] for file in partition_files)
            fragmented.append(
                FragmentedPartition(partition, target_files=max(1, -(-rows // FILE_ROWS_MAX)))
            )
    return fragmented


def rearrange(
    files: list[AddAction], base: Path, table: Table, partition: Mapping[str, str]
) -> None:
    """Replace the files of a partition by these files, of the same rows in a better order."""
    delta = reader.open_table(base, table)
    removed = [
        RemoveAction(row["path"], False, _now_ms(), row["size_bytes"], dict(partition))
        for row in _list_files(delta)
        if _partition(row, table) == partition
    ]
    added = [dataclasses.replace(file, data_change=False) for file in files]
    _commit_actions(delta, table, "append", [*added, *removed], None)


def vacuum(base: Path, table: Table) -> None:
    """Delete files that have been no part of the table for RETAIN_HOURS or longer.

    That includes files of this age that never were part of it. Nothing else may write meanwhile.
    """
    delta = reader.open_table(base, table)
    with _translate_errors(f"writing {table.path}"):
        # A dry run first: the deletion of nothing is a commit too.
        if delta.vacuum(RETAIN_HOURS, full=True):
            delta.vacuum(RETAIN_HOURS, dry_run=False, full=True)


def _list_files(delta: DeltaTable) -> list[dict[str, Any]]:
    """Return the files of its newest version: path, size_bytes, num_records, partition.*."""
    files: list[dict[str, Any]] = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    return files


def _partition(file: dict[str, Any], table: Table) -> dict[str, str]:
    return {name: str(file[f"partition.{name}"]) for name in table.partitioned_by}


def _commit_actions(
    delta: DeltaTable,
    table: Table,
    mode: str,
    actions: Sequence[AddAction | RemoveAction],
    write: IdempotentWrite | None,
    *,
    of_days: list[tuple[str, str, list[str]]] | None = None,
) -> None:
    transactions = [] if write is None else [Transaction(write.app, write.number)]
    with _translate_errors(f"writing {table.path}"):
        delta.create_write_transaction(
            list(actions),
            mode,
            delta.schema(),
            partition_by=list(table.partitioned_by),
            partition_filters=of_days,
            commit_properties=CommitProperties(app_transactions=transactions),
        )


def _now_ms() -> int:
    return round(time.time() * 1000)


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as exc:
        raise HistoryError(f"{what} failed: {reader.format_error(exc)}") from exc
