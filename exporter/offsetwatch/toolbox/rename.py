"""Offsets for another name: of a connector, or of the cluster that MirrorMaker calls by an alias.

Both are inside the keys under which Connect looks offsets up, so a connector that is renamed, or
made again elsewhere under another alias, starts from scratch unless its offsets are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from offsetwatch.decode.dialects import DIALECTS, MIRROR_HEARTBEAT, MIRROR_SOURCE, dialect_for
from offsetwatch.decode.jsontext import encode_sorted
from offsetwatch.remedy.model.plan import Pair
from offsetwatch.toolbox.documents import Document, Section, same_twice
from offsetwatch.toolbox.offset_shapes import Fields, decoded
from offsetwatch.toolbox.suggestions import nearest, told
from offsetwatch.toolbox.validation import Problem

# The fields that hold an alias. A checkpoint's topic begins with one as its replication policy puts
# it there, which is not known here; but no task ever reads a checkpoint's offset.
_ALIASES = {
    MIRROR_SOURCE: ("cluster",),
    MIRROR_HEARTBEAT: ("sourceClusterAlias", "targetClusterAlias"),
}


def rename(
    document: Document, connectors: Mapping[str, str], aliases: Mapping[str, str]
) -> Document | tuple[Problem, ...]:
    """The document with new names, or what is wrong with them: a name that is not in it, or two
    that become one.
    """
    known = set(document.connectors())
    found = [*_unknown("--rename", connectors, known)]
    found += _unknown("--rename-alias", aliases, _aliases_in(document))
    sections = tuple(
        Section(
            connector=connectors.get(section.connector, section.connector),
            pairs=tuple(_pair(pair, aliases) for pair in section.pairs),
            where=section.where,
        )
        for section in document.sections
    )
    found += _collisions(sections)
    for section in sections:
        found += same_twice(section.where, section.pairs)
    return tuple(found) or replace(document, sections=sections)


def _collisions(sections: tuple[Section, ...]) -> list[Problem]:
    names = [section.connector for section in sections]
    return [
        Problem("--rename", f"{name} would be there twice", "one document for each of them")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _unknown(option: str, renamed: Mapping[str, str], known: set[str]) -> list[Problem]:
    found = []
    for name in renamed:
        if name not in known:
            meant = nearest(name, known)
            right = f"did you mean {meant}?" if meant else f"it has: {told(known) or 'none'}"
            found.append(Problem(option, f"the document has no {name}", right))
    return found


def _aliases_in(document: Document) -> set[str]:
    found: set[str] = set()
    for section in document.sections:
        for pair in section.pairs:
            fields = decoded(pair.partition)
            found.update(str(fields[name]) for name in _alias_fields(fields) if fields is not None)
    return found


def _alias_fields(fields: Fields | None) -> tuple[str, ...]:
    """Return the fields that hold an alias. A document tells no class, and needs none here: the
    shapes are MirrorMaker's alone. Of a connector of another class, whoever writes the offsets
    refuses partitions that were never there.
    """
    return _ALIASES.get(DIALECTS[dialect_for(fields, "")], ())


def _pair(pair: Pair, aliases: Mapping[str, str]) -> Pair:
    fields = decoded(pair.partition)
    names = _alias_fields(fields)
    if fields is None or not aliases or not names:
        return pair
    renamed = {
        name: aliases.get(str(value), value) if name in names else value
        for name, value in fields.items()
    }
    return Pair(partition=encode_sorted(renamed).decode(), offset=pair.offset)
