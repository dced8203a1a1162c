"""Silver: one clean row per commit with its change, rates, and the state at the end of each day.

It is native Spark but for history/tables/commit_changes.py; each transform is DataFrame ->
DataFrame and opens and closes with a select. The result of a run depends on the records alone and
on silver/newest, where the last run ended, never on how the records were split into runs: a test
compares many runs with one.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from offsetwatch.history.tables.commit_changes import CLASS, RESET, compute_changes
from offsetwatch.history.tables.schemas import (
    CONFIGS,
    CONNECT_OFFSETS,
    LOG_COLUMN_NAMES,
    OFFSET_SYNCS,
    RATE_S,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_RATES,
    SILVER_SNAPSHOTS,
    SOURCE_COLUMN_NAMES,
)
from offsetwatch.model.offsets import Order

_MICROS = 1_000_000
_RAW_KEY = (
    *LOG_COLUMN_NAMES,
    "connect_cluster",
    "key",
)  # which says the connector and the source partition


def select_unread(records: DataFrame, logs: DataFrame) -> DataFrame:
    """Return the bronze records after those that silver/logs covers."""
    seen = sf.broadcast(logs.select(*LOG_COLUMN_NAMES, "next_offset"))
    return (
        records.join(seen, on=list(LOG_COLUMN_NAMES), how="left")
        .where(sf.col("next_offset").isNull() | (sf.col("koffset") >= sf.col("next_offset")))
        .select(*SILVER_NEWEST.names)
    )


def build_commits(fresh: DataFrame, newest: DataFrame) -> DataFrame:
    """Return silver/commits: fresh records that tasks may look up, against those before them."""
    rows = _select_canonical(fresh).withColumn("fresh", sf.expr("true"))
    held = _select_canonical(newest).withColumn("fresh", sf.expr("false"))
    before = Window.partitionBy(*_RAW_KEY).orderBy("koffset")
    known = (
        rows.unionByName(held)
        .withColumns(
            {
                "before": sf.lag(sf.expr("true")).over(before),
                "before_offset": sf.lag("source_offset").over(before),
                "before_pos": sf.lag("pos").over(before),
                "pause_s": _seconds("kts") - _seconds(sf.lag("kts").over(before)),
            }
        )
        .where("fresh")
        .withColumn("step", sf.try_subtract(sf.col("pos"), sf.col("before_pos")))
        .withColumn("at", sf.least("kts", _compute_day_end("day")))
    )
    kept = [name for name in SILVER_COMMITS.names if name != "change"]
    types = {column.name: column.type for column in SILVER_COMMITS.columns}
    ddl = ", ".join(f"{name} {types[name]}" for name in [*kept, "change"])
    return (
        known.join(
            sf.broadcast(_classes(fresh.unionByName(newest))),
            on=["connect_cluster", "connector"],
            how="left",
        )
        .select(*kept, "before", "before_offset", "before_pos", CLASS)
        .mapInArrow(compute_changes, ddl)
        .select(*SILVER_COMMITS.names)
    )


def merge_newest(held: DataFrame, fresh: DataFrame) -> DataFrame:
    """Return silver/newest after these records. A sync that cannot be decoded replaces no other."""
    last = Window.partitionBy(*LOG_COLUMN_NAMES, "key").orderBy(sf.col("koffset").desc())
    says_nothing = (sf.col("kind") == OFFSET_SYNCS) & sf.col("sync_upstream").isNull()
    return (
        held.unionByName(fresh.where(~says_nothing))
        .withColumn("place", sf.row_number().over(last))
        .where("place = 1")
        .select(*SILVER_NEWEST.names)
    )


def merge_logs(held: DataFrame, fresh: DataFrame) -> DataFrame:
    """Return silver/logs after these records."""
    added = fresh.groupBy("kind", "connect_cluster", *LOG_COLUMN_NAMES).agg(
        sf.min("koffset").alias("first_offset"),
        (sf.max("koffset") + 1).alias("next_offset"),
        sf.count("*").alias("records"),
        sf.count("error").alias("undecodable"),
        sf.min("kts").alias("first_at"),
        sf.max("kts").alias("last_at"),
        sf.min("ingest_ts").alias("first_read_at"),
        sf.max("ingest_ts").alias("last_read_at"),
    )
    return (
        held.drop("holes")
        .unionByName(added)
        .groupBy("kind", "connect_cluster", *LOG_COLUMN_NAMES)
        .agg(
            *(_fold_column(sf.min, name) for name in ("first_offset", "first_at", "first_read_at")),
            *(_fold_column(sf.max, name) for name in ("next_offset", "last_at", "last_read_at")),
            *(_fold_column(sf.sum, name) for name in ("records", "undecodable")),
        )
        .withColumn("holes", sf.expr("next_offset - first_offset - records"))
        .select(*SILVER_LOGS.names)
    )


def compute_rates(commits_of_days: DataFrame) -> DataFrame:
    """Return silver/rates of whole days, from all the commits of them."""
    begins = sf.timestamp_seconds(sf.floor(_seconds("at") / RATE_S) * RATE_S)
    changed = ~sf.col("change").isin(Order.SAME.value, RESET)
    return (
        commits_of_days.withColumn("begins", begins)
        .groupBy(*SOURCE_COLUMN_NAMES, "begins", "day")
        .agg(
            sf.count("*").alias("commits"),
            sf.count_if(changed).alias("advances"),
            sf.count_if(sf.col("change") == Order.BEHIND.value).alias("rewinds"),
            sf.count_if(sf.col("change") == RESET).alias("resets"),
            sf.count("error").alias("undecodable"),
            sf.try_sum(
                sf.when(sf.col("step") > 0, sf.col("step")).when(sf.col("step") <= 0, 0)
            ).alias("advanced"),
            sf.max("pause_s").alias("pause_s_max"),
        )
        .withColumn("per_second", sf.col("advanced").cast("double") / RATE_S)
        .select(*SILVER_RATES.names)
    )


def build_snapshots(base: DataFrame, later: DataFrame, days: DataFrame) -> DataFrame:
    """Return silver/snapshots for `days` (one column, day).

    They follow from the newest snapshot before all of these days and the commits since. At the end
    of a day, the record with the highest offset counts among those of that day or before. A record
    stamped earlier than one before it counts from its own day on, unless an earlier day has a
    higher offset.
    """
    subject = Window.partitionBy(*_RAW_KEY)
    by_day = subject.orderBy("day")
    rows = later.select(*SILVER_SNAPSHOTS.names).unionByName(base.select(*SILVER_SNAPSHOTS.names))
    last_of_day = Window.partitionBy(*_RAW_KEY, "day").orderBy(sf.col("koffset").desc())
    before = by_day.rowsBetween(Window.unboundedPreceding, -1)
    counting = (
        rows.withColumn("place", sf.row_number().over(last_of_day))
        .where("place = 1")
        .withColumn("outdone", sf.max("koffset").over(before) > sf.col("koffset"))
        .where("outdone IS NULL OR NOT outdone")
        .withColumn("until", sf.lead("day").over(by_day))
        .withColumnRenamed("day", "since")
    )
    counts = (sf.col("day") >= sf.col("since")) & (
        sf.col("until").isNull() | (sf.col("day") < sf.col("until"))
    )
    return counting.join(sf.broadcast(days), on=counts).select(*SILVER_SNAPSHOTS.names)


def _classes(records: DataFrame) -> DataFrame:
    """Return the class of each connector by its config topic.

    It is null for a connector that has had several: the meaning of an offset is then unknown.
    """
    configured = sf.get_json_object("observation", "$.settings.class_name").alias("class")
    return (
        records.where(sf.col("kind") == CONFIGS)
        .select(
            "connect_cluster",
            sf.get_json_object("observation", "$.connector").alias("connector"),
            configured,
        )
        .where("connector IS NOT NULL AND class IS NOT NULL")
        .groupBy("connect_cluster", "connector")
        .agg(sf.when(sf.count_distinct("class") == 1, sf.min("class")).alias(CLASS))
    )


def _select_canonical(records: DataFrame) -> DataFrame:
    return records.where(
        (sf.col("kind") == CONNECT_OFFSETS) & sf.col("connector").isNotNull() & sf.col("canonical")
    )


def _fold_column(fold: Callable[[str], Column], name: str) -> Column:
    return fold(name).alias(name)


def _seconds(moment: str | Column) -> Column:
    return sf.unix_micros(moment).cast("double") / _MICROS


def _compute_day_end(day: str) -> Column:
    midnight = sf.date_add(day, 1).cast("timestamp")
    return sf.timestamp_micros(sf.unix_micros(midnight) - 1)
