"""HTTP clients of httpx, configured alike: no cookies, no redirects, and bounded bodies.

No proxy of the environment is used. A redirect would send our credentials elsewhere. Cookies are
rejected before they are parsed: no request here needs a session, and the standard library prints a
trace to stderr for an `expires` that no clock can hold. `identity` is requested. One layer of gzip
is accepted all the same: some proxies always compress. Every other coding, stacked ones included,
is refused without decoding: 264 bytes of three gzip layers become 1.1 GiB.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

REQUEST_HEADERS: Final = {"Accept-Encoding": "identity"}
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
    async with AsyncExitStack() as exit_stack:
        # Not aiter_bytes(), which decodes each part without a bound.
        async for part in response.stream:
            body.add(part)
            if body.is_full:
                break
            if large is not None and body.size > LARGE_BYTES:
                await exit_stack.enter_async_context(large)
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


def _build_bounded_body(response: httpx.Response, bytes_max: int) -> BoundedBody:
    return BoundedBody(response.headers.get_list("Content-Encoding"), bytes_max)


# --- clients --------------------------------------------------------------------------------------

LOCATION_CHARS_MAX: Final = 200
REDIRECT_PREFIX: Final = "it redirects to "
FOLLOW_REDIRECTS: Final = False  # redirects


class EmptyCookieJar(CookieJar):
    """Cookie jar that stays empty."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Ignore the cookies of the answer."""


def build_async_client(
    url: str,
    *,
    timeout: httpx.Timeout,
    headers: Mapping[str, str],
    verify: ssl.SSLContext | bool,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """Return a client for one exchange with `url`. `transport` is a parameter for tests."""
    return httpx.AsyncClient(
        base_url=url,
        timeout=timeout,
        headers={**REQUEST_HEADERS, **headers},
        verify=verify,
        transport=transport,
        cookies=EmptyCookieJar(),
        follow_redirects=FOLLOW_REDIRECTS,
        trust_env=False,
    )


def build_blocking_client(
    url: str,
    *,
    timeout_s: float,
    headers: Mapping[str, str],
    verify: ssl.SSLContext | bool,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """Return a client like `build_async_client`, without an event loop."""
    return httpx.Client(
        base_url=url,
        timeout=timeout_s,
        headers={**REQUEST_HEADERS, **headers},
        verify=verify,
        transport=transport,
        cookies=EmptyCookieJar(),
        follow_redirects=FOLLOW_REDIRECTS,
        trust_env=False,
    )


def describe_redirect(status: int, location: str | None, *, host_only: bool = False) -> str | None:
    """Describe the target of a redirect; None for an answer that is no redirect.

    User, query and fragment are left out, because they may be secret. With `host_only` the path is
    left out too.
    """
    if location is None or not httpx.codes.is_redirect(status):
        return None
    target = _describe_location(location, host_only=host_only)
    return f"{REDIRECT_PREFIX}{target[:LOCATION_CHARS_MAX]}"


def _describe_location(location: str, *, host_only: bool) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return "an address that is none"
    host = parts.netloc.rpartition("@")[2]
    if not host:
        return (
            "another path of the same server" if host_only else _strip_path_parameters(parts.path)
        )
    address = f"{parts.scheme}://{host}" if parts.scheme else f"//{host}"
    return address if host_only else f"{address}{_strip_path_parameters(parts.path)}"


def _strip_path_parameters(path: str) -> str:
    """Remove parameters such as `;jsessionid=`."""
    return path.partition(";")[0]


# --- headers with a time, which may contain any text ----------------------------------------------


def parse_server_time(date: str | None) -> float | None:
    """Return Unix seconds; None without a valid date.

    parsedate_to_datetime raises OverflowError for a year of 20 digits, and so does timestamp().
    """
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def parse_retry_after_s(value: str | None) -> float | None:
    """Return how many seconds to wait, by a number or date (RFC 9110, 10.2.3); None without one."""
    if value is None:
        return None
    digits = value.strip()
    if digits.isascii() and digits.isdecimal():
        return float(digits[:9])  # thirty years are as good as all longer ones
    moment = parse_server_time(value)
    return None if moment is None else max(0.0, moment - time.time())
