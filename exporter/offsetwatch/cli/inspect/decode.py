"""The verb `decode`: decode records of a file without configuration, network or daemon."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
import msgspec

from offsetwatch.cli.common import output
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicKind

OK, FINDINGS, USAGE = 0, 1, 2

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*", re.ASCII)


class _UnusableError(Exception):
    """An entry of the input that is no record; the argument is the reason."""


def decode_file(path: str, role: TopicKind, encoding: str | None) -> int:
    """Decode every record of the file, print one line for each, and return the exit code."""
    worst = OK
    with click.open_file(path, "rb") as source:
        for place, record in _read_records(source):
            try:
                found = _decode_entry(record, role, encoding)
            except _UnusableError as exc:
                output.print_error(f"{place}: {exc}")
                worst = USAGE
                continue
            if "undecodable" in found:
                worst = max(worst, FINDINGS)
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    return worst


def _read_records(source: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield each record and its place in the file, which holds JSON lines or one JSON array."""
    for number, line in enumerate(source, start=1):
        if not line.strip():
            continue
        if line.lstrip().startswith(b"["):
            yield from _read_array(line + source.read(), number)
            return
        yield f"line {number}", _parse_json(line)


def _read_array(text: bytes, line: int) -> Iterator[tuple[str, Any]]:
    records = _parse_json(text)
    if not isinstance(records, list):
        yield f"line {line}", None
        return
    for number, record in enumerate(records, start=1):
        yield f"record {number}", record


def _parse_json(text: bytes) -> Any:
    """Return the value; None if it is not JSON. Only a map is a record."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_entry(record: object, role: TopicKind, encoding: str | None) -> dict[str, Any]:
    """Return the entry's other fields, with its observation or the reason why there is none."""
    if not isinstance(record, dict):
        raise _UnusableError("not a JSON map")
    for name in ("key", "value"):
        if not isinstance(record.get(name, 0), str | None):
            raise _UnusableError(f'no "{name}" in {encoding or "hex or base64"}, and not null')
    carried = {name: value for name, value in record.items() if name not in {"key", "value"}}
    key, value = record["key"], record["value"]
    chosen = encoding or _guess_encoding(key, value)
    noun = decode_record(
        role, _decode_text("key", key, chosen), _decode_text("value", value, chosen)
    )
    if isinstance(noun, Undecodable):
        return {**carried, "undecodable": noun.reason}
    return {**carried, "observation": msgspec.Raw(format_record(noun).encode())}


def _guess_encoding(key: str | None, value: str | None) -> str:
    """Return one encoding for key and value, "hex" or "base64".

    A short value in base64 may look like hex, but its key hardly does as well.
    """
    texts = [text for text in (key, value) if text is not None]
    return "hex" if all(_HEX.fullmatch(text) for text in texts) else "base64"


def _decode_text(name: str, text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    if encoding == "hex":
        if _HEX.fullmatch(text) is None:
            raise _UnusableError(f'"{name}" is not hex')
        return bytes.fromhex(text)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        raise _UnusableError(f'"{name}" is not {encoding}') from None
