"""Kafka's own numbers, from Utils.murmur2."""

from __future__ import annotations

import pytest

from offsetwatch.decode.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed", "of_25"),
    [
        (b"", 275646681, 6),
        (b"a", -1563381124, 24),
        (b"ab", 316155434, 9),
        (b"abc", 479470107, 7),
        (b"abcd", -1323649548, 0),
        (b'["c",{"filename":"/x"}]', -1403323153, 20),
        (b'["mirror-src",{"cluster":"a","partition":3,"topic":"orders"}]', 1238240491, 16),
    ],
)
def test_a_key_goes_where_the_java_producer_puts_it(key, signed, of_25):
    assert murmur2(key) == signed % 2**32
    assert partition_of(key, 25) == of_25
