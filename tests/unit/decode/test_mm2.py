from __future__ import annotations

import struct

import pytest

from exporter.decode.mm2 import decode_sync, decode_sync_key, decode_sync_value
from exporter.model.offsets import OffsetSync, Undecodable

KEY = bytes.fromhex("00066f726465727300000003")
VALUE = bytes.fromhex("00000000000004d200000000000004b0")


def test_a_sync_pairs_the_offsets_of_one_record_on_both_sides():
    assert decode_sync(KEY, VALUE) == OffsetSync(
        topic="orders", partition=3, upstream_offset=1234, downstream_offset=1200
    )


def test_a_topic_name_may_be_empty_or_not_ascii():
    assert decode_sync_key(b"\x00\x00" + bytes(4)) == ("", 0)
    assert decode_sync_key(b"\x00\x02\xc3\xa9" + bytes(4)) == ("é", 0)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(None, "key_null", id="no-key"),
        pytest.param(b"", "key_too_short", id="no-bytes"),
        pytest.param(KEY[:5], "key_too_short", id="cut-in-the-length"),
        pytest.param(KEY[:-1], "key_length", id="a-byte-short"),
        pytest.param(KEY + b"\x00", "key_length", id="a-byte-long"),
        pytest.param(b"\xff\xff" + KEY[2:], "key_length", id="negative-length"),
        pytest.param(b"\x00\x02\xc3\x28" + bytes(4), "key_not_utf8", id="not-utf8"),
        pytest.param(KEY[:-4] + b"\xff" * 4, "key_partition_negative", id="negative-partition"),
        pytest.param(b'["c",{"a":1}]', "key_length", id="an-offsets-topics-key"),
    ],
)
def test_what_is_no_sync_key_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_sync_key(raw) == Undecodable(reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(None, "value_null", id="tombstone"),
        pytest.param(b"", "value_length", id="no-bytes"),
        pytest.param(VALUE[:15], "value_length", id="a-byte-short"),
        pytest.param(VALUE + b"\x00", "value_length", id="a-byte-long"),
        pytest.param(struct.pack(">qq", -1, 5), "value_negative", id="negative-upstream"),
        pytest.param(struct.pack(">qq", 5, -1), "value_negative", id="negative-downstream"),
    ],
)
def test_what_is_no_sync_value_is_undecodable_with_its_own_reason(raw, reason):
    assert decode_sync_value(raw) == Undecodable(reason)


def test_the_largest_offsets_are_exact():
    largest = 2**63 - 1
    assert decode_sync_value(struct.pack(">qq", largest, largest)) == (largest, largest)


def test_an_undecodable_key_speaks_before_an_undecodable_value():
    assert decode_sync(None, None) == Undecodable("key_null")
    assert decode_sync(KEY, None) == Undecodable("value_null")
