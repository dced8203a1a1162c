"""When patience with a partition ends, and until when a decision about it holds."""

from __future__ import annotations

from math import inf

import pytest

from exporter.judge.cases import due_w, holds_until_w
from exporter.judge.settings import Settings
from exporter.judge.subjects import Subject
from exporter.judge.verdicts import Case
from exporter.judge.windows import Window

SETTINGS = Settings(interval_s=60.0)
CASE = Case(patience_s=180.0, rhythm_s=100.0)  # late after three times that


def subject(**changes) -> Subject:
    fields = {"first_w": 0.0, "seen_w": 500.0, "still_w": 300.0, "waiting_w": 400.0, "sure": True}
    window = Window(**{**fields, **changes})
    return Subject(key=("lab", "mm2", "orders-0"), label="orders-0", window=window)


NOBODY = Subject(key=("lab", "mm2", "orders-0"), label="orders-0")


@pytest.mark.parametrize(
    ("changes", "w", "due"),
    [
        pytest.param({}, 500.0, 580.0, id="since it waits"),
        pytest.param({"still_w": 450.0}, 500.0, 630.0, id="since it stands still"),
        pytest.param({}, 579.0, 580.0, id="a second before"),
        pytest.param({}, 580.0, None, id="over"),
        pytest.param({"waiting_w": None}, 500.0, None, id="nothing waits"),
        pytest.param(
            {"sure": False, "ends_moved": 2, "counted_w": 560.0}, 500.0, 587.0, id="nearly sure"
        ),
        pytest.param(
            {"sure": False, "ends_moved": 2, "counted_w": 100.0},
            500.0,
            580.0,
            id="long nearly sure",
        ),
        pytest.param(
            {"sure": False, "ends_moved": 1, "counted_w": 560.0}, 500.0, 580.0, id="not sure"
        ),
        pytest.param({"ends_moved": 2, "counted_w": 560.0}, 500.0, 580.0, id="sure"),
    ],
)
def test_patience_ends_three_intervals_after_it_stands_still_with_work(changes, w, due):
    assert due_w(subject(**changes), w, SETTINGS) == due


def test_with_what_was_never_seen_there_is_no_patience():
    assert due_w(NOBODY, 500.0, SETTINGS) is None


@pytest.mark.parametrize(
    ("rule", "changes", "until"),
    [
        pytest.param(8, {"moved_w": 100.0}, 400.0, id="moves"),
        pytest.param(16, {"moved_w": 100.0}, 400.0, id="in rhythm"),
        pytest.param(8, {}, 0.0, id="moves, and nobody saw it"),
        pytest.param(9, {"moved_w": 100.0}, 0.0, id="keeps up, which an end that moves decides"),
        pytest.param(10, {}, inf, id="idle"),
        pytest.param(11, {}, 0.0, id="beyond the end"),
        pytest.param(17, {"repeated_w": 200.0}, 380.0, id="alive"),
        pytest.param(17, {}, 0.0, id="alive, and nobody saw it"),
        pytest.param(18, {"repeated_w": 200.0, "moved_w": 100.0}, 0.0, id="out of character"),
        pytest.param(20, {}, inf, id="nothing tells, and it never moved"),
        pytest.param(20, {"moved_w": 100.0}, inf, id="nothing tells, and it moved once"),
        pytest.param(
            20, {"moved_w": 100.0, "longest_s": 60.0}, 0.0, id="nothing tells, and it has a habit"
        ),
        pytest.param(21, {}, 0.0, id="too soon"),
        pytest.param(5, {"moved_w": 100.0}, 0.0, id="silent"),
    ],
)
def test_a_decision_holds_until_time_alone_may_change_it(rule, changes, until):
    assert holds_until_w(subject(**changes), CASE, rule) == until


def test_a_decision_about_what_was_never_seen_does_not_hold():
    assert holds_until_w(NOBODY, CASE, 10) == 0.0
