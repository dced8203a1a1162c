"""Locations of requested offsets in what the user gave, for problems. Pure.

A user gives a document, or pairs of options; or the offsets come from a store or from tables, and
an entry has no other name than its partition.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


class OffsetsLocation(Protocol):
    """Location of the requested offsets of one connector; as a text, that of all of them."""

    def locate(self, index: int, partition: str, name: str = "") -> str:
        """Return the location of an entry, or of a part of it: `partition`, `offset.position`.

        index       its number among the entries
        partition   its partition, as JSON
        """
        ...


@dataclass(frozen=True, slots=True)
class DocumentLocation:
    """Location of a list in a document: `offsets.json:12: orders[3].offset.position`.

    path        of the list: the connector, or `offsets` of a PATCH body
    document    the document's name; "" if it has none
    lines       the lines of its entries
    """

    path: str
    document: str = ""
    lines: EntryLines | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.document, self.path) if part)

    def locate(self, index: int, _partition: str, name: str = "") -> str:
        """Return the location of an entry, or of a part of it."""
        line = None if self.lines is None else self.lines.find_line(self.path, index)
        document = self.document if line is None else f"{self.document}:{line}"
        entry = f"{self.path}[{index}].{name}".rstrip(".")
        return f"{document}: {entry}" if document else entry


@dataclass(frozen=True, slots=True)
class TypedPairsLocation:
    """Location of pairs of --partition and --offset, as they were typed."""

    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "--partition"

    def locate(self, index: int, _partition: str, name: str = "") -> str:
        """Return the option, with its value if there are several, and the field in it."""
        half, _, inner = name.partition(".")
        is_offset = half == "offset"
        option = "--offset" if is_offset else "--partition"
        if len(self.pairs) > 1:
            option = f"{option} {shlex.quote(self.pairs[index][is_offset])}"
        return f"{option}: {inner}" if inner else option


@dataclass(frozen=True, slots=True)
class StoredPairsLocation:
    """Location of offsets that the user did not write: an entry is named by its partition."""

    connector: str

    def __str__(self) -> str:
        return self.connector

    def locate(self, _index: int, partition: str, name: str = "") -> str:
        """Return the connector, the partition and the part."""
        return ": ".join(part for part in (self.connector, partition, name) if part)


class EntryLines:
    """Lines on which the entries of a valid document begin. They are found when first used."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def find_line(self, path: str, index: int) -> int | None:
        """Return the line of an entry, from 1; None if it is unknown."""
        lines = self._lines.get(path, ())
        return lines[index] if index < len(lines) else None

    @cached_property
    def _lines(self) -> dict[str, tuple[int, ...]]:
        try:
            return _find_entry_lines(self._raw.decode("utf-8-sig"))
        except (ValueError, IndexError, RecursionError):
            return {}


def _find_entry_lines(text: str) -> dict[str, tuple[int, ...]]:
    """Return the lines of the entries of each list, by its path; of a list alone by ""."""
    scanner = _LineScanner(text)
    if scanner.peek() == "[":
        return {"": scanner.read_list()}
    lines: dict[str, tuple[int, ...]] = {}
    scanner.take("{")
    while scanner.peek() != "}":
        name = scanner.read_name()
        if scanner.peek() == "[":
            lines[name] = scanner.read_list()
        else:
            scanner.skip_value()
        if scanner.peek() == ",":
            scanner.take(",")
    return lines


class _LineScanner:
    """Scanner of a valid JSON text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line, self._counted = 1, 0  # the line of the position that was counted up to

    def peek(self) -> str:
        """Return the next character that is no blank."""
        blank = _BLANK.match(self._text, self._position)
        assert blank is not None  # it matches nothing as well
        self._position = blank.end()
        return self._text[self._position]

    def take(self, character: str) -> None:
        """Pass the next character. Raises ValueError if it is another one."""
        if self.peek() != character:
            raise ValueError(f"no {character}")
        self._position += 1

    def read_name(self) -> str:
        """Return the name of the next member, and pass its colon."""
        self.peek()
        name, self._position = _DECODER.raw_decode(self._text, self._position)
        self.take(":")
        return str(name)

    def skip_value(self) -> None:
        """Pass the next value."""
        self.peek()
        _, self._position = _DECODER.raw_decode(self._text, self._position)

    def read_list(self) -> tuple[int, ...]:
        """Return the line of each item of the next list, and pass it."""
        lines = []
        self.take("[")
        while self.peek() != "]":
            self._line += self._text.count("\n", self._counted, self._position)
            self._counted = self._position
            lines.append(self._line)
            self.skip_value()
            if self.peek() == ",":
                self.take(",")
        self.take("]")
        return tuple(lines)
