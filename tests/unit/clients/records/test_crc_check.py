"""What is said of a stretch of a log, by how the children that read it end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.clients.records.crc_check import (
    CHILD_DEATHS_MAX,
    ChecksumChildOutcome,
    ChecksumChildResult,
    ChecksumRange,
    ChecksumResult,
    verify_range,
)

BATCHES = 8


class Log:
    """A log of batches of one record each, some of them bad.

    deadly   bad batches that end the process which takes them from the broker
    before   how many children, in turn, die before they tell of the batch in front of such a one
    ranges   what children were asked for
    """

    def __init__(self, *, bad: int = BATCHES, deadly: bool = True, before: int = 0) -> None:
        self.ranges: list[ChecksumRange] = []
        self._bad = bad
        self._deadly = deadly
        self._before = before

    def read(self, expected: ChecksumRange) -> ChecksumChildResult:
        self.ranges.append(expected)
        start, end, alone = expected
        assert not alone or end == start + 1
        dies_before = self._deadly and self._before and end == self._bad
        if end <= self._bad and not dies_before:
            return ChecksumChildResult(ChecksumChildOutcome.FINE, end - 1)
        if not self._deadly:
            return ChecksumChildResult(ChecksumChildOutcome.BAD, max(self._bad, start))
        if start < self._bad and self._before:
            self._before -= 1
            return ChecksumChildResult(ChecksumChildOutcome.DIED, self._bad - 1)
        return ChecksumChildResult(ChecksumChildOutcome.DIED, max(self._bad, start))


@given(
    st.integers(0, BATCHES),
    st.integers(0, BATCHES),
    st.integers(0, BATCHES),
    st.booleans(),
    st.integers(0, CHILD_DEATHS_MAX - 1),
)
def test_an_unread_range_is_sound_up_to_its_first_bad_batch_however_children_die_before_it(
    start, end, bad, deadly, before
):
    bad = max(start, bad)
    log = Log(bad=bad, deadly=deadly, before=before)
    result = verify_range(log.read, start, end)
    assert result == ChecksumResult(max(start, min(bad, end)), corrupt=start < end and bad < end)


def test_a_place_where_a_child_died_once_is_requested_alone_and_the_rest_is_read_on():
    log = Log(bad=4, before=1)
    assert verify_range(log.read, 0, 8) == ChecksumResult(4, corrupt=True)
    alone = [ChecksumRange(4, 5, alone=True)] * (CHILD_DEATHS_MAX - 1)
    there = ChecksumRange(3, 4, alone=True)
    assert log.ranges == [ChecksumRange(0, 8), there, ChecksumRange(4, 8), *alone]


def test_a_sound_unread_range_is_read_once():
    log = Log()
    assert verify_range(log.read, 2, 6) == ChecksumResult(6, corrupt=False)
    assert log.ranges == [ChecksumRange(2, 6)]


def test_nothing_is_read_of_nothing():
    log = Log()
    assert verify_range(log.read, 3, 3) == ChecksumResult(3, corrupt=False)
    assert log.ranges == []


@pytest.mark.parametrize("alone", [False, True])
def test_what_a_child_could_not_say_is_not_held_against_the_batch(alone):
    deaths = iter([ChecksumChildResult(ChecksumChildOutcome.DIED, 1)] if alone else [])

    def read(expected: ChecksumRange) -> ChecksumChildResult:
        return next(deaths, ChecksumChildResult(ChecksumChildOutcome.UNKNOWN, 1))

    assert verify_range(read, 0, 5) == ChecksumResult(1, corrupt=False)


def test_a_bad_batch_that_a_child_reports_is_believed_at_once():
    log = Log(bad=3, deadly=False)
    assert verify_range(log.read, 0, 8) == ChecksumResult(3, corrupt=True)
    assert len(log.ranges) == 1
