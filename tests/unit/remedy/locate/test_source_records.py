"""Identification of the line or the row that a source cannot get past."""

from __future__ import annotations

import pytest

from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.row_positions import ID_SPAN, RowOrder
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.classify import Failure, FailureKind
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    NoIdentification,
    PartitionReading,
    SearchAnswer,
    SourceDelivery,
    SourceSubject,
    SubjectPartition,
    read_source_delivery,
)
from offsetwatch.remedy.locate.source_records import (
    find_in_source,
    parse_source_position,
)
from offsetwatch.remedy.model.plan import (
    PartitionOffset,
    RecordLocation,
    parse_next_offset,
    parse_position,
)
from tests.changed import replace

FILE = PartitionOffset('{"filename":"/in.txt"}', '{"position":4}')
TABLE = PartitionOffset('{"protocol":"1","table":"public.orders"}', '{"incrementing":7}')
TIMED = PartitionOffset(
    TABLE.partition,
    '{"incrementing":7,"timestamp":1767323045678,"timestamp_nanos":678901000}',
)
BY_ID, BY_TIME = RowOrder("id"), RowOrder("id", ("at",), "UTC", 5000)
EXACT = SourceDelivery(BY_ID, may_drop=False, exactly_once=False)
CAST = Failure(FailureKind.TRANSFORM, "transform", ("x.Y",), "0" * 16, None, None)
CASTS = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
}


def build_subject(
    *pairs: PartitionOffset,
    failure: Failure | None = CAST,
    settings: SourceDelivery = EXACT,
    moved: bool | None = False,
) -> SourceSubject:
    partitions = tuple(SubjectPartition(pair, moved, "1:2") for pair in pairs)
    return SourceSubject("c", "source:s", failure, partitions, settings)


def build_record(topic: str, offset: int, value: bytes) -> RawRecord:
    return RawRecord(topic, 0, offset, None, None, "none", None, value)


LINE = build_record("/in.txt", 7, b"two\n")
ROW = build_record("public.orders(id)", 9, b"{}")
LATER = build_record(
    "public.orders(at+id in UTC, 5000 ms)", 1_767_323_046_000_001_000 * ID_SPAN + 2, b"{}"
)


def find(subject: SourceSubject, *records: RawRecord, failures: int = 1) -> SearchAnswer:
    found = {record.topic: record for record in records}
    readings = {}
    for partition in subject.partitions:
        position = parse_source_position(partition.pair, subject.facts.order)
        assert position is not None
        record = found.get(position.partition.topic)
        end = position.next if record is None else record.offset + 1
        window = LogWindow(() if record is None else (record,), end, end, 0)
        readings[position.partition] = PartitionReading("1:2", window)
    return find_in_source(subject, readings, lambda *_: failures)


