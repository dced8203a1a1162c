"""What is said of a stretch of a log, by how the children that read it end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetwatch.clients.records.checksum import DEATHS, Checked, Ended, Read, Stretch, judged

BATCHES = 8


class Log:
    """A log of batches of one record each, some of them bad.

    deadly   bad batches that end the process which takes them from the broker
    before   how many children, in turn, die before they tell of the batch in front of such a one
    asked    what children were asked for
    """

    def __init__(self, *, bad: int = BATCHES, deadly: bool = True, before: int = 0) -> None:
        self.asked: list[Stretch] = []
        self._bad = bad
        self._deadly = deadly
        self._before = before

    def read(self, wanted: Stretch) -> Read:
        self.asked.append(wanted)
        start, end, alone = wanted
        assert not alone or end == start + 1
        if end <= self._bad and not (self._before and end == self._bad):
            return Read(Ended.FINE, end - 1)
        if not self._deadly:
            return Read(Ended.BAD, max(self._bad, start))
        if start < self._bad and self._before:
            self._before -= 1
            return Read(Ended.DIED, self._bad - 1)
        return Read(Ended.DIED, max(self._bad, start))


@given(
    st.integers(0, BATCHES),
    st.integers(0, BATCHES),
    st.integers(0, BATCHES),
    st.booleans(),
    st.integers(0, DEATHS - 1),
)
def test_a_stretch_is_sound_up_to_its_first_bad_batch_however_children_die_before_it(
    start, end, bad, deadly, before
):
    bad = max(start, bad)
    log = Log(bad=bad, deadly=deadly, before=before)
    told = judged(log.read, start, end)
    assert told == Checked(max(start, min(bad, end)), corrupt=start < end and bad < end)


def test_a_place_where_a_child_died_once_is_asked_for_alone_and_the_rest_is_read_on():
    log = Log(bad=4, before=1)
    assert judged(log.read, 0, 8) == Checked(4, corrupt=True)
    alone = [Stretch(4, 5, alone=True)] * (DEATHS - 1)
    there = Stretch(3, 4, alone=True)
    assert log.asked == [Stretch(0, 8), there, Stretch(4, 8), *alone]


def test_a_sound_stretch_is_read_once():
    log = Log()
    assert judged(log.read, 2, 6) == Checked(6, corrupt=False)
    assert log.asked == [Stretch(2, 6)]


def test_nothing_is_read_of_nothing():
    log = Log()
    assert judged(log.read, 3, 3) == Checked(3, corrupt=False)
    assert log.asked == []


@pytest.mark.parametrize("alone", [False, True])
def test_what_a_child_could_not_say_is_not_held_against_the_batch(alone):
    deaths = iter([Read(Ended.DIED, 1)] if alone else [])

    def read(wanted: Stretch) -> Read:
        return next(deaths, Read(Ended.UNKNOWN, 1))

    assert judged(read, 0, 5) == Checked(1, corrupt=False)


def test_a_bad_batch_that_a_child_tells_of_is_believed_at_once():
    log = Log(bad=3, deadly=False)
    assert judged(log.read, 0, 8) == Checked(3, corrupt=True)
    assert len(log.asked) == 1
