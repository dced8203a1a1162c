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


def build_histories(
    state: str, *, at: float = 900.0, task: int | None = 0
) -> tuple[StateHistory, ...]:
    return (StateHistory("lab", "files", task, (StateChange(at, state),)),)


def listed(state: str = "running", task: str = "running"):
    return (replace(source("files"), state=state, tasks=(Task(0, task),)),)


def answers(checks: StateConsistencyChecks, count: int, histories, *, at: float = START, **states):
    for number in range(count):
        checks.read(listed(**states), histories, at + 10 * number)


@pytest.mark.parametrize("task", [None, 0])
def test_a_difference_lasts_from_the_third_answer_on(task):
    checks = StateConsistencyChecks()
    answers(checks, DIFFERING_ANSWERS_MIN - 1, build_histories("failed", task=task))
    assert checks.doubts == {}
    answers(checks, 1, build_histories("failed", task=task), at=START + 20)
    found = StateDifference(task, "running", "failed", since=START, at=START + 20)
    assert checks.doubts == {"files": found}


def test_while_the_topic_has_news_none_of_it_lasts():
    checks = StateConsistencyChecks()
    for number in range(10):
        answers(checks, 2, build_histories("failed", at=900.0 + number), at=START + 20 * number)
    assert checks.doubts == {}


def test_an_answer_that_agrees_begins_the_count_again():
    checks = StateConsistencyChecks()
    for number in range(5):
        answers(checks, 2, build_histories("failed"), at=START + 30 * number)
        answers(checks, 1, build_histories("failed"), at=START + 30 * number + 20, task="failed")
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
    answers(checks, 5, build_histories(topic), task=rest)
    assert checks.doubts == {}


def test_what_rest_does_not_list_is_not_compared():
    checks = StateConsistencyChecks()
    answers(checks, 5, build_histories("failed", task=7))
    assert checks.doubts == {}


def test_doubt_is_over_an_hour_after_the_last_difference():
    checks = StateConsistencyChecks()
    answers(checks, 3, build_histories("failed"))
    last = START + 20
    for second in range(60, int(DOUBT_S), 60):
        assert checks.read(listed(), build_histories("running"), last + second) == frozenset()
    assert set(checks.doubts) == {"files"}
    assert checks.read(listed(), build_histories("running"), last + DOUBT_S) == {"files"}
    assert checks.doubts == {}


def doubting() -> StateConsistencyChecks:
    """Checks with a doubt of `files` from before a restart."""
    difference = StateDifference(0, "running", "failed", since=START, at=START)
    return StateConsistencyChecks(doubts={"files": difference}, topic="east/status")


def test_after_a_restart_both_have_to_agree_for_an_hour():
    checks, began = doubting(), START + 9 * DOUBT_S
    assert checks.read(listed(), build_histories("running"), began) == frozenset()
    assert checks.doubts["files"].since == START
    for second in range(60, int(DOUBT_S), 60):
        assert checks.read(listed(), build_histories("running"), began + second) == frozenset()
    assert checks.read(listed(), build_histories("running"), began + DOUBT_S) == {"files"}


@pytest.mark.parametrize("interrupted", ["topic", "answers"])
def test_an_hour_without_a_comparison_is_no_agreement(interrupted):
    checks = StateConsistencyChecks()
    answers(checks, 3, build_histories("failed"))
    if interrupted == "topic":
        for minute in range(120):
            checks.read(listed(), (), START + 60 * minute)
    later = START + 2 * DOUBT_S
    assert checks.read(listed(), build_histories("running"), later) == frozenset()
    for minute in range(1, 60):
        assert checks.read(listed(), build_histories("running"), later + 60 * minute) == frozenset()
    assert checks.read(listed(), build_histories("running"), later + DOUBT_S) == {"files"}


def test_what_was_doubted_of_one_topic_does_not_concern_another():
    checks = doubting()
    checks.follow("east/status")
    assert set(checks.doubts) == {"files"}
    checks.follow("east/other-status")
    assert (checks.doubts, checks.topic) == ({}, "east/other-status")
