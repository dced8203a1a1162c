"""What is in cycles goes, however little there is of it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from offsetwatch.daemon.tuning import GENERATION_TURNS, PeriodicGarbageCollector


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


def collect_times(tidying: PeriodicGarbageCollector, count: int) -> None:
    for _ in range(count):
        tidying.collect()


def test_what_was_dropped_since_the_last_turn_goes_with_the_next():
    result = weakref.ref(Knot())
    assert result() is not None
    PeriodicGarbageCollector().collect()
    assert result() is None


def test_what_was_dropped_after_it_outlived_a_turn_goes_with_the_fifth():
    tidying, knot = PeriodicGarbageCollector(), Knot()
    result = weakref.ref(knot)
    tidying.collect()
    del knot
    collect_times(tidying, GENERATION_TURNS - 2)
    assert result() is not None
    tidying.collect()
    assert result() is None


def test_what_was_dropped_after_it_outlived_a_fifth_goes_with_the_twenty_fifth():
    tidying, knot = PeriodicGarbageCollector(), Knot()
    result = weakref.ref(knot)
    collect_times(tidying, GENERATION_TURNS)
    del knot
    collect_times(tidying, GENERATION_TURNS**2 - GENERATION_TURNS - 1)
    assert result() is not None
    tidying.collect()
    assert result() is None


def test_what_is_free_goes_back_to_the_system_with_the_older_ones():
    tidying = PeriodicGarbageCollector()
    collect_times(tidying, GENERATION_TURNS - 1)
    blocks = [bytearray(2**16) for _ in range(1000)]
    before = resident_kib()
    retained = blocks[::100]  # else the heap shrinks by itself
    del blocks
    tidying.collect()
    assert resident_kib() < before - 50_000
    assert len(retained) == 10


def resident_kib() -> int:
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1])
