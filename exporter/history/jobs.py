"""The verbs of the pipeline: Kafka -> bronze -> gold, once or for ever. All its I/O stands here.

Called by the CLI. What a table holds stands in tables.py, what is computed in bronze.py and
gold.py, how results are read (without any of this) in read.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from exporter.clock import Clock, SystemClock
from exporter.errors import HistoryError
from exporter.history import gold, read
from exporter.history.records import Role, roles
from exporter.history.refusals import Cut, refuse_unread
from exporter.history.runlock import only_run
from exporter.history.security import kafka_options
from exporter.history.session import spark_session, translated
from exporter.history.stream import BronzeStream, Feed, planned
from exporter.history.tables import (
    BRONZE_RECORDS,
    GOLD_CURSOR,
    GOLD_FLOW_PROGRESS,
    GOLD_PROGRESS,
    GOLD_TOPICS,
    TABLES,
    Table,
)
from exporter.model.topology import KafkaTopic, MirrorFlow, Topology

WATCH_S = 1.0  # how late a continuous run may notice that a stream failed or that it must stop


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """Everything a run needs to know.

    base            the folder of all tables and checkpoints
    topology        which topics to read, and how they belong together
    kafka           librdkafka client properties by the cluster names of the topology
    topic_ids       Kafka's id of every topic; "" where the broker is too old to have any
    cadence_s       of a continuous run; a batch costs about a second of CPU, however small, and
                    gold after it several
    max_offsets_per_trigger    bounds a batch's memory; half a million records fit a 1 GB heap
    master          where Spark runs, unless whoever started this process has decided that already
    heap            of the JVM
    """

    base: Path
    topology: Topology
    kafka: Mapping[str, Mapping[str, str]] = field(repr=False)  # may hold passwords
    topic_ids: Mapping[KafkaTopic, str]
    cadence_s: float = 60.0
    max_offsets_per_trigger: int = 500_000
    master: str = "local[2]"
    heap: str = "1g"


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did.

    rows_read       new rows in bronze, for every topic of the topology
    undecodable     how many of those could not be decoded
    progress_rows, flow_rows    rows in gold now
    cut             the cut gold was computed at, by topic and partition
    notices         what somebody should hear of: records that are missing for ever, streams that
                    began anew, topics that are no longer read
    """

    rows_read: dict[KafkaTopic, int]
    undecodable: int
    progress_rows: int
    flow_rows: int
    cut: dict[KafkaTopic, dict[int, int]]
    notices: tuple[str, ...] = ()


def run_available_now(
    spec: PipelineSpec, up_to: Cut | None = None, *, clock: Clock | None = None
) -> RunReport:
    """Read all that the topics hold now into bronze, then compute gold.

    Gold is computed as of `up_to`, or of everything read. In `up_to` a partition that is not named
    counts as empty. Raises HistoryError if it lies beyond what could be read.
    """
    with _prepared(spec, short=True, clock=clock) as run:
        with run.streams(every=None):
            run.finish()
        reached = run.reached()
        if not reached:
            raise HistoryError("the streams ended without saying how far they have read")
        if up_to is not None:
            refuse_unread(up_to, reached)
        run.compute_gold(reached if up_to is None else up_to)
        return run.report()


def run_continuous(
    spec: PipelineSpec, stop: threading.Event, *, clock: Clock | None = None
) -> RunReport:
    """Follow the topics until `stop` is set; gold is computed again each cadence if bronze changed.

    Stops in an orderly way: streams first (a batch cut short is repeated by the next run, and
    counts once), then gold once more if need be. Raises HistoryError naming the cause if a stream
    fails.
    """
    with _prepared(spec, short=False, clock=clock) as run:
        with run.streams(every=f"{round(spec.cadence_s * 1000)} milliseconds"):
            waited_s = 0.0
            while not stop.wait(WATCH_S):
                run.check()
                waited_s += WATCH_S
                if waited_s >= spec.cadence_s:
                    run.follow()
                    waited_s = 0.0
        run.follow()
        return run.report()


@contextmanager
def _prepared(spec: PipelineSpec, *, short: bool, clock: Clock | None) -> Iterator[_Run]:
    """Everything that can be refused is refused before the JVM starts."""
    by_topic = roles(spec.topology, spec.topic_ids)
    if not by_topic:
        raise HistoryError("the topology names no topic to read")
    feeds = [_feed(spec, kafka, by_topic) for kafka in sorted({at.kafka for at in by_topic})]
    now = clock or SystemClock()
    with only_run(spec.base, now):
        begun = read.exists(spec.base, (BRONZE_RECORDS,))
        before = read.bronze_summary(spec.base) if begun else ()
        plans = [planned(spec.base, feed) for feed in feeds]
        with spark_session(master=spec.master, heap=spec.heap, short=short) as spark:
            with translated("creating the tables failed"):
                for table in TABLES:
                    _create(spark, spec.base, table)
            streams = [
                BronzeStream(spark, spec.base, feed, going_on, now)
                for feed, going_on in zip(feeds, plans, strict=True)
            ]
            yield _Run(spec, spark, by_topic, streams, before)


def _feed(spec: PipelineSpec, kafka: str, by_topic: Mapping[KafkaTopic, Role]) -> Feed:
    if kafka not in spec.kafka:
        raise HistoryError(f"kafka {kafka} is in the topology, but its properties are not given")
    return Feed(
        kafka=kafka,
        properties=spec.kafka[kafka],
        options=kafka_options(kafka, spec.kafka[kafka]),
        by_topic={at.topic: role for at, role in by_topic.items() if at.kafka == kafka},
        offsets_per_trigger_max=spec.max_offsets_per_trigger,
    )


