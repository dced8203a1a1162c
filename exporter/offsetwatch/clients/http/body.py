"""Body of an HTTP answer, bounded before it is decoded.

`identity` is requested. One layer of gzip is accepted all the same: some proxies always compress.
Every other coding, stacked ones included, is refused without decoding: 264 bytes of three gzip
layers become 1.1 GiB.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import httpx

REQUEST_HEADERS: Final = {"Accept-Encoding": "identity"}
# 32 MiB of `{},` would be decoded into 800 MiB of objects. The list of 12,000 connectors with 80
# values each stays below; a million objects of one field take 100 MiB.
VALUES_MAX: Final = 1_000_000
LARGE_BYTES: Final = 1024 * 1024
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS


class BoundedBody:
    """Decoded body of up to `bytes_max` bytes, or one byte more if the answer is longer."""

    def __init__(self, codings: Sequence[str], bytes_max: int) -> None:
        """Take the values of all Content-Encoding headers. Raises httpx.DecodingError."""
        named = [coding.strip().lower() for value in codings for coding in value.split(",")]
        applied = [coding for coding in named if coding not in {"", "identity"}]
        if len(applied) > 1 or not _GZIP.issuperset(applied):
            raise httpx.DecodingError("compressed in a way that was not requested")
        self._gzip = zlib.decompressobj(_GZIP_WBITS) if applied else None
        self._room = bytes_max + 1
        self._body = bytearray()
        self._received = 0

    @property
    def size(self) -> int:
        """Return the number of bytes so far."""
        return len(self._body)

    @property
    def is_full(self) -> bool:
        """Return True once nothing more is added."""
        return len(self._body) >= self._room or self._received >= self._room

    def add(self, part: bytes) -> None:
        """Append the next bytes of the answer. Raises httpx.DecodingError."""
        self._received += len(part)
        room = self._room - len(self._body)
        if self._gzip is None:
            self._body += part[:room]
        elif room > 0:
            try:
                self._body += self._gzip.decompress(part, room)
            except zlib.error as exc:
                raise httpx.DecodingError("its gzip is broken") from exc

    def end(self) -> bytes:
        """Return the body. Raises httpx.DecodingError if gzip ends too early."""
        if self._gzip is not None and self._received and not (self._gzip.eof or self.is_full):
            raise httpx.DecodingError("its gzip ends too early")
        return bytes(self._body)


async def read_body(
    response: httpx.Response, bytes_max: int, *, large: asyncio.Lock | None = None
) -> bytes:
    """Return the body as BoundedBody does; the rest is not read. Raises the errors of httpx.

    `large` is held from LARGE_BYTES on: twenty answers at once could take half a gigabyte.
    """
    body = _build_bounded_body(response, bytes_max)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    async with AsyncExitStack() as held:
        # Not aiter_bytes(), which decodes each part without a bound.
        async for part in response.stream:
            body.add(part)
            if body.is_full:
                break
            if large is not None and body.size > LARGE_BYTES:
                await held.enter_async_context(large)
                large = None
    return body.end()


def read_body_blocking(response: httpx.Response, bytes_max: int) -> bytes:
    """Return the body as `read_body` does, for a client without an event loop."""
    body = _build_bounded_body(response, bytes_max)
    assert isinstance(response.stream, httpx.SyncByteStream)
    for part in response.stream:
        body.add(part)
        if body.is_full:
            break
    return body.end()


def has_too_many_values(body: bytes) -> bool:
    """Return True if JSON would be decoded into more than VALUES_MAX objects.

    Counts characters that can begin a value, in strings too: three passes in C, 10 ms for 32 MiB.
    """
    return sum(body.count(mark) for mark in (b"{", b"[", b",")) > VALUES_MAX


def _build_bounded_body(response: httpx.Response, bytes_max: int) -> BoundedBody:
    return BoundedBody(response.headers.get_list("Content-Encoding"), bytes_max)
