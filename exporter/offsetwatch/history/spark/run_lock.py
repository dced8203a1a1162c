"""Run lock: one pipeline per base path, as two would read every record twice and race for gold.

It is a kernel lock on a file beside the tables, so it ends with its process however that ends. The
file's text only names the holder; and by it a run sees whether the folder is one for every process
of Spark: an executor without the mount would write its part of the tables to its own disk, and no
one would notice before the files are missed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.disk import acquire_file_lock
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.session import translate_spark_errors

LOCK_NAME = "_run.lock"

TASKS_PER_CORE = 2  # no way to ask each executor: enough tasks that hardly one goes without
FolderCheck = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_CHECK_SCHEMA = pa.schema([("host", pa.string()), ("seen", pa.bool_())])


@contextmanager
def hold_run_lock(base: Path, clock: UnixClock) -> Iterator[None]:
    """Hold the base path. Raises HistoryError naming the holder if another run has it."""
    path = base / LOCK_NAME
    try:
        base.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+", encoding="utf-8")
    except OSError as exc:
        raise HistoryError(f"{base} cannot be written: {exc}") from exc
    with handle:
        since = to_utc(clock.now()).isoformat(timespec="seconds")
        holder = acquire_file_lock(handle, since)
        if holder is not None:
            by = holder or "a run that has not said who it is"
            raise HistoryError(f"{base} is in use by {by}")
        yield


def check_shared_folder(spark: SparkSession, base: Path) -> None:
    """Raise HistoryError unless every executor finds the run's lock file as just written here."""
    if is_local(spark.conf.get("spark.master") or ""):
        return
    lock = base / LOCK_NAME
    tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    check = build_folder_check(str(lock), lock.read_text(encoding="utf-8"))
    with translate_spark_errors(f"check at {base} from the executors failed"):
        frame = spark.range(0, tasks, 1, tasks).mapInArrow(check, "host STRING, seen BOOLEAN")
        unshared = sorted({row["host"] for row in frame.collect() if not row["seen"]})
    if unshared:
        raise HistoryError(
            f"history.path must be one folder for all of Spark, and {', '.join(unshared)} does not "
            f"see {lock} as it was just written: mount the same file system there"
        )


def is_local(master: str) -> bool:
    """Check whether driver and executors are one process."""
    return master == "local" or master.startswith("local[")


def build_folder_check(path: str, text: str) -> FolderCheck:
    """Build a task that reports its host, and whether the file is there with this text."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            same = Path(path).read_text(encoding="utf-8") == text
        except OSError:
            same = False
        for _ in batches:
            yield pa.RecordBatch.from_arrays(
                [pa.array([socket.gethostname()]), pa.array([same])], schema=_CHECK_SCHEMA
            )

    return check
