"""Job that learns the baseline of every connector from silver on Spark, and publishes them.

The arithmetic is in baselines/model.py, the document in model/history_documents.py. The lag of a
flow is computed at each sample of its log ends, by the rules of gold: the position is the newest
commit of that time. A partition that had no commit yet, or subject offset a tombstone had deleted,
has no position and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.errors import HistoryError
from offsetwatch.history.baselines import model
from offsetwatch.history.pipeline.commits import read_frame
from offsetwatch.history.queries.timeline import find_last_read_time
from offsetwatch.history.spark.session import spark_session, translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.commit_changes import RESET
from offsetwatch.history.tables.pipeline_status import publish, read_baselines
from offsetwatch.history.tables.schemas import (
    BRONZE_LOG_ENDS,
    BRONZE_SOURCE_ENDS,
    CONNECT_OFFSETS,
    GOLD_FLOWS,
    LOG_COLUMN_NAMES,
    SILVER_COMMITS,
    SILVER_LOGS,
    SOURCE_COLUMN_NAMES,
    Table,
)
from offsetwatch.model.history_documents import Baseline, Baselines, InsufficientBaseline
from offsetwatch.model.offsets import Order

T = TypeVar("T", Baseline, InsufficientBaseline)

LEARN_INTERVAL_S: Final = 86_400.0

_CONNECTOR_COLUMNS: Final = SOURCE_COLUMN_NAMES[:2]
_DDL: Final = "baseline BINARY, too_little BINARY"
_SCHEMA: Final = pa.schema([("baseline", pa.binary()), ("too_little", pa.binary())])
_LAG_DDL: Final = "connect_cluster STRING, connector STRING, lag BINARY"
_LAG_SCHEMA: Final = pa.schema(
    [*((name, pa.string()) for name in _CONNECTOR_COLUMNS), ("lag", pa.binary())]
)

# One sample in so many seconds is enough to learn from: what lies between is much the same.
SAMPLE_INTERVAL_S: Final = 300
_PARTITION_COLUMNS: Final = (*_CONNECTOR_COLUMNS, "topic", "partition")


def learn(base: Path, *, master: str, heap: str, clock: UnixClock | None = None) -> Baselines:
    """Learn the baselines again, and replace the published document.

    A pipeline may run meanwhile: the job reads one version of each table, and writes none. Raises
    HistoryError; the document published before then remains.
    """
    now = (clock or SystemClock()).now()
    _require_last_read_time(base)  # refused before the JVM starts
    with spark_session(master=master, heap=heap, short=True) as spark:
        return learn_on(spark, base, now)


def learn_on(spark: SparkSession, base: Path, now: float) -> Baselines:
    """Learn the baselines in an existing Spark session, as learn() does."""
    until = min(now, _require_last_read_time(base))
    with translate_spark_errors("learning what is usual failed"):
        commits, logs = (read_frame(spark, base, table) for table in (SILVER_COMMITS, SILVER_LOGS))
        rows = compute_baselines(commits, logs, until).collect()
        lag = compute_lag_baselines(spark, base, until)
        source_lag = compute_source_lag_baselines(spark, base, until)
    baselines = Baselines(
        made_at=now,
        until=until,
        connectors=tuple(
            msgspec.structs.replace(
                connector,
                lag=lag.get((connector.connect_cluster, connector.connector)),
                source_lag_s=source_lag.get((connector.connect_cluster, connector.connector)),
            )
            for connector in _decode_documents((row.baseline for row in rows), Baseline)
        ),
        insufficient=_decode_documents((row.too_little for row in rows), InsufficientBaseline),
    )
    publish(base, baselines)
    return baselines


def is_due(base: Path, now: float) -> bool:
    """Check whether history is long enough, and the document missing, damaged or too old.

    Too old is LEARN_INTERVAL_S and more, or a time in the future.
    """
    logs = reader.read_rows(base, SILVER_LOGS)
    begun = [row["first_read_at"] for row in logs if row["kind"] == CONNECT_OFFSETS]
    if not begun or now - min(begun) < model.WEEKS_MIN * model.WEEK_S:
        return False
    try:
        baselines = read_baselines(base)
    except HistoryError:
        return True
    return baselines is None or not 0 <= now - baselines.made_at < LEARN_INTERVAL_S


def compute_baselines(commits: DataFrame, logs: DataFrame, until: float) -> DataFrame:
    """Return from silver/commits a Baseline of each connector, or an InsufficientBaseline.

    Commits within one second count once: a flush, of however many partitions. Commits before the
    log was first read (silver/logs) are left out: compaction had left only the newest of each key,
    so the pauses between them are not the connector's.
    """
    second = sf.floor(sf.unix_micros("at") / 1_000_000)
    since = until - (model.WEEKS_MAX + 1) * model.WEEK_S
    still = [Order.SAME.value, RESET]
    moved = sf.col("change").isNotNull() & ~sf.col("change").isin(still)
    read_since = sf.broadcast(logs.select(*LOG_COLUMN_NAMES, "first_read_at"))
    return (
        commits.join(read_since, on=list(LOG_COLUMN_NAMES))
        .where(sf.col("at") >= sf.col("first_read_at"))
        .select(*_CONNECTOR_COLUMNS, second.alias("second"), moved.alias("moved"))
        .where((sf.col("second") >= since) & (sf.col("second") < until))
        .groupBy(*_CONNECTOR_COLUMNS, "second")
        .agg(sf.max("moved").alias("moved"))
        .groupBy(*_CONNECTOR_COLUMNS)
        .applyInArrow(_build_connector_task(until), _DDL)
    )


def _build_connector_task(until: float) -> Callable[[pa.Table], pa.Table]:
    """Build the function that executors apply to the commits of one connector."""

    def of_one(rows: pa.Table) -> pa.Table:
        cluster, connector = (rows[name][0].as_py() for name in _CONNECTOR_COLUMNS)
        seconds = rows["second"].to_numpy().astype(np.float64)
        order, moved = np.argsort(seconds), rows["moved"].to_numpy()
        fitted = model.fit_baseline(cluster, connector, seconds[order][moved[order]], until)
        if not isinstance(fitted, Baseline):
            return pa.table([[None], [msgspec.json.encode(fitted)]], schema=_SCHEMA)
        commits = seconds[order][seconds[order] >= fitted.since]
        intervals = model.compute_commit_intervals(commits)
        baseline = msgspec.structs.replace(fitted, commit_s=intervals)
        return pa.table([[msgspec.json.encode(baseline)], [None]], schema=_SCHEMA)

    return of_one


def compute_lag_baselines(
    spark: SparkSession, base: Path, until: float
) -> dict[tuple[str, str], tuple[model.Lags, ...]]:
    """Return the lag baseline of each flow whose log ends were sampled for long enough."""
    if not reader.has_tables(base, (BRONZE_LOG_ENDS,)):
        return {}  # of an older version, and no run since
    commits, log_ends = (
        _read_weeks(spark, base, table, until) for table in (SILVER_COMMITS, BRONZE_LOG_ENDS)
    )
    flows = read_frame(spark, base, GOLD_FLOWS)
    return _fit_lags(compute_lags(flows, commits, log_ends), until)


def compute_source_lag_baselines(
    spark: SparkSession, base: Path, until: float
) -> dict[tuple[str, str], tuple[model.Lags, ...]]:
    """Return the baseline of the seconds behind its source of each connector for which they were
    sampled for long enough.
    """
    if not reader.has_tables(base, (BRONZE_SOURCE_ENDS,)):
        return {}  # of an older version, and no run since
    samples = _read_weeks(spark, base, BRONZE_SOURCE_ENDS, until)
    return _fit_lags(compute_source_lags(samples), until)


def _read_weeks(spark: SparkSession, base: Path, table: Table, until: float) -> DataFrame:
    """Return the rows of a table of the weeks to learn from.

    A week more: what is before it is known at the first sample.
    """
    since = sf.timestamp_seconds(sf.lit(until - (model.WEEKS_MAX + 1) * model.WEEK_S))
    return read_frame(spark, base, table).where(sf.col("at") >= since)


def _fit_lags(lags: DataFrame, until: float) -> dict[tuple[str, str], tuple[model.Lags, ...]]:
    rows = (
        lags.groupBy(*_CONNECTOR_COLUMNS).applyInArrow(_build_lag_task(until), _LAG_DDL).collect()
    )
    decode = msgspec.json.Decoder(tuple[model.Lags, ...]).decode
    return {(row.connect_cluster, row.connector): decode(bytes(row.lag)) for row in rows}


def _build_lag_task(until: float) -> Callable[[pa.Table], pa.Table]:
    """Build the function that executors apply to the lag samples of one connector."""

    def of_one(rows: pa.Table) -> pa.Table:
        subject = {name: rows[name][0].as_py() for name in _CONNECTOR_COLUMNS}
        at, lag = (rows[name].to_numpy().astype(np.float64) for name in ("at", "lag"))
        baseline = model.compute_lag_baseline(at, lag, until)
        lag_rows = [] if baseline is None else [{**subject, "lag": msgspec.json.encode(baseline)}]
        return pa.Table.from_pylist(lag_rows, schema=_LAG_SCHEMA)

    return of_one


def _require_last_read_time(base: Path) -> float:
    last_read = find_last_read_time(base)
    if last_read is None:
        raise HistoryError(
            f"{base} holds no commit yet: there is nothing to learn from before "
            "`offsetwatch history run --available-now`"
        )
    return last_read


def _decode_documents(rows: Iterable[bytes | None], kind: type[T]) -> tuple[T, ...]:
    """Return the decoded documents, in order of Connect cluster and connector."""
    documents = (msgspec.json.decode(bytes(row), type=kind) for row in rows if row is not None)
    return tuple(sorted(documents, key=attrgetter("connect_cluster", "connector")))


def compute_lags(flows: DataFrame, commits: DataFrame, log_ends: DataFrame) -> DataFrame:
    """Return (connect_cluster, connector, at, lag): the lag of all partitions of a flow together.

    `at` is in Unix seconds, `lag` in records.

    flows, commits, log_ends    gold/flows, silver/commits and bronze/log_ends, all of the time in
                                question
    """
    known = sf.broadcast(flows.where(sf.col("upstream").isNotNull()))
    samples = _select_samples(log_ends, known)
    positions = _extract_positions(commits, known)
    so_far = (
        Window.partitionBy(*_PARTITION_COLUMNS)
        .orderBy("moment", "sampled")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    newest = {"commit": sf.last("commit", ignorenulls=True).over(so_far)}
    at_each_sample = (
        positions.unionByName(samples, allowMissingColumns=True)
        .withColumns(newest)
        .where("sampled")
        .withColumn("last", sf.col("commit.pos"))
        .where("last IS NOT NULL")
    )
    behind = sf.greatest(sf.lit(0), sf.col("log_end") - sf.col("last") - 1)
    return (
        at_each_sample.groupBy(*_CONNECTOR_COLUMNS, "moment")
        .agg(sf.sum(behind).alias("lag"))
        .select(*_CONNECTOR_COLUMNS, (sf.unix_micros("moment") / 1_000_000).alias("at"), "lag")
    )


def compute_source_lags(samples: DataFrame) -> DataFrame:
    """Return (connect_cluster, connector, at, lag) of the first sample in each SAMPLE_INTERVAL_S.

    `at` is in Unix seconds. `lag` is the greatest number of seconds for which changes waited in the
    source, of all source partitions whose lag is known.

    samples    bronze/source_ends, all of the time in question
    """
    waited = (sf.unix_micros("at") - sf.unix_micros("behind_since")) / 1_000_000
    known = sf.col("behind_since").isNotNull()
    lag = sf.when(sf.col("caught_up"), sf.lit(0.0)).when(known, sf.greatest(sf.lit(0.0), waited))
    slot = sf.floor(sf.unix_seconds("at") / SAMPLE_INTERVAL_S)
    first = Window.partitionBy(*_CONNECTOR_COLUMNS, slot)
    return (
        samples.withColumn("first", sf.min("at").over(first))
        .where(sf.col("at") == sf.col("first"))
        .groupBy(*_CONNECTOR_COLUMNS, (sf.unix_micros("at") / 1_000_000).alias("at"))
        .agg(sf.max(lag).alias("lag"))
        .where("lag IS NOT NULL")
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
        *_PARTITION_COLUMNS, sf.col("at").alias("moment"), sf.lit(True).alias("sampled"), "log_end"
    )


def _extract_positions(commits: DataFrame, flows: DataFrame) -> DataFrame:
    """Return positions from MM2's own commits; a tombstone ends one."""
    partition = sf.col("source_partition")
    fields = {
        "source": sf.get_json_object(partition, "$.cluster"),
        "topic": sf.get_json_object(partition, "$.topic"),
        "partition": sf.get_json_object(partition, "$.partition").cast("int"),
    }
    return (
        commits.where("dialect = 'mirror_source'")
        .withColumns(fields)
        .join(flows.select(*_CONNECTOR_COLUMNS, "source"), on=[*_CONNECTOR_COLUMNS, "source"])
        .select(
            *_PARTITION_COLUMNS,
            sf.col("at").alias("moment"),
            sf.lit(False).alias("sampled"),
            sf.struct("pos", "at").alias("commit"),
        )
    )
