"""Maps as Java writes them. Vectors: wire-formats 1.1, 1.3, 1.4, observed on the real classes."""

from __future__ import annotations

import pytest

from offsetwatch.decode.java.hash_map import (
    build_connect_key,
    compute_hash_map_order,
    compute_string_hash,
    format_json_scalar,
    format_json_string,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("Aa", 2112, id="collides-with-BB"),
        pytest.param("BB", 2112, id="collides-with-Aa"),
        pytest.param("filename", (-734768633) & 0xFFFFFFFF, id="negative-in-java"),
        pytest.param("\U0001f600", 0xD83D * 31 + 0xDE00, id="two-code-units"),
    ],
)
def test_a_string_hashes_as_in_java(text, expected):
    assert compute_string_hash(text) == expected


@pytest.mark.parametrize(
    "order",
    [
        ("cluster", "partition", "topic"),
        ("partition", "topic", "group"),
        ("kafka_partition", "kafka_topic"),
        ("sourceClusterAlias", "targetClusterAlias"),
        ("protocol", "table"),
        ("server", "database"),
        ("timestamp_nanos", "incrementing", "timestamp"),
        ("lsn", "txId", "ts_usec", "snapshot"),
    ],
    ids="-".join,
)
def test_a_hash_map_iterates_in_the_order_observed_in_java(order):
    assert compute_hash_map_order(tuple(sorted(order))) == order
    assert compute_hash_map_order(tuple(reversed(order))) == order


def test_names_that_collide_keep_their_insertion_order():
    assert compute_hash_map_order(("Aa", "BB")) == ("Aa", "BB")
    assert compute_hash_map_order(("BB", "Aa")) == ("BB", "Aa")


def test_the_thirteenth_field_doubles_the_buckets_and_moves_a_name():
    """`p` is 112: the first of 16 buckets, the seventeenth of 32."""
    assert compute_hash_map_order(tuple("abcdefghijkp")) == tuple("pabcdefghijk")
    assert compute_hash_map_order(tuple("abcdefghijklp")) == tuple("abcdefghijklp")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain /path", '"plain /path"', id="slash-is-not-escaped"),
        pytest.param('"\\', '"\\"\\\\"', id="quote-and-backslash"),
        pytest.param("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"', id="short-escapes"),
        pytest.param("\x00\x1f", '"\\u0000\\u001F"', id="upper-hex"),
        pytest.param("\x7f\u2028é", '"\x7f\u2028é"', id="raw-beyond-controls"),
        pytest.param("é !", '"é !"', id="a-space-beside-what-is-not-ascii"),
        pytest.param("\uffff", '"\uffff"', id="the-last-of-the-first-plane"),
        pytest.param("\U0001f600", '"\\uD83D\\uDE00"', id="supplementary-as-a-pair"),
    ],
)
def test_a_string_is_written_as_jackson_writes_it(text, expected):
    assert format_json_string(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param(True, "true", id="bool-is-no-number"),
        pytest.param(-5, "-5", id="int"),
        pytest.param(2**63 - 1, "9223372036854775807", id="largest-long"),
        pytest.param(-(2**63), "-9223372036854775808", id="smallest-long"),
        pytest.param(2**63, None, id="connect-would-wrap-it"),
        pytest.param(-(2**63) - 1, None, id="connect-would-wrap-it-too"),
        pytest.param(1.0, "1.0", id="whole-float"),
        pytest.param(-9_999_999.0, "-9999999.0", id="largest-whole-float-without-an-exponent"),
        pytest.param(1e7, None, id="java-would-write-an-exponent"),
        pytest.param(0.1, None, id="float-text-is-javas-own"),
        pytest.param(-0.0, None, id="negative-zero"),
        pytest.param(float("inf"), None, id="infinite"),
        pytest.param(float("nan"), None, id="no-number"),
    ],
)
def test_a_primitive_is_written_as_jackson_writes_it_or_not_at_all(value, expected):
    assert format_json_scalar(value) == expected


def test_the_key_of_an_mm2_partition_has_the_bytes_that_mm2_writes():
    key = build_connect_key("mirror-src", {"topic": "orders", "cluster": "a", "partition": 3})
    assert key == bytes.fromhex(
        "5b226d6972726f722d737263222c7b22636c7573746572223a2261222c22706172746974696f6e223a33"
        "2c22746f706963223a226f7264657273227d5d"
    )


def test_a_connector_without_partitions_has_a_key():
    assert build_connect_key("c", None) == b'["c",null]'


def test_a_name_that_utf8_cannot_carry_has_no_key():
    assert build_connect_key("c", {"a": "\ud800"}) is None


def test_a_partition_with_a_broken_float_has_no_key_that_we_could_know():
    assert build_connect_key("c", {"a": 0.3}) is None


def test_the_first_character_beyond_the_bmp_is_escaped_and_the_last_of_it_is_not():
    assert format_json_string("\U00010000") == '"\\uD800\\uDC00"'
    assert format_json_string("\uffff") == '"\uffff"'
