"""Sweep of `GET /connectors/{c}/offsets` for all connectors of a Connect cluster, over all workers.

Every worker gets a few requests at once; a free worker takes the next one. A hanging worker delays
none: when no other request is left, its requests are sent to other workers too.

One thread and one asyncio loop do this, because the daemon's loop would have to wait for the
interpreter twenty times for twenty threads. Blocking calls (decoding, the daemon's queue) run in a
second thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from offsetwatch.clients.connect.keep_alive import KeepAliveConnection
from offsetwatch.clients.connect.reader import (
    NEXT_WORKER_ERRORS,
    body_bytes_max,
    check_redirect,
    combine_worker_errors,
    offsets_path,
    validate_response,
)
from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.date import parse_retry_after_s
from offsetwatch.clients.http.exchange import (
    CONNECT_TIMEOUT_SHARE,
    forget_locals,
    run_in_own_loop,
    translate_http_errors,
)
from offsetwatch.config import Auth, Connect, Tls
from offsetwatch.errors import (
    ClientError,
    MalformedResponse,
    NotFound,
    ServerError,
    TooManyRequests,
)

REQUESTS_IN_FLIGHT_MAX: Final = 4  # per worker: each makes it read its offsets topic to the end
ANNOUNCEMENT_SIZE_MAX: Final = 100  # at once, as the daemon's queue counts batches
ANNOUNCEMENT_TTL_S: Final = 5.0  # a question that waits longer is announced anew
HEDGE_S: Final = 0.5  # how long a question is left to one worker while others have none
FAILURES_IN_A_ROW: Final = 3  # and a worker is left alone for the rest of the sweep
# The same of the last worker if it does answer: an error may be one connector's, and odd names sort
# together.
ERRORS_IN_A_ROW: Final = 21
STRIKES_MAX: Final = FAILURES_IN_A_ROW * ERRORS_IN_A_ROW  # each counts as many of the other kind
REFUSALS_MAX: Final = 100  # without one answer: then it is not about single connectors
RETRY_AFTER_S: Final = 1.0  # where 429 does not say for how long
RETRY_AFTER_S_MAX: Final = 30.0  # in one sweep, of each worker
FLUSH_S: Final = 0.2  # how long answers are gathered, as the daemon's queue counts batches
ANSWERS_MAX: Final = 1000  # gathered, while as many are being taken
ANSWERS_BYTES_MAX: Final = 8 * 1024 * 1024  # likewise, beside one answer for each in flight
IDLE_S: Final = 0.05  # how often somebody without a question looks for one

OffsetsAnswer = tuple[str, bytes]  # connector, body
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class OffsetsSweepListener:
    """Callbacks of a sweep. Called from one thread, never concurrently; each may block.

    announce    requests for these connectors are about to be sent; False cancels them
    take        answers, each once
    stopped     whether to give up
    """

    announce: Callable[[Sequence[str]], bool]
    take: Callable[[Sequence[OffsetsAnswer]], None]
    stopped: Callable[[], bool]


class ConnectSweep:
    """Sweep of one Connect cluster, without state between two sweeps."""

    def __init__(
        self,
        name: str,
        urls: tuple[str, ...],
        timeout_s: float,
        *,
        auth: Auth | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Configure the sweep. `timeout_s` limits a whole answer of one worker."""
        assert urls
        self.name = name
        self.urls = urls
        self.timeout_s = timeout_s
        self.auth = auth
        self.tls = TlsContext(tls)

    def offsets(
        self, connectors: Sequence[str], listener: OffsetsSweepListener
    ) -> dict[str, ClientError]:
        """Request the offsets of all connectors; return the errors of those without an answer.

        Connectors that do not exist have neither. Raises an error if no worker is left, or if only
        errors came; answers that came before are taken first.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="sweep") as aside:
            swept = _Sweep(self, connectors, listener, aside)
            run_in_own_loop(swept.run(), timeout_s=None)
            return swept.refused


@dataclass(slots=True, eq=False)
class _ConnectorRequest:
    connector: str
    asked_at: float = 0.0
    at: set[int] = field(default_factory=set)  # the workers that have it now
    failures: dict[int, ClientError] = field(default_factory=dict)
    done: bool = False


class _Sweep:
    """Running sweep. Workers are identified by number, as their URLs may repeat."""

    def __init__(
        self,
        cluster: ConnectSweep,
        connectors: Sequence[str],
        listener: OffsetsSweepListener,
        aside: ThreadPoolExecutor,
    ) -> None:
        self._cluster = cluster
        self._listener = listener
        self._executor = aside
        self._unannounced = deque(map(_ConnectorRequest, connectors))
        self._announced: deque[_ConnectorRequest] = deque()
        self._announced_at = 0.0
        self._announcing = asyncio.Lock()
        self._large = asyncio.Lock()
        self._again: list[_ConnectorRequest] = []  # one worker failed; another may not
        self._asked: dict[_ConnectorRequest, None] = {}  # in flight, the one asked last at the end
        self._open = len(connectors)  # neither answered nor given up
        self._over = asyncio.Event()
        self._error: ClientError | None = None
        self._answers: list[OffsetsAnswer] = []
        self._answers_bytes = 0
        self._strikes = [0] * len(cluster.urls)  # by failures in a row
        self._quiet_until = [0.0] * len(cluster.urls)  # as its Retry-After says
        self._quiet_s = [0.0] * len(cluster.urls)
        self._answered = False
        self.refused: dict[str, ClientError] = {}
        self._last: dict[int, ClientError] = {}  # failure of each worker

    async def run(self) -> None:
        """Run until no request is open, or an error or a stop ends the sweep."""
        if not self._open:
            return
        async with asyncio.TaskGroup() as group:
            lanes = [
                group.create_task(self._lane(worker))
                for _ in range(REQUESTS_IN_FLIGHT_MAX)
                for worker in range(len(self._cluster.urls))
            ]
            while not self._over.is_set() and not self._listener.stopped():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), FLUSH_S)
                await self._flush()
            for lane in lanes:
                lane.cancel()
        await self._flush()
        if self.refused and not self._answered:
            self._error = self._error or next(iter(self.refused.values()))
        # Where no worker has such a path there is nothing to compare with (Kafka before 3.5).
        if self._error is not None and not isinstance(self._error, NotFound):
            raise self._error

    # --- questions -------------------------------------------------------------------------------

    async def _lane(self, worker: int) -> None:
        connection = KeepAliveConnection(
            self._cluster.urls[worker],
            self._cluster.timeout_s * CONNECT_TIMEOUT_SHARE,
            self._cluster.tls.get,
            self._large,
        )
        try:
            while self._strikes[worker] < STRIKES_MAX and not self._over.is_set():
                quiet = time.monotonic() < self._quiet_until[worker]
                question = None if quiet else await self._next(worker)
                if question is not None:
                    await self._ask(question, worker, connection)
                elif not self._over.is_set():
                    await asyncio.sleep(IDLE_S)
        finally:
            connection.close()

    async def _next(self, worker: int) -> _ConnectorRequest | None:
        """Return the next request for this worker; None if there is none now."""
        if len(self._answers) >= ANSWERS_MAX or self._answers_bytes >= ANSWERS_BYTES_MAX:
            return None
        for question in self._again:
            if worker not in question.failures:
                self._again.remove(question)
                return question
        if self._announced or self._unannounced:
            return await self._fresh()
        late = time.monotonic() - HEDGE_S
        for question in self._asked:
            if question.asked_at > late:
                break
            if worker not in question.at and worker not in question.failures:
                return question
        return None

    async def _fresh(self) -> _ConnectorRequest | None:
        """Return a request that was announced and has not been sent to any worker."""
        async with self._announcing:
            if not self._announced or time.monotonic() - self._announced_at > ANNOUNCEMENT_TTL_S:
                while self._unannounced and len(self._announced) < ANNOUNCEMENT_SIZE_MAX:
                    self._announced.append(self._unannounced.popleft())
                names = [question.connector for question in self._announced]
                if not names:
                    return None
                if not await self._aside(lambda: self._listener.announce(names)):
                    for question in self._announced:
                        self._close(question)
                    self._announced.clear()
                    return None
                self._announced_at = time.monotonic()
            return self._announced.popleft()

    async def _ask(
        self, question: _ConnectorRequest, worker: int, connection: KeepAliveConnection
    ) -> None:
        question.at.add(worker)
        question.asked_at = time.monotonic()
        self._asked.pop(question, None)
        self._asked[question] = None
        try:
            body = await self._body(question.connector, connection)
        except ClientError as exc:
            forget_locals(exc)
            question.at.discard(worker)
            if isinstance(exc, TooManyRequests) and self._waits(worker, connection.retry_after):
                self._put_back(question)
            else:
                self._failed(question, worker, exc)
        else:
            question.at.discard(worker)
            self._strikes[worker] = 0
            self._answered = True
            if not question.done:
                self._answers.append((question.connector, body))
                self._answers_bytes += len(body)
                self._close(question)

    async def _body(self, connector: str, connection: KeepAliveConnection) -> bytes:
        name, timeout_s = self._cluster.name, self._cluster.timeout_s
        with translate_http_errors(name, timeout_s):
            headers = {
                "Accept": "application/json",
                **build_authorization_headers(self._cluster.auth),
            }
            async with asyncio.timeout(timeout_s):
                path = offsets_path(connector)
                status, body = await connection.get(path, headers, body_bytes_max)
        check_redirect(name, status, connection.location)
        return validate_response(name, status, body)

    def _waits(self, worker: int, retry_after: str | None) -> bool:
        """Pause requests to a worker as its answer 429 says; return False if that is too long."""
        told_s = parse_retry_after_s(retry_after)
        wait_s = RETRY_AFTER_S if told_s is None else max(told_s, IDLE_S)
        until = time.monotonic() + wait_s
        more_s = max(0.0, until - max(time.monotonic(), self._quiet_until[worker]))
        if self._quiet_s[worker] + more_s > RETRY_AFTER_S_MAX:
            return False
        self._quiet_s[worker] += more_s
        self._quiet_until[worker] = max(until, self._quiet_until[worker])
        return True

    def _put_back(self, question: _ConnectorRequest) -> None:
        """Queue the request again, for whichever worker is free first."""
        if not question.done and not question.at:
            self._asked.pop(question, None)
            self._again.append(question)

    def _failed(self, question: _ConnectorRequest, worker: int, error: ClientError) -> None:
        self._last[worker] = error
        if isinstance(error, (*NEXT_WORKER_ERRORS, TooManyRequests)):
            answered = isinstance(error, ServerError | MalformedResponse | NotFound)
            is_last = self._alive() == {worker}
            self._strikes[worker] += FAILURES_IN_A_ROW if answered and is_last else ERRORS_IN_A_ROW
            question.failures[worker] = error
            self._put_back(question)
            self._give_up(question)
        elif question.done:
            pass
        elif isinstance(error, NotFound):
            self._strikes[worker] = 0
            self._close(question)  # deleted since it was listed
        else:
            self._strikes[worker] = 0
            self._refuse(
                question, self._verdict(question, [*question.failures.items(), (worker, error)])
            )

    def _refuse(self, question: _ConnectorRequest, error: ClientError) -> None:
        """Give up on one connector; after REFUSALS_MAX of them without any answer, on all."""
        self.refused[question.connector] = error
        self._close(question)
        if len(self.refused) >= REFUSALS_MAX and not self._answered:
            self._end(error)

    def _alive(self) -> set[int]:
        return {index for index, count in enumerate(self._strikes) if count < STRIKES_MAX}

    def _give_up(self, failed: _ConnectorRequest) -> None:
        """Give up on requests that no worker is left for; on all if no worker is left at all."""
        alive = self._alive()
        for question in [
            connector_request
            for connector_request in self._again
            if alive and alive <= connector_request.failures.keys()
        ]:
            told_by = self._last | question.failures
            error = self._verdict(question, sorted(told_by.items(), key=lambda item: item[0]))
            self._again.remove(question)
            if isinstance(error, NotFound):
                self._close(question)
            else:
                self._refuse(question, error)
        if not alive:
            self._end(self._verdict(failed, list((self._last | failed.failures).items())))

    def _verdict(
        self, question: _ConnectorRequest, failures: Sequence[tuple[int, ClientError]]
    ) -> ClientError:
        urls = self._cluster.urls
        return combine_worker_errors(
            self._cluster.name,
            f"GET {offsets_path(question.connector)}",
            [(urls[worker], error) for worker, error in failures],
            of=len(urls),
            connector=question.connector,
        )

    def _close(self, question: _ConnectorRequest) -> None:
        question.done = True
        self._asked.pop(question, None)
        self._open -= 1
        if not self._open:
            self._over.set()

    def _end(self, error: ClientError) -> None:
        self._error = self._error or error
        self._over.set()

    # --- answers ---------------------------------------------------------------------------------

    async def _flush(self) -> None:
        answers, self._answers, self._answers_bytes = self._answers, [], 0
        if not answers:
            return
        # Not by a lambda: a frame keeps its function, and that what it closes over.
        await self._aside(partial(self._listener.take, answers))

    async def _aside(self, call: Callable[[], R]) -> R:
        """Run a blocking call in the second thread, so that other answers are read meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def sweep_of(connect: Connect, timeout_s: float) -> ConnectSweep:
    """Build the sweep over all workers of a configured Connect cluster."""
    return ConnectSweep(
        connect.name, connect.worker_urls, timeout_s, auth=connect.auth, tls=connect.tls
    )
