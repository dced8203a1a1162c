"""What converters make of bytes. tests/real/test_conversions.py asks the converters themselves."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.locate.converters import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    ConnectorConverters,
    ConversionVerdict,
    Converter,
    check_conversion,
    check_header_conversion,
    read_converters,
)
from tests.unit.remedy.standstills import AVRO, JSON, STRING

CONVERTERS = "org.apache.kafka.connect.converters."
PLAIN = Converter(JSON, envelope=False)
ENVELOPE = Converter(JSON, envelope=True)
SCHEMA = b'{"type":"struct","fields":[{"field":"id","type":"int32"},{"field":"n","type":"string"}]}'
MANY = b"[" * (DEPTH_MAX + 1)


def wrapped(schema: bytes, payload: bytes) -> bytes:
    return b'{"schema":%s,"payload":%s}' % (schema, payload)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"{}",
        b' {"a" : [1, -2.5e3, true, null, "\\u00e9\\n"]}\n',
        '"José"'.encode(),
        b'{"a":1} and more',
        b"[1]]",
        b"0",
    ],
)  # fmt: skip
def test_json_is_converted(raw: bytes | None) -> None:
    assert check_conversion(PLAIN, raw).reading is ConversionVerdict.FINE


@pytest.mark.parametrize(
    "raw",
    [
        b"{broken",
        b"plain text",
        b'{"a":1',
        b'{"a":}',
        b'{"a" 1}',
        b"{'a':1}",
        b'{"a":1,}',
        b"[1,]",
        b"[1 2]",
        b"{,}",
        b"}",
        b"1.",
        b"-",
        b'"cut off',
        b'"a\nb"',
        b'"\\x"',
        b'"\\u12"',
        b'{"name":"Jos\xe9"}',
        b'"\xff"',
        b"\x00\x00\x00\x00\x07avro",
        b"\xff\xd8\xff\xe0 a picture",
        b'{"a":NaN}',
        b"/* x */ 1",
    ],
)
def test_what_no_parser_takes_fails(raw: bytes) -> None:
    assert check_conversion(PLAIN, raw).reading is ConversionVerdict.FAILS
    assert check_conversion(ENVELOPE, raw).reading is ConversionVerdict.FAILS


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" \n",
        b"007",
        b'{"a":-01}',
        b"12x",
        b"12 x",
        b'"a" "b"',
        b"1e999",
        b"9" * 400,
        b'"\xc0\x80"',
        b'"\xed\xa0\x80"',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16-be"),
        MANY,
        b'"' + b"x" * TEXT_BYTES_MAX + b'"',
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_of_what_one_parser_may_take_and_another_not_nothing_is_said(raw: bytes) -> None:
    assert check_conversion(PLAIN, raw).reading is ConversionVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, ConversionVerdict.FINE),
        (wrapped(b"null", b"[1]"), ConversionVerdict.FINE),
        (wrapped(SCHEMA, b'{"id":1,"n":"x"}'), ConversionVerdict.FINE),
        (wrapped(SCHEMA, b'{"id":1,"n":"x","more":2}'), ConversionVerdict.FINE),
        (
            wrapped(b'{"type":"array","items":{"type":"boolean"}}', b"[true]"),
            ConversionVerdict.FINE,
        ),
        (
            wrapped(
                b'{"type":"map","keys":{"type":"string"},"values":{"type":"bytes"}}',
                b'{"a":"AAAA"}',
            ),
            ConversionVerdict.FINE,
        ),
        (wrapped(b'{"type":"int8","optional":true}', b"null"), ConversionVerdict.FINE),
        (b"", ConversionVerdict.FAILS),
        (b"{}", ConversionVerdict.FAILS),
        (b'{"id":1}', ConversionVerdict.FAILS),
        (b'{"schema":null,"payload":1,"more":2}', ConversionVerdict.FAILS),
        (wrapped(b'"int32"', b"1"), ConversionVerdict.FAILS),
        (wrapped(b"{}", b"1"), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"int128"}', b"1"), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"array"}', b"[]"), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"map","keys":{"type":"string"}}', b"{}"), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"struct"}', b"{}"), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"struct","fields":[{"type":"int8"}]}', b"{}"), ConversionVerdict.FAILS),
        (wrapped(SCHEMA, b"[]"), ConversionVerdict.FAILS),
        (wrapped(SCHEMA, b'{"n":"x"}'), ConversionVerdict.FAILS),
        (wrapped(SCHEMA, b'{"id":1,"n":2}'), ConversionVerdict.FAILS),
        (wrapped(b'{"type":"int8"}', b"null"), ConversionVerdict.FAILS),
        (wrapped(SCHEMA, b'{"id":"1","n":"x"}'), ConversionVerdict.UNKNOWN),
        (wrapped(b'{"type":"int8"}', b"1000"), ConversionVerdict.UNKNOWN),
        (wrapped(b'{"type":"int8","default":1}', b"null"), ConversionVerdict.UNKNOWN),
        (
            wrapped(b'{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}', b"1"),
            ConversionVerdict.UNKNOWN,
        ),
    ],
    ids=lambda result: repr(result[-60:]) if isinstance(result, bytes) else None,
)
def test_a_text_with_its_schema(raw: bytes | None, expected: ConversionVerdict) -> None:
    assert check_conversion(ENVELOPE, raw).reading is expected


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"text"])
@pytest.mark.parametrize("name", [STRING, f"{CONVERTERS}ByteArrayConverter"])
def test_texts_and_bytes_are_always_converted(name: str, raw: bytes | None) -> None:
    assert check_conversion(Converter(name), raw).reading is ConversionVerdict.FINE


@pytest.mark.parametrize(
    ("name", "size"), [("Short", 2), ("Integer", 4), ("Float", 4), ("Long", 8), ("Double", 8)]
)
def test_a_number_has_the_bytes_of_its_type(name: str, size: int) -> None:
    converter = Converter(f"{CONVERTERS}{name}Converter")
    assert check_conversion(converter, b"\xff" * size).reading is ConversionVerdict.FINE
    assert check_conversion(converter, None).reading is ConversionVerdict.FINE
    assert check_conversion(converter, b"\xff" * (size - 1)).reading is ConversionVerdict.FAILS
    assert check_conversion(converter, b"").reading is ConversionVerdict.FAILS


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\0", ConversionVerdict.FINE),
        (b"\1", ConversionVerdict.FINE),
        (b"\2", ConversionVerdict.FAILS),
        (b"", ConversionVerdict.FAILS),
    ],
)
def test_a_truth_value_is_one_byte(raw: bytes, expected: ConversionVerdict) -> None:
    assert check_conversion(Converter(f"{CONVERTERS}BooleanConverter"), raw).reading is expected


@pytest.mark.parametrize(
    ("raw", "expected", "why"),
    [
        (None, ConversionVerdict.FINE, ""),
        (b"\0\0\0\0\7x", ConversionVerdict.FRAMED, "not decoded: its schema is in a registry"),
        (b"\0\1\0\0\7x", ConversionVerdict.FRAMED, "not decoded: its schema is in a registry"),
        (b"\0\0\0\0\7", ConversionVerdict.FRAMED, "not decoded: its schema is in a registry"),
        (b"\0\0\0", ConversionVerdict.FAILS, "cut off within its schema's id"),
        (b'{"id":1}', ConversionVerdict.FAILS, "unknown magic byte"),
        (
            b"\1" + b"x" * 20,
            ConversionVerdict.UNKNOWN,
            "not decoded: no frame that every version has",
        ),
        (b"", ConversionVerdict.UNKNOWN, "not decoded: no frame that every version has"),
    ],
)
def test_of_what_has_its_schema_in_a_registry_only_the_frame_is_looked_at(
    raw: bytes | None, expected: ConversionVerdict, why: str
) -> None:
    check = check_conversion(Converter(AVRO), raw)
    assert (check.reading, check.why) == (expected, why)


@pytest.mark.parametrize("name", ["avro.Avro", "protobuf.Protobuf", "json.JsonSchema"])
def test_every_converter_with_a_registry_writes_the_same_frame(name: str) -> None:
    converter = Converter(f"io.confluent.connect.{name}Converter")
    assert check_conversion(converter, b"\0\0\0\0\7x").reading is ConversionVerdict.FRAMED


@pytest.mark.parametrize("name", ["__key_schema_id", "__value_schema_id"])
def test_a_schema_that_is_named_in_a_header_needs_no_frame(name: str) -> None:
    assert (
        check_conversion(Converter(AVRO), b"text", ((name, b"\1x"),)).reading
        is ConversionVerdict.UNKNOWN
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (None, "the converter is not known"),
        ("com.example.Own", "not decoded: nothing is known of the converter"),
        ("io.apicurio.AvroConverter", "not decoded: nothing is known of the converter"),
    ],
)
def test_of_a_converter_that_is_not_known_nothing_is_said(name: str | None, why: str) -> None:
    check = check_conversion(Converter(name), b"{}")
    assert (check.reading, check.why) == (ConversionVerdict.UNKNOWN, why)


def test_headers_fail_where_one_of_them_does() -> None:
    good, bad = ("a", b"{}"), ("b", b"{")
    assert check_header_conversion(PLAIN, (good,)).reading is ConversionVerdict.FINE
    assert check_header_conversion(PLAIN, (good, bad)).reading is ConversionVerdict.FAILS
    assert (
        check_header_conversion(Converter("com.example.Own"), (good,)).reading
        is ConversionVerdict.UNKNOWN
    )
    assert (
        check_header_conversion(Converter("com.example.Own"), ()).reading is ConversionVerdict.FINE
    )
    assert (
        check_header_conversion(Converter(AVRO), (("a", b"x"),)).reading
        is ConversionVerdict.UNKNOWN
    )
    unclear = ("a", wrapped(b'{"type":"int8"}', b"1000"))
    assert check_header_conversion(ENVELOPE, (unclear,)).reading is ConversionVerdict.UNKNOWN
    assert check_header_conversion(ENVELOPE, (unclear, bad)).reading is ConversionVerdict.FAILS


@pytest.mark.parametrize("name", [JSON, "JsonConverter", "Json", f" {JSON} "])
def test_a_class_is_known_by_its_aliases(name: str) -> None:
    converters = read_converters({"value.converter": name})
    assert converters.value == Converter(JSON, envelope=True)


def test_a_converter_is_called_by_its_class_where_that_is_known() -> None:
    assert Converter(JSON).name == JSON
    assert Converter().name == "the worker's own, which its REST API does not return"


def test_settings_of_a_converter_count_beside_its_class_only() -> None:
    own = {"value.converter.schemas.enable": "false"}
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
    assert read_converters(own).value == Converter(None)
    assert read_converters(own, worker).value == Converter(JSON, envelope=True)
    assert read_converters({**own, "value.converter": JSON}, worker).value == PLAIN


@pytest.mark.parametrize(
    "settings",
    [
        {"value.converter.schemas.enable": "${file:/x:y}"},
        {"value.converter.schemas.enable": "perhaps"},
        {"value.converter.schema.content": "{}"},
    ],
)
def test_what_stands_elsewhere_is_not_known(settings: dict[str, str]) -> None:
    converters = read_converters({"value.converter": JSON, **settings})
    assert converters.value == Converter(JSON, envelope=None)


@pytest.mark.parametrize("name", ["${file:/x:y}", "", "a b", "x" * 201, "a..b", "a.b\n"])
def test_what_is_no_class_is_not_told(name: str) -> None:
    assert read_converters({"key.converter": name}).key.class_name in {None, "a.b"}


def test_a_class_may_have_a_long_name() -> None:
    assert read_converters({"key.converter": "x" * 200}).key.class_name == "x" * 200


def test_of_a_worker_that_is_known_the_default_header_converter_is_known_too() -> None:
    assert read_converters({}).header == Converter(None)
    assert read_converters({}, {}).value == Converter(None)
    assert read_converters({}, {}).header.class_name.endswith("SimpleHeaderConverter")
    assert read_converters({}, {"header.converter": "${env:HEADERS}"}).header == Converter(None)


def test_nothing_else_of_a_configuration_is_kept() -> None:
    converters = read_converters({"value.converter": JSON, "value.converter.basic.auth": "hunter2"})
    assert "hunter2" not in repr(converters)
    assert converters == ConnectorConverters(value=Converter(JSON, envelope=True))
