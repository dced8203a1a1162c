"""Offsets as people keep them: KIP-199's JSON, in files and standard streams, and PATCH bodies.

    {"connector": [{"partition": {...}, "offset": {...} or null}, ...], ...}

An entry of a source partition whose map is no HashMap has its raw key as well, as a text: `key`.

Reading is strict where Connect is not: what Connect would take for something else (a missing
`offset` for a reset, a partition given twice for its last) is a problem with its place. Pure.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from offsetwatch.decode.jsontext import encode_sorted
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.model.offsets import INT64_MAX, INT64_MIN, Scalar, SourceKey
from offsetwatch.remedy.model.plan import Pair
from offsetwatch.toolbox.suggestions import nearest
from offsetwatch.toolbox.validation import Problem

_ENTRY = ("partition", "offset")
_KEY = "key"
_ENTRY_SHAPE = 'an entry is {"partition": {…}, "offset": {…}}, or null for the offset to remove it'
_DOCUMENT_SHAPE = (
    '{"connector": [{"partition": {…}, "offset": {…}}, …]}, as `offsets export` prints'
)


@dataclass(frozen=True, slots=True)
class Section:
    """One connector's part, in the order of the document, each partition once.

    where       its place in the document, for problems
    """

    connector: str
    pairs: tuple[Pair, ...]
    where: str


@dataclass(frozen=True, slots=True)
class Document:
    """Connectors and what their offsets are to be; who is not in it stays as they are."""

    sections: tuple[Section, ...]

    def connectors(self) -> tuple[str, ...]:
        """Their names, in the order of the document."""
        return tuple(section.connector for section in self.sections)


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as it was written: a name may come twice."""

    __slots__ = ()


def parse(
    raw: bytes, *, patch_of: str | None = None, list_of: str | None = None
) -> Document | tuple[Problem, ...]:
    """A document, or all that is wrong with it.

    patch_of    the connector that `{"offsets": [...]}` is about: without it, that is a document
                about a connector named `offsets`
    list_of     the connector that a list alone is about: KIP-995's `initial_offsets`
    """
    parsed = _json(raw)
    if isinstance(parsed, Problem):
        return (parsed,)
    found: list[Problem] = []
    if list_of is not None and isinstance(parsed, list):
        section = Section(list_of, tuple(_pairs("$", parsed, found)), "$")
        return tuple(found) or Document((section,))
    if not isinstance(parsed, _Object):
        return (Problem("$", f"{_kind(parsed)} and no object", _DOCUMENT_SHAPE),)
    found.extend(_twice("$", parsed))
    if patch_of is not None and _is_patch(parsed):
        sections = [_patched(patch_of, parsed, found)]
    else:
        sections = [
            Section(name, tuple(_pairs(name, value, found)), name) for name, value in parsed
        ]
    return tuple(found) or Document(tuple(sections))


def parse_pair(partition: str, offset: str, where: str) -> Pair | tuple[Problem, ...]:
    """One pair whose halves were written apart, as on a command line, or what is wrong with it."""
    halves = [_json(half.encode(errors="surrogatepass")) for half in (partition, offset)]
    found = [
        Problem(f"{where}.{name}", half.wrong, half.right)
        for name, half in zip(_ENTRY, halves, strict=True)
        if isinstance(half, Problem)
    ]
    if found:
        return tuple(found)
    pair = _pair(where, _Object(zip(_ENTRY, halves, strict=True)), found)
    return tuple(found) if pair is None else pair


def same_twice(where: str, pairs: tuple[Pair, ...]) -> Iterator[Problem]:
    """Every partition that is given more than once: Connect takes the last, without a word."""
    first: dict[str, int] = {}
    for index, pair in enumerate(pairs):
        before = first.setdefault(pair.partition, index)
        if before != index:
            yield Problem(
                f"{where}[{index}]",
                f"the same partition as {where}[{before}]: {pair.partition}",
                "give every partition once; Connect would silently take the last",
            )


def kip199(sections: Iterable[tuple[str, Iterable[Pair]]]) -> str:
    """The way back, one line for each pair; integers of any size stay exact."""
    return _braced("{", "}", "", [_section(name, pairs) for name, pairs in sections]) + "\n"


def _section(name: str, pairs: Iterable[Pair]) -> str:
    lines = [
        f'{{"partition": {pair.partition}, "offset": {pair.offset or "null"}{_key(pair)}}}'
        for pair in pairs
    ]
    return f"{encode_sorted(name).decode()}: {_braced('[', ']', '  ', lines)}"


def _key(pair: Pair) -> str:
    return "" if pair.key is None else f', "{_KEY}": {encode_sorted(pair.key).decode()}'


def _braced(left: str, right: str, indent: str, lines: list[str]) -> str:
    if not lines:
        return left + right
    inside = ",\n".join(f"{indent}  {line}" for line in lines)
    return f"{left}\n{inside}\n{indent}{right}"


