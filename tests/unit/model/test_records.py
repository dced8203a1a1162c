"""What a record hashes to, and how large a producer takes it to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetwatch.model.records import RawRecord

PLAIN = RawRecord("orders", 3, 7, 1, 1_800_000_000_000, "create", b"k", b"v", (("h", b"1"),))


def test_a_record_is_the_same_wherever_it_lies():
    elsewhere = replace(PLAIN, topic="other", partition=0, offset=0, leader_epoch=None)
    assert elsewhere.sha256 == PLAIN.sha256


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAIN, key=None),
        replace(PLAIN, key=b""),
        replace(PLAIN, key=b"kv", value=b""),
        replace(PLAIN, value=None),
        replace(PLAIN, timestamp_ms=1_800_000_000_001),
        replace(PLAIN, timestamp_ms=None),
        replace(PLAIN, timestamp_type="append"),
        replace(PLAIN, headers=()),
        replace(PLAIN, headers=(("h", None),)),
        replace(PLAIN, headers=(("h", b""),)),
        replace(PLAIN, headers=(("h1", b""),)),
        replace(PLAIN, headers=(("h", b"1"), ("h", b"1"))),
    ],
)
def test_a_record_that_differs_in_anything_it_holds_hashes_otherwise(other):
    assert other.sha256 != PLAIN.sha256


def test_the_order_of_headers_counts():
    one, two = ("a", b"1"), ("b", b"2")
    assert replace(PLAIN, headers=(one, two)).sha256 != replace(PLAIN, headers=(two, one)).sha256


@pytest.mark.parametrize(
    ("record", "size"),
    [
        (replace(PLAIN, key=None, value=None, headers=()), 61 + 21 + 3),
        (replace(PLAIN, key=b"", value=b"", headers=()), 61 + 21 + 3),
        (replace(PLAIN, key=None, value=b"v" * 63, headers=()), 61 + 21 + 1 + 1 + 63 + 1),
        (replace(PLAIN, key=None, value=b"v" * 64, headers=()), 61 + 21 + 1 + 2 + 64 + 1),
        (replace(PLAIN, key=b"k" * 8191, value=None, headers=()), 61 + 21 + 2 + 8191 + 1 + 1),
        (replace(PLAIN, key=b"k" * 8192, value=None, headers=()), 61 + 21 + 3 + 8192 + 1 + 1),
        (
            replace(PLAIN, key=None, value=None, headers=(("é", None), ("h", b"12"))),
            61 + 21 + 3 + 3 + 1 + 2 + 3,
        ),
    ],
)
def test_a_record_is_as_large_as_a_producer_takes_it_to_be(record, size):
    assert record.size_bytes == size
