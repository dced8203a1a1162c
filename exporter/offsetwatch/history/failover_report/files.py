"""Files of a failover report, each replaced only as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from offsetwatch.disk import sync_folder
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
        pa.field("group_id", pa.string()),  # null: the partition alone, whoever reads it
        pa.field("topic", pa.string(), nullable=False),
        pa.field("remote_topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("sampled_at", _TIME),  # of what the next ten columns say
        pa.field("position", pa.int64()),
        pa.field("landing", pa.int64()),
        pa.field("landing_from", pa.string()),  # group | checkpoint
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
    _write_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_rows(path: Path, report: Report) -> None:
    """Write a row for every partition and minute, as Parquet. Raises HistoryError likewise."""

    def write(partial: Path) -> None:
        with pq.ParquetWriter(partial, SCHEMA, compression="zstd") as file:
            for partition in report.partitions:
                file.write_batch(_batch(report, partition))

    _write_file(path, write)


def _write_file(path: Path, write: Callable[[Path], object]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            write(partial)
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(path)
            sync_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _batch(report: Report, of: PartitionMinutes) -> pa.RecordBatch:
    key = (report.connect_cluster, report.source, report.target)
    outcomes = of.moments or [None] * len(report.minutes)
    rows = [
        (
            *(_micros(minute), *key, of.group, of.topic, of.remote, of.partition),
            *_flatten_outcome(outcome, begun=number >= of.begun),
            *_flatten_unreplicated(unreplicated),
        )
        for number, (minute, outcome, unreplicated) in enumerate(
            zip(report.minutes, outcomes, of.exposures, strict=True)
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
        *(_micros(sampled_at), outcome.position, outcome.landing, outcome.landing_from),
        _micros(outcome.checkpoint_at),
        *(outcome.met.best, outcome.met.translated, outcome.met.reread, outcome.met.skip),
        *(outcome.pace, compute_reread_s(outcome)),
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
