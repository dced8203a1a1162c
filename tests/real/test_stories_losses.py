"""Acted out: records that MM2 can never copy any more, and topics that are not what they were."""

from __future__ import annotations

import pytest

from lab.stories import losses
from tests.real.daemon_series import becomes, total
from tests.real.observed_findings import Stage, said

pytestmark = pytest.mark.real

LOST = "mm2_records_lost"
RECREATED = "mm2_topic_recreated"
AHEAD = "mm2_position_ahead"
RECOPY = "recopy"


def test_retention_that_overtakes_mm2_is_found_with_the_exact_range(stage: Stage) -> None:
    with (
        stage.flow("retention", records=30) as flow,
        stage.story(f"{LOST} {flow.connector}") as story,
    ):
        action = losses.retention_overtakes(flow)
        finding = story.await_finding(f"{LOST} {flow.connector}", action.at)
        assert action.lost == (30, 54)
        assert all(number in said(finding) for number in ("30", "54", "25"))
        where = {"connector": flow.connector, "topic": flow.topic, "partition": "0"}
        becomes(stage.product, 25, "mm2_lost_records_total", **where, cause="retention")
        losses.copy_on(flow)
        story.cleared()
        # Counted once, and not again by the jump that follows.
        assert total(stage.product, "mm2_lost_records_total", **where) == 25
        assert total(stage.product, "source_offset_rewinds_total", connector=flow.connector) == 0


@pytest.mark.full
def test_a_topic_recreated_and_smaller_is_found(stage: Stage) -> None:
    with (
        stage.flow("smaller", records=40) as flow,
        stage.story(f"{RECREATED} {flow.connector}") as story,
    ):
        action = losses.recreated_smaller(flow)
        assert action.position == 9
        story.await_finding(f"{RECREATED} {flow.connector}", action.at)
        becomes(stage.product, 1, "mm2_topic_recreations_total", connector=flow.connector)
        assert not total(stage.product, "mm2_lost_records_total", connector=flow.connector)


@pytest.mark.full
def test_a_topic_recreated_that_has_grown_past_the_position_is_found_with_what_is_skipped(
    stage: Stage,
) -> None:
    with stage.flow("grown", records=40) as flow:
        expected = (f"{RECREATED} {flow.connector}", f"{LOST} {flow.connector}")
        with stage.story(*expected) as story:
            action = losses.recreated_grown(flow)
            assert action.lost == (0, 39)
            story.await_finding(expected[0], action.at)
            # Nothing is lost before MM2 has gone on behind the old position.
            where = {"connector": flow.connector, "topic": flow.topic, "partition": "0"}
            assert not total(stage.product, "mm2_lost_records_total", **where)
            copied = losses.copy_on(flow)
            assert flow.copies() == 60
            finding = story.await_finding(expected[1], copied.at)
            assert all(number in said(finding) for number in ("0", "39", "40"))
            becomes(stage.product, 40, "mm2_lost_records_total", **where, cause="recreated")


@pytest.mark.full
def test_an_offset_set_past_the_end_is_found_before_anybody_resumes(stage: Stage) -> None:
    with stage.flow("ahead", records=40) as flow, stage.story(f"{AHEAD} {flow.connector}") as story:
        action = losses.patched_ahead(flow)
        finding = story.await_finding(f"{AHEAD} {flow.connector}", action.at)
        assert action.position == 400
        assert all(number in said(finding) for number in ("400", "40"))
        losses.patch(flow, 39)
        losses.copy_on(flow)


@pytest.mark.full
def test_an_offset_past_the_end_that_was_resumed_from_is_found_as_a_second_copy(
    stage: Stage,
) -> None:
    with (
        stage.flow("overshot", records=40) as flow,
        stage.story(f"{AHEAD} {flow.connector}", f"{RECOPY} {flow.connector}") as story,
    ):
        action = losses.patched_ahead(flow)
        story.await_finding(f"{AHEAD} {flow.connector}", action.at)
        copied = losses.copy_on(flow)
        assert flow.copies() == 80
        story.await_finding(f"{RECOPY} {flow.connector}", copied.at)
