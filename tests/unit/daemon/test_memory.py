"""What is in cycles goes, however little there is of it."""

from __future__ import annotations

import gc
import weakref

import pytest

from exporter.daemon.memory import OLDER_TURNS, Tidying


class Knot:
    """Knows itself, so that nothing but a look for cycles takes it away."""

    def __init__(self) -> None:
        self.it = self


@pytest.fixture(autouse=True)
def by_the_clock_alone():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def turns(tidying: Tidying, count: int) -> None:
    for _ in range(count):
        tidying.look()


def test_what_was_dropped_since_the_last_turn_goes_with_the_next():
    found = weakref.ref(Knot())
    assert found() is not None
    Tidying().look()
    assert found() is None


def test_what_was_dropped_after_it_outlived_a_turn_goes_with_the_tenth():
    tidying, knot = Tidying(), Knot()
    found = weakref.ref(knot)
    tidying.look()
    del knot
    turns(tidying, OLDER_TURNS - 2)
    assert found() is not None
    tidying.look()
    assert found() is None


def test_what_was_dropped_after_it_outlived_a_tenth_goes_with_the_hundredth():
    tidying, knot = Tidying(), Knot()
    found = weakref.ref(knot)
    turns(tidying, OLDER_TURNS)
    del knot
    turns(tidying, OLDER_TURNS**2 - OLDER_TURNS - 1)
    assert found() is not None
    tidying.look()
    assert found() is None
