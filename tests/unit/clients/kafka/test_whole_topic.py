"""A topic read once, to the ends that it had, against Kafka in memory and librdkafka's broker."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as ck_admin

from offsetwatch.clients.kafka import inspector
from offsetwatch.clients.kafka.clients import RESULT_S_MAX
from offsetwatch.clients.kafka.whole_topic import (
    EMPTY_READS_MAX,
    OWN_RECORD_HEADER,
    StorageAdmin,
    read_topic_ends,
    read_whole_topic,
)
from offsetwatch.errors import (
    AccessDenied,
    LeaderNotAvailable,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
)
from offsetwatch.ingest.topic_readers import SourceOffsetsTopicReader
from offsetwatch.model.topology import TopicPartition
from tests.fakes.batches import batch, record, store
from tests.fakes.broker import MockBroker
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka()
    built.create("offsets", 2)
    return built


def read(kafka: FakeKafka, **more):
    return list(read_whole_topic(FakeAdmin(kafka), lambda: FakeReader(kafka), "offsets", **more))


def test_every_record_comes_with_its_place_and_whether_it_is_ours(kafka):
    kafka.produce("offsets", b"a", b"1", partition=1, at=10.5)
    kafka.produce("offsets", b"a", None, partition=1, headers=((OWN_RECORD_HEADER, b"1"),))
    result = read(kafka)
    assert [
        (item.kpartition, item.koffset, item.key, item.value, item.ours) for item in result
    ] == [
        (1, 0, b"a", b"1", False),
        (1, 1, b"a", None, True),
    ]
    assert result[0].at == 10.5


def test_what_comes_while_it_is_read_is_not_waited_for(kafka):
    kafka.produce("offsets", b"a", b"1")
    observed = read_topic_ends(FakeAdmin(kafka), "offsets")
    kafka.produce("offsets", b"b", b"2", partition=1)
    assert observed.ends == {0: 1, 1: 0}
    result = read(kafka, until=observed)
    assert [item.key for item in result if item.kpartition == 0] == [b"a"]


def test_the_end_is_behind_markers_and_behind_what_was_compacted_away(kafka):
    for value in (b"1", b"2"):
        kafka.produce("offsets", b"a", value)
    kafka.mark("offsets")
    kafka.produce("offsets", b"b", None, partition=1)
    kafka.compact("offsets", 0)
    kafka.compact("offsets", 1, tombstones=True)
    assert [(item.key, item.value) for item in read(kafka)] == [(b"a", b"2")]


def test_an_open_transaction_is_named_as_what_is_in_the_way(kafka):
    kafka.produce("offsets", b"a", b"1")
    kafka.log("offsets").stable_end = 0
    assert read_topic_ends(FakeAdmin(kafka), "offsets").held == (0,)
    before = kafka.clock.now()
    with pytest.raises(ResponseTimeout, match=r"partition 0 stands at 0 of 1.*transaction"):
        read(kafka)
    assert kafka.clock.now() - before > EMPTY_READS_MAX * 0.1


def test_progress_is_reported_up_to_all_there_is(kafka):
    for number in range(3):
        kafka.produce("offsets", b"a", b"%d" % number, partition=number % 2)
    reports: list[tuple[int, int | None]] = []
    read(kafka, progress=lambda done, total: reports.append((done, total)))
    assert reports[-1] == (3, 3)


def test_a_topic_that_is_not_there_is_not_empty(kafka):
    with pytest.raises(NotFound):
        list(read_whole_topic(FakeAdmin(kafka), lambda: FakeReader(kafka), "none"))


def test_a_real_client_reads_to_the_end_as_well():
    broker = MockBroker()
    for number in range(100):
        broker.produce("offsets", b"k%d" % number, b"v", partition=number % 4)
    broker.produce("offsets", b"k0", None)
    log = list(read_whole_topic(broker.admin(), broker.reader, "offsets"))
    broker.stop()
    assert len(log) == 101
    assert {item.key: item.value for item in log}[b"k0"] is None


class _TimedAnswers(Future[object]):
    """How long each of its answers was waited for."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        if code is not None:
            self.set_exception(KafkaException(KafkaError(code)))

    def result(self, timeout: float | None = None) -> object:
        self.waits.append(timeout)
        return super().result(timeout)


@dataclass
class _Member:
    client_id: str
    client_host: str


@dataclass
class _Group:
    members: list[_Member]
    error: KafkaError | None = None


@dataclass
class _Client:
    """librdkafka's admin client: what it says of groups of consumers, and of any group."""

    answers: dict[str, _TimedAnswers]
    listed: list[_Group] = field(default_factory=list)

    def describe_consumer_groups(self, groups, **_more):
        return {group: self.answers[group] for group in groups}

    def describe_topics(self, topics, **_more):
        return {topic: self.answers[topic] for topic in topics.topic_names}

    def list_groups(self, group, timeout):
        return self.listed

    def poll(self, _timeout: float) -> int:
        return 0


def storage_admin(client: _Client, monkeypatch) -> StorageAdmin:
    monkeypatch.setattr(ck_admin, "AdminClient", lambda _settings: client)
    return StorageAdmin("east", {"bootstrap.servers": "127.0.0.1:1"})