def _create(spark: SparkSession, base: Path, table: Table) -> None:
    # Asking the log's folder is a thousand times cheaper than asking Spark.
    if not (table.at(base) / "_delta_log").is_dir():
        spark.sql(table.create_statement(base))


class _Run:
    """One run, with its session: the streams, and gold up to where they got."""

    def __init__(
        self,
        spec: PipelineSpec,
        spark: SparkSession,
        by_topic: Mapping[KafkaTopic, Role],
        streams: list[BronzeStream],
        before: tuple[read.BronzeTopic, ...],
    ) -> None:
        self._spec = spec
        self._spark = spark
        self._by_topic = by_topic
        self._streams = streams
        self._before = before
        self._gold_of: Cut | None = None

    @contextmanager
    def streams(self, *, every: str | None) -> Iterator[None]:
        """Start the stream of every Kafka cluster; at exit stop those that still run.

        With `every` they go on for ever at that interval, without it until what is there is read.
        """
        with ExitStack() as started:
            for stream in self._streams:
                stream.start(every)
                started.callback(stream.stop)
            yield

    def finish(self) -> None:
        """Wait until every stream has read what was there."""
        for stream in self._streams:
            stream.finish()

    def check(self) -> None:
        """Raise the failure of a stream that has ended by itself."""
        for stream in self._streams:
            stream.check()

    def reached(self) -> Cut:
        """The next offset of every partition, as far as the streams have committed; {} if one of
        them has not come round to anything yet.
        """
        reached: dict[KafkaTopic, dict[int, int]] = {}
        for stream in self._streams:
            ends = stream.reached()
            if not ends:
                return {}
            reached |= ends
        return reached

    def follow(self) -> None:
        """Compute gold as of all that was read, if that is more than it holds."""
        reached = self.reached()
        if reached and reached != self._gold_of:
            self.compute_gold(reached)

    def compute_gold(self, cut: Cut) -> None:
        """Compute gold as of a cut."""
        with translated("computing gold failed"):
            self._write_gold(cut)
        self._gold_of = cut

    def _write_gold(self, cut: Cut) -> None:
        base = self._spec.base
        vector = self._spark.createDataFrame(self._cursor_rows(cut), GOLD_CURSOR.ddl())
        flows = self._spark.createDataFrame(_flow_rows(self._spec.topology.flows), _FLOWS_DDL)
        records = self._spark.read.format("delta").load(str(BRONZE_RECORDS.at(base)))
        seen = gold.within(records, vector)
        topics = self._spark.createDataFrame(_topic_rows(self._spec.topology), GOLD_TOPICS.ddl())
        partitions = gold.source_partitions(seen, topics).persist()
        try:
            _overwrite(gold.progress(partitions), base, GOLD_PROGRESS)
            replicated = gold.flow_progress(partitions, gold.newest_syncs(seen), flows)
            _overwrite(replicated, base, GOLD_FLOW_PROGRESS)
            _overwrite(topics, base, GOLD_TOPICS)
            # Last: the cursor must not claim what the other tables do not hold yet.
            _overwrite(vector, base, GOLD_CURSOR)
        finally:
            partitions.unpersist()

    def _cursor_rows(self, cut: Cut) -> list[tuple[str, str, str, int, int]]:
        return [
            (at.kafka, at.topic, self._by_topic[at].topic_id, partition, offset)
            for at, offsets in cut.items()
            for partition, offset in offsets.items()
        ]

    def report(self) -> RunReport:
        """What this run did."""
        base = self._spec.base
        after = read.bronze_summary(base)
        old = {(topic.at, topic.topic_id): topic for topic in self._before}
        rows = dict.fromkeys(self._by_topic, 0)
        undecodable = 0
        for topic in after:
            was = old.get((topic.at, topic.topic_id))
            if topic.at in rows:
                rows[topic.at] += topic.rows - (was.rows if was else 0)
            undecodable += topic.undecodable - (was.undecodable if was else 0)
        return RunReport(
            rows_read=rows,
            undecodable=undecodable,
            progress_rows=len(read.progress(base)),
            flow_rows=len(read.flow_progress(base)),
            cut=read.cursor(base),
            notices=tuple(notice for stream in self._streams for notice in stream.notices),
        )


_FLOWS_DDL = (
    "connect_cluster STRING, connector STRING, source STRING, target STRING, "
    "syncs_kafka STRING, syncs_topic STRING"
)


def _topic_rows(topology: Topology) -> list[tuple[str | None, ...]]:
    found: list[tuple[str | None, ...]] = [
        (topic.connect_cluster, topic.connector, topic.at.kafka, topic.at.topic)
        for topic in topology.offsets_topics
    ]
    return found + [(cluster, connector, "", "") for cluster, connector in topology.elsewhere]


def _flow_rows(flows: Iterable[MirrorFlow]) -> list[tuple[str | None, ...]]:
    return [
        (
            flow.connect_cluster,
            flow.connector,
            flow.source,
            flow.target,
            None if flow.offset_syncs is None else flow.offset_syncs.kafka,
            None if flow.offset_syncs is None else flow.offset_syncs.topic,
        )
        for flow in flows
    ]


def _overwrite(rows: DataFrame, base: Path, table: Table) -> None:
    path = str(table.at(base))
    rows.coalesce(1).write.format("delta").mode("overwrite").save(path)
