"""Two looks at one connector know different amounts, and only evidence tells that it changed."""

from __future__ import annotations

import pytest

from exporter.model.connectors import DELETED, StateChange
from exporter.remedy.state_pins import (
    StatePin,
    compare_incarnation,
    compare_state,
    deleted_at,
    parse_pin,
    pin_state,
)

RUNS = (StateChange(100.0, "running"),)
FAILED = (*RUNS, StateChange(120.0, "failed"))
TOGGLED = (*RUNS, StateChange(130.0, "stopped"), StateChange(131.0, "running"))
LET_GO = StateChange(139.0, "unassigned")
RECREATED = (*RUNS, LET_GO, StateChange(140.0, DELETED), StateChange(141.0, "running"))
REWRITTEN = (*RUNS, StateChange(145.0, DELETED), StateChange(146.0, "running"))
OUR_STOP = (*RUNS, StateChange(149.5, "stopped"))


@pytest.mark.parametrize("before", [(), RUNS, FAILED, FAILED[1:]])
@pytest.mark.parametrize("after", [RUNS, FAILED, REWRITTEN])
@pytest.mark.parametrize("states", [("running", "running"), ("failed", "unassigned")])
def test_looks_of_any_depth_at_one_that_nobody_touched_contradict_nothing(before, after, states):
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
    assert deleted_at(RECREATED) == [140.0]


def test_lists_that_agree_tell_of_a_deletion_since():
    pin = pin_state("running", ())
    assert compare_incarnation("first", pin, (), unlisted_at=[7.0], created_at=6.0) == "7.0"
    assert compare_incarnation("7.0", pin, (), unlisted_at=[7.0], created_at=8.0) == "7.0"


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        (OUR_STOP, True),
        ((*OUR_STOP, StateChange(151.0, "stopped")), True),
        ((*OUR_STOP, StateChange(151.0, "running")), False),
        ((*RUNS, StateChange(120.0, "stopped"), OUR_STOP[-1]), False),
        ((*RUNS, StateChange(120.0, "paused"), OUR_STOP[-1]), False),
    ],
)
def test_the_stop_of_the_plan_itself_is_left_out(changes, same):
    pin = pin_state("running", RUNS)
    now = compare_state(pin, "stopped", changes, stopped_at=150.0, altering=True)
    assert (now == pin) is same


@pytest.mark.parametrize("text", [None, "", "9f" * 32, "failed@1.0", "running@", "running@soon"])
def test_a_pin_of_another_form_is_none(text):
    assert parse_pin(text) is None
