"""What is usual: how well stalls are told from it, and what a damaged document is worth."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.errors import HistoryError
from offsetwatch.history.baselines import job
from offsetwatch.history.baselines.model import DAY_S, WEEK_S, compute_lag_baseline, fit_baseline
from offsetwatch.history.tables import pipeline_status
from offsetwatch.history.tables.schemas import CONNECT_OFFSETS, SILVER_COMMITS, SILVER_LOGS
from offsetwatch.model.history_documents import (
    HOUR_S,
    HOURS,
    VERSION,
    Baseline,
    Baselines,
    DamagedBaselines,
    InsufficientBaseline,
    decode_baselines,
    encode_baselines,
)
from tests.history.delta import write
from tests.history.months import KINDS, MONDAY
from tests.history.rows import at
from tests.history.scoring import LEARNED, scores, summed

HOURLY = MONDAY + np.arange(0, 8 * WEEK_S, HOUR_S)
END = MONDAY + 8 * WEEK_S


def learned(times, until: float = END) -> Baseline:
    result = fit_baseline("lab", "c", np.asarray(times, float), until)
    assert isinstance(result, Baseline)
    return result


def test_stalls_that_were_planted_are_found_and_next_to_nothing_else() -> None:
    result = scores(first=900, seeds=4)
    own = summed(result.pop(LEARNED))
    assert own.stalls > 40
    assert own.recall >= 0.95
    assert own.false_a_month <= 1.0
    # One threshold for all is good at one of both.
    assert all(
        score.recall < own.recall - 0.05 or score.false_a_month > 10
        for score in map(summed, result.values())
    )


def test_by_night_it_waits_longer_than_by_day() -> None:
    day = [
        MONDAY + number * DAY_S + 8 * HOUR_S + minute * 60.0
        for number in range(56)
        for minute in range(0, 600, 5)
    ]
    baseline = learned(day)
    noon, evening = END + 12 * HOUR_S, END + 18 * HOUR_S
    assert baseline.out_of_the_ordinary(noon, noon + HOUR_S)
    assert not baseline.out_of_the_ordinary(evening, evening + 13 * HOUR_S)
    assert baseline.interval_s(noon, 0) == pytest.approx(300.0, rel=0.2)


def test_a_clock_set_an_hour_forward_or_back_makes_no_connector_silent() -> None:
    hours = [
        MONDAY + day * DAY_S + minute * 60.0 for day in range(56) for minute in range(480, 1080, 5)
    ]
    baseline = learned(hours)
    for shift in (-HOUR_S, HOUR_S):
        ended, begins = END + 18 * HOUR_S + shift, END + DAY_S + 8 * HOUR_S + shift
        assert not baseline.out_of_the_ordinary(ended, begins)
        assert baseline.out_of_the_ordinary(begins, begins + 3 * HOUR_S)


def test_one_stall_among_what_it_learns_from_does_not_make_it_patient() -> None:
    away = (HOURLY < MONDAY + 3 * WEEK_S) | (HOURLY > MONDAY + 3 * WEEK_S + 2 * DAY_S)
    baseline = learned(HOURLY[away])
    assert baseline.out_of_the_ordinary(END, END + 4 * HOUR_S)
    assert not baseline.out_of_the_ordinary(END, END + 1.1 * HOUR_S)


def test_a_month_is_requested_and_how_much_there_was_is_said() -> None:
    for weeks in range(4):
        short = HOURLY[-int((weeks + 0.5) * HOURS) :]
        assert fit_baseline("lab", "c", short, END) == InsufficientBaseline(
            connect_cluster="lab", connector="c", had=weeks, required=4
        )
    assert learned(HOURLY[-int(4.5 * HOURS) :]).since == END - 4 * WEEK_S
    assert fit_baseline("lab", "c", np.empty(0), END) == InsufficientBaseline(
        connect_cluster="lab", connector="c", had=0, required=4
    )


@given(
    st.floats(0, 20 * WEEK_S), st.lists(st.floats(0, 3 * WEEK_S), min_size=2, max_size=2), st.data()
)
def test_what_is_to_be_expected_adds_up(begin, spans, data) -> None:
    rates = tuple(data.draw(st.lists(st.floats(0, 100), min_size=HOURS, max_size=HOURS)))
    baseline = replace_rates(rates)
    first, second = begin + spans[0], begin + spans[0] + spans[1]
    whole = baseline.expected(begin, second)
    assert whole == pytest.approx(
        baseline.expected(begin, first) + baseline.expected(first, second), abs=1e-5
    )
    assert whole >= -1e-5
    week = baseline.expected(begin, begin + WEEK_S)
    assert week == pytest.approx(sum(rates), rel=1e-9, abs=1e-5)


def replace_rates(rates) -> Baseline:
    return msgspec.structs.replace(learned(HOURLY), per_hour=rates)


@given(st.sampled_from(("seasonal", "sparse", "nightly")), st.integers(0, 500))
def test_its_rates_are_counts_of_what_there_was(kind, seed) -> None:
    times = KINDS[kind](np.random.default_rng(seed), 8 * WEEK_S) + MONDAY
    there = (times >= END - WEEK_S).sum()
    assert learned(times).expected(END - WEEK_S, END) == pytest.approx(there, rel=0.3, abs=10)


def build_samples(lag_at) -> tuple[np.ndarray, np.ndarray]:
    """Every five minutes of eight weeks; `lag_at` makes the lags of the moments."""
    times = np.arange(END - 8 * WEEK_S, END, 300.0)
    return times, np.asarray(lag_at(times), float)


def test_what_lag_is_usual_is_reported_by_the_hour_of_the_week() -> None:
    """A batch every night at two o'clock, and next to nothing else."""
    times, lag = build_samples(lambda item: np.where((item // HOUR_S) % 24 == 2, 1000.0, 10.0))
    lag_baseline = compute_lag_baseline(times, lag, END)
    assert lag_baseline is not None
    by_night, by_day = lag_baseline[2], lag_baseline[12]
    assert (by_night[2], by_day) == (1000.0, (10.0, 10.0, 10.0))
    assert lag_baseline[1][2] == 1000.0  # an hour early or late is no surprise


def test_a_week_in_which_it_stood_still_is_not_usual() -> None:
    times, lag = build_samples(lambda item: np.where(item > END - WEEK_S, 1e9, 10.0))
    assert compute_lag_baseline(times, lag, END) == tuple((10.0, 10.0, 10.0) for _ in range(168))


def test_a_lag_is_usual_after_four_weeks_of_looking_and_not_before() -> None:
    times, lag = build_samples(lambda item: np.full(len(item), 10.0))
    few = times > END - 4 * WEEK_S + HOUR_S * 5
    enough = times >= END - 4 * WEEK_S
    assert compute_lag_baseline(times[few], lag[few], END) is None
    assert compute_lag_baseline(times[enough], lag[enough], END) is not None
    assert compute_lag_baseline(times[:0], lag[:0], END) is None


# --- the document --------------------------------------------------------------------------------

DOCUMENT = Baselines(made_at=2.0, until=1.0, connectors=(learned(HOURLY),))


def test_a_document_comes_back_as_it_was() -> None:
    assert decode_baselines(encode_baselines(DOCUMENT)) == DOCUMENT


def test_no_byte_can_be_another_and_no_part_can_be_missing() -> None:
    whole = encode_baselines(DOCUMENT)
    for location in range(0, len(whole), 7):
        changed = bytes((whole[location] ^ 1,))
        with pytest.raises(DamagedBaselines):
            decode_baselines(whole[:location] + changed + whole[location + 1 :])
        with pytest.raises(DamagedBaselines):
            decode_baselines(whole[:location])


def test_a_document_of_another_version_or_shape_is_refused() -> None:
    envelope = json.loads(encode_baselines(DOCUMENT))
    assert envelope["version"] == VERSION
    with pytest.raises(DamagedBaselines, match="version 2"):
        decode_baselines(json.dumps({**envelope, "version": 2}).encode())
    short = msgspec.structs.replace(DOCUMENT.connectors[0], per_hour=(1.0,))
    with pytest.raises(DamagedBaselines, match="rates of 1 hours"):
        decode_baselines(encode_baselines(msgspec.structs.replace(DOCUMENT, connectors=(short,))))


@pytest.mark.parametrize("field", ["lag", "source_lag_s"])
@pytest.mark.parametrize("lags", [(), ((1.0, 1.0, 1.0),), ((1.0, -1.0, 1.0),) * HOURS])
def test_lags_of_other_hours_or_below_nothing_are_refused(field, lags) -> None:
    odd = msgspec.structs.replace(DOCUMENT.connectors[0], **{field: lags})
    with pytest.raises(DamagedBaselines, match=f"lags of {len(lags)} hours"):
        decode_baselines(encode_baselines(msgspec.structs.replace(DOCUMENT, connectors=(odd,))))


def test_what_is_too_long_behind_a_source_follows_the_hour_of_the_week() -> None:
    hours = ((1.0, 5.0, 20.0),) * 167 + ((1.0, 5.0, 600.0),)
    baseline = msgspec.structs.replace(DOCUMENT.connectors[0], source_lag_s=hours)
    assert baseline.source_lag_limit(MONDAY) == 2 * 20.0 + 60.0
    assert baseline.source_lag_limit(MONDAY - 1) == 2 * 600.0 + 60.0
    assert DOCUMENT.connectors[0].source_lag_limit(MONDAY) is None


def test_nothing_published_is_nothing_and_half_of_it_is_damage(tmp_path: Path) -> None:
    assert pipeline_status.read_baselines(tmp_path) is None
    pipeline_status.publish(tmp_path, DOCUMENT)
    assert pipeline_status.read_baselines(tmp_path) == DOCUMENT
    path = pipeline_status.find_baselines_path(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(HistoryError, match="damaged"):
        pipeline_status.read_baselines(tmp_path)


# --- on Spark ------------------------------------------------------------------------------------


def commits(base: Path, *, weeks: int = 8) -> Path:
    """Of two connectors: one a flush of three partitions every hour, the other new. Before the log
    was first read there is what compaction had left of it.
    """
    log = {"kafka": "east", "topic": "offsets", "topic_id": "x", "kpartition": 0}
    rows = [
        {
            **log,
            "connect_cluster": "lab",
            "connector": "old",
            "source_partition": f'{{"p":{partition}}}',
            "at": at(round(second * 1000) + partition),
            "change": "same" if number % 2 else "ahead",
            "day": at(round(second * 1000)).date(),
        }
        for number, second in enumerate(MONDAY + np.arange(0, weeks * WEEK_S, HOUR_S / 2))
        for partition in range(3)
    ]
    new = {**rows[-1], "connector": "new", "change": "first"}
    remaining = [{**rows[0], "at": at(round((MONDAY - day * DAY_S) * 1000))} for day in (3, 17, 30)]
    write(base, SILVER_COMMITS, *remaining, *rows, new)
    reports = {
        **log,
        "kind": CONNECT_OFFSETS,
        "first_read_at": at(round(MONDAY * 1000)),
        "last_read_at": at(round((MONDAY + weeks * WEEK_S) * 1000)),
    }
    write(base, SILVER_LOGS, reports)
    return base


@pytest.mark.full
@pytest.mark.spark
def test_spark_learns_what_the_arithmetic_says(spark, tmp_path: Path) -> None:
    base = commits(tmp_path)
    tables = (
        spark.read.format("delta").load(str(table.at(base)))
        for table in (SILVER_COMMITS, SILVER_LOGS)
    )
    rows = job.compute_baselines(*tables, END).collect()
    (baseline,) = (msgspec.json.decode(row.baseline, type=Baseline) for row in rows if row.baseline)
    (few,) = (
        msgspec.json.decode(row.too_little, type=InsufficientBaseline)
        for row in rows
        if row.too_little
    )
    # Every other of its commits is of the offset that it had.
    commit_s = (HOUR_S / 2,) * 3
    assert baseline == msgspec.structs.replace(learned(HOURLY), connector="old", commit_s=commit_s)
    assert (few.connector, few.had) == ("new", 0)


def test_without_commits_there_is_nothing_to_learn_from_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(HistoryError, match="has not run there"):
        job.learn(tmp_path, master="local[2]", heap="700m")
    assert not pipeline_status.find_baselines_path(tmp_path).exists()


def test_a_run_learns_once_a_day_and_only_where_there_is_enough(tmp_path: Path) -> None:
    """Four weeks of commits, and no document of today that is whole."""
    day = 86_400.0
    base = commits(tmp_path, weeks=1)
    assert not job.is_due(base, MONDAY + 27 * day)
    assert job.is_due(base, MONDAY + 28 * day)
    pipeline_status.publish(base, msgspec.structs.replace(DOCUMENT, made_at=MONDAY + 28 * day))
    assert not job.is_due(base, MONDAY + 28.9 * day)
    assert job.is_due(base, MONDAY + 29.1 * day)
    pipeline_status.find_baselines_path(base).write_bytes(b"{")
    assert job.is_due(base, MONDAY + 28.5 * day)
