"""What JsonConverter makes of bytes, at its edges: what is fine, what fails, and what nobody knows.
tests/real/test_conversions.py asks the converter itself.
"""

from __future__ import annotations

import json

import pytest

from offsetwatch.remedy.locate.converters import (
    DEPTH_MAX,
    NUMBER_CHARS_MAX,
    TEXT_BYTES_MAX,
    ConversionVerdict,
    read_json,
    read_text,
)

FINE, FAILS, UNKNOWN = ConversionVerdict.FINE, ConversionVerdict.FAILS, ConversionVerdict.UNKNOWN
STRINGS = {"type": "string"}
NAMED = {"type": "int8", "field": "a"}


def short(result: object) -> str | None:
    return None if isinstance(result, ConversionVerdict) else repr(result)[:60]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'"' + b"x" * (TEXT_BYTES_MAX - 2) + b'"', FINE),
        (b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, FINE),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), UNKNOWN),
        (b"1" * NUMBER_CHARS_MAX, FINE),
        (b"1" * (NUMBER_CHARS_MAX + 1), UNKNOWN),
        (b"1e99", FINE),
        (b"1e100", UNKNOWN),
        (b"1E-100", UNKNOWN),
        (b"[007,]", UNKNOWN),
        (b"1.x", FAILS),
        (b"1ex", FAILS),
        (b"1E+", FAILS),
        (b"[1x2]", FAILS),
        (b'{"a":1x"b":2}', FAILS),
        (b'{"a"x1}', FAILS),
        (b"{a:1}", FAILS),
    ],
    ids=short,
)
def test_a_text_is_read_to_its_bounds(raw: bytes, expected: ConversionVerdict) -> None:
    assert read_text(raw)[0].reading is expected


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        pytest.param(b"\xc3\xa9", FINE, id="two-bytes"),
        pytest.param(b"\xe2\x82\xac", FINE, id="three-bytes"),
        pytest.param(b"\xf0\x9f\x98\x80", FINE, id="four-bytes"),
        pytest.param(b"\xc0\x80", UNKNOWN, id="overlong-of-two"),
        pytest.param(b"\xc1\xbf", UNKNOWN, id="overlong-of-two-too"),
        pytest.param(b"\xe0\x80\x80", UNKNOWN, id="overlong-of-three"),
        pytest.param(b"\xed\xa0\x80", UNKNOWN, id="half-of-a-pair"),
        pytest.param(b"\xf0\x80\x80\x80", UNKNOWN, id="overlong-of-four"),
        pytest.param(b"\xf5\x80\x80\x80", UNKNOWN, id="beyond-unicode"),
        pytest.param(b"\xf7\xbf\xbf\xbf", UNKNOWN, id="far-beyond-unicode"),
        pytest.param(b"\xf8\x88\x80\x80\x80", FAILS, id="five-bytes"),
        pytest.param(b"\x80\x80\x80\x80", FAILS, id="no-first-byte"),
        pytest.param(b"\xc3", FAILS, id="two-cut-short"),
        pytest.param(b"\xc3A", FAILS, id="two-and-another"),
        pytest.param(b"\xc0\xc0", FAILS, id="two-firsts"),
        pytest.param(b"\xe0\x80", FAILS, id="three-cut-short"),
        pytest.param(b"\xe0\x80A", FAILS, id="three-and-another"),
        pytest.param(b"\xf0\x80\x80", FAILS, id="four-cut-short"),
        pytest.param(b"\xf0\x80\x80A", FAILS, id="four-and-another"),
    ],
)
def test_bytes_that_are_no_utf_8_fail_where_every_decoder_minds(
    inner: bytes, expected: ConversionVerdict
) -> None:
    assert read_text(b'["' + inner + b'"]')[0].reading is expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"\xff\xfe", UNKNOWN, id="a-mark-alone"),
        pytest.param(b"\xef\xbb\xbf", UNKNOWN, id="the-mark-of-utf-8-alone"),
        pytest.param("1".encode("utf-16-be"), UNKNOWN, id="utf-16"),
        pytest.param("\ufeff[]".encode("utf-32-le"), UNKNOWN, id="utf-32-with-a-mark"),
        pytest.param("x{".encode("utf-16-le"), FAILS, id="no-json-in-utf-16"),
        pytest.param(b'"ab\0"', UNKNOWN, id="a-zero-among-the-first-four"),
        pytest.param(b'"abc\0"', FAILS, id="a-zero-after-them"),
    ],
)
def test_in_another_encoding_only_what_does_not_begin_as_json_fails(
    raw: bytes, expected: ConversionVerdict
) -> None:
    assert read_text(raw)[0].reading is expected


@pytest.mark.parametrize(
    ("raw", "envelope", "expected"),
    [
        (b"007", True, UNKNOWN),
        (b"{broken", None, FAILS),
        (b"{}", None, UNKNOWN),
        (b"[1]", True, FAILS),
        (b"1", True, FAILS),
        (b"", None, UNKNOWN),
        (None, None, FINE),
    ],
)
def test_what_is_no_json_is_so_with_and_without_a_schema(
    raw: bytes | None, expected: ConversionVerdict, *, envelope: bool | None
) -> None:
    assert read_json(raw, envelope=envelope).reading is expected


