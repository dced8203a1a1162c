"""Acted out: positions that were lost, or kept against expectation."""

from __future__ import annotations

import pytest

from lab.stories import losses, resets
from tests.real.observed_findings import Stage, said

pytestmark = pytest.mark.real

HALF = "half_reset"
RECOPY = "recopy"
REMNANT = "remnant_offsets"


@pytest.mark.full
def test_offsets_reset_without_their_syncs_are_half_a_reset(stage: Stage) -> None:
    with stage.flow("half", records=30) as flow, stage.story(f"{HALF} {flow.connector}") as story:
        action = resets.offsets_reset(flow)
        story.await_finding(f"{HALF} {flow.connector}", action.at)
        losses.copy_on(flow)


@pytest.mark.full
def test_syncs_deleted_without_their_offsets_are_half_a_reset(stage: Stage) -> None:
    with (
        stage.flow("unsynced", records=30) as flow,
        stage.story(f"{HALF} {flow.connector}") as story,
    ):
        action = resets.syncs_deleted(flow)
        story.await_finding(f"{HALF} {flow.connector}", action.at)
        resets.recreate_syncs(flow)


def test_a_restart_that_copies_everything_again_is_found_with_how_far_it_fell(
    stage: Stage,
) -> None:
    with (
        stage.flow("again", records=200) as flow,
        # It is reset by half until the task has begun again: more than two intervals under load.
        stage.story(f"{RECOPY} {flow.connector}", also=(f"{HALF} {flow.connector}",)) as story,
    ):
        action = resets.copied_again(flow)
        finding = story.await_finding(f"{RECOPY} {flow.connector}", action.at)
        assert "199" in said(finding)


@pytest.mark.full
def test_a_connector_that_goes_on_from_an_earlier_incarnation_is_found(stage: Stage) -> None:
    with (
        stage.flow("remnant", records=30) as flow,
        stage.story(f"{REMNANT} {flow.connector}") as story,
    ):
        action = resets.recreate_connector(flow)
        story.await_finding(f"{REMNANT} {flow.connector}", action.at)
        flow.produce(10)
