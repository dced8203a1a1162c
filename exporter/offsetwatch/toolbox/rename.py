"""Renaming of connectors, and of MirrorMaker's cluster aliases, in documents of offsets.

Both names are part of the keys by which Connect finds offsets: without its renamed offsets, a
connector that is renamed, or recreated under another alias, starts from scratch. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from offsetwatch.decode.dialects import DIALECTS, MIRROR_HEARTBEAT, MIRROR_SOURCE, find_dialect
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.documents import OffsetsDocument, OffsetsSection, find_duplicate_partitions
from offsetwatch.toolbox.offset_shapes import Fields, parse_fields
from offsetwatch.toolbox.suggestions import find_nearest, format_names
from offsetwatch.toolbox.validation import ValidationProblem

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
    known = set(document.connectors())
    found = [*_find_unknown_names("--rename", connectors, known)]
    found += _find_unknown_names("--rename-alias", aliases, _collect_aliases(document))
    sections = tuple(
        OffsetsSection(
            connector=connectors.get(section.connector, section.connector),
            pairs=tuple(_rename_pair(pair, aliases) for pair in section.pairs),
            where=section.where,
        )
        for section in document.sections
    )
    found += _find_collisions(sections)
    for section in sections:
        found += find_duplicate_partitions(section.where, section.pairs)
    return tuple(found) or replace(document, sections=sections)


def _find_collisions(sections: tuple[OffsetsSection, ...]) -> list[ValidationProblem]:
    names = [section.connector for section in sections]
    return [
        ValidationProblem(
            "--rename", f"{name} would be there twice", "one document for each of them"
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _find_unknown_names(
    option: str, renamed: Mapping[str, str], known: set[str]
) -> list[ValidationProblem]:
    found = []
    for name in renamed:
        if name not in known:
            meant = find_nearest(name, known)
            right = (
                f"did you mean {meant}?" if meant else f"it has: {format_names(known) or 'none'}"
            )
            found.append(ValidationProblem(option, f"the document has no {name}", right))
    return found


def _collect_aliases(document: OffsetsDocument) -> set[str]:
    found: set[str] = set()
    for section in document.sections:
        for pair in section.pairs:
            fields = parse_fields(pair.partition)
            found.update(
                str(fields[name]) for name in _find_alias_fields(fields) if fields is not None
            )
    return found


def _find_alias_fields(fields: Fields | None) -> tuple[str, ...]:
    """Return the fields that hold an alias.

    A document has no class, and needs none here: the shapes are MirrorMaker's alone. For a
    connector of another class, the write refuses partitions that never existed.
    """
    return _ALIASES.get(DIALECTS[find_dialect(fields, "")], ())


def _rename_pair(pair: PartitionOffset, aliases: Mapping[str, str]) -> PartitionOffset:
    fields = parse_fields(pair.partition)
    names = _find_alias_fields(fields)
    if fields is None or not aliases or not names:
        return pair
    renamed = {
        name: aliases.get(str(value), value) if name in names else value
        for name, value in fields.items()
    }
    return PartitionOffset(partition=encode_sorted(renamed).decode(), offset=pair.offset)
