"""What runs against a real broker say of themselves while and after they run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.pipeline_status import read_status
from offsetwatch.model.history_documents import FeedStatus, PipelineStatus
from tests.history import test_stream_real
from tests.history.test_stream_real import FILE, WAIT_S_MAX, StreamedTopics, eventually

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

streamed = test_stream_real.streamed


def said(environment: StreamedTopics) -> PipelineStatus:
    return read_status(environment.base) or PipelineStatus()


def feed(environment: StreamedTopics) -> FeedStatus | None:
    return next(iter(said(environment).feeds), None)


def test_runs_say_what_they_stored_and_how_far_they_are(streamed: StreamedTopics) -> None:
    from offsetwatch.history.pipeline import run

    streamed.commit(*((FILE, b'{"position":%d}' % n, n % 3) for n in range(20)))
    streamed.commit((b"\xffjunk", b"{", 1))
    run.run_available_now(streamed.spec())  # three batches
    first = said(streamed)
    assert first.feeds == (FeedStatus("east", decoded=20, undecodable=1, behind=0, gaps=0),)
    assert first.errors == ()
    assert first.batch_at is not None
    assert dict(first.tables) == dict.fromkeys(("bronze", "silver", "gold"), first.batch_at)

    streamed.commit((FILE, b'{"position":99}', 0))
    with pytest.raises(HistoryError, match="which was not read"):
        run.run_available_now(streamed.spec(), {streamed.offsets: {9: 0}})
    failed = said(streamed)
    assert failed.feeds == (FeedStatus("east", decoded=21, undecodable=1, behind=0, gaps=0),)
    assert dict(failed.errors) == {"reading": 1}
    tables = dict(failed.tables)
    assert tables["gold"] == tables["silver"] == first.batch_at < tables["bronze"]

    run.run_available_now(streamed.spec(), {streamed.offsets: {0: 1}})
    assert dict(said(streamed).errors) == {"reading": 1}
    tables = dict(said(streamed).tables)
    assert "gold" not in tables
    assert tables["silver"] == tables["bronze"]


def test_a_continuous_run_says_so_after_every_batch_and_while_it_waits(
    streamed: StreamedTopics,
) -> None:
    from offsetwatch.history.pipeline import run

    stop = threading.Event()
    spec = streamed.spec(cadence_s=1.0)
    runner = threading.Thread(target=lambda: run.run_continuous(spec, stop))
    runner.start()
    try:
        streamed.commit((FILE, b'{"position":1}', 0))
        eventually("a record counted", lambda: (it := feed(streamed)) and it.decoded, 1)
        moment = said(streamed).batch_at
        assert moment is not None
        eventually("it waiting", lambda: (said(streamed).batch_at or 0) > moment, True)
        eventually(
            "gold with it", lambda: dict(said(streamed).tables).get("gold", 0) > moment, True
        )
        streamed.commit((FILE, b'{"position":2}', 0), (b"\xffjunk", b"{", 1))
        expected = FeedStatus("east", decoded=2, undecodable=1, behind=0, gaps=0)
        eventually("the next two counted", lambda: feed(streamed), expected)
    finally:
        stop.set()
        runner.join(WAIT_S_MAX)
    assert not runner.is_alive()
    assert feed(streamed) == expected
