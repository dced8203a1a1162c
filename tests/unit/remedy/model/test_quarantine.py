"""A record in its copy, and out of it again."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.model import quarantine
from offsetwatch.remedy.model.quarantine import (
    CHUNK_BYTES,
    COUNT_HEADER,
    OWN_HEADER_PREFIX,
    DamagedCopy,
    QuarantineContext,
    QuarantinedRecord,
    QuarantineFileHead,
    Receipt,
    build_copy_headers,
    build_file_lines,
    choose_partition,
    compute_key_id,
    compute_receipt_id,
    parse_file_head,
    parse_file_lines,
    rebuild_record,
)

RECORD = RawRecord("orders", 3, 1234, 5, 1_800_000_000_000, "create", b"k", b"v", (("h", b"1"),))
ABOUT = QuarantineContext(
    skip_key="a" * 64,
    plan_id="p-1",
    incident="lab/orders-sink/poison",
    connector="orders-sink",
    connect_cluster="lab",
    kafka="east",
    topic_id="id-of-orders",
    cluster_id="id-of-east",
    stage="converter_value",
    exception_class="org.apache.kafka.connect.errors.DataException",
    task_id="0",
    class_name="org.apache.kafka.connect.json.JsonConverter",
)
BARE = QuarantineContext("a" * 64, "p-1", "i", "c", "lab", "east")


def copy_of(record: RawRecord, about: QuarantineContext = ABOUT) -> RawRecord:
    """As it lies in the topic."""
    return RawRecord(
        topic="set-aside",
        partition=0,
        offset=77,
        leader_epoch=0,
        timestamp_ms=1_900_000_000_000,
        timestamp_type="append",
        key=record.key,
        value=record.value,
        headers=build_copy_headers(record, about),
    )


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        replace(RECORD, key=None, value=None, headers=()),
        replace(RECORD, key=b"", value=b"", headers=(("", None), ("", b""))),
        replace(RECORD, timestamp_ms=None, timestamp_type="none", leader_epoch=None),
        replace(RECORD, headers=build_copy_headers(RECORD, ABOUT)),
        replace(RECORD, headers=((COUNT_HEADER, b"0"), (COUNT_HEADER, None))),
        replace(RECORD, timestamp_type="append"),
    ],
    ids=["plain", "null", "empty", "no time", "a copy of a copy", "names like ours", "append"],
)
@pytest.mark.parametrize("about", [ABOUT, BARE], ids=["all", "little"])
def test_a_record_comes_out_of_topic_and_file_as_it_went_in(record, about):
    assert rebuild_record(copy_of(record, about)) == QuarantinedRecord(record, about)
    assert parse_file_lines(build_file_lines(record, about, 1.5)) == QuarantinedRecord(
        record, about
    )


def test_tools_for_connects_dead_letter_queue_find_what_they_search_for():
    report = dict(build_copy_headers(RECORD, ABOUT))
    assert {
        name: value for name, value in report.items() if name.startswith("__connect.errors.")
    } == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"1234",
        "__connect.errors.connector.name": b"orders-sink",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"org.apache.kafka.connect.json.JsonConverter",
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    }
    assert report["h"] == b"1"


@pytest.mark.parametrize(
    ("stage", "connects"),
    [
        ("converter_key", b"KEY_CONVERTER"),
        ("converter_value", b"VALUE_CONVERTER"),
        ("converter_header", b"HEADER_CONVERTER"),
        ("transform", b"TRANSFORMATION"),
        ("put", b"TASK_PUT"),
        ("producer_send", b"KAFKA_PRODUCE"),
        ("poll", b"TASK_POLL"),
        ("start", b"start"),
        ("unknown", b"unknown"),
        (None, None),
    ],
)
def test_a_stage_is_reported_back_whether_connect_has_a_name_for_it_or_not(stage, connects):
    about = QuarantineContext("k", "p", "i", "c", "lab", "east", stage=stage)
    assert dict(build_copy_headers(RECORD, about)).get("__connect.errors.stage") == connects
    result = rebuild_record(copy_of(RECORD, about))
    assert isinstance(result, QuarantinedRecord)
    assert result.about.stage == stage


def test_whether_a_part_was_null_is_reported_in_words():
    report = dict(build_copy_headers(replace(RECORD, key=None), ABOUT))
    assert (report[f"{OWN_HEADER_PREFIX}null_key"], report[f"{OWN_HEADER_PREFIX}null_value"]) == (
        b"true",
        b"false",
    )


def test_nothing_of_what_was_written_is_changed():
    assert parse_file_head(next(build_file_lines(RECORD, ABOUT, 1.5))).sha256 == RECORD.sha256
    lines = [noun for noun in vars(quarantine).values() if isinstance(noun, type)]
    nouns = [noun for noun in lines if issubclass(noun, msgspec.Struct)]
    assert {QuarantineContext, Receipt, QuarantineFileHead} < set(nouns)
    assert [noun.__name__ for noun in nouns if not noun.__struct_config__.frozen] == []


def test_a_foreign_record_in_the_topic_is_no_copy():
    assert rebuild_record(RECORD) is None
    assert rebuild_record(replace(RECORD, headers=())) is None


@pytest.mark.parametrize(
    "change",
    [
        {"key": b"other"},
        {"key": None},
        {"value": b""},
        {"value": None},
        {"headers": build_copy_headers(RECORD, ABOUT)[1:]},
        {"headers": (("h", b"2"), *build_copy_headers(RECORD, ABOUT)[1:])},
        {"headers": (*build_copy_headers(RECORD, ABOUT)[:-1], (COUNT_HEADER, b"2"))},
        {"headers": (*build_copy_headers(RECORD, ABOUT)[:-1], (COUNT_HEADER, b"99"))},
        {"headers": (*build_copy_headers(RECORD, ABOUT)[:-1], (COUNT_HEADER, b"many"))},
        {"headers": (*build_copy_headers(RECORD, ABOUT)[:-1], (COUNT_HEADER, None))},
        {
            "headers": (
                *build_copy_headers(RECORD, ABOUT)[:-1],
                (f"{OWN_HEADER_PREFIX}kafka", b"x"),
                (COUNT_HEADER, b"1"),
            )
        },
        {
            "headers": tuple(
                (name, None if name == f"{OWN_HEADER_PREFIX}plan_id" else value)
                for name, value in build_copy_headers(RECORD, ABOUT)
            )
        },
        {
            "headers": build_copy_headers(replace(RECORD, timestamp_ms=1), ABOUT)[:-4]
            + build_copy_headers(RECORD, ABOUT)[-4:]
        },
    ],
)
def test_a_copy_that_was_changed_is_damaged(change):
    assert isinstance(rebuild_record(replace(copy_of(RECORD), **change)), DamagedCopy)


@pytest.mark.parametrize("number", range(len(build_copy_headers(RECORD, ABOUT))))
def test_a_copy_that_lacks_one_of_its_headers_passes_for_nothing_else(number):
    headers = [*build_copy_headers(RECORD, ABOUT)]
    headers[number] = ("something else", None)
    result = rebuild_record(replace(copy_of(RECORD), headers=tuple(headers)))
    assert result is None or isinstance(result, DamagedCopy) or result.record == RECORD


@pytest.mark.parametrize("key", [None, b""], ids=["null", "empty"])
def test_null_that_became_empty_is_damaged_and_so_is_the_reverse(key):
    copy = copy_of(replace(RECORD, key=key))
    assert isinstance(rebuild_record(replace(copy, key=b"" if key is None else None)), DamagedCopy)


def test_a_large_value_is_in_pieces_and_its_length_is_reported():
    large = replace(RECORD, key=b"k" * CHUNK_BYTES, value=bytes(range(256)) * 9000)
    lines = list(build_file_lines(large, ABOUT, 1.5))
    assert len(lines) == 1 + 1 + 3 + 1
    assert max(len(line) for line in lines) < 1_100_000
    assert parse_file_lines(lines) == QuarantinedRecord(large, ABOUT)
    file_head = parse_file_head(lines[0])
    assert not isinstance(file_head, DamagedCopy)
    assert (file_head.key_bytes, file_head.value_bytes) == (CHUNK_BYTES, 256 * 9000)


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda lines: [],
        lambda lines: lines[:-1],
        lambda lines: lines[:1],
        lambda lines: [*lines, b'{"lines":4}\n'],
        lambda lines: [lines[0], lines[2], lines[3]],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [lines[0], lines[1][:10], lines[2], lines[3]],
        lambda lines: [lines[0].replace(b'"orders"', b'"order"'), *lines[1:-1], b'{"lines":5}\n'],
        lambda lines: [*lines[:2], lines[2].replace(b"aw==", b"YQ=="), lines[3]],
        lambda lines: [b"\xff", *lines[1:]],
        lambda lines: [b'{"x":' + b"[" * 100_000, *lines[1:]],
        lambda lines: [lines[0], b'{"x":' + b"[" * 100_000, *lines[2:]],
    ],
)
def test_a_file_that_was_changed_is_damaged(spoilt):
    lines = list(build_file_lines(replace(RECORD, key=b"v", value=b"k"), ABOUT, 1.5))
    changed = spoilt(lines)
    if changed == [lines[0], lines[2], lines[1], lines[3]]:
        assert isinstance(
            parse_file_lines(changed), QuarantinedRecord
        )  # whose pieces these are is in each
    else:
        assert isinstance(parse_file_lines(changed), DamagedCopy)


def test_a_file_can_be_read_without_us():
    first, key, value, _ = (json.loads(line) for line in build_file_lines(RECORD, ABOUT, 1.5))
    assert (first["topic"], first["partition"], first["offset"]) == ("orders", 3, 1234)
    assert first["headers"] == [["h", "MQ=="]]
    assert (key, value) == ({"of": "key", "data": "aw=="}, {"of": "value", "data": "dg=="})


def test_the_partition_is_the_same_for_the_same_key_and_all_are_used():
    keys = [f"{number:064x}" for number in range(200)]
    results = [choose_partition(key, 6) for key in keys]
    assert results == [choose_partition(key, 6) for key in keys]
    assert set(results) == set(range(6))
    # Copies of earlier releases are looked for where those put them.
    expected = [3, 2, 3, 1, 1, 6, 6, 2, 5, 2, 5, 1]
    assert [choose_partition(str(number), 7) for number in range(12)] == expected


def test_an_id_begins_as_all_ids_of_its_key_do():
    assert compute_receipt_id("k", RECORD.sha256).startswith(compute_key_id("k"))
    assert compute_receipt_id("k", RECORD.sha256) != compute_receipt_id(
        "k", replace(RECORD, key=None).sha256
    )
    assert not compute_receipt_id("l", RECORD.sha256).startswith(compute_key_id("k"))
    assert compute_receipt_id("k", "0123456789abcdef" * 4) == "8254c329a92850f60123456789abcdef"