def read(schema: object, payload: object) -> ConversionVerdict:
    text = json.dumps({"schema": schema, "payload": payload})
    return read_json(text.encode(), envelope=True).reading


@pytest.mark.parametrize(
    ("kind", "bits"), [("int8", 7), ("int16", 15), ("int32", 31), ("int64", 63)]
)
def test_a_number_is_fine_as_far_as_its_type_goes(kind: str, bits: int) -> None:
    inside, outside = (-(2**bits), 2**bits - 1), (-(2**bits) - 1, 2**bits)
    assert {read({"type": kind}, value) for value in (0, *inside)} == {FINE}
    assert {read({"type": kind}, value) for value in (*outside, True, 1.0, "1")} == {UNKNOWN}


@pytest.mark.parametrize(
    ("kind", "fine", "unknown"),
    [
        ("boolean", (True, False), (1, "true")),
        ("string", ("", "x"), (1, True)),
        ("float", (1.5, 1), (True, "1.5")),
        ("double", (1.5, 1), (False, "1.5")),
        ("bytes", ("", "AAAA"), (1, "A", "AA*AA", "é")),
    ],
)
def test_a_value_is_fine_if_it_is_of_exactly_its_type(
    kind: str, fine: tuple[object, ...], unknown: tuple[object, ...]
) -> None:
    assert {read({"type": kind}, value) for value in fine} == {FINE}
    assert {read({"type": kind}, value) for value in unknown} == {UNKNOWN}


@pytest.mark.parametrize(
    ("schema", "payload", "expected"),
    [
        pytest.param({"type": "int8", "parameters": {"a": "b"}}, 1, UNKNOWN, id="parameters"),
        pytest.param(
            {"type": "array", "items": {"type": "int8", "default": 1}}, [], UNKNOWN, id="a-default"
        ),
        pytest.param({"type": "array", "items": {"type": "boolean"}}, [1], UNKNOWN, id="items"),
        pytest.param({"type": "array", "items": {"type": "boolean"}}, {}, UNKNOWN, id="no-array"),
        pytest.param(
            {"type": "map", "keys": STRINGS, "values": {"type": "boolean"}},
            {"a": 1},
            UNKNOWN,
            id="values",
        ),
        pytest.param(
            {"type": "map", "keys": STRINGS, "values": {"type": "int8"}}, [], UNKNOWN, id="no-map"
        ),
        pytest.param(
            {"type": "map", "keys": {"type": "int8"}, "values": {"type": "int8"}},
            {},
            UNKNOWN,
            id="keys-that-are-no-texts",
        ),
        pytest.param({"type": "map", "values": {"type": "int8"}}, {}, FAILS, id="no-keys"),
        pytest.param({"type": "array", "items": {"type": "struct"}}, [{}], FAILS, id="no-fields"),
    ],
)
def test_what_is_in_lists_and_maps_counts(
    schema: object, payload: object, expected: ConversionVerdict
) -> None:
    assert read(schema, payload) is expected


@pytest.mark.parametrize(
    ("fields", "payload", "expected"),
    [
        pytest.param([NAMED], {"a": 1}, FINE, id="fine"),
        pytest.param([NAMED, NAMED], {"a": 1}, UNKNOWN, id="twice"),
        pytest.param([1], {}, FAILS, id="no-field"),
        pytest.param([NAMED, 1], {"a": 1}, FAILS, id="a-field-and-none"),
        pytest.param([NAMED, {"type": "int8"}], {"a": 1}, FAILS, id="one-without-a-name"),
        pytest.param([{"field": "a"}], {"a": 1}, FAILS, id="one-without-a-type"),
    ],
)
def test_a_struct_has_fields_with_names(
    fields: object, payload: object, expected: ConversionVerdict
) -> None:
    assert read({"type": "struct", "fields": fields}, payload) is expected


@pytest.mark.parametrize(
    ("more", "missing", "number"),
    [
        pytest.param({}, FAILS, FAILS, id="plain"),
        pytest.param({"optional": False}, FAILS, FAILS, id="not-optional"),
        pytest.param({"optional": True}, FINE, UNKNOWN, id="optional"),
        pytest.param({"default": "x"}, UNKNOWN, UNKNOWN, id="with-a-default"),
        pytest.param({"name": "x"}, FAILS, UNKNOWN, id="of-a-logical-type"),
    ],
)
def test_a_text_of_a_struct_that_is_none_is_null(
    more: dict[str, object], missing: ConversionVerdict, number: ConversionVerdict
) -> None:
    schema = {"type": "struct", "fields": [{"field": "n", **STRINGS, **more}]}
    assert (read(schema, {}), read(schema, {"n": 2})) == (missing, number)
