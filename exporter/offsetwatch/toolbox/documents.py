"""Documents of offsets: KIP-199's JSON, in files and standard streams, and PATCH bodies.

    {"connector": [{"partition": {...}, "offset": {...} or null}, ...], ...}

An entry of a source partition whose map is no HashMap also has its raw key, as a text: `key`.

Parsing is strict where Connect is not: what Connect would misinterpret (a missing `offset` as a
reset, the last of duplicate partitions as the only one) is a problem with its position.

Connectors, and MirrorMaker's cluster aliases, can be renamed. Both are part of the keys by which
Connect finds offsets: without its renamed offsets, a connector that is renamed, or recreated under
another alias, starts from scratch. Pure.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from offsetwatch.decode.dialects import DIALECTS, MIRROR_HEARTBEAT, MIRROR_SOURCE, find_dialect
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.model.offsets import INT64_MAX, INT64_MIN, Scalar, SourceKey
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_locations import (
    DocumentLocation,
    EntryLines,
    OffsetsLocation,
    TypedPairsLocation,
)
from offsetwatch.toolbox.offset_shapes import Fields, parse_fields
from offsetwatch.toolbox.suggestions import find_nearest, suggest_name
from offsetwatch.toolbox.validation import ValidationProblem

_ENTRY = ("partition", "offset")
# As a shell takes them; `offsets list` prints both in this form.
_TYPED_FORMS = {
    "partition": """write JSON in quotes, as in '{"filename":"orders.txt"}'""",
    "offset": """write JSON in quotes, as in '{"position":42}', or null""",
}
_KEY = "key"
_ENTRY_SHAPE = 'an entry is {"partition": {…}, "offset": {…}}, or null for the offset to remove it'
_DOCUMENT_SHAPE = (
    '{"connector": [{"partition": {…}, "offset": {…}}, …]}, as `offsets export` prints'
)


@dataclass(frozen=True, slots=True)
class OffsetsSection:
    """The offsets of one connector in document order, each partition once.

    where       its location in what the user gave, for problems
    """

    connector: str
    pairs: tuple[PartitionOffset, ...]
    where: OffsetsLocation


@dataclass(frozen=True, slots=True)
class OffsetsDocument:
    """Connectors and their requested offsets; connectors that are not in it stay unchanged."""

    sections: tuple[OffsetsSection, ...]

    def connectors(self) -> tuple[str, ...]:
        """Return the connectors' names in document order."""
        return tuple(section.connector for section in self.sections)


class _JsonObject(tuple[tuple[str, Any], ...]):
    """A JSON object as it was written: a name may occur twice."""

    __slots__ = ()


def parse_document(
    raw: bytes,
    *,
    name: str = "",
    is_part: bool = False,
    patch_of: str | None = None,
    list_of: str | None = None,
) -> OffsetsDocument | tuple[ValidationProblem, ...]:
    """Parse a document; return it or all its problems.

    name        the document's name, for problems; with it they have lines, unless the document
    is_part     of another one
    patch_of    the connector that `{"offsets": [...]}` is about: without it, that is a document
                about a connector named `offsets`
    list_of     the connector that a list alone is about: KIP-995's `initial_offsets`
    """
    root = name or "$"
    parsed = parse_json(raw, root)
    if isinstance(parsed, ValidationProblem):
        return (parsed,)
    problems: list[ValidationProblem] = []
    reader = _SectionReader(name, EntryLines(raw) if name and not is_part else None, problems)
    if list_of is not None and isinstance(parsed, list):
        sections = [reader.read(list_of, "" if name else "$", parsed)]
        return tuple(problems) or OffsetsDocument(tuple(sections))
    if not isinstance(parsed, _JsonObject):
        wrong = f"{_describe_json_type(parsed)} and no object"
        return (ValidationProblem(root, wrong, _DOCUMENT_SHAPE),)
    problems.extend(_find_duplicate_names(root, parsed))
    # An empty object is a PATCH body, too, although it has no `offsets`.
    if patch_of is not None and (not parsed or any(key == "offsets" for key, _ in parsed)):
        sections = [_parse_patch(patch_of, parsed, reader)]
    else:
        sections = [reader.read(key, key, value) for key, value in parsed]
    return tuple(problems) or OffsetsDocument(tuple(sections))


