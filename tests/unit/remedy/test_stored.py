"""What keys, values and partitions of an offsets topic mean, and what is written to change it."""

from __future__ import annotations

import base64

import pytest
from offsetwatch.decode.partitioner import partition_of
from offsetwatch.errors import Refused
from offsetwatch.remedy.model.plan import Pair, Raw, RawFound
from offsetwatch.remedy.model.stored_offsets import (
    Contents,
    Stored,
    connectors,
    contents_by_key,
    notes,
    pairs,
    raw,
    reset_records,
    set_records,
    value_bytes,
)

FILE = '{"filename":"/x"}'
KEY = b'["c",{"filename":"/x"}]'
MIRROR = '{"cluster":"a","partition":3,"topic":"orders"}'
MIRROR_KEY = b'["m",{"cluster":"a","partition":3,"topic":"orders"}]'
MIRROR_VARIANT = b'["m",{"topic":"orders","partition":3,"cluster":"a"}]'
ENVELOPED = b'{"schema":null,"payload":["c",{"filename":"/x"}]}'
AT_1 = b'{"position":1}'
AT_2 = b'{"position":2}'


def topic(*stored: Stored, keys: bool = False, values: bool = False) -> Contents:
    return Contents("east/offsets", stored, 25, keys_in_envelope=keys, values_in_envelope=values)


def record(key: bytes, value: bytes | None, kpartition: int | None) -> Raw:
    return Raw(
        key=base64.b64encode(key).decode(),
        value=None if value is None else base64.b64encode(value).decode(),
        kpartition=kpartition,
    )


def test_a_task_is_handed_what_stands_under_the_key_that_connect_looks_up():
    found = topic(
        Stored(KEY, AT_1, 20),
        Stored(MIRROR_VARIANT, b'{"offset":7}', 1),
        Stored(b'["c",{"filename":"/gone"}]', None, 2),
        Stored(None, AT_1, 0),
        Stored(b"avro", AT_1, 0),
    )
    assert pairs(found, "c") == (Pair(FILE, '{"position":1}'),)
    assert pairs(found, "m") == ()
    two = topic(*(Stored(b'["c",{"filename":"/%s"}]' % name, AT_1, 1) for name in (b"b", b"a")))
    assert [at.partition for at in pairs(two, "c")] == ['{"filename":"/a"}', '{"filename":"/b"}']
    assert connectors(found) == ("c", "m")
    assert connectors(topic(Stored(MIRROR_KEY, AT_1, 1), Stored(KEY, AT_1, 1))) == ("c", "m")


@pytest.mark.parametrize("value", [b"null", b"", b"[1]", None])
def test_a_task_is_handed_no_offset_that_is_none(value):
    assert pairs(topic(Stored(KEY, value, 20)), "c") == ()


def test_all_records_of_a_connector_are_kept_byte_for_byte():
    spaced = b'["c", {"filename":"/x"}]'
    found = topic(Stored(KEY, AT_1, 20), Stored(spaced, b"junk", 3), Stored(ENVELOPED, b"{}", 4))
    records = (record(KEY, AT_1, 20), record(spaced, b"junk", 3), record(ENVELOPED, b"{}", 4))
    assert raw(found, "c") == tuple(
        RawFound(at.key, at.value, at.kpartition, found.where) for at in records
    )


def test_what_stands_where_is_told_byte_for_byte():
    found = topic(Stored(KEY, AT_1, 20), Stored(KEY, None, 3))
    assert contents_by_key(found) == {(KEY, 20): AT_1, (KEY, 3): None}
    assert value_bytes(record(KEY, AT_1, 20)) == AT_1
    assert value_bytes(record(KEY, None, 20)) is None


def test_a_new_key_goes_where_java_would_put_it():
    wanted = (Pair(MIRROR, '{"offset":8}'),)
    at = partition_of(MIRROR_KEY, 25)
    assert set_records(topic(), "m", wanted) == (record(MIRROR_KEY, b'{"offset":8}', at),)


def test_a_key_that_stands_elsewhere_is_written_where_it_stands():
    found = topic(Stored(KEY, AT_1, 3))
    assert partition_of(KEY, 25) != 3
    assert set_records(found, "c", (Pair(FILE, '{"position":2}'),)) == (record(KEY, AT_2, 3),)


def test_a_key_that_was_removed_comes_back_where_it_was():
    found = topic(Stored(KEY, None, 3))
    assert set_records(found, "c", (Pair(FILE, '{"position":2}'),)) == (record(KEY, AT_2, 3),)


