"""HTTP exchange, bounded in time and always ended, with its failures translated to ClientError.

Callers define the request and check the answer. All errors of httpx, asyncio and OpenSSL are
translated here, and messages of other programs are redacted.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import traceback
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

import httpx

from offsetwatch.clients.http.auth import UnusableCredentials
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    Conflict,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    TargetUnreachable,
    TooManyRequests,
)

R = TypeVar("R")

# A connection and its handshake get this much each; a server that is well needs milliseconds.
CONNECT_TIMEOUT_SHARE: Final = 0.5
GENERATORS_MAX: Final = 8  # httpx and httpcore stack four
CLOSE_S: Final = 1.0
_ERRORS_BY_STATUS: Final[Mapping[int, type[ClientError]]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
}


class InMemoryTransport(Protocol):
    """In-memory server without sockets, for simulations of millions of requests.

    It answers at once.
    """

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        """Return (status, body).

        Raises the httpx error of a failed connection, of a failed answer, or of one that is too
        late.
        """


# What clients can be given in place of the network: a transport of httpx's, or a world in memory.
Transport = httpx.AsyncBaseTransport | InMemoryTransport


def build_timeout(timeout_s: float) -> httpx.Timeout:
    """Return the timeouts of a client whose whole call is bounded by `run_exchange`.

    A handshake needs a shorter timeout of its own: httpx leaves the socket of a cancelled one open.
    """
    return httpx.Timeout(None, connect=timeout_s * CONNECT_TIMEOUT_SHARE)


def run_exchange(
    name: str, exchange: Coroutine[None, None, tuple[int, bytes]], timeout_s: float
) -> tuple[int, bytes]:
    """Run an exchange and return (status, body).

    Raises ClientError with `name` as the target; its detail does not contain the address.
    """
    try:
        with translate_http_errors(name, timeout_s):
            return run_in_own_loop(exchange, timeout_s)
    except ClientError as exc:
        forget_locals(exc)
        raise


def exchange_in_memory(
    transport: InMemoryTransport,
    name: str,
    key: tuple[str, str, str, bytes | None],
    timeout_s: float,
) -> tuple[int, bytes]:
    """Return (status, body) of an in-memory exchange; `key` is (method, url, path, body)."""
    with translate_http_errors(name, timeout_s):
        return transport.exchange(*key, timeout_s)


def build_status_error(name: str, status: int, detail: str) -> ClientError:
    """Return the error for a status that is no success.

    A redirect is an error too: following it would send our credentials elsewhere.
    """
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(name, detail)
    if status < httpx.codes.BAD_REQUEST:
        return MalformedResponse(name, detail)
    return _ERRORS_BY_STATUS.get(status, RemoteRefusal)(name, detail)


def forget_locals(error: BaseException) -> None:
    """Clear the local variables of the frames in the tracebacks of an error and its causes.

    The loop and its task refer to an error that refers to them, and so to what had been read of an
    answer, 32 MiB at most. They stay until Python looks for cycles, which is rare
    (daemon/tuning.py).
    """
    for cause in _iterate_causes(error):
        traceback.clear_frames(cause.__traceback__)


@contextmanager
def translate_http_errors(name: str, timeout_s: float) -> Iterator[None]:
    """Translate errors of a connection or an answer to ClientError, as in `run_exchange`."""
    try:
        yield
    except UnusableCredentials as exc:
        raise TargetUnreachable(name, str(exc)) from exc
    except httpx.ConnectTimeout as exc:
        bound_s = timeout_s * CONNECT_TIMEOUT_SHARE
        raise ResponseTimeout(name, f"no connection within {bound_s:g} s") from exc
    except (TimeoutError, httpx.TimeoutException) as exc:
        raise ResponseTimeout(name, f"no whole answer within {timeout_s:g} s") from exc
    # OSError, because a TLS alert after the handshake passes through httpx as it is.
    except (httpx.TransportError, httpx.InvalidURL, OSError) as exc:
        raise build_connection_error(name, exc) from exc
    except httpx.DecodingError as exc:
        raise MalformedResponse(name, "the encoding of the answer is broken") from exc


def run_in_own_loop(work: Coroutine[None, None, R], timeout_s: float | None) -> R:
    """Run a coroutine in an event loop of its own and clean everything up.

    asyncio.run is not used: it would wait for a name server that does not answer.
    """

    async def bounded() -> R:
        async with asyncio.timeout(timeout_s):
            return await work

    loop = asyncio.new_event_loop()
    task = loop.create_task(bounded())
    try:
        return loop.run_until_complete(task)
    finally:
        task.cancel()  # after Ctrl-C it is still under way
        loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(_end_generators())
        loop.close()


async def _end_generators() -> None:
    """Wait for the ends of generators that were abandoned in the middle of an answer.

    Each end is a task and starts that of the generator below it.
    """
    for _ in range(GENERATORS_MAX):
        await asyncio.sleep(0)
        ending = asyncio.all_tasks() - {asyncio.current_task()}
        if not ending:
            return
        await asyncio.wait(ending, timeout=CLOSE_S)


# What OpenSSL calls an answer that is no TLS, by version.
_PLAIN_HTTP: Final = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})


def build_connection_error(name: str, error: Exception) -> ClientError:
    """Return the error of a failed connection or an incomplete answer, from its first cause."""
    before = isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol | httpx.InvalidURL)
    kind: type[ClientError] = TargetUnreachable if before else IncompleteResponse
    for cause in _iterate_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            # OpenSSL sets these two; an error that Python itself raises has neither.
            reason = getattr(cause, "verify_message", str(cause))
            return TargetUnreachable(name, f"its certificate is not trusted: {reason}")
        if isinstance(cause, ssl.SSLError):
            reason = str(getattr(cause, "reason", None))
            if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
                return AccessDenied(
                    name, f"it refuses the client certificate, or requires one: {reason}"
                )
            if reason in _PLAIN_HTTP:
                return TargetUnreachable(
                    name, "the server does not speak TLS", "write http:// in place of https://"
                )
            return kind(name, f"TLS failed: {reason}")
        if isinstance(cause, socket.gaierror):
            return kind(name, f"its host name cannot be resolved: {cause.strerror}")
        if isinstance(cause, OSError) and cause.errno is not None:
            return kind(name, os.strerror(cause.errno))
    if isinstance(error, httpx.LocalProtocolError):
        return kind(name, "the request could not be sent")  # the error's text quotes headers
    if isinstance(error, httpx.RemoteProtocolError) and "without sending" in str(error):
        said = "the server closed the connection without an answer, as a port without HTTP does"
        return kind(name, said)
    return kind(name, str(error) or type(error).__name__)


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause and so on; of an exception group the first one."""
    at: BaseException | None = error
    while at is not None:
        yield at
        group = at.exceptions[0] if isinstance(at, BaseExceptionGroup) else None
        at = group or at.__cause__ or at.__context__


# --- messages of other programs -------------------------------------------------------------------

MESSAGE_CHARS_MAX: Final = 500
# Of a line: looking for secrets takes the square of its length where it is full of their names.
SCANNED_CHARS_MAX: Final = 4 * MESSAGE_CHARS_MAX

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")
_SECRET = re.compile(
    r"""(?ix) ((?:passw(?:or)?d|secret|token|credential|api.?key|jaas)[\w.-]*["']?\s*[=:]\s*)
    (?: "[^"]*(?:"|\Z) | '[^']*(?:'|\Z) | [^\s,;})\]]+ )"""
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]+@")


def redact_secrets(message: str) -> str:
    """Return one short line of a foreign message, without what looks like a secret."""
    line = _UNPRINTABLE.sub(" ", message.split("\n", 1)[0]).strip()
    if len(line) > SCANNED_CHARS_MAX:
        # Between two words: half of what stands before the @ of an address is not known for that.
        line = line[:SCANNED_CHARS_MAX].rpartition(" ")[0].rstrip() + "…"
    line = _URL_CREDENTIALS.sub("…@", _SECRET.sub(r"\1…", line))
    return line if len(line) <= MESSAGE_CHARS_MAX else f"{line[:MESSAGE_CHARS_MAX]}…"
