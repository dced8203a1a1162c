"""A metric family as two columns: made by families.py and mirror_families.py, written by
exposition.py.

Two columns, label sets and numbers, because the encoder handles 100,000 series column by column
several times faster than one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, compress, repeat
from typing import NamedTuple, TypeGuard, cast

from offsetwatch.model.offsets import FLOAT_EXACT_MAX
from offsetwatch.serve.metrics.metric import MetricSpec

Labels = tuple[str, ...]


class LabelColumns:
    """Label sets of many rows, label by label. They equal those of the scrape before at a glance,
    because values are the same objects; a tuple for each of 20,000 rows, made for each scrape, set
    off a collection of garbage that took as long as the scrape.
    """

    __slots__ = ("columns",)

    def __init__(self, *columns: list[str]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Labels]:
        return zip(*self.columns, strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelColumns) and self.columns == other.columns

    __hash__ = None  # type: ignore[assignment]  # like any list

    def kept(self, shown: list[bool]) -> LabelColumns:
        """Those rows that are shown."""
        return LabelColumns(*(list(compress(column, shown)) for column in self.columns))

    def repeated(self, times: list[int]) -> LabelColumns:
        """Each row so many times."""
        return LabelColumns(
            *(list(chain.from_iterable(map(repeat, column, times))) for column in self.columns)
        )

    def beside(self, column: list[str]) -> LabelColumns:
        """With one more label."""
        return LabelColumns(*self.columns, column)


LabelRows = list[Labels] | LabelColumns


class Family(NamedTuple):
    """A metric and its rows: the n-th label set belongs to the n-th number. Not to be changed."""

    spec: MetricSpec
    labels: LabelRows
    numbers: list[float]

    def rows(self) -> Iterator[tuple[Labels, float]]:
        """The rows one by one."""
        return zip(self.labels, self.numbers, strict=True)


def build_family(spec: MetricSpec, labels: LabelRows, numbers: Sequence[float | None]) -> Family:
    """A family without the rows that have no number, or none that a sample could hold exactly.

    The book has already counted the inexact ones; a rounded offset would be a wrong offset.
    """
    if _has_only_exact(numbers):
        return Family(spec, labels, list(numbers))
    shown = [
        number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX for number in numbers
    ]
    kept = cast("list[float]", list(compress(numbers, shown)))
    if not kept:
        return Family(spec, [], kept)
    if isinstance(labels, LabelColumns):
        return Family(spec, labels.kept(shown), kept)
    return Family(spec, list(compress(labels, shown)), kept)


def _has_only_exact(numbers: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Has every row a number that a sample could hold exactly? Nearly always; so without looking
    at them one by one.
    """
    if not numbers or None in numbers:
        return not numbers
    found = cast("Sequence[float]", numbers)
    within = min(found) >= -FLOAT_EXACT_MAX and max(found) <= FLOAT_EXACT_MAX
    return within and not math.isnan(sum(found))  # no order of numbers tells where a NaN is