def test_a_key_that_was_removed_twice_comes_back_at_its_home():
    found = topic(Stored(KEY, None, 3, 7, 20.0), Stored(KEY, None, 20, 8, 10.0))
    assert set_records(found, "c", (Pair(FILE, '{"position":2}'),)) == (record(KEY, AT_2, 20),)


def test_a_key_that_stands_is_not_written_where_it_was_removed():
    found = topic(Stored(KEY, AT_1, 20, 7, 10.0), Stored(KEY, None, 3, 8, 20.0))
    assert set_records(found, "c", (Pair(FILE, '{"position":2}'),)) == (record(KEY, AT_2, 20),)


def test_a_record_of_which_no_time_is_known_is_the_oldest():
    found = topic(Stored(KEY, AT_1, 3, 7), Stored(KEY, AT_2, 20, 0, 20.0))
    assert pairs(found, "c") == (Pair(FILE, '{"position":2}'),)


def test_records_are_written_in_the_order_of_topic_partitions_and_keys():
    spaced = [b'["c",%s{"filename":"/x"}]' % (b" " * count) for count in range(9)]
    there = [(spaced[at], at % 2) for at in (3, 7, 5, 8, 2, 1, 6, 4, 0)]
    written = set_records(
        topic(*(Stored(key, AT_1, at) for key, at in there)), "c", (Pair(FILE, '{"position":2}'),)
    )
    assert [(base64.b64decode(at.key), at.kpartition) for at in written] == sorted(
        there, key=lambda at: (at[1], at[0])
    )


HOME = partition_of(KEY, 25)
AWAY, FARTHER = (HOME + 1) % 25, (HOME + 2) % 25


def test_of_a_key_in_two_partitions_the_one_at_its_home_counts_whatever_the_clocks_say():
    """The topic had fewer partitions once, and who wrote then had a clock that was ahead."""
    found = topic(Stored(KEY, AT_1, AWAY, 7, 2000.0), Stored(KEY, AT_2, HOME, 3, 1000.0))
    assert pairs(found, "c") == (Pair(FILE, '{"position":2}'),)
    assert (
        f"Shown is the one in partition {HOME}, to which Connect writes it" in notes(found, "c")[0]
    )
    reset = topic(Stored(KEY, AT_1, AWAY, 7, 2000.0), Stored(KEY, None, HOME, 3, 1000.0))
    assert pairs(reset, "c") == ()
    assert set_records(reset, "c", (Pair(FILE, '{"position":2}'),)) == (
        *sorted(
            (record(KEY, AT_2, HOME), record(KEY, AT_2, AWAY)), key=lambda at: at.kpartition or 0
        ),
    )


def test_of_a_key_that_is_not_at_its_home_the_newest_counts_by_its_timestamp():
    found = topic(Stored(KEY, AT_1, AWAY, 7, 2000.0), Stored(KEY, AT_2, FARTHER, 3, 1000.0))
    assert pairs(found, "c") == (Pair(FILE, '{"position":1}'),)
    assert f"Shown is the one in partition {AWAY}, the newest" in notes(found, "c")[0]
    gone = topic(Stored(KEY, None, AWAY, 7, 2000.0), Stored(KEY, None, FARTHER, 3, 1000.0))
    (written,) = set_records(gone, "c", (Pair(FILE, '{"position":2}'),))
    assert written == record(KEY, AT_2, AWAY)


def test_a_key_in_two_partitions_is_written_in_both():
    found = topic(Stored(KEY, AT_1, 3, 0, 10.0), Stored(KEY, AT_2, 20, 0, 20.0))
    assert pairs(found, "c") == (Pair(FILE, '{"position":2}'),)
    wanted = (Pair(FILE, '{"position":9}'),)
    assert set_records(found, "c", wanted) == (
        record(KEY, b'{"position":9}', 3),
        record(KEY, b'{"position":9}', 20),
    )
    assert "partitions 3, 20" in notes(found, "c")[0]


def test_where_only_other_bytes_stand_both_they_and_connects_own_are_written():
    found = topic(Stored(MIRROR_VARIANT, b'{"offset":7}', 1))
    written = set_records(found, "m", (Pair(MIRROR, '{"offset":8}'),))
    assert written == (
        record(MIRROR_VARIANT, b'{"offset":8}', 1),
        record(MIRROR_KEY, b'{"offset":8}', partition_of(MIRROR_KEY, 25)),
    )
    assert "a task gets nothing" in notes(found, "m")[0]


