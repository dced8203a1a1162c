"""States by REST and in the status topic: which differences last, and when doubt is over."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import StateChange, StateHistory, Task
from offsetwatch.state.connect.state_consistency import (
    DIFFERING_ANSWERS_MIN,
    DOUBT_S,
    StateConsistencyChecks,
)
from offsetwatch.state.snapshot import StateDifference
from tests.changed import replace
from tests.unit.state.worlds import source

START = 1000.0


def told(state: str, *, at: float = 900.0, task: int | None = 0) -> tuple[StateHistory, ...]:
    return (StateHistory("lab", "files", task, (StateChange(at, state),)),)


def listed(state: str = "running", task: str = "running"):
    return (replace(source("files"), state=state, tasks=(Task(0, task),)),)


def answers(checks: StateConsistencyChecks, count: int, histories, *, at: float = START, **states):
    for number in range(count):
        checks.read(listed(**states), histories, at + 10 * number)


@pytest.mark.parametrize("task", [None, 0])
def test_a_difference_lasts_from_the_third_answer_on(task):
    checks = StateConsistencyChecks()
    answers(checks, DIFFERING_ANSWERS_MIN - 1, told("failed", task=task))
    assert checks.doubts == {}
    answers(checks, 1, told("failed", task=task), at=START + 20)
    found = StateDifference(task, "running", "failed", since=START, at=START + 20)
    assert checks.doubts == {"files": found}


def test_while_the_topic_has_news_none_of_it_lasts():
    checks = StateConsistencyChecks()
    for number in range(10):
        answers(checks, 2, told("failed", at=900.0 + number), at=START + 20 * number)
    assert checks.doubts == {}


def test_an_answer_that_agrees_begins_the_count_again():
    checks = StateConsistencyChecks()
    for number in range(5):
        answers(checks, 2, told("failed"), at=START + 30 * number)
        answers(checks, 1, told("failed"), at=START + 30 * number + 20, task="failed")
    assert checks.doubts == {}


@pytest.mark.parametrize(
    ("topic", "rest"),
    [
        ("unassigned", "running"),
        ("restarting", "failed"),
        ("deleted", "running"),
        ("running", "unknown"),
        ("running", "unassigned"),
    ],
)
def test_a_state_that_passes_or_is_unknown_contradicts_nothing(topic, rest):
    checks = StateConsistencyChecks()
    answers(checks, 5, told(topic), task=rest)
    assert checks.doubts == {}


def test_what_rest_does_not_list_is_not_compared():
    checks = StateConsistencyChecks()
    answers(checks, 5, told("failed", task=7))
    assert checks.doubts == {}


def test_doubt_is_over_an_hour_after_the_last_difference():
    checks = StateConsistencyChecks()
    answers(checks, 3, told("failed"))
    last = START + 20
    assert checks.read(listed(), told("running"), last + DOUBT_S - 1) == frozenset()
    assert set(checks.doubts) == {"files"}
    assert checks.read(listed(), told("running"), last + DOUBT_S) == {"files"}
    assert checks.doubts == {}
