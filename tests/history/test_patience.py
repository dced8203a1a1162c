"""A stream that stops is planned again: soon, then less often, and not for ever in vain."""

from __future__ import annotations

from offsetwatch.history.pipeline.stream import PAUSE_S_MAX, PLANS_MAX, STEADY_S, StreamBackoff


def pauses(patience: StreamBackoff, tries: int, *, counts: bool) -> list[float]:
    """How long each try had to wait, in whole seconds."""
    results, now, last = [], 0.0, 0.0
    for _ in range(tries):
        while not patience.due(now):
            now += 1.0
        results.append(now - last)
        patience.tried(now, counts=counts)
        last = now
    return results


def test_the_first_plan_is_made_at_once_and_each_further_one_later() -> None:
    assert pauses(StreamBackoff(), 5, counts=True) == [0, 1, 2, 4, 8]


def test_plans_that_read_nothing_come_to_an_end() -> None:
    patience = StreamBackoff()
    pauses(patience, PLANS_MAX - 1, counts=True)
    assert not patience.exhausted
    pauses(patience, 1, counts=True)
    assert patience.exhausted


def test_kafka_may_be_away_for_ever_and_is_queried_once_a_minute() -> None:
    patience = StreamBackoff()
    assert pauses(patience, 100, counts=False)[-1] == PAUSE_S_MAX
    assert not patience.exhausted


def test_a_stream_that_moved_begins_with_new_patience() -> None:
    patience = StreamBackoff()
    pauses(patience, PLANS_MAX, counts=True)
    patience.runs(0.0, moved=True)
    assert not patience.exhausted
    assert patience.due(0.0)


def test_a_stream_that_only_stays_up_gets_it_after_a_while() -> None:
    patience = StreamBackoff()
    patience.tried(100.0, counts=True)  # the next one at 101
    patience.runs(101.0 + STEADY_S - 0.1, moved=False)
    assert pauses(patience, PLANS_MAX - 1, counts=True)
    assert patience.exhausted
    patience.tried(200.0, counts=True)
    patience.runs(200.0 + PAUSE_S_MAX + STEADY_S, moved=False)
    assert not patience.exhausted
