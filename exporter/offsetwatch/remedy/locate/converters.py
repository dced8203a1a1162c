"""Connector converters from the configuration, and whether they accept the bytes of a record.

A known converter gets a ConversionCheck for what it certainly accepts or refuses; every other
converter gets UNKNOWN. For a schema registry's format only the frame is checked.

JsonConverter's parser (Jackson) accepts more than JSON: anything after the first value, leading
zeros, UTF-16 recognized by its zero bytes. So bytes are FAILS only for an error that Jackson
reports too, and FINE only as strict JSON; everything between is UNKNOWN. `lab/check/converters.py`
checks this against the converter itself. Pure and total.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from offsetwatch.formatting import format_count
from offsetwatch.model.records import Headers

TEXT_BYTES_MAX: Final = 4_000_000  # Jackson limits a text within to 20 million characters
DEPTH_MAX: Final = 200  # Jackson's own limit is 1000
NUMBER_CHARS_MAX: Final = 300  # Jackson's own limit is 1000


class ConversionVerdict(StrEnum):
    """The predicted result of converting some bytes.

    fine      they are converted
    framed    the frame is valid; the rest was not decoded
    unknown   it cannot be predicted
    fails     the converter throws
    """

    FINE = "fine"
    FRAMED = "framed"
    UNKNOWN = "unknown"
    FAILS = "fails"


class ConversionCheck(NamedTuple):
    """A verdict and its reason; `why` is a fixed phrase for users that never quotes the bytes."""

    reading: ConversionVerdict
    why: str


def _unknown(why: str) -> ConversionCheck:
    return ConversionCheck(ConversionVerdict.UNKNOWN, why)


def _fails(why: str) -> ConversionCheck:
    return ConversionCheck(ConversionVerdict.FAILS, why)


FINE: Final = ConversionCheck(ConversionVerdict.FINE, "")
_EMPTY: Final = _unknown("holds nothing")  # which some versions take for null
_LENIENT: Final = _unknown("is converted or not, depending on the parser")

# --- the text -------------------------------------------------------------------------------------

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_QUOTED: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"', re.DOTALL)
_NUMBER: Final = re.compile(rb"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_LITERAL: Final = re.compile(rb"true|false|null")
_NEEDLESS_ZERO: Final = re.compile(rb"-?0[0-9]")
_EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{3}")
_BEGINNINGS: Final = '{["-0123456789tfn'
_ENCODINGS: Final = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


class _InvalidJson(Exception):
    """An error that every JSON parser reports."""


class _AmbiguousJson(Exception):
    """A text that some JSON parsers accept and others do not."""


def read_text(raw: bytes) -> tuple[ConversionCheck, Any]:
    """Predict how a parser reads the bytes; return the value too if it is FINE."""
    if len(raw) > TEXT_BYTES_MAX:
        return _unknown("too large to be decoded here"), None
    if not raw.strip(b" \t\r\n"):
        return _EMPTY, None
    if 0 in raw[:4] or raw[:2] in {b"\xfe\xff", b"\xff\xfe"} or raw[:3] == b"\xef\xbb\xbf":
        return _check_encodings(raw), None
    try:
        end = _find_value_end(raw)
        value = msgspec.json.decode(raw[:end])
    except _InvalidJson:
        return _fails("no JSON"), None
    except (_AmbiguousJson, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _LENIENT, None
    if raw[end:].strip(b" \t\r\n") and not isinstance(value, dict | list):
        return _LENIENT, None  # of `12 x` and `12x` a parser takes one at most
    return FINE, value


def _check_encodings(raw: bytes) -> ConversionCheck:
    """Check bytes that Jackson may take for UTF-16 or UTF-32, where it accepts more than in UTF-8.

    They fail if in none of these encodings they begin as JSON does.
    """
    for encoding in _ENCODINGS:
        text = raw.decode(encoding, errors="replace").removeprefix("\ufeff").lstrip(" \t\r\n")
        if not text or text[0] in _BEGINNINGS:
            return _LENIENT
    return _fails("no JSON")


def _find_value_end(raw: bytes) -> int:
    """Return the position after the first value. Raises _InvalidJson, _AmbiguousJson."""
    opened: list[int] = []  # the brackets that are open
    position = _skip_space(raw, 0)
    while True:
        position = _skip_scalar_or_bracket(raw, position, opened)
        while opened:
            fresh = opened[-1] == position - 1  # nothing is in it yet
            in_map = raw[opened[-1] : opened[-1] + 1] == b"{"
            position = _skip_space(raw, position)
            following = raw[position : position + 1]
            if following != (b"}" if in_map else b"]"):
                if not fresh and following != b",":
                    raise _InvalidJson
                position = position if fresh else _skip_space(raw, position + 1)
                position = _find_name_end(raw, position) if in_map else position
                break
            opened.pop()
            position += 1
        if not opened:
            return position


def _skip_scalar_or_bracket(raw: bytes, position: int, opened: list[int]) -> int:
    first = raw[position : position + 1]
    if first in {b"[", b"{"}:
        if len(opened) >= DEPTH_MAX:
            raise _AmbiguousJson
        opened.append(position)
        return position + 1
    if first == b'"':
        return _find_string_end(raw, position)
    literal = _LITERAL.match(raw, position)
    if literal is not None:
        return literal.end()
    number = _NUMBER.match(raw, position)
    if number is None:
        raise _InvalidJson
    text = number[0]
    if _NEEDLESS_ZERO.match(text) or _EXPONENT.search(text) or len(text) > NUMBER_CHARS_MAX:
        raise _AmbiguousJson
    if raw[number.end() : number.end() + 1] in {b".", b"e", b"E"}:
        raise _InvalidJson
    return number.end()


def _find_name_end(raw: bytes, position: int) -> int:
    position = _skip_space(raw, _find_string_end(raw, position))
    if raw[position : position + 1] != b":":
        raise _InvalidJson
    return _skip_space(raw, position + 1)


def _find_string_end(raw: bytes, position: int) -> int:
    match = _QUOTED.match(raw, position)
    if match is None:
        raise _InvalidJson
    try:
        match[0].decode()
    except UnicodeDecodeError as exc:
        first, following = match[0][exc.start], match[0][exc.start + 1 :]
        needed = 1 if 0xC0 <= first < 0xE0 else 2 if 0xE0 <= first < 0xF0 else 3
        # What follows ends with the quote, which is no such byte: what is cut short is seen, too.
        if 0xC0 <= first < 0xF8 and all(0x80 <= byte < 0xC0 for byte in following[:needed]):
            raise _AmbiguousJson from exc  # overlong, or half of a pair: not every decoder minds
        raise _InvalidJson from exc
    return match.end()


def _skip_space(raw: bytes, position: int) -> int:
    match = _SPACE.match(raw, position)
    return position if match is None else match.end()


# --- the envelope of a schema and a payload -------------------------------------------------------

_INTEGERS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_LOGICAL: Final = "org.apache.kafka.connect.data."
_NO_SCHEMA: Final = _fails("holds no schema that there is")
_NO_PAYLOAD: Final = _fails("holds a payload that its schema does not allow")
_NO_ENVELOPE: Final = _fails("no envelope of a schema and a payload")


def read_json(raw: bytes | None, *, envelope: bool | None) -> ConversionCheck:
    """Predict the conversion of a text. `envelope` is schemas.enable; None if unknown."""
    if raw is None:
        return FINE
    said, value = read_text(raw)
    if said == _EMPTY and envelope is True:
        return _NO_ENVELOPE
    if said.reading is not ConversionVerdict.FINE or envelope is False:
        return said
    if envelope is None:
        return _unknown("it is unknown whether it must have a schema")
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        return _NO_ENVELOPE
    return _choose_worst(
        (_check_schema(value["schema"]), _check_payload(value["schema"], value["payload"]))
    )


def _choose_worst(checks: Iterable[ConversionCheck]) -> ConversionCheck:
    worst = FINE
    for said in checks:
        if said.reading is ConversionVerdict.FAILS:
            return said
        worst = worst if said.reading is ConversionVerdict.FINE else said
    return worst


def _check_schema(node: Any) -> ConversionCheck:
    """Check a schema as JsonConverter.asConnectSchema does, at most as deep as the text nests."""
    if node is None:
        return FINE
    kind = node.get("type") if isinstance(node, dict) else None
    if not isinstance(kind, str):
        return _NO_SCHEMA
    odd = "default" in node or "parameters" in node
    inner: list[ConversionCheck] = [_LENIENT] if odd else []
    match kind:
        case "array":
            inner.append(_check_inner_schema(node.get("items")))
        case "map":
            inner += (
                _check_inner_schema(node.get("keys")),
                _check_inner_schema(node.get("values")),
            )
        case "struct":
            inner += _check_fields(node.get("fields"))
        case "boolean" | "float" | "double" | "bytes" | "string":
            pass
        case _ if kind not in _INTEGERS:
            return _NO_SCHEMA
    return _choose_worst(inner)


def _check_inner_schema(node: Any) -> ConversionCheck:
    return _NO_SCHEMA if node is None else _check_schema(node)


def _check_fields(nodes: Any) -> list[ConversionCheck]:
    if not isinstance(nodes, list):
        return [_NO_SCHEMA]
    named = [isinstance(node, dict) and isinstance(node.get("field"), str) for node in nodes]
    if not all(named):
        return [_NO_SCHEMA]
    unique = len({node["field"] for node in nodes}) == len(nodes)
    return [*(_check_schema(node) for node in nodes), FINE if unique else _LENIENT]


def _check_payload(schema: Any, value: Any) -> ConversionCheck:
    """Check a payload as JsonConverter.convertToConnect does; the schema may be None."""
    if schema is None:
        return FINE
    if not isinstance(schema, Mapping) or "default" in schema:
        return _LENIENT
    if value is None:
        return FINE if schema.get("optional") is True else _NO_PAYLOAD
    if str(schema.get("name", "")).startswith(_LOGICAL):
        return _LENIENT
    match schema.get("type"):
        case "struct":
            return _check_struct(schema.get("fields"), value)
        case "array" if isinstance(value, list):
            return _choose_worst(_check_payload(schema.get("items"), item) for item in value)
        case "map" if isinstance(value, dict) and _has_text_keys(schema.get("keys")):
            return _choose_worst(
                _check_payload(schema.get("values"), item) for item in value.values()
            )
        case str(kind):
            return FINE if _is_of_kind(kind, value) else _LENIENT
    return _LENIENT


def _check_struct(fields: Any, value: Any) -> ConversionCheck:
    if not isinstance(value, dict):
        return _NO_PAYLOAD
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        return _LENIENT
    checks = []
    for field in fields:
        inner = value.get(field.get("field"))
        plain = field.get("type") == "string" and not {"default", "name"} & field.keys()
        if plain and field.get("optional") is not True and not isinstance(inner, str):
            checks.append(_NO_PAYLOAD)  # to the converter it is null
        else:
            checks.append(_check_payload(field, inner))
    return _choose_worst(checks)


def _has_text_keys(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string"


def _is_of_kind(kind: str, value: Any) -> bool:
    """Return whether the value has exactly this type; the converter coerces only some others."""
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bytes":
            return isinstance(value, str) and _is_base64(value)
    bits = _INTEGERS.get(kind)
    if bits is None or isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(-(2**bits) <= value < 2**bits)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


SettingsMap = Mapping[str, str | None]

_CONVERTERS: Final = "org.apache.kafka.connect.converters."
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_BYTES: Final = f"{_CONVERTERS}ByteArrayConverter"
_BOOLEAN: Final = f"{_CONVERTERS}BooleanConverter"
_SIZES: Final = {
    f"{_CONVERTERS}ShortConverter": 2,
    f"{_CONVERTERS}IntegerConverter": 4,
    f"{_CONVERTERS}FloatConverter": 4,
    f"{_CONVERTERS}LongConverter": 8,
    f"{_CONVERTERS}DoubleConverter": 8,
    _BOOLEAN: 1,
}
# Of Confluent's wire format: a zero byte, and the schema's id in four.
_FRAMED: Final = frozenset(
    {
        "io.confluent.connect.avro.AvroConverter",
        "io.confluent.connect.protobuf.ProtobufConverter",
        "io.confluent.connect.json.JsonSchemaConverter",
    }
)
_FRAME_BYTES: Final = 5
_GUID_FRAME: Final = 1  # newer ones name a schema by a GUID, behind this byte or in a header
_ID_HEADERS: Final = frozenset({"__key_schema_id", "__value_schema_id"})

# Connect takes a class's simple name as well, with or without its suffix.
_KNOWN_CLASSES: Final = (_JSON, _STRING, _SIMPLE_HEADERS, _BYTES, *_SIZES, *_FRAMED)
_BY_ALIAS: Final = {
    alias: name
    for name in _KNOWN_CLASSES
    for simple in [name.rpartition(".")[2]]
    for alias in (simple, simple.removesuffix("Converter"))
}
_CLASS: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*", re.ASCII)
_CLASS_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter, as far as the configuration names it.

    class_name   None if unknown, as where the worker's default applies
    envelope     of JsonConverter: whether each text has a schema; None if unknown
    """

    class_name: str | None = None
    envelope: bool | None = None

    @property
    def name(self) -> str:
        """The class name, or a phrase for the worker's own converter."""
        return self.class_name or "the worker's own, which its REST API does not return"


