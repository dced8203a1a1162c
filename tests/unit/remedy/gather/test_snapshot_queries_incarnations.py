"""Two looks at one connector know different amounts, and only evidence tells that it changed."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import DELETED, StateChange
from offsetwatch.remedy.gather.snapshot_queries import (
    StatePin,
    compare_incarnation,
    compare_state,
    parse_pin,
    pin_state,
)
from offsetwatch.state.connect.state_history import find_deletions

RUNS = (StateChange(100.0, "running"),)
FAILED = (*RUNS, StateChange(120.0, "failed"))
TOGGLED = (*RUNS, StateChange(130.0, "stopped"), StateChange(131.0, "running"))
LET_GO = StateChange(139.0, "unassigned")
RECREATED = (*RUNS, LET_GO, StateChange(140.0, DELETED), StateChange(141.0, "running"))
REWRITTEN = (*RUNS, StateChange(145.0, DELETED), StateChange(146.0, "running"))
OUR_STOP = (*RUNS, StateChange(149.5, "stopped"))
REBALANCED = (*RUNS, StateChange(150.0, "unassigned"), StateChange(151.0, "running", generation=2))


@pytest.mark.parametrize("before", [(), RUNS, FAILED, FAILED[1:], REBALANCED, REBALANCED[2:]])
@pytest.mark.parametrize("after", [RUNS, FAILED, REWRITTEN, REBALANCED, REBALANCED[2:]])
@pytest.mark.parametrize("states", [("running", "running"), ("failed", "unassigned")])
def test_histories_of_any_depth_of_an_unchanged_connector_agree_with_its_pin(before, after, states):
    pin = parse_pin(pin_state(states[0], before).text)
    assert compare_state(pin, states[1], after) == pin
    assert compare_incarnation("first", pin, after) == "first"


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ("running", TOGGLED),
        ("stopped", TOGGLED[:2]),
        ("running", RECREATED),
        ("paused", RUNS),  # REST was quicker than the topic
    ],
)
def test_a_change_by_others_is_one(state, changes):
    pin = pin_state("running", RUNS)
    assert compare_state(pin, state, changes) not in {pin, None}


def test_without_the_topic_at_planning_states_of_rest_are_compared():
    pin = pin_state("running", ())
    assert pin == StatePin("running", None)
    assert compare_state(pin, "running", TOGGLED) == pin
    assert compare_state(pin, "stopped", TOGGLED[:2]) == StatePin("stopped", None)


def test_without_the_topic_now_nothing_is_known():
    pin = pin_state("running", RUNS)
    assert compare_state(pin, "running", ()) is None
    assert compare_incarnation("first", pin, ()) is None


def test_a_deletion_that_was_before_the_plan_is_not_held_against_it():
    shallow = pin_state("running", RECREATED[3:])
    assert compare_incarnation("first", shallow, RECREATED) == "first"
    assert compare_incarnation("first", pin_state("running", RUNS), RECREATED) == "140.0"
    assert [RECREATED[number].at for number in find_deletions(RECREATED)] == [140.0]


def test_lists_that_agree_report_a_deletion_since():
    pin = pin_state("running", ())
    assert compare_incarnation("first", pin, (), unlisted_at=[7.0], created_at=6.0) == "7.0"
    assert compare_incarnation("7.0", pin, (), unlisted_at=[7.0], created_at=8.0) == "7.0"
    assert compare_incarnation("1.0 7.0", pin, (), unlisted_at=[7.0], created_at=8.0) == "1.0 7.0"


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_deletion_since_the_plan_is_known_by_the_clock_of_any_replica(skew_s):
    """One replica planned at 10000, and another, which leads now, sees the connector deleted."""
    pin = pin_state("running", ())
    for after_s, ends in ((1.0, True), (-1201.0, False)):
        observed_at = 10_000.0 + after_s + skew_s
        result = compare_incarnation(
            "first", pin, (), unlisted_at=[observed_at], created_at=10_000.0
        )
        assert result == (repr(observed_at) if ends else "first")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        (OUR_STOP, True),
        ((*OUR_STOP, StateChange(151.0, "stopped", generation=2)), True),
        ((*OUR_STOP, StateChange(151.0, "stopped")), False),
        ((*OUR_STOP, StateChange(151.0, "running")), False),
        ((*RUNS, StateChange(120.0, "stopped"), OUR_STOP[-1]), False),
        ((*RUNS, StateChange(120.0, "paused"), OUR_STOP[-1]), False),
    ],
)
def test_the_stop_of_the_plan_itself_is_left_out(changes, same):
    pin = pin_state("running", RUNS)
    now = compare_state(pin, "stopped", changes, stopped_at=150.0, altering=True)
    assert (now == pin) is same


def test_a_connector_that_was_stopped_already_was_stopped_by_others():
    pin = pin_state("running", RUNS)
    assert compare_state(pin, "stopped", OUR_STOP, altering=True) not in {pin, None}


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_the_stop_of_the_plan_itself_is_left_out_whatever_clock_wrote_it(skew_s):
    pin = pin_state("running", RUNS)
    changes = (*RUNS, StateChange(1150.0 + skew_s, "stopped"))
    assert compare_state(pin, "stopped", changes, stopped_at=1150.0, altering=True) == pin


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_others_requested_is_reported_by_its_place_in_the_topic(skew_s):
    """Two workers write a connector's statuses, each by a clock of its own."""
    runs = StateChange(1000.0, "running")
    toggled = (
        StateChange(1100.0 + skew_s, "stopped"),
        StateChange(1101.0 + skew_s, "running"),
    )
    pin = pin_state("running", (runs,))
    assert compare_state(pin, "running", (runs, *toggled)) == StatePin("running", toggled[1].at, 0)
    pin = pin_state("running", (*toggled, runs))
    assert compare_state(pin, "running", (*toggled, runs)) == pin


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_deletion_is_reported_by_its_place_in_the_topic(skew_s):
    runs = StateChange(1000.0, "running")
    deleted = (StateChange(1100.0 + skew_s, "unassigned"), StateChange(1101.0 + skew_s, DELETED))
    pin = pin_state("running", (runs,))
    assert compare_incarnation("first", pin, (runs, *deleted)) == repr(1101.0 + skew_s)
    pin = pin_state("running", (*deleted, runs))
    assert compare_incarnation("first", pin, (*deleted, runs)) == "first"