def parse_pairs(
    location: TypedPairsLocation,
) -> tuple[PartitionOffset, ...] | tuple[ValidationProblem, ...]:
    """Parse partitions and offsets that were typed apart; return all problems if there are any."""
    problems: list[ValidationProblem] = []
    pairs: list[PartitionOffset] = []
    for index, typed in enumerate(location.pairs):
        places = {name: location.locate(index, "", name) for name in _ENTRY}
        halves = {
            name: parse_json(half.encode(errors="surrogatepass"), places[name])
            for name, half in zip(_ENTRY, typed, strict=True)
        }
        wrong = [
            replace(half, right=half.right or _TYPED_FORMS[name])
            for name, half in halves.items()
            if isinstance(half, ValidationProblem)
        ]
        problems.extend(wrong)
        if not wrong:
            entry = _JsonObject(halves.items())
            pair = _parse_entry(partial(location.locate, index, ""), entry, problems)
            pairs += () if pair is None else (pair,)
    if len(pairs) == len(location.pairs):  # else the numbers are not those of the options
        problems.extend(find_duplicate_partitions(location, tuple(pairs)))
    return tuple(problems) or tuple(pairs)


def find_duplicate_partitions(
    location: OffsetsLocation, pairs: tuple[PartitionOffset, ...]
) -> Iterator[ValidationProblem]:
    """Yield every partition that is given more than once: Connect would silently take the last."""
    first: dict[str, int] = {}
    for index, pair in enumerate(pairs):
        before = first.setdefault(pair.partition, index)
        if before != index:
            yield ValidationProblem(
                location.locate(index, pair.partition),
                f"the same partition as {location.locate(before, pair.partition)}: "
                f"{pair.partition}",
                "give every partition once; Connect would silently take the last",
            )


def format_kip199(sections: Iterable[tuple[str, Iterable[PartitionOffset]]]) -> str:
    """Format a KIP-199 document, one line for each pair; integers of any size stay exact."""
    return (
        _format_block("{", "}", "", [_format_section(name, pairs) for name, pairs in sections])
        + "\n"
    )


def _format_section(name: str, pairs: Iterable[PartitionOffset]) -> str:
    lines = []
    for pair in pairs:
        key = "" if pair.key is None else f', "{_KEY}": {encode_sorted(pair.key).decode()}'
        lines.append(f'{{"partition": {pair.partition}, "offset": {pair.offset or "null"}{key}}}')
    return f"{encode_sorted(name).decode()}: {_format_block('[', ']', '  ', lines)}"


def _format_block(left: str, right: str, indent: str, lines: list[str]) -> str:
    if not lines:
        return left + right
    inside = ",\n".join(f"{indent}  {line}" for line in lines)
    return f"{left}\n{inside}\n{indent}{right}"


def parse_json(raw: bytes, where: str = "$") -> Any:
    """Parse any JSON value, objects as _JsonObject; return a ValidationProblem if it is invalid.

    `where` is the location of such a problem.
    """
    try:
        text = raw.decode("utf-8-sig")
        return json.loads(text, object_pairs_hook=_JsonObject, parse_constant=_reject_constant)
    except UnicodeDecodeError:
        return ValidationProblem(where, "not UTF-8", "write it as UTF-8")
    except RecursionError:
        return ValidationProblem(where, "nested too deeply for an offset", _DOCUMENT_SHAPE)
    except json.JSONDecodeError as exc:
        wrong = f"not JSON: {exc.msg[:1].lower()}{exc.msg[1:]}, line {exc.lineno}"
        return ValidationProblem(
            where, f"{wrong}, column {exc.colno}" if raw.strip() else "empty", ""
        )
    except ValueError as exc:  # NaN, or a number of thousands of digits
        return ValidationProblem(where, f"not JSON that Connect can keep: {exc}", "")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _parse_patch(connector: str, parsed: _JsonObject, reader: _SectionReader) -> OffsetsSection:
    """Parse a PATCH body: `offsets` with at least one pair, and no other field."""
    right = 'a PATCH body is {"offsets": [{"partition": {…}, "offset": {…}}, …]}'
    reader.problems.extend(
        ValidationProblem(
            f"{reader.document}: {name}" if reader.document else f"$.{name}",
            "unknown beside `offsets`",
            right,
        )
        for name, _ in parsed
        if name != "offsets"
    )
    listed = dict(parsed).get("offsets")
    if listed is None or listed == []:
        location = DocumentLocation("offsets", reader.document)
        wrong = "no partition and no offset in it"
        reader.problems.append(ValidationProblem(str(location), wrong, right))
        return OffsetsSection(connector, (), location)
    return reader.read(connector, "offsets", listed)


