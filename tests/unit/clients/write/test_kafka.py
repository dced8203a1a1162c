"""RecordWriter against librdkafka's own broker; what that cannot do is proved in tests/real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsetwatch.clients.records.reader import RecordReader
from offsetwatch.clients.write.kafka import REQUEST_BYTES_MAX, OutgoingRecord, RecordWriter
from offsetwatch.errors import AmbiguousOutcome, MalformedResponse, NotFound, SizeLimitExceeded
from offsetwatch.model.records import RawRecord
from offsetwatch.model.topology import TopicPartition
from tests.fakes.broker import PARTITIONS, MockBroker

SOON_S, PATIENT_S = 1.0, 60.0


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    running = MockBroker()
    running.produce("copies", b"first", b"v", partition=2)
    yield running
    running.stop()


@pytest.fixture
def writer(broker: MockBroker) -> RecordWriter:
    return writer_of(broker, PATIENT_S)


def writer_of(broker: MockBroker, seconds: float) -> RecordWriter:
    properties = {"bootstrap.servers": broker.bootstrap}
    return RecordWriter("east", properties, delivery_timeout_s=seconds)


def at(broker: MockBroker, offset: int) -> RawRecord:
    properties = {"bootstrap.servers": broker.bootstrap}
    with RecordReader("east", properties, committed=False, check_crcs=False) as reader:
        window = reader.window(
            TopicPartition("copies", 2), offset, count_max=1, bytes_max=1, timeout_s=10.0
        )
    return window.records[0]


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (None, None, ()),
        (b"", b"", (("", None), ("", b""), ("é☃😀", b"\0"))),
        (b"\0\xff", None, (("a", b"1"), ("b", b"2"), ("a", b"1"))),
        (None, b"v" * 3_000_000, ()),
    ],
)
def test_what_is_written_is_read_exactly_so(broker, writer, key, value, headers):
    offset = writer.write(OutgoingRecord("copies", 2, key, value, headers, timestamp_ms=5))
    assert offset == 1
    record = at(broker, offset)
    assert (record.key, record.value, record.headers) == (key, value, headers)
    assert (record.timestamp_ms, record.timestamp_type) == (5, "create")


def test_without_a_timestamp_it_is_given_one(broker, writer):
    assert at(broker, writer.write(OutgoingRecord("copies", 2, b"k", b"v", ()))).timestamp_ms


@pytest.mark.parametrize(
    "record",
    [
        OutgoingRecord("copies", 2, b"k", b"v", (("\ud800", b"1"),)),
        OutgoingRecord("copies", 2, b"k", b"v", (("a\0b", b"1"),)),
        OutgoingRecord("copies", 2, b"k", b"v", (), timestamp_ms=0),
    ],
    ids=["a name that is no text", "a name that would be cut", "a time that would be another"],
)
def test_what_would_be_sent_otherwise_than_it_is_is_not_sent(broker, writer, record):
    with pytest.raises(MalformedResponse):
        writer.write(record)
    assert writer.write(OutgoingRecord("copies", 2, b"k", b"v", ())) == 1


def test_what_goes_into_no_request_is_too_large(writer):
    with pytest.raises(SizeLimitExceeded):
        writer.write(OutgoingRecord("copies", 2, None, bytes(REQUEST_BYTES_MAX), ()))


def test_a_partition_that_is_not_there_is_a_definite_no(writer):
    with pytest.raises(NotFound):
        writer.write(OutgoingRecord("copies", PARTITIONS, b"k", b"v", ()))


def test_a_broker_that_is_away_leaves_it_open_whether_it_was_written(broker):
    broker.stop()
    with pytest.raises(AmbiguousOutcome):
        writer_of(broker, SOON_S).write(OutgoingRecord("copies", 2, b"k", b"v", ()))
