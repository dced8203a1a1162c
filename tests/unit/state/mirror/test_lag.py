from __future__ import annotations

import pytest

from offsetwatch.state.mirror.lag import (
    Lag,
    compute_lag_seconds,
    compute_replication_lag,
    compute_sink_lag,
)


@pytest.mark.parametrize(
    ("replicated", "log_end", "expected"),
    [
        pytest.param(99, 100, Lag(0, 0), id="caught-up"),
        pytest.param(98, 100, Lag(1, 0), id="one-behind"),
        pytest.param(0, 1, Lag(0, 0), id="the-first-record"),
        pytest.param(100, 100, Lag(0, 1), id="one-ahead"),
        pytest.param(4999, 0, Lag(0, 5000), id="upstream-re-created"),
    ],
)
def test_mm2_stores_the_last_record_so_one_before_the_end_is_no_lag(replicated, log_end, expected):
    assert compute_replication_lag(replicated, log_end) == expected


@pytest.mark.parametrize(("committed", "log_end", "expected"), [(100, 100, 0), (99, 100, 1)])
def test_a_sink_stores_the_next_record_so_its_end_is_no_lag(committed, log_end, expected):
    assert compute_sink_lag(committed, log_end) == expected


def test_a_sink_beyond_the_end_has_no_negative_lag():
    assert compute_sink_lag(101, 100) == 0


def test_the_age_of_the_oldest_that_waits_is_nothing_where_nothing_does():
    assert compute_lag_seconds(70.0, 100.0, caught_up=True) == 0.0
    assert [compute_lag_seconds(70.0, 100.0, caught_up=known) for known in (False, None)] == [
        30.0,
        30.0,
    ]
    assert compute_lag_seconds(130.0, 100.0, caught_up=None) == 0.0  # a record of the future
    assert [compute_lag_seconds(None, 100.0, caught_up=known) for known in (False, None)] == [
        None,
        None,
    ]
