"""Stream of one Kafka cluster into bronze: start, supervision, and recovery from what stops it.

Before it reads, Kafka's topics are compared with bronze and with the checkpoint
(stream_plan.py), so that no topic is mistaken for another, and no record is read twice or left out
without notice. A continuous stream that ends by itself is planned again.

Each stream is stateless, so a checkpoint is disposable and the code may change under it. Good and
undecodable rows go to one table in one commit, which names the stream and the number of the batch:
a batch that is repeated after a kill is recognised.
"""

from __future__ import annotations

import gc
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import structlog
from deltalake.transaction import AddAction
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.errors import (
    AmbiguousOutcome,
    ClientError,
    HistoryError,
    LeaderNotAvailable,
    OffsetwatchError,
    TargetUnreachable,
)
from offsetwatch.history.pipeline import commits
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic, build_bronze_rows
from offsetwatch.history.pipeline.stream_plan import (
    Feed,
    StreamPartition,
    StreamPlan,
    find_checkpoint_folder,
    format_spark_offsets,
    plan_stream,
    read_topic_shape,
    write_generation,
)
from offsetwatch.history.spark.session import collect_error_text, translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.reader import BronzeGap, GapReason
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, OPS_GAPS
from offsetwatch.model.topology import KafkaTopic

# Kafka may be unavailable for any time. Any other cause that stops a stream again and again, and
# lets it read nothing in between, will not pass by itself.
PLANS_MAX = 5  # with the pauses between them, half a minute
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 60.0  # doubled from one try to the next
STEADY_S = 60.0  # a stream that has run for so long has got over what stopped the last one

SKIPPED_RECORDS_MAX = 100  # records that no Spark can read, in one run: more are a producer's habit
_log = structlog.get_logger()
_UNREADABLE_RECORD = re.compile(
    r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value \S+ that overflows"
)
# Decoding makes and drops small objects by the hundred thousand, none of them in a cycle. Looking
# for cycles every 700 of them, as Python does by itself, is a fifth of what decoding costs.
GC_THRESHOLD = 200_000
_RAW = ("key", "value", "topic", "partition", "offset", "timestamp")


