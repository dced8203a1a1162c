"""GET requests to the Connect REST API with httpx: bounded in time and size, errors translated.

Every answer has the worker's clock in its Date header. Requests that change a Connect cluster are
elsewhere (clients/write), on purpose.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.bodies import HTML_PAGE, VALUES_MAX, has_too_many_values, is_html
from offsetwatch.clients.http.client import (
    build_async_client,
    build_blocking_client,
    describe_redirect,
    parse_retry_after_s,
    parse_server_time,
    read_body,
)
from offsetwatch.clients.http.exchange import (
    Transport,
    build_status_error,
    build_timeout,
    exchange_in_memory,
    forget_locals,
    run_exchange,
)
from offsetwatch.config import Auth, Connect, Tls
from offsetwatch.decode.json_text import decode_strict, replace_lone_surrogates
from offsetwatch.errors import (
    AmbiguousOutcome,
    ClientError,
    Conflict,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.connectors import (
    PATH_REFUSAL_REASON,
    build_connector_path,
    is_refused_in_path,
)

BODY_BYTES_MAX = 32 * 1024 * 1024  # ten thousand connectors with stack traces stay below
ERROR_BYTES_MAX = 64 * 1024  # only looked into for who says that something is not there


class _RouteNotFound(NotFound):
    """Error 404 that is about no connector: a starting worker answers so to every path."""


REBALANCE_MESSAGE: Final = "Request cannot be completed because a rebalance is expected"
_AUTHENTICATION_STATUSES: Final = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_STATUSES_WITH_ERROR_BODY: Final = (
    httpx.codes.NOT_FOUND,
    httpx.codes.INTERNAL_SERVER_ERROR,
    *_AUTHENTICATION_STATUSES,
)
# With these the next worker is asked: it may be alive, started, or reached without a broken proxy.
NEXT_WORKER_ERRORS: Final = (TargetUnreachable, AmbiguousOutcome, MalformedResponse, _RouteNotFound)
# When all workers fail: an answer tells more than a silence, and a silence more than a closed door.
_ERROR_PRECEDENCE: Final = (
    ServerError,
    MalformedResponse,
    NotFound,
    IncompleteResponse,
    ResponseTimeout,
    TargetUnreachable,
)


class ConnectReader:
    """Reader of one Connect cluster, over the worker that answered last.

    Thread-safe: every request has its own connection. At one request in some seconds the server
    would close a persistent connection more often than not.
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
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Configure the reader.

        `timeout_s` limits a whole answer of one worker, and the wait for a Retry-After. `transport`
        and `pause` are parameters for tests.
        """
        assert urls
        self._pause = pause
        self._retry_after_s: float | None = None  # by the newest answer
        self.name = name
        self._urls = urls
        self._timeout_s = timeout_s
        self._auth = auth
        self._tls = TlsContext(tls)
        self._transport = transport
        self._current = 0
        self.server_time: float | None = None  # by the Date of the newest answer, Unix seconds

    def root(self) -> bytes:
        """Read `GET /`: version, commit and the id of the Kafka cluster."""
        return self._get("/")

    def connectors(self) -> bytes:
        """Read `GET /connectors?expand=status&expand=info`, which a worker has in memory."""
        return self._get("/connectors?expand=status&expand=info")

    def connector_names(self) -> bytes:
        """Read `GET /connectors`: names only, including connectors without a status."""
        return self._get("/connectors")

    def connector_infos(self) -> bytes:
        """Read `GET /connectors?expand=info`: configurations, including those without a status."""
        return self._get("/connectors?expand=info")

    def connector(self, connector: str) -> bytes:
        """Read `GET /connectors/{c}`: configuration, tasks, type, as one entry of `expand=info`."""
        return self._get(build_connector_path(connector), connector)

    def status(self, connector: str) -> bytes:
        """Read `GET /connectors/{c}/status`, which a worker has in memory."""
        return self._get(build_connector_path(connector, "status"), connector)

    def connector_config(self, connector: str) -> bytes:
        """Read `GET /connectors/{c}/config`: it may contain secrets, so do not keep it."""
        return self._get(build_connector_path(connector, "config"), connector)

    def plugins(self) -> bytes:
        """Read `GET /connector-plugins`: the connector classes that the worker has."""
        return self._get("/connector-plugins")

    def tasks(self, connector: str) -> bytes:
        """Read `GET /connectors/{c}/tasks`: the configurations of the tasks."""
        return self._get(build_connector_path(connector, "tasks"), connector)

    def offsets(self, connector: str) -> bytes:
        """Read `GET /connectors/{c}/offsets` (KIP-875, Kafka 3.5).

        The worker reads its offsets topic to the end for it.
        """
        return self._get(offsets_path(connector), connector)

    def close(self) -> None:
        """Close nothing: no connection stays open between requests. Callers need not know that."""

    def _get(self, path: str, connector: str | None = None) -> bytes:
        """Return the first good answer; retry once after a short enough Retry-After.

        Raises the most informative error if no worker gives one.
        """
        try:
            return self._first_good(path, connector)
        except TooManyRequests:
            wait_s, self._retry_after_s = self._retry_after_s, None
            if wait_s is None or wait_s > self._timeout_s:
                raise
        self._pause(wait_s)
        return self._first_good(path, connector)

    def _first_good(self, path: str, connector: str | None) -> bytes:
        first = self._current
        failures: list[tuple[str, ClientError]] = []
        for attempt in range(len(self._urls)):
            number = (first + attempt) % len(self._urls)
            url = self._urls[number]
            try:
                body = validate_response(self.name, *self._exchange(url, path))
            except ClientError as exc:
                forget_locals(exc)
                failures.append((url, exc))
                if not isinstance(exc, NEXT_WORKER_ERRORS):
                    break
            else:
                self._current = number
                return body
        raise combine_worker_errors(
            self.name, f"GET {path}", failures, of=len(self._urls), connector=connector
        )

    def _exchange(self, url: str, path: str) -> tuple[int, bytes]:
        if isinstance(self._transport, httpx.AsyncBaseTransport | None):
            exchange = self._answer(url, path, self._transport)
            return run_exchange(self.name, exchange, self._timeout_s)
        return exchange_in_memory(
            self._transport, self.name, ("GET", url, path, None), self._timeout_s
        )

    async def _answer(
        self, url: str, path: str, transport: httpx.AsyncBaseTransport | None
    ) -> tuple[int, bytes]:
        client = build_async_client(
            url,
            timeout=build_timeout(self._timeout_s),
            headers={"Accept": "application/json", **build_authorization_headers(self._auth)},
            transport=transport,
            verify=self._tls.get_for(url),
        )
        async with client:
            status, body, headers = await read_response(client, self.name, path)
        self.server_time = parse_server_time(headers.get("Date"))
        if status == httpx.codes.TOO_MANY_REQUESTS:
            self._retry_after_s = parse_retry_after_s(headers.get("Retry-After"))
        return status, body


async def read_response(
    client: httpx.AsyncClient,
    name: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    large: asyncio.Lock | None = None,
) -> tuple[int, bytes, httpx.Headers]:
    """Return (status, body, headers) of a GET; `large` is as for `read_body`.

    For 401, 403, 404 and 500 the body is its beginning, for other errors it is empty. Raises
    MalformedResponse for a redirect, which would send our credentials elsewhere.
    """
    async with client.stream("GET", path, headers=headers) as response:
        status = response.status_code
        where = describe_redirect(status, response.headers.get("Location"))
        if where is not None:
            raise MalformedResponse(
                name, f"HTTP {status}: {where}; url must name the address that answers"
            )
        bytes_max = BODY_BYTES_MAX if status == httpx.codes.OK else 0
        if status in _STATUSES_WITH_ERROR_BODY:
            bytes_max = ERROR_BYTES_MAX
        try:
            body = await read_body(response, bytes_max, large=large) if bytes_max else b""
        except httpx.HTTPError:
            if status not in _AUTHENTICATION_STATUSES:
                raise
            body = b""  # what it says is clear without its body
        return status, body, response.headers


def offsets_path(connector: str) -> str:
    """Return the path of a connector's offsets."""
    return build_connector_path(connector, "offsets")


