"""A metric: its definition, the label sets that metrics share, and its rows as a table.

The catalogue has the definitions. families.py and mirror_families.py build the tables of two
columns, label sets and numbers; exposition.py writes them. The encoder handles 100,000 series
several times faster column by column than one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Literal, NamedTuple, TypeGuard, cast

from offsetwatch.model.offsets import FLOAT_EXACT_MAX

PREFIX = "offsetwatch_"

MetricKind = Literal["gauge", "counter"]

# Only those that a kind has are not empty, and Prometheus keeps no empty label. No label holds two.
TAIL = ("kafka", "topic")
INPUT = ("kind", "kafka", "connect_cluster", "topic", "connector", "source", "target")
CONNECTOR = ("connect_cluster", "connector")
SOURCE_PARTITION = (*CONNECTOR, "source_partition")
FLOW = ("connect_cluster", "source", "target")
FLOW_PARTITION = (*FLOW, "topic", "partition")
MIRROR_PARTITION = (*CONNECTOR, "source", "target", "topic", "partition")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Definition of a metric.

    `name` is the full name of its samples, `_total` included for a counter.

    optional    labels that some of its series do not have: `=~".+"` excludes these series
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...]
    optional: frozenset[str] = frozenset()


def gauge(
    name: str, labels: tuple[str, ...], help_text: str, *, optional: Iterable[str] = ()
) -> MetricSpec:
    """Build a gauge; `name` is without the prefix."""
    return MetricSpec(PREFIX + name, "gauge", help_text, labels, frozenset(optional))


def counter(
    name: str, labels: tuple[str, ...], help_text: str, *, optional: Iterable[str] = ()
) -> MetricSpec:
    """Build a counter; `name` is without the prefix, and with `_total`."""
    return MetricSpec(PREFIX + name, "counter", help_text, labels, frozenset(optional))


Labels = tuple[str, ...]


class LabelColumns:
    """Label sets of many rows, one column per label.

    Comparing them with those of the scrape before is cheap, as the values are the same objects. A
    tuple for each of 20,000 rows at each scrape set off a garbage collection that took as long as
    the scrape.
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

    def select(self, mask: list[bool]) -> LabelColumns:
        """Return the rows that are shown."""
        return LabelColumns(*(list(compress(column, mask)) for column in self.columns))

    def repeated(self, times: list[int]) -> LabelColumns:
        """Return each row as often as `times` says."""
        return LabelColumns(
            *(list(chain.from_iterable(map(repeat, column, times))) for column in self.columns)
        )

    def beside(self, column: list[str]) -> LabelColumns:
        """Return the rows with one more label."""
        return LabelColumns(*self.columns, column)


LabelRows = list[Labels] | LabelColumns


class Family(NamedTuple):
    """Metric with its rows: the n-th label set has the n-th number. Immutable by convention."""

    spec: MetricSpec
    labels: LabelRows
    numbers: list[float]

    def rows(self) -> Iterator[tuple[Labels, float]]:
        """Iterate over label sets with their numbers."""
        return zip(self.labels, self.numbers, strict=True)


def build_family(spec: MetricSpec, labels: LabelRows, numbers: Sequence[float | None]) -> Family:
    """Build a family without the rows that have no number, or an inexact one.

    A number is inexact if a sample cannot hold it: above 2^53. A rounded offset would be a wrong
    offset. state/connect has already counted the inexact ones.
    """
    if _has_only_exact(numbers):
        return Family(spec, labels, list(numbers))
    mask = [
        number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX for number in numbers
    ]
    values = cast("list[float]", list(compress(numbers, mask)))
    if not values:
        return Family(spec, [], values)
    if isinstance(labels, LabelColumns):
        return Family(spec, labels.select(mask), values)
    return Family(spec, list(compress(labels, mask)), values)


def build_family_of_rows(spec: MetricSpec, rows: Iterable[tuple[Labels, float | None]]) -> Family:
    """Build a family from pairs of a label set and its number."""
    all_rows = list(rows)
    return build_family(
        spec, [labels for labels, _ in all_rows], [number for _, number in all_rows]
    )


def build_family_of_counts(spec: MetricSpec, counts: Iterable[tuple[str, float | None]]) -> Family:
    """Build a family with one label: a count for each reason, state or mode."""
    return build_family_of_rows(spec, (((reason,), count) for reason, count in counts))


def _has_only_exact(numbers: Sequence[float | None]) -> TypeGuard[Sequence[float]]:
    """Check whether all rows have numbers that a sample can hold exactly.

    Nearly always they do, so there is no Python loop over them.
    """
    if not numbers or None in numbers:
        return not numbers
    values = cast("Sequence[float]", numbers)
    within = min(values) >= -FLOAT_EXACT_MAX and max(values) <= FLOAT_EXACT_MAX
    return within and not math.isnan(sum(values))  # no order of numbers tells where a NaN is