@dataclass(frozen=True, slots=True)
class ConnectorConverters:
    """The key, value and header converters of one connector."""

    key: Converter = Converter()
    value: Converter = Converter()
    header: Converter = Converter()


UNKNOWN_CONVERTERS: Final = ConnectorConverters()


def read_converters(
    connector: SettingsMap, worker: SettingsMap | None = None
) -> ConnectorConverters:
    """Read the converters from a connector's configuration.

    The configuration may hold secrets: nothing else of it is kept.

    worker    the worker's properties, if they are known
    """
    return ConnectorConverters(
        key=_read_converter("key.converter", connector, worker),
        value=_read_converter("value.converter", connector, worker),
        header=_read_converter("header.converter", connector, worker),
    )


def _read_converter(name: str, connector: SettingsMap, worker: SettingsMap | None) -> Converter:
    """Read one converter, and its settings from the same configuration as its class.

    Connect reads both from one source.
    """
    known = worker or {}
    settings = connector if connector.get(name) is not None else known
    class_name = resolve_class_name(settings.get(name))
    if name == "header.converter" and worker is not None and settings.get(name) is None:
        class_name = _SIMPLE_HEADERS
    if class_name != _JSON:
        return Converter(class_name)
    if settings.get(f"{name}.schema.content") is not None:
        return Converter(class_name, envelope=None)
    return Converter(
        class_name, envelope=parse_truth(settings.get(f"{name}.schemas.enable"), default=True)
    )


