"""Poll of the offsets that only the REST API provides: one request at a time per Connect cluster.

Most workers read their offsets topic to its end for each answer. So the load is limited twice: by
the pause between two requests for one connector, and by the number of requests in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError, NotFound, RemoteRefusal
from offsetwatch.ingest import connect_rest
from offsetwatch.model.observations import (
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    Observation,
    OffsetsPolled,
    build_rest_offsets_input,
)

Batch = tuple[Observation, ...]
GuardJob = Callable[[Callable[[], object], str, InputId], Callable[[], object]]

REQUESTS_PER_STEP: Final = 5  # a step is made once a second
MISSED_POLLS: Final = 3  # how many polls may fail before the last answer is taken down
_UNSUPPORTED_DETAIL: Final = "cannot be read ({detail}): workers return offsets since Kafka 3.5"


class RestOffsetsPoll:
    """Polls of one Connect cluster.

    `put` hands a batch to the loop and returns whether it was taken.

    guard        isolates errors of a connector's job from the other connectors, and reports them
                 as failures of this input
    every_s      pause between two requests for one connector
    timeout_s    timeout of one request, over all workers
    """

    def __init__(
        self,
        reader: ConnectReader,
        *,
        every_s: float,
        timeout_s: float,
        put: Callable[[Batch], bool],
        clock: UnixClock,
        guard: GuardJob,
    ) -> None:
        self._reader = reader
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._put = put
        self._clock = clock
        self._guard = guard
        self._jobs: dict[str, Callable[[], object]] = {}
        self._connectors = 0
        self._asked_at: dict[str, float] = {}

    def step(self, connectors: Iterable[str], stopped: Callable[[], bool]) -> None:
        """Poll the connectors that are due, longest waiting first; forget all others."""
        wanted = set(connectors)
        for name in self._asked_at.keys() - wanted:
            if self._put((InputRetired(build_rest_offsets_input(self._reader.name, name)),)):
                del self._asked_at[name]
                self._jobs.pop(name, None)
        self._connectors = len(wanted)
        now = self._clock.now()
        due = sorted(
            (moment, name) for name in wanted if (moment := self._due_at(name, now)) <= now
        )
        for _, name in due[:REQUESTS_PER_STEP]:
            if stopped():
                return
            self._asked_at[name] = self._clock.now()  # whatever comes of it, others have their turn
            if name not in self._jobs:
                input_id = build_rest_offsets_input(self._reader.name, name)
                job = partial(self._poll, name)
                self._jobs[name] = self._guard(job, f"offsets of {input_id.input}", input_id)
            self._jobs[name]()

    def _poll(self, connector: str) -> None:
        if not self._put(self._ask(connector, self._asked_at[connector])):
            del self._asked_at[connector]

    def _due_at(self, connector: str, now: float) -> float:
        asked_at = self._asked_at.get(connector)
        if asked_at is None or asked_at > now:  # never, or the clock was set back
            return 0.0
        return asked_at + self._every_s

    def _lasts_s(self) -> float:
        """Return how many seconds an answer remains valid: three rounds and a timeout."""
        round_s = max(self._every_s, self._connectors / REQUESTS_PER_STEP)
        return MISSED_POLLS * round_s + self._timeout_s

    def _ask(self, connector: str, asked_at: float) -> Batch:
        input_id = build_rest_offsets_input(self._reader.name, connector)
        try:
            body = self._reader.offsets(connector)
            offsets, odd = connect_rest.parse_readable_offsets(self._reader.name, connector, body)
        except ClientError as exc:
            return (_build_failure(input_id, exc),)
        return (
            OffsetsPolled(self._reader.name, connector, offsets, asked_at, whole=odd is None),
            InputSucceeded(input_id, asked_at, self._lasts_s()),
            *(() if odd is None else (replace(_build_failure(input_id, odd), partial=True),)),
        )


def _build_failure(input_id: InputId, error: ClientError) -> InputFailed:
    forget_locals(error)
    detail = error.detail
    if isinstance(error, NotFound) or type(error) is RemoteRefusal:  # 404 by the path, or 405
        detail = _UNSUPPORTED_DETAIL.format(detail=detail)
    return InputFailed(input=input_id, reason=error.reason, detail=detail)
