"""Lag of each flow, in records, at the times when its log ends were sampled.

The rules are those of gold, applied at each sample: the position is the newest commit of that time.
A partition that had no commit yet, or whose offset a tombstone had deleted, has no position and
counts for nothing.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from offsetwatch.history.tables.schemas import SOURCE_COLUMN_NAMES

# One look in so many seconds is enough to learn from: what lies between is much the same.
SAMPLE_INTERVAL_S: Final = 300

_FLOW: Final = SOURCE_COLUMN_NAMES[:2]
_PARTITION_COLUMNS: Final = (*_FLOW, "topic", "partition")


def compute_lags(flows: DataFrame, commits: DataFrame, log_ends: DataFrame) -> DataFrame:
    """Return (connect_cluster, connector, at, lag): the lag of all partitions of a flow together.

    `at` is in Unix seconds, `lag` in records.

    flows, commits, log_ends    gold/flows, silver/commits and bronze/log_ends, all of the time in
                                question
    """
    known = sf.broadcast(flows.where(sf.col("upstream").isNotNull()))
    looks = _select_samples(log_ends, known)
    positions = _extract_positions(commits, known)
    so_far = (
        Window.partitionBy(*_PARTITION_COLUMNS)
        .orderBy("moment", "look")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    newest = {"commit": sf.last("commit", ignorenulls=True).over(so_far)}
    at_each_look = (
        positions.unionByName(looks, allowMissingColumns=True)
        .withColumns(newest)
        .where("look")
        .withColumn("last", sf.col("commit.pos"))
        .where("last IS NOT NULL")
    )
    behind = sf.greatest(sf.lit(0), sf.col("log_end") - sf.col("last") - 1)
    return (
        at_each_look.groupBy(*_FLOW, "moment")
        .agg(sf.sum(behind).alias("lag"))
        .select(*_FLOW, (sf.unix_micros("moment") / 1_000_000).alias("at"), "lag")
    )


def _select_samples(log_ends: DataFrame, flows: DataFrame) -> DataFrame:
    """Return the first sample in each SAMPLE_INTERVAL_S, of the logs that a flow reads."""
    slot = sf.floor(sf.unix_seconds("at") / SAMPLE_INTERVAL_S)
    first = Window.partitionBy("kafka", slot)
    sampled = (
        log_ends.withColumn("first", sf.min("at").over(first))
        .where(sf.col("at") == sf.col("first"))
        .select(sf.col("kafka").alias("upstream"), "topic", "partition", "at", "log_end")
    )
    return sampled.join(flows, on="upstream").select(
        *_PARTITION_COLUMNS, sf.col("at").alias("moment"), sf.lit(True).alias("look"), "log_end"
    )


def _extract_positions(commits: DataFrame, flows: DataFrame) -> DataFrame:
    """Return positions from MM2's own commits; a tombstone ends one."""
    partition = sf.col("source_partition")
    told = {
        "source": sf.get_json_object(partition, "$.cluster"),
        "topic": sf.get_json_object(partition, "$.topic"),
        "partition": sf.get_json_object(partition, "$.partition").cast("int"),
    }
    return (
        commits.where("dialect = 'mirror_source'")
        .withColumns(told)
        .join(flows.select(*_FLOW, "source"), on=[*_FLOW, "source"])
        .select(
            *_PARTITION_COLUMNS,
            sf.col("at").alias("moment"),
            sf.lit(False).alias("look"),
            sf.struct("pos", "at").alias("commit"),
        )
    )
