"""Order of java.util.HashMap and Jackson's JSON text: the bytes that Connect writes for a map.

Connect finds a stored offset by the BYTES of its key: it serialises the requested source partition
again and looks those bytes up (OffsetStorageReaderImpl). A map that comes through REST is a
HashMap; a task's own map may have any order (state/connect/raw_keys.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from offsetwatch.model.offsets import Scalar

_MASK = 0xFFFFFFFF
# Double.toString and Float.toString. No worker writes `1.00` or `1e0`.
_JAVA_FLOAT = re.compile(
    r"-?(?:(?:0|[1-9][0-9]{0,6})\.(?:0|[0-9]*[1-9])|[1-9]\.(?:0|[0-9]*[1-9])E-?[1-9][0-9]{0,2})"
)
_PLAIN = re.compile(r"[ !#-\[\]-~]*")  # printable ASCII without quote and backslash
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def compute_string_hash(text: str) -> int:
    """Return Java's String.hashCode as an unsigned 32-bit number (over UTF-16 code units)."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8) + low) & _MASK
    return result


@lru_cache(maxsize=1024)  # a connector class has one set of names, and each key asks again
def compute_hash_map_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the iteration order of a HashMap that is filled in the given order.

    Capacity is 16 and the load factor 0.75, as by default.
    """
    capacity = 16
    while len(names) > capacity * 3 // 4:
        capacity *= 2

    def bucket(name: str) -> int:
        spread = compute_string_hash(name)
        return (spread ^ (spread >> 16)) & (capacity - 1)

    return tuple(sorted(names, key=bucket))  # a stable sort keeps insertion order inside a bucket


def has_several_hash_map_orders(names: tuple[str, ...]) -> bool:
    """Check whether a HashMap of these names has another order if it is filled in sorted order.

    It does where names share a bucket, like `db` and `table`.
    """
    return compute_hash_map_order(names) != compute_hash_map_order(tuple(sorted(names)))


def format_json_string(text: str) -> str:
    r"""Return a JSON string as Jackson writes it.

    BMP characters are raw, others \uXXXX in upper case.
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    out = ['"']
    for char in text:
        code = ord(char)
        if char in _SHORT_ESCAPES:
            out.append(_SHORT_ESCAPES[char])
        elif code < 0x20:
            out.append(f"\\u{code:04X}")
        elif code > 0xFFFF:
            pair = char.encode("utf-16-be").hex().upper()
            out.append(f"\\u{pair[:4]}\\u{pair[4:]}")
        else:
            out.append(char)
    out.append('"')
    return "".join(out)


# Field names and connector names come again with every key; values do not.
_format_name = lru_cache(maxsize=1024)(format_json_string)


class _JavaFloat(str):
    """Text of a float as a key has it: Java's own text of the number is uncertain."""

    __slots__ = ()


def format_json_scalar(value: Scalar) -> str | None:
    """Return a primitive as Jackson writes it.

    None for an integer of more than 64 bits, which Connect wraps as it reads it, for a float whose
    Java text is uncertain, and for one that is written as Java never writes it. Double.toString
    changed with Java 19 (JDK-4511638). Whole numbers below ten million read `7.0` before and after.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if -(2**63) <= value < 2**63 else None
        case _JavaFloat():
            return str(value) if _JAVA_FLOAT.fullmatch(value) else None
        case str():
            return format_json_string(value)
        case float():
            whole = value.is_integer() and abs(value) < 10_000_000
            return f"{int(value)}.0" if whole and str(value) != "-0.0" else None


def build_connect_key(connector: str, partition: Mapping[str, Scalar] | None) -> bytes | None:
    """Return the key bytes under which Connect looks up a source partition over REST.

    A task whose map is a HashMap looks up the same bytes. A connector without partitions has the
    partition None.

    None where the bytes are uncertain: some floats, an integer of more than 64 bits, or text that
    UTF-8 cannot carry.
    """
    if partition is None:
        return _encode_key(connector, "null")
    return build_ordered_key(connector, partition, compute_hash_map_order(tuple(partition)))


def build_connect_key_from_json(connector: str, identity: str) -> bytes | None:
    """Return `build_connect_key` of a source partition in JSON (SourceKey.identity)."""
    return build_connect_key(connector, msgspec.json.decode(identity))


def build_ordered_key(
    connector: str, partition: Mapping[str, Scalar], order: tuple[str, ...]
) -> bytes | None:
    """Return the key bytes of a task whose map has its fields in this order.

    None in the cases of `build_connect_key`.
    """
    members: list[str] = []
    for name in order:
        text = format_json_scalar(partition[name])
        if text is None:
            return None
        members.append(f"{_format_name(name)}:{text}")
    return _encode_key(connector, f"{{{','.join(members)}}}")


def _encode_key(connector: str, partition: str) -> bytes | None:
    try:
        return f"[{_format_name(connector)},{partition}]".encode()
    except UnicodeEncodeError:
        return None


def is_canonical(raw: bytes, connector: str) -> bool:
    """Check whether a worker may have written this key of a flat map, in whichever field order."""
    try:
        parsed = json.loads(raw, parse_float=_JavaFloat)
    except (ValueError, RecursionError):
        return False
    fields = parsed[1] if isinstance(parsed, list) and len(parsed) == 2 else None
    return isinstance(fields, dict) and raw == build_ordered_key(connector, fields, tuple(fields))


_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim takes away
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")  # \s of java.util.regex


def trim_blanks(text: str) -> str:
    """Return the text without blanks around it."""
    return text.strip(_BLANKS)


def values_of(text: str) -> tuple[str, ...]:
    """Return the members of a list, each without blanks around it; none of an empty text.

    A member may be empty, as between two commas.
    """
    whole = trim_blanks(text)
    return tuple(_COMMA.split(whole)) if whole else ()
