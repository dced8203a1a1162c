"""Connector converters from the configuration, and whether they accept the bytes of a record.

A known converter gets a ConversionCheck (json_converter.py) for what it certainly accepts or
refuses; every other converter gets UNKNOWN. For a schema registry's format only the frame is
checked. Pure and total.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.remedy.locate.json_converter import (
    FINE,
    ConversionCheck,
    ConversionVerdict,
    read_json,
)

Headers = tuple[tuple[str, bytes | None], ...]
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
    place = connector if connector.get(name) is not None else known
    found = resolve_class_name(place.get(name))
    if name == "header.converter" and worker is not None and place.get(name) is None:
        found = _SIMPLE_HEADERS
    if found != _JSON:
        return Converter(found)
    if place.get(f"{name}.schema.content") is not None:
        return Converter(found, envelope=None)
    return Converter(found, envelope=parse_truth(place.get(f"{name}.schemas.enable"), default=True))


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
        return ConversionCheck(ConversionVerdict.UNKNOWN, "the converter is not known")
    return ConversionCheck(
        ConversionVerdict.UNKNOWN, "not decoded: nothing is known of the converter"
    )


def check_header_conversion(converter: Converter, headers: Headers) -> ConversionCheck:
    """Predict whether this header converter accepts all headers of a record."""
    if not headers:
        return FINE
    if converter.class_name in _FRAMED:
        return ConversionCheck(ConversionVerdict.UNKNOWN, "no header converter")
    found = [check_conversion(converter, value) for _, value in headers]
    bad = [said for said in found if said.reading is ConversionVerdict.FAILS]
    unclear = [said for said in found if said.reading is not ConversionVerdict.FINE]
    return (bad or unclear or [FINE])[0]


def _check_size(raw: bytes | None, size: int, *, boolean: bool) -> ConversionCheck:
    if raw is None:
        return FINE
    if len(raw) != size:
        return ConversionCheck(ConversionVerdict.FAILS, f"has {len(raw)} bytes, not {size}")
    return (
        ConversionCheck(ConversionVerdict.FAILS, "neither 0 nor 1")
        if boolean and raw[0] > 1
        else FINE
    )


def _check_frame(raw: bytes | None, headers: Headers) -> ConversionCheck:
    if raw is None:
        return FINE
    if any(name in _ID_HEADERS for name, _ in headers):
        return ConversionCheck(
            ConversionVerdict.UNKNOWN, "not decoded: its schema is named in a header"
        )
    if not raw or raw[0] == _GUID_FRAME:
        return ConversionCheck(
            ConversionVerdict.UNKNOWN, "not decoded: no frame that every version has"
        )
    if raw[0] != 0:
        return ConversionCheck(ConversionVerdict.FAILS, "unknown magic byte")
    if len(raw) < _FRAME_BYTES:
        return ConversionCheck(ConversionVerdict.FAILS, "cut off within its schema's id")
    return ConversionCheck(ConversionVerdict.FRAMED, "not decoded: its schema is in a registry")
