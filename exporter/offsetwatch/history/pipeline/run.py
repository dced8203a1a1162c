"""Pipeline runs: Kafka -> bronze -> silver -> gold, once or continuously.

The contents of the tables are in tables/schemas.py, the computations in stream.py, silver.py and
gold.py, the readers (which need none of this) in tables/reader.py.

Streams are polled while they run, for the status file (history/tables/pipeline_status.py). Spark
retains its reports of the newest batches. It reports no trigger that found nothing new, but a
stream that waits for the next trigger has completed that one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import SystemClock, UnixClock, to_utc
from offsetwatch.errors import HistoryError
from offsetwatch.history.baselines import job as baselines
from offsetwatch.history.pipeline import commits, gold
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic, resolve_recorded_topics
from offsetwatch.history.pipeline.offset_sampler import Sampler, SourceEndsQuery
from offsetwatch.history.pipeline.silver import refine
from offsetwatch.history.pipeline.stream import BronzeStream
from offsetwatch.history.pipeline.stream_plan import (
    Feed,
    is_short_read,
    parse_spark_offsets,
    plan_stream,
)
from offsetwatch.history.spark.run_lock import check_shared_folder, hold_run_lock
from offsetwatch.history.spark.security import kafka_options
from offsetwatch.history.spark.session import spark_session, translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.pipeline_status import PipelineStatusWriter
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    GOLD_CLASSES,
    GOLD_CURSOR,
    GOLD_FLOW_PROGRESS,
    GOLD_FLOWS,
    GOLD_PROGRESS,
    GOLD_TOPICS,
    SILVER_NEWEST,
    TABLES,
    Table,
)
from offsetwatch.model.history_documents import GOLD, SILVER
from offsetwatch.model.topology import AuxiliaryTopic, KafkaTopic, Topology

POLL_INTERVAL_S = 1.0  # how late a run may notice that a stream failed or that it must stop
WRITE_S = 10.0  # how old the status may grow while there is nothing to do

Cut = Mapping[KafkaTopic, Mapping[int, int]]
"""The next offset of every partition: a cut includes the records below it and nothing else."""

_log = structlog.get_logger()


def refuse_unread(cut: Cut, reached: Cut) -> None:
    """Raise HistoryError if the cut names an unread offset: gold there would be a guess."""
    for topic, offsets in cut.items():
        for partition, offset in offsets.items():
            read_to = reached.get(topic, {}).get(partition)
            if read_to is None:
                raise HistoryError(
                    f"the cut names {topic} partition {partition}, which was not read"
                )
            if offset > read_to:
                raise HistoryError(
                    f"the cut asks for {topic} partition {partition} up to {offset}, "
                    f"but it could be read up to {read_to} only"
                )


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """Inputs of a run.

    base            the folder of all tables and checkpoints
    topology        which topics to read, and how they belong together
    kafka           librdkafka client properties by the cluster names of the topology
    topic_ids       Kafka's id of every topic; "" where the broker is too old to have any
    classes         the class of each connector, by Connect cluster and name, where it is known
    beside          topics that are recorded too, and are in no cut
    cadence_s       of a continuous run; a batch costs about a second of CPU, however small
    refine_s        how often a continuous run brings silver and gold up to date, if anything is
                    new: that costs ten CPU-seconds, however little it is
    max_offsets_per_trigger    bounds a batch's memory; half a million records fit a 1 GB heap
    master          where Spark runs, unless spark-submit, the environment or spark-defaults decide
    heap            of the JVM
    source_ends     how far the connectors are behind their sources, asked for with each sample
    """

    base: Path
    topology: Topology
    kafka: Mapping[str, Mapping[str, str]] = field(repr=False)  # may hold passwords
    topic_ids: Mapping[KafkaTopic, str]
    cadence_s: float = 60.0
    refine_s: float = 300.0
    max_offsets_per_trigger: int = 500_000
    master: str = "local[2]"
    heap: str = "1g"
    beside: tuple[AuxiliaryTopic, ...] = ()
    classes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    source_ends: SourceEndsQuery = tuple


@dataclass(frozen=True, slots=True)
class RunReport:
    """Result of a run.

    rows_read       new rows in bronze, for every topic that is recorded
    undecodable     how many of those could not be decoded
    progress_rows, flow_rows    rows in gold now
    cut             the cut gold was computed at, by topic and partition
    notices         messages for the user: records that are permanently missing, streams that began
                    a new generation, topics that are no longer read
    """

    rows_read: dict[KafkaTopic, int]
    undecodable: int
    progress_rows: int
    flow_rows: int
    cut: dict[KafkaTopic, dict[int, int]]
    notices: tuple[str, ...] = ()


def run_available_now(
    spec: PipelineSpec, up_to: Cut | None = None, *, clock: UnixClock | None = None
) -> RunReport:
    """Read all records that the topics hold now into bronze, then compute silver and gold.

    Gold is computed as of `up_to`, or of everything read. A partition that `up_to` does not name
    counts as empty. Raises HistoryError if `up_to` lies beyond what could be read.
    """
    with _open_run(spec, short=True, clock=clock) as run:
        run.sampler.take()  # of this it can be told what was so, once all of before is read
        with run.streams(every=None):
            run.finish()
        reached = run.reached()
        if not reached:
            raise HistoryError("the streams ended without saying how far they have read")
        if up_to is not None:
            refuse_unread(up_to, run.cut_of(reached))
        run.refine(reached, None if up_to == run.cut_of(reached) else up_to)
        run.sampler.take()
        run.sampler.write()
        run.learn()
        return run.report()


def run_continuous(
    spec: PipelineSpec, stop: threading.Event, *, clock: UnixClock | None = None
) -> RunReport:
    """Follow the topics until `stop` is set; update silver and gold every `refine_s`.

    On a stop the streams end first (the next run repeats a batch cut short, which counts once),
    then gold is updated once more if need be. A stream that fails is planned again: Kafka may be
    unavailable for a while, and a topic may be created again or lose its beginning. Raises
    HistoryError or ClientError naming the cause if that does not help.
    """
    with _open_run(spec, short=False, clock=clock) as run:
        with run.streams(every=f"{round(spec.cadence_s * 1000)} milliseconds"):
            waited_s, sampled_s = spec.refine_s, spec.cadence_s
            while not stop.wait(POLL_INTERVAL_S):
                run.check()
                waited_s, sampled_s = waited_s + POLL_INTERVAL_S, sampled_s + POLL_INTERVAL_S
                if sampled_s >= spec.cadence_s:
                    run.sampler.take()
                    sampled_s = 0.0
                if waited_s >= spec.refine_s:
                    run.sampler.write()
                    if run.follow():
                        run.learn()
                        waited_s = 0.0
        run.follow()
        run.sampler.write()
        return run.report()


@contextmanager
def _open_run(spec: PipelineSpec, *, short: bool, clock: UnixClock | None) -> Iterator[_Run]:
    """Yield a run. Everything that can be refused is refused before the JVM starts."""
    by_topic = resolve_recorded_topics(spec.topology, spec.topic_ids, spec.beside)
    if not by_topic:
        raise HistoryError("the topology names no topic to read")
    feeds = [_feed(spec, kafka, by_topic) for kafka in sorted({topic.kafka for topic in by_topic})]
    now = clock or SystemClock()
    with (
        hold_run_lock(spec.base, now),
        PipelineStatusWriter(spec.base, [feed.kafka for feed in feeds]) as status,
        # What a dead JVM leaves of a question, or of a goodbye.
        translate_spark_errors("the run failed"),
    ):
        begun = reader.has_tables(spec.base, (BRONZE_RECORDS,))
        before = reader.summarize_bronze(spec.base) if begun else ()
        plans = [plan_stream(spec.base, feed) for feed in feeds]
        for table in TABLES:
            commits.create(spec.base, table)
        _store_classes(spec, now.now())
        quick = short and is_short_read(plans)
        with spark_session(master=spec.master, heap=spec.heap, short=quick) as spark:
            check_shared_folder(spark, spec.base)
            streams = [
                BronzeStream(spark, spec.base, feed, going_on, now)
                for feed, going_on in zip(feeds, plans, strict=True)
            ]
            status.stored(_count_stored_rows(before))
            every_s = None if short else spec.cadence_s
            monitor = StreamProgressMonitor(status, spec.base, streams, now, every_s=every_s)
            admins = {name: KafkaAdmin(name, properties) for name, properties in spec.kafka.items()}
            sampler = Sampler(spec.base, spec.topology.flows, admins, now, spec.source_ends)
            with closing(sampler):
                yield _Run(spec, spark, by_topic, streams, before, monitor, sampler, now)


def _feed(spec: PipelineSpec, kafka: str, by_topic: Mapping[KafkaTopic, RecordedTopic]) -> Feed:
    if kafka not in spec.kafka:
        raise HistoryError(f"kafka {kafka} is in the topology, but its properties are not given")
    return Feed(
        kafka=kafka,
        properties=spec.kafka[kafka],
        options=kafka_options(kafka, spec.kafka[kafka]),
        by_topic={topic.topic: role for topic, role in by_topic.items() if topic.kafka == kafka},
        offsets_per_trigger_max=spec.max_offsets_per_trigger,
    )


@dataclass(slots=True)
class _Run:
    """A run with its session: the streams, and gold up to their progress."""

    _spec: PipelineSpec
    _spark: SparkSession
    _by_topic: dict[KafkaTopic, RecordedTopic]
    _streams: list[BronzeStream]
    _before: tuple[reader.BronzeTopic, ...]
    _monitor: StreamProgressMonitor
    sampler: Sampler
    _clock: UnixClock
    _refined: Cut | None = None
    _topic_rows: list[tuple[str | None, ...]] | None = None

    @contextmanager
    def streams(self, *, every: str | None) -> Iterator[None]:
        """Start the stream of every Kafka cluster; at exit stop those that still run.

        With `every` they read at that interval until stopped; with None until all that is there is
        read.
        """
        with ExitStack() as started:
            for stream in self._streams:
                stream.start(every)
                started.callback(stream.stop)
            yield

    def finish(self) -> None:
        """Wait until every stream has read what was there."""
        for stream in self._streams:
            self._monitor.until_ended(stream)
            stream.finish()
        self._monitor.poll()

    def check(self) -> None:
        """Restart streams that have ended. Raises HistoryError, ClientError if one cannot go on."""
        for stream in self._streams:
            stream.check()
        self._monitor.poll()

    def reached(self) -> Cut:
        """Return the next offset of every partition by the streams' commits.

        {} if one of the streams has not completed a batch yet.
        """
        reached: dict[KafkaTopic, Mapping[int, int]] = {}
        for stream in self._streams:
            stream_progress = stream.reached()
            if not stream_progress.ends:
                return {}
            reached |= stream_progress.ends
            for topic, topic_id in stream_progress.topic_ids.items():
                if self._by_topic[topic].topic_id != topic_id:
                    self._by_topic[topic] = replace(self._by_topic[topic], topic_id=topic_id)
                    self._refined = None  # the same offsets of another topic are other records
        return reached

    def follow(self) -> bool:
        """Update silver and gold if more was read than they hold; return whether it did."""
        reached = self.reached()
        if not reached:
            return False
        if reached == self._refined:
            self._monitor.status.up_to_date(SILVER, GOLD)
            return False
        self.refine(reached)
        return True

    def refine(self, reached: Cut, up_to: Cut | None = None) -> None:
        """Bring silver up to date with bronze, and compute gold as of `up_to`, or of all of it."""
        today = to_utc(self._clock.now()).date()
        base, status = self._spec.base, self._monitor.status
        with status.computing(SILVER, newest=True):
            refine(self._spark, base, today)
        with (
            status.computing(GOLD, newest=up_to is None),
            translate_spark_errors("computing gold failed"),
        ):
            if up_to is not None:
                self._write_gold(commits.read_frame(self._spark, base, BRONZE_RECORDS), up_to)
            else:
                self._write_gold(
                    commits.read_frame(self._spark, base, SILVER_NEWEST),
                    self._cut(self.cut_of(reached)),
                )
        self._refined = reached

    def learn(self) -> None:
        """Learn baselines, if that is due. Log a failure; it does not fail the run."""
        base, now = self._spec.base, self._clock.now()
        try:
            if baselines.is_due(base, now):
                baselines.learn_on(self._spark, base, now)
        except HistoryError as exc:
            _log.warning("history_baselines_failed", reason=str(exc))

    def cut_of(self, reached: Cut) -> Cut:
        """Return the part of what was read that gold is computed from: offsets and syncs."""
        beside = {topic.at for topic in self._spec.beside}
        return {topic: ends for topic, ends in reached.items() if topic not in beside}

    def _cut(self, reached: Cut) -> Cut:
        """Return the offsets below which gold has every record.

        A batch may be in bronze, and so in silver, a moment before its stream reports it.
        """
        stored = reader.read_silver_next_offsets(self._spec.base)
        cut = {}
        for topic, offsets in reached.items():
            log = (topic.kafka, topic.topic, self._by_topic[topic].topic_id)
            cut[topic] = {
                partition: max(offset, stored.get((*log, partition), 0))
                for partition, offset in offsets.items()
            }
        return cut

    def _write_gold(self, records: DataFrame, cut: Cut) -> None:
        base = self._spec.base
        cursor = [
            (topic.kafka, topic.topic, self._by_topic[topic].topic_id, partition, offset)
            for topic, offsets in cut.items()
            for partition, offset in offsets.items()
        ]
        vector = self._spark.createDataFrame(cursor, GOLD_CURSOR.ddl())
        flow_rows = gold.build_flow_rows(self._spec.topology.flows)
        flows = self._spark.createDataFrame(flow_rows, gold.FLOWS_DDL)
        before = gold.select_before_cut(records, vector)
        topic_rows = gold.build_topic_rows(self._spec.topology)
        topics = self._spark.createDataFrame(topic_rows, GOLD_TOPICS.ddl())
        class_rows = gold.build_class_rows(self._spec.classes)
        classes = self._spark.createDataFrame(class_rows, gold.CLASSES_DDL)
        partitions = gold.compute_source_partitions(before, topics, classes).persist()
        try:
            _overwrite(gold.select_progress(partitions), base, GOLD_PROGRESS)
            syncs = gold.select_newest_syncs(before)
            replicated = gold.compute_flow_progress(partitions, syncs, flows)
            _overwrite(replicated, base, GOLD_FLOW_PROGRESS)
        finally:
            partitions.unpersist()
        if self._topic_rows != topic_rows:
            _replace_rows(topic_rows, base, GOLD_TOPICS)
            _replace_rows(reader.build_rows(self._spec.topology.flows), base, GOLD_FLOWS)
            self._topic_rows = topic_rows
        # Last: the cursor must not claim what the other tables do not hold yet.
        _replace_rows(cursor, base, GOLD_CURSOR)

    def report(self) -> RunReport:
        """Return the result of this run."""
        base = self._spec.base
        after = reader.summarize_bronze(base)
        self._monitor.status.stored(_count_stored_rows(after))
        rows = dict.fromkeys(self._by_topic, 0)
        undecodable = 0
        for sign, topics in ((-1, self._before), (1, after)):
            for topic in topics:
                undecodable += sign * topic.undecodable
                if topic.at in rows:
                    rows[topic.at] += sign * topic.rows
        return RunReport(
            rows_read=rows,
            undecodable=undecodable,
            progress_rows=len(reader.read_progress(base)),
            flow_rows=len(reader.read_flow_progress(base)),
            cut=reader.read_cursor(base),
            notices=tuple(notice for stream in self._streams for notice in stream.notices),
        )


@dataclass(slots=True)
class _StreamState:
    """State of a stream.

    batch    the newest batch that was counted
    at       when that batch or a later trigger ended
    run      the id of the query that was polled last
    ended    that query's end was counted
    """

    batch: tuple[str, int, str] | None = None
    at: float | None = None
    run: str | None = None
    ended: bool = False


class StreamProgressMonitor:
    """Monitor of a run's streams that writes `status`.

    `every_s` is the time between two triggers of a continuous run; None for a single one.
    """

    def __init__(
        self,
        status: PipelineStatusWriter,
        base: Path,
        streams: Iterable[BronzeStream],
        clock: UnixClock,
        *,
        every_s: float | None,
    ) -> None:
        self.status = status
        self._base = base
        self._states = {stream: _StreamState() for stream in streams}
        self._clock = clock
        self._every_s = every_s
        self._written_at: float | None = None

    def until_ended(self, stream: BronzeStream) -> None:
        """Poll all streams until this one has ended, for whatever reason."""
        with suppress(PySparkException):  # the stream itself says what failed
            while not stream.query.awaitTermination(POLL_INTERVAL_S):  # type: ignore[arg-type] # float: ok
                self.poll()
        self.poll()

    def poll(self) -> None:
        """Poll the streams, and write the status if something is new or it is WRITE_S old."""
        now = self._clock.now()
        with translate_spark_errors("asking a stream how far it is failed"):
            fresh = [
                self._poll_stream(stream, state, now) for stream, state in self._states.items()
            ]
        moments = [state.at for state in self._states.values() if state.at is not None]
        self.status.read_up_to(min(moments) if len(moments) == len(self._states) else None)
        if any(fresh) or self._written_at is None or abs(now - self._written_at) >= WRITE_S:
            for stream in self._states:
                self.status.gaps(stream.kafka, len(reader.read_gaps(self._base, stream.kafka)))
            self.status.write()
            self._written_at = now

    def _poll_stream(self, stream: BronzeStream, state: _StreamState, now: float) -> bool:
        active = stream.query.isActive
        ended = self._every_s is not None and self._ended(
            str(stream.query.runId), state, active=active
        )
        # Asked before the batches: one that ends in between is seen the next time.
        waits = active and not stream.query.status["isTriggerActive"]
        fresh = list(stream.query.recentProgress)
        names = [_identity(progress) for progress in fresh]
        if state.batch in names:
            fresh = fresh[names.index(state.batch) + 1 :]
        for progress in fresh:
            stored = stream.stored(progress.batchId)
            self.status.batch(
                stream.kafka,
                decoded=stored.rows - stored.undecodable,
                undecodable=stored.undecodable,
                behind=count_unread(
                    progress.sources[0].latestOffset, progress.sources[0].endOffset
                ),
            )
            began = datetime.fromisoformat(progress.timestamp).timestamp()
            ended_at = began + progress.durationMs.get("triggerExecution", 0) / 1000
            state.batch, state.at = _identity(progress), ended_at
        if waits and self._every_s is not None and state.at is not None:
            state.at = max(state.at, now - self._every_s)
        return bool(fresh) or ended

    def _ended(self, run: str, stream: _StreamState, *, active: bool) -> bool:
        """Count each query of a continuous run that ended, once. Return whether one did.

        A query has ended if it is inactive, or if another one has replaced it.
        """
        replaced = stream.run not in (None, run) and not stream.ended
        if stream.run != run:
            stream.run, stream.ended = run, False
        stopped = not active and not stream.ended
        stream.ended = stream.ended or stopped
        for _ in range(replaced + stopped):
            self.status.stream_ended()
        return replaced or stopped


def count_unread(latest: str | None, read_to: str | None) -> int | None:
    """Return the records between two of Spark's offset maps; None if one of them is incomplete."""
    ends, reached = (
        parse_spark_offsets(json.loads(text or "null") or {}) for text in (latest, read_to)
    )
    if not ends or ends.keys() != reached.keys():
        return None
    return sum(max(0, end - reached[partition]) for partition, end in ends.items())


