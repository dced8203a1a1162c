"""JSON text as Connect's internal converter reads it (JsonDeserializer), which is more than JSON.

Connect reads the first value and ignores whatever follows it, takes leading zeros (`007` is 7), and
of a field given twice the last. Strict JSON is decoded at once; only where that fails is the text
looked at again. Not imitated, and undecodable: a byte order mark, UTF-16, and whatever follows a
value that is neither a list nor a map.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from exporter.model.offsets import Scalar, Undecodable

_decode = msgspec.json.Decoder().decode
_decode_flat_map = msgspec.json.Decoder(dict[str, str | int | float | bool | None]).decode
encode_sorted = msgspec.json.Encoder(order="sorted").encode

# A string, a bracket, or the needless zeros before a number. An unfinished string is taken to the
# end of the text: tried again from each of its quotes, hostile text would cost its square.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]|(?<![0-9.eE+])0+(?=[0-9])', re.DOTALL)


def parse(raw: bytes) -> Any:
    """The first value, or Undecodable with the reason `not_json` or `nested_too_deep`."""
    parsed = _strict(raw)
    if not isinstance(parsed, Undecodable):
        return parsed
    first = _first_value(raw)
    return parsed if first is None else _strict(first)


def _strict(raw: bytes) -> Any:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Undecodable("not_json")
    except RecursionError:  # deeply nested input: hostile, and never an offset
        return Undecodable("nested_too_deep")


def _first_value(raw: bytes) -> bytes | None:
    """The list or map that the text begins with, without needless zeros; None if it never ends."""
    if raw.lstrip(b" \t\r\n")[:1] not in {b"[", b"{"}:
        return None
    kept: list[bytes] = []
    depth = at = 0
    for token in _TOKEN.finditer(raw):
        text = token[0]
        kept.append(raw[at : token.start()])
        at = token.end()
        if text[:1] == b"0":
            continue
        kept.append(text)
        depth += (text in {b"[", b"{"}) - (text in {b"]", b"}"})
        if depth == 0:  # the first token of all opened it
            return b"".join(kept)
    return None


def parse_flat_map(raw: bytes) -> dict[str, Scalar] | None:
    """What `parse` says of a strict JSON map of primitives, sooner; None for any other text."""
    try:
        return _decode_flat_map(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_flat_map(value: object) -> bool:
    """Connect accepts maps of primitives only (OffsetUtils.validateFormat)."""
    return isinstance(value, dict) and not any(
        isinstance(item, dict | list) for item in value.values()
    )
