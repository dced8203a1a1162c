"""What everybody reads, before there is anything to read."""

from __future__ import annotations

from offsetwatch.state.snapshot import EMPTY


def test_before_the_first_tick_nothing_is_ready_and_it_is_no_time():
    assert not EMPTY.ready
    assert EMPTY.at == 0
    assert EMPTY.waiting_for == ("the first tick",)
