"""A topic read once, to the ends that it had, against Kafka in memory and librdkafka's broker."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException

from exporter.clients.whole_topic import (
    EMPTY_READS_MAX,
    HEADER,
    StorageAdmin,
    ends_of,
    read_whole,
)
from exporter.errors import Denied, NotFound, TimedOut, Unsettled
from tests.fakes.broker import MockBroker
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader


@pytest.fixture
def kafka() -> FakeKafka:
    made = FakeKafka()
    made.create("offsets", 2)
    return made


def read(kafka: FakeKafka, **more):
    return list(read_whole(FakeAdmin(kafka), lambda: FakeReader(kafka), "offsets", **more))


def test_every_record_comes_with_its_place_and_whether_it_is_ours(kafka):
    kafka.produce("offsets", b"a", b"1", partition=1, at=10.5)
    kafka.produce("offsets", b"a", None, partition=1, headers=((HEADER, b"1"),))
    found = read(kafka)
    assert [(at.kpartition, at.koffset, at.key, at.value, at.ours) for at in found] == [
        (1, 0, b"a", b"1", False),
        (1, 1, b"a", None, True),
    ]
    assert found[0].at == 10.5


def test_what_comes_while_it_is_read_is_not_waited_for(kafka):
    kafka.produce("offsets", b"a", b"1")
    seen = ends_of(FakeAdmin(kafka), "offsets")
    kafka.produce("offsets", b"b", b"2", partition=1)
    assert seen.ends == {0: 1, 1: 0}
    found = read(kafka, until=seen)
    assert [at.key for at in found if at.kpartition == 0] == [b"a"]


def test_the_end_is_behind_markers_and_behind_what_was_compacted_away(kafka):
    for value in (b"1", b"2"):
        kafka.produce("offsets", b"a", value)
    kafka.mark("offsets")
    kafka.produce("offsets", b"b", None, partition=1)
    kafka.compact("offsets", 0)
    kafka.compact("offsets", 1, tombstones=True)
    assert [(at.key, at.value) for at in read(kafka)] == [(b"a", b"2")]


def test_an_open_transaction_is_named_as_what_is_in_the_way(kafka):
    kafka.produce("offsets", b"a", b"1")
    kafka.log("offsets").stable_end = 0
    assert ends_of(FakeAdmin(kafka), "offsets").held == (0,)
    before = kafka.clock.now()
    with pytest.raises(TimedOut, match=r"partition 0 stands at 0 of 1.*transaction"):
        read(kafka)
    assert kafka.clock.now() - before > EMPTY_READS_MAX * 0.1


def test_progress_is_told_up_to_all_there_is(kafka):
    for number in range(3):
        kafka.produce("offsets", b"a", b"%d" % number, partition=number % 2)
    told: list[tuple[int, int | None]] = []
    read(kafka, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)


def test_a_topic_that_is_not_there_is_not_empty(kafka):
    with pytest.raises(NotFound):
        list(read_whole(FakeAdmin(kafka), lambda: FakeReader(kafka), "none"))


def test_a_real_client_reads_to_the_end_as_well():
    broker = MockBroker()
    for number in range(100):
        broker.produce("offsets", b"k%d" % number, b"v", partition=number % 4)
    broker.produce("offsets", b"k0", None)
    found = list(read_whole(broker.admin(), broker.reader, "offsets"))
    broker.stop()
    assert len(found) == 101
    assert {at.key: at.value for at in found}[b"k0"] is None


class _Future:
    def __init__(self, code: int) -> None:
        self._error = KafkaException(KafkaError(code))

    def result(self, timeout: float) -> object:
        raise self._error


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
    """librdkafka's admin client: what it says of a group as one of consumers, and of any group."""

    code: int
    listed: list[_Group]

    def describe_consumer_groups(self, groups, **_more):
        return {group: _Future(self.code) for group in groups}

    def list_groups(self, group, timeout):
        return self.listed

    def poll(self, _timeout: float) -> int:
        return 0


WORKER = _Group([_Member("connect-1", "/10.0.0.1")])
CLOSED = _Group([], KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
OTHER_PROTOCOL = KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    ("code", "listed", "expected"),
    [
        (KafkaError.GROUP_ID_NOT_FOUND, [], ()),
        (OTHER_PROTOCOL, [WORKER], ("connect-1 at /10.0.0.1",)),
        (OTHER_PROTOCOL, [_Group([])], ()),
        (OTHER_PROTOCOL, [], Unsettled),
        (OTHER_PROTOCOL, [CLOSED], Denied),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, [_Group([])], Denied),
        (KafkaError._TIMED_OUT, [_Group([])], TimedOut),
    ],
)
def test_a_group_that_may_not_be_seen_is_not_an_empty_one(code, listed, expected):
    admin = StorageAdmin("east", {"bootstrap.servers": "127.0.0.1:1"})
    admin._made = _Client(code, listed)  # type: ignore[assignment]
    if isinstance(expected, tuple):
        assert admin.members("connect") == expected
    else:
        with pytest.raises(expected):
            admin.members("connect")
