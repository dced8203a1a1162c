"""A metric family as two columns: made by families.py and replicated.py, written by exposition.py.

Two columns, label sets and numbers, because the encoder handles 100,000 series column by column
several times faster than one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exporter.model.offsets import FLOAT_EXACT_MAX
from exporter.serve.spec import Spec

Labels = tuple[str, ...]


class Family(NamedTuple):
    """A metric and its rows: the n-th label set belongs to the n-th number. Not to be changed."""

    spec: Spec
    labels: list[Labels]
    numbers: list[float]

    def rows(self) -> Iterator[tuple[Labels, float]]:
        """The rows one by one."""
        return zip(self.labels, self.numbers, strict=True)


def family(spec: Spec, labels: list[Labels], numbers: Sequence[float | None]) -> Family:
    """A family without the rows that have no number, or none that a sample could hold exactly.

    The book has already counted the inexact ones; a rounded offset would be a wrong offset.
    """
    kept = [
        number
        for number in numbers
        if number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX
    ]
    if len(kept) == len(numbers):
        return Family(spec, labels, kept)
    shown = [
        at
        for at, number in zip(labels, numbers, strict=True)
        if number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX
    ]
    return Family(spec, shown, kept)
