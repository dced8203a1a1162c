from __future__ import annotations

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.offsets_file import read_offsets_file, write_offsets_file
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.model.offsets import Undecodable

HEAD = (
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f"
    "724900097468726573686f6c6478703f400000"
)
BYTES = "757200025b42acf317f8060854e002000078700000000"
VECTORS = [
    pytest.param((), HEAD + "000000007708000000100000000078", id="empty"),
    pytest.param(
        ((b"K", b"V"),),
        HEAD + "0000000c77080000001000000001" + BYTES + "14b7571007e0002000000015678",
        id="one",
    ),
    pytest.param(
        ((None, b"Z"), (b"A", None)),
        HEAD + "0000000c7708000000100000000270" + BYTES + "15a7571007e0002000000014170" + "78",
        id="nulls",
    ),
]
SHARED = HEAD + (
    "0000000c77080000001000000002" + BYTES + "1417571007e00020000000156" + "7571007e00020000000142"
    "71007e000478"
)


@pytest.mark.parametrize(("entries", "written"), VECTORS)
def test_a_file_that_java_wrote_is_read_and_written_byte_for_byte(entries, written):
    raw = bytes.fromhex(written)
    assert read_offsets_file(raw) == entries
    assert write_offsets_file(entries) == raw


def test_a_value_that_is_shared_by_reference_is_read():
    assert read_offsets_file(bytes.fromhex(SHARED)) == ((b"A", b"V"), (b"B", b"V"))


def test_what_is_shared_may_be_the_very_first_array():
    first = SHARED.removesuffix("71007e000478") + "71007e000378"
    assert read_offsets_file(bytes.fromhex(first)) == ((b"A", b"V"), (b"B", b"A"))


def test_a_map_of_thirteen_has_twice_the_capacity_and_its_threshold():
    entries = tuple((b"%d" % number, b"{}") for number in range(13))
    raw = write_offsets_file(entries)
    assert raw[67:71].hex() == "00000018"
    assert raw[73:81].hex() == "000000200000000d"
    assert read_offsets_file(raw) == entries
    assert write_offsets_file(entries[:12])[73:77].hex() == "00000010"


def test_any_capacity_threshold_and_load_factor_are_accepted():
    raw = bytearray(write_offsets_file(((b"K", b"V"),)))
    raw[63:71] = bytes.fromhex("3f80000000000000")
    raw[73:77] = bytes.fromhex("00000400")
    assert read_offsets_file(bytes(raw)) == ((b"K", b"V"),)


def test_keys_are_those_of_an_offsets_topic():
    key = build_connect_key("files", {"filename": "/data/in.txt"})
    ((raw_key, value),) = read_offsets_file(write_offsets_file(((key, b'{"position":5}'),)))
    assert decode_key(raw_key).canonical
    assert value == b'{"position":5}'


@pytest.mark.parametrize("written", [vector.values[1] for vector in VECTORS] + [SHARED])
def test_half_of_a_file_is_truncated_and_never_no_offsets(written):
    raw = bytes.fromhex(written)
    for size in range(len(raw)):
        assert read_offsets_file(raw[:size]) == Undecodable("truncated"), size


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"{}", "not_an_offsets_file", id="json"),
        pytest.param(
            bytes.fromhex(HEAD).replace(b"HashMap", b"TreeMap"), "not_an_offsets_file", id="tree"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "000000007709000000100000000078"), "map_shape", id="other-block"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "00000000770800000010ffffffff78"), "map_shape", id="negative-count"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "000000007708000000100000000079"), "map_shape", id="no-end"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "00000000770800000010000000007800"), "more_than_a_map", id="more"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c770800000010000000017400014b"), "not_bytes", id="strings"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c7708000000100000000171007e0003"),
            "reference",
            id="reference-to-what-is-to-come",
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c7708000000100000000171007e0001"),
            "reference",
            id="reference-to-the-map",
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c77080000001000000001" + BYTES[:-7] + "ffffffff"),
            "map_shape",
            id="negative-length",
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c770800000010000000027070707078"), "key_twice", id="twice"
        ),
        pytest.param(
            bytes.fromhex(HEAD + "0000000c7708000000107fffffff") + b"pp" * 5, "truncated", id="many"
        ),
    ],
)
def test_what_is_no_offsets_file_is_undecodable_with_its_own_reason(raw, reason):
    assert read_offsets_file(raw) == Undecodable(reason)


def test_a_key_that_is_there_twice_is_not_written():
    with pytest.raises(ValueError, match="twice"):
        write_offsets_file(((b"K", None), (b"K", b"V")))
