"""Bugs that can be planted into a copy of the source tree, read from bugs.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).with_name("bugs.toml")
AREAS: Final = (
    "decode",
    "state",
    "judge",
    "serve",
    "toolbox",
    "history",
    "drivers",
    "chart",
    "clients",
)


@dataclass(frozen=True)
class Bug:
    """One replacement of text in one file; bugs.toml describes the fields."""

    name: str
    area: str
    file: str
    old: str
    new: str
    first: tuple[str, ...]

    def plant(self, root: Path) -> None:
        """Write the bug into its file below `root`."""
        path = root / self.file
        path.write_text(self.apply(path.read_text()))

    def apply(self, text: str) -> str:
        """Return the text of the file with the bug in it. Raise ValueError unless `old` occurs
        exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times")
        return text.replace(self.old, self.new)


def read_bugs() -> tuple[Bug, ...]:
    """Return every bug, in the order of the file."""
    rows = tomllib.loads(FILE.read_text())["bug"]
    return tuple(Bug(**{**row, "first": tuple(row["first"])}) for row in rows)
