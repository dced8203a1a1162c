"""Every story in this folder ends as its expectation says. See README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.stage import run_scenario

pytestmark = pytest.mark.slow

STORIES = sorted(path.parent for path in Path(__file__).parent.glob("*/world.yaml"))
# Days of virtual time, or a hundred inputs for hours: a third of the time of all stories.
LONG = {
    "00-quiet-day",
    "00-quiet-day-in-a-hostile-world",
    "05-source-hangs-unnoticed",
    "31-address-leads-to-an-empty-connect",
    "31-failed-task-without-status",
    "40-blue-stopped-green-copies",
    "40-busy-day-in-a-hostile-world",
    "40-rest-is-all-there-is",
    "60-database-is-quiet",
}


def build_param(story: Path) -> object:
    marks = [pytest.mark.full] if story.name in LONG else []
    return pytest.param(story, id=story.name, marks=marks)


@pytest.mark.parametrize("story", [build_param(story) for story in STORIES])
def test_a_story_ends_as_expected(story: Path):
    result, history = run_scenario(story)
    assert history.last is not None
    assert history.last.ready, history.last.waiting_for
    assert result == []
