"""What everybody reads, before there is anything to read."""

from __future__ import annotations

from offsetwatch.state.snapshot import EMPTY_SNAPSHOT


def test_before_the_first_tick_nothing_is_ready_and_it_is_no_time():
    assert not EMPTY_SNAPSHOT.ready
    assert EMPTY_SNAPSHOT.at == 0
    assert EMPTY_SNAPSHOT.waiting_for == ("the first tick",)