def resolve_class_name(text: str | None) -> str | None:
    """Return the full name of a configured class; None if invalid or externalized (`${…}`)."""
    stripped = (text or "").strip()
    if len(stripped) > _CLASS_CHARS_MAX or _CLASS.fullmatch(stripped) is None:
        return None
    return _BY_ALIAS.get(stripped, stripped)


def parse_truth(text: str | None, *, default: bool) -> bool | None:
    """Parse a configured boolean; None if it is invalid or externalized."""
    if text is None:
        return default
    return {"true": True, "false": False}.get(text.strip().lower())


def check_conversion(
    converter: Converter, raw: bytes | None, headers: Headers = ()
) -> ConversionCheck:
    """Predict whether this converter accepts a key or a value.

    headers   of the record: they may name a schema
    """
    name = converter.class_name
    if name == _JSON:
        return read_json(raw, envelope=converter.envelope)
    if name in {_STRING, _BYTES}:
        return FINE
    if name in _SIZES:
        return _check_size(raw, _SIZES[name], boolean=name == _BOOLEAN)
    if name in _FRAMED:
        return _check_frame(raw, headers)
    if name is None:
        return _unknown("the converter is not known")
    return _unknown("not decoded: nothing is known of the converter")


def check_header_conversion(converter: Converter, headers: Headers) -> ConversionCheck:
    """Predict whether this header converter accepts all headers of a record."""
    if not headers:
        return FINE
    if converter.class_name in _FRAMED:
        return _unknown("no header converter")
    checks = [check_conversion(converter, value) for _, value in headers]
    bad = [said for said in checks if said.reading is ConversionVerdict.FAILS]
    unclear = [said for said in checks if said.reading is not ConversionVerdict.FINE]
    return (bad or unclear or [FINE])[0]


def _check_size(raw: bytes | None, size: int, *, boolean: bool) -> ConversionCheck:
    if raw is None:
        return FINE
    if len(raw) != size:
        return _fails(f"has {format_count(len(raw), 'byte')}, not {size}")
    return _fails("neither 0 nor 1") if boolean and raw[0] > 1 else FINE


def _check_frame(raw: bytes | None, headers: Headers) -> ConversionCheck:
    if raw is None:
        return FINE
    if any(name in _ID_HEADERS for name, _ in headers):
        return _unknown("not decoded: its schema is named in a header")
    if not raw or raw[0] == _GUID_FRAME:
        return _unknown("not decoded: no frame that every version has")
    if raw[0] != 0:
        return _fails("unknown magic byte")
    if len(raw) < _FRAME_BYTES:
        return _fails("cut off within its schema's id")
    return ConversionCheck(ConversionVerdict.FRAMED, "not decoded: its schema is in a registry")
