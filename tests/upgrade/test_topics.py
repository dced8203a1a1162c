"""A journal that replicas of an earlier version kept in a topic, followed by this code."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from offsetwatch.errors import JournalDamaged, PlanUnfinished
from offsetwatch.remedy.journal.journal import STANDALONE_VERSION, VERSION, Journal
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.journal_records import PlanOpened
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, decode_line, encode_line
from tests.unit.remedy.plans import plan_of
from tests.upgrade import journals, opened, topics


@pytest.fixture(params=opened.milestones("topic"))
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def values(milestone: str) -> list[bytes]:
    return opened.topic(milestone)


@pytest.fixture
def expected(milestone: str) -> dict[str, Any]:
    return opened.expected(milestone, "topic")


def followed(folder: Path, *batches: list[bytes]) -> Path:
    """The copy of a replica that is new here."""
    with closing(JournalTopicCopy(folder, topics.TOPIC, topics.TOPIC_ID)) as copy:
        for values in batches:
            copy.append_lines(values, copy.progress.position + len(values))
    return folder


def test_a_new_replica_has_of_an_older_topic_what_those_of_then_had(tmp_path, values, expected):
    half = len(values) // 2
    report = topics.describe(followed(tmp_path / "state", values[:half], values[half:]))
    assert report == expected
    assert report["records"] == len(values)


def test_it_makes_the_backups_that_others_had_written(tmp_path, values):
    folder = followed(tmp_path / "state", values)
    retained = len(list((folder / "backups").iterdir()))
    assert retained > 0
    answer = journals.typed_error(folder, "journal", "verify")
    assert f"as written: {retained} of {retained} backups" in answer


def test_a_record_would_be_written_today_as_it_was_then(values):
    assert [encode_line(decode_line(value)) for value in values] == values


def test_what_was_open_or_skipped_then_is_locked_for_a_new_replica(tmp_path, values, expected):
    folder = followed(tmp_path / "state", values)
    still_open = [row["plan_id"] for row in expected["plans"] if row["open"]]
    assert still_open
    with closing(JournalTopicCopy(folder, topics.TOPIC, topics.TOPIC_ID)) as copy:
        for plan_id in still_open:
            history = build_plan_history(copy.records(plan_id))
            assert history is not None
            assert (
                copy.open_plan(history.plan.subject.store, history.plan.subject.connector)
                == plan_id
            )
        assert expected["skips"]
        for key, plan_id in expected["skips"].items():
            assert copy.skipped_by(key) == plan_id
    plan = msgspec.structs.replace(plan_of(plan_id="another"), subject=history.plan.subject)
    with (
        closing(Journal(folder, lambda lines: None)) as leading,
        pytest.raises(PlanUnfinished, match=still_open[-1]),
    ):
        leading.open(plan, PlanOpened(at=1.0, plan=plan))


def test_who_leads_now_goes_on_with_an_older_topic_and_others_follow(tmp_path, values):
    leader = followed(tmp_path / "leader", values)
    more = topics.led(leader, "replica-2", "led-now")
    follower = followed(tmp_path / "follower", [*values, *more])
    assert topics.describe(follower) == topics.describe(leader)
    # What it has written itself comes back to it from the topic.
    followed(leader, more)


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        (VERSION + 1, "newer offsetwatch"),
        (STANDALONE_VERSION - 1, f"reads {STANDALONE_VERSION} to {VERSION}"),
    ],
)
def test_a_record_of_another_version_is_refused_with_all_that_came_with_it(
    tmp_path, values, expected, version, answer
):
    last = msgspec.structs.replace(decode_line(values[-1]), v=version)
    with closing(JournalTopicCopy(tmp_path / "state", topics.TOPIC, topics.TOPIC_ID)) as copy:
        with pytest.raises(JournalDamaged, match=answer):
            copy.append_lines([*values[:-1], encode_line(last)], len(values))
        assert copy.progress == (0, 0)
        copy.append_lines(values, len(values))
        assert list(copy.head) == expected["head"]
