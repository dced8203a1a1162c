"""Files of a failover report, each replaced only as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from offsetwatch.disk import replace_file
from offsetwatch.errors import HistoryError
from offsetwatch.history.failover_report.replay import (
    FailoverOutcome,
    FailoverUnknownReason,
    UnreplicatedRecords,
)
from offsetwatch.history.failover_report.summary import PartitionMinutes, Report, compute_reread_s

_TIME = pa.timestamp("us", tz="UTC")
# The columns are a contract: they are added to, and never renamed. Offsets name the NEXT record,
# but for `replicated`.
SCHEMA = pa.schema(
    [
        pa.field("minute", _TIME, nullable=False),
        pa.field("connect_cluster", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("group_id", pa.string()),  # null: the partition alone, of no group
        pa.field("topic", pa.string(), nullable=False),
        pa.field("remote_topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("sampled_at", _TIME),  # of what the next ten columns say
        pa.field("position", pa.int64()),
        pa.field("start_offset", pa.int64()),
        pa.field("start_offset_from", pa.string()),  # group | checkpoint
        pa.field("checkpoint_at", _TIME),
        pa.field("best", pa.int64()),
        pa.field("translated", pa.int64()),
        pa.field("reread", pa.int64()),
        pa.field("skip", pa.int64()),
        pa.field("pace_per_s", pa.float64()),
        pa.field("reread_s", pa.float64()),
        pa.field("unknown", pa.string()),  # why reread is null
        pa.field("ends_at", _TIME),  # of what the columns after it say
        pa.field("log_end", pa.int64()),
        pa.field("replicated", pa.int64()),  # the LAST record known to be on the target
        pa.field("missing", pa.int64()),
        pa.field("missing_age_s_min", pa.float64()),
        pa.field("missing_age_s_max", pa.float64()),
    ]
)


def write_page(path: Path, text: str) -> None:
    """Write the page. Raises HistoryError where it cannot be written; the old file then remains."""
    _write_file(path, lambda file: file.write(text.encode()))


def write_rows(path: Path, report: Report) -> None:
    """Write a row for every partition and minute, as Parquet. Raises HistoryError likewise."""

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, SCHEMA, compression="zstd") as rows:
            for partition in report.partitions:
                rows.write_batch(_batch(report, partition))

    _write_file(path, write)


def _write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    try:
        replace_file(path, write)
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _batch(report: Report, partition: PartitionMinutes) -> pa.RecordBatch:
    flow = (report.connect_cluster, report.source, report.target)
    key = (partition.group, partition.topic, partition.remote, partition.partition)
    outcomes = partition.moments or [None] * len(report.minutes)
    rows = [
        (
            *(_micros(minute), *flow, *key),
            *_flatten_outcome(outcome, begun=number >= partition.begun),
            *_flatten_unreplicated(unreplicated),
        )
        for number, (minute, outcome, unreplicated) in enumerate(
            zip(report.minutes, outcomes, partition.exposures, strict=True)
        )
    ]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _flatten_outcome(
    sample: tuple[float, FailoverOutcome] | None, *, begun: bool
) -> tuple[Any, ...]:
    if sample is None:
        return (*(None,) * 11, FailoverUnknownReason.NOT_SAMPLED.value if begun else None)
    sampled_at, outcome = sample
    return (
        *(_micros(sampled_at), outcome.position, outcome.start_offset, outcome.start_offset_from),
        _micros(outcome.checkpoint_at),
        *(outcome.cost.best, outcome.cost.translated, outcome.cost.reread, outcome.cost.skip),
        *(outcome.rate, compute_reread_s(outcome)),
        None if outcome.why is None else outcome.why.value,
    )


def _flatten_unreplicated(sample: tuple[float, UnreplicatedRecords] | None) -> tuple[Any, ...]:
    if sample is None:
        return (None,) * 6
    moment, ends = sample
    return (
        *(_micros(moment), ends.end, ends.replicated, ends.records),
        *(ends.age_s_min, ends.age_s_max),
    )


def _micros(moment: float | None) -> int | None:
    return None if moment is None else round(moment * 1_000_000)
