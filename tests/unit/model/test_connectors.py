"""States come before verdicts, and the most urgent first."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import (
    CONDITION_ORDER,
    STATE_ORDER,
    STATES,
    compute_urgency,
    find_worst_state,
    format_condition,
)
from offsetwatch.model.findings import Verdict


def test_every_state_and_verdict_has_a_place():
    assert {*STATES} == {*STATE_ORDER}
    assert {*STATES, *(verdict.value for verdict in Verdict)} == {*CONDITION_ORDER}


@pytest.mark.parametrize(
    ("connector", "tasks", "worst"),
    [
        ("running", ("running", "failed"), "failed"),
        ("running", ("running", "unassigned"), "unassigned"),
        ("running", ("running", "restarting"), "restarting"),
        ("running", (), "running"),
        ("failed", ("running",), "failed"),
        ("paused", ("running", "unassigned"), "paused"),
        ("paused", ("failed",), "failed"),
        ("stopped", (), "stopped"),
        ("unassigned", ("running",), "unassigned"),
        ("unknown", ("running",), "unknown"),
        ("running", ("odd", "running"), "running"),
        (None, (), None),
    ],
)
def test_the_worst_state_counts(connector, tasks, worst):
    assert find_worst_state(connector, tasks) == worst


@pytest.mark.parametrize(
    ("state", "verdict", "output"),
    [
        ("failed", "unknown", "FAILED (unknown)"),
        ("failed", "failed", "FAILED"),
        ("failed", "stalled", "FAILED (stalled)"),
        ("unassigned", None, "unassigned"),
        ("paused", "paused", "paused"),
        ("stopped", "idle", "stopped (idle)"),
        ("running", "ok", "ok"),
        ("running", None, "running"),
        (None, "silent", "silent"),
        (None, None, None),
    ],
)
def test_the_state_comes_first(state, verdict, output):
    assert format_condition(state, verdict) == output


def test_the_most_urgent_comes_first():
    order = [
        ("failed", "ok"),
        ("running", "silent"),
        ("unassigned", "ok"),
        ("running", None),
        ("paused", "idle"),
        ("stopped", "stopped"),
        ("running", "ok"),
        ("running", "idle"),
    ]
    assert sorted(order, key=lambda item: compute_urgency(*item)) == order


def test_what_is_not_known_is_not_taken_for_well():
    assert (
        compute_urgency(None, None)
        == compute_urgency("running", "unknown")
        < compute_urgency("running", "ok")
    )
    assert compute_urgency("odd", "ok") == compute_urgency("running", "unknown")
