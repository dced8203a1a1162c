"""Poll of a source's end: what one attempt puts into the queue, its failure among it."""

from __future__ import annotations

from dataclasses import dataclass, field

from offsetwatch.errors import AccessDenied, ClientError
from offsetwatch.ingest.source_ends import SourceEndPoll, find_request
from offsetwatch.model.observations import (
    InputFailed,
    InputSucceeded,
    SourceEndRead,
    build_source_end_input,
)
from offsetwatch.model.source_ends import (
    ColumnEnd,
    ColumnQuery,
    FileEnd,
    FileState,
    SourceEnd,
    SourceEndRequest,
    SqlEnd,
)
from tests.fakes.clock import VirtualClock

SHOP = build_source_end_input("shop")
END = SqlEnd({})
REQUEST = SourceEndRequest("shop", columns=(ColumnQuery("orders", "id"),))


@dataclass
class FakeReader:
    clock: VirtualClock
    answer: SourceEnd | ClientError = END
    requests: list[SourceEndRequest] = field(default_factory=list)
    closed: bool = False

    def read(self, request: SourceEndRequest) -> SourceEnd:
        self.requests.append(request)
        self.clock.advance(3)
        if isinstance(self.answer, ClientError):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


def test_an_end_is_of_the_time_before_the_request_and_lasts_three_intervals() -> None:
    clock = VirtualClock()
    reader = FakeReader(clock)
    poll = SourceEndPoll("shop", reader, 15.0, clock)
    before = clock.now()
    batch = poll.read(REQUEST)
    assert batch == (
        SourceEndRead("shop", END, before),
        InputSucceeded(SHOP, at=before, lasts_s=57.0),
    )
    assert reader.requests == [REQUEST]


def test_a_failure_is_of_the_input_and_answers_the_request_too() -> None:
    clock = VirtualClock()
    poll = SourceEndPoll("shop", FakeReader(clock, AccessDenied("shop", "no")), 15.0, clock)
    assert poll.answered is None
    assert poll.read(REQUEST) == (InputFailed(SHOP, "denied", "no"),)
    assert poll.answered == REQUEST


def test_a_source_that_fails_is_read_less_often_once_its_end_is_withdrawn_until_it_answers() -> (
    None
):
    clock = VirtualClock()
    reader = FakeReader(clock, AccessDenied("shop", "no"))
    poll = SourceEndPoll("shop", reader, 15.0, clock)
    assert _count_reads(poll, reader, 15) == [1, 2, 3, 5, 9, 13]
    assert poll.answered == REQUEST
    reader.answer = END
    assert _count_reads(poll, reader, 4) == [2, 3, 4]
    reader.answer = AccessDenied("shop", "no")
    assert _count_reads(poll, reader, 5) == [1, 2, 3, 5]


def _count_reads(poll: SourceEndPoll, reader: FakeReader, intervals: int) -> list[int]:
    """The intervals in which the source was asked; in the others nothing is reported of it."""
    rounds = []
    for number in range(1, intervals + 1):
        before = len(reader.requests)
        batch = poll.read(REQUEST)
        if len(reader.requests) > before:
            rounds.append(number)
        assert bool(batch) == (rounds[-1:] == [number])
    return rounds


def test_single_tables_and_files_that_fail_are_named_and_the_rest_goes_on() -> None:
    clock = VirtualClock()
    columns = {
        ColumnQuery("orders", "id"): ColumnEnd(5),
        ColumnQuery("gone", "id"): ColumnEnd(None, error="it does not exist"),
    }
    files = {"lines": FileState(4), "pipe": FileState(None, "it is not a file")}
    for end, detail in (
        (SqlEnd(columns), "'gone': it does not exist"),
        (FileEnd(files), "'pipe': it is not a file"),
    ):
        batch = SourceEndPoll("shop", FakeReader(clock, end), 15.0, clock).read(REQUEST)
        assert isinstance(batch[1], InputSucceeded)
        assert batch[2:] == (InputFailed(SHOP, "refused", detail, partial=True),)


def test_closing_the_poll_closes_its_connection() -> None:
    reader = FakeReader(VirtualClock())
    SourceEndPoll("shop", reader, 15.0, reader.clock).close()
    assert reader.closed


def test_a_source_that_no_request_names_is_asked_for_its_end_alone() -> None:
    assert find_request((REQUEST,), "shop") is REQUEST
    assert find_request((REQUEST,), "books") == SourceEndRequest("books")
