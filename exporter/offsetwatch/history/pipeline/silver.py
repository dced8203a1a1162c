"""Silver: one clean row per commit with its change, rates, and the state at the end of each day.

It is native Spark but for history/tables/commit_changes.py; each transform is DataFrame ->
DataFrame and opens and closes with a select. The result of a run depends on the records alone and
on silver/newest, where the last run ended, never on how the records were split into runs: a test
compares many runs with one.

A run takes the files that bronze has got since the last one. It first records its plan
(`silver/run.json`). Every table that a run adds to applies a run once, by its number (Delta's txn),
and silver/logs applies it last. So a run that was killed is repeated with the same files, and the
parts that are done are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits
from offsetwatch.history.pipeline.lookup_keys import build_lookup_condition
from offsetwatch.history.spark.session import translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.commit_changes import (
    CLASS,
    PREVIOUS_COLUMNS,
    RESET,
    compute_changes,
)
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
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
    Table,
)
from offsetwatch.model.offsets import Order

_MICROS = 1_000_000
# The key says the connector and the source partition.
_RAW_KEY = (*LOG_COLUMN_NAMES, "connect_cluster", "key")

APP = "offsetwatch-silver"
RUN_FILE = "silver/run.json"
SNAPSHOTS_MAX = 32  # made in one run; the older ones of a long past follow with the next runs
_GLOB = re.compile(r"([\[\]{}*?\\])")


def select_unread(records: DataFrame, logs: DataFrame) -> DataFrame:
    """Return the bronze records after those that silver/logs covers."""
    covered = sf.broadcast(logs.select(*LOG_COLUMN_NAMES, "next_offset"))
    return (
        records.join(covered, on=list(LOG_COLUMN_NAMES), how="left")
        .where(sf.col("next_offset").isNull() | (sf.col("koffset") >= sf.col("next_offset")))
        .select(*SILVER_NEWEST.names)
    )


def build_commits(fresh: DataFrame, newest: DataFrame, found: DataFrame) -> DataFrame:
    """Return silver/commits: fresh records that tasks may look up, against those before them.

    `found` has connect_cluster, connector, class_name of connectors as runs found them.
    """
    both = fresh.withColumn("fresh", sf.expr("true")).unionByName(
        newest.withColumn("fresh", sf.expr("false"))
    )
    rows = _select_lookup_keys(both, _merge_classes(_classes(both), found))
    before = Window.partitionBy(*_RAW_KEY).orderBy("koffset")
    midnight = sf.date_add("day", 1).cast("timestamp")
    end_of_day = sf.timestamp_micros(sf.unix_micros(midnight) - 1)
    known = (
        rows.withColumns(
            {
                "before": sf.lag(sf.expr("true")).over(before),
                "before_offset": sf.lag("source_offset").over(before),
                "before_pos": sf.lag("pos").over(before),
                "pause_s": _seconds("kts") - _seconds(sf.lag("kts").over(before)),
            }
        )
        .where("fresh")
        .withColumn("step", sf.try_subtract(sf.col("pos"), sf.col("before_pos")))
        .withColumn("at", sf.least("kts", end_of_day))
    )
    types = {column.name: column.type for column in SILVER_COMMITS.columns}
    del types["change"]
    ddl = ", ".join(f"{name} {kind}" for name, kind in types.items())
    return (
        known.select(*types, *PREVIOUS_COLUMNS, CLASS)
        .mapInArrow(compute_changes, f"{ddl}, change STRING")
        .select(*SILVER_COMMITS.names)
    )


def merge_newest(known: DataFrame, fresh: DataFrame) -> DataFrame:
    """Return silver/newest after these records. A sync that cannot be decoded replaces no other."""
    last = Window.partitionBy(*LOG_COLUMN_NAMES, "key").orderBy(sf.col("koffset").desc())
    says_nothing = (sf.col("kind") == OFFSET_SYNCS) & sf.col("sync_upstream").isNull()
    return (
        known.unionByName(fresh.where(~says_nothing))
        .withColumn("place", sf.row_number().over(last))
        .where("place = 1")
        .select(*SILVER_NEWEST.names)
    )


def merge_logs(known: DataFrame, fresh: DataFrame) -> DataFrame:
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
        known.drop("holes")
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


def _merge_classes(configured: DataFrame, found: DataFrame) -> DataFrame:
    """Return CLASS, the class of each connector by its config topic, and `found`, as runs found it.

    Where no run has found it, it is the one of the config topic.
    """
    by_runs = found.withColumnRenamed("class_name", "by_runs")
    return configured.join(by_runs, ["connect_cluster", "connector"], "full_outer").select(
        "connect_cluster", "connector", CLASS, sf.coalesce("by_runs", CLASS).alias("found")
    )


def _select_lookup_keys(records: DataFrame, classes: DataFrame) -> DataFrame:
    """Return the records under raw keys that tasks may look up, with CLASS."""
    return (
        records.where((sf.col("kind") == CONNECT_OFFSETS) & sf.col("connector").isNotNull())
        .join(sf.broadcast(classes), ["connect_cluster", "connector"], "left")
        .where(build_lookup_condition(sf.col("found")))
        .select(*records.columns, CLASS)
    )


def _fold_column(fold: Callable[[str], Column], name: str) -> Column:
    return fold(name).alias(name)


def _seconds(moment: str | Column) -> Column:
    return sf.unix_micros(moment).cast("double") / _MICROS


@dataclass(frozen=True, slots=True)
class _Run:
    """A run: the files of bronze at version `until` that it did not have at version `since`.

    table   bronze's own id, by which another table in its place is recognised
    """

    run: int
    table: str
    since: int | None
    until: int


def refine(spark: SparkSession, base: Path, today: date) -> None:
    """Bring silver up to date. Days before `today` (UTC) are over. Raises HistoryError."""
    unfinished, following = _plan_runs(base)
    with translate_spark_errors("computing silver failed"):
        if unfinished is not None:
            _carry_out(spark, base, unfinished, today)
        if following is not None:
            _write_run_file(base, following)
            _carry_out(spark, base, following, today)
        else:
            _close_days(spark, base, today)


def is_finished(base: Path) -> bool:
    """Check whether no killed run is left to finish."""
    return _plan_runs(base)[0] is None


def finish(spark: SparkSession, base: Path, today: date) -> None:
    """Finish a killed run, if there is one: the files that it reads must not be deleted before."""
    unfinished, _ = _plan_runs(base)
    if unfinished is not None:
        with translate_spark_errors("computing silver failed"):
            _carry_out(spark, base, unfinished, today)


def _plan_runs(base: Path) -> tuple[_Run | None, _Run | None]:
    """Return the run to finish, and the run to begin; None where there is none."""
    bronze = reader.open_table(base, BRONZE_RECORDS)
    table, version = str(bronze.metadata().id), bronze.version()
    done = commits.read_last_committed(base, SILVER_LOGS, APP) or 0
    last = _read_run_file(base)
    if last is None:
        if (commits.read_last_committed(base, SILVER_COMMITS, APP) or 0) != done:
            raise HistoryError(_describe_rebuild("how far it has come was lost (silver/run.json)"))
        return None, _Run(run=done + 1, table=table, since=None, until=version)
    if last.table != table or last.until > version:
        raise HistoryError(
            _describe_rebuild(f"{BRONZE_RECORDS.path} is not the table it was made from")
        )
    unfinished = last if last.run > done else None
    if last.until == version:
        return unfinished, None
    return unfinished, _Run(run=last.run + 1, table=table, since=last.until, until=version)


def _describe_rebuild(why: str) -> str:
    return f"silver cannot go on: {why}; move the folder silver/ away and it is made again"


def _read_run_file(base: Path) -> _Run | None:
    try:
        return _Run(**json.loads((base / RUN_FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as exc:
        raise HistoryError(_describe_rebuild(f"silver/run.json cannot be read: {exc}")) from exc


def _write_run_file(base: Path, run: _Run) -> None:
    partial = (base / RUN_FILE).with_suffix(".partial")
    try:
        partial.write_text(json.dumps(asdict(run)), encoding="utf-8")
        partial.replace(base / RUN_FILE)
    except OSError as exc:
        raise HistoryError(f"{partial} cannot be written: {exc}") from exc


def _carry_out(spark: SparkSession, base: Path, run: _Run, today: date) -> None:
    """Execute the steps of a run that are not done.

    The order matters: silver/newest is the start of this run until its commits are stored, and
    silver/logs marks the whole run as done.
    """
    write = commits.IdempotentWrite(APP, run.run)

    def replace(rows: DataFrame, table: Table) -> None:
        if not write.done(base, table):
            files = commits.write_frame(rows.coalesce(1), base, table)
            commits.replace(files, base, table, write)

    known = commits.read_frame(spark, base, SILVER_LOGS)
    # Not kept in memory: each use reads other columns, and they are quicker read again.
    fresh = select_unread(_read_new_records(spark, base, run), known)
    newest = commits.read_frame(spark, base, SILVER_NEWEST)
    if not write.done(base, SILVER_COMMITS):
        rows = build_commits(fresh, newest, _read_classes(spark, base)).repartition("day")
        rows = rows.sortWithinPartitions("day", *SILVER_COMMITS.ordered_by)
        files = commits.write_frame(rows, base, SILVER_COMMITS)
        commits.append(files, base, SILVER_COMMITS, write)
    replace(merge_newest(newest, fresh), SILVER_NEWEST)
    # The oldest day that these records add a commit to.
    (row,) = (
        fresh.where(sf.col("kind") == CONNECT_OFFSETS).agg(sf.min("day").alias("day")).collect()
    )
    _close_days(spark, base, today, again_from=row["day"])
    replace(merge_logs(known, fresh), SILVER_LOGS)


def _read_classes(spark: SparkSession, base: Path) -> DataFrame:
    rows = [row[:3] for row in reader.read_classes(base)]
    return spark.createDataFrame(rows, f"connect_cluster STRING, connector STRING, {CLASS} STRING")


def _read_new_records(spark: SparkSession, base: Path, run: _Run) -> DataFrame:
    """Return the records in the files of a run.

    They include files with old records in a new order, which maintenance writes; select_unread
    leaves those out.
    """
    schema = BRONZE_RECORDS.ddl().replace(" NOT NULL", "")
    files = _list_bronze_files(base, run.until)
    if files is None:
        raise HistoryError(_describe_rebuild(f"bronze's version {run.until} is not known any more"))
    if run.since is not None:
        files -= _list_bronze_files(base, run.since) or set()
    if not files:
        return spark.createDataFrame([], schema)
    paths = [_GLOB.sub(r"\\\1", file) for file in sorted(files)]
    root = _GLOB.sub(r"\\\1", str(BRONZE_RECORDS.at(base)))
    records = spark.read.schema(schema).option("basePath", root).parquet(*paths)
    return records.select(*BRONZE_RECORDS.names)


def _close_days(
    spark: SparkSession, base: Path, today: date, *, again_from: date | None = None
) -> None:
    """Write rates and a snapshot of each day that is over.

    Days from `again_from` on have got more commits, and are written again.
    """
    closed = reader.list_days(base, SILVER_SNAPSHOTS)
    over = [day for day in reader.list_days(base, SILVER_COMMITS) if day < today]
    missing = [day for day in over if day not in closed][-SNAPSHOTS_MAX:]
    again = [day for day in closed if again_from is not None and day >= again_from]
    days = sorted({*missing, *again})
    if not days:
        return
    before = max((day for day in closed if day < days[0]), default=None)
    snapshots = commits.read_frame(spark, base, SILVER_SNAPSHOTS).where(
        sf.expr("false") if before is None else sf.col("day") == before
    )
    everything = commits.read_frame(spark, base, SILVER_COMMITS)
    later = everything.where(sf.col("day") <= days[-1])
    if before is not None:
        later = later.where(sf.col("day") > before)
    frame = spark.createDataFrame([(day,) for day in days], "day DATE")
    rates = compute_rates(everything.where(sf.col("day").isin(days)))
    _replace_days(rates, base, SILVER_RATES, days)
    # Last: that a day has its snapshot says that it was closed.
    _replace_days(build_snapshots(snapshots, later, frame), base, SILVER_SNAPSHOTS, days)


def _replace_days(rows: DataFrame, base: Path, table: Table, days: Iterable[date]) -> None:
    ordered = rows.repartition("day").sortWithinPartitions("day", *table.ordered_by)
    commits.replace(commits.write_frame(ordered, base, table), base, table, days=days)


def _list_bronze_files(base: Path, version: int) -> set[str] | None:
    """Return the files of bronze at a version; None if that version is no longer available."""
    try:
        return set(DeltaTable(str(BRONZE_RECORDS.at(base)), version=version).file_uris())
    except DeltaError:
        return None
