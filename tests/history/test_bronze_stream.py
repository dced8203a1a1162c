"""Raw records -> bronze, as a stream into the Delta table, from files instead of Kafka."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from offsetwatch.clock import SystemClock
from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, CONNECT_OFFSETS, OFFSET_SYNCS, TABLES
from tests.history.rows import Raw, at, decoded, golden, mirror_key, raw_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RAW_DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
)
ROLES = {
    "connect-offsets": RecordedTopic(CONNECT_OFFSETS, "payments", "id-1"),
    "mm2-offsets.a.internal": RecordedTopic(CONNECT_OFFSETS, "mm2", "id-2"),
    "mm2-offset-syncs.east.internal": RecordedTopic(OFFSET_SYNCS, None, "id-3"),
}
CRAZY_MS = {0: "1970", 4_794_076_800_000: "2121"}
RECORDS = [
    *golden("east.connect-offsets.json"),
    *golden("east.mm2-offsets.a.internal.json"),
    *golden("west.mm2-offset-syncs.east.internal.json"),
    Raw(b"junk", b"\xff", offset=900, ms=1_795_245_332_785),
    Raw(None, None, offset=901, ms=1_795_245_332_786),
    Raw(mirror_key("mm2", "west", "t", 0), b'{"offset":18446744073709551615}', offset=902, ms=1),
    *(Raw(b"junk", None, offset=903 + n, ms=ms) for n, ms in enumerate(CRAZY_MS)),
]


def run(spark: SparkSession, base: Path) -> int:
    """One run over everything in base/raw; how many records it read."""
    from offsetwatch.history.pipeline import stream

    raw = spark.readStream.schema(RAW_DDL).parquet(str(base / "raw"))
    query = (
        raw.writeStream.foreachBatch(stream.Sink(base, "east", ROLES, SystemClock(), lambda: None))
        .option("checkpointLocation", str(base / "_ckpt"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base path in which the stream ran, and then ran again over the same records."""
    from offsetwatch.history.pipeline import commits

    path = tmp_path_factory.mktemp("history")
    for table in TABLES:
        commits.create(path, table)
    (path / "raw").mkdir()
    with pq.ParquetWriter(path / "raw" / "0.parquet", raw_batch().schema) as writer:
        writer.write_batch(raw_batch(*RECORDS))
    assert run(spark, path) == len(RECORDS)
    assert run(spark, path) == 0
    return path


@pytest.fixture(scope="module")
def stored(base: Path) -> list[dict[str, Any]]:
    return DeltaTable(str(BRONZE_RECORDS.at(base))).to_pyarrow_table().to_pylist()


def test_every_record_is_stored_once_as_the_decoders_decode_it(
    stored: list[dict[str, Any]],
) -> None:
    added = {"kafka", "ingest_ts", "day"}
    results = [{name: row[name] for name in row if name not in added} for row in stored]

    def identity(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["topic"], row["kpartition"], row["koffset"])

    assert sorted(results, key=identity) == sorted(decoded(*RECORDS, roles=ROLES), key=identity)
    assert {row["kafka"] for row in stored} == {"east"}


def test_timestamps_are_exact_to_the_millisecond(stored: list[dict[str, Any]]) -> None:
    assert sorted(row["kts"] for row in stored) == sorted(at(record.ms) for record in RECORDS)


def test_a_day_is_the_records_own_but_never_far_from_the_day_it_was_read(
    stored: list[dict[str, Any]],
) -> None:
    today = datetime.now(tz=UTC).date()
    days = {row["kts"].year: row["day"] for row in stored}
    near = timedelta(days=1)  # midnight may have passed since the run
    assert abs(days[1970] - (today - timedelta(days=400))) <= near
    assert abs(days[2121] - (today + timedelta(days=1))) <= near


def test_tables_have_the_columns_of_the_contract_and_any_delta_reader_can_read_them(
    base: Path,
) -> None:
    delta_type = {"INT": "integer", "BIGINT": "long"}
    for table in TABLES:
        built = DeltaTable(str(table.at(base)))
        assert [
            (field.name, field.type.type, field.nullable) for field in built.schema().fields
        ] == [
            (column.name, delta_type.get(column.type, column.type.lower()), not column.required)
            for column in table.columns
        ]
        assert tuple(built.metadata().partition_columns) == table.partitioned_by
        assert built.protocol().min_reader_version == 1
        assert built.protocol().reader_features is None


def test_a_table_of_an_older_version_gets_the_columns_that_came_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    from offsetwatch.history.pipeline import commits

    since = {"key_form", "event_at", "observation"}
    columns = tuple(column for column in BRONZE_RECORDS.columns if column.name not in since)
    commits.create(tmp_path, replace(BRONZE_RECORDS, columns=columns))
    commits.create(tmp_path, BRONZE_RECORDS)
    (tmp_path / "raw").mkdir()
    with pq.ParquetWriter(tmp_path / "raw" / "0.parquet", raw_batch().schema) as writer:
        writer.write_batch(raw_batch(Raw(mirror_key("mm2", "west", "t", 0), b'{"offset":7}')))
    assert run(spark, tmp_path) == 1
    (row,) = DeltaTable(str(BRONZE_RECORDS.at(tmp_path))).to_pyarrow_table().to_pylist()
    assert (row["pos"], row["key_form"], row["event_at"]) == (7, "canonical", None)
    assert row["kafka"] == "east"


def test_a_repeated_batch_counts_once_and_a_batch_that_fails_its_check_is_not_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    from offsetwatch.history.pipeline import commits, stream

    doubts: list[HistoryError] = []
    commits.create(tmp_path, BRONZE_RECORDS)
    (tmp_path / "raw").mkdir()
    with pq.ParquetWriter(tmp_path / "raw" / "0.parquet", raw_batch().schema) as writer:
        writer.write_batch(raw_batch(*RECORDS))
    raw = spark.read.schema(RAW_DDL).parquet(str(tmp_path / "raw"))

    def sink() -> stream.Sink:
        return stream.Sink(tmp_path, "east", ROLES, SystemClock(), vouch)

    def vouch() -> None:
        if doubts:
            raise doubts.pop()

    def rows() -> int:
        return DeltaTable(str(BRONZE_RECORDS.at(tmp_path))).count()

    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "a checkpoint's")
    try:
        first = sink()
        first(raw, 0)
        undecodable = sum(row["error"] is not None for row in decoded(*RECORDS, roles=ROLES))
        assert first.stored(0) == commits.AddedRows(len(RECORDS), undecodable)
        assert first.stored(0) == commits.AddedRows(0, 0)  # told once
        again = sink()
        again(raw, 0)
        assert again.stored(0) == commits.AddedRows(0, 0)
        assert rows() == len(RECORDS)
        doubts.append(HistoryError("it was created again"))
        with pytest.raises(HistoryError, match="batch 1 was not stored"):
            again(raw, 1)
        assert str(again.failure) == "it was created again"
        assert rows() == len(RECORDS)
        again.close()
        with pytest.raises(HistoryError, match="batch 1 was not stored"):
            again(raw, 1)
        assert str(again.failure) == "the stream was stopped in the middle of a batch"
        assert rows() == len(RECORDS)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]


def test_bronze_refuses_to_forget(spark: SparkSession, base: Path) -> None:
    with pytest.raises(Exception, match="append"):
        spark.sql(f"DELETE FROM delta.`{BRONZE_RECORDS.at(base)}` WHERE koffset = 0")