WORKER = _Group([_Member("connect-1", "/10.0.0.1")])
CLOSED = _Group([], KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
OTHER_PROTOCOL = KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    ("code", "listed", "expected"),
    [
        (KafkaError.GROUP_ID_NOT_FOUND, [], ()),
        (OTHER_PROTOCOL, [WORKER], ("connect-1 at /10.0.0.1",)),
        (OTHER_PROTOCOL, [_Group([])], ()),
        (OTHER_PROTOCOL, [], LeaderNotAvailable),
        (OTHER_PROTOCOL, [CLOSED], AccessDenied),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, [_Group([])], AccessDenied),
        (KafkaError._TIMED_OUT, [_Group([])], ResponseTimeout),
    ],
)
def test_a_group_that_may_not_be_observed_is_not_an_empty_one(code, listed, expected, monkeypatch):
    admin = storage_admin(_Client({"connect": _TimedAnswers(code)}, listed), monkeypatch)
    if isinstance(expected, tuple):
        assert admin.members("connect") == expected
    else:
        with pytest.raises(expected):
            admin.members("connect")


@pytest.mark.parametrize("group", ["", "a\0b"])
def test_a_group_that_cannot_be_named_hides_no_other_one(group, monkeypatch):
    denied = _TimedAnswers(KafkaError.GROUP_AUTHORIZATION_FAILED)
    admin = storage_admin(_Client({"a": denied, group: denied}), monkeypatch)
    operations = admin.group_operations(["a", group])
    assert {name: type(at) for name, at in operations.items()} == {
        "a": AccessDenied,
        group: RemoteRefusal,
    }
    with pytest.raises(RemoteRefusal, match="group id"):
        admin.members(group)


def test_many_groups_without_an_answer_take_no_longer_than_one(monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(inspector, "wait", lambda _asked, timeout: waited.append(timeout))
    request = {name: _TimedAnswers() for name in ("a", "b", "c")} | {
        "d": _TimedAnswers(KafkaError.UNKNOWN)
    }
    operations = storage_admin(_Client(request), monkeypatch).group_operations(request)
    assert {name: type(at) for name, at in operations.items()} == {
        "a": ResponseTimeout,
        "b": ResponseTimeout,
        "c": ResponseTimeout,
        "d": ServerError,
    }
    assert waited == [RESULT_S_MAX]
    assert [item.waits for item in request.values()] == [[0]] * 4


def test_an_answer_that_is_not_there_yet_is_waited_for(monkeypatch):
    request = _TimedAnswers()
    monkeypatch.setattr(
        inspector,
        "wait",
        lambda *_, timeout: request.set_result(SimpleNamespace(topic_id="1", partitions=[0, 1])),
    )
    admin = storage_admin(_Client({"orders": request}), monkeypatch)
    assert admin.identities_now(["orders"]) == {"orders": ("1", 2)}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDenied),
        (KafkaError._TIMED_OUT, ResponseTimeout),
        (None, ResponseTimeout),
    ],
)
def test_a_topic_of_which_no_id_came_in_time_is_not_known_to_be_gone(code, expected, monkeypatch):
    monkeypatch.setattr(inspector, "wait", lambda *_, timeout: None)
    admin = storage_admin(_Client({"orders": _TimedAnswers(code)}), monkeypatch)
    with pytest.raises(expected):
        admin.topic_id_now("orders")
    assert admin.identities_now(["orders"]) == {}


def test_each_question_to_a_coordinator_is_queried_by_a_client_of_its_own(monkeypatch):
    built: list[_Client] = []

    def client(_settings: object) -> _Client:
        built.append(_Client({"connect": _TimedAnswers(KafkaError.GROUP_ID_NOT_FOUND)}))
        return built[-1]

    monkeypatch.setattr(ck_admin, "AdminClient", client)
    admin = StorageAdmin("east", {"bootstrap.servers": "127.0.0.1:1"})
    assert (admin.members("connect"), admin.members("connect")) == ((), ())
    assert [len(item.answers["connect"].waits) for item in built] == [0, 1, 1]


def test_a_record_with_a_header_that_is_no_utf8_is_read_and_is_not_ours():
    broker = MockBroker()
    broker.produce("offsets", b'["c",{"a":1}]', b'{"x":1}')
    name = OWN_RECORD_HEADER.encode()
    for number, headers in enumerate(
        (((b"\xff", b"1"),), ((name, b"1"), (b"\xff", b"1")), ((name, b"1"),)), start=2
    ):
        value = b'{"x":%d}' % number
        stored = batch(record(b'["c",{"a":1}]', value, headers))
        store(broker.bootstrap, "offsets", 0, stored)
    reader, messages = broker.reader(), []
    try:
        reader.assign({TopicPartition("offsets", 0): 0})
        while len(messages) < 4:
            messages += [item for item in reader.read(100, 5.0) if item.error() is None]
    finally:
        reader.close()
        broker.stop()
    records, undecodable = SourceOffsetsTopicReader().live(messages)
    assert not undecodable
    assert [(item.offset.text, item.ours) for item in records] == [
        ('{"x":1}', False),
        ('{"x":2}', False),
        ('{"x":3}', False),
        ('{"x":4}', True),
    ]