def validate_response(name: str, status: int, body: bytes) -> bytes:
    """Return the body of a valid answer, in strict JSON.

    Raises errors whose detail has neither worker nor path.
    """
    if status != httpx.codes.OK:
        raise _build_response_error(name, status, body)
    if len(body) > BODY_BYTES_MAX:
        raise SizeLimitExceeded(name, f"answer larger than {BODY_BYTES_MAX} bytes")
    if has_too_many_values(body):
        raise SizeLimitExceeded(name, f"answer of more than {VALUES_MAX} values")
    error = _find_json_error(body)
    if error is None:
        return body
    repaired = replace_lone_surrogates(body)
    if repaired != body and _find_json_error(repaired) is None:
        return repaired
    what = "a body that is not JSON"
    if is_html(body):
        what = f"{HTML_PAGE}, and not the REST API of Connect"
    raise MalformedResponse(name, f"HTTP 200 with {what}") from error


def _find_json_error(body: bytes) -> msgspec.DecodeError | RecursionError | None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as exc:
        return exc
    return None


def combine_worker_errors(
    name: str,
    request: str,
    failures: Sequence[tuple[str, ClientError]],
    *,
    of: int,
    connector: str | None = None,
) -> ClientError:
    """Return the most informative error of the requested workers (by URL), of `of` workers in all.

    If it is about a connector whose name a path cannot contain, the detail says so.
    """
    last = failures[-1][1]
    kind = type(last)
    if isinstance(last, NEXT_WORKER_ERRORS):
        kind = next(
            kind for kind in _ERROR_PRECEDENCE if any(isinstance(exc, kind) for _, exc in failures)
        )
    detail = last.detail
    if of > 1:
        parts = ((urlsplit(url), exc.detail) for url, exc in failures)
        detail = "; ".join(f"{url.scheme}://{url.netloc}: {detail}" for url, detail in parts)
    if connector is not None and issubclass(kind, RemoteRefusal) and is_refused_in_path(connector):
        detail = f"{detail} ({PATH_REFUSAL_REASON})"
    error = kind(name, f"{request}: {detail}")
    error.__cause__ = next(exc.__cause__ for _, exc in failures if isinstance(exc, kind))
    return error


