"""Spark reads of both sides of a mirror: hashes of records, as few ranges as a query needs.

Records are hashed where they are read, in the JVM; only hashes leave it. A partition of a topic is
one task and is read in its order.

A record's hash covers its key, its value and its headers, in their order. It also covers whether
there is a key or a value at all, so that null differs from empty. Timestamp and compression do not
count. The hash has 64 bits: two different records are taken for one once in 2^64.

Lookups search the whole of both logs, of the partitions concerned only, and only if the differing
records leave a question open.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from offsetwatch.formatting import format_count
from offsetwatch.history.audit.chunking import SCHEMA, Block, build_blocks
from offsetwatch.history.audit.differences import (
    AlignmentResult,
    HashedRecord,
    MirrorDifference,
    MirrorDifferenceKind,
    find_unknown_hashes,
)
from offsetwatch.history.audit.explanations import CompactionFacts
from offsetwatch.history.audit.scope import AuditScope
from offsetwatch.history.spark.session import translate_spark_errors
from offsetwatch.model.topology import TopicPartition

UPSTREAM: Final = 0
DOWNSTREAM: Final = 1
HASH_COLUMNS: Final = ("offset", "hash", "body_hash", "key_hash", "tombstone")


class AuditReadRange(NamedTuple):
    """Offsets [first, end) of one partition of a topic; `number` identifies it in results."""

    number: int
    side: int
    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class SparkReadOptions:
    """Options of Spark's Kafka source, by side; and whether headers count."""

    options: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)  # may hold passwords
    headers: bool = True


def read_blocks(
    spark: SparkSession, clusters: SparkReadOptions, parts: Sequence[AuditReadRange]
) -> dict[tuple[int, int], list[Block]]:
    """Return (number, side) -> the blocks of that range, in order. Raises HistoryError."""
    if not _has_records(parts):
        return {}
    rows = _hash_records(spark, clusters, parts).select("slice", "side", "offset", "hash")
    with translate_spark_errors("comparing both sides failed"):
        described = rows.mapInArrow(build_blocks, SCHEMA).collect()
    blocks: dict[tuple[int, int], list[Block]] = defaultdict(list)
    for number, side, *block in sorted(map(tuple, described)):
        blocks[number, side].append(Block(*block))
    return dict(blocks)


def read_records(
    spark: SparkSession, clusters: SparkReadOptions, parts: Sequence[AuditReadRange]
) -> dict[tuple[int, int], list[HashedRecord]]:
    """Return (number, side) -> the records of those ranges, in order. Raises HistoryError."""
    if not _has_records(parts):
        return {}
    rows = _hash_records(spark, clusters, parts).select("slice", "side", *HASH_COLUMNS)
    with translate_spark_errors("reading what differs failed"):
        table = rows.toArrow()
    columns = (column.to_pylist() for column in table.columns)
    records: dict[tuple[int, int], list[HashedRecord]] = defaultdict(list)
    for number, side, *record in sorted(zip(*columns, strict=True)):
        records[number, side].append(HashedRecord(*record))
    return dict(records)


def find_by_hash(
    spark: SparkSession,
    clusters: SparkReadOptions,
    parts: Sequence[AuditReadRange],
    hashes: Iterable[int],
) -> list[tuple[int, int, HashedRecord]]:
    """Return (number, side, first record) of every range and each of these hashes in it.

    Raises HistoryError.
    """
    if not _has_records(parts):
        return []
    requested = _build_frame(spark, hashes)
    firsts = (
        _hash_records(spark, clusters, parts)
        .join(sf.broadcast(requested), sf.col("hash") == requested.of)
        .groupBy("slice", "side", "hash")
        .agg(sf.min_by(sf.struct(*HASH_COLUMNS), "offset").alias("first"))
    )
    with translate_spark_errors("looking for records elsewhere failed"):
        rows = firsts.collect()
    return [(row["slice"], row["side"], HashedRecord(*row["first"])) for row in rows]


