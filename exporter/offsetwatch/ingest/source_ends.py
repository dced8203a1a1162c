"""Poll of the end of one source: a database, or files."""

from __future__ import annotations

from collections.abc import Iterable

from offsetwatch.clients.databases import READ_TIMEOUT_S, SourceReader
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, RemoteRefusal
from offsetwatch.ingest.polls import Batch, build_failure, build_partial_failures
from offsetwatch.model.observations import InputSucceeded, SourceEndRead, build_source_end_input
from offsetwatch.model.source_ends import (
    ColumnEnd,
    FileEnd,
    FileState,
    SourceEnd,
    SourceEndRequest,
    SqlEnd,
)

MISSED_READS = 3  # how many in a row may fail before an end is withdrawn
PAUSE_DOUBLINGS_MAX = 2  # a minute at the default interval


class SourceEndPoll:
    """Poll of one source, every `interval_s` seconds.

    Once its end is withdrawn, reads are skipped, so that the pauses double up to four intervals: a
    server that does not answer, or refuses a user, is not asked all the time.

    `answered` is the request that was last answered, by an end or by an error; None before.
    """

    def __init__(
        self, name: str, reader: SourceReader, interval_s: float, clock: UnixClock
    ) -> None:
        self.name = name
        self.interval_s = interval_s
        self.answered: SourceEndRequest | None = None
        self._reader = reader
        self._clock = clock
        self._failures = 0
        self._skips = 0

    def read(self, request: SourceEndRequest) -> Batch:
        """Return the end of the source, or why it could not be read; () if this read is skipped."""
        if self._skips > 0:
            self._skips -= 1
            self.answered = request
            return ()
        input_id = build_source_end_input(self.name)
        # What was committed before the request is at most at this end.
        at = self._clock.now()
        try:
            end = self._reader.read(request)
        except ClientError as exc:
            self._failures += 1
            doublings = max(0, self._failures - MISSED_READS + 1)
            self._skips = 2 ** min(doublings, PAUSE_DOUBLINGS_MAX) - 1
            return (build_failure(input_id, exc),)
        finally:
            self.answered = request
        self._failures = 0
        lasts_s = MISSED_READS * self.interval_s + READ_TIMEOUT_S
        return (
            SourceEndRead(self.name, end, at),
            InputSucceeded(input_id, at=at, lasts_s=lasts_s),
            *build_partial_failures(input_id, _find_failures(self.name, end)),
        )

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def _find_failures(name: str, end: SourceEnd) -> dict[str, ClientError]:
    """Return the errors of single tables or files, by their names."""
    states: Iterable[tuple[str, ColumnEnd | FileState]] = ()
    if isinstance(end, SqlEnd):
        states = ((query.table, column) for query, column in end.columns.items())
    elif isinstance(end, FileEnd):
        states = end.files.items()
    return {
        member: RemoteRefusal(name, state.error)
        for member, state in states
        if state.error is not None
    }


def find_request(requests: Iterable[SourceEndRequest], name: str) -> SourceEndRequest:
    """Return what a source is to be asked for; nothing but its end if no request names it."""
    return next((request for request in requests if request.source == name), SourceEndRequest(name))
