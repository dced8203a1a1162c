"""A strict JSON parser: one meaning for each text, and bounds checked before parsing. Pure.

It refuses what other parsers accept: duplicate keys (which one counts?), NaN and infinity, numbers
beyond 64 bits, lone surrogates, a byte order mark, deep nesting.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

DEPTH_MAX: Final = 32  # an Alertmanager's payload has four levels
_INT_MAX: Final = 2**63 - 1
_INT_CHARS_MAX: Final = 20
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKET = re.compile(rb"[^\[\]{}]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class MalformedRequest(Exception):
    """Request that cannot be used. Its message is for the client, and is not logged."""


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text. Raises MalformedRequest."""
    if _measure_depth(body) > DEPTH_MAX:
        raise MalformedRequest(f"nested deeper than {DEPTH_MAX} levels")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("not UTF-8") from None
    try:
        found = json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_int=_parse_integer,
            parse_float=_parse_float,
            parse_constant=_reject_constant,
        )
    except (ValueError, RecursionError):
        raise MalformedRequest("not JSON") from None
    if _has_surrogate(found):
        raise MalformedRequest("text that is no Unicode")
    return found


def _measure_depth(body: bytes) -> int:
    """Return how deeply brackets are nested, without a walk through the strings."""
    deepest = depth = 0
    for bracket in _NO_BRACKET.sub(b"", _STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > deepest:
            deepest = depth
            if deepest > DEPTH_MAX:
                break
    return deepest


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MalformedRequest("a key is given twice in one object")
    for key, value in pairs:
        if _SURROGATE.search(key) or _has_surrogate(value):
            raise MalformedRequest("text that is no Unicode")
    return found


def _has_surrogate(value: Any) -> bool:
    """Check a string, or the strings of a list. Objects were already checked by _build_object."""
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    return isinstance(value, list) and any(_has_surrogate(item) for item in value)


def _parse_integer(text: str) -> int:
    if len(text) > _INT_CHARS_MAX or abs(int(text)) > _INT_MAX:
        raise MalformedRequest("a number that does not fit in 64 bits")
    return int(text)


def _parse_float(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise MalformedRequest("a number that is not finite")
    return found


def _reject_constant(_text: str) -> Any:
    raise MalformedRequest("a number that is not finite")
