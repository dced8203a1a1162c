"""Persistent HTTP connection for many GETs to one server.

It raises the same errors as httpx, so `exchange.translate_http_errors` applies. It follows no
redirect.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

import h11
import httpx

from offsetwatch.clients.http.body import REQUEST_HEADERS, BoundedBody

READ_BYTES: Final = 64 * 1024
LARGE_BYTES: Final = 1024 * 1024  # what is longer is read by one connection at a time
IDLE_CHECK_AFTER_S: Final = 0.5  # no server is tired of waiting sooner


class KeepAliveConnection:
    """GETs one at a time over one connection, for as long as both sides keep it open.

    For one asyncio loop. A cancelled request closes the connection: otherwise its answer would be
    taken for that of the next request.
    """

    def __init__(
        self,
        url: str,
        connect_s: float,
        context: Callable[[], ssl.SSLContext],
        large: asyncio.Lock,
    ) -> None:
        """Configure the connection; the first request opens it.

        A path in `url` is prepended to each path. `connect_s` limits the time to connect, TLS
        included. `context` is for https; its errors pass through. `large` is held while reading a
        large answer: twenty of them at once would take half a gigabyte.
        """
        self._url = httpx.URL(url)
        self._prefix = self._url.raw_path.rstrip(b"/")
        self._like: tuple[Mapping[str, str], h11.Request] | None = None
        self._connect_s = connect_s
        self._context = context
        self._large = large
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._protocol = h11.Connection(h11.CLIENT)
        self._heard = False
        self._used_at = 0.0
        self.retry_after: str | None = None  # of the newest answer, like what follows
        self.location: str | None = None

    async def get(
        self, path: str, headers: Mapping[str, str], bytes_max: Callable[[int], int]
    ) -> tuple[int, bytes]:
        """Return (status, body).

        Of a body longer than `bytes_max(status)` only the beginning is returned, which is longer
        than that, too. Raises httpx.TransportError, httpx.DecodingError or OSError.
        """
        target = self._prefix + path.encode("ascii")
        request = h11.Request(
            method=b"GET", target=target, headers=self._like_last(headers).headers
        )
        answered = False
        try:
            found = await self._again(request, bytes_max)
            if found is None:
                await self._connect()
                found = await self._exchange(request, bytes_max)
            answered = True
        finally:
            if not answered:
                self.close()
        return found

    def close(self) -> None:
        """Close at once; the next request opens a new connection."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def _like_last(self, headers: Mapping[str, str]) -> h11.Request:
        """Return a request with these headers, cached: checking them takes as long as the rest."""
        if self._like is None or self._like[0] != headers:
            fixed = {"Host": self._url.netloc.decode("ascii"), **REQUEST_HEADERS}
            every = [*fixed.items(), *headers.items()]
            made = h11.Request(method=b"GET", target=b"/", headers=every)
            self._like = (headers, made)
        return self._like[1]

    async def _again(
        self, request: h11.Request, bytes_max: Callable[[int], int]
    ) -> tuple[int, bytes] | None:
        """Send the request over the connection of the last answer.

        None if it was closed while idle, which says nothing of this request.
        """
        if self._streams is None:
            return None
        if time.monotonic() - self._used_at > IDLE_CHECK_AFTER_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await self._streams[0].read(READ_BYTES)
                self.close()  # an end, or words that nobody asked for
                return None
        try:
            return await self._exchange(request, bytes_max)
        except httpx.TransportError:
            if self._heard:
                raise
            self.close()
            return None

    async def _connect(self) -> None:
        secure = self._url.scheme == "https"
        context = self._context() if secure else None
        port = self._url.port or (443 if secure else 80)
        try:
            async with asyncio.timeout(self._connect_s):
                self._streams = await asyncio.open_connection(self._url.host, port, ssl=context)
        except TimeoutError as exc:
            raise httpx.ConnectTimeout("no connection") from exc
        except (OSError, UnicodeError) as exc:
            raise httpx.ConnectError(type(exc).__name__) from exc
        self._protocol = h11.Connection(h11.CLIENT)

    async def _exchange(
        self, request: h11.Request, bytes_max: Callable[[int], int]
    ) -> tuple[int, bytes]:
        assert self._streams is not None
        self._heard = False
        try:
            for part in (request, h11.EndOfMessage()):
                self._streams[1].write(self._protocol.send(part) or b"")
            response = await self._response()
            status = response.status_code
            body = BoundedBody(_list_content_codings(response), bytes_max(status))
            async with AsyncExitStack() as held:
                is_large = False
                while not body.is_full:
                    event = await self._event()
                    if isinstance(event, h11.EndOfMessage):
                        self._keep()
                        return status, body.end()
                    assert isinstance(event, h11.Data)
                    body.add(event.data)
                    if not is_large and body.size > LARGE_BYTES:
                        is_large = True
                        await held.enter_async_context(self._large)
        except h11.LocalProtocolError as exc:
            raise httpx.LocalProtocolError("the request could not be sent") from exc
        except h11.RemoteProtocolError as exc:
            raise httpx.RemoteProtocolError(str(exc)) from exc
        except OSError as exc:
            raise httpx.ReadError(type(exc).__name__) from exc
        self.close()  # cheaper than the rest of what nobody wants
        return status, body.end()

    async def _response(self) -> h11.Response:
        """Return the final response; a server may send informational ones (1xx) before."""
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        assert isinstance(event, h11.Response)
        self.retry_after = _find_header(event, b"retry-after")
        self.location = _find_header(event, b"location")
        return event

    async def _event(self) -> h11.Event:
        assert self._streams is not None
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                raise httpx.RemoteProtocolError("more than one answer")
            if self._protocol.their_state is h11.ERROR:
                raise httpx.RemoteProtocolError("the answer is broken")
            received = await self._streams[0].read(READ_BYTES)
            self._heard = self._heard or bool(received)
            self._protocol.receive_data(received)

    def _keep(self) -> None:
        """Keep the connection for the next request if the server keeps it and sent nothing more."""
        done = (self._protocol.our_state, self._protocol.their_state) == (h11.DONE, h11.DONE)
        if done and not self._protocol.trailing_data[0]:
            self._protocol.start_next_cycle()
            self._used_at = time.monotonic()
        else:
            self.close()


def _find_header(response: h11.Response, wanted: bytes) -> str | None:
    found = [value for name, value in response.headers if name == wanted]
    return found[0].decode("latin-1") if found else None


def _list_content_codings(response: h11.Response) -> list[str]:
    return [
        value.decode("latin-1") for name, value in response.headers if name == b"content-encoding"
    ]