def test_a_record_that_was_not_observed_to_follow_another_is_later_if_no_clock_explains_it():
    pin = pin_state("running", (StateChange(1000.0, "running", generation=4),))
    within = (StateChange(1600.0, "running", generation=4),)
    assert compare_state(pin, "running", within) is None
    assert compare_state(pin, "stopped", within) == StatePin("stopped", None)
    beyond = (StateChange(1600.1, "running", generation=4),)
    assert compare_state(pin, "running", beyond) == StatePin("running", 1600.1, 4)
    before = (StateChange(399.0, "running", generation=4),)
    assert compare_state(pin, "running", before) == pin
    stopped = (StateChange(1100.0, "stopped", generation=4), StateChange(1101.0, DELETED))
    assert compare_state(pin, "running", stopped) is None


def test_a_request_that_rest_reported_before_the_topic_is_the_pinned_one():
    pin = pin_state("paused", RUNS)
    paused = (*RUNS, StateChange(101.0, "paused"))
    assert compare_state(pin, "paused", paused) == pin
    resumed = (*paused, StateChange(102.0, "running"))
    assert compare_state(pin, "running", resumed) == StatePin("running", 102.0, 0)


@pytest.mark.parametrize("pin", [StatePin("running", 1.5), StatePin("paused", 2.5, 7)])
def test_a_pin_is_read_as_it_is_written(pin):
    assert parse_pin(pin.text) == pin


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "9f" * 32,
        "failed@1.0",
        "running@",
        "running@soon",
        "running@1.0@",
        "running@1.0@x",
    ],
)
def test_a_pin_of_another_form_is_none(text):
    assert parse_pin(text) is None
