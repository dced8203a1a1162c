"""Bronze: every record of the recorded topics, raw bytes and decoded, exactly once.

There is one stateless stream per Kafka cluster, so a checkpoint is disposable and the code may
change under it. Good and undecodable rows go to one table in one commit, which names the stream and
the number of the batch: a batch that is repeated after a kill is recognised.
"""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from offsetwatch.clock import UnixClock
from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic, build_bronze_rows
from offsetwatch.history.tables.schemas import BRONZE_RECORDS

# Decoding makes and drops small objects by the hundred thousand, none of them in a cycle. Looking
# for cycles every 700 of them, as Python does by itself, is a fifth of what decoding costs.
GC_THRESHOLD = 200_000

_RAW = ("key", "value", "topic", "partition", "offset", "timestamp")


def open_kafka_stream(
    spark: SparkSession,
    options: Mapping[str, str],
    topics: Iterable[str],
    *,
    starting: Mapping[str, Mapping[str, int]],
    offsets_per_trigger_max: int,
) -> DataFrame:
    """Return the stream of raw records, from these offsets on if it has no checkpoint yet.

    failOnDataLoss stays on: if a topic was created again, or its log start passed us, the stream
    must stop. Without it Spark goes on without notice, and those records are lost.
    """
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", ",".join(sorted(topics)))
        .option("startingOffsets", json.dumps(starting))
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", str(offsets_per_trigger_max))
        .load()
    )


def write_bronze_files(
    records: DataFrame,
    base: Path,
    kafka: str,
    by_topic: Mapping[str, RecordedTopic],
    read_at: float,
) -> list[commits.File]:
    """Decode raw Kafka records, and write the rows into files of bronze, not committed yet.

    One file per core and partition of the table, not one per Kafka partition.
    """
    roles = dict(by_topic)  # pickled into the plan
    moment = datetime.fromtimestamp(read_at, tz=UTC)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.set_threshold(GC_THRESHOLD)
        return build_bronze_rows(batches, roles, kafka, moment)

    cores = records.sparkSession.sparkContext.defaultParallelism
    raw = records.select(*_RAW).coalesce(cores)
    return commits.write_frame(raw, base, BRONZE_RECORDS, through=decode)


class Sink:
    """Sink of one stream's batches into bronze. Spark calls it from a thread of its own.

    vouch      raises if the topics are not those of `by_topic` any more; called after a batch was
               read and before it counts, as Spark checks names and offsets only
    failure    the error of the last batch, if it failed; Spark only gets to know that it did
    """

    def __init__(
        self,
        base: Path,
        kafka: str,
        by_topic: Mapping[str, RecordedTopic],
        clock: UnixClock,
        vouch: Callable[[], None],
    ) -> None:
        self.failure: Exception | None = None
        self._base = base
        self._kafka = kafka
        self._by_topic = by_topic
        self._clock = clock
        self._vouch = vouch
        self._stored: dict[int, commits.AddedRows] = {}
        self._closed = False
        self._committing = threading.Lock()

    def __call__(self, records: DataFrame, number: int) -> None:
        """Store this batch, if it is not stored yet."""
        try:
            self._store(records, number)
        except Exception as exc:  # noqa: BLE001 - stream.py raises it, whatever it is
            self.failure = exc
            # Spark matches what it is told against an expression that runs out of stack on a text
            # as long as a trace of Java's, and then takes the stream for one that ended well.
            raise HistoryError(f"batch {number} was not stored") from None

    def close(self) -> None:
        """Refuse all further commits.

        A stopped stream's batch may still be at work, and its successor relies on what bronze holds
        now.
        """
        with self._committing:
            self._closed = True

    def stored(self, number: int) -> commits.AddedRows:
        """Return the rows that this batch added; one call per batch."""
        return self._stored.pop(number, commits.AddedRows(0, 0))

    def _store(self, records: DataFrame, number: int) -> None:
        # The checkpoint's own id, which Spark's sink for Delta goes by too.
        query = records.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise HistoryError("Spark does not say which stream this is: unset PYSPARK_PIN_THREAD")
        turn = commits.IdempotentWrite(query, number)
        if turn.done(self._base, BRONZE_RECORDS):
            return
        now = self._clock.now()
        found = write_bronze_files(records, self._base, self._kafka, self._by_topic, now)
        self._vouch()
        with self._committing:
            if self._closed:
                raise HistoryError("the stream was stopped in the middle of a batch")
            self._stored[number] = commits.append(found, self._base, BRONZE_RECORDS, turn)
