"""Pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MADE: str = "Made from the code by `make references`; changes go there."


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what would end a cell is escaped."""
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    lines += [f"| {' | '.join(map(_cell, row))} |".replace("|  |", "| |") for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """As it is typed."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def flowing(text: str) -> str:
    """Paragraphs, each on a line of its own. No tag may come of what is no tag."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(re.sub(r"<(?=\w)", r"\\<", part) for part in paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
