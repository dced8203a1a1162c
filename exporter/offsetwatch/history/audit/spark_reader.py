"""Both sides of a mirror read by Spark, as little of them as a question needs.

Records are hashed where they are read, in the JVM; only hashes leave it. A partition of a topic is
one task and is read in its order. Called by audit.py.

A record's hash is of its key, its value and its headers, in their order; that a key or a value is
there at all counts too, so that none differs from an empty one. Its time and the way it is
compressed do not count. 64 bits: two different records are taken for one once in 2^64.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from offsetwatch.history.audit.chunking import SCHEMA, Block, blocks
from offsetwatch.history.audit.differences import Record
from offsetwatch.history.spark.session import translated

UP: Final = 0
DOWN: Final = 1
RECORD: Final = ("offset", "hash", "body_hash", "key_hash", "tombstone")


class Part(NamedTuple):
    """Offsets [first, end) of one partition of a topic; `number` is what it is called by."""

    number: int
    side: int
    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Clusters:
    """How both sides are reached: options of Spark's Kafka source, by side; and whether headers
    count.
    """

    options: tuple[Mapping[str, str], Mapping[str, str]] = field(repr=False)  # may hold passwords
    headers: bool = True


class Found(NamedTuple):
    """A record that was looked for by its hash, in the part of this number."""

    number: int
    side: int
    record: Record


def block_lists(
    spark: SparkSession, clusters: Clusters, parts: Sequence[Part]
) -> dict[tuple[int, int], list[Block]]:
    """(number, side) -> the blocks of that part, in order. Raises HistoryError."""
    found: dict[tuple[int, int], list[Block]] = defaultdict(list)
    if not _anything(parts):
        return {}
    rows = _hashed(spark, clusters, parts).select("slice", "side", "offset", "hash")
    with translated("comparing both sides failed"):
        made = rows.mapInArrow(blocks, SCHEMA).collect()
    for at in made:
        found[at["slice"], at["side"]].append(
            Block(at["first"], at["last"], at["records"], at["digest"])
        )
    for listed in found.values():
        listed.sort()
    return dict(found)


def records(
    spark: SparkSession, clusters: Clusters, parts: Sequence[Part]
) -> dict[tuple[int, int], list[Record]]:
    """(number, side) -> the records of those parts, in order. Raises HistoryError."""
    if not _anything(parts):
        return {}
    rows = _hashed(spark, clusters, parts).select("slice", "side", *RECORD)
    with translated("reading what differs failed"):
        table = rows.toArrow()
    found: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for number, side, *record in _tuples(table):
        found[number, side].append(Record(*record))
    for listed in found.values():
        listed.sort()
    return dict(found)


def found_by_hash(
    spark: SparkSession, clusters: Clusters, parts: Sequence[Part], hashes: Iterable[int]
) -> tuple[Found, ...]:
    """The first record with each of these hashes, of every part. Raises HistoryError."""
    if not _anything(parts):
        return ()
    wanted = _numbers(spark, hashes)
    rows = _hashed(spark, clusters, parts).join(sf.broadcast(wanted), sf.col("hash") == wanted.of)
    firsts = rows.groupBy("slice", "side", "hash").agg(
        sf.min_by(sf.struct(*RECORD), "offset").alias("first")
    )
    with translated("looking for records elsewhere failed"):
        made = firsts.collect()
    return tuple(Found(at["slice"], at["side"], Record(*at["first"])) for at in made)


def newest_of_keys(
    spark: SparkSession, clusters: Clusters, parts: Sequence[Part], keys: Iterable[int]
) -> dict[tuple[int, int], int]:
    """(number, hash of a key) -> offset of its newest record. Raises HistoryError."""
    if not _anything(parts):
        return {}
    wanted = _numbers(spark, keys)
    rows = _hashed(spark, clusters, parts)
    found = (
        rows.join(sf.broadcast(wanted), sf.col("key_hash") == wanted.of)
        .groupBy("slice", "key_hash")
        .agg(sf.max("offset").alias("newest"))
    )
    with translated("looking for newer records failed"):
        made = found.collect()
    return {(at["slice"], at["key_hash"]): at["newest"] for at in made}


def _anything(parts: Sequence[Part]) -> bool:
    return any(at.end > at.first for at in parts)


def _hashed(spark: SparkSession, clusters: Clusters, parts: Sequence[Part]) -> DataFrame:
    """slice, side and RECORD of every record of these parts."""
    frames = [_read(spark, clusters, layer) for layer in _layers(parts)]
    return reduce(DataFrame.unionAll, frames)


def _layers(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Spark's source reads one range of a partition at once: so many reads as one has ranges."""
    waiting: dict[int, dict[tuple[str, int], list[Part]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        if part.end > part.first:
            waiting[part.side][part.topic, part.partition].append(part)
    for by_partition in waiting.values():
        while any(by_partition.values()):
            yield [ranges.pop(0) for ranges in by_partition.values() if ranges]


def _read(spark: SparkSession, clusters: Clusters, layer: Sequence[Part]) -> DataFrame:
    """Of one side, one range of each partition."""
    firsts: dict[str, dict[int, int]] = defaultdict(dict)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for at in layer:
        firsts[at.topic][at.partition], ends[at.topic][at.partition] = at.first, at.end
    assigned = {topic: list(partitions) for topic, partitions in firsts.items()}
    side = layer[0].side
    with translated(f"{', '.join(assigned)} cannot be read"):
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
        _named(layer).cast("int").alias("slice"),
        sf.lit(side).cast("int").alias("side"),
        "offset",
        sf.xxhash64(*body, *headers).alias("hash"),
        sf.xxhash64(*body).alias("body_hash"),
        sf.xxhash64(*body[:2]).alias("key_hash"),
        sf.isnull("value").alias("tombstone"),
    )


def _named(layer: Sequence[Part]) -> Column:
    """The number of the part that a record is of. Computed for every record: of one topic it costs
    no comparison of names.
    """
    by_topic: dict[str, dict[int, int]] = defaultdict(dict)
    for at in layer:
        by_topic[at.topic][at.partition] = at.number
    named: Column | None = None
    for topic, numbers in by_topic.items():
        # One for each partition from 0 on; of those that are not read none is looked up.
        listed = [numbers.get(number, -1) for number in range(max(numbers) + 1)]
        number = sf.element_at(sf.array(*map(sf.lit, listed)), sf.col("partition") + 1)
        is_it = sf.col("topic") == topic
        named = number if named is None else sf.when(is_it, number).otherwise(named)
    assert named is not None
    return named


def _numbers(spark: SparkSession, values: Iterable[int]) -> Any:
    return spark.createDataFrame([(value,) for value in sorted(set(values))], "of BIGINT")


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
