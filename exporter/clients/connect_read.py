"""GETs to the Connect REST API with httpx: bounded in time and size, errors translated.

Called by ingest and the CLI. Anything that changes a Connect cluster lives elsewhere, on purpose.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Coroutine, Iterator
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from exporter.clients.auth import CannotIdentify, TlsContext, authorization
from exporter.config import Auth, Connect, Tls
from exporter.errors import (
    Ambiguous,
    ClientError,
    Conflict,
    CutOff,
    Denied,
    Malformed,
    NotFound,
    Refused,
    ServerError,
    TimedOut,
    TooLarge,
    Unreachable,
)

BODY_BYTES_MAX = 32 * 1024 * 1024  # ten thousand connectors with stack traces stay below
ERROR_BYTES_MAX = 64 * 1024  # only looked into for who says that something is not there
# A connection and its handshake get this much each; a worker that is well needs milliseconds.
_CONNECT_SHARE: Final = 0.5


class _NoRoute(NotFound):
    """A 404 that is not about a connector: a worker that is starting answers every path so."""


# With these the next worker is asked: it may be alive, started, or reached without a broken proxy.
_NEXT: Final = (Unreachable, Ambiguous, Malformed, _NoRoute)
# When all workers fail: an answer tells more than a silence, and a silence more than a closed door.
_TELLING: Final = (ServerError, Malformed, NotFound, CutOff, TimedOut, Unreachable)


class ConnectReader:
    """One Connect cluster, asked over the worker that answered last.

    Thread-safe: every request has its own connection. At one request in some seconds a connection
    that is kept would have been closed by the other side more often than not.
    """

    def __init__(
        self,
        name: str,
        urls: tuple[str, ...],
        timeout_s: float,
        *,
        auth: Auth | None = None,
        tls: Tls | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`timeout_s` bounds a whole answer of one worker; `transport` is the seam for tests."""
        assert urls
        self.name = name
        self._urls = urls
        self._timeout_s = timeout_s
        self._auth = auth
        self._tls = TlsContext(tls)
        self._transport = transport
        self._current = 0

    def root(self) -> bytes:
        """`GET /`: version, commit and the id of the Kafka cluster."""
        return self._get("/")

    def connectors(self) -> bytes:
        """`GET /connectors?expand=status&expand=info`: answered from a worker's memory."""
        return self._get("/connectors?expand=status&expand=info")

    def tasks(self, connector: str) -> bytes:
        """`GET /connectors/{c}/tasks`: the tasks' configurations."""
        return self._get(f"/connectors/{quote(connector, safe='')}/tasks")

    def offsets(self, connector: str) -> bytes:
        """`GET /connectors/{c}/offsets` (KIP-875, Kafka 3.5): makes the worker read the topic."""
        return self._get(f"/connectors/{quote(connector, safe='')}/offsets")

    def close(self) -> None:
        """Nothing stays open between requests; here so that callers need not know."""

    def _get(self, path: str) -> bytes:
        """The first good answer. Raises the most telling error when no worker gives one."""
        first = self._current
        failures: list[tuple[str, ClientError]] = []
        for turn in range(len(self._urls)):
            number = (first + turn) % len(self._urls)
            url = self._urls[number]
            try:
                body = self._ask(url, path)
            except ClientError as exc:
                failures.append((url, exc))
                if not isinstance(exc, _NEXT):
                    break
            else:
                self._current = number
                return body
        raise self._verdict(f"GET {path}", failures)

    def _verdict(self, asked: str, failures: list[tuple[str, ClientError]]) -> ClientError:
        last = failures[-1][1]
        kind = type(last)
        if isinstance(last, _NEXT):
            kind = next(at for at in _TELLING if any(isinstance(exc, at) for _, exc in failures))
        detail = last.detail
        if len(self._urls) > 1:
            detail = "; ".join(f"{_origin(url)}: {exc.detail}" for url, exc in failures)
        error = kind(self.name, f"{asked}: {detail}")
        error.__cause__ = next(exc.__cause__ for _, exc in failures if isinstance(exc, kind))
        return error

    def _ask(self, url: str, path: str) -> bytes:
        """One worker's answer. Raises errors whose detail says nothing of worker and path."""
        try:
            status, body = _run_to_end(self._answer(url, path), self._timeout_s)
        except CannotIdentify as exc:
            raise Unreachable(self.name, str(exc)) from exc
        except httpx.ConnectTimeout as exc:
            bound_s = self._timeout_s * _CONNECT_SHARE
            raise TimedOut(self.name, f"no connection within {bound_s:g} s") from exc
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise TimedOut(self.name, f"no whole answer within {self._timeout_s:g} s") from exc
        # OSError, because a TLS alert after the handshake passes through httpx as it is.
        except (httpx.TransportError, httpx.InvalidURL, OSError) as exc:
            raise _connection_error(self.name, exc) from exc
        except httpx.DecodingError as exc:
            raise Malformed(self.name, "the encoding of the answer is broken") from exc
        if status != httpx.codes.OK:
            raise _refusal(self.name, status, body)
        try:
            msgspec.json.decode(body, type=msgspec.Raw)
        except msgspec.DecodeError as exc:
            raise Malformed(self.name, "HTTP 200 with a body that is not JSON") from exc
        return body

    async def _answer(self, url: str, path: str) -> tuple[int, bytes]:
        """(status, body); of a 404 the beginning of the body, of other errors nothing."""
        client = httpx.AsyncClient(
            base_url=url,
            # The whole call is bounded by _run_to_end. A handshake needs a bound of its own that
            # ends first: httpx leaves the socket of one that is cancelled open.
            timeout=httpx.Timeout(None, connect=self._timeout_s * _CONNECT_SHARE),
            follow_redirects=False,
            headers={"Accept": "application/json", **authorization(self._auth)},
            transport=self._transport,
            trust_env=False,
            # For plain HTTP an empty context, which trusts nobody: the real one takes a while.
            verify=self._tls.get()
            if url.startswith("https:")
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        async with client, client.stream("GET", path) as response:
            body = bytearray()
            if response.status_code not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
                return response.status_code, b""
            async for part in response.aiter_bytes():
                body += part
                if response.status_code != httpx.codes.OK and len(body) > ERROR_BYTES_MAX:
                    break
                if len(body) > BODY_BYTES_MAX:
                    raise TooLarge(self.name, f"answer larger than {BODY_BYTES_MAX} bytes")
            return response.status_code, bytes(body)


def _run_to_end(
    answer: Coroutine[None, None, tuple[int, bytes]], timeout_s: float
) -> tuple[int, bytes]:
    """Run it in a loop of its own and leave nothing of it behind.

    Not asyncio.run: that would wait for a name server that does not answer.
    """

    async def bounded() -> tuple[int, bytes]:
        async with asyncio.timeout(timeout_s):
            return await answer

    loop = asyncio.new_event_loop()
    task = loop.create_task(bounded())
    try:
        return loop.run_until_complete(task)
    finally:
        task.cancel()  # after Ctrl-C it is still under way
        loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _connection_error(name: str, error: Exception) -> ClientError:
    """Before an answer or in the middle of it, and why, from the error that came first."""
    before = isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol | httpx.InvalidURL)
    kind: type[ClientError] = Unreachable if before else CutOff
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(name, f"its certificate is not trusted: {cause.verify_message}")
        if isinstance(cause, ssl.SSLError):
            reason = str(cause.reason)
            if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
                return Denied(name, f"it refuses our certificate, or wants one: {reason}")
            return kind(name, f"TLS failed: {reason}")
        if isinstance(cause, socket.gaierror):
            return kind(name, f"its name is not known: {cause.strerror}")
        if isinstance(cause, OSError) and cause.errno is not None:
            return kind(name, os.strerror(cause.errno))
    if isinstance(error, httpx.LocalProtocolError):
        return kind(name, "the request could not be sent")  # the error's text quotes headers
    return kind(name, str(error) or type(error).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came from, and so on; of several at once the first."""
    at: BaseException | None = error
    while at is not None:
        yield at
        group = at.exceptions[0] if isinstance(at, BaseExceptionGroup) else None
        at = group or at.__cause__ or at.__context__


def _refusal(name: str, status: int, body: bytes) -> ClientError:
    """The body is left out of the message: Connect's errors may quote configurations."""
    detail = f"HTTP {status}"
    classes: dict[int, type[ClientError]] = {401: Denied, 403: Denied, 409: Conflict}
    if status == httpx.codes.NOT_FOUND:
        return (NotFound if _about_a_connector(body) else _NoRoute)(name, detail)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(name, detail)
    if status < httpx.codes.BAD_REQUEST:
        return Malformed(name, detail)
    return classes.get(status, Refused)(name, detail)


class _ConnectError(msgspec.Struct):
    """How Connect itself says no; its web server says it in HTML, or of a path."""

    error_code: int
    message: str


def _about_a_connector(body: bytes) -> bool:
    try:
        error = msgspec.json.decode(body, type=_ConnectError)
    except msgspec.DecodeError:
        return False
    return error.message != "HTTP 404 Not Found"


def reader_of(connect: Connect, timeout_s: float) -> ConnectReader:
    """All workers of a Connect cluster, as the configuration says to ask them."""
    return ConnectReader(
        connect.name, connect.worker_urls, timeout_s, auth=connect.auth, tls=connect.tls
    )
