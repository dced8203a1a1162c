"""Parser of JSON text as Connect's internal converter reads it (JsonDeserializer): more than JSON.

Connect reads the first value and ignores what follows it, takes leading zeros (`007` is 7), uses
the last of duplicate fields and skips a byte order mark. Strict JSON is decoded at once; only other
text is scanned by token. Undecodable here, unlike in Connect: UTF-16, and text after a value that
is neither a list nor a map.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from offsetwatch.model.offsets import Scalar, Undecodable

T = TypeVar("T")

DEPTH_MAX: Final = 512  # msgspec itself ends at the interpreter's limit of 1000
# What is no strict JSON is looked at token by token, with the interpreter's lock held: a hundred
# thousand take 0.1 s. An offset has a few.
TOKENS_MAX: Final = 100_000
BACKSLASHES_MAX: Final = 1_000_000  # in as long a time; ten thousand traces have as many
# Of a record; Kafka's own default ends at one.
BYTES_MAX: Final = 8 * 1024 * 1024

_decode_json = msgspec.json.Decoder().decode
_decode_flat_map = msgspec.json.Decoder(dict[str, str | int | float | bool | None]).decode
encode_sorted = msgspec.json.Encoder(order="sorted").encode

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# A string, a bracket, or the needless zeros before a number. An unfinished string is taken to the
# end of the text: tried again from each of its quotes, hostile text would cost its square.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]|(?<![0-9.eE+])0+(?=[0-9])', re.DOTALL)
# Half a character or a whole one, after escaped backslashes.
_SURROGATES = re.compile(
    rb"(?<!\\)(?P<before>(?:\\\\)*+)\\u"
    rb"(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>[dD][89a-fA-F][0-9a-fA-F]{2}))"
)
REPLACEMENT_ESCAPE: Final = rb"\ufffd"


def parse_json(raw: bytes) -> Any:
    """Return the first value of a text, or Undecodable.

    The reasons are `not_json`, `nested_too_deep` and `too_large`.
    """
    # A million empty lists take a second.
    if len(raw) > TOKENS_MAX and (
        len(raw) > BYTES_MAX or sum(map(raw.count, (b"{", b"[", b","))) > TOKENS_MAX
    ):
        return Undecodable("too_large")
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    parsed = _parse_strict(raw)
    if parsed != Undecodable("not_json"):
        return parsed
    first = _find_first_value(raw)
    return parsed if first is None else _parse_strict(first)


def _parse_strict(raw: bytes) -> Any:
    try:
        return _decode_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Undecodable("not_json")
    except RecursionError:  # deeply nested input: hostile, and never an offset
        return Undecodable("nested_too_deep")


def _find_first_value(raw: bytes) -> bytes | None:
    """Return the list or map that a text begins with, without needless zeros.

    None if it never ends, or not within TOKENS_MAX and DEPTH_MAX.
    """
    if raw.lstrip(b" \t\r\n")[:1] not in {b"[", b"{"}:
        return None
    stack: list[bytes] = []
    depth = position = 0
    for token in islice(_TOKEN.finditer(raw), TOKENS_MAX):
        text = token[0]
        stack.append(raw[position : token.start()])
        position = token.end()
        if text[:1] == b"0":
            continue
        stack.append(text)
        depth += (text in {b"[", b"{"}) - (text in {b"]", b"}"})
        if depth > DEPTH_MAX:
            return None
        if depth == 0:  # the first token of all opened it
            return b"".join(stack)
    return None


def replace_lone_surrogates(raw: bytes) -> bytes:
    r"""Return JSON with `\ufffd` in place of each escape of half a character.

    Java cuts texts between the two halves of an emoji, and Jackson writes the half as an escape,
    which strict JSON refuses. Text with needless many escapes is returned unchanged.
    """
    if raw.count(rb"\u") > TOKENS_MAX or raw.count(b"\\") > BACKSLASHES_MAX:
        return raw
    return _SURROGATES.sub(
        lambda match: match["before"] + REPLACEMENT_ESCAPE if match["lone"] else match[0], raw
    )


def parse_flat_map(raw: bytes) -> dict[str, Scalar] | None:
    """Return a strict JSON map of primitives, faster than `parse_json`; None for other text."""
    try:
        return _decode_flat_map(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_strict(raw: bytes, kind: type[T]) -> T | None:
    """Return strict JSON of this type; None for any other text."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_flat_map(value: object) -> bool:
    """Check whether a value is a map of primitives, as Connect requires.

    Source: OffsetUtils.validateFormat.
    """
    return isinstance(value, dict) and not any(
        isinstance(item, dict | list) for item in value.values()
    )
