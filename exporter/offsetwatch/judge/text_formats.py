"""Formats of names and evidence in verdicts and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from offsetwatch.decode.stack_trace import parse_exception_class
from offsetwatch.formatting import format_moment
from offsetwatch.model.findings import OFFSET, TIME, Evidence, EvidenceItem

EXAMPLES_MAX: Final = 5  # of many things, so many are named
OTHERS: Final = "others"
NO_REASON: Final = "Connect reports no reason"


def format_names(names: Iterable[object]) -> str:
    """Return the first five names, and how many more there are."""
    texts = [str(name) for name in names]
    more = len(texts) - EXAMPLES_MAX
    return ", ".join(texts[:EXAMPLES_MAX]) + (f" and {more} more" if more > 0 else "")


def parse_exception_name(failure: str | None) -> str:
    """Return the simple name of the exception's class in `failure` (decode/stack_trace.py)."""
    if not failure:
        return NO_REASON
    return parse_exception_class(failure).rsplit(".", 1)[-1]


def build_examples(rows: Sequence[EvidenceItem | Evidence]) -> Evidence:
    """Return the first five rows as evidence, and how many more there are.

    A row is one value or several.
    """
    examples: list[EvidenceItem] = []
    for row in rows[:EXAMPLES_MAX]:
        examples += (row,) if isinstance(row, EvidenceItem) else row
    more = len(rows) - EXAMPLES_MAX
    return (*examples, EvidenceItem("and more", more, OTHERS)) if more > 0 else tuple(examples)


def build_time_item(name: str, moment: float) -> EvidenceItem:
    """Return a moment (Unix seconds) as evidence."""
    return EvidenceItem(name, format_moment(moment), TIME)


def build_position_item(name: str, text: str) -> EvidenceItem:
    """Return a position as evidence: a Kafka offset is a number, any other text stays one."""
    if text.isascii() and text.isdecimal():
        return EvidenceItem(name, int(text), OFFSET)
    return EvidenceItem(name, text)
