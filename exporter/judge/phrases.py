"""How findings speak of many things: a count, the worst few, and how many more. Called by rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from exporter.model.findings import Evidence

EXAMPLES: Final = 5  # of many things, so many are named


def several(count: int, noun: str) -> str:
    """`1 partition`, `3 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def few(names: Iterable[object]) -> str:
    """The first five, and how many more there are."""
    told = [str(name) for name in names]
    more = len(told) - EXAMPLES
    return ", ".join(told[:EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def exception_name(failure: str | None) -> str:
    """Return the simple name of the exception's class in `failure` (decode/failure.py)."""
    if not failure:
        return "no reason was given"
    return failure.split(" in ", 1)[0].rsplit(".", 1)[-1]


def examples(rows: Sequence[tuple[str, str]]) -> Evidence:
    """The first five as evidence, and how many more there are."""
    more = len(rows) - EXAMPLES
    rest = (("and more", str(more)),) if more > 0 else ()
    return (*rows[:EXAMPLES], *rest)
