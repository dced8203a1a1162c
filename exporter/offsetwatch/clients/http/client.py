"""HTTP clients of httpx, configured alike: no cookies, no redirects, no proxy of the environment.

A redirect would send our credentials elsewhere. Cookies are rejected before they are parsed: no
request here needs a session, and the standard library prints a trace to stderr for an `expires`
that no clock can hold.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from offsetwatch.clients.http.body import REQUEST_HEADERS

LOCATION_CHARS_MAX: Final = 200
REDIRECT_PREFIX: Final = "it redirects to "
FOLLOW_REDIRECTS: Final = False  # redirects
HTML_PAGE: Final = "an HTML page, as of a login or a proxy"


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
    place = _describe_location(location, host_only=host_only)
    return f"{REDIRECT_PREFIX}{place[:LOCATION_CHARS_MAX]}"


def is_html(body: bytes) -> bool:
    """Return True for an HTML body, as a login page or a proxy sends instead of JSON."""
    return body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


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
