"""A Java properties file as `java.util.Properties.load` reads it.

What it holds may be secret: nothing of it is
part of an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 1024 * 1024
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY_AND_VALUE = re.compile(r"((?:[^\\:= \t\f]|\\.)*)[ \t\f]*(?:[:=][ \t\f]*)?(.*)", re.DOTALL)
_BLANKS: Final = " \t\f"
_SHORT_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a file. Raises OSError, or ValueError for one that is too large."""
    with path.open("rb") as file:
        raw = file.read(BYTES_MAX + 1)
    if len(raw) > BYTES_MAX:
        raise ValueError("it is larger than 1 MiB")
    return parse_properties(raw)


def parse_properties(raw: bytes) -> dict[str, str]:
    """The settings; of a key that stands there twice the last counts. Java reads Latin-1, whatever
    the file was written in.
    """
    found: dict[str, str] = {}
    for line in _join_lines(raw.decode("latin-1")):
        match = _KEY_AND_VALUE.fullmatch(line)
        assert match is not None
        found[unescape(match[1])] = unescape(match[2])
    return found


def _join_lines(text: str) -> Iterable[str]:
    """Lines put together where one ends in an odd number of backslashes; no comments, no blanks.

    A line of which only such a backslash is there has not begun: what follows may be a comment.
    """
    begun = ""
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_BLANKS)
        if not begun and line[:1] in {"", "#", "!"}:
            continue
        line = begun + line
        slashes = len(line) - len(line.rstrip("\\"))
        begun = line[:-1] if slashes % 2 else ""
        if not slashes % 2:
            yield line
    if begun:
        yield begun


def unescape(text: str) -> str:
    """Without the backslashes."""

    def one(match: re.Match[str]) -> str:
        what = match[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _SHORT_ESCAPES.get(what, what)

    return _ESCAPE.sub(one, text)
