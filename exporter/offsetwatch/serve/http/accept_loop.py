"""The accept loop of a listening socket: one task for each connection, and a bound on them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Final

import structlog

ACCEPT_RETRY_S: Final = 1.0  # where the process has no file descriptors left

log = structlog.get_logger()

ConnectionHandler = Callable[[socket.socket], Coroutine[None, None, bool]]


class AcceptLoop:
    """Accept loop of one listening socket.

    take        serves a connection; True if the connection is closed elsewhere, later
    full        checks whether no more are allowed, given the number of tasks that serve one
    refused     called for each connection that was closed unread
    failed      called with the reason when accepting failed
    """

    def __init__(
        self,
        listener: socket.socket,
        take: ConnectionHandler,
        *,
        full: Callable[[int], bool],
        refused: Callable[[], None],
        failed: Callable[[str | None], None],
    ) -> None:
        self._listener = listener
        self._take = take
        self._full = full
        self._refused = refused
        self._failed = failed
        self.open: set[asyncio.Task[bool]] = set()

    def begin(self) -> None:
        """Start accepting, by `add_reader`.

        `sock_accept` may lose an accepted socket when it is cancelled.
        """
        if self._listener.fileno() >= 0:  # it may have been closed while we had to wait
            self._listener.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def end(self) -> None:
        """Stop accepting, and close the socket."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()

    async def cancel(self) -> None:
        """Cancel the tasks that serve a connection, and wait for them."""
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # whoever it was has gone
        except OSError as exc:
            self._failed(exc.strerror)
            loop.remove_reader(self._listener)
            loop.call_later(ACCEPT_RETRY_S, self.begin)
            return
        if self._full(len(self.open)):
            self._refused()
            connection.close()
            return
        connection.setblocking(False)
        task = loop.create_task(self._take(connection))
        self.open.add(task)
        # Closed here, as a task that is cancelled before its first step does nothing at all.
        task.add_done_callback(lambda done: self._taken(done, connection))

    def _taken(self, task: asyncio.Task[bool], connection: socket.socket) -> None:
        self.open.discard(task)
        if task.cancelled():
            connection.close()
            return
        bug = task.exception()
        if bug is not None:
            log.error("connection_failed", kind=type(bug).__name__)
        if bug is not None or not task.result():
            connection.close()
