"""Offsets in storage of connectors whose partition is no HashMap: read and written by bytes."""

from __future__ import annotations

import base64
import json

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.decode.partitioner import partition_of
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    StoredOffsetRecord,
    build_reset_records,
    build_set_records,
    list_notes,
    list_pairs,
    list_raw_records,
)
from offsetwatch.toolbox.documents import OffsetsDocument, format_kip199, parse_document

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


def topic(*stored: StoredOffsetRecord) -> OffsetStoreContents:
    return OffsetStoreContents("east/offsets", stored, 25)


def written(contents: OffsetStoreContents, *expected: PartitionOffset) -> dict[bytes, bytes | None]:
    return {
        base64.b64decode(one.key): None if one.value is None else base64.b64decode(one.value)
        for one in build_set_records(contents, "fpl", expected)
    }


def test_the_only_key_is_what_a_task_is_handed_whatever_its_order():
    contents = topic(StoredOffsetRecord(own(), at(24), 3, 7, 10.0))
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":24}', own().decode()),
    )
    assert list_notes(contents, "fpl") == ()
    assert written(contents, PartitionOffset(IDENTITY, '{"position":5}')) == {own(): at(5)}
    assert written(contents, PartitionOffset(IDENTITY, None)) == {own(): None}
    assert [base64.b64decode(one.key) for one in build_reset_records(contents, "fpl")] == [own()]
    assert [base64.b64decode(one.key) for one in list_raw_records(contents, "fpl")] == [own()]


def test_of_two_keys_the_one_that_the_connector_went_on_with_counts_and_both_are_changed():
    contents = topic(
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
    contents = topic(
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
    contents = topic(
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
    contents = topic(
        StoredOffsetRecord(own(), at(250), 4, 9, 10.0),
        StoredOffsetRecord(rest(), at(5), 3, 7, 20.0, ours=True),
    )
    assert list_pairs(contents, "fpl") == (
        PartitionOffset(IDENTITY, '{"position":250}', own().decode()),
    )


def test_a_file_tells_no_time_and_so_not_which_of_two_keys_is_in_use():
    for stored in ((own(), rest()), (rest(), own())):
        contents = OffsetStoreContents(
            "/connect.offsets",
            tuple(StoredOffsetRecord(key, at(n)) for n, key in enumerate(stored)),
            None,
        )
        assert "not known until it commits again" in list_notes(contents, "fpl")[0]


def test_a_new_partition_gets_the_order_of_the_connectors_other_keys():
    contents = topic(StoredOffsetRecord(own(), at(24), 3, 7, 10.0))
    assert written(contents, PartitionOffset(OTHER, '{"position":1}')) == {own("b.csv"): at(1)}
    empty = topic()
    assert written(empty, PartitionOffset(OTHER, '{"position":1}')) == {rest("b.csv"): at(1)}


def test_a_removed_key_comes_back_in_its_own_order():
    contents = topic(StoredOffsetRecord(own(), None, 3, 7, 10.0))
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
    assert written(topic(), *retained) == {own(): at(24)}
    plain = (PartitionOffset('{"filename":"/x"}', '{"position":1}'),)
    assert "key" not in format_kip199([("c", plain)])
    assert b"key" not in backups.encode_backup("c", plain)


def test_a_document_for_another_connector_keeps_the_order_of_its_keys():
    retained = PartitionOffset(IDENTITY, '{"position":24}', own(connector="old").decode())
    assert written(topic(), retained) == {own(): at(24)}


@pytest.mark.parametrize("key", [1, "", "[]", '["fpl",{"name":"x","path":"/y"}]', None])
def test_a_raw_key_of_something_else_is_a_problem_with_its_place(key):
    entry = {"partition": PARTITION, "offset": None, "key": key}
    document = parse_document(json.dumps({"fpl": [entry]}).encode())
    if key is None:
        assert isinstance(document, OffsetsDocument)
    else:
        assert isinstance(document, tuple)
        assert [problem.where for problem in document] == ["fpl[0].key"]
