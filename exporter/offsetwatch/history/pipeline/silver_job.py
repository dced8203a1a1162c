"""Job that brings silver up to date with bronze, each record once, however often a run is killed.

A run takes the files that bronze has got since the last one. It first records its plan
(`silver/run.json`). Every table that a run adds to applies a run once, by its number (Delta's txn),
and silver/logs applies it last. So a run that was killed is repeated with the same files, and the
parts that are done are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import commits as lake
from offsetwatch.history.pipeline import silver
from offsetwatch.history.spark.session import translate_spark_errors
from offsetwatch.history.tables import reader as read
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_RATES,
    SILVER_SNAPSHOTS,
    Table,
)

APP = "offsetwatch-silver"
SNAPSHOTS_MAX = 32  # made in one run; the older ones of a long past follow with the next runs

_GLOB = re.compile(r"([\[\]{}*?\\])")


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
    bronze = read.open_table(base, BRONZE_RECORDS)
    unfinished, following = _plan_runs(base, bronze)
    with translate_spark_errors("computing silver failed"):
        if unfinished is not None:
            _Refinement(spark, base, unfinished).carry_out(today)
        if following is not None:
            _write_run_file(base, following)
            _Refinement(spark, base, following).carry_out(today)
        else:
            _close_days(spark, base, today)


def is_finished(base: Path) -> bool:
    """Check whether no killed run is left to finish."""
    return _find_unfinished_run(base) is None


def finish(spark: SparkSession, base: Path, today: date) -> None:
    """Finish a killed run, if there is one: the files that it reads must not be deleted before."""
    unfinished = _find_unfinished_run(base)
    if unfinished is not None:
        with translate_spark_errors("computing silver failed"):
            _Refinement(spark, base, unfinished).carry_out(today)


def _find_unfinished_run(base: Path) -> _Run | None:
    unfinished, _ = _plan_runs(base, read.open_table(base, BRONZE_RECORDS))
    return unfinished


def _plan_runs(base: Path, bronze: DeltaTable) -> tuple[_Run | None, _Run | None]:
    """Return the run to finish, and the run to begin; None where there is none."""
    table, version = str(bronze.metadata().id), bronze.version()
    done = lake.read_last_committed(base, SILVER_LOGS, APP) or 0
    last = _read_run_file(base)
    if last is None:
        if (lake.read_last_committed(base, SILVER_COMMITS, APP) or 0) != done:
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
        return _Run(**json.loads(_find_run_file(base).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as exc:
        raise HistoryError(_describe_rebuild(f"silver/run.json cannot be read: {exc}")) from exc


def _write_run_file(base: Path, run: _Run) -> None:
    partial = _find_run_file(base).with_suffix(".partial")
    try:
        partial.write_text(json.dumps(asdict(run)), encoding="utf-8")
        partial.replace(_find_run_file(base))
    except OSError as exc:
        raise HistoryError(f"{partial} cannot be written: {exc}") from exc


def _find_run_file(base: Path) -> Path:
    return base / "silver" / "run.json"


class _Refinement:
    """Execution of one run."""

    def __init__(self, spark: SparkSession, base: Path, run: _Run) -> None:
        self._spark = spark
        self._base = base
        self._run = run
        self._turn = lake.IdempotentWrite(APP, run.run)

    def carry_out(self, today: date) -> None:
        """Execute the steps of the run that are not done.

        The order matters: silver/newest is the start of this run until its commits are stored, and
        silver/logs marks the whole run as done.
        """
        held = self._load(SILVER_LOGS)
        # Not kept in memory: each use reads other columns, and they are quicker read again.
        fresh = silver.select_unread(self._won(), held)
        newest = self._load(SILVER_NEWEST)
        self._append(silver.build_commits(fresh, newest))
        self._replace(silver.merge_newest(newest, fresh), SILVER_NEWEST)
        _close_days(self._spark, self._base, today, again_from=_first_day(fresh))
        self._replace(silver.merge_logs(held, fresh), SILVER_LOGS)

    def _load(self, table: Table) -> DataFrame:
        return _load(self._spark, self._base, table)

    def _won(self) -> DataFrame:
        """Return the records in the files of this run.

        They include files with old records in a new order, which maintenance writes;
        silver.select_unread leaves those out.
        """
        schema = BRONZE_RECORDS.ddl().replace(" NOT NULL", "")
        reader = self._spark.read.schema(schema)
        files = _list_bronze_files(self._base, self._run.until)
        if files is None:
            raise HistoryError(
                _describe_rebuild(f"bronze's version {self._run.until} is not known any more")
            )
        if self._run.since is not None:
            files -= _list_bronze_files(self._base, self._run.since) or set()
        if not files:
            return self._spark.createDataFrame([], schema)
        paths = [_GLOB.sub(r"\\\1", file) for file in sorted(files)]
        root = _GLOB.sub(r"\\\1", str(BRONZE_RECORDS.at(self._base)))
        return reader.option("basePath", root).parquet(*paths).select(*BRONZE_RECORDS.names)

    def _append(self, commits: DataFrame) -> None:
        if self._turn.done(self._base, SILVER_COMMITS):
            return
        rows = commits.repartition("day").sortWithinPartitions("day", *SILVER_COMMITS.ordered_by)
        found = lake.write_frame(rows, self._base, SILVER_COMMITS)
        lake.append(found, self._base, SILVER_COMMITS, self._turn)

    def _replace(self, rows: DataFrame, table: Table) -> None:
        if self._turn.done(self._base, table):
            return
        found = lake.write_frame(rows.coalesce(1), self._base, table)
        lake.replace(found, self._base, table, self._turn)


def _close_days(
    spark: SparkSession, base: Path, today: date, *, again_from: date | None = None
) -> None:
    """Write rates and a snapshot of each day that is over.

    Days from `again_from` on have got more commits, and are written again.
    """
    there = read.list_days(base, SILVER_SNAPSHOTS)
    over = [day for day in read.list_days(base, SILVER_COMMITS) if day < today]
    missing = [day for day in over if day not in there][-SNAPSHOTS_MAX:]
    again = [day for day in there if again_from is not None and day >= again_from]
    wanted = sorted({*missing, *again})
    if not wanted:
        return
    before = max((day for day in there if day < wanted[0]), default=None)
    snapshots = _load(spark, base, SILVER_SNAPSHOTS).where(
        sf.expr("false") if before is None else sf.col("day") == before
    )
    commits = _load(spark, base, SILVER_COMMITS)
    since = commits.where(sf.col("day") <= wanted[-1])
    if before is not None:
        since = since.where(sf.col("day") > before)
    days = spark.createDataFrame([(day,) for day in wanted], "day DATE")
    rates = silver.compute_rates(commits.where(sf.col("day").isin(wanted)))
    _replace_days(rates, base, SILVER_RATES, wanted)
    # Last: that a day has its snapshot says that it was closed.
    _replace_days(silver.build_snapshots(snapshots, since, days), base, SILVER_SNAPSHOTS, wanted)


def _replace_days(rows: DataFrame, base: Path, table: Table, days: Iterable[date]) -> None:
    ordered = rows.repartition("day").sortWithinPartitions("day", *table.ordered_by)
    lake.replace(lake.write_frame(ordered, base, table), base, table, days=days)


def _load(spark: SparkSession, base: Path, table: Table) -> DataFrame:
    return spark.read.format("delta").load(str(table.at(base)))


def _first_day(fresh: DataFrame) -> date | None:
    """Return the oldest day that these records add a commit to."""
    commits = fresh.where(sf.col("kind") == CONNECT_OFFSETS)
    (row,) = commits.agg(sf.min("day").alias("day")).collect()
    found: date | None = row["day"]
    return found


def _list_bronze_files(base: Path, version: int) -> set[str] | None:
    """Return the files of bronze at a version; None if that version is no longer available."""
    try:
        return set(DeltaTable(str(BRONZE_RECORDS.at(base)), version=version).file_uris())
    except DeltaError:
        return None
