"""From what the daemon and Connect show to the record that a connector cannot get past: the logs
lie in librdkafka's own broker, and are read as they are in earnest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.config.schema.sources import Source
from offsetwatch.decode.rest_answers import ConnectRoot
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import FailureRun
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import IncompleteRead, LogWindow
from offsetwatch.model.row_positions import ID_SPAN
from offsetwatch.model.topology import MirrorFlow, SinkGroup, TopicPartition, Topology
from offsetwatch.remedy.classify import Failure, FailureKind
from offsetwatch.remedy.gather import live_queries
from offsetwatch.remedy.gather.poison_locator import PoisonLocator
from offsetwatch.remedy.gather.snapshot_queries import LiveConnectorState, RemediationCase
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.search import IdentifiedRecord, NoIdentification
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.plan import Action, PartitionOffset
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, MirrorPartitionView, Snapshot
from tests.changed import replace
from tests.fakes.batches import batch, record, store
from tests.fakes.broker import MockBroker
from tests.fakes.clock import VirtualClock
from tests.unit.remedy.stalled_connectors import (
    BAD,
    GOOD,
    JSON,
    STRING,
    log_line,
    mirror_pair,
    sink_pair,
)

SINK = "org.example.OwnSink"
TOPIC = "orders"
CONVERTERS = {
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
ONE_BY_ONE = CONVERTERS | {"consumer.override.max.poll.records": "1"}


@dataclass
class Brokers:
    """What the in-process broker cannot be asked (tests/fakes/broker.py)."""

    broker: MockBroker
    topic: str = "id-1"

    def topic_id(self, kafka: str, topic: str) -> str | None:
        return self.topic

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        return self.broker.admin().bounds([partition], stable=True)[partition]

    def ends(self, kafka: str, topic: str) -> dict[int, int]:
        every = [TopicPartition(topic, n) for n in range(4)]
        return {partition.partition: end.stable for partition, end in
                self.broker.admin().readable_ends(every).items()}  # fmt: skip

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        return 1_000


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    running = MockBroker()
    yield running
    running.stop()


def finder(broker: MockBroker, **worker: object) -> PoisonLocator:
    connect = Connect(name="lab", kafka="east", urls=["http://unused:1"])
    config = Config(
        kafka={"east": Kafka(bootstrap=broker.bootstrap), "west": Kafka(bootstrap="unused:1")},
        connect=[connect.model_copy(update=worker)],
    )
    policy = Policy(skip_safe=(SINK,))
    return PoisonLocator(config, Brokers(broker), policy, VirtualClock())  # type: ignore[arg-type]


def written(broker: MockBroker, *values: bytes, partition: int = 0) -> None:
    for value in values:
        broker.produce(TOPIC, b"k", value, partition=partition)


def run(count: int = 3, *same: str, moved: bool = False, first_at: float = 1.0) -> FailureRun:
    locations = tuple((label, "x") for label in same or (f"{TOPIC}-0",))
    return FailureRun(
        "lab", "c", 0, "x.Y", "x.Y", count, first_at, 2.0, count - 1, locations, moved
    )


def failed(kind: FailureKind, stage: str, size: int | None = None) -> Failure:
    return Failure(kind, stage, ("x.Y",), "0" * 16, None, size)


BY_VALUE = failed(FailureKind.DESERIALIZATION, "converter_value")
BY_PUT = failed(FailureKind.SINK_DATA, "put")


def case(failure: Failure | None = BY_VALUE, *runs: FailureRun) -> RemediationCase:
    what = IncidentKind.FROZEN if failure is None else IncidentKind.FAILED
    built = () if failure is None else runs or (run(),)
    incident = Incident("key", what, "lab", "c", "found", "said", 1.0, built)
    return RemediationCase("lab", "c", Action.SKIP_ONE, incident=incident, failure=failure)


def now(*pairs: PartitionOffset, config: dict[str, str] = CONVERTERS) -> LiveConnectorState:
    return LiveConnectorState(None, None, dict(config), pairs, 3.0)


def view(kind: ConnectorKind, class_name: str = SINK) -> ConnectorView:
    return ConnectorView("lab", "c", kind, class_name, "1", "running", ())


def sinks() -> Snapshot:
    group = SinkGroup("lab", "c", "connect-c", "east")
    return replace(
        EMPTY_SNAPSHOT,
        connectors=(view(ConnectorKind.SINK),),
        topology=Topology((), (), sinks=(group,)),
    )


def mirrors(lag: int | None = 3) -> Snapshot:
    flow = MirrorFlow("lab", "c", "east", "west", "east", None, downstream="west",
                      policy="DefaultReplicationPolicy")  # fmt: skip
    partition = MirrorPartitionView(
        **dict.fromkeys(MirrorPartitionView.__struct_fields__)
        | {
            "connect_cluster": "lab",
            "connector": "c",
            "topic": TOPIC,
            "partition": 0,
            "lag": lag,
            "caught_up": False,
        }
    )
    return replace(
        EMPTY_SNAPSHOT,
        connectors=(view(ConnectorKind.MIRROR, "MirrorSourceConnector"),),
        mirror_partitions=(partition,),
        topology=Topology((), (flow,)),
    )


def test_a_sinks_bad_record_is_found_from_what_the_daemon_shows(broker):
    written(broker, GOOD, BAD, GOOD)
    answer = finder(broker).find(case(), now(sink_pair(1)), sinks())
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.record.topic_id) == (1, "id-1")


def test_a_sink_that_names_no_converters_goes_by_those_of_its_worker(broker, tmp_path):
    written(broker, GOOD, BAD, GOOD)
    untold = finder(broker).find(case(), now(sink_pair(1), config={}), sinks())
    assert isinstance(untold, NoIdentification)
    assert (untold.reason, untold.recommend[-1]) == (
        "not_decoded",
        recommendations.GIVE_WORKER_PROPERTIES,
    )
    worker = tmp_path / "worker.properties"
    worker.write_text("".join(f"{name}={value}\n" for name, value in CONVERTERS.items()))
    polling = finder(broker, worker_properties_file=worker)
    answer = polling.find(case(), now(sink_pair(1), config={}), sinks())
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.method) == (1, "decode")


@pytest.mark.parametrize("output", [True, False])
def test_a_workers_log_names_a_record_where_the_sink_has_it_name_records(broker, tmp_path, output):
    written(broker, GOOD, GOOD, GOOD)
    log = tmp_path / "connect.log"
    log.write_text(log_line(1, stage="TRANSFORMATION") + "\n")
    polling = finder(broker, worker_logs=[str(log)])
    shows = {"errors.log.enable": "true", "errors.log.include.messages": str(output).lower()}
    transform = case(failed(FailureKind.TRANSFORM, "transform"))
    answer = polling.find(transform, now(sink_pair(1), config=CONVERTERS | shows), sinks())
    if output:
        assert isinstance(answer, IdentifiedRecord), answer
        assert (answer.record.offset, answer.method) == (1, "error_log")
    else:
        assert isinstance(answer, NoIdentification)
        assert answer.reason == "ambiguous_window"


def test_a_topic_that_was_created_again_since_the_first_poll_names_nothing(broker):
    written(broker, GOOD, BAD, GOOD)
    polling = finder(broker)
    assert isinstance(polling.find(case(), now(sink_pair(1)), sinks()), IdentifiedRecord)
    polling._brokers.topic = "id-2"
    answer = polling.find(case(), now(sink_pair(1)), sinks())
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "topic_recreated"


def test_failures_of_before_it_took_one_record_at_a_time_do_not_count(broker):
    written(broker, GOOD, GOOD, GOOD)
    polling = finder(broker)

    def locate(config: dict[str, str], count: int) -> IdentifiedRecord | NoIdentification:
        return polling.find(case(BY_PUT, run(count)), now(sink_pair(1), config=config), sinks())

    assert isinstance(locate(CONVERTERS, 3), NoIdentification)
    # The configuration is another one by now, and the trace is still that of before.
    assert isinstance(locate(ONE_BY_ONE, 3), NoIdentification)
    assert isinstance(locate(ONE_BY_ONE, 4), NoIdentification)
    answer = locate(ONE_BY_ONE, 5)
    assert isinstance(answer, IdentifiedRecord), answer
    assert answer.method == "one_at_a_time"


def test_failures_count_from_when_the_setting_of_one_record_at_a_time_was_observed(broker):
    written(broker, GOOD, GOOD, GOOD)
    polling = finder(broker)

    def locate(count: int) -> IdentifiedRecord | NoIdentification:
        return polling.find(case(BY_PUT, run(count)), now(sink_pair(1), config=ONE_BY_ONE), sinks())

    polling.observe_config(("lab", "c"), dict(CONVERTERS), run(1))
    polling.observe_config(("lab", "c"), dict(ONE_BY_ONE), run(2))
    refused = locate(3)
    assert isinstance(refused, NoIdentification), refused
    assert refused.reason == "not_failed_again"
    answer = locate(4)
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.method) == (1, "one_at_a_time")


def test_a_failure_before_a_configuration_was_read_does_not_count_for_it(broker):
    """The incident is of before that failure, the snapshot of after it."""
    written(broker, GOOD, GOOD, GOOD)
    polling = finder(broker)

    def locate(known: int, newest: int) -> IdentifiedRecord | NoIdentification:
        snapshot = replace(sinks(), failure_runs=(run(newest),))
        state = now(sink_pair(1), config=ONE_BY_ONE)
        return polling.find(case(BY_PUT, run(known)), state, snapshot)

    for known, newest in ((3, 4), (5, 5)):
        answer = locate(known, newest)
        assert isinstance(answer, NoIdentification), answer
        assert answer.reason == "not_failed_again"
    assert isinstance(locate(6, 6), IdentifiedRecord)


def test_a_sink_that_moved_once_more_up_to_its_record_is_there(broker):
    written(broker, GOOD, GOOD, GOOD)
    polling = finder(broker)

    def locate(
        config: dict[str, str], committed: int, count: int
    ) -> IdentifiedRecord | NoIdentification:
        stuck = run(count, f"{TOPIC}-9", moved=True)  # another position never moved
        return polling.find(case(BY_PUT, stuck), now(sink_pair(committed), config=config), sinks())

    for config, committed, count in ((CONVERTERS, 0, 3), (ONE_BY_ONE, 0, 3), (ONE_BY_ONE, 1, 4)):
        assert isinstance(locate(config, committed, count), NoIdentification)
    answer = locate(ONE_BY_ONE, 1, 5)
    assert isinstance(answer, IdentifiedRecord), answer
    assert answer.record.offset == 1


def test_what_put_throws_may_be_about_any_record_of_a_sink_that_is_not_known(broker):
    written(broker, GOOD, GOOD)
    others = replace(sinks(), connectors=(view(ConnectorKind.SINK, "com.example.Unheard"),))
    assert isinstance(
        finder(broker).find(case(BY_PUT), now(sink_pair(1)), others), NoIdentification
    )
    assert isinstance(
        finder(broker).find(case(BY_PUT), now(sink_pair(1)), sinks()), IdentifiedRecord
    )


def test_a_mirror_that_claims_to_run_is_held_against_the_bytes_it_reads(broker):
    written(broker, GOOD)
    torn = batch(record(b"k", b"torn"), crc_flipped=1)
    for stored in (torn, batch(record(b"k", b"after"))):
        store(broker.bootstrap, TOPIC, 0, stored)
    pair = mirror_pair(0)
    config = {"source.cluster.alias": "east"}
    answer = finder(broker).find(case(None), now(pair, config=config), mirrors())
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.method) == (1, "checksum")
    caught_up = finder(broker).find(case(None), now(pair, config=config), mirrors(lag=0))
    assert isinstance(caught_up, NoIdentification)


def test_a_mirrors_large_record_is_held_against_the_topic_that_it_copies_to(broker):
    written(broker, GOOD, b"x" * 2_000, GOOD)
    config = {"source.cluster.alias": "east", "producer.override.compression.type": "none"}
    large = failed(FailureKind.PRODUCER_SIZE, "producer_send")
    stuck = run(3, f"cluster=east,partition=0,topic={TOPIC}")
    answer = finder(broker).find(case(large, stuck), now(mirror_pair(0), config=config), mirrors())
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.method) == (1, "size")


def test_what_connect_does_not_report_names_nothing(broker):
    nothing = LiveConnectorState(None, None, None, None, 3.0)
    answer = finder(broker).find(case(), nothing, sinks())
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "not_told"


@pytest.mark.parametrize(
    ("version", "reason"), [("3.4.1", "old_connect"), ("3.6.0", "not_told"), ("x", "not_told")]
)
def test_a_worker_that_is_too_old_is_named_with_what_to_do_instead(broker, version, reason):
    nothing = LiveConnectorState(ConnectRoot(version), None, None, None, 3.0)
    found = finder(broker).find(case(BY_PUT), nothing, sinks())
    named = finder(broker).named(case(BY_PUT), nothing, sinks(), sink_pair(1))
    assert isinstance(found, NoIdentification)
    assert found == named
    assert found.reason == reason
    assert ("3.4.1" in found.said, bool(found.recommend)) == (version == "3.4.1",) * 2


def test_a_source_of_its_own_kind_is_left_to_an_operator(broker):
    pair = PartitionOffset('{"filename":"/data/in.txt"}', '{"position":7}')
    snapshot = replace(EMPTY_SNAPSHOT, connectors=(view(ConnectorKind.SOURCE),))
    answer = finder(broker).find(case(), now(pair), snapshot)
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "person_must_say"


@pytest.mark.parametrize(
    ("target", "reason"),
    [(2, None), (1, "not_one_record"), (3, "not_one_record")],
)
def test_what_an_operator_names_is_one_record_that_is_there(broker, target, reason):
    written(broker, GOOD, GOOD, GOOD)
    answer = finder(broker).named(case(), now(sink_pair(1)), sinks(), sink_pair(target))
    assert (None if isinstance(answer, IdentifiedRecord) else answer.reason) == reason


@pytest.mark.parametrize("named", [sink_pair(None), None], ids=["partition", "nothing"])
def test_an_operator_who_names_no_offset_means_the_next_record(broker, named):
    written(broker, GOOD, GOOD, GOOD)
    answer = finder(broker).named(case(), now(sink_pair(1)), sinks(), named)
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.to) == (1, sink_pair(2))
    caught_up = finder(broker).named(case(), now(sink_pair(3)), sinks(), named)
    assert isinstance(caught_up, NoIdentification)
    assert caught_up.reason == "not_one_record"


def test_one_of_several_partitions_has_to_be_named(broker):
    other = sink_pair(0, TopicPartition(TOPIC, 1))
    answer = finder(broker).named(case(), now(sink_pair(1), other), sinks(), None)
    assert isinstance(answer, NoIdentification)
    assert answer.said == "it has 2 partitions: name one"


class StallingReader:
    """A reader to which nothing comes in time."""

    def window(self, *_args: object, **_more: object) -> LogWindow:
        raise IncompleteRead("east/orders-0", "read up to 1 of 3 in 20 s", LogWindow((), 1, 3, 0))


def test_what_an_operator_names_and_cannot_be_read_in_time_is_not_known_to_be_no_record(broker):
    request = finder(broker)
    request._open_reader = lambda *_, **__: nullcontext(StallingReader())
    answer = request.named(case(), now(sink_pair(1)), sinks(), sink_pair(2))
    assert answer == NoIdentification("timeout", "east/orders-0: read up to 1 of 3 in 20 s")


CAST = failed(FailureKind.TRANSFORM, "transform")
FILE_STREAM = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
}


JDBC = {
    "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
    "mode": "incrementing",
    "incrementing.column.name": "id",
}


@dataclass
class SourceCase:
    """A source that stands before a record which it cannot process."""

    locator: PoisonLocator
    state: LiveConnectorState
    label: str
    record: tuple[str, int]
    to: str

    @property
    def pair(self) -> PartitionOffset:
        assert self.state.pairs is not None
        return self.state.pairs[0]


SOURCES = replace(EMPTY_SNAPSHOT, connectors=(view(ConnectorKind.SOURCE),))


@pytest.fixture(params=["file", "sql", "by time", "unknown zone", "other mode"])
def source_case(request: pytest.FixtureRequest, tmp_path: Path) -> SourceCase:
    worker = tmp_path / "worker.properties"
    worker.write_text(f"key.converter={STRING}\nvalue.converter={STRING}\n")
    connect = Connect(
        name="lab", kafka="east", urls=["http://unused:1"], worker_properties_file=str(worker)
    )
    settings: dict[str, object] = {"name": "s", "connectors": [{"connect": "lab"}]}
    file, table = tmp_path / "in.txt", tmp_path / "shop.db"
    if request.param == "file":
        file.write_bytes(b"12\nx\n34\n")
        settings |= {"kind": "file"}
        pairs = (
            PartitionOffset(f'{{"filename":"{file}"}}', '{"position":3}'),
            PartitionOffset('{"filename":"/of/before"}', '{"position":9}'),
        )
        config = FILE_STREAM | {"file": str(file)}
        expected = f"filename={file}", (str(file), 4), '{"position":5}'
    elif request.param in {"by time", "unknown zone"}:
        with sqlite3.connect(table) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP)")
            rows = [(9, 1000), (4, 2000), (5, 1500), (6, None)]
            connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        settings |= {"kind": "sql", "dsn": f"sqlite:///{table}"}
        offset = '{"incrementing":9,"timestamp":1000,"timestamp_nanos":0}'
        pairs = (PartitionOffset('{"protocol":"1","table":"orders"}', offset),)
        zone = "Mars/Olympus" if request.param == "unknown zone" else "UTC"
        config = JDBC | {
            "mode": "timestamp+incrementing",
            "timestamp.column.name": "at",
            "db.timezone": zone,
        }
        expected = (
            "protocol=1,table=orders",
            ("orders(at+id in UTC, 0 ms)", 1_500_000_000 * ID_SPAN + 5),
            '{"incrementing":5,"timestamp":1500,"timestamp_nanos":500000000}',
        )
    else:
        with sqlite3.connect(table) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
            connection.executemany("INSERT INTO orders VALUES (?, 'x')", [(3,), (7,), (8,)])
        settings |= {"kind": "sql", "dsn": f"sqlite:///{table}"}
        pairs = (PartitionOffset('{"protocol":"1","table":"orders"}', '{"incrementing":3}'),)
        mode = "timestamp" if request.param == "other mode" else "incrementing"
        config = JDBC | {"mode": mode}
        expected = "protocol=1,table=orders", ("orders(id)", 7), '{"incrementing":7}'
    source = Source.model_validate(settings)
    loaded = Config(kafka={"east": Kafka(bootstrap="unused:1")}, connect=[connect])
    loaded = loaded.model_copy(update={"sources": [source]})
    brokers = live_queries.Brokers({}, sources=[source])
    locator = PoisonLocator(loaded, brokers, Policy(), VirtualClock())
    return SourceCase(locator, now(*pairs, config=config), *expected)


@pytest.mark.parametrize("source_case", ["file", "sql", "by time"], indirect=True)
def test_a_line_or_row_is_found_once_its_source_has_failed_on_it_again(
    source_case: SourceCase,
) -> None:
    locator, state = source_case.locator, source_case.state
    first = case(CAST, run(2, source_case.label))
    locator.observe(first, state, SOURCES)
    answer = locator.find(first, state, SOURCES)
    assert isinstance(answer, NoIdentification), answer
    assert answer.reason == "not_failed_again"
    answer = locator.find(case(CAST, run(3, source_case.label)), state, SOURCES)
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.kafka, answer.record.topic) == ("source:s", source_case.record[0])
    assert (answer.record.offset, answer.to.offset) == (source_case.record[1], source_case.to)


@pytest.mark.parametrize("source_case", ["file", "sql", "by time"], indirect=True)
def test_a_failure_before_a_source_was_read_does_not_count_for_its_next_record(
    source_case: SourceCase,
) -> None:
    locator, state, label = source_case.locator, source_case.state, source_case.label
    third = replace(SOURCES, failure_runs=(run(3, label),))
    locator.observe(case(CAST, run(2, label)), state, third)
    answer = locator.find(case(CAST, run(3, label)), state, third)
    assert isinstance(answer, NoIdentification), answer
    assert answer.reason == "not_failed_again"
    fourth = replace(SOURCES, failure_runs=(run(4, label),))
    assert isinstance(locator.find(case(CAST, run(4, label)), state, fourth), IdentifiedRecord)


@pytest.mark.parametrize("source_case", ["file", "sql"], indirect=True)
def test_a_line_or_row_that_an_operator_names_is_the_next_one(source_case: SourceCase) -> None:
    def locate(offset: str | None) -> IdentifiedRecord | NoIdentification:
        to = replace(source_case.pair, offset=offset)
        return source_case.locator.named(case(CAST), source_case.state, SOURCES, to)

    answer = locate(source_case.to)
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.topic, answer.record.offset) == source_case.record
    for offset in (
        source_case.pair.offset or "",
        source_case.to.replace("5", "8").replace("7", "8"),
    ):
        refused = locate(offset)
        assert isinstance(refused, NoIdentification), refused
        assert refused.reason == "not_one_record"


@pytest.mark.parametrize("source_case", ["by time"], indirect=True)
def test_a_row_by_time_is_named_by_all_fields_of_its_offset(source_case: SourceCase) -> None:
    def locate(offset: str | None) -> IdentifiedRecord | NoIdentification:
        to = replace(source_case.pair, offset=offset)
        return source_case.locator.named(case(CAST), source_case.state, SOURCES, to)

    for offset in (None, source_case.to):
        answer = locate(offset)
        assert isinstance(answer, IdentifiedRecord), answer
        assert (answer.record.topic, answer.record.offset) == source_case.record
        assert answer.to.offset == source_case.to
    for offset, reason in (
        (source_case.to.replace('"incrementing":5', '"incrementing":6'), "not_the_next"),
        ('{"incrementing":4,"timestamp":2000,"timestamp_nanos":0}', "not_one_record"),
        ('{"incrementing":5}', "offset_shape"),
    ):
        refused = locate(offset)
        assert isinstance(refused, NoIdentification), refused
        assert refused.reason == reason


@pytest.mark.parametrize("source_case", ["unknown zone"], indirect=True)
def test_rows_whose_order_is_unknown_are_refused_with_the_setting(source_case: SourceCase) -> None:
    source_case.locator.observe(case(CAST), source_case.state, SOURCES)
    for answer in (
        source_case.locator.find(case(CAST), source_case.state, SOURCES),
        source_case.locator.named(case(CAST), source_case.state, SOURCES, source_case.pair),
    ):
        assert isinstance(answer, NoIdentification)
        assert answer.reason == "row_order_unknown"
        assert "its db.timezone is not known here" in answer.said


@pytest.mark.parametrize("source_case", ["other mode"], indirect=True)
def test_rows_in_another_order_are_left_to_an_operator(source_case: SourceCase) -> None:
    answer = source_case.locator.find(case(CAST), source_case.state, SOURCES)
    assert isinstance(answer, NoIdentification)
    named = source_case.locator.named(case(CAST), source_case.state, SOURCES, source_case.pair)
    assert isinstance(named, NoIdentification)
    assert named.reason == "opaque"
