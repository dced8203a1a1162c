"""Kafka -> bronze -> gold with a real broker: once, again, to a cut, for ever; what stops it."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from deltalake import DeltaTable

from lab.waiting import NotYet, until
from offsetwatch.clock import SystemClock
from offsetwatch.errors import HistoryError, NotFound
from offsetwatch.history.pipeline import stream_plan
from offsetwatch.history.spark.run_lock import hold_run_lock
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.reader import BronzeGap, GapReason
from offsetwatch.history.tables.schemas import BRONZE_RECORDS, OPS_GAPS
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, Topology
from tests.history.rows import feed_of, mirror_key, offset_key, sync_key, sync_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetwatch.history.pipeline.run import PipelineSpec, RunReport

pytestmark = [pytest.mark.real, pytest.mark.spark]

WAIT_S_MAX = 300.0
FILE = offset_key("file", {"filename": "/in"})
FILE_SPACED = FILE.replace(b",", b", ")
ORDERS_0 = mirror_key("mm2", "west", "orders", 0)
_numbers = itertools.count()


@dataclass(frozen=True)
class StreamedTopics:
    """Two topics of their own on the broker, and a base path, for one test."""

    bootstrap: str
    admin: AdminClient
    base: Path
    offsets: KafkaTopic
    syncs: KafkaTopic

    def spec(self, **changes: Any) -> PipelineSpec:
        from offsetwatch.history.pipeline.run import PipelineSpec

        flow = MirrorFlow("payments", "mm2", "west", "east", None, self.syncs)
        topology = Topology((OffsetsTopic("payments", self.offsets),), (flow,))
        pipeline_spec = PipelineSpec(
            base=self.base,
            topology=topology,
            kafka={"east": {"bootstrap.servers": self.bootstrap, "client.id": "test"}},
            topic_ids=self.topic_ids(),
            max_offsets_per_trigger=7,  # several batches, even here
            refine_s=1.0,
        )
        return replace(pipeline_spec, **changes)

    def create(self) -> None:
        topics = [NewTopic(self.offsets.topic, 3, 1), NewTopic(self.syncs.topic, 1, 1)]
        for future in self.admin.create_topics(topics).values():
            future.result()

    def create_again(self) -> None:
        topics = [self.offsets.topic, self.syncs.topic]
        for future in self.admin.delete_topics(topics).values():
            future.result()
        eventually("the topics gone", lambda: self._there() & set(topics), set())
        self.create()

    def _there(self) -> set[str]:
        return set(self.admin.list_topics().topics)

    def topic_ids(self) -> dict[KafkaTopic, str]:
        names = TopicCollection([self.offsets.topic, self.syncs.topic])
        return {
            KafkaTopic("east", name): str(future.result().topic_id)
            for name, future in self.admin.describe_topics(names).items()
        }

    def commit(self, *records: tuple[bytes | None, bytes | None, int]) -> None:
        """(key, value, partition) into the offsets topic, in one order."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value, partition in records:
            producer.produce(self.offsets.topic, key=key, value=value, partition=partition)
        assert producer.flush(30) == 0

    def sync(self, upstream: int, downstream: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        value = sync_value(upstream, downstream)
        producer.produce(self.syncs.topic, key=sync_key("orders", 0), value=value)
        assert producer.flush(30) == 0

    def transaction(self, value: bytes, *, commit: bool) -> None:
        """One record under FILE, in a transaction; it is in the log however that ends."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "bed"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.offsets.topic, key=FILE, value=value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def stamped(self, position: int, ms: int) -> KafkaError | None:
        """One commit with this timestamp; why the broker did not take it."""
        refused: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(
            self.offsets.topic,
            key=FILE,
            value=b'{"position":%d}' % position,
            partition=1,
            timestamp=ms,
            on_delivery=lambda error, _: refused.append(error),
        )
        assert producer.flush(30) == 0
        return refused[0]

    def identities(self) -> list[tuple[Any, ...]]:
        names = ["topic_id", "kpartition", "koffset"]
        table = DeltaTable(str(BRONZE_RECORDS.at(self.base))).to_pyarrow_table(columns=names)
        return [tuple(row.values()) for row in table.to_pylist()]

    def pos(self) -> dict[str, int | None]:
        return {row.connector: row.pos for row in reader.read_progress(self.base)}


@pytest.fixture
def streamed(kafka: str, spark: SparkSession, tmp_path: Path) -> Iterator[StreamedTopics]:
    number = next(_numbers)
    built = StreamedTopics(
        bootstrap=kafka,
        admin=AdminClient({"bootstrap.servers": kafka}),
        base=tmp_path / "history",
        offsets=KafkaTopic("east", f"history-{number}-offsets"),
        syncs=KafkaTopic("east", f"history-{number}-syncs"),
    )
    built.create()
    yield built
    assert not spark.streams.active


def eventually(what: str, observed: Callable[[], object], expected: object) -> None:
    def probe() -> None:
        result = observed()
        if result != expected:
            raise NotYet(f"{result}, and not {expected}")

    until(what, probe, timeout_s=WAIT_S_MAX)


def test_all_kinds_of_records_are_read_once_and_a_second_run_adds_nothing(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(
        (FILE, b'{"position":1}', 0),
        (FILE, b'{"position":2}', 0),
        (FILE_SPACED, b'{"position":77}', 1),
        (ORDERS_0, b'{"offset":10}', 2),
        (mirror_key("mm2", "west", "orders", 1), b'{"offset":18446744073709551616}', 2),
        (mirror_key("mm2", "west", "orders", 2), b'{"offset":5}', 2),
        (mirror_key("mm2", "west", "orders", 2), None, 2),
        (offset_key("broken", {}), b"{", 1),
        (b"\xffjunk", b'{"position":1}', 1),
        (None, b"x", 1),
    )
    streamed.sync(12, 120)
    streamed.transaction(b'{"position":3}', commit=True)
    streamed.transaction(b'{"position":4}', commit=False)

    first = run.run_available_now(streamed.spec())
    assert first.rows_read == {streamed.offsets: 11, streamed.syncs: 1}
    assert (first.undecodable, first.progress_rows, first.flow_rows) == (3, 5, 1)
    # Transaction markers and the aborted record have offsets, and no rows.
    assert first.cut == {streamed.offsets: {0: 6, 1: 4, 2: 4}, streamed.syncs: {0: 1}}
    rows = {
        (row.connector, row.source_partition): row for row in reader.read_progress(streamed.base)
    }
    file = rows["file", '{"filename":"/in"}']
    assert (file.pos, file.variants, file.koffset) == (3, 1, 2)
    wide = rows["mm2", '{"cluster":"west","partition":1,"topic":"orders"}']
    assert (wide.pos, wide.source_offset) == (None, '{"offset":18446744073709551616}')
    assert rows["mm2", '{"cluster":"west","partition":2,"topic":"orders"}'].tombstone
    assert rows["broken", "{}"].error == "value_not_json"
    (flow,) = reader.read_flow_progress(streamed.base)
    assert (flow.committed, flow.synced, flow.downstream, flow.replicated) == (10, 12, 120, 10)

    before = (
        reader.read_progress(streamed.base),
        reader.read_flow_progress(streamed.base),
        reader.summarize_bronze(streamed.base),
    )
    second = run.run_available_now(streamed.spec())
    assert second.rows_read == {streamed.offsets: 0, streamed.syncs: 0}
    assert (second.undecodable, second.cut) == (0, first.cut)
    after = (
        reader.read_progress(streamed.base),
        reader.read_flow_progress(streamed.base),
        reader.summarize_bronze(streamed.base),
    )
    assert after == before
    identities = streamed.identities()
    assert len(identities) == len(set(identities)) == 12


@pytest.mark.full
def test_gold_can_be_had_as_of_a_cut_but_not_beyond_what_was_read(streamed: StreamedTopics) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5)))
    streamed.commit((ORDERS_0, b'{"offset":10}', 2), (ORDERS_0, b'{"offset":20}', 2))
    streamed.sync(12, 120)
    vector: Mapping[KafkaTopic, Mapping[int, int]] = {
        streamed.offsets: {0: 3, 2: 1},
        streamed.syncs: {0: 0},
    }
    report = run.run_available_now(streamed.spec(), vector)
    assert report.rows_read == {streamed.offsets: 7, streamed.syncs: 1}
    assert report.cut == vector == reader.read_cursor(streamed.base)
    assert streamed.pos() == {"file": 2, "mm2": 10}
    assert [row.synced for row in reader.read_flow_progress(streamed.base)] == [None]

    # A partition that the cut does not name counts as empty.
    run.run_available_now(streamed.spec(), {streamed.offsets: {2: 2}})
    assert streamed.pos() == {"mm2": 20}

    with pytest.raises(HistoryError, match=r"partition 0 up to 6, but it could be read up to 5"):
        run.run_available_now(streamed.spec(), {streamed.offsets: {0: 6}})
    with pytest.raises(HistoryError, match="partition 9, which was not read"):
        run.run_available_now(streamed.spec(), {streamed.offsets: {9: 0}})
    assert streamed.pos() == {"mm2": 20}  # what was refused changed nothing


@pytest.mark.full
def test_a_continuous_run_follows_stops_when_ordered_and_leaves_nothing_undone(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    stop = threading.Event()
    reports: list[run.RunReport] = []
    spec = streamed.spec(cadence_s=1.0)
    runner = threading.Thread(target=lambda: reports.append(run.run_continuous(spec, stop)))
    runner.start()
    try:
        streamed.commit((FILE, b'{"position":1}', 0))
        eventually(
            "the first commit in gold",
            lambda: reader.has_tables(streamed.base) and streamed.pos(),
            {"file": 1},
        )
        streamed.commit((FILE, b'{"position":2}', 0))
        eventually("the second commit in gold", streamed.pos, {"file": 2})
        with pytest.raises(HistoryError, match="in use by process"):
            run.run_available_now(streamed.spec())
    finally:
        stop.set()
        runner.join(WAIT_S_MAX)
    assert not runner.is_alive()
    (report,) = reports
    assert report.rows_read == {streamed.offsets: 2, streamed.syncs: 0}
    assert report.cut == {streamed.offsets: {0: 2, 1: 0, 2: 0}, streamed.syncs: {0: 0}}
    assert run.run_available_now(streamed.spec()).rows_read == {
        streamed.offsets: 0,
        streamed.syncs: 0,
    }


@pytest.mark.full
def test_what_a_stopped_stream_was_storing_is_stored_by_the_next_one(
    streamed: StreamedTopics, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsetwatch.history.pipeline import commits
    from offsetwatch.history.pipeline.stream import BronzeStream, Sink
    from offsetwatch.history.pipeline.stream_plan import plan_stream

    feed = feed_of(
        streamed.bootstrap, streamed.offsets.topic, streamed.topic_ids()[streamed.offsets]
    )
    for table in (BRONZE_RECORDS, OPS_GAPS):
        commits.create(streamed.base, table)
    streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5)))
    written, stopped = threading.Event(), threading.Event()

    def late(_: BronzeStream) -> None:
        written.set()
        assert stopped.wait(WAIT_S_MAX)

    close = Sink.close

    def stop(sink: Sink) -> None:
        close(sink)
        stopped.set()

    with monkeypatch.context() as patched:
        patched.setattr(BronzeStream, "_verify_topics", late)
        patched.setattr(Sink, "close", stop)
        stream = BronzeStream(
            spark, streamed.base, feed, plan_stream(streamed.base, feed), SystemClock()
        )
        stream.start("100 milliseconds")
        assert written.wait(WAIT_S_MAX)
        stream.stop()
    assert streamed.identities() == []
    again = BronzeStream(
        spark, streamed.base, feed, plan_stream(streamed.base, feed), SystemClock()
    )
    again.start(None)
    again.finish()
    assert len(streamed.identities()) == len(set(streamed.identities())) == 5


@contextmanager
def continuous(spec: PipelineSpec) -> Iterator[list[RunReport]]:
    """A continuous run beside the block; its report is there after it."""
    from offsetwatch.history.pipeline import run

    stop = threading.Event()
    reports: list[RunReport] = []
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run.run_continuous, spec, stop)
        try:
            yield reports
        finally:
            stop.set()
            reports.append(running.result(WAIT_S_MAX))


@pytest.mark.full
def test_a_continuous_run_goes_on_behind_a_gap_when_the_log_start_moves(
    streamed: StreamedTopics,
) -> None:
    streamed.commit((FILE, b'{"position":0}', 0))
    written = 1

    def overtaken() -> bool:
        """Has the log start passed the stream? Now and then the stream is the quicker one."""
        nonlocal written
        if not reader.read_gaps(streamed.base, "east"):
            streamed.commit(*((FILE, b'{"position":%d}' % (written + n), 0) for n in range(4)))
            written += 4
            to = TopicPartition(streamed.offsets.topic, 0, written - 1)
            for future in streamed.admin.delete_records([to]).values():
                future.result()
            eventually("read on", streamed.pos, {"file": written - 1})
        return bool(reader.read_gaps(streamed.base, "east"))

    with continuous(streamed.spec(cadence_s=2.0)) as reports:
        eventually(
            "the first commit in gold",
            lambda: reader.has_tables(streamed.base) and streamed.pos(),
            {"file": 0},
        )
        eventually("a gap", overtaken, expected=True)
        streamed.commit((FILE, b'{"position":1000}', 0))
        eventually("the newest commit in gold", streamed.pos, {"file": 1000})
    (gap,) = reader.read_gaps(streamed.base, "east")
    assert (gap.reason, gap.to_offset) == (GapReason.LOG_START_MOVED, written - 1)
    assert f"kafka east: permanently missing: {gap}" in reports[0].notices
    offsets = [offset for _, partition, offset in streamed.identities() if partition == 0]
    assert sorted([*offsets, *range(gap.from_offset, gap.to_offset)]) == [*range(written + 1)]


@pytest.mark.full
def test_a_continuous_run_reads_a_topic_created_again_from_its_beginning(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    with continuous(streamed.spec(cadence_s=1.0)) as reports:
        streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5)))
        eventually(
            "the commits in gold",
            lambda: reader.has_tables(streamed.base) and streamed.pos(),
            {"file": 4},
        )
        old = streamed.topic_ids()[streamed.offsets]
        streamed.create_again()
        streamed.commit((FILE, b'{"position":100}', 0))
        eventually("the new topic's commit in gold", streamed.pos, {"file": 100})
        streamed.commit((FILE, b'{"position":101}', 0))
        eventually("its next commit in gold", streamed.pos, {"file": 101})
    gap = BronzeGap(streamed.offsets.topic, old, 0, 5, None, GapReason.TOPIC_CREATED_AGAIN)
    assert reader.read_gaps(streamed.base, "east") == {gap}
    assert f"kafka east: permanently missing: {gap}" in reports[0].notices
    new = streamed.topic_ids()[streamed.offsets]
    assert sorted(streamed.identities()) == sorted(
        [*((old, 0, offset) for offset in range(5)), (new, 0, 0), (new, 0, 1)]
    )
    (file,) = reader.read_progress(streamed.base)
    assert (file.topic_id, file.koffset) == (new, 1)
    assert run.run_available_now(streamed.spec()).notices == ()


@pytest.mark.full
def test_a_continuous_run_ends_with_the_reason_if_going_on_does_not_help(
    streamed: StreamedTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetwatch.history.pipeline.stream.PAUSE_S_MAX", 0.1)
    streamed.commit((FILE, b'{"position":1}', 0))

    def gone() -> None:
        with continuous(streamed.spec(cadence_s=1.0)):
            eventually(
                "the commit in gold",
                lambda: reader.has_tables(streamed.base) and streamed.pos(),
                {"file": 1},
            )
            for future in streamed.admin.delete_topics([streamed.offsets.topic]).values():
                future.result()
            eventually("the end", lambda: runlock_is_free(streamed.base), expected=True)

    with pytest.raises(NotFound, match=f"there is no topic {streamed.offsets.topic}"):
        gone()


def runlock_is_free(base: Path) -> bool:
    try:
        with hold_run_lock(base, SystemClock()):
            return True
    except HistoryError:
        return False


@pytest.mark.full
def test_a_lost_checkpoint_costs_nothing(streamed: StreamedTopics) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(*((FILE, b'{"position":%d}' % n, n % 3) for n in range(12)))
    run.run_available_now(streamed.spec())
    streamed.commit((FILE, b'{"position":100}', 0))
    shutil.rmtree(stream_plan.find_checkpoint_folder(streamed.base, "east", 0))
    report = run.run_available_now(streamed.spec())
    assert report.rows_read == {streamed.offsets: 1, streamed.syncs: 0}
    assert report.notices == (
        "kafka east: generation 1 begins: the checkpoint is gone or cannot be read",
    )
    shutil.rmtree(streamed.base / "_ckpt")  # and with it all that says which generations there were
    assert run.run_available_now(streamed.spec()).rows_read == {
        streamed.offsets: 0,
        streamed.syncs: 0,
    }
    identities = streamed.identities()
    assert len(identities) == len(set(identities)) == 13


@pytest.mark.full
def test_a_topic_created_again_is_read_from_its_beginning_and_the_gap_is_said(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5)))
    run.run_available_now(streamed.spec())
    old = streamed.topic_ids()[streamed.offsets]
    stale = streamed.spec()
    streamed.create_again()
    streamed.commit((FILE, b'{"position":100}', 0))
    with pytest.raises(HistoryError, match="was created again just now"):
        run.run_available_now(stale)  # its topic ids were asked for before
    report = run.run_available_now(streamed.spec())
    assert report.rows_read == {streamed.offsets: 1, streamed.syncs: 0}
    gap = BronzeGap(streamed.offsets.topic, old, 0, 5, None, GapReason.TOPIC_CREATED_AGAIN)
    assert reader.read_gaps(streamed.base, "east") == {gap}
    assert f"kafka east: permanently missing: {gap}" in report.notices
    assert streamed.pos() == {"file": 100}
    assert run.run_available_now(streamed.spec()).notices == ()
    assert len(set(streamed.identities())) == len(streamed.identities()) == 6


@pytest.mark.full
def test_a_log_that_begins_behind_what_was_read_leaves_a_gap_and_is_read_on(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5)))
    run.run_available_now(streamed.spec())
    streamed.commit(*((FILE, b'{"position":%d}' % n, 0) for n in range(5, 9)))
    to = TopicPartition(streamed.offsets.topic, 0, 7)
    for future in streamed.admin.delete_records([to]).values():
        future.result()
    streamed.sync(12, 120)
    report = run.run_available_now(streamed.spec())
    assert report.rows_read == {streamed.offsets: 2, streamed.syncs: 1}
    topic_id = streamed.topic_ids()[streamed.offsets]
    assert reader.read_gaps(streamed.base, "east") == {
        BronzeGap(streamed.offsets.topic, topic_id, 0, 5, 7, GapReason.LOG_START_MOVED)
    }
    assert sorted(offset for _, partition, offset in streamed.identities() if partition == 0) == [
        *(0, 0, 1, 2, 3, 4, 7, 8),  # of two topics
    ]


@pytest.mark.full
def test_topics_may_leave_the_topology_and_come_back(streamed: StreamedTopics) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit((FILE, b'{"position":1}', 0))
    streamed.sync(12, 120)
    run.run_available_now(streamed.spec())
    alone = streamed.spec(topology=Topology((OffsetsTopic("payments", streamed.offsets),), ()))
    streamed.commit((FILE, b'{"position":2}', 0))
    streamed.sync(13, 130)
    report = run.run_available_now(alone)
    assert report.rows_read == {streamed.offsets: 1}
    assert report.notices == (
        f"kafka east: generation 1 begins: {streamed.syncs.topic} is no longer to be read",
    )
    report = run.run_available_now(streamed.spec())
    assert report.rows_read == {streamed.offsets: 0, streamed.syncs: 1}
    assert len(set(streamed.identities())) == len(streamed.identities()) == 4


@pytest.mark.full
def test_a_timestamp_beyond_sparks_is_passed_over_and_said(streamed: StreamedTopics) -> None:
    from offsetwatch.history.pipeline import run

    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        streamed.offsets.topic,
        incremental_configs=[
            ConfigEntry(
                "message.timestamp.after.max.ms",
                str(2**63 - 1),
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    for future in streamed.admin.incremental_alter_configs([resource]).values():
        future.result()
    for number in range(6):
        crazy = 9_300_000_000_000_000 if number in {2, 4} else 1_795_262_400_000 + number
        # The broker goes by the new setting a moment after it has accepted it.
        eventually(f"record {number}", lambda n=number, ms=crazy: streamed.stamped(n, ms), None)
    report = run.run_available_now(streamed.spec())
    assert report.rows_read == {streamed.offsets: 4, streamed.syncs: 0}
    assert report.cut[streamed.offsets] == {0: 0, 1: 6, 2: 0}
    topic_id = streamed.topic_ids()[streamed.offsets]
    assert reader.read_gaps(streamed.base, "east") == {
        BronzeGap(
            streamed.offsets.topic, topic_id, 1, value, value + 1, GapReason.TIMESTAMP_OUT_OF_RANGE
        )
        for value in (2, 4)
    }
    assert len(report.notices) == 4
    assert streamed.pos() == {"file": 5}
    assert run.run_available_now(streamed.spec()).rows_read == {
        streamed.offsets: 0,
        streamed.syncs: 0,
    }
    assert sorted(streamed.identities()) == [(topic_id, 1, value) for value in (0, 1, 3, 5)]
