"""One connection: one request, one answer, and an end to both.

A connection is not kept open between requests: alerts and people come seldom, and what is smuggled
in behind a request is never read. Whoever does not send a whole request in time is cut off, however
much has trickled in; so is whoever does not take the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDictProxy

from offsetwatch.serve.control import responses
from offsetwatch.serve.control.responses import ControlHttpAnswer
from offsetwatch.serve.http.connection_limits import DeadlineConnection

BODY_BYTES_MAX: Final = 1024 * 1024
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


@dataclass(frozen=True, slots=True)
class ControlConnectionBounds:
    """On connections.

    connections_max     at once, those in a handshake among them; more are closed unread
    handshake_s         for TLS
    request_s           for a whole request, from the first byte of its connection
    answer_s            for the answer, worked out and taken
    """

    connections_max: int = 128
    handshake_s: float = 5.0
    request_s: float = 10.0
    answer_s: float = 60.0


class ControlRequest:
    """What the listener sees of a request."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.method = request.method
        self.raw_path = request.raw_path
        self.headers: CIMultiDictProxy[str] = request.headers
        transport = request.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        self.address: str = peer[0] if isinstance(peer, tuple) else ""
        self.certificate: dict[str, Any] | None = (
            None if transport is None else transport.get_extra_info("peercert")
        )

    def cut(self) -> None:
        """End its connection without an answer."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def whole(self) -> None:
        """It is all there: from now on it is our turn."""
        if isinstance(self._request.protocol, ControlConnection):
            self._request.protocol.whole()

    async def read(self, bytes_max: int) -> bytes | None:
        """The whole body; None if there is more of it."""
        if (self._request.content_length or 0) > bytes_max:
            return None
        found = bytearray()
        async for part in self._request.content.iter_any():
            found += part
            if len(found) > bytes_max:
                return None
        return bytes(found)


class ControlConnection(DeadlineConnection):
    """See the module."""

    __slots__ = ("_bounds", "closed")

    def __init__(self, manager: ControlHttpServer, bounds: ControlConnectionBounds) -> None:
        super().__init__(manager, first_s=bounds.request_s, keep_s=0)
        self._bounds = bounds
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It no longer counts."""
        super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    async def cut(self) -> None:
        """End it now, if it was ever made; it is closed afterwards."""
        if self._wire is not None:
            self._wire.abort()
            await self.closed

    def whole(self) -> None:
        """The request is there: from now on it is our turn."""
        self.end_in(self._bounds.answer_s)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What cannot be parsed; aiohttp's own page would quote it."""
        del request, exc, message
        return build_response(responses.BAD_REQUEST if status < 500 else responses.INTERNAL_ERROR)


class ControlHttpServer(web.Server):
    """Makes connections."""

    def __init__(
        self,
        answer: Callable[[ControlRequest], Awaitable[ControlHttpAnswer]],
        bounds: ControlConnectionBounds,
        *,
        headers: Callable[[], tuple[tuple[str, str], ...]] = tuple,
    ) -> None:
        super().__init__(self._handle)
        self._headers = headers
        self._answer = answer
        self._bounds = bounds

    def __call__(self) -> ControlConnection:
        """A new one."""
        return ControlConnection(self, self._bounds)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        made = build_response(await self._answer(ControlRequest(request)))
        for name, value in self._headers():
            made.headers[name] = value
        return made


def build_response(answer: ControlHttpAnswer) -> web.Response:
    """The answer as aiohttp sends it, and the last one of its connection."""
    made = web.Response(
        status=answer.status,
        body=answer.body,
        headers=[*_HEADERS, *answer.headers, ("Content-Type", answer.content_type)],
    )
    made.force_close()
    return made
