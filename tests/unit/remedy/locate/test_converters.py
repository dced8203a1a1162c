"""What converters make of bytes. tests/real/test_conversions.py asks the converters themselves."""

from __future__ import annotations

import json

import pytest

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.remedy.classify.trace_meanings import CONVERTER, HEADER, KEY, PUT, VALUE
from offsetwatch.remedy.locate.converters import (
    DEPTH_MAX,
    NUMBER_CHARS_MAX,
    TEXT_BYTES_MAX,
    UNKNOWN_CONVERTERS,
    ConnectorConverters,
    ConversionVerdict,
    Converter,
    check_conversion,
    check_header_conversion,
    read_converters,
    read_json,
    read_text,
)
from offsetwatch.remedy.locate.search import PartitionReading, ReadPosition, SinkFacts, Suspect
from offsetwatch.remedy.locate.sinks import (
    EXAMPLES_MAX,
    decode_suspects,
    find_contradiction,
    has_unknown_converter,
)
from tests.unit.remedy.stalled_connectors import (
    AT,
    AVRO,
    BAD,
    BY_JSON,
    GOOD,
    JSON,
    STRING,
    build_subject,
    record,
    sink_pair,
    values,
    window,
)

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
def test_of_what_has_its_schema_in_a_registry_only_the_frame_is_inspected(
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
def test_what_is_no_class_is_not_reported(name: str) -> None:
    assert read_converters({"key.converter": name}).key.class_name in {None, "a.b"}


def test_a_class_may_have_a_long_name() -> None:
    assert read_converters({"key.converter": "x" * 200}).key.class_name == "x" * 200


def test_of_a_worker_that_is_known_the_default_header_converter_is_known_too() -> None:
    assert read_converters({}).header == Converter(None)
    assert read_converters({}, {}).value == Converter(None)
    assert read_converters({}, {}).header.class_name.endswith("SimpleHeaderConverter")
    assert read_converters({}, {"header.converter": "${env:HEADERS}"}).header == Converter(None)


def test_nothing_else_of_a_configuration_is_retained() -> None:
    converters = read_converters({"value.converter": JSON, "value.converter.basic.auth": "hunter2"})
    assert "hunter2" not in repr(converters)
    assert converters == ConnectorConverters(value=Converter(JSON, envelope=True))


# --- converter check -----------------------------------------------------------------------------

OTHER = Converter("com.example.RowConverter")
STRINGS, AVROS = Converter(STRING), Converter(AVRO)
FRAMED = b"\0\0\0\0\7row"


def suspect(result: LogWindow) -> Suspect:
    return Suspect(
        build_subject(sink_pair(0)), ReadPosition(AT, 0), PartitionReading(window=result), result
    )


def facts(
    key: Converter = PLAIN,
    value: Converter = PLAIN,
    header: Converter = PLAIN,
    batch: int | None = None,
) -> SinkFacts:
    return SinkFacts(converters=ConnectorConverters(key, value, header), batch_max=batch)


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        pytest.param(values(0, GOOD, GOOD), True, id="read-to-the-end"),
        pytest.param(window(record(0), record(1), read_to=5, end=9), True, id="a-full-batch"),
        pytest.param(window(record(0), read_to=5, end=9), False, id="less-than-a-batch"),
    ],
)
def test_all_is_observed_that_may_have_been_in_the_batch(result: LogWindow, *, whole: bool) -> None:
    assert decode_suspects([suspect(result)], facts(batch=2), VALUE).whole is whole


def test_no_more_records_than_a_batch_has_are_inspected() -> None:
    result = decode_suspects(
        [suspect(values(0, GOOD, GOOD, BAD)), suspect(values(7, GOOD))],
        facts(key=Converter(STRING), batch=2),
        VALUE,
    )
    assert (result.records, result.bad, result.whole) == (3, (), True)


def test_a_record_that_fails_is_not_counted_as_one_that_was_not_decoded() -> None:
    records = window(record(0, FRAMED, key=BAD), record(1, FRAMED, key=b"1"))
    for value, unknown, framed in ((OTHER, 1, 0), (Converter(AVRO), 0, 1)):
        result = decode_suspects([suspect(records)], facts(value=value), CONVERTER)
        assert [(item.record.offset, item.stage) for item in result.bad] == [(0, KEY)]
        assert (result.unknown, result.framed) == (unknown, framed)