def test_what_has_its_offset_already_is_not_written_again():
    found = topic(Stored(KEY, b'{ "position" : 1 }', 20))
    assert set_records(found, "c", (Pair(FILE, '{"position":1}'),)) == ()
    assert set_records(found, "c", (Pair(FILE, '{"position":1.0}'),)) != ()


def test_nothing_is_removed_that_is_not_there():
    found = topic(Stored(KEY, None, 20))
    assert set_records(found, "c", (Pair(FILE, None), Pair(MIRROR, None))) == ()


@pytest.mark.parametrize(
    ("younger", "written"),
    [
        pytest.param(None, ((KEY, AT_1, 4),), id="removed-elsewhere"),
        pytest.param(AT_2, ((KEY, AT_1, 3), (KEY, AT_1, 4)), id="another-elsewhere"),
        pytest.param(AT_1, (), id="the-same-elsewhere"),
    ],
)
def test_an_offset_that_a_younger_record_in_another_partition_takes_back_is_written_anew(
    younger, written
):
    found = topic(Stored(KEY, AT_1, 4, 5, 100.0), Stored(KEY, younger, 3, 1, 200.0))
    wanted = Pair(FILE, '{"position":1}')
    assert (wanted in pairs(found, "c")) is (not written)
    assert set_records(found, "c", (wanted,)) == tuple(record(*at) for at in written)


def test_removing_takes_every_key_of_the_source_partition():
    spaced = b'["c", {"filename":"/x"}]'
    other = b'["c",{"filename":"/y"}]'
    found = topic(Stored(KEY, AT_1, 20), Stored(spaced, AT_1, 3), Stored(other, AT_1, 4))
    assert set_records(found, "c", (Pair(FILE, None),)) == (
        record(KEY, None, 20),
        record(spaced, None, 3),
    )


def test_a_reset_removes_everything_under_the_name_and_nothing_else():
    null = b'["c",null]'
    found = topic(
        Stored(KEY, AT_1, 20),
        Stored(null, b"null", 1),
        Stored(ENVELOPED, b"junk", 2),
        Stored(MIRROR_KEY, b'{"offset":1}', 16),
        Stored(b'["c",{"filename":"/gone"}]', None, 2),
    )
    assert reset_records(found, "c") == (
        record(KEY, None, 20),
        record(null, None, 1),
        record(ENVELOPED, None, 2),
    )


def test_a_file_has_no_partitions_and_does_not_tell_who_wrote_it():
    found = Contents("/connect.offsets", (Stored(KEY, AT_1),), None)
    assert not found.stored[0].ours
    assert set_records(found, "c", (Pair('{"filename":"/y"}', '{"position":2}'),)) == (
        record(b'["c",{"filename":"/y"}]', AT_2, None),
    )


def test_a_connector_without_partitions_has_an_offset_too():
    found = topic(Stored(b'["c",null]', AT_1, 1))
    assert pairs(found, "c") == (Pair("null", '{"position":1}'),)
    assert set_records(found, "c", (Pair("null", '{"position":2}'),)) == (
        record(b'["c",null]', AT_2, 1),
    )


def test_an_old_worker_finds_its_offsets_in_envelopes_and_new_ones_go_into_them():
    value = b'{"schema":null,"payload":{"position":1}}'
    found = topic(Stored(ENVELOPED, value, 4), keys=True, values=True)
    assert pairs(found, "c") == (Pair(FILE, '{"position":1}'),)
    wanted = (Pair(FILE, '{"position":2}'), Pair('{"filename":"/y"}', '{"position":3}'))
    written = set_records(found, "c", wanted)
    assert [(base64.b64decode(at.key), base64.b64decode(at.value or "")) for at in written] == [
        (ENVELOPED, b'{"schema":null,"payload":{"position":2}}'),
        (
            b'{"schema":null,"payload":["c",{"filename":"/y"}]}',
            b'{"schema":null,"payload":{"position":3}}',
        ),
    ]