@dataclass(frozen=True, slots=True)
class _SectionReader:
    """Reader of the sections of one document; it appends to `problems`."""

    document: str
    lines: EntryLines | None
    problems: list[ValidationProblem]

    def read(self, connector: str, path: str, value: Any) -> OffsetsSection:
        """Return the section at `path`, with its valid entries."""
        location = DocumentLocation(path, self.document, self.lines)
        if not isinstance(value, list):
            wrong = f"{_describe_json_type(value)} and no list"
            self.problems.append(ValidationProblem(str(location), wrong, _DOCUMENT_SHAPE))
            return OffsetsSection(connector, (), location)
        read = [
            _parse_entry(partial(location.locate, index, ""), entry, self.problems)
            for index, entry in enumerate(value)
        ]
        pairs = tuple(pair for pair in read if pair is not None)
        if len(pairs) == len(value):  # else the numbers would not be those of the document
            self.problems.extend(find_duplicate_partitions(location, pairs))
        return OffsetsSection(connector, pairs, location)


def _parse_entry(
    locate: Callable[[str], str], entry: Any, problems: list[ValidationProblem]
) -> PartitionOffset | None:
    """Parse an entry; None if any part of it is wrong. `locate` returns the location of a part."""
    before = len(problems)

    def report(name: str, wrong: str, right: str = _ENTRY_SHAPE) -> None:
        problems.append(ValidationProblem(locate(name), wrong, right))

    if not isinstance(entry, _JsonObject):
        report("", f"{_describe_json_type(entry)} and no entry")
        return None
    if len(entry) != len(dict(entry)) or not all(_is_text(name) for name, _ in entry):
        problems.extend(_find_duplicate_names(locate(""), entry))
    fields = dict(entry)
    missing = [name for name in _ENTRY if name not in fields]
    for name in fields:
        if name not in {*_ENTRY, _KEY}:
            meant = find_nearest(name, missing)
            right = f"did you mean `{meant}`?" if meant else _ENTRY_SHAPE
            report(name, "unknown in an entry", right)
    if "partition" in missing:
        report("", "`partition` is missing")
    if "offset" in missing:
        report(
            "",
            "`offset` is missing, which Connect would take for a reset of this partition",
            'write "offset": null if it is to be removed',
        )
    maps = [_parse_map(locate, name, fields.get(name), problems) for name in _ENTRY]
    if len(problems) > before:
        return None
    partition, offset = (
        None if mapping is None else encode_sorted(mapping).decode() for mapping in maps
    )
    partition, key = partition or "null", fields.get(_KEY)
    if key is not None and not _is_key(key, partition):
        right = "the raw key of this partition, as `offsets export` prints it; or leave it out"
        report(_KEY, "no raw key of this partition", right)
        return None
    return PartitionOffset(partition=partition, offset=offset, key=key)


def _is_key(key: Any, partition: str) -> bool:
    """Return whether a raw key is for this partition; its connector may differ, for an import."""
    decoded = decode_key(key.encode()) if isinstance(key, str) and _is_text(key) else None
    return isinstance(decoded, SourceKey) and decoded.is_spelling and decoded.identity == partition


def _parse_map(
    locate: Callable[[str], str], half: str, value: Any, problems: list[ValidationProblem]
) -> dict[str, Scalar] | None:
    """Parse a flat map of values that Connect can store; None for null."""
    if value is None:
        return None
    if not isinstance(value, _JsonObject):
        wrong = f"{_describe_json_type(value)} and no object"
        problems.append(ValidationProblem(locate(half), wrong, _ENTRY_SHAPE))
        return None
    if len(value) != len(dict(value)) or not all(_is_text(name) for name, _ in value):
        problems.extend(_find_duplicate_names(locate(half), value))
    for name, item in value:
        for wrong, right in _check_value(name, item):
            problems.append(ValidationProblem(locate(f"{half}.{name}"), wrong, right))
    return dict(value)


