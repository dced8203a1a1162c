"""Deadlines of HTTP connections: the base class of both listeners, and that of the read listener.

aiohttp waits without a limit for the rest of a request, and for a client that does not read the
answer. If every connection of a listener waits for such a client, a probe gets no answer, and the
daemon is restarted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from offsetwatch.serve.metrics.render_cache import ChunkedBody

REQUEST_S: Final = 10.0  # for the first whole head, however much of it has trickled in
KEEP_ALIVE_S: Final = (
    90.0  # for an answer to be taken and the next head: scrapes are a minute apart
)
LINGER_S: Final = 2.0  # for the rest of a body that nobody wants, so that the answer arrives

_SILENT_LOGGER: Final = logging.getLogger("offsetwatch.serve.silent")
_SILENT_LOGGER.disabled = True  # aiohttp quotes requests in what it logs, and passwords are in them


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
        made = web.Response(status=status, text="bad request\n" if status < 500 else "bug\n")
        made.force_close()
        return made


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
