"""Connections and answers of the control listener: one request and one answer each, with deadlines.

A connection is not kept open between requests: alerts and operators come seldom, and data smuggled
in behind a request is never read. A client that does not send a whole request in time is cut off,
however much has arrived. So is one that does not read the answer. A refusal is a problem,
`{"error": snake_case, "message": text for the user}`; no answer may be cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDictProxy

from offsetwatch import documents
from offsetwatch.serve.http.listener import DeadlineConnection
from offsetwatch.serve.web_config.passwords import CHALLENGE

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class ControlHttpAnswer:
    """Answer to a control request: status, body, headers and content type."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON


def build_answer(document: Any, status: int = 200, *headers: tuple[str, str]) -> ControlHttpAnswer:
    """Build an answer whose body is the document as JSON, with a newline."""
    return ControlHttpAnswer(status, documents.encode(document) + b"\n", headers)


def build_problem(
    status: int, error: str, message: str, *headers: tuple[str, str], **more: Any
) -> ControlHttpAnswer:
    """Build the answer that refuses a request."""
    return build_answer({"error": error, "message": message, **more}, status, *headers)


UNAUTHORISED: Final = build_problem(
    401,
    "unauthorised",
    "a valid bearer token or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
)
UNAUTHORISED_USERS: Final = build_problem(
    401,
    "unauthorised",
    "a valid bearer token, password or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
    CHALLENGE,
)
THROTTLED: Final = build_problem(
    429, "throttled", "too many failed attempts from this address", ("Retry-After", "60")
)
NOT_FOUND: Final = build_problem(404, "not_found", "there is no such path or object")
FORBIDDEN: Final = build_problem(403, "forbidden", "your role does not allow this")


def build_role_refusal(role: str, needed: str) -> ControlHttpAnswer:
    """Build the answer to a principal whose role is too low."""
    return build_problem(
        403, "forbidden", f"your role {role} does not allow this: the role {needed} does"
    )


SCOPE_TOO_SMALL: Final = build_problem(
    403, "forbidden", "your role covers some connectors, and this needs all"
)
MISDIRECTED: Final = build_problem(
    403, "misdirected", "the Host header does not name this listener"
)
NO_BROWSERS: Final = build_problem(403, "no_browsers", "requests from web pages are refused")
TOO_LARGE: Final = build_problem(413, "too_large", "the body is larger than 1 MiB")
NOT_JSON: Final = build_problem(
    415, "not_json", "send application/json, in UTF-8 and not compressed"
)
BAD_REQUEST: Final = build_problem(400, "bad_request", "malformed HTTP request")
NO_JOURNAL: Final = build_problem(
    503, "journal_unavailable", "the journal cannot be used: nothing is changed without it"
)


def build_not_leader_answer(said: str) -> ControlHttpAnswer:
    """Build the answer of a replica that does not lead; `said` names the leader, if any."""
    return build_problem(503, "not_leader", said, ("Retry-After", "5"))


INTERNAL_ERROR: Final = build_problem(
    500, "internal_error", "a bug in offsetwatch: see the daemon's log"
)


BODY_BYTES_MAX: Final = 1024 * 1024
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


@dataclass(frozen=True, slots=True)
class ControlConnectionBounds:
    """Bounds of the connections to the control listener.

    connections_max     at once, those in a handshake included; more are closed unread
    handshake_s         for TLS
    request_s           for a whole request, from the start of its connection
    answer_s            for the answer, to be made and read
    """

    connections_max: int = 128
    handshake_s: float = 5.0
    request_s: float = 10.0
    answer_s: float = 60.0


class ControlRequest:
    """Request to the control listener: method, path, headers, client address and certificate."""

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
        """Abort its connection without an answer."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def whole(self) -> None:
        """Record that the request is complete: from now on the deadline is that of the answer."""
        if isinstance(self._request.protocol, ControlConnection):
            self._request.protocol.whole()

    async def read(self, bytes_max: int) -> bytes | None:
        """Return the whole body; None if it has more than `bytes_max` bytes."""
        if (self._request.content_length or 0) > bytes_max:
            return None
        body = bytearray()
        async for part in self._request.content.iter_any():
            body += part
            if len(body) > bytes_max:
                return None
        return bytes(body)


class ControlConnection(DeadlineConnection):
    """Connection that carries one request, with a deadline for it and one for the answer."""

    __slots__ = ("_bounds", "closed")

    def __init__(self, manager: ControlHttpServer, bounds: ControlConnectionBounds) -> None:
        super().__init__(manager, first_s=bounds.request_s, keep_s=0)
        self._bounds = bounds
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Mark the connection as closed, so that it no longer counts."""
        super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    async def cut(self) -> None:
        """Abort the connection if it was made, and wait until it is closed."""
        if self._wire is not None:
            self._wire.abort()
            await self.closed

    def whole(self) -> None:
        """Start the deadline of the answer: the request is complete."""
        self.end_in(self._bounds.answer_s)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be parsed; aiohttp's own page would quote it."""
        del request, exc, message
        return build_response(BAD_REQUEST if status < 500 else INTERNAL_ERROR)


class ControlHttpServer(web.Server):
    """aiohttp server of the control listener: one ControlConnection for each accepted socket."""

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
        """Build a new connection."""
        return ControlConnection(self, self._bounds)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = build_response(await self._answer(ControlRequest(request)))
        for name, value in self._headers():
            response.headers[name] = value
        return response


def build_response(answer: ControlHttpAnswer) -> web.Response:
    """Build aiohttp's response of an answer, which closes the connection after it."""
    response = web.Response(
        status=answer.status,
        body=answer.body,
        headers=[*_HEADERS, *answer.headers, ("Content-Type", answer.content_type)],
    )
    response.force_close()
    return response