def _check_value(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield why Connect could not store this value, and what it could."""
    match value:
        case _JsonObject() | list():
            right = "Connect keeps text, numbers, true, false and null in partitions and offsets"
            yield f"{_describe_json_type(value)} inside", right
        case int() if not INT64_MIN <= value <= INT64_MAX:
            yield f"{value} does not fit into 64 bits", f"from {INT64_MIN} to {INT64_MAX}"
        case float() if not math.isfinite(value):
            yield "a number beyond every float", ""
    for text in (name, value):
        if isinstance(text, str) and not _is_text(text):
            yield "half of a surrogate pair, which is no text", ""


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_duplicate_names(where: str, parsed: _JsonObject) -> Iterator[ValidationProblem]:
    for name, times in Counter(name for name, _ in parsed).items():
        if times > 1:
            yield ValidationProblem(where, f"`{name}` stands there {times} times", "once only")
        if not _is_text(name):
            wrong = "a name with half of a surrogate pair, which is no text"
            yield ValidationProblem(where, wrong, "")


def _describe_json_type(value: Any) -> str:
    """Return the type of a value in words, for users."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a text"
        case _JsonObject():
            return "an object"
        case _:
            return "a list"


# The fields that hold an alias. A checkpoint's topic begins with one as its replication policy puts
# it there, which is not known here; but no task ever reads a checkpoint's offset.
_ALIASES = {
    MIRROR_SOURCE: ("cluster",),
    MIRROR_HEARTBEAT: ("sourceClusterAlias", "targetClusterAlias"),
}


def rename_document(
    document: OffsetsDocument, connectors: Mapping[str, str], aliases: Mapping[str, str]
) -> OffsetsDocument | tuple[ValidationProblem, ...]:
    """Return the document with new names, or the problems.

    A problem is a name that is not in the document, or two names that become one.
    """
    problems = [*_find_unknown_names("--rename", connectors, set(document.connectors()))]
    problems += _find_unknown_names("--rename-alias", aliases, _collect_aliases(document))
    sections = tuple(
        OffsetsSection(
            connector=connectors.get(section.connector, section.connector),
            pairs=tuple(_rename_pair(pair, aliases) for pair in section.pairs),
            where=section.where,
        )
        for section in document.sections
    )
    times = Counter(section.connector for section in sections)
    problems += [
        ValidationProblem(
            "--rename", f"{name} would be there twice", "one document for each of them"
        )
        for name in sorted(times)
        if times[name] > 1
    ]
    for section in sections:
        problems += find_duplicate_partitions(section.where, section.pairs)
    return tuple(problems) or replace(document, sections=sections)


def _find_unknown_names(
    option: str, renamed: Mapping[str, str], known: set[str]
) -> Iterator[ValidationProblem]:
    for name in renamed:
        if name not in known:
            right = suggest_name(name, known)
            yield ValidationProblem(option, f"the document has no {name}", right)


def _collect_aliases(document: OffsetsDocument) -> set[str]:
    parsed = (
        parse_fields(pair.partition) or {}
        for section in document.sections
        for pair in section.pairs
    )
    return {str(fields[name]) for fields in parsed for name in _find_alias_fields(fields)}


def _find_alias_fields(fields: Fields) -> tuple[str, ...]:
    """Return the fields that hold an alias.

    A document has no class, and needs none here: the shapes are MirrorMaker's alone. For a
    connector of another class, the write refuses partitions that never existed.
    """
    return _ALIASES.get(DIALECTS[find_dialect(fields, "")], ())


def _rename_pair(pair: PartitionOffset, aliases: Mapping[str, str]) -> PartitionOffset:
    fields = parse_fields(pair.partition) or {}
    names = _find_alias_fields(fields)
    if not aliases or not names:
        return pair
    renamed = {
        name: aliases.get(str(value), value) if name in names else value
        for name, value in fields.items()
    }
    return PartitionOffset(partition=encode_sorted(renamed).decode(), offset=pair.offset)
