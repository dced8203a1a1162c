"""Whatever an offsets topic holds: what was asked for is what a task is handed, and nothing else
changes; and of a connector that was reset nothing is left.
"""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.remedy.model.plan import PartitionOffset, RawOffsetRecord
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    StoredOffsetRecord,
    build_reset_records,
    build_set_records,
    decode_record_value,
    index_by_key,
    list_pairs,
    list_raw_records,
)

PARTITIONS = ('{"filename":"/x"}', '{"cluster":"a","partition":0,"topic":"t"}', "null")
KEYS = (
    b'["%s",{"filename":"/x"}]',
    b'["%s", {"filename":"/x"}]',
    b'["%s",{"cluster":"a","partition":0,"topic":"t"}]',
    b'["%s",{"topic":"t","partition":0,"cluster":"a"}]',
    b'["%s",null]',
    b'{"schema":null,"payload":["%s",{"filename":"/x"}]}',
    b"%s is no key",
)
VALUES = (
    b'{"offset":1}',
    b'{ "offset" : 2 }',
    b'{"schema":null,"payload":{"offset":3}}',
    b"null",
    b"",
    b"junk",
    None,
)
NAMES = (b"c", b"d")

stored = st.builds(
    lambda key, name, value, item: StoredOffsetRecord(
        key % name, value, item % 3, item, float(item)
    ),
    st.sampled_from(KEYS),
    st.sampled_from(NAMES),
    st.sampled_from(VALUES),
    st.integers(0, 50),
)
contents = st.lists(
    stored, unique_by=lambda offset: (offset.key, offset.kpartition), max_size=12
).map(lambda offset: OffsetStoreContents("east/offsets", tuple(offset), 3))
requests = st.dictionaries(
    st.sampled_from(PARTITIONS),
    st.one_of(st.none(), st.integers(4, 9).map(lambda number: f'{{"offset":{number}}}')),
    min_size=1,
).map(lambda result: tuple(PartitionOffset(*item) for item in result.items()))


def after(before: OffsetStoreContents, records: tuple[RawOffsetRecord, ...]) -> OffsetStoreContents:
    """What the topic holds once these have been written to it."""
    written = {
        (base64.b64decode(record.key), record.kpartition): StoredOffsetRecord(
            base64.b64decode(record.key),
            decode_record_value(record),
            record.kpartition,
            100 + number,
            100.0 + number,
        )
        for number, record in enumerate(records)
    }
    retained = [
        offset for offset in before.stored if (offset.key, offset.kpartition) not in written
    ]
    return OffsetStoreContents(before.where, (*retained, *written.values()), before.partitions)


@given(contents, requests)
def test_a_task_is_handed_what_was_requested_and_otherwise_what_it_was(before, request):
    then = after(before, build_set_records(before, "c", request))
    named = {pair.partition: pair.offset for pair in request}
    results = {pair.partition: pair.offset for pair in list_pairs(then, "c")}
    retained = {
        pair.partition: pair.offset
        for pair in list_pairs(before, "c")
        if pair.partition not in named
    }
    assert results == retained | {
        name: offset for name, offset in named.items() if offset is not None
    }
    assert list_pairs(then, "d") == list_pairs(before, "d")


@given(contents, requests)
def test_requesting_what_is_there_already_writes_nothing(before, request):
    then = after(before, build_set_records(before, "c", request))
    assert build_set_records(then, "c", request) == ()


@given(contents)
def test_a_reset_leaves_nothing_of_one_connector_and_everything_of_the_other(before):
    then = after(before, build_reset_records(before, "c"))
    assert list_raw_records(then, "c") == ()
    assert list_raw_records(then, "d") == list_raw_records(before, "d")


@given(contents, requests)
def test_putting_back_what_was_kept_leaves_every_byte_as_it_was(before, request):
    records = build_set_records(before, "c", request)
    were = {(record.key, record.kpartition): record for record in list_raw_records(before, "c")}
    back = tuple(
        were.get(
            (record.key, record.kpartition), RawOffsetRecord(record.key, None, record.kpartition)
        )
        for record in records
    )
    then = index_by_key(after(after(before, records), back))
    live = {location: value for location, value in then.items() if value is not None}
    assert live == {
        location: value for location, value in index_by_key(before).items() if value is not None
    }
