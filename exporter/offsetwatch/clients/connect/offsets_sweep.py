"""Sweep of `GET /connectors/{c}/offsets` for all connectors of a Connect cluster, over all workers.

Every worker gets a few requests at once; a free worker takes the next one. A hanging worker delays
the few that it was sent by one timeout, and these are sent to the other workers then.

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
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import httpx

from offsetwatch.clients.connect.reader import (
    NEXT_WORKER_ERRORS,
    combine_worker_errors,
    offsets_path,
    read_response,
    validate_response,
)
from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.client import build_async_client, parse_retry_after_s
from offsetwatch.clients.http.exchange import (
    build_timeout,
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
ANNOUNCEMENT_TTL_S: Final = 5.0  # a request that waits longer is announced again
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
FULL_S: Final = 0.05  # how often a worker checks whether gathered answers were taken

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
        with ThreadPoolExecutor(1, thread_name_prefix="sweep") as executor:
            sweep = _Sweep(self, connectors, listener, executor)
            run_in_own_loop(sweep.run(), timeout_s=None)
            return sweep.refused


@dataclass(slots=True, eq=False)
class _Worker:
    url: str
    client: httpx.AsyncClient
    slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
    )
    strikes: int = 0  # by failures in a row
    last_error: ClientError | None = None
    quiet_until: float = 0.0  # as its Retry-After says
    quiet_s: float = 0.0

    @property
    def is_used(self) -> bool:
        return self.strikes < STRIKES_MAX


class _Sweep:
    """Running sweep."""

    def __init__(
        self,
        cluster: ConnectSweep,
        connectors: Sequence[str],
        listener: OffsetsSweepListener,
        executor: ThreadPoolExecutor,
    ) -> None:
        self._cluster = cluster
        self._listener = listener
        self._executor = executor
        self._unannounced, self._announced = deque(connectors), deque[str]()
        self._announced_at = 0.0
        self._announcing = asyncio.Lock()
        self._large = asyncio.Lock()
        self._workers: list[_Worker] = []
        self._error: ClientError | None = None  # ends the sweep
        self._answers: list[OffsetsAnswer] = []
        self._answers_bytes = 0
        self._answered = False
        self.refused: dict[str, ClientError] = {}

    async def run(self) -> None:
        """Run until every connector is answered or given up, or an error or a stop ends it."""
        async with AsyncExitStack() as clients:
            for url in self._cluster.urls:
                with translate_http_errors(self._cluster.name, self._cluster.timeout_s):
                    client = build_async_client(
                        url,
                        timeout=build_timeout(self._cluster.timeout_s),
                        headers={"Accept": "application/json"},
                        verify=self._cluster.tls.get_for(url),
                    )
                self._workers.append(_Worker(url, await clients.enter_async_context(client)))
            async with asyncio.TaskGroup() as group:
                running = {
                    group.create_task(self._request_from(worker))
                    for _ in range(REQUESTS_IN_FLIGHT_MAX)
                    for worker in self._workers
                }
                while running and self._error is None and not self._listener.stopped():
                    _, running = await asyncio.wait(running, timeout=FLUSH_S)
                    await self._flush()
                for task in running:
                    task.cancel()
        await self._flush()
        if self.refused and not self._answered:
            self._error = self._error or next(iter(self.refused.values()))
        # Where no worker has such a path there is nothing to compare with (Kafka before 3.5).
        if self._error is not None and not isinstance(self._error, NotFound):
            raise self._error

    # --- requests --------------------------------------------------------------------------------

    async def _request_from(self, worker: _Worker) -> None:
        """Request one connector after the other, of the other workers what this one fails at."""
        workers = [worker, *(other for other in self._workers if other is not worker)]
        while self._error is None and worker.is_used:
            if len(self._answers) >= ANSWERS_MAX or self._answers_bytes >= ANSWERS_BYTES_MAX:
                await asyncio.sleep(FULL_S)
                continue
            connector = await self._next_connector()
            if connector is None:
                return
            await self._request(connector, workers)

    async def _next_connector(self) -> str | None:
        """Return a connector that was announced and has not been requested; None if none is left.

        A batch of announcements may be cancelled; the next one is tried then.
        """
        async with self._announcing:
            while not self._announced or time.monotonic() - self._announced_at > ANNOUNCEMENT_TTL_S:
                while self._unannounced and len(self._announced) < ANNOUNCEMENT_SIZE_MAX:
                    self._announced.append(self._unannounced.popleft())
                if not self._announced:
                    return None
                if await self._run_aside(partial(self._listener.announce, list(self._announced))):
                    self._announced_at = time.monotonic()
                    break
                self._announced.clear()
            return self._announced.popleft()

    async def _request(self, connector: str, workers: Sequence[_Worker]) -> None:
        """Request one connector's offsets, of the first of the workers that answers."""
        failures: dict[str, ClientError] = {}
        for worker in workers:
            async with worker.slots:
                if not worker.is_used or self._error is not None:
                    continue
                try:
                    body = await self._get(connector, worker)
                except (*NEXT_WORKER_ERRORS, TooManyRequests) as exc:
                    forget_locals(exc)
                    failures[worker.url] = exc
                    self._strike(worker, exc)
                except ClientError as exc:
                    forget_locals(exc)
                    worker.strikes = 0
                    if not isinstance(exc, NotFound):  # deleted since it was listed
                        self._refuse(
                            connector, self._combine(connector, {**failures, worker.url: exc})
                        )
                    return
                else:
                    worker.strikes = 0
                    self._answered = True
                    self._answers.append((connector, body))
                    self._answers_bytes += len(body)
                    return
        self._abandon(connector, failures)

    async def _get(self, connector: str, worker: _Worker) -> bytes:
        name, timeout_s = self._cluster.name, self._cluster.timeout_s
        while True:
            await asyncio.sleep(max(0.0, worker.quiet_until - time.monotonic()))
            with translate_http_errors(name, timeout_s):
                headers = build_authorization_headers(self._cluster.auth)
                async with asyncio.timeout(timeout_s):
                    status, body, answer_headers = await read_response(
                        worker.client, name, offsets_path(connector), headers, large=self._large
                    )
            retry_after = answer_headers.get("Retry-After")
            if status != httpx.codes.TOO_MANY_REQUESTS or not self._waits(worker, retry_after):
                return validate_response(name, status, body)

    def _waits(self, worker: _Worker, retry_after: str | None) -> bool:
        """Pause requests to a worker as its answer 429 says; return False if that is too long."""
        wait_s = parse_retry_after_s(retry_after)
        now = time.monotonic()
        until = now + (RETRY_AFTER_S if wait_s is None else max(wait_s, FULL_S))
        more_s = max(0.0, until - max(now, worker.quiet_until))
        if worker.quiet_s + more_s > RETRY_AFTER_S_MAX:
            return False
        worker.quiet_s += more_s
        worker.quiet_until = max(until, worker.quiet_until)
        return True

    def _strike(self, worker: _Worker, error: ClientError) -> None:
        answered = isinstance(error, ServerError | MalformedResponse | NotFound)
        is_last = not any(other.is_used for other in self._workers if other is not worker)
        worker.strikes += FAILURES_IN_A_ROW if answered and is_last else ERRORS_IN_A_ROW
        worker.last_error = error

    def _abandon(self, connector: str, failures: dict[str, ClientError]) -> None:
        """Give up on a connector that no worker answers for; on all if no worker is left."""
        if self._error is not None:
            return
        last_errors = {
            worker.url: worker.last_error for worker in self._workers if worker.last_error
        }
        error = self._combine(connector, last_errors | failures)
        if not any(worker.is_used for worker in self._workers):
            self._error = error
        elif not isinstance(error, NotFound):
            self._refuse(connector, error)

    def _refuse(self, connector: str, error: ClientError) -> None:
        """Give up on one connector; after REFUSALS_MAX of them without any answer, on all."""
        self.refused[connector] = error
        if len(self.refused) >= REFUSALS_MAX and not self._answered:
            self._error = self._error or error

    def _combine(self, connector: str, failures: dict[str, ClientError]) -> ClientError:
        return combine_worker_errors(
            self._cluster.name,
            f"GET {offsets_path(connector)}",
            list(failures.items()),
            of=len(self._workers),
            connector=connector,
        )

    # --- answers ---------------------------------------------------------------------------------

    async def _flush(self) -> None:
        answers, self._answers, self._answers_bytes = self._answers, [], 0
        if answers:
            # Not by a lambda: a frame keeps its function, and that what it closes over.
            await self._run_aside(partial(self._listener.take, answers))

    async def _run_aside(self, call: Callable[[], R]) -> R:
        """Run a blocking call in the second thread, so that other answers are read meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)


def sweep_of(connect: Connect, timeout_s: float) -> ConnectSweep:
    """Build the sweep over all workers of a configured Connect cluster."""
    return ConnectSweep(
        connect.name, connect.worker_urls, timeout_s, auth=connect.auth, tls=connect.tls
    )
