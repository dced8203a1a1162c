"""Socket, thread, accept loop and connection deadlines of a listener: the base of both listeners.

aiohttp waits without a limit for the rest of a request, and for a client that does not read the
answer. If every connection of a listener waits for such a client, a probe gets no answer, and the
daemon is restarted. So each connection has a deadline, and their number is bounded.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from offsetwatch.errors import ConfigError, TargetUnreachable
from offsetwatch.serve.metrics.exposition import ChunkedBody

STOP_S_MAX: Final = 5.0  # for requests in flight when we are told to stop
PORT_MAX: Final = 65535
BACKLOG: Final = 128  # connections that wait to be accepted; more are the kernel's to refuse
ACCEPT_RETRY_S: Final = 1.0  # where the process has no file descriptors left
REQUEST_S: Final = 10.0  # for the first whole head, however much of it has trickled in
KEEP_ALIVE_S: Final = 90.0  # for an answer to be taken and the next head: scrapes come each minute
LINGER_S: Final = 2.0  # for the rest of a refused body, so that the answer arrives

_SILENT_LOGGER: Final = logging.getLogger("offsetwatch.serve.silent")
_SILENT_LOGGER.disabled = True  # aiohttp quotes requests in what it logs, and passwords are in them

log = structlog.get_logger()

ConnectionHandler = Callable[[socket.socket], Coroutine[None, None, bool]]
ServeCoroutine = Callable[[socket.socket, asyncio.Event], Coroutine[None, None, None]]


class ListenerThread:
    """Thread that serves one listening socket.

    `listen` is `host:port`; an empty host means every address, port 0 any free one.

    serve   takes the socket, and returns once the event is set
    """

    def __init__(self, name: str, listen: str, serve: ServeCoroutine) -> None:
        self._name = name
        self._listen = listen
        self._serve = serve
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start listening, once; connections queue from here on.

        Raises TargetUnreachable if the address cannot be bound.
        """
        listener = _bind_socket(self._listen)
        self._port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, listener), name=self._name, daemon=True
        )
        self._thread.start()
        log.info("listening", listener=self._name, listen=self._listen, port=self._port)

    def stop(self) -> None:
        """Let the requests in flight end, for at most STOP_S_MAX seconds, and close. Idempotent."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=2 * STOP_S_MAX)

    @property
    def failed(self) -> bool:
        """Return True if the thread ended without stop()."""
        thread = self._thread
        return thread is not None and not thread.is_alive() and not self._stopping.is_set()

    @property
    def port(self) -> int:
        """Return the bound port; 0 before start()."""
        return self._port

    def _run(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve(listener, self._stopping))


def _parse_address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError((f"listen: expected host:port, not {listen!r}",))
    return host.removeprefix("[").removesuffix("]"), int(port)


def _bind_socket(listen: str) -> socket.socket:
    """Return a listening socket. Called outside the loop, so that start() raises its errors."""
    host, port = _parse_address(listen)
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = addresses[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                (f"listen {listen}: another process listens there: end it, or change the port",)
            ) from error
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise TargetUnreachable(f"listen {listen}", reason) from error
    except UnicodeError as error:  # of a label that is empty or too long, as in a..b
        raise ConfigError((f"listen {listen}: no host name",)) from error


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
            return  # the client has gone
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


class DeadlineConnection(web.RequestHandler):
    """Connection that is aborted at its deadline, whatever it waits for."""

    __slots__ = ("_deadline", "_first_s", "_wire")

    def __init__(self, manager: web.Server, *, first_s: float, keep_s: float) -> None:
        """Set deadlines in seconds: `first_s` from the start, `keep_s` idle after an answer."""
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # as aiohttp's own runners do
            logger=_SILENT_LOGGER,
            keepalive_timeout=keep_s,
            lingering_time=LINGER_S,
            auto_decompress=False,  # how large it is would be known too late
        )
        self._first_s = first_s
        self._deadline: asyncio.TimerHandle | None = None
        # Our own, as aiohttp lets go of its one when it has asked it to close, which may take long.
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the first deadline."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._wire = transport
        self.end_in(self._first_s)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the deadline."""
        super().connection_lost(exc)
        self.end_in(None)
        self._wire = None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer that names the product without versions: aiohttp would name its own."""
        resp.headers.setdefault("Server", "offsetwatch")
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if isinstance(resp, web.Response) and isinstance(resp.body, ChunkedBody):
                resp.body.release()

    def end_in(self, seconds: float | None) -> None:
        """Replace the deadline; None: there is none while the request is being answered."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None and self._wire is not None:
            self._deadline = self._loop.call_later(seconds, self._wire.abort)


class ReadConnection(DeadlineConnection):
    """Connection to the read listener. It is kept open, as a scraper will send another request."""

    __slots__ = ()

    def __init__(self, manager: web.Server) -> None:
        super().__init__(manager, first_s=REQUEST_S, keep_s=KEEP_ALIVE_S)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be parsed; aiohttp's own page would quote it."""
        del request, exc, message
        response = web.Response(status=status, text="bad request\n" if status < 500 else "bug\n")
        response.force_close()
        return response


def add_deadlines(app: web.Application) -> None:
    """Set deadlines of an application's connections: none while it answers, then KEEP_ALIVE_S."""

    @web.middleware
    async def our_turn(request: web.Request, handler: Handler) -> web.StreamResponse:
        if isinstance(request.protocol, DeadlineConnection):
            request.protocol.end_in(None)
        return await handler(request)

    async def their_turn(request: web.Request, _: web.StreamResponse) -> None:
        if isinstance(request.protocol, DeadlineConnection):
            request.protocol.end_in(KEEP_ALIVE_S)

    app.middlewares.insert(0, our_turn)
    app.on_response_prepare.append(their_turn)
