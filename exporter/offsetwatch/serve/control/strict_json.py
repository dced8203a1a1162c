"""JSON that can be read in one way only, bounded before it is read. Pure.

What other readers shrug at is refused: a key that is given twice (which one counts?), NaN and
infinity, numbers beyond 64 bits, lone surrogates, a byte order mark, deep nesting.
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


class Wrong(Exception):
    """A request that cannot be used; the message is for whoever sent it and for no log."""


def parsed(body: bytes) -> Any:
    """The one value of a JSON text. Raises Wrong."""
    if _depth(body) > DEPTH_MAX:
        raise Wrong(f"nested deeper than {DEPTH_MAX} levels")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Wrong("not UTF-8") from None
    try:
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except (ValueError, RecursionError):
        raise Wrong("not JSON") from None
    if _has_surrogate(found):
        raise Wrong("text that is no Unicode")
    return found


def _depth(body: bytes) -> int:
    """How deep brackets are open at most; without a walk over what is inside strings."""
    deepest = depth = 0
    for bracket in _NO_BRACKET.sub(b"", _STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > deepest:
            deepest = depth
            if deepest > DEPTH_MAX:
                break
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Wrong("a key is given twice in one object")
    for key, value in pairs:
        if _SURROGATE.search(key) or _has_surrogate(value):
            raise Wrong("text that is no Unicode")
    return found


def _has_surrogate(value: Any) -> bool:
    """In a string, or in the lists around it; an object has been looked through already."""
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    return isinstance(value, list) and any(_has_surrogate(item) for item in value)


def _integer(text: str) -> int:
    if len(text) > _INT_CHARS_MAX or abs(int(text)) > _INT_MAX:
        raise Wrong("a number that does not fit in 64 bits")
    return int(text)


def _float(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise Wrong("a number that is not finite")
    return found


def _constant(_text: str) -> Any:
    raise Wrong("a number that is not finite")
