"""RecordReader against librdkafka's own broker, with batches that no client would write."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Message

from offsetwatch.clients.records import crc_check
from offsetwatch.clients.records import reader as records_read
from offsetwatch.clients.records.crc_check import ChecksumResult, verify_checksums
from offsetwatch.clients.records.reader import IncompleteRead, LogWindow, RawRecord, RecordReader
from offsetwatch.config.schema.types import import_function
from offsetwatch.errors import (
    ClientError,
    LeaderNotAvailable,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    TopicChanged,
)
from offsetwatch.model.topology import TopicPartition
from tests.fakes.batches import batch, record, store
from tests.fakes.broker import PARTITIONS, MockBroker
from tests.fakes.tokens import unsigned

TIMEOUT_S = 60.0  # a child has to start, beside whatever else this machine does
SOON_S = 1.0
AT = TopicPartition("orders", 2)
STAMP_MS = 1_800_000_000_000


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    running = MockBroker()
    running.produce("orders", b"first", b"v", partition=AT.partition, at=STAMP_MS / 1000)
    yield running
    running.stop()


@pytest.fixture
def reader(broker: MockBroker) -> Iterator[RecordReader]:
    with opened(broker) as built:
        yield built


@pytest.fixture
def checking(broker: MockBroker) -> Iterator[RecordReader]:
    with opened(broker, check_crcs=True) as built:
        yield built


def opened(broker: MockBroker, *, check_crcs: bool = False) -> RecordReader:
    properties = {"bootstrap.servers": broker.bootstrap}
    return RecordReader("east", properties, committed=True, check_crcs=check_crcs)


def written(broker: MockBroker, *stored: bytes) -> None:
    for one in stored:
        store(broker.bootstrap, AT.topic, AT.partition, one)


def read(reader: RecordReader, start: int = 0, **more) -> LogWindow:
    expected = {"count_max": 100, "bytes_max": 10_000_000, "timeout_s": TIMEOUT_S, **more}
    return reader.window(AT, start, **expected)


def values(window: LogWindow) -> list[bytes | None]:
    return [stored_record.value for stored_record in window.records]


def test_null_and_empty_are_distinguished_in_keys_values_and_headers(broker, reader):
    headers = ((b"a", None), (b"a", b""), (b"", b"x"), ("é☃😀".encode(), b"\0"), (b"a", b"2"))
    written(
        broker,
        batch(record(None, None)),
        batch(record(b"", b"", headers)),
        batch(record(b"k", None), record(None, b"v", delta=1)),
    )
    window = read(reader, 1)
    assert [(stored_record.key, stored_record.value) for stored_record in window.records] == [
        (None, None),
        (b"", b""),
        (b"k", None),
        (None, b"v"),
    ]
    assert window.records[1].headers == (
        ("a", None),
        ("a", b""),
        ("", b"x"),
        ("é☃😀", b"\0"),
        ("a", b"2"),
    )
    assert window.records[0].headers == ()


def test_a_timestamp_comes_with_its_timestamp_type(broker, reader):
    written(
        broker,
        batch(record(b"k", b"v"), timestamp_ms=0),
        batch(record(b"k", b"v"), timestamp_ms=-1),
        batch(record(b"k", b"v"), append_time=True),
    )
    stamps = [
        (stored_record.timestamp_ms, stored_record.timestamp_type)
        for stored_record in read(reader).records
    ]
    assert stamps == [(STAMP_MS, "create"), (0, "create"), (None, "none"), (STAMP_MS, "append")]


def test_a_record_knows_where_it_lies(reader):
    (result,) = read(reader).records
    assert result == RawRecord(
        "orders", 2, 0, result.leader_epoch, STAMP_MS, "create", b"first", b"v", ()
    )


def test_a_window_ends_at_the_end_and_says_so(broker, reader):
    written(broker, *(batch(record(b"k", b"v%d" % number)) for number in range(3)))
    window = read(reader, 1)
    assert values(window) == [b"v0", b"v1", b"v2"]
    assert (window.next_offset, window.end, window.log_start, window.corrupt_at) == (4, 4, 0, None)
    assert read(reader, 4) == LogWindow((), 4, 4, 0)


def test_a_window_ends_before_until_after_its_count_and_before_its_bytes(broker, reader):
    written(broker, *(batch(record(b"k", b"v" * 1000)) for _ in range(4)))
    assert (read(reader, 1, until=3).next_offset, len(read(reader, 1, until=3).records)) == (3, 2)
    assert read(reader, 2, until=2) == LogWindow((), 2, 5, 0)
    assert read(reader, 1, until=99).next_offset == 5
    assert (
        read(reader, 1, count_max=3).next_offset,
        len(read(reader, 1, count_max=3).records),
    ) == (
        4,
        3,
    )
    assert len(read(reader, 1, bytes_max=2500).records) == 2
    assert read(reader, 1, bytes_max=2500).next_offset == 3
    assert len(read(reader, 1, bytes_max=10).records) == 1  # a record larger than that is read


def test_a_record_larger_than_what_is_fetched_at_once_is_read_whole(broker, reader):
    broker.produce("orders", b"k", b"v" * 900_000, partition=AT.partition)
    written(broker, batch(record(b"k", b"w" * 3_000_000)), batch(record(b"k", b"after")))
    assert [len(value or b"") for value in values(read(reader, 1))] == [900_000, 3_000_000, 5]


def test_a_batch_that_fails_its_sum_ends_the_window_where_it_begins(broker, checking):
    bad = record(b"k", b"bad" * 30)
    written(broker, batch(record(b"k", b"good")))
    written(broker, batch(bad, record(b"k", b"too", delta=1), crc_flipped=1))
    written(broker, batch(record(b"k", b"after")))
    window = read(checking)
    assert values(window) == [b"v", b"good"]
    assert (window.corrupt_at, window.next_offset, window.end) == (2, 2, 5)
    assert read(checking, 3).corrupt_at == 3  # in the middle of it
    assert read(checking, 0, until=2) == replace(window, corrupt_at=None)
    assert values(read(checking, 4)) == [b"after"]


def test_without_the_check_the_bytes_of_a_bad_batch_are_salvaged(broker, reader):
    written(broker, batch(record(b"k", b"bad"), crc_flipped=1), batch(record(b"k", b"after")))
    window = read(reader, 1)
    assert (values(window), window.corrupt_at) == ([b"bad", b"after"], None)


@pytest.mark.parametrize("size", [43, 58, 59])
def test_a_batch_at_which_the_client_dies_is_found_by_that(broker, checking, size):
    """librdkafka 2.16 fails an assertion at batches of these sizes."""
    written(broker, batch(record(b"k", b"good")))
    written(broker, batch(record(b"k", b"x" * size), crc_flipped=1))
    window = read(checking)
    assert values(window) == [b"v", b"good"]
    assert window.corrupt_at == 2


def test_what_could_not_be_checked_in_time_is_not_corrupt_and_not_reported(broker):
    properties = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "logger": None}
    assert verify_checksums(properties, AT, 0, 1, timeout_s=0.0) == ChecksumResult(0, corrupt=False)
    assert verify_checksums(properties, AT, 0, 1, timeout_s=TIMEOUT_S) == ChecksumResult(
        1, corrupt=False
    )
    broker.stop()
    assert verify_checksums(properties, AT, 0, 1, timeout_s=SOON_S) == ChecksumResult(
        0, corrupt=False
    )


def test_a_child_is_reported_by_name_where_tokens_come_from():
    assert import_function(crc_check._format_hook_name(unsigned)) is unsigned


def test_what_is_checked_goes_on_behind_markers_and_what_was_compacted_away(broker):
    properties = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "logger": None}
    assert verify_checksums(properties, AT, 0, 7, timeout_s=TIMEOUT_S) == ChecksumResult(
        7, corrupt=False
    )


@pytest.mark.parametrize(
    "bad",
    [batch(record(b"k", b"v"), codec=1, payload=b"no gzip"), batch(record(b"k", b"v"), magic=7)],
    ids=["cannot be decompressed", "of no format there is"],
)
def test_a_batch_that_cannot_be_decoded_is_corrupt_without_a_check_too(broker, reader, bad):
    written(broker, bad, batch(record(b"k", b"after")))
    window = read(reader)
    assert (values(window), window.corrupt_at, window.next_offset) == ([b"v"], 1, 1)


def test_a_batch_that_is_cut_short_is_not_passed_over(broker, reader):
    whole = record(b"k", b"v")
    written(broker, batch(whole, whole, payload=whole + b"\x90\x01\x00"))
    with pytest.raises(IncompleteRead, match="orders-2: read up to 2 of 3 in 1 s") as caught:
        read(reader, timeout_s=SOON_S)
    assert values(caught.value.partial) == [b"v", b"v"]
    assert caught.value.partial.next_offset == 2


@pytest.mark.parametrize("first", [b"\xff\xfe", b"a"])
def test_a_header_name_that_is_no_text_is_an_error_however_often_it_is_read(broker, reader, first):
    """More often than it takes Python to begin calling methods by its shortcut."""
    headers = ((first, b"1"), (b"\xff\xfe", b"2"))
    written(broker, batch(record(b"k", b"v", headers)), batch(record(b"k", b"after")))
    for _ in range(30):
        with pytest.raises(MalformedResponse, match="orders-2@1"):
            read(reader, 1)
    assert values(read(reader, 2)) == [b"after"]


def test_what_is_not_there_is_an_error_and_does_not_come_to_be(broker, reader):
    with pytest.raises(NotFound):
        reader.window(
            TopicPartition("orders", PARTITIONS), 0, count_max=1, bytes_max=1, timeout_s=TIMEOUT_S
        )
    with pytest.raises(TopicChanged):
        read(reader, 7)
    assert values(read(reader)) == [b"v"]


def test_a_cluster_that_is_away_is_an_error_and_no_empty_window(broker, reader):
    broker.stop()
    with pytest.raises(ClientError):
        read(reader, timeout_s=2.0)


# --- time that runs out ---------------------------------------------------------------------------


class ScriptedConsumer:
    """A Consumer that hands out what it is told to, and then waits in vain, on a clock of its own.
    Each poll takes a tenth of a second.
    """

    def __init__(self, end: int, *script: Message | None) -> None:
        self.now = 0.0
        self._end = end
        self._script = deque(script)

    def get_watermark_offsets(self, *_args: object, **_more: object) -> tuple[int, int]:
        return (0, self._end)

    def assign(self, _partitions: object) -> None:
        pass

    def unassign(self) -> None:
        pass

    def close(self) -> None:
        pass

    def poll(self, _timeout_s: float) -> Message | None:
        self.now += 0.1
        return self._script.popleft() if self._script else None

    def monotonic(self) -> float:
        return self.now


def stored(offset: int) -> Message:
    return Message(topic=AT.topic, partition=AT.partition, offset=offset, value=b"%d" % offset)


def end_at(offset: int) -> Message:
    error = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic=AT.topic, partition=AT.partition, offset=offset, error=error)


@pytest.fixture
def window_of(monkeypatch: pytest.MonkeyPatch):
    def read_of(consumer: ScriptedConsumer, start: int = 0, *, sound_to: int | None = None, **more):
        monkeypatch.setattr(records_read, "create_client", lambda *_: consumer)
        monkeypatch.setattr(records_read, "time", SimpleNamespace(monotonic=consumer.monotonic))
        monkeypatch.setattr(
            records_read,
            "verify_checksums",
            lambda *_: ChecksumResult(sound_to or 0, corrupt=False),
        )
        checked = RecordReader("east", {}, committed=True, check_crcs=sound_to is not None)
        return read(checked, start, **{"timeout_s": SOON_S, **more})

    return read_of


def short_read(window_of, *args, **more) -> IncompleteRead:
    with pytest.raises(IncompleteRead) as caught:
        window_of(*args, **more)
    return caught.value


def test_a_read_of_which_nothing_came_in_time_is_no_empty_log(window_of):
    incomplete = short_read(window_of, ScriptedConsumer(4))
    assert isinstance(incomplete, ResponseTimeout)
    assert (incomplete.target, incomplete.detail) == ("east/orders-2", "read up to 0 of 4 in 1 s")
    assert incomplete.partial == LogWindow((), 0, 4, 0)


def test_an_incomplete_read_has_the_records_from_before_the_timeout(window_of):
    incomplete = short_read(window_of, ScriptedConsumer(4, stored(0), None, stored(1)))
    assert values(incomplete.partial) == [b"0", b"1"]
    assert (incomplete.partial.next_offset, incomplete.partial.end) == (2, 4)


@pytest.mark.parametrize(("until", "detail"), [(3, "read up to 1 of 3"), (9, "read up to 1 of 4")])
def test_how_far_a_read_was_to_go_is_reported(window_of, until, detail):
    assert detail in str(short_read(window_of, ScriptedConsumer(4, stored(0)), until=until))


def test_a_replica_that_is_behind_its_leader_does_not_say_where_the_log_ends(window_of):
    lags = [end_at(0), stored(0), stored(1), end_at(2)]
    assert short_read(window_of, ScriptedConsumer(4, *lags)).partial.next_offset == 2
    caught_up = ScriptedConsumer(4, *lags, stored(2), end_at(4))
    assert window_of(caught_up).next_offset == 4


@pytest.mark.parametrize("more", [(), (stored(2),)], ids=["the end", "what came since"])
def test_a_read_that_got_to_the_end_that_there_was_is_complete_without_its_event(window_of, more):
    result = window_of(ScriptedConsumer(2, stored(0), stored(1), *more))
    assert result.next_offset == result.end == 2 + len(more)


def test_a_log_that_ends_before_the_start_is_not_taken_for_one_that_was_read(window_of):
    assert short_read(window_of, ScriptedConsumer(2), 4).partial.records == ()


def test_records_of_which_the_sums_were_not_checked_in_time_are_not_all_there_are(window_of):
    log = [stored(0), stored(1), stored(2), end_at(3)]
    incomplete = short_read(window_of, ScriptedConsumer(3, *log), sound_to=2)
    assert incomplete.detail == "checksums verified up to 2 of 3 in 1 s"
    assert (values(incomplete.partial), incomplete.partial.corrupt_at) == ([b"0", b"1"], None)
    assert len(window_of(ScriptedConsumer(3, *log), sound_to=3).records) == 3


def test_a_broker_that_names_no_end_of_the_log_is_not_one_of_an_empty_log(window_of):
    with pytest.raises(LeaderNotAvailable, match="orders-2"):
        window_of(ScriptedConsumer(-1001))


def test_a_batch_that_is_corrupt_behind_what_was_requested_does_not_shorten_it(window_of):
    bad = Message(
        topic=AT.topic, partition=AT.partition, offset=3, error=KafkaError(KafkaError._BAD_MSG)
    )
    result = window_of(ScriptedConsumer(4, stored(0), bad), until=2)
    assert (result.next_offset, result.corrupt_at) == (2, None)
