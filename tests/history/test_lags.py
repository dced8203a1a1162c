"""What a flow had still to copy, when its log ends were looked at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.history.baselines.job import SAMPLE_INTERVAL_S
from offsetwatch.history.tables.schemas import (
    BRONZE_LOG_ENDS,
    BRONZE_SOURCE_ENDS,
    GOLD_FLOWS,
    SILVER_COMMITS,
)
from tests.history.delta import Row, write
from tests.history.rows import at

pytestmark = pytest.mark.spark

SYNCS = {"syncs_kafka": "west", "syncs_topic": "mm2-offset-syncs.east.internal"}
FLOW = {
    "connect_cluster": "lab",
    "connector": "mm2",
    "source": "west",
    "target": "east",
    "upstream": "west",
    "downstream": "east",
    **SYNCS,
    "separator": ".",
    "read_committed": False,
    "from_start": True,
}
BEGIN = 1_795_243_200


def moment(second: float) -> Any:
    return at(round((BEGIN + second) * 1000))


def commit(second: float, pos: int | None, partition: int = 0, **changes: Any) -> Row:
    return {
        "connect_cluster": "lab",
        "connector": "mm2",
        "source_partition": f'{{"cluster":"west","partition":{partition},"topic":"orders"}}',
        "at": moment(second),
        "dialect": "mirror_source",
        "pos": pos,
        "tombstone": pos is None,
        "day": moment(second).date(),
        **changes,
    }


def build_sample(second: float, end: int, partition: int = 0, kafka: str = "west") -> Row:
    return {
        "at": moment(second),
        "kafka": kafka,
        "topic": "orders",
        "partition": partition,
        "log_start": 0,
        "log_end": end,
        "day": moment(second).date(),
    }


@pytest.fixture
def compute_lags(spark: Any, tmp_path: Path) -> Any:
    """(second, connector, lag) of every look."""
    from offsetwatch.history.baselines.job import compute_lags

    def compute(
        *rows: Row, flows: Iterable[Row] = (FLOW,), looks: Iterable[Row] = ()
    ) -> list[tuple[float, str, int]]:
        write(tmp_path, GOLD_FLOWS, *flows)
        write(tmp_path, SILVER_COMMITS, *rows)
        write(tmp_path, BRONZE_LOG_ENDS, *looks)
        tables = (GOLD_FLOWS, SILVER_COMMITS, BRONZE_LOG_ENDS)
        loaded = (spark.read.format("delta").load(str(each.at(tmp_path))) for each in tables)
        result = compute_lags(*loaded).collect()
        return sorted((row["at"] - BEGIN, row["connector"], row["lag"]) for row in result)

    return compute


def test_a_lag_is_what_lies_behind_the_last_record_that_was_copied(compute_lags: Any) -> None:
    result = compute_lags(commit(10, 4), looks=(build_sample(20, 9),))
    assert result == [(20.0, "mm2", 4)]  # 5, 6, 7 and 8


@pytest.mark.full
def test_all_partitions_count_together_and_none_counts_below_nothing(compute_lags: Any) -> None:
    rows = (commit(10, 4), commit(10, 99, partition=1))
    assert compute_lags(*rows, looks=(build_sample(20, 9), build_sample(20, 50, partition=1))) == [
        (20.0, "mm2", 4)
    ]


@pytest.mark.full
def test_what_comes_after_a_poll_is_not_known_at_it(compute_lags: Any) -> None:
    rows = (commit(10, 4), commit(25, 8))
    assert compute_lags(*rows, looks=(build_sample(20, 9),)) == [(20.0, "mm2", 4)]


@pytest.mark.full
def test_without_a_position_there_is_no_lag(compute_lags: Any) -> None:
    """Before its first commit, and after its offset was taken away."""
    rows = (commit(310, 4), commit(610, None))
    result = compute_lags(
        *rows, looks=(build_sample(20, 9), build_sample(320, 9), build_sample(620, 9))
    )
    assert result == [(320.0, "mm2", 4)]


@pytest.mark.full
def test_one_poll_in_five_minutes_is_enough(compute_lags: Any) -> None:
    begins = SAMPLE_INTERVAL_S - BEGIN % SAMPLE_INTERVAL_S
    polls = [build_sample(begins + second, 9) for second in range(0, 2 * SAMPLE_INTERVAL_S, 60)]
    result = compute_lags(commit(0, 4), looks=polls)
    assert [second for second, _, _ in result] == [begins, begins + SAMPLE_INTERVAL_S]


@pytest.mark.full
def test_what_is_no_flow_of_this_cluster_has_none(compute_lags: Any) -> None:
    flows = ({**FLOW, "upstream": None},)
    assert compute_lags(commit(10, 4), flows=flows, looks=(build_sample(20, 9),)) == []


@pytest.mark.full
def test_a_log_of_the_same_name_on_another_cluster_is_another(compute_lags: Any) -> None:
    assert compute_lags(commit(10, 4), looks=(build_sample(20, 9, kafka="east"),)) == []


@pytest.mark.full
def test_eight_weeks_of_polls_report_what_lag_is_usual(spark: Any, tmp_path: Path) -> None:
    from offsetwatch.history.baselines.job import compute_lag_baselines

    weeks_s = 8 * 7 * 86_400
    write(tmp_path, GOLD_FLOWS, FLOW)
    write(tmp_path, SILVER_COMMITS, commit(-1, 4))
    assert compute_lag_baselines(spark, tmp_path, BEGIN + weeks_s) == {}
    polls = (build_sample(second, 15) for second in range(0, weeks_s, 1800))
    write(tmp_path, BRONZE_LOG_ENDS, *polls)
    assert compute_lag_baselines(spark, tmp_path, BEGIN + weeks_s) == {
        ("lab", "mm2"): ((10.0, 10.0, 10.0),) * 168
    }


# --- sources -------------------------------------------------------------------------------------


def read_source(second: float, lag_s: float | None, name: str = "shop") -> Row:
    """The end of a source, read at a second; None: how long changes have waited is not known."""
    return {
        "at": moment(second),
        "connect_cluster": "lab",
        "connector": "wal",
        "source_partition": f'{{"server":"{name}"}}',
        "source": name,
        "kind": "postgresql",
        "behind_since": moment(second - lag_s) if lag_s else None,
        "caught_up": None if lag_s is None else lag_s == 0,
        "day": moment(second).date(),
    }


@pytest.mark.full
def test_the_lag_behind_a_source_is_the_greatest_that_is_known(spark: Any, tmp_path: Path) -> None:
    from offsetwatch.history.baselines.job import compute_source_lags

    begins = SAMPLE_INTERVAL_S - BEGIN % SAMPLE_INTERVAL_S
    rows = (
        *(read_source(begins, 40.0), read_source(begins, 0.0, "idle")),
        read_source(begins + 60, 100.0),  # one in five minutes is enough
        *(read_source(begins + SAMPLE_INTERVAL_S, 0.0), read_source(begins + 300, None, "idle")),
        read_source(begins + 2 * SAMPLE_INTERVAL_S, None),
    )
    write(tmp_path, BRONZE_SOURCE_ENDS, *rows)
    samples = spark.read.format("delta").load(str(BRONZE_SOURCE_ENDS.at(tmp_path)))
    result = compute_source_lags(samples).collect()
    assert sorted((row["at"] - BEGIN, row["connector"], row["lag"]) for row in result) == [
        (begins, "wal", 40.0),
        (begins + SAMPLE_INTERVAL_S, "wal", 0.0),
    ]


@pytest.mark.full
def test_eight_weeks_of_reads_report_how_long_changes_usually_wait(
    spark: Any, tmp_path: Path
) -> None:
    from offsetwatch.history.baselines.job import compute_source_lag_baselines

    weeks_s = 8 * 7 * 86_400
    assert compute_source_lag_baselines(spark, tmp_path, BEGIN + weeks_s) == {}
    reads = (read_source(second, 12.0) for second in range(0, weeks_s, 1800))
    write(tmp_path, BRONZE_SOURCE_ENDS, *reads)
    assert compute_source_lag_baselines(spark, tmp_path, BEGIN + weeks_s) == {
        ("lab", "wal"): ((12.0, 12.0, 12.0),) * 168
    }
