"""Acted out: a daemon that is killed in the middle of incidents, and one to which none happens."""

from __future__ import annotations

import time

import pytest

from lab import Lab, Load
from lab.check import compare
from lab.cluster.connector_configs import MM2_HEARTBEAT, MM2_SOURCE
from lab.cluster.lab import WEST_GROUP
from lab.stories import Flow, losses, stalls
from tests.real.observed_findings import INTERVAL_S, Found, Stage, named

pytestmark = [pytest.mark.real, pytest.mark.full]

ORDERS = [("orders", 0), ("orders", 1), ("orders", 2)]


def test_a_daemon_killed_mid_incident_finds_the_same_again_and_calls_nothing_resolved(
    stage: Stage,
) -> None:
    with stage.flow("kept") as lost, stage.flow("muted") as denied:
        killed_mid_incident(stage, lost, denied)


def killed_mid_incident(stage: Stage, lost: Flow, denied: Flow) -> None:
    expected = (f"mm2_records_lost {lost.connector}", f"mm2_silent_stall {denied.connector}")
    more = Load(stage.lab, rate_per_s=2.0, topics={denied.topic: 1})
    with stage.story(*expected) as story, more:
        first = losses.retention_overtakes(lost)
        second = stalls.reading_denied(denied)
        before = {
            named(result): result["since"]
            for result in (
                story.await_finding(expected[0], first.at),
                story.await_finding(expected[1], second.at),
            )
        }
        stage.product.kill_daemon()
        killed_at = time.time()
        stage.product.start_daemon()
        for required in expected:
            story.await_finding(required, killed_at)
        # It is ready by now; three intervals more, in which nothing may come or go.
        story.lasts(INTERVAL_S * 3)
        for visibility in story.answers_since(killed_at):
            since = {named(finding): finding["since"] for finding in visibility.findings}
            assert since == before or not visibility.ready
            assert since.items() <= before.items()
        losses.copy_on(lost)
        more.stop()
        stalls.reading_allowed(denied)


def test_a_healthy_lab_under_load_with_restarts_and_a_rebalance_has_no_finding(
    stage: Stage,
) -> None:
    lab = stage.lab
    with stage.story() as story:
        lab.restart(MM2_SOURCE)
        lab.restart("file-source")
        story.lasts(INTERVAL_S * 5)
        move_on(lab)
        lab.terminate("connect-2")
        story.lasts(INTERVAL_S * 4)
        move_on(lab)
        lab.start_process("connect-2")
        story.lasts(INTERVAL_S * 4)
        move_on(lab)
        lab.restart("file-sink")
        lab.restart(MM2_HEARTBEAT)
        story.lasts(INTERVAL_S * 6)
        results: list[Found] = [
            finding
            for visibility in story.answers_since(story.begun_at)
            for finding in visibility.findings
        ]
        assert results == []


def move_on(lab: Lab) -> None:
    """A consumer group upstream has read all there is."""
    ends = compare.log_ends(lab, "west", ORDERS)
    lab.commit("west", WEST_GROUP, "orders", {number: end for (_, number), end in ends.items()})
