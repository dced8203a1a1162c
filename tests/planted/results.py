"""The table of planted bugs and of the tests that caught them, kept in results.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path(__file__).with_name("results.md")
_WORDS: Final = {
    "make test": "caught by `make test`",
    "make full": "by `make full` alone",
    "not caught": "not caught",
}
_COLUMNS: Final = ("bug", "area", "caught by", "first failing test")


class Row(NamedTuple):
    """One bug. `tier` is the command whose tests caught it, or "not caught"."""

    name: str
    area: str
    tier: str
    test: str


def read_rows() -> dict[str, Row]:
    """Return the rows of the file by name; none if there is no file yet."""
    if not FILE.exists():
        return {}
    cells = [_cells(line) for line in FILE.read_text().splitlines() if line.startswith("| ")]
    rows = [Row(*cell) for cell in cells[2:] if len(cell) == len(_COLUMNS)]
    return {row.name: row for row in rows}


def write_rows(rows: Iterable[Row], names: Sequence[str]) -> None:
    """Put the rows into the file beside those that are there, in the order of the names. Rows of
    bugs that no name is left for are dropped.
    """
    known = {**read_rows(), **{row.name: row for row in rows}}
    ordered = [known[name] for name in names if name in known]
    FILE.write_text(render(ordered))


def render(rows: Sequence[Row]) -> str:
    """Return the whole document."""
    tiers = Counter(row.tier for row in rows)
    counts = ", ".join(f"{tiers[tier]} {words}" for tier, words in _WORDS.items() if tiers[tier])
    lines = [
        "# What the tests catch",
        "",
        "Made by `python -m tests.planted`. Each bug was planted alone: in a copy of the source",
        f"tree, or in the simulation (area remedy). {len(rows)} bugs: {counts}.",
        "",
        _line(_COLUMNS),
        _line(["---"] * len(_COLUMNS)),
        *(_line(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(line: str) -> list[str]:
    escaped = line.replace(chr(92) + "|", "\0")
    return [cell.strip().replace("\0", "|") for cell in escaped.strip().strip("|").split("|")]