def _build_response_error(name: str, status: int, body: bytes) -> ClientError:
    """Return the error of an answer, without its body: Connect's errors may quote configs."""
    detail = f"HTTP {status}"
    message = _parse_error_message(body)
    if status == httpx.codes.NOT_FOUND and message in {None, "HTTP 404 Not Found"}:
        return _RouteNotFound(name, detail)
    # Asked for a configuration or tasks, a worker says it this way and not with 409.
    if status >= httpx.codes.INTERNAL_SERVER_ERROR and message == REBALANCE_MESSAGE:
        return Conflict(name, detail)
    if status in _AUTHENTICATION_STATUSES and is_html(body):
        detail = f"{detail} with {HTML_PAGE}"
    return build_status_error(name, status, detail)


class _ConnectError(msgspec.Struct):
    """Error body of Connect itself; its web server sends HTML, or an error about a path."""

    error_code: int
    message: str


def _parse_error_message(body: bytes) -> str | None:
    """Return Connect's own message; None if something else answered."""
    error = decode_strict(body, _ConnectError)
    return None if error is None else error.message


def reader_of(
    connect: Connect, timeout_s: float, *, transport: Transport | None = None
) -> ConnectReader:
    """Build the reader of a configured Connect cluster, over all its workers."""
    return ConnectReader(
        connect.name,
        connect.worker_urls,
        timeout_s,
        auth=connect.auth,
        tls=connect.tls,
        transport=transport,
    )


def read_worker_clock(
    url: str,
    timeout_s: float,
    *,
    verify: ssl.SSLContext | bool = True,
    transport: httpx.BaseTransport | None = None,
) -> float | None:
    """Return the worker's time in whole Unix seconds; None if the answer has no date.

    The request carries no credentials. `transport` is a parameter for tests.
    """
    try:
        with (
            build_blocking_client(
                "", timeout_s=timeout_s, headers={}, verify=verify, transport=transport
            ) as client,
            client.stream("HEAD", url) as response,  # no body is read
        ):
            return parse_server_time(response.headers.get("Date"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
        return None