def _json(raw: bytes) -> Any:
    """Any JSON value, objects as _Object; a Problem for what is none."""
    try:
        text = raw.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_Object, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return Problem("$", "not UTF-8", "write the document as UTF-8")
    except RecursionError:
        return Problem("$", "nested too deeply for an offset", _DOCUMENT_SHAPE)
    except json.JSONDecodeError as exc:
        wrong = f"not JSON: {exc.msg[:1].lower()}{exc.msg[1:]}, line {exc.lineno}"
        return Problem("$", f"{wrong}, column {exc.colno}" if raw.strip() else "empty", "")
    except ValueError as exc:  # NaN, or a number of thousands of digits
        return Problem("$", f"not JSON that Connect can keep: {exc}", "")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is_patch(parsed: _Object) -> bool:
    """A body without `offsets` is still none of KIP-199's if it is empty."""
    return not parsed or any(name == "offsets" for name, _ in parsed)


def _patched(connector: str, parsed: _Object, found: list[Problem]) -> Section:
    """The body of a PATCH: `offsets` and nothing beside it, and at least one pair in it."""
    right = 'a PATCH body is {"offsets": [{"partition": {…}, "offset": {…}}, …]}'
    found.extend(
        Problem(f"$.{name}", "unknown beside `offsets`", right)
        for name, _ in parsed
        if name != "offsets"
    )
    listed = dict(parsed).get("offsets")
    if listed is None or listed == []:
        found.append(Problem("offsets", "no partition and no offset in it", right))
        return Section(connector, (), "offsets")
    return Section(connector, tuple(_pairs("offsets", listed, found)), "offsets")


def _pairs(where: str, value: Any, found: list[Problem]) -> tuple[Pair, ...]:
    if not isinstance(value, list):
        found.append(Problem(where, f"{_kind(value)} and no list", _DOCUMENT_SHAPE))
        return ()
    read = [_pair(f"{where}[{index}]", entry, found) for index, entry in enumerate(value)]
    pairs = tuple(pair for pair in read if pair is not None)
    if len(pairs) == len(value):  # else the places would not be those of the document
        found.extend(same_twice(where, pairs))
    return pairs


def _pair(where: str, entry: Any, found: list[Problem]) -> Pair | None:
    """The pair, if every part of it is what it must be."""
    before = len(found)
    if not isinstance(entry, _Object):
        found.append(Problem(where, f"{_kind(entry)} and no entry", _ENTRY_SHAPE))
        return None
    found.extend(_twice(where, entry))
    fields = dict(entry)
    missing = [name for name in _ENTRY if name not in fields]
    for name in fields:
        if name not in {*_ENTRY, _KEY}:
            meant = nearest(name, missing)
            right = f"did you mean `{meant}`?" if meant else _ENTRY_SHAPE
            found.append(Problem(f"{where}.{name}", "unknown in an entry", right))
    if "partition" in missing:
        found.append(Problem(where, "`partition` is missing", _ENTRY_SHAPE))
    if "offset" in missing:
        found.append(
            Problem(
                where,
                "`offset` is missing, which Connect would take for a reset of this partition",
                'write "offset": null if it is to be removed',
            )
        )
    maps = [_map(f"{where}.{name}", fields.get(name), found) for name in _ENTRY]
    if len(found) > before:
        return None
    partition, offset = (None if at is None else encode_sorted(at).decode() for at in maps)
    partition = partition or "null"
    key = fields.get(_KEY)
    if key is not None and not _is_key(key, partition):
        right = "the raw key of this partition, as `offsets export` prints it; or leave it out"
        found.append(Problem(f"{where}.{_KEY}", "no raw key of this partition", right))
        return None
    return Pair(partition=partition, offset=offset, key=key)


def _is_key(key: Any, partition: str) -> bool:
    """The connector's name in it is not looked at: a document may be imported for another one."""
    found = decode_key(key.encode()) if isinstance(key, str) and _is_text(key) else None
    return isinstance(found, SourceKey) and found.is_spelling and found.identity == partition


def _map(where: str, value: Any, found: list[Problem]) -> dict[str, Scalar] | None:
    """A flat map of what Connect can keep; None for null."""
    if value is None:
        return None
    if not isinstance(value, _Object):
        found.append(Problem(where, f"{_kind(value)} and no object", _ENTRY_SHAPE))
        return None
    found.extend(_twice(where, value))
    for name, item in value:
        found.extend(_unkept(f"{where}.{name}", name, item))
    return dict(value)


def _unkept(where: str, name: str, value: Any) -> Iterator[Problem]:
    """Why Connect could not keep this value as it stands."""
    match value:
        case _Object() | list():
            right = "Connect keeps text, numbers, true, false and null in partitions and offsets"
            yield Problem(where, f"{_kind(value)} inside", right)
        case int() if not INT64_MIN <= value <= INT64_MAX:
            right = f"from {INT64_MIN} to {INT64_MAX}"
            yield Problem(where, f"{value} does not fit into 64 bits", right)
        case float() if not math.isfinite(value):
            yield Problem(where, "a number beyond every float", "")
    for text in (name, value):
        if isinstance(text, str) and not _is_text(text):
            yield Problem(where, "half of a surrogate pair, which is no text", "")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _twice(where: str, parsed: _Object) -> Iterator[Problem]:
    counted = Counter(name for name, _ in parsed)
    for name, times in counted.items():
        if times > 1:
            yield Problem(where, f"`{name}` stands there {times} times", "once only")
        if not _is_text(name):
            yield Problem(where, "a name with half of a surrogate pair, which is no text", "")


def _kind(value: Any) -> str:
    """What it is, for people."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a text"
        case _Object():
            return "an object"
        case _:
            return "a list"