def test_what_is_not_known_of_one_converter_and_framed_for_another_is_counted_once() -> None:
    result = decode_suspects([suspect(values(0, FRAMED))], facts(OTHER, Converter(AVRO)), CONVERTER)
    assert (result.unknown, result.framed) == (1, 0)
    assert EvidenceItem("not decoded", 1, "records") in result.evidence(BY_JSON, CONVERTER)


def test_what_is_framed_and_what_is_not_known_are_both_not_decoded() -> None:
    result = decode_suspects(
        [suspect(values(0, FRAMED, b"\1x", None))], facts(STRINGS, AVROS), VALUE
    )
    assert (result.unknown, result.framed, result.bad) == (1, 1, ())
    assert EvidenceItem("not decoded", 2, "records") in result.evidence(BY_JSON, VALUE)


def test_of_a_stage_that_decodes_nothing_there_is_no_evidence() -> None:
    assert (
        decode_suspects([suspect(values(0, GOOD))], facts(STRINGS), PUT).evidence(BY_JSON, PUT)
        == ()
    )


def test_of_many_records_that_fail_a_few_are_shown() -> None:
    result = decode_suspects(
        [suspect(values(0, *[BAD] * (EXAMPLES_MAX + 1)))], facts(key=Converter(STRING)), VALUE
    )
    reports = result.evidence(BY_JSON, VALUE)
    assert EvidenceItem("fail our own decode", EXAMPLES_MAX + 1, "records") in reports
    assert [item.name for item in reports].count("fails") == EXAMPLES_MAX


def test_the_evidence_of_an_unknown_converter_says_where_it_comes_from() -> None:
    result = decode_suspects([suspect(values(0, GOOD))], SinkFacts(), CONVERTER)
    assert result.evidence(UNKNOWN_CONVERTERS, CONVERTER)[0] == EvidenceItem(
        "converter",
        "the worker's own, which its REST API does not return",
    )


@pytest.mark.parametrize(
    ("result", "by", "why"),
    [
        pytest.param(
            record(0, key=BAD), facts(), f"it would not even get past {KEY}", id="earlier"
        ),
        pytest.param(record(0, key=b"1"), facts(), f"{VALUE} takes it", id="taken"),
        pytest.param(record(0, BAD, key=b"1"), facts(), None, id="it-fails-there"),
        pytest.param(
            record(0, key=b"1", headers=(("h", BAD),)), facts(value=OTHER), None, id="later"
        ),
    ],
)
def test_a_record_is_not_the_one_that_fails_where_it_is_taken_or_never_arrives(
    result: RawRecord, by: SinkFacts, why: str | None
) -> None:
    assert find_contradiction(result, by, VALUE) == why


def test_of_a_record_that_not_all_converters_are_known_to_take_nothing_is_said() -> None:
    assert find_contradiction(record(0, b"1", key=b"1"), facts(), PUT) is None
    assert find_contradiction(record(0, b"1", key=b"1"), facts(value=OTHER), CONVERTER) is None
    assert (
        find_contradiction(record(0, b"1", key=b"1"), facts(), CONVERTER) == f"{CONVERTER} takes it"
    )


@pytest.mark.parametrize(
    ("by", "stages"),
    [
        pytest.param(facts(), (), id="all-are-known"),
        pytest.param(facts(header=Converter()), (CONVERTER, HEADER), id="one-is-not"),
        pytest.param(facts(*[Converter()] * 3), (CONVERTER, KEY, VALUE, HEADER), id="none-is"),
    ],
)
def test_a_stage_is_unknown_where_one_of_its_converters_is_unknown(
    by: SinkFacts, stages: tuple[str, ...]
) -> None:
    requests = (CONVERTER, KEY, VALUE, HEADER, PUT)
    assert (
        tuple(stage for stage in requests if has_unknown_converter(by.converters, stage)) == stages
    )


# --- json converter ------------------------------------------------------------------------------

FINE, FAILS, UNKNOWN = ConversionVerdict.FINE, ConversionVerdict.FAILS, ConversionVerdict.UNKNOWN
TEXT = {"type": "string"}
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
            {"type": "map", "keys": TEXT, "values": {"type": "boolean"}},
            {"a": 1},
            UNKNOWN,
            id="values",
        ),
        pytest.param(
            {"type": "map", "keys": TEXT, "values": {"type": "int8"}}, [], UNKNOWN, id="no-map"
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
    schema = {"type": "struct", "fields": [{"field": "n", **TEXT, **more}]}
    assert (read(schema, {}), read(schema, {"n": 2})) == (missing, number)
