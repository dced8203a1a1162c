"""Which clients of consumer groups are kept, and for how long."""

from __future__ import annotations

from typing import Any

import confluent_kafka as ck
import pytest

from offsetwatch.clients.kafka import groups
from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.clients.kafka.groups import CLIENTS_MAX, IDLE_S, GroupReaders
from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.topology import TopicPartition
from tests.fakes.clock import VirtualClock

ORDERS = TopicPartition("orders", 0)


class Consumer:
    """Knows one committed offset of its group, and says when it is closed."""

    made: list[Consumer]

    def __init__(self, settings: dict[str, Any]) -> None:
        self.group, self.closed = settings["group.id"], False
        assert settings["enable.auto.commit"] is False
        Consumer.made.append(self)

    def committed(self, expected: list[Any], timeout: float) -> list[Any]:
        assert not self.closed
        assert timeout == 5.0
        return [ck.TopicPartition(item.topic, item.partition, 7) for item in expected]

    def close(self) -> None:
        assert not self.closed
        self.closed = True


@pytest.fixture
def clock(monkeypatch) -> VirtualClock:
    monkeypatch.setattr(groups.ck, "Consumer", Consumer)
    Consumer.made = []
    return VirtualClock()


def request(readers: GroupReaders, *names: str) -> None:
    for name in names:
        assert readers.committed(name, [ORDERS], 5.0) == {ORDERS: 7}


def opened() -> list[str]:
    return [consumer.group for consumer in Consumer.made if not consumer.closed]


def test_a_group_that_is_queried_again_and_again_has_one_client(clock):
    readers = GroupReaders({}, clock.now)
    for _ in range(5):
        request(readers, "a", "b")
        clock.advance(IDLE_S - 1)
    assert len(Consumer.made) == 2
    assert opened() == ["a", "b"]


def test_a_group_that_is_no_longer_requested_loses_its_client(clock):
    readers = GroupReaders({}, clock.now)
    request(readers, "gone", "there", "gone too")
    clock.advance(IDLE_S / 2)
    request(readers, "there")
    clock.advance(IDLE_S / 2)
    request(readers, "there")
    assert opened() == ["there"]
    request(readers, "gone")
    assert opened() == ["there", "gone"]


def test_one_that_is_queried_ever_so_seldom_is_not_closed_by_its_own_question(clock):
    readers = GroupReaders({}, clock.now)
    request(readers, "a")
    clock.advance(10 * IDLE_S)
    request(readers, "a")
    assert len(Consumer.made) == 1


def test_of_too_many_the_least_recently_queried_is_closed(clock):
    readers = GroupReaders({}, clock.now)
    names = [f"g{number}" for number in range(CLIENTS_MAX)]
    request(readers, *names, "g0", "one more")
    assert opened() == ["g0", *names[2:], "one more"]


def test_all_are_closed_in_the_end(clock):
    readers = GroupReaders({}, clock.now)
    request(readers, "a", "b")
    readers.close()
    assert opened() == []


def test_a_partition_that_the_broker_refuses_is_distinguished_from_one_without_a_commit(
    clock, monkeypatch
):
    denied = ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)

    class Answer:
        def __init__(self, partition, offset, error=None):
            self.topic, self.partition, self.offset, self.error = "orders", partition, offset, error

    answers = [Answer(0, 7), Answer(1, ck.OFFSET_INVALID), Answer(2, ck.OFFSET_INVALID, denied)]
    monkeypatch.setattr(Consumer, "committed", lambda *_, **__: answers)
    expected = [TopicPartition("orders", number) for number in range(3)]
    result = GroupReaders({}, clock.now).committed("a", expected, 5.0)
    assert result == {expected[0]: 7, expected[2]: denied}


@pytest.mark.parametrize("group", ["", "a\0b", "g" * 32_768, "\ud800"])
def test_a_group_that_librdkafka_cannot_request_gets_no_client(clock, group):
    # For an empty one it aborts the process, and "a\0b" it reads as "a".
    with pytest.raises(ck.KafkaException) as caught:
        GroupReaders({}, clock.now).committed(group, [ORDERS], 5.0)
    error = client_error_from("east", caught.value.args[0])
    assert isinstance(error, RemoteRefusal)
    assert "group id" in error.detail
    assert Consumer.made == []
