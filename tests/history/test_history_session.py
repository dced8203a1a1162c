"""Who decides where Spark runs, and what becomes of its errors."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from offsetwatch.errors import HistoryError, SparkTerminated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]

# Asked while tests are collected, before any session: whoever started us may ignore Ctrl-C.
CTRL_C_BEFORE = signal.getsignal(signal.SIGINT)


@pytest.mark.parametrize(
    ("environ", "decided"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"PYSPARK_GATEWAY_PORT": "4711"}, True, id="spark-submit"),
        pytest.param({"MASTER": "yarn"}, True, id="MASTER"),
        pytest.param({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, True, id="arguments"),
        pytest.param(
            {"PYSPARK_SUBMIT_ARGS": "--name x pyspark-shell"}, False, id="other-arguments"
        ),
    ],
)
def test_a_master_chosen_outside_is_left_alone(environ: dict[str, str], decided: bool) -> None:
    from offsetwatch.history.spark.session import _is_master_decided

    assert _is_master_decided(environ) is decided


@pytest.mark.parametrize(
    ("text", "decided"),
    [("spark.master yarn\n", True), ("# spark.master yarn\nspark.app.name x\n", False)],
)
def test_a_master_in_spark_defaults_counts_unless_commented_out(
    tmp_path: Path, text: str, decided: bool
) -> None:
    from offsetwatch.history.spark.session import _is_master_decided

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    assert _is_master_decided({"SPARK_CONF_DIR": str(tmp_path / "conf")}) is decided
    assert _is_master_decided({"SPARK_HOME": str(tmp_path)}) is decided


# A process of its own, because its JVM is the one that dies.
LOSES_ITS_JVM = """
import os, signal
from pyspark import SparkContext
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.session import spark_session, translate_spark_errors
try:
    with spark_session(master="local[1]", heap="512m", short=True) as spark:
        spark.range(1).collect()
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        SparkContext._gateway.proc.wait()
        for _ in range(2):  # what was connected breaks, and there is nothing to connect to
            try:
                with translate_spark_errors("counting failed"):
                    spark.range(1).count()
            except HistoryError as exc:
                print(exc, flush=True)
        raise HistoryError("so be it")
except HistoryError as exc:
    print(exc)
"""


@pytest.mark.full
def test_a_jvm_that_was_killed_is_a_reason_and_not_a_bug() -> None:
    command = [sys.executable, "-c", LOSES_ITS_JVM]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    gone = "counting failed: Spark's JVM does not answer any more"
    assert done.stdout.splitlines() == [gone, gone, "so be it"], done.stderr


def test_the_handler_of_sigint_is_the_one_from_before_spark_started(spark: SparkSession) -> None:
    assert spark.version
    assert signal.getsignal(signal.SIGINT) is CTRL_C_BEFORE


def test_an_error_in_a_python_worker_is_reported_in_one_line(spark: SparkSession) -> None:
    from offsetwatch.history.spark.session import translate_spark_errors

    def fail(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no such tooth")

    with (
        pytest.raises(HistoryError, match=r"^pulling failed: ValueError: no such tooth$"),
        translate_spark_errors("pulling failed"),
    ):
        spark.range(1).mapInArrow(fail, "id bigint").collect()


def test_an_error_of_the_engine_is_reported_by_its_innermost_cause(spark: SparkSession) -> None:
    from offsetwatch.history.spark.session import translate_spark_errors

    with (
        pytest.raises(HistoryError, match=r"^reading failed: .*PATH_NOT_FOUND.*"),
        translate_spark_errors("reading failed"),
    ):
        spark.read.parquet("/nowhere/at/all").collect()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(111, "Connection refused"), SparkTerminated),
        (Py4JNetworkError("Answer from Java side is empty"), SparkTerminated),
        (Py4JError("An error occurred while calling o1.isActive"), SparkTerminated),
        (Py4JError("An error occurred while calling o1.x. Trace:\nno such method"), HistoryError),
    ],
)
def test_a_jvm_that_is_gone_is_distinguished_from_one_that_complains(
    error: Exception, expected: type[HistoryError]
) -> None:
    from offsetwatch.history.spark.session import translate_spark_errors

    with (
        pytest.raises(HistoryError, match=r"^asking failed: ") as caught,
        translate_spark_errors("asking failed"),
    ):
        raise error
    assert type(caught.value) is expected


def test_a_user_without_a_name_is_refused_before_java_is_queried():
    from offsetwatch.history.spark.session import _refuse_without_name

    _refuse_without_name(0)
    with pytest.raises(HistoryError, match="user 987654321 has no name"):
        _refuse_without_name(987654321)
