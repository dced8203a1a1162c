"""For how long something has been so without a break."""

from __future__ import annotations

from offsetwatch.judge.findings.rule_context import ConditionAges

ONE, OTHER = ("lag", "lab", "mm2", "orders-0"), ("lag", "lab", "mm2", "orders-1")


def test_it_has_been_so_since_it_was_first_asked_for_with_the_level_of_then():
    held = ConditionAges()
    assert not held.has(ONE)
    assert held.since(ONE, 100.0, 7.0) == (100.0, 7.0)
    held.settle(lambda _: False)
    assert held.has(ONE)
    assert held.since(ONE, 160.0, 9.0) == (100.0, 7.0)


def test_what_nobody_asked_for_since_the_last_time_is_so_no_longer():
    held = ConditionAges()
    held.since(ONE, 100.0)
    held.since(OTHER, 100.0)
    held.settle(lambda _: False)
    held.since(ONE, 160.0)
    held.settle(lambda _: False)
    assert (held.has(ONE), held.has(OTHER)) == (True, False)
    held.settle(lambda _: False)
    assert held.since(ONE, 220.0) == (220.0, 0.0)


def test_not_to_see_is_no_break():
    held = ConditionAges()
    held.since(ONE, 100.0)
    held.since(OTHER, 100.0)
    for _ in range(2):
        held.settle(lambda key: key == ONE)
    assert held.since(ONE, 220.0) == (100.0, 0.0)
    assert held.since(OTHER, 220.0) == (220.0, 0.0)


def test_a_clock_that_was_set_back_leaves_no_beginning_in_the_future():
    held = ConditionAges()
    held.since(ONE, 100.0, 7.0)
    assert held.since(ONE, 40.0) == (40.0, 7.0)
    assert held.since(ONE, 100.0) == (40.0, 7.0)


def test_it_outlives_the_process():
    held, later = ConditionAges(), ConditionAges()
    held.since(ONE, 100.0, 7.0)
    later.recall(held.remembered())
    assert later.remembered() == held.remembered() == ((ONE, 100.0, 7.0),)
    assert later.since(ONE, 160.0) == (100.0, 7.0)