class StreamBackoff:
    """Backoff of one stream, in seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._plans = 0
        self._pause_s = 0.0
        self._next_at: float | None = None

    @property
    def exhausted(self) -> bool:
        """Check whether it is time to give up."""
        return self._plans >= PLANS_MAX

    def due(self, now: float) -> bool:
        """Check whether the stream may be planned now. The first time it may at once."""
        return self._next_at is None or now >= self._next_at

    def tried(self, now: float, *, counts: bool) -> None:
        """Count an attempt, successful or not; it `counts` unless Kafka was unavailable."""
        self._plans += counts
        self._pause_s = min(max(PAUSE_S_MIN, 2 * self._pause_s), PAUSE_S_MAX)
        self._next_at = now + self._pause_s

    def runs(self, now: float, *, moved: bool) -> None:
        """Reset the backoff if the running stream has `moved`, or has run for STEADY_S."""
        if moved or (self._next_at is not None and now >= self._next_at + STEADY_S):
            self._plans, self._pause_s, self._next_at = 0, 0.0, None


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """Progress of a stream: the next offset of every partition, and the id of each topic.

    Both are {} if it has not completed a batch yet. They come from the stream and not from the
    rows, because transaction markers and compaction leave offsets without a row.
    """

    ends: Mapping[KafkaTopic, Mapping[int, int]]
    topic_ids: Mapping[KafkaTopic, str]


class BronzeStream:
    """Stream of one Kafka cluster into bronze. `notices` are messages for the user."""

    def __init__(
        self, spark: SparkSession, base: Path, feed: Feed, plan: StreamPlan, clock: UnixClock
    ) -> None:
        self.notices: list[str] = []
        self._spark = spark
        self._base = base
        self._feed = feed
        self._plan = plan
        self._clock = clock
        self._interval: str | None = None
        self._skipped = 0
        self._query: StreamingQuery | None = None
        self._sink: Sink | None = None
        self._query_ids: Mapping[str, str] = {}
        self._progress = StreamProgress({}, {})
        self._admin = KafkaAdmin(feed.kafka, dict(feed.properties))
        self._end_reason: OffsetwatchError | None = None
        self._progress_at_plan = self._progress
        self._backoff = StreamBackoff()

    @property
    def kafka(self) -> str:
        """Return the name of the cluster that it reads."""
        return self._feed.kafka

    @property
    def query(self) -> StreamingQuery:
        """Return the current query of a started stream; skipping a record starts another one."""
        assert self._query is not None
        return self._query

    def stored(self, batch: int) -> commits.AddedRows:
        """Return the rows that a batch of the current query added; one call per batch."""
        return commits.AddedRows(0, 0) if self._sink is None else self._sink.stored(batch)

    def start(self, every: str | None) -> None:
        """Read at this interval; with None, read until everything that is there now is read."""
        if self._plan.why is not None and self._query is None:
            self._begin_generation()
        self._interval = every
        with self._translate_read_errors():
            self._query = self._start_query()
        self._query_ids = {topic: role.topic_id for topic, role in self._feed.by_topic.items()}

    def stop(self) -> None:
        """Stop the query, if it still runs."""
        if self._sink is not None:
            self._sink.close()
        with translate_spark_errors(f"stopping the stream of kafka {self._feed.kafka} failed"):
            if self._query is not None:
                self._query.stop()

    def finish(self) -> None:
        """Wait until everything is read. Raises HistoryError."""
        while True:
            try:
                self._raise_failure()
            except HistoryError as exc:
                if not self._skip_unreadable_record(exc):
                    raise
            else:
                return

    def check(self) -> None:
        """Plan and start the stream again if it has ended by itself.

        StreamBackoff limits how often. Raises the cause, HistoryError or ClientError, if
        that did not help.
        """
        if self._end_reason is None:
            self._end_reason = self._find_end_reason()
            if self._end_reason is not None:
                reason = str(self._end_reason)
                _log.warning("history_stream_ended", kafka=self._feed.kafka, reason=reason)
        if self._end_reason is not None and self._backoff.due(time.monotonic()):
            self._replan(self._end_reason)

    def reached(self) -> StreamProgress:
        """Return the progress of the stream, over all its queries."""
        assert self._query is not None
        with translate_spark_errors(f"asking the stream of kafka {self._feed.kafka} failed"):
            progress = self._query.lastProgress
        ends = None if progress is None else json.loads(progress.sources[0].endOffset)
        if ends:
            kafka = self._feed.kafka
            self._progress = StreamProgress(
                ends={
                    KafkaTopic(kafka, topic): {int(p): end for p, end in offsets.items()}
                    for topic, offsets in ends.items()
                },
                topic_ids={KafkaTopic(kafka, topic): self._query_ids[topic] for topic in ends},
            )
        return self._progress

    def _find_end_reason(self) -> OffsetwatchError | None:
        """Return why it does not run any more; None if it does."""
        assert self._query is not None
        with translate_spark_errors(f"asking the stream of kafka {self._feed.kafka} failed"):
            active = self._query.isActive
        moved = self.reached() != self._progress_at_plan
        if active or moved:
            self._backoff.runs(time.monotonic(), moved=moved)
        if active:
            return self._stop_if_recreated()
        try:
            self._raise_failure()
        except (HistoryError, ClientError) as exc:
            return exc
        raise HistoryError(f"the stream of kafka {self._feed.kafka} ended without being asked to")

    def _stop_if_recreated(self) -> HistoryError | None:
        """Stop the stream and return the error if a topic was created again.

        If the new topic has as many records as were read, Spark would wait for more.
        """
        try:
            self._verify_topics()
        except HistoryError as exc:
            self.stop()
            return exc
        except ClientError:
            pass  # if that is more than a moment, the stream says so itself
        return None

    def _verify_topics(self) -> None:
        """Raise HistoryError if a topic was created again, ClientError if its id cannot be read."""
        topic_ids = self._admin.topic_ids(self._feed.by_topic)
        for topic, role in sorted(self._feed.by_topic.items()):
            if topic_ids[topic] != role.topic_id:
                raise HistoryError(f"{topic} was created again")

    def _replan(self, why: OffsetwatchError) -> None:
        if self._backoff.exhausted:
            raise why
        error: OffsetwatchError | None = None
        try:
            self._start_again(why)
        except (HistoryError, ClientError) as exc:
            error = exc
        if error is not None and str(error) != str(why):
            _log.warning("history_stream_waits", kafka=self._feed.kafka, reason=str(error))
        self._end_reason, self._progress_at_plan = error, self._progress
        unavailable = isinstance(error, TargetUnreachable | AmbiguousOutcome | LeaderNotAvailable)
        self._backoff.tried(time.monotonic(), counts=not unavailable)

    def _start_again(self, why: OffsetwatchError) -> None:
        if isinstance(why, HistoryError) and self._skip_unreadable_record(why):
            return
        by_topic = {
            topic: replace(role, topic_id=read_topic_shape(self._admin, topic)[0])
            for topic, role in self._feed.by_topic.items()
        }
        self._feed = replace(self._feed, by_topic=by_topic)
        self._plan = plan_stream(self._base, self._feed)
        if self._plan.why is not None:
            self._begin_generation()
        self.start(self._interval)
        _log.warning("history_stream_goes_on", kafka=self._feed.kafka, number=self._plan.number)

    def _translate_read_errors(self) -> AbstractContextManager[None]:
        # Both ends, because "no space left" may be said of either's disk.
        return translate_spark_errors(f"reading kafka {self._feed.kafka} into {self._base} failed")

    def _raise_failure(self) -> None:
        assert self._query is not None
        assert self._sink is not None
        with self._translate_read_errors():
            try:
                self._query.awaitTermination()
            except StreamingQueryException:
                if self._sink.failure is None:
                    raise
            if self._sink.failure is not None:
                raise self._sink.failure

    def _start_query(self) -> StreamingQuery:
        raw = open_kafka_stream(
            self._spark,
            self._feed.options,
            self._feed.by_topic,
            starting=format_spark_offsets(self._plan.starts),
            offsets_per_trigger_max=self._feed.offsets_per_trigger_max,
        )
        path = find_checkpoint_folder(self._base, self._feed.kafka, self._plan.number)
        kafka, by_topic = self._feed.kafka, self._feed.by_topic
        self._sink = Sink(self._base, kafka, by_topic, self._clock, self._verify_topics)
        writer = (
            raw.writeStream.foreachBatch(self._sink)
            .queryName(f"bronze-{self._feed.kafka}")
            .option("checkpointLocation", str(path))
        )
        paced = (
            writer.trigger(availableNow=True)
            if self._interval is None
            else writer.trigger(processingTime=self._interval)
        )
        return paced.start()

    def _begin_generation(self) -> None:
        """Record the gaps, then the new generation, so that a generation has no unrecorded gap."""
        kafka, plan = self._feed.kafka, self._plan
        known = reader.read_gaps(self._base, kafka)
        gaps = [gap for gap in plan.gaps if gap not in known]
        if gaps:
            now = to_utc(self._clock.now())
            rows = [
                (
                    *(kafka, gap.topic, gap.topic_id, gap.kpartition),
                    *(gap.from_offset, gap.to_offset, gap.reason.value, now),
                )
                for gap in gaps
            ]
            commits.append_rows(rows, self._base, OPS_GAPS)
        write_generation(self._base, kafka, plan)
        for gap in gaps:
            _log.warning("history_gap", kafka=kafka, gap=str(gap))
            self.notices.append(f"kafka {kafka}: permanently missing: {gap}")
        if plan.number > 0:
            _log.warning("history_generation", kafka=kafka, number=plan.number, why=plan.why)
            self.notices.append(f"kafka {kafka}: generation {plan.number} begins: {plan.why}")

    def _skip_unreadable_record(self, failure: HistoryError) -> bool:
        """Skip a record whose timestamp Spark cannot hold; return False if that is not the failure.

        No option skips it. The records before it are read as a batch, the record becomes a gap, and
        the next generation begins behind it.
        """
        match = _UNREADABLE_RECORD.search(collect_error_text(failure))
        if match is None or self._skipped >= SKIPPED_RECORDS_MAX:
            return False
        self._skipped += 1
        topic, partition, offset = match[1], int(match[2]), int(match[3])
        log = (topic, self._plan.topics[topic], partition)
        begins = self._next_offsets()[topic, partition]
        with self._translate_read_errors():
            self._read_between(topic, partition, begins, offset)
        self._plan = replace(
            self._plan,
            number=self._plan.number + 1,
            starts={**self._next_offsets(), (topic, partition): offset + 1},
            gaps=(BronzeGap(*log, offset, offset + 1, GapReason.TIMESTAMP_OUT_OF_RANGE),),
            why=f"{topic} partition {partition} offset {offset} has a timestamp beyond Spark's",
        )
        self._begin_generation()
        self.start(self._interval)
        return True

    def _next_offsets(self) -> dict[StreamPartition, int]:
        """Return the next offset of each partition: behind its newest record in bronze.

        It is the start of this generation if that is later.
        """
        stored = reader.read_bronze_next_offsets(self._base, self._feed.kafka)
        return {
            (topic, partition): max(
                start, stored.get((topic, self._plan.topics[topic], partition), start)
            )
            for (topic, partition), start in self._plan.starts.items()
        }

    def _read_between(self, topic: str, partition: int, begins: int, ends: int) -> None:
        if begins >= ends:
            return
        raw = (
            self._spark.read.format("kafka")
            .options(**self._feed.options)
            .option("assign", json.dumps({topic: [partition]}))
            .option("startingOffsets", json.dumps({topic: {str(partition): begins}}))
            .option("endingOffsets", json.dumps({topic: {str(partition): ends}}))
            .option("failOnDataLoss", "true")
            .load()
        )
        kafka, by_topic = self._feed.kafka, self._feed.by_topic
        adds = write_bronze_files(raw, self._base, kafka, by_topic, self._clock.now())
        commits.append(adds, self._base, BRONZE_RECORDS)


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
) -> list[AddAction]:
    """Decode raw Kafka records, and write the rows into files of bronze, not committed yet.

    One file per core and partition of the table, not one per Kafka partition.
    """
    roles = dict(by_topic)  # pickled into the plan
    moment = to_utc(read_at)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.set_threshold(GC_THRESHOLD)
        return build_bronze_rows(batches, roles, kafka, moment)

    cores = records.sparkSession.sparkContext.defaultParallelism
    raw = records.select(*_RAW).coalesce(cores)
    return commits.write_frame(raw, base, BRONZE_RECORDS, through=decode)


@dataclass(eq=False)
class Sink:
    """Sink of one stream's batches into bronze. Spark calls it from a thread of its own.

    verify_topics    raises if the topics are not those of `by_topic` any more; called after a batch
                     was read and before it counts, as Spark checks names and offsets only
    failure          the error of the last batch, if it failed; Spark only gets to know that it did
    """

    _base: Path
    _kafka: str
    _by_topic: Mapping[str, RecordedTopic]
    _clock: UnixClock
    _verify_topics: Callable[[], None]
    failure: Exception | None = None
    _stored: dict[int, commits.AddedRows] = field(default_factory=dict)
    _closed: bool = False
    _committing: threading.Lock = field(default_factory=threading.Lock)

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
        write = commits.IdempotentWrite(query, number)
        if write.done(self._base, BRONZE_RECORDS):
            return
        now = self._clock.now()
        adds = write_bronze_files(records, self._base, self._kafka, self._by_topic, now)
        self._verify_topics()
        with self._committing:
            if self._closed:
                raise HistoryError("the stream was stopped in the middle of a batch")
            self._stored[number] = commits.append(adds, self._base, BRONZE_RECORDS, write)