def _identity(progress: StreamingQueryProgress) -> tuple[str, int, str]:
    """Return the identity of a batch; one without records has the number of the one after it."""
    return (str(progress.runId), progress.batchId, progress.timestamp)


def _count_stored_rows(topics: Iterable[reader.BronzeTopic]) -> dict[str, tuple[int, int]]:
    rows: dict[str, tuple[int, int]] = {}
    for topic in topics:
        decoded, undecodable = rows.get(topic.at.kafka, (0, 0))
        decoded += topic.rows - topic.undecodable
        rows[topic.at.kafka] = (decoded, undecodable + topic.undecodable)
    return rows


def _store_classes(spec: PipelineSpec, now: float) -> None:
    """Store the classes of connectors: silver reads them, and queries without Connect."""
    known = reader.read_classes(spec.base)
    classes = gold.merge_classes(known, spec.classes, now)
    if classes != known:
        _replace_rows(gold.build_stored_class_rows(classes), spec.base, GOLD_CLASSES)


def _overwrite(rows: DataFrame, base: Path, table: Table) -> None:
    commits.replace(commits.write_frame(rows.coalesce(1), base, table), base, table)


def _replace_rows(rows: Iterable[commits.Row], base: Path, table: Table) -> None:
    batch = commits.build_batch(rows, table)
    commits.replace(commits.write_batches([batch], base, table), base, table)
