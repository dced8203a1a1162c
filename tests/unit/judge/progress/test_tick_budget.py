"""How many partitions one tick judges, and when the next passes are due."""

from __future__ import annotations

from collections import deque

import pytest

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.subjects import JudgedPartition
from offsetwatch.judge.progress.tracker import (
    JUDGED_PER_TICK_MAX,
    TROUBLED_PER_INTERVAL_MAX,
    JudgingPass,
    PassSchedule,
    compute_tick_share,
)
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace


def begun(*, partitions: int, share: int, whole: bool = True, next_w: float = 160.0) -> JudgingPass:
    remaining = deque(
        JudgedPartition(key=("lab", "files", str(number)), label=str(number))
        for number in range(partitions)
    )
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, at=7.0))
    return JudgingPass(visibility, w=100.0, whole=whole, left=remaining, share=share, next_w=next_w)


@pytest.mark.parametrize(
    ("partitions", "share"),
    [
        (0, 1_000),
        (10, 1_000),
        (16_000, 1_000),
        (16_001, 1_001),
        (100_000, 6_250),
        (1_000_000, 10_000),
    ],
)
def test_a_full_pass_is_spread_over_sixteen_ticks_unless_that_is_too_little_or_too_much(
    partitions, share
):
    assert compute_tick_share(partitions, leisurely=True) == share


def test_a_pass_that_must_not_wait_takes_all_that_a_tick_may_take():
    assert compute_tick_share(10, leisurely=False) == JUDGED_PER_TICK_MAX


def test_a_tick_takes_its_share_in_order_and_the_last_one_what_is_left():
    judging_pass = begun(partitions=5, share=2)
    taken = [[subject.label for subject in judging_pass.take()] for _ in range(4)]
    assert taken == [["0", "1"], ["2", "3"], ["4"], []]
    assert judging_pass.at == 7.0


def test_a_pass_that_is_hurried_ends_with_the_next_tick():
    judging_pass = begun(partitions=5, share=2)
    assert len(list(judging_pass.take())) == 2
    judging_pass.hurry()
    assert len(list(judging_pass.take())) == 3


def test_a_partial_pass_does_not_put_off_the_full_one():
    schedule = PassSchedule(full_w=130.0)
    schedule.end(begun(partitions=0, share=1, whole=False), 0, 60.0)
    assert (schedule.full_w, schedule.partial_w) == (130.0, 100.0)
    schedule.end(begun(partitions=0, share=1, whole=False, next_w=120.0), 0, 60.0)
    assert schedule.full_w == 120.0
    schedule.end(begun(partitions=0, share=1), 0, 60.0)
    assert schedule.full_w == 160.0


def test_the_more_partitions_are_in_trouble_the_fewer_partial_passes_there_are():
    schedule = PassSchedule()
    schedule.end(begun(partitions=0, share=1), TROUBLED_PER_INTERVAL_MAX // 2, 60.0)
    assert schedule.partial_w == 130.0
