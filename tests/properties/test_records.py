"""For all records: no two hash alike, and each comes out of its copy as it went in."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.model.quarantine import (
    CONNECT_HEADER_PREFIX,
    COUNT_HEADER,
    OWN_HEADER_PREFIX,
    DamagedCopy,
    QuarantineContext,
    QuarantinedRecord,
    build_copy_headers,
    build_file_lines,
    parse_file_lines,
    rebuild_record,
)

parts = st.none() | st.binary(max_size=6)
# Names that a Kafka client can hand over: any text; often such as ours.
names = st.one_of(
    st.text(max_size=4),
    st.sampled_from(
        [
            "",
            COUNT_HEADER,
            f"{OWN_HEADER_PREFIX}sha256",
            f"{OWN_HEADER_PREFIX}null_key",
            f"{CONNECT_HEADER_PREFIX}topic",
            "a",
            "aa",
        ]
    ),
)
stamps = st.one_of(
    st.just((None, "none")),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["create", "append"])),
)
texts = st.text(max_size=4)
maybe = st.none() | texts


@st.composite
def records(draw) -> RawRecord:
    stamp, kind = draw(stamps)
    return RawRecord(
        topic=draw(texts),
        partition=draw(st.integers(0, 2**31 - 1)),
        offset=draw(st.integers(0, 2**63 - 1)),
        leader_epoch=draw(st.none() | st.integers(0, 2**31 - 1)),
        timestamp_ms=stamp,
        timestamp_type=kind,
        key=draw(parts),
        value=draw(parts),
        headers=tuple(draw(st.lists(st.tuples(names, parts), max_size=4))),
    )


abouts = st.builds(
    QuarantineContext,
    *[texts] * 7,
    cluster_id=maybe,
    stage=maybe,
    exception_class=maybe,
    task_id=maybe,
)


def list_fields(record: RawRecord) -> tuple[object, ...]:
    return (record.key, record.value, record.headers, record.timestamp_ms, record.timestamp_type)


@given(records(), records())
def test_two_records_hash_alike_only_if_they_hold_the_same(one, other):
    assert (one.sha256 == other.sha256) == (list_fields(one) == list_fields(other))


@given(records(), st.data())
def test_a_byte_that_moves_to_the_next_part_makes_it_another_record(record, data):
    """Key and value, or a header's name and value, that are the same bytes one after the other."""
    whole = (record.key or b"") + (record.value or b"")
    cut = data.draw(st.integers(0, len(whole)))
    moved = replace(record, key=whole[:cut], value=whole[cut:])
    assert (moved.sha256 == record.sha256) == (list_fields(moved) == list_fields(record))


def copy_of(record: RawRecord, about: QuarantineContext) -> RawRecord:
    return RawRecord(
        "copies", 0, 0, 0, 1, "append", record.key, record.value, build_copy_headers(record, about)
    )


@given(records(), abouts)
def test_every_record_comes_out_of_a_topic_as_it_went_in(record, about):
    result = rebuild_record(copy_of(record, about))
    assert result == QuarantinedRecord(record, about)
    assert result.record.sha256 == record.sha256


@given(records(), abouts)
def test_every_record_comes_out_of_a_file_as_it_went_in(record, about):
    assert parse_file_lines(build_file_lines(record, about, 1.0)) == QuarantinedRecord(
        record, about
    )


@given(records(), abouts, abouts)
def test_a_copy_of_a_copy_comes_out_as_a_copy(record, first, second):
    once = copy_of(record, first)
    assert rebuild_record(copy_of(once, second)) == QuarantinedRecord(once, second)


@given(records(), abouts, st.data())
def test_no_copy_that_was_changed_passes_for_what_was_written(record, about, data):
    copy = copy_of(record, about)
    number = data.draw(st.integers(0, len(copy.headers)))
    other = data.draw(st.tuples(names, parts))
    headers = (*copy.headers[:number], other, *copy.headers[number + 1 :])
    result = rebuild_record(replace(copy, headers=headers))
    # What it tells beside the record may differ, and is not vouched for; the record may not.
    if not isinstance(result, QuarantinedRecord):
        assert result is None or isinstance(result, DamagedCopy)
    else:
        assert list_fields(result.record) == list_fields(record)
        assert result.record.sha256 == record.sha256


@given(records(), abouts, st.data())
def test_no_file_that_was_changed_passes_for_what_was_written(record, about, data):
    content = bytearray(b"".join(build_file_lines(record, about, 1.0)))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    file_lines = parse_file_lines(bytes(content).splitlines(keepends=True))
    if isinstance(file_lines, QuarantinedRecord):
        assert list_fields(file_lines.record) == list_fields(record)
