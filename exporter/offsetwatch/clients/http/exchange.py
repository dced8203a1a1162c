"""One HTTP exchange, bounded in time and brought to an end, and what its failures mean.

They say what to send and what to make of
the answer; whatever httpx, asyncio and OpenSSL raise on the way is translated here.
"""

from __future__ import annotations

import asyncio
import os
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
    """A world without sockets, which a simulation asks by the million: it answers at once."""

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        """(status, body). Raises what httpx raises of a connection or an answer that fails, or of
        an answer that takes longer.
        """


# What clients can be given in place of the network: a transport of httpx's, or a world in memory.
Transport = httpx.AsyncBaseTransport | InMemoryTransport


def build_timeout(timeout_s: float) -> httpx.Timeout:
    """For a client whose whole call is bounded by `run_exchange`. A handshake needs a bound of its
    own that ends first: httpx leaves the socket of one that is cancelled open.
    """
    return httpx.Timeout(None, connect=timeout_s * CONNECT_TIMEOUT_SHARE)


def run_exchange(
    name: str, exchange: Coroutine[None, None, tuple[int, bytes]], timeout_s: float
) -> tuple[int, bytes]:
    """(status, body) of an exchange. Raises ClientError with `name` as the target; its detail says
    nothing of the address.
    """
    try:
        with translate_http_errors(name, timeout_s):
            return run_in_own_loop(exchange, timeout_s)
    except ClientError as exc:
        forget_locals(exc)
        raise


def exchange_in_memory(
    world: InMemoryTransport, name: str, key: tuple[str, str, str, bytes | None], timeout_s: float
) -> tuple[int, bytes]:
    """The same of a world in memory: (method, url, path, body) is `asked` of it."""
    with translate_http_errors(name, timeout_s):
        return world.exchange(*key, timeout_s)


def build_status_error(name: str, status: int, detail: str) -> ClientError:
    """What a status that is no success means. One that leads elsewhere is not followed: it would
    lead our credentials there.
    """
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ServerError(name, detail)
    if status < httpx.codes.BAD_REQUEST:
        return MalformedResponse(name, detail)
    return _ERRORS_BY_STATUS.get(status, RemoteRefusal)(name, detail)


def forget_locals(error: BaseException) -> None:
    """Where it was raised, and its causes. The loop and its task hold on to an error that holds on
    to them, and so to what had been read of an answer, 32 MiB at most: until Python looks for
    cycles, which it seldom does (daemon/tuning.py).
    """
    for cause in _iterate_causes(error):
        traceback.clear_frames(cause.__traceback__)


@contextmanager
def translate_http_errors(name: str, timeout_s: float) -> Iterator[None]:
    """What is raised of a connection or an answer becomes a ClientError, as in `run_exchange`."""
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
        raise _build_connection_error(name, exc) from exc
    except httpx.DecodingError as exc:
        raise MalformedResponse(name, "the encoding of the answer is broken") from exc


def run_in_own_loop(work: Coroutine[None, None, R], timeout_s: float | None) -> R:
    """Run it in a loop of its own and leave nothing of it behind.

    Not asyncio.run: that would wait for a name server that does not answer.
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
    """Wait for the ends of generators that were left in the middle of an answer: each is a task,
    and begins that of the generator below it.
    """
    for _ in range(GENERATORS_MAX):
        await asyncio.sleep(0)
        ending = asyncio.all_tasks() - {asyncio.current_task()}
        if not ending:
            return
        await asyncio.wait(ending, timeout=CLOSE_S)


def _build_connection_error(name: str, error: Exception) -> ClientError:
    """Before an answer or in the middle of it, and why, from the error that came first."""
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
            return kind(name, f"TLS failed: {reason}")
        if isinstance(cause, socket.gaierror):
            return kind(name, f"its host name cannot be resolved: {cause.strerror}")
        if isinstance(cause, OSError) and cause.errno is not None:
            return kind(name, os.strerror(cause.errno))
    if isinstance(error, httpx.LocalProtocolError):
        return kind(name, "the request could not be sent")  # the error's text quotes headers
    return kind(name, str(error) or type(error).__name__)


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came from, and so on; of several at once the first."""
    at: BaseException | None = error
    while at is not None:
        yield at
        group = at.exceptions[0] if isinstance(at, BaseExceptionGroup) else None
        at = group or at.__cause__ or at.__context__
