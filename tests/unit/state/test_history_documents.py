"""What is usual counts while it is whole and not too old, and is never guessed."""

from __future__ import annotations

import pytest

from offsetwatch.model.history_documents import (
    HOURS,
    TOO_OLD_S,
    Baseline,
    Baselines,
    FeedStatus,
    PipelineStatus,
)
from offsetwatch.model.observations import BaselinesRead, PipelineStatusRead
from offsetwatch.state.history_documents import NO_BASELINES, BaselinesBook, PipelineBook

KNOWN = Baseline(
    connect_cluster="lab",
    connector="c",
    since=0.0,
    until=1000.0,
    advances=10,
    per_hour=(2.0,) * HOURS,
    pause_advances=5.0,
    pause_s=None,
    quantiles=(1.0, 2.0, 4.0),
)
READ = BaselinesRead(Baselines(made_at=1100.0, until=1000.0, connectors=(KNOWN,)))


@pytest.fixture
def baselines_book() -> BaselinesBook:
    return BaselinesBook()


def test_before_anything_is_published_nothing_is_said(baselines_book):
    assert baselines_book.view(0.0) == NO_BASELINES


def test_it_counts_for_two_weeks(baselines_book):
    baselines_book.read(READ)
    assert baselines_book.view(1000.0 + TOO_OLD_S).of == {("lab", "c"): KNOWN}
    old = baselines_book.view(1001.0 + TOO_OLD_S)
    assert (old.valid, old.of) == (False, {})


def test_a_damaged_one_takes_what_was_known_away(baselines_book):
    baselines_book.read(READ)
    baselines_book.read(BaselinesRead(None, damaged=True))
    assert (baselines_book.view(1000.0).valid, baselines_book.view(1000.0).of) == (False, {})
    baselines_book.read(READ)
    assert baselines_book.view(1000.0).valid
    baselines_book.read(BaselinesRead(None))
    assert baselines_book.view(1000.0) == NO_BASELINES


def test_what_was_taken_away_does_not_grow_old(baselines_book):
    baselines_book.read(READ)
    baselines_book.read(BaselinesRead(None))
    assert baselines_book.view(2000.0 + TOO_OLD_S) == NO_BASELINES


# --- pipeline status view ------------------------------------------------------------------------

NOON = 1_795_262_400.0
FEED = FeedStatus("east", decoded=9, undecodable=1, behind=4, gaps=2)
STATUS = PipelineStatus(batch_at=NOON, feeds=(FEED,), errors=(("reading", 1),))


def pipeline_book(status: PipelineStatus | None = STATUS) -> PipelineBook:
    built = PipelineBook(fresh_s=60.0)
    built.read(PipelineStatusRead(status))
    return built


def test_what_was_read_is_shown_while_its_last_batch_is_recent():
    assert pipeline_book().view(NOON + 60).status == STATUS


def test_how_far_it_is_behind_disappears_with_age_and_nothing_else_does():
    status = pipeline_book().view(NOON + 61).status
    assert status is not None
    (feed,) = status.feeds
    assert (feed.behind, feed.decoded, feed.undecodable, feed.gaps) == (None, 9, 1, 2)
    assert (status.batch_at, status.errors) == (NOON, STATUS.errors)


def test_a_batch_far_in_the_future_reports_nothing_of_now():
    status = pipeline_book().view(NOON - 61).status
    assert status is not None
    assert [feed.behind for feed in status.feeds] == [None]


def test_without_a_batch_the_distance_of_a_feed_is_unknown():
    status = pipeline_book(PipelineStatus(feeds=(FEED,))).view(NOON).status
    assert status is not None
    assert [feed.behind for feed in status.feeds] == [None]


def test_a_file_that_is_gone_takes_everything_with_it():
    gone = pipeline_book()
    gone.read(PipelineStatusRead(None))
    assert gone.view(NOON).status is None


def test_unreadable_files_are_counted_across_readable_ones():
    observed = pipeline_book()
    for reading in (PipelineStatusRead(None, unreadable=True), PipelineStatusRead(STATUS)) * 2:
        observed.read(reading)
    assert observed.view(NOON).status == STATUS
    assert observed.view(NOON).unreadable == 2
