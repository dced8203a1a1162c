"""Offsets as people keep them: KIP-199's JSON, in files and standard streams, and PATCH bodies.

    {"connector": [{"partition": {...}, "offset": {...} or null}, ...], ...}

Reading is strict where Connect is not: what Connect would take for something else (a missing
`offset` for a reset, a partition given twice for its last) is a problem with its place. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.remedy.plan import Pair
from exporter.toolbox.bounds import Problem


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


def parse(raw: bytes, *, patch_of: str | None = None) -> Document | tuple[Problem, ...]:
    """A document, or all that is wrong with it.

    patch_of    the connector that `{"offsets": [...]}` is about: without it, that is a document
                about a connector named `offsets`
    """
    raise NotImplementedError


def kip199(sections: tuple[Section, ...]) -> bytes:
    """The way back, indented, one line for each pair; integers of any size stay exact."""
    raise NotImplementedError
