"""GETs to the Connect REST API with httpx: bounded in time and size, errors translated.

Called by ingest and the CLI. Anything that changes a Connect cluster lives elsewhere, on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from exporter.clients.auth import TlsContext, authorization
from exporter.clients.wire import Transport, ask, bounds, carry_out, forget_locals
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


class _NoRoute(NotFound):
    """A 404 that is not about a connector: a worker that is starting answers every path so."""


REBALANCE: Final = "Request cannot be completed because a rebalance is expected"
_LOOKED_INTO: Final = (httpx.codes.NOT_FOUND, httpx.codes.INTERNAL_SERVER_ERROR)
# With these the next worker is asked: it may be alive, started, or reached without a broken proxy.
NEXT: Final = (Unreachable, Ambiguous, Malformed, _NoRoute)
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
        transport: Transport | None = None,
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
        self.server_time: float | None = None  # by the Date of the newest answer, Unix seconds

    def root(self) -> bytes:
        """`GET /`: version, commit and the id of the Kafka cluster."""
        return self._get("/")

    def connectors(self) -> bytes:
        """`GET /connectors?expand=status&expand=info`: answered from a worker's memory."""
        return self._get("/connectors?expand=status&expand=info")

    def status(self, connector: str) -> bytes:
        """`GET /connectors/{c}/status`: answered from a worker's memory."""
        return self._get(f"/connectors/{quote(connector, safe='')}/status")

    def connector_config(self, connector: str) -> bytes:
        """`GET /connectors/{c}/config`: may hold secrets, so look at it and let it go."""
        return self._get(f"/connectors/{quote(connector, safe='')}/config")

    def plugins(self) -> bytes:
        """`GET /connector-plugins`: the classes of connectors that the worker has."""
        return self._get("/connector-plugins")

    def tasks(self, connector: str) -> bytes:
        """`GET /connectors/{c}/tasks`: the tasks' configurations."""
        return self._get(f"/connectors/{quote(connector, safe='')}/tasks")

    def offsets(self, connector: str) -> bytes:
        """`GET /connectors/{c}/offsets` (KIP-875, Kafka 3.5): makes the worker read the topic."""
        return self._get(offsets_path(connector))

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
                forget_locals(exc)
                failures.append((url, exc))
                if not isinstance(exc, NEXT):
                    break
            else:
                self._current = number
                return body
        raise verdict(self.name, f"GET {path}", failures, of=len(self._urls))

    def _ask(self, url: str, path: str) -> bytes:
        """One worker's answer. Raises errors whose detail says nothing of worker and path."""
        return told(self.name, *self._exchange(url, path))

    def _exchange(self, url: str, path: str) -> tuple[int, bytes]:
        if isinstance(self._transport, httpx.AsyncBaseTransport | None):
            exchange = self._answer(url, path, self._transport)
            return carry_out(self.name, exchange, self._timeout_s)
        return ask(self._transport, self.name, ("GET", url, path, None), self._timeout_s)

    async def _answer(
        self, url: str, path: str, transport: httpx.AsyncBaseTransport | None
    ) -> tuple[int, bytes]:
        """(status, body); of a 404 and a 500 the beginning of the body, of other errors nothing."""
        client = httpx.AsyncClient(
            base_url=url,
            timeout=bounds(self._timeout_s),
            follow_redirects=False,
            headers={"Accept": "application/json", **authorization(self._auth)},
            transport=transport,
            trust_env=False,
            verify=self._tls.get_for(url),
        )
        async with client, client.stream("GET", path) as response:
            body = bytearray()
            self.server_time = _moment(response.headers.get("Date"))
            bytes_max = body_bytes_max(response.status_code)
            if not bytes_max:
                return response.status_code, b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > bytes_max:
                    break
            return response.status_code, bytes(body)


def offsets_path(connector: str) -> str:
    """Where the source offsets of a connector are."""
    return f"/connectors/{quote(connector, safe='')}/offsets"


def body_bytes_max(status: int) -> int:
    """How much of an answer with this status is read, give or take a part of it."""
    if status in _LOOKED_INTO:
        return ERROR_BYTES_MAX
    return BODY_BYTES_MAX if status == httpx.codes.OK else 0


def told(name: str, status: int, body: bytes) -> bytes:
    """The body of an answer that is one. Raises errors whose detail says nothing of worker and
    path.
    """
    if status != httpx.codes.OK:
        raise _refusal(name, status, body)
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(name, f"answer larger than {BODY_BYTES_MAX} bytes")
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Malformed(name, "HTTP 200 with a body that is not JSON") from exc
    return body


def verdict(
    name: str, asked: str, failures: Sequence[tuple[str, ClientError]], *, of: int
) -> ClientError:
    """The most telling error of the workers (their URLs) that were asked; there are `of` them."""
    last = failures[-1][1]
    kind = type(last)
    if isinstance(last, NEXT):
        kind = next(at for at in _TELLING if any(isinstance(exc, at) for _, exc in failures))
    detail = last.detail
    if of > 1:
        detail = "; ".join(f"{_origin(url)}: {exc.detail}" for url, exc in failures)
    error = kind(name, f"{asked}: {detail}")
    error.__cause__ = next(exc.__cause__ for _, exc in failures if isinstance(exc, kind))
    return error


def _moment(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _refusal(name: str, status: int, body: bytes) -> ClientError:
    """The body is left out of the message: Connect's errors may quote configurations."""
    detail = f"HTTP {status}"
    classes: dict[int, type[ClientError]] = {401: Denied, 403: Denied, 409: Conflict}
    if status == httpx.codes.NOT_FOUND:
        return (NotFound if _about_a_connector(body) else _NoRoute)(name, detail)
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        # Asked for a configuration or tasks, a worker says it this way and not with 409.
        return (Conflict if _message(body) == REBALANCE else ServerError)(name, detail)
    if status < httpx.codes.BAD_REQUEST:
        return Malformed(name, detail)
    return classes.get(status, Refused)(name, detail)


class _ConnectError(msgspec.Struct):
    """How Connect itself says no; its web server says it in HTML, or of a path."""

    error_code: int
    message: str


def _about_a_connector(body: bytes) -> bool:
    return _message(body) not in {None, "HTTP 404 Not Found"}


def _message(body: bytes) -> str | None:
    """Connect's own words; None where something else answered."""
    try:
        return msgspec.json.decode(body, type=_ConnectError).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def reader_of(
    connect: Connect, timeout_s: float, *, transport: Transport | None = None
) -> ConnectReader:
    """All workers of a Connect cluster, as the configuration says to ask them."""
    return ConnectReader(
        connect.name,
        connect.worker_urls,
        timeout_s,
        auth=connect.auth,
        tls=connect.tls,
        transport=transport,
    )