def test_an_old_worker_may_write_keys_alone_into_envelopes_or_values_alone():
    wanted = (Pair(FILE, '{"position":2}'), Pair('{"filename":"/y"}', '{"position":2}'))
    value = b'{"schema":null,"payload":{"position":1}}'
    keys = topic(Stored(ENVELOPED, AT_1, 4), keys=True)
    values = topic(Stored(KEY, value, 4), values=True)
    assert pairs(keys, "c") == pairs(values, "c") == (Pair(FILE, '{"position":1}'),)
    assert [(base64.b64decode(at.key)[:9], at.value) for at in set_records(keys, "c", wanted)] == [
        (ENVELOPED[:9], record(KEY, AT_2, 4).value)
    ] * 2
    enveloped = record(KEY, value.replace(b"1", b"2"), 4).value
    assert [
        (base64.b64decode(at.key)[:4], at.value) for at in set_records(values, "c", wanted)
    ] == [(KEY[:4], enveloped)] * 2


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(Stored(KEY, None, 4, 9, 2.0), id="a-tombstone"),
        pytest.param(Stored(None, AT_2, 4, 9, 2.0), id="a-record-without-a-key"),
        pytest.param(Stored(KEY, AT_2, 4, 0, 1.0), id="one-of-the-same-time-before-it"),
    ],
)
def test_whether_there_are_envelopes_the_newest_record_with_key_and_value_tells(newer):
    value = b'{"schema":null,"payload":{"position":1}}'
    found = topic(newer, Stored(ENVELOPED, value, 4, 1, 1.0), keys=True, values=True)
    assert found.enveloped == (True, True)


def test_a_reader_of_envelopes_makes_nothing_of_what_is_in_none():
    value = b'{"schema":null,"payload":{"position":1}}'
    other = b'["c",{"filename":"/y"}]'
    junk = b'["c",{"filename":"/z"}]'
    found = topic(
        Stored(KEY, value, 4, 2, 2.0),
        Stored(other, AT_1, 4, 0, 1.0),
        Stored(junk, b"[1]", 4, 1, 1.0),
        values=True,
    )
    assert pairs(found, "c") == (Pair(FILE, '{"position":1}'),)
    assert [note.partition("(")[2].partition(")")[0] for note in notes(found, "c")] == [
        "value_without_envelope",
        "value_shape",
    ]


def test_envelopes_left_by_an_old_worker_are_nothing_to_a_new_one():
    old = Stored(ENVELOPED, b'{"schema":null,"payload":{"position":1}}', 4, 0, 1.0)
    new = Stored(KEY, AT_2, 20, 0, 2.0)
    for found in (topic(old), topic(old, new, keys=True, values=True)):
        written = set_records(found, "c", (Pair(FILE, '{"position":3}'),))
        assert written == (record(KEY, b'{"position":3}', 20),)
    assert pairs(topic(old), "c") == ()
    assert pairs(topic(old, new, keys=True, values=True), "c") == (Pair(FILE, '{"position":2}'),)


def test_a_first_record_is_refused_where_nothing_tells_whether_it_belongs_in_an_envelope():
    for found in (topic(keys=True), topic(values=True), topic(Stored(KEY, None, 3), keys=True)):
        with pytest.raises(Refused, match="envelopes"):
            set_records(found, "c", (Pair(FILE, '{"position":3}'),))
    assert not Contents("/connect.offsets", (), None).undecided


def test_a_partition_whose_bytes_cannot_be_told_is_refused():
    for found in (topic(), topic(Stored(ENVELOPED, AT_1, 4), keys=True)):
        with pytest.raises(Refused, match="are unknown"):
            set_records(found, "c", (Pair('{"at":1.5e300}', '{"position":3}'),))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"null", "its value is null"),
        (b"", "its value is null"),
        (b"[1]", "its value is no offset"),
        (b'{"schema":null,"payload":{"position":1}}', "its value is no offset"),
        (b'{"position":12345678901234567890}', "beyond 64 bits"),
    ],
)
def test_a_value_that_is_not_what_it_seems_is_said(value, said):
    found = topic(Stored(KEY, value, 20))
    assert [said in note for note in notes(found, "c")] == [True]


def test_oddities_are_told_in_the_order_of_the_partitions_each_with_a_key():
    keys = [b'["c", {"filename":"/%s"}]' % name for name in (b"y", b"x" * 177, b"x" * 178)]
    told = notes(topic(*(Stored(key, AT_1, 1) for key in keys)), "c")
    texts = [key.decode() for key in (keys[1], keys[2], keys[0])]
    assert [len(text) for text in texts[:2]] == [200, 201]
    assert [note.rpartition("; ")[2] for note in told] == [texts[0], f"{texts[1][:200]}…", texts[2]]


def test_what_is_as_it_should_be_is_not_said():
    assert notes(topic(Stored(KEY, AT_1, 20), Stored(b'["c",null]', None, 1)), "c") == ()