def find_newest_by_key(
    spark: SparkSession,
    clusters: SparkReadOptions,
    parts: Sequence[AuditReadRange],
    keys: Iterable[int],
) -> dict[tuple[int, int], int]:
    """Return (number, hash of a key) -> offset of its newest record. Raises HistoryError."""
    if not _has_records(parts):
        return {}
    requested = _build_frame(spark, keys)
    newest = (
        _hash_records(spark, clusters, parts)
        .join(sf.broadcast(requested), sf.col("key_hash") == requested.of)
        .groupBy("slice", "key_hash")
        .agg(sf.max("offset").alias("newest"))
    )
    with translate_spark_errors("looking for newer records failed"):
        rows = newest.collect()
    return {(row["slice"], row["key_hash"]): row["newest"] for row in rows}


def _has_records(parts: Sequence[AuditReadRange]) -> bool:
    return any(part.end > part.first for part in parts)


def _hash_records(
    spark: SparkSession, clusters: SparkReadOptions, parts: Sequence[AuditReadRange]
) -> DataFrame:
    """Return slice, side and HASH_COLUMNS of every record of these ranges."""
    return reduce(DataFrame.unionAll, (_read(spark, clusters, layer) for layer in _layers(parts)))


def _layers(parts: Sequence[AuditReadRange]) -> Iterator[list[AuditReadRange]]:
    """Yield lists with one range of each partition at most: Spark's source reads one at a time."""
    waiting: dict[int, dict[tuple[str, int], list[AuditReadRange]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for part in parts:
        if part.end > part.first:
            waiting[part.side][part.topic, part.partition].append(part)
    for by_partition in waiting.values():
        while any(by_partition.values()):
            yield [ranges.pop(0) for ranges in by_partition.values() if ranges]


def _read(
    spark: SparkSession, clusters: SparkReadOptions, layer: Sequence[AuditReadRange]
) -> DataFrame:
    """Read one side, one range of each partition."""
    firsts: dict[str, dict[int, int]] = defaultdict(dict)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for part in layer:
        firsts[part.topic][part.partition] = part.first
        ends[part.topic][part.partition] = part.end
    assigned = {topic: list(partitions) for topic, partitions in firsts.items()}
    side = layer[0].side
    with translate_spark_errors(f"{', '.join(assigned)} cannot be read"):
        rows = (
            spark.read.format("kafka")
            .options(**clusters.options[side])
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(firsts))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", str(clusters.headers))
            .load()
        )
    body = (sf.isnull("key"), sf.col("key"), sf.isnull("value"), sf.col("value"))
    headers = (sf.col("headers"),) if clusters.headers else ()
    return rows.select(
        _build_range_column(layer).cast("int").alias("slice"),
        sf.lit(side).cast("int").alias("side"),
        "offset",
        sf.xxhash64(*body, *headers).alias("hash"),
        sf.xxhash64(*body).alias("body_hash"),
        sf.xxhash64(*body[:2]).alias("key_hash"),
        sf.isnull("value").alias("tombstone"),
    )


def _build_range_column(layer: Sequence[AuditReadRange]) -> Column:
    """Return a column with the number of the range that a record belongs to.

    It is computed for every record; with one topic it needs no comparison of names.
    """
    by_topic: dict[str, dict[int, int]] = defaultdict(dict)
    for read_range in layer:
        by_topic[read_range.topic][read_range.partition] = read_range.number
    named: Column | None = None
    for topic, numbers in by_topic.items():
        # One for each partition from 0 on; of those that are not read none is looked up.
        listed = [numbers.get(number, -1) for number in range(max(numbers) + 1)]
        number = sf.element_at(sf.array(*map(sf.lit, listed)), sf.col("partition") + 1)
        is_it = sf.col("topic") == topic
        named = number if named is None else sf.when(is_it, number).otherwise(named)
    assert named is not None
    return named


def _build_frame(spark: SparkSession, values: Iterable[int]) -> Any:
    return spark.createDataFrame([(value,) for value in sorted(set(values))], "of BIGINT")


@dataclass(frozen=True, slots=True)
class Lookups:
    """Lookups in both logs. `remotes`: upstream partition -> its downstream topic."""

    spark: SparkSession
    clusters: SparkReadOptions
    pinned: AuditScope
    remotes: Mapping[TopicPartition, str]
    progress: Callable[[str], None]

    def elsewhere(
        self, alignments: Mapping[TopicPartition, Sequence[AlignmentResult]]
    ) -> dict[TopicPartition, dict[int, HashedRecord | None]]:
        """Return, by partition and hash, the origin of downstream records that the windows lack.

        It is an upstream record outside of the windows; None for a record that is downstream at an
        earlier offset too, and no longer upstream. Raises HistoryError.
        """
        unknown = {
            partition: hashes
            for partition, results in sorted(alignments.items())
            if (hashes := frozenset().union(*map(find_unknown_hashes, results)))
        }
        if not unknown:
            return {}
        hashes = frozenset().union(*unknown.values())
        self.progress(
            f"  {format_count(len(hashes), 'record')} of unknown origin: searched in both logs"
        )
        partitions = tuple(unknown)
        firsts = {partition: _find_first_offsets(alignments[partition]) for partition in partitions}
        origins: dict[TopicPartition, dict[int, HashedRecord | None]] = defaultdict(dict)
        matches = find_by_hash(self.spark, self.clusters, self._logs(partitions), hashes)
        for number, side, record in matches:
            partition, digest = partitions[number], record.digest
            if digest not in unknown[partition]:
                continue
            if side == UPSTREAM:
                origins[partition][digest] = record
            elif record.offset < firsts[partition][digest]:
                origins[partition].setdefault(digest, None)
        return origins

    def newest(
        self, differences: Mapping[TopicPartition, Sequence[MirrorDifference]]
    ) -> dict[TopicPartition, CompactionFacts]:
        """Return the facts that the explanation by compaction needs. Raises HistoryError."""
        up, down = self.pinned.compacted
        facts = {
            partition: CompactionFacts(up=partition.topic in up, down=partition.topic in down)
            for partition in differences
        }
        questions = {
            partition: keys
            for partition, items in sorted(differences.items())
            if (keys := frozenset(_keys(items, facts[partition])))
        }
        partitions = tuple(questions)
        parts = [part for part in self._logs(partitions) if part.side == UPSTREAM]
        keys = frozenset().union(*questions.values())
        newest: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        offsets = find_newest_by_key(self.spark, self.clusters, parts, keys)
        for (number, key), offset in offsets.items():
            newest[partitions[number]][key] = offset
        for partition in partitions:
            facts[partition] = replace(facts[partition], upstream=newest[partition])
        return facts

    def _logs(self, partitions: Sequence[TopicPartition]) -> list[AuditReadRange]:
        """Return the ranges of both whole logs, with their ends when the audit was pinned."""
        parts = []
        for number, partition in enumerate(partitions):
            up, down = self.pinned.up[partition], self.pinned.down[partition]
            end = up.stable_end if self.pinned.flow.read_committed else up.end
            remote, index = self.remotes[partition], partition.partition
            parts += [
                AuditReadRange(number, UPSTREAM, partition.topic, index, up.start, end),
                AuditReadRange(number, DOWNSTREAM, remote, index, down.start, down.stable_end),
            ]
        return parts


def _find_first_offsets(results: Iterable[AlignmentResult]) -> dict[int, int]:
    """Return hash -> offset of the first unmatched downstream record with it."""
    records = [record for result in results for gap in result.gaps for _, record in gap.down]
    return {record.digest: record.offset for record in sorted(records, reverse=True)}


def _keys(differences: Iterable[MirrorDifference], facts: CompactionFacts) -> Iterator[int]:
    for item in differences:
        if item.kind is MirrorDifferenceKind.LOST and item.up is not None and facts.down:
            yield item.up.key
        elif item.kind is MirrorDifferenceKind.ADDED and item.down is not None and facts.up:
            yield item.down.key
