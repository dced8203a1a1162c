"""Acted out: checkpoints that stand still while syncs and groups move on."""

from __future__ import annotations

import pytest

from lab.stories import failover
from tests.real.daemon_series import eventually, samples
from tests.real.observed_findings import Stage, said

pytestmark = [pytest.mark.real, pytest.mark.full]

STALE = "checkpoints_stale"


def test_checkpoints_that_are_no_longer_written_are_found(stage: Stage) -> None:
    with stage.flow("moving", records=30) as flow:
        checkpoints = failover.begin(failover.Checkpoints(flow))
        eventually(
            stage.product,
            "its checkpoints",
            lambda: samples(
                stage.product, "mm2_checkpoint_last_timestamp_seconds", group=checkpoints.group
            ),
        )
        expected = f"{STALE} {flow.source}->{flow.target}"
        with stage.story(expected) as story:
            action = failover.stopped(checkpoints)
            finding = story.await_finding(expected, action.at)
            assert checkpoints.group in said(finding)
            failover.resumed(checkpoints)
        stage.lab.delete(checkpoints.connector)
