"""Acted out: MM2 and a sink that do not get on, each for another reason."""

from __future__ import annotations

import pytest

from lab import Load
from lab.stories import sinks, stalls
from tests.real.daemon_series import becomes
from tests.real.observed_findings import Stage, said

pytestmark = pytest.mark.real

POISON = "poison_suspected"
FAILED = "task_failed"
SILENT = "mm2_silent_stall"
STALLED = "mm2_stalled"


@pytest.mark.full
def test_a_record_that_mm2_cannot_write_is_suspected_after_the_third_restart(
    stage: Stage,
) -> None:
    with stage.flow("large", records=10, config=stalls.LARGE_TOPIC) as flow:
        expected = f"{POISON} {flow.connector}"
        with stage.story(
            expected, also=(f"{FAILED} {flow.connector}", f"{STALLED} {flow.connector}")
        ) as story:
            poison = stalls.too_large(flow)
            finding = story.await_finding(expected, poison.deed.at)
            assert poison.offset == 10
            assert "RecordTooLarge" in said(finding)
            assert "9" in said(finding)
            stalls.allow_large(flow)


def test_mm2_that_may_no_longer_read_upstream_is_found_although_everything_says_running(
    stage: Stage,
) -> None:
    with stage.flow("denied", records=10) as flow:
        expected = f"{SILENT} {flow.connector}"
        # Whoever watches may not read the topic either, so only a log end that moves on says that
        # there is something to copy.
        more = Load(stage.lab, rate_per_s=2.0, topics={flow.topic: 1})
        with stage.story(expected) as story, more:
            action = stalls.reading_denied(flow)
            finding = story.await_finding(expected, action.at)
            assert finding["severity"] == "critical"
            more.stop()
            stalls.reading_allowed(flow)


@pytest.mark.full
def test_a_record_that_a_sink_cannot_take_is_suspected_after_the_third_restart(
    stage: Stage,
) -> None:
    sink = sinks.begin(sinks.Sink(stage.lab, "poisoned"))
    becomes(stage.product, 0, "sink_lag_records", connector=sink.connector)
    expected = f"{POISON} {sink.connector}"
    with stage.story(expected, also=(f"{FAILED} {sink.connector}",)) as story:
        poison = sinks.poisoned(sink)
        finding = story.await_finding(expected, poison.at)
        assert poison.offset == poison.committed == 5
        assert "5" in said(finding)
        sinks.tolerated(sink)
    stage.lab.delete(sink.connector)
