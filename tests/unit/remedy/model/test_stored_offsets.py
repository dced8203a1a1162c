"""What keys, values and partitions of an offsets topic mean, and what is written to change it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.decode.partitioner import partition_of
from offsetwatch.errors import RemoteRefusal
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.model.plan import LocatedRawRecord, PartitionOffset, RawOffsetRecord
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    StoredOffsetRecord,
    build_reset_records,
    build_set_records,
    decode_record_value,
    index_by_key,
    list_connectors,
    list_notes,
    list_pairs,
    list_raw_records,
)
from offsetwatch.toolbox.documents import OffsetsDocument, format_kip199, parse_document

FILE = '{"filename":"/x"}'
KEY = b'["c",{"filename":"/x"}]'
MIRROR = '{"cluster":"a","partition":3,"topic":"orders"}'
MIRROR_KEY = b'["m",{"cluster":"a","partition":3,"topic":"orders"}]'
MIRROR_VARIANT = b'["m",{"topic":"orders","partition":3,"cluster":"a"}]'
ENVELOPED = b'{"schema":null,"payload":["c",{"filename":"/x"}]}'
AT_1 = b'{"position":1}'
AT_2 = b'{"position":2}'


def topic(
    *stored: StoredOffsetRecord, keys: bool = False, values: bool = False
) -> OffsetStoreContents:
    return OffsetStoreContents(
        "east/offsets", stored, 25, keys_in_envelope=keys, values_in_envelope=values
    )


def record(key: bytes, value: bytes | None, kpartition: int | None) -> RawOffsetRecord:
    return RawOffsetRecord(
        key=base64.b64encode(key).decode(),
        value=None if value is None else base64.b64encode(value).decode(),
        kpartition=kpartition,
    )


def test_a_task_is_handed_what_stands_under_the_key_that_connect_looks_up():
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 20),
        StoredOffsetRecord(MIRROR_VARIANT, b'{"offset":7}', 1),
        StoredOffsetRecord(b'["c",{"filename":"/gone"}]', None, 2),
        StoredOffsetRecord(None, AT_1, 0),
        StoredOffsetRecord(b"avro", AT_1, 0),
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert list_pairs(contents, "m") == ()
    two = topic(
        *(StoredOffsetRecord(b'["c",{"filename":"/%s"}]' % name, AT_1, 1) for name in (b"b", b"a"))
    )
    assert [pair.partition for pair in list_pairs(two, "c")] == [
        '{"filename":"/a"}',
        '{"filename":"/b"}',
    ]
    assert list_connectors(contents) == ("c", "m")
    assert list_connectors(
        topic(StoredOffsetRecord(MIRROR_KEY, AT_1, 1), StoredOffsetRecord(KEY, AT_1, 1))
    ) == ("c", "m")


@pytest.mark.parametrize("value", [b"null", b"", b"[1]", None])
def test_a_task_is_handed_no_offset_that_is_none(value):
    assert list_pairs(topic(StoredOffsetRecord(KEY, value, 20)), "c") == ()


def test_all_records_of_a_connector_are_retained_byte_for_byte():
    spaced = b'["c", {"filename":"/x"}]'
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 20),
        StoredOffsetRecord(spaced, b"junk", 3),
        StoredOffsetRecord(ENVELOPED, b"{}", 4),
    )
    records = (record(KEY, AT_1, 20), record(spaced, b"junk", 3), record(ENVELOPED, b"{}", 4))
    assert list_raw_records(contents, "c") == tuple(
        LocatedRawRecord(
            stored_record.key, stored_record.value, stored_record.kpartition, contents.where
        )
        for stored_record in records
    )


def test_what_stands_where_is_reported_byte_for_byte():
    contents = topic(StoredOffsetRecord(KEY, AT_1, 20), StoredOffsetRecord(KEY, None, 3))
    assert index_by_key(contents) == {(KEY, 20): AT_1, (KEY, 3): None}
    assert decode_record_value(record(KEY, AT_1, 20)) == AT_1
    assert decode_record_value(record(KEY, None, 20)) is None


def test_a_new_key_goes_where_java_would_put_it():
    expected = (PartitionOffset(MIRROR, '{"offset":8}'),)
    offset = partition_of(MIRROR_KEY, 25)
    assert build_set_records(topic(), "m", expected) == (
        record(MIRROR_KEY, b'{"offset":8}', offset),
    )


def test_a_key_that_stands_elsewhere_is_written_where_it_is():
    contents = topic(StoredOffsetRecord(KEY, AT_1, 3))
    assert partition_of(KEY, 25) != 3
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":2}'),)) == (
        record(KEY, AT_2, 3),
    )


def test_a_key_that_was_removed_comes_back_where_it_was():
    contents = topic(StoredOffsetRecord(KEY, None, 3))
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":2}'),)) == (
        record(KEY, AT_2, 3),
    )


def test_a_key_that_was_removed_twice_comes_back_at_its_home():
    contents = topic(
        StoredOffsetRecord(KEY, None, 3, 7, 20.0), StoredOffsetRecord(KEY, None, 20, 8, 10.0)
    )
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":2}'),)) == (
        record(KEY, AT_2, 20),
    )


def test_a_key_that_stands_is_not_written_where_it_was_removed():
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 20, 7, 10.0), StoredOffsetRecord(KEY, None, 3, 8, 20.0)
    )
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":2}'),)) == (
        record(KEY, AT_2, 20),
    )


def test_a_record_of_which_no_time_is_known_is_the_oldest():
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 3, 7), StoredOffsetRecord(KEY, AT_2, 20, 0, 20.0)
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":2}'),)


def test_records_are_written_in_the_order_of_topic_partitions_and_keys():
    spaced = [b'["c",%s{"filename":"/x"}]' % (b" " * count) for count in range(9)]
    there = [(spaced[number], number % 2) for number in (3, 7, 5, 8, 2, 1, 6, 4, 0)]
    written = build_set_records(
        topic(*(StoredOffsetRecord(key, AT_1, offset) for key, offset in there)),
        "c",
        (PartitionOffset(FILE, '{"position":2}'),),
    )
    assert [
        (base64.b64decode(stored_record.key), stored_record.kpartition) for stored_record in written
    ] == sorted(there, key=lambda item: (item[1], item[0]))


HOME = partition_of(KEY, 25)
AWAY, FARTHER = (HOME + 1) % 25, (HOME + 2) % 25


def test_of_a_key_in_two_partitions_the_one_at_its_home_counts_whatever_the_clocks_say():
    """The topic had fewer partitions once, and who wrote then had a clock that was ahead."""
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, AWAY, 7, 2000.0),
        StoredOffsetRecord(KEY, AT_2, HOME, 3, 1000.0),
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":2}'),)
    assert (
        f"Shown is the one in partition {HOME}, to which Connect writes it"
        in list_notes(contents, "c")[0]
    )
    reset = topic(
        StoredOffsetRecord(KEY, AT_1, AWAY, 7, 2000.0),
        StoredOffsetRecord(KEY, None, HOME, 3, 1000.0),
    )
    assert list_pairs(reset, "c") == ()
    assert build_set_records(reset, "c", (PartitionOffset(FILE, '{"position":2}'),)) == (
        *sorted(
            (record(KEY, AT_2, HOME), record(KEY, AT_2, AWAY)),
            key=lambda stored_record: stored_record.kpartition or 0,
        ),
    )


def test_of_a_key_that_is_not_at_its_home_the_newest_counts_by_its_timestamp():
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, AWAY, 7, 2000.0),
        StoredOffsetRecord(KEY, AT_2, FARTHER, 3, 1000.0),
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert f"Shown is the one in partition {AWAY}, the newest" in list_notes(contents, "c")[0]
    gone = topic(
        StoredOffsetRecord(KEY, None, AWAY, 7, 2000.0),
        StoredOffsetRecord(KEY, None, FARTHER, 3, 1000.0),
    )
    (written,) = build_set_records(gone, "c", (PartitionOffset(FILE, '{"position":2}'),))
    assert written == record(KEY, AT_2, AWAY)


def test_a_key_in_two_partitions_is_written_in_both():
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 3, 0, 10.0), StoredOffsetRecord(KEY, AT_2, 20, 0, 20.0)
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":2}'),)
    expected = (PartitionOffset(FILE, '{"position":9}'),)
    assert build_set_records(contents, "c", expected) == (
        record(KEY, b'{"position":9}', 3),
        record(KEY, b'{"position":9}', 20),
    )
    assert "partitions 3, 20" in list_notes(contents, "c")[0]


def test_where_only_other_bytes_stand_both_they_and_connects_own_are_written():
    contents = topic(StoredOffsetRecord(MIRROR_VARIANT, b'{"offset":7}', 1))
    written = build_set_records(contents, "m", (PartitionOffset(MIRROR, '{"offset":8}'),))
    assert written == (
        record(MIRROR_VARIANT, b'{"offset":8}', 1),
        record(MIRROR_KEY, b'{"offset":8}', partition_of(MIRROR_KEY, 25)),
    )
    assert "a task gets nothing" in list_notes(contents, "m")[0]


def test_what_has_its_offset_already_is_not_written_again():
    contents = topic(StoredOffsetRecord(KEY, b'{ "position" : 1 }', 20))
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":1}'),)) == ()
    assert build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":1.0}'),)) != ()


def test_nothing_is_removed_that_is_not_there():
    contents = topic(StoredOffsetRecord(KEY, None, 20))
    assert (
        build_set_records(
            contents, "c", (PartitionOffset(FILE, None), PartitionOffset(MIRROR, None))
        )
        == ()
    )


@pytest.mark.parametrize(
    ("younger", "written"),
    [
        pytest.param(None, ((KEY, AT_1, 4),), id="removed-elsewhere"),
        pytest.param(AT_2, ((KEY, AT_1, 3), (KEY, AT_1, 4)), id="another-elsewhere"),
        pytest.param(AT_1, (), id="the-same-elsewhere"),
    ],
)
def test_an_offset_that_a_younger_record_in_another_partition_takes_back_is_written_again(
    younger, written
):
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 4, 5, 100.0), StoredOffsetRecord(KEY, younger, 3, 1, 200.0)
    )
    expected = PartitionOffset(FILE, '{"position":1}')
    assert (expected in list_pairs(contents, "c")) is (not written)
    assert build_set_records(contents, "c", (expected,)) == tuple(record(*item) for item in written)


def test_removing_takes_every_key_of_the_source_partition():
    spaced = b'["c", {"filename":"/x"}]'
    other = b'["c",{"filename":"/y"}]'
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 20),
        StoredOffsetRecord(spaced, AT_1, 3),
        StoredOffsetRecord(other, AT_1, 4),
    )
    assert build_set_records(contents, "c", (PartitionOffset(FILE, None),)) == (
        record(KEY, None, 20),
        record(spaced, None, 3),
    )


def test_a_reset_removes_everything_under_the_name_and_nothing_else():
    null = b'["c",null]'
    contents = topic(
        StoredOffsetRecord(KEY, AT_1, 20),
        StoredOffsetRecord(null, b"null", 1),
        StoredOffsetRecord(ENVELOPED, b"junk", 2),
        StoredOffsetRecord(MIRROR_KEY, b'{"offset":1}', 16),
        StoredOffsetRecord(b'["c",{"filename":"/gone"}]', None, 2),
    )
    assert build_reset_records(contents, "c") == (
        record(KEY, None, 20),
        record(null, None, 1),
        record(ENVELOPED, None, 2),
    )


def test_a_file_has_no_partitions_and_does_not_report_who_wrote_it():
    contents = OffsetStoreContents("/connect.offsets", (StoredOffsetRecord(KEY, AT_1),), None)
    assert not contents.stored[0].ours
    assert build_set_records(
        contents, "c", (PartitionOffset('{"filename":"/y"}', '{"position":2}'),)
    ) == (record(b'["c",{"filename":"/y"}]', AT_2, None),)


def test_a_connector_without_partitions_has_an_offset_too():
    contents = topic(StoredOffsetRecord(b'["c",null]', AT_1, 1))
    assert list_pairs(contents, "c") == (PartitionOffset("null", '{"position":1}'),)
    assert build_set_records(contents, "c", (PartitionOffset("null", '{"position":2}'),)) == (
        record(b'["c",null]', AT_2, 1),
    )


def test_an_old_worker_finds_its_offsets_in_envelopes_and_new_ones_go_into_them():
    value = b'{"schema":null,"payload":{"position":1}}'
    contents = topic(StoredOffsetRecord(ENVELOPED, value, 4), keys=True, values=True)
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":1}'),)
    expected = (
        PartitionOffset(FILE, '{"position":2}'),
        PartitionOffset('{"filename":"/y"}', '{"position":3}'),
    )
    written = build_set_records(contents, "c", expected)
    assert [
        (base64.b64decode(stored_record.key), base64.b64decode(stored_record.value or ""))
        for stored_record in written
    ] == [
        (ENVELOPED, b'{"schema":null,"payload":{"position":2}}'),
        (
            b'{"schema":null,"payload":["c",{"filename":"/y"}]}',
            b'{"schema":null,"payload":{"position":3}}',
        ),
    ]


def test_an_old_worker_may_write_keys_alone_into_envelopes_or_values_alone():
    expected = (
        PartitionOffset(FILE, '{"position":2}'),
        PartitionOffset('{"filename":"/y"}', '{"position":2}'),
    )
    value = b'{"schema":null,"payload":{"position":1}}'
    keys = topic(StoredOffsetRecord(ENVELOPED, AT_1, 4), keys=True)
    values = topic(StoredOffsetRecord(KEY, value, 4), values=True)
    assert (
        list_pairs(keys, "c")
        == list_pairs(values, "c")
        == (PartitionOffset(FILE, '{"position":1}'),)
    )
    assert [
        (base64.b64decode(set_record.key)[:9], set_record.value)
        for set_record in build_set_records(keys, "c", expected)
    ] == [(ENVELOPED[:9], record(KEY, AT_2, 4).value)] * 2
    enveloped = record(KEY, value.replace(b"1", b"2"), 4).value
    assert [
        (base64.b64decode(set_record.key)[:4], set_record.value)
        for set_record in build_set_records(values, "c", expected)
    ] == [(KEY[:4], enveloped)] * 2


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(StoredOffsetRecord(KEY, None, 4, 9, 2.0), id="a-tombstone"),
        pytest.param(StoredOffsetRecord(None, AT_2, 4, 9, 2.0), id="a-record-without-a-key"),
        pytest.param(StoredOffsetRecord(KEY, AT_2, 4, 0, 1.0), id="one-of-the-same-time-before-it"),
    ],
)
def test_whether_there_are_envelopes_the_newest_record_with_key_and_value_reports(newer):
    value = b'{"schema":null,"payload":{"position":1}}'
    contents = topic(newer, StoredOffsetRecord(ENVELOPED, value, 4, 1, 1.0), keys=True, values=True)
    assert contents.enveloped == (True, True)


def test_a_reader_of_envelopes_makes_nothing_of_what_is_in_none():
    value = b'{"schema":null,"payload":{"position":1}}'
    other = b'["c",{"filename":"/y"}]'
    junk = b'["c",{"filename":"/z"}]'
    contents = topic(
        StoredOffsetRecord(KEY, value, 4, 2, 2.0),
        StoredOffsetRecord(other, AT_1, 4, 0, 1.0),
        StoredOffsetRecord(junk, b"[1]", 4, 1, 1.0),
        values=True,
    )
    assert list_pairs(contents, "c") == (PartitionOffset(FILE, '{"position":1}'),)
    assert [note.partition("(")[2].partition(")")[0] for note in list_notes(contents, "c")] == [
        "value_without_envelope",
        "value_shape",
    ]


def test_envelopes_left_by_an_old_worker_are_nothing_to_a_new_one():
    old = StoredOffsetRecord(ENVELOPED, b'{"schema":null,"payload":{"position":1}}', 4, 0, 1.0)
    new = StoredOffsetRecord(KEY, AT_2, 20, 0, 2.0)
    for contents in (topic(old), topic(old, new, keys=True, values=True)):
        written = build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":3}'),))
        assert written == (record(KEY, b'{"position":3}', 20),)
    assert list_pairs(topic(old), "c") == ()
    assert list_pairs(topic(old, new, keys=True, values=True), "c") == (
        PartitionOffset(FILE, '{"position":2}'),
    )


def test_a_first_record_is_refused_where_nothing_reports_whether_it_belongs_in_an_envelope():
    for contents in (
        topic(keys=True),
        topic(values=True),
        topic(StoredOffsetRecord(KEY, None, 3), keys=True),
    ):
        with pytest.raises(RemoteRefusal, match="envelopes"):
            build_set_records(contents, "c", (PartitionOffset(FILE, '{"position":3}'),))
    assert not OffsetStoreContents("/connect.offsets", (), None).undecided


def test_a_partition_of_unknown_bytes_is_refused():
    for contents in (topic(), topic(StoredOffsetRecord(ENVELOPED, AT_1, 4), keys=True)):
        with pytest.raises(RemoteRefusal, match="are unknown"):
            build_set_records(contents, "c", (PartitionOffset('{"at":1.5e300}', '{"position":3}'),))


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (b"null", "its value is null"),
        (b"", "its value is null"),
        (b"[1]", "its value is no offset"),
        (b'{"schema":null,"payload":{"position":1}}', "its value is no offset"),
        (b'{"position":12345678901234567890}', "beyond 64 bits"),
    ],
)
def test_a_value_that_is_not_what_it_seems_is_said(value, answer):
    contents = topic(StoredOffsetRecord(KEY, value, 20))
    assert [answer in note for note in list_notes(contents, "c")] == [True]


def test_oddities_are_reported_in_the_order_of_the_partitions_each_with_a_key():
    keys = [b'["c", {"filename":"/%s"}]' % name for name in (b"y", b"x" * 177, b"x" * 178)]
    reports = list_notes(topic(*(StoredOffsetRecord(key, AT_1, 1) for key in keys)), "c")
    texts = [key.decode() for key in (keys[1], keys[2], keys[0])]
    assert [len(text) for text in texts[:2]] == [200, 201]
    assert [note.rpartition("; ")[2] for note in reports] == [
        texts[0],
        f"{texts[1][:200]}…",
        texts[2],
    ]


def test_what_is_as_it_should_be_is_not_said():
    assert (
        list_notes(
            topic(StoredOffsetRecord(KEY, AT_1, 20), StoredOffsetRecord(b'["c",null]', None, 1)),
            "c",
        )
        == ()
    )


# --- stored raw keys -----------------------------------------------------------------------------

PARTITION = {"name": "a.csv", "path": "/data/in"}
IDENTITY = '{"name":"a.csv","path":"/data/in"}'
OTHER = '{"name":"b.csv","path":"/data/in"}'
ORDER = tuple(reversed(compute_hash_map_order(tuple(PARTITION))))


def own(name: str = "a.csv", connector: str = "fpl") -> bytes:
    fields = {field: {**PARTITION, "name": name}[field] for field in ORDER}
    return json.dumps([connector, fields], separators=(",", ":")).encode()


def rest(name: str = "a.csv") -> bytes:
    key = build_connect_key("fpl", {**PARTITION, "name": name})
    assert key is not None
    return key


def at(number: int) -> bytes:
    return b'{"position":%d}' % number


def topic_of(*stored: StoredOffsetRecord) -> OffsetStoreContents:
    return OffsetStoreContents("east/offsets", stored, 25)


def written(contents: OffsetStoreContents, *expected: PartitionOffset) -> dict[bytes, bytes | None]:
    return {
        base64.b64decode(one.key): None if one.value is None else base64.b64decode(one.value)
        for one in build_set_records(contents, "fpl", expected)
    }


def test_the_only_key_is_what_a_task_is_handed_whatever_its_order():
    contents = topic_of(StoredOffsetRecord(own(), at(24), 3, 7, 10.0))
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":24}', own().decode()),
    )
    assert list_notes(contents, "fpl") == ()
    assert written(contents, PartitionOffset(IDENTITY, '{"position":5}')) == {own(): at(5)}
    assert written(contents, PartitionOffset(IDENTITY, None)) == {own(): None}
    assert [base64.b64decode(one.key) for one in build_reset_records(contents, "fpl")] == [own()]
    assert [base64.b64decode(one.key) for one in list_raw_records(contents, "fpl")] == [own()]


def test_of_two_keys_the_one_that_the_connector_went_on_with_counts_and_both_are_changed():
    contents = topic_of(
        StoredOffsetRecord(rest(), at(5), 3, 7, 10.0),
        StoredOffsetRecord(own(), at(250), 4, 9, 2000.0),
    )
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":250}', own().decode()),
    )
    assert written(contents, PartitionOffset(IDENTITY, '{"position":7}')) == {
        own(): at(7),
        rest(): at(7),
    }
    assert "does not commit now" in list_notes(contents, "fpl")[0]


def test_what_its_own_key_left_in_another_partition_does_not_make_it_unsure():
    home = partition_of(own(), 25)
    contents = topic_of(
        StoredOffsetRecord(rest(), at(5), partition_of(rest(), 25), 7, 10.0),
        StoredOffsetRecord(own(), at(250), home, 9, 2000.0),
        StoredOffsetRecord(own(), at(100), (home + 1) % 25, 3, 2100.0),
    )
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":250}', own().decode()),
    )
    assert not any(
        "not known until it commits again" in note for note in list_notes(contents, "fpl")
    )


def test_what_rest_may_have_written_last_is_said_to_be_unsure_and_all_keys_are_changed():
    contents = topic_of(
        StoredOffsetRecord(own(), at(250), 4, 9, 10.0),
        StoredOffsetRecord(rest(), at(5), 3, 7, 20.0),
    )
    (note,) = list_notes(contents, "fpl")
    assert "not known until it commits again" in note
    assert '{"position":250}' in note
    assert '{"position":5}' in note
    assert written(contents, PartitionOffset(IDENTITY, '{"position":7}')) == {
        own(): at(7),
        rest(): at(7),
    }


def test_what_offsetwatch_wrote_is_not_what_the_connector_commits():
    contents = topic_of(
        StoredOffsetRecord(own(), at(250), 4, 9, 10.0),
        StoredOffsetRecord(rest(), at(5), 3, 7, 20.0, ours=True),
    )
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":250}', own().decode()),
    )


def test_a_file_reports_no_time_and_so_not_which_of_two_keys_is_in_use():
    for stored in ((own(), rest()), (rest(), own())):
        contents = OffsetStoreContents(
            "/connect.offsets",
            tuple(StoredOffsetRecord(key, at(n)) for n, key in enumerate(stored)),
            None,
        )
        assert "not known until it commits again" in list_notes(contents, "fpl")[0]


def test_a_new_partition_gets_the_order_of_the_connectors_other_keys():
    contents = topic_of(StoredOffsetRecord(own(), at(24), 3, 7, 10.0))
    assert written(contents, PartitionOffset(OTHER, '{"position":1}')) == {own("b.csv"): at(1)}
    empty = topic_of()
    assert written(empty, PartitionOffset(OTHER, '{"position":1}')) == {rest("b.csv"): at(1)}


def test_a_removed_key_comes_back_in_its_own_order():
    contents = topic_of(StoredOffsetRecord(own(), None, 3, 7, 10.0))
    assert written(contents, PartitionOffset(IDENTITY, '{"position":1}')) == {own(): at(1)}


def test_a_document_keeps_the_raw_key_and_gives_it_back():
    retained = (PartitionOffset(IDENTITY, '{"position":24}', own().decode()),)
    for text in (
        format_kip199([("fpl", retained)]).encode(),
        backups.encode_backup("fpl", retained),
    ):
        document = parse_document(text)
        assert isinstance(document, OffsetsDocument)
        assert document.sections[0].pairs == retained
    assert written(topic_of(), *retained) == {own(): at(24)}
    plain = (PartitionOffset('{"filename":"/x"}', '{"position":1}'),)
    assert "key" not in format_kip199([("c", plain)])
    assert b"key" not in backups.encode_backup("c", plain)


def test_a_document_for_another_connector_keeps_the_order_of_its_keys():
    retained = PartitionOffset(IDENTITY, '{"position":24}', own(connector="old").decode())
    assert written(topic_of(), retained) == {own(): at(24)}


@pytest.mark.parametrize("key", [1, "", "[]", '["fpl",{"name":"x","path":"/y"}]', None])
def test_a_raw_key_of_something_else_is_a_problem_with_its_place(key):
    entry = {"partition": PARTITION, "offset": None, "key": key}
    document = parse_document(json.dumps({"fpl": [entry]}).encode())
    if key is None:
        assert isinstance(document, OffsetsDocument)
    else:
        assert isinstance(document, tuple)
        assert [problem.where for problem in document] == ["fpl[0].key"]


@pytest.mark.parametrize(
    ("class_name", "listed"),
    [
        ("", ()),
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", ()),
        (
            "org.example.Replicator",
            (PartitionOffset(MIRROR, '{"offset":7}', MIRROR_VARIANT.decode()),),
        ),
    ],
)
def test_whether_a_task_looks_up_another_order_depends_on_its_class(class_name, listed):
    contents = replace(
        topic(StoredOffsetRecord(MIRROR_VARIANT, b'{"offset":7}', 1)), classes={"m": class_name}
    )
    assert list_pairs(contents, "m") == listed
    written = build_set_records(contents, "m", (PartitionOffset(MIRROR, '{"offset":8}'),))
    keys = {base64.b64decode(item.key) for item in written}
    assert keys == ({MIRROR_VARIANT} if listed else {MIRROR_VARIANT, MIRROR_KEY})
    other = '{"cluster":"a","partition":4,"topic":"orders"}'
    (new,) = build_set_records(contents, "m", (PartitionOffset(other, '{"offset":8}'),))
    first_field = b'["m",{"topic"' if listed else b'["m",{"cluster"'
    assert base64.b64decode(new.key).startswith(first_field)
