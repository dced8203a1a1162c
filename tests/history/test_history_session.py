"""Who decides where Spark runs, and what becomes of its errors."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from exporter.errors import HistoryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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
    from exporter.history.session import _master_is_decided

    assert _master_is_decided(environ) is decided


@pytest.mark.parametrize(
    ("text", "decided"),
    [("spark.master yarn\n", True), ("# spark.master yarn\nspark.app.name x\n", False)],
)
def test_a_master_in_spark_defaults_counts_unless_commented_out(
    tmp_path: Path, text: str, decided: bool
) -> None:
    from exporter.history.session import _master_is_decided

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    assert _master_is_decided({"SPARK_CONF_DIR": str(tmp_path / "conf")}) is decided
    assert _master_is_decided({"SPARK_HOME": str(tmp_path)}) is decided


def test_ctrl_c_stays_with_whoever_had_it_before_spark_started(spark: SparkSession) -> None:
    assert spark.version
    assert signal.getsignal(signal.SIGINT) is CTRL_C_BEFORE


def test_an_error_in_a_python_worker_is_told_in_one_line(spark: SparkSession) -> None:
    from exporter.history.session import translated

    def fail(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no such tooth")

    with (
        pytest.raises(HistoryError, match=r"^pulling failed: ValueError: no such tooth$"),
        translated("pulling failed"),
    ):
        spark.range(1).mapInArrow(fail, "id bigint").collect()


def test_an_error_of_the_engine_is_told_by_its_innermost_cause(spark: SparkSession) -> None:
    from exporter.history.session import translated

    with (
        pytest.raises(HistoryError, match=r"^reading failed: .*PATH_NOT_FOUND.*"),
        translated("reading failed"),
    ):
        spark.read.parquet("/nowhere/at/all").collect()