@pytest.mark.parametrize(
    ("pair", "record", "offset"),
    [(FILE, LINE, '{"position":8}'), (TABLE, ROW, '{"incrementing":9}')],
    ids=["line", "row"],
)
def test_the_record_is_the_next_one(pair: PartitionOffset, record: RawRecord, offset: str) -> None:
    answer = find(build_subject(pair), record)
    assert isinstance(answer, IdentifiedRecord), answer
    assert answer.record == RecordLocation("source:s", record.topic, "1:2", 0, record.offset)
    assert (answer.frm, answer.to) == (pair, PartitionOffset(pair.partition, offset))
    assert (answer.method, answer.sha256) == ("next_record", record.sha256)


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        (build_subject(FILE, failure=None), "no_failure"),
        (build_subject(FILE, failure=replace(CAST, veto="auth")), "vetoed"),
        (build_subject(FILE, failure=replace(CAST, stage="poll")), "stage_unknown"),
        (build_subject(FILE, settings=replace(EXACT, may_drop=True)), "may_drop"),
        (build_subject(FILE, settings=replace(EXACT, exactly_once=True)), "exactly_once"),
        (build_subject(FILE, settings=replace(EXACT, exactly_once=None)), "exactly_once_unknown"),
        (build_subject(FILE, moved=None), "not_failed_again"),
        (build_subject(FILE, moved=True), "nothing_to_read"),
        (build_subject(FILE, TABLE), "more_than_one_partition"),
        (build_subject(replace(FILE, offset='{"position":3}')), "inside_a_line"),
        (build_subject(replace(FILE, offset='{"position":8}')), "nothing_to_read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_record_is_named_unless_it_is_certain(subject: SourceSubject, reason: str) -> None:
    answer = find(subject, LINE, ROW)
    assert isinstance(answer, NoIdentification), answer
    assert answer.reason == reason


def test_the_next_row_by_time_may_have_a_lower_number() -> None:
    answer = find(build_subject(TIMED, settings=replace(EXACT, order=BY_TIME)), LATER)
    assert isinstance(answer, IdentifiedRecord), answer
    offset = '{"incrementing":2,"timestamp":1767323046000,"timestamp_nanos":1000}'
    assert (answer.record.offset, answer.to.offset) == (LATER.offset, offset)
    assert answer.evidence[0].value == "2026-01-02T03:04:06.000001Z/2"
    assert parse_position(answer.to) == LATER.offset
    assert parse_next_offset(answer.frm) == 1_767_323_045_678_901_000 * ID_SPAN + 8
    assert parse_next_offset(answer.to) == LATER.offset + 1


def test_a_record_that_came_after_the_failure_is_not_what_it_failed_on() -> None:
    answer = find(build_subject(FILE), LINE, failures=0)
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "not_failed_again"


def test_a_table_that_is_read_to_its_end_hides_no_other_partition() -> None:
    answer = find(build_subject(FILE, TABLE), LINE)
    assert isinstance(answer, IdentifiedRecord), answer
    assert answer.record.topic == "/in.txt"


@pytest.mark.parametrize(
    ("pair", "order"),
    [
        (TABLE, None),
        (TABLE, BY_TIME),
        (TIMED, BY_ID),
        (replace(TIMED, offset='{"timestamp":1}'), BY_TIME),
        (replace(TIMED, offset='{"incrementing":7,"timestamp":-1}'), BY_TIME),
        (replace(TIMED, partition='{"query":"query"}'), BY_TIME),
        (replace(TABLE, offset='{"incrementing":7,"timestamp":1}'), BY_ID),
        (replace(TABLE, offset='{"incrementing":"7"}'), BY_ID),
        (replace(TABLE, partition='{"query":"query"}'), BY_ID),
        (replace(FILE, offset='{"position":-1}'), None),
        (replace(FILE, offset=None), None),
        (PartitionOffset('{"server":"shop"}', '{"lsn":4}'), None),
    ],
)
def test_an_offset_of_another_order_has_no_position(
    pair: PartitionOffset, order: RowOrder | None
) -> None:
    assert parse_source_position(pair, order) is None


def test_the_partition_of_a_position_names_table_and_column() -> None:
    position = parse_source_position(TABLE, BY_ID)
    assert position == (TopicPartition("public.orders(id)", 0), 8)


@pytest.mark.parametrize(
    ("config", "worker", "expected"),
    [
        ({}, {}, SourceDelivery(BY_ID, may_drop=False, exactly_once=False)),
        ({}, None, SourceDelivery(BY_ID, may_drop=False, exactly_once=None)),
        (CASTS, {}, SourceDelivery(BY_ID, may_drop=False, exactly_once=False)),
        (
            {},
            {"exactly.once.source.support": "preparing"},
            SourceDelivery(BY_ID, may_drop=False, exactly_once=True),
        ),
        (
            {"errors.tolerance": "all"},
            {"exactly.once.source.support": "DISABLED "},
            SourceDelivery(BY_ID, may_drop=True, exactly_once=False),
        ),
        (
            CASTS | {"transforms.cast.type": "org.apache.kafka.connect.transforms.Filter"},
            {},
            SourceDelivery(BY_ID, may_drop=True, exactly_once=False),
        ),
        (
            CASTS | {"transforms.cast.type": "org.example.Own"},
            {},
            SourceDelivery(BY_ID, may_drop=True, exactly_once=False),
        ),
        (
            CASTS | {"transforms.cast.type": "${file:/x:y}"},
            {},
            SourceDelivery(BY_ID, may_drop=True, exactly_once=False),
        ),
    ],
)
def test_settings_that_matter_for_the_search(
    config: dict[str, str], worker: dict[str, str | None] | None, expected: SourceDelivery
) -> None:
    assert read_source_delivery(config, BY_ID, worker) == expected
