"""Every story in this folder ends as its expectation says. See README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.stage import run_scenario

pytestmark = pytest.mark.slow

STORIES = sorted(path.parent for path in Path(__file__).parent.glob("*/world.yaml"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_a_story_ends_as_expected(story: Path):
    result, history = run_scenario(story)
    assert history.last is not None
    assert history.last.ready, history.last.waiting_for
    assert result == []
