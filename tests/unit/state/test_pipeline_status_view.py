from offsetwatch.model.history_documents import FeedStatus, PipelineStatus
from offsetwatch.model.observations import PipelineStatusRead
from offsetwatch.state.history_documents import PipelineBook

NOON = 1_795_262_400.0
FEED = FeedStatus("east", decoded=9, undecodable=1, behind=4, gaps=2)
STATUS = PipelineStatus(batch_at=NOON, feeds=(FEED,), errors=(("reading", 1),))


def book(status: PipelineStatus | None = STATUS) -> PipelineBook:
    built = PipelineBook(fresh_s=60.0)
    built.read(PipelineStatusRead(status))
    return built


def test_what_was_read_is_shown_while_its_last_batch_is_recent():
    assert book().view(NOON + 60).status == STATUS


def test_how_far_it_is_behind_disappears_with_age_and_nothing_else_does():
    status = book().view(NOON + 61).status
    assert status is not None
    (feed,) = status.feeds
    assert (feed.behind, feed.decoded, feed.undecodable, feed.gaps) == (None, 9, 1, 2)
    assert (status.batch_at, status.errors) == (NOON, STATUS.errors)


def test_a_batch_far_in_the_future_tells_nothing_of_now():
    status = book().view(NOON - 61).status
    assert status is not None
    assert [feed.behind for feed in status.feeds] == [None]


def test_without_a_batch_nobody_knows_how_far_it_is():
    status = book(PipelineStatus(feeds=(FEED,))).view(NOON).status
    assert status is not None
    assert [feed.behind for feed in status.feeds] == [None]


def test_a_file_that_is_gone_takes_everything_with_it():
    gone = book()
    gone.read(PipelineStatusRead(None))
    assert gone.view(NOON).status is None


def test_files_that_nobody_could_read_are_counted_through_those_that_could():
    observed = book()
    for reading in (PipelineStatusRead(None, unreadable=True), PipelineStatusRead(STATUS)) * 2:
        observed.read(reading)
    assert observed.view(NOON).status == STATUS
    assert observed.view(NOON).unreadable == 2
