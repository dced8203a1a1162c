"""ProbeReader against librdkafka's own broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsetwatch.clients.records.probe import PARTITION_BYTES, ProbeReader
from offsetwatch.errors import ClientError, TopicChanged
from offsetwatch.model.observations import FirstRecord, NoRecordBefore
from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import PARTITIONS, MockBroker

AT = 1_800_000_000.25
TIMEOUT_S = 10.0


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    running = MockBroker()
    yield running
    running.stop()


@pytest.fixture
def reader(broker: MockBroker) -> Iterator[ProbeReader]:
    built = ProbeReader("west", {"bootstrap.servers": broker.bootstrap}, committed=False)
    yield built
    built.close()


def at(partition: int = 0) -> TopicPartition:
    return TopicPartition("orders", partition)


def filled(broker: MockBroker, count: int = 5, size: int = 10) -> None:
    for partition in range(PARTITIONS):
        for number in range(count):
            broker.produce("orders", b"k", b"v" * size, partition=partition, at=AT + number)


def test_each_partition_reports_the_record_at_its_own_offset(broker, reader):
    filled(broker)
    starts = {at(0): 0, at(1): 1, at(2): 4, at(3): 2}
    result = reader.first(starts, TIMEOUT_S)
    assert result == {where: FirstRecord(start, AT + start) for where, start in starts.items()}


def test_a_record_without_a_timestamp_is_of_no_time_and_not_of_1969(broker, reader):
    broker.produce("orders", b"k", b"v", at=-0.001)
    assert reader.first({at(0): 0}, TIMEOUT_S) == {at(0): FirstRecord(0, None)}


def test_at_the_end_there_is_nothing_and_beyond_it_the_log_has_changed(broker, reader):
    filled(broker)
    result = reader.first({at(0): 5, at(1): 6, at(2): 3}, TIMEOUT_S)
    assert result[at(0)] == NoRecordBefore(5)
    assert isinstance(result[at(1)], TopicChanged)
    assert result[at(2)] == FirstRecord(3, AT + 3)


def test_a_reader_is_used_again_and_again_with_the_partitions_of_each_round_alone(broker, reader):
    filled(broker)
    for start in (0, 3, 1, 4):
        assert reader.first({at(1): start}, TIMEOUT_S) == {at(1): FirstRecord(start, AT + start)}
        assert set(reader.first({at(0): start, at(2): start}, TIMEOUT_S)) == {at(0), at(2)}


def test_records_larger_than_what_is_requested_are_read_all_the_same(broker, reader):
    filled(broker, count=2, size=5 * PARTITION_BYTES)
    starts = {at(partition): 1 for partition in range(PARTITIONS)}
    result = reader.first(starts, TIMEOUT_S)
    assert result == {where: FirstRecord(1, AT + 1) for where in starts}


def test_a_partition_that_does_not_answer_is_left_out_and_does_not_cost_the_others(broker, reader):
    filled(broker)
    result = reader.first({at(0): 2, at(PARTITIONS): 0}, timeout_s=1.0)
    assert result[at(0)] == FirstRecord(2, AT + 2)
    assert not isinstance(result.get(at(PARTITIONS)), FirstRecord | NoRecordBefore)


def test_a_cluster_that_is_away_is_an_error_and_no_empty_answer(broker, reader):
    filled(broker)
    broker.stop()
    with pytest.raises(ClientError):
        reader.first({at(0): 0}, timeout_s=2.0)


def test_a_round_that_is_to_stop_ends_without_an_answer(broker, reader):
    filled(broker)
    assert reader.first({at(0): 0}, TIMEOUT_S, lambda: True) == {}
