"""Webhook client: POST of JSON to an HTTP endpoint, bounded in time and size, errors translated.

Its address is often a secret, so errors contain only the name that the configuration gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx

from offsetwatch import __version__
from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.bodies import HTML_PAGE
from offsetwatch.clients.http.client import build_async_client, describe_redirect, read_body
from offsetwatch.clients.http.exchange import build_status_error, build_timeout, run_exchange
from offsetwatch.config import Auth, Tls
from offsetwatch.errors import MalformedResponse

PAGE_BYTES_MAX: Final = 1024  # enough to tell a page
_HTML_STARTS: Final = (b"<!doctype html", b"<html")


class WebhookClient:
    """Client of one endpoint. Thread-safe: every call has its own connection.

    `url` is called at each request, as the address may be in a file; it may raise
    UnusableCredentials.
    """

    def __init__(
        self,
        name: str,
        url: Callable[[], str],
        timeout_s: float,
        *,
        auth: Auth | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._timeout_s = timeout_s
        self._auth = auth
        self._tls = TlsContext(tls)

    def post(self, body: bytes) -> None:
        """Send the body; return once the endpoint has answered 2xx.

        Raises ClientError; after AmbiguousOutcome the endpoint may have received the body.
        """
        status, answer = run_exchange(self.name, self._exchange(body), self._timeout_s)
        if not httpx.codes.is_success(status):
            raise build_status_error(
                self.name, status, f"HTTP {status}{_describe_response(status, answer)}"
            )
        if _is_page(answer):
            raise MalformedResponse(
                self.name, f"HTTP {status} with {HTML_PAGE}: it was not delivered"
            )

    async def _exchange(self, body: bytes) -> tuple[int, bytes]:
        """Return (status, the beginning of an HTML answer or the target of a redirect).

        The text of the answer is not repeated, because it may quote the request. Of a redirect only
        the host is returned, because the path may be the secret.
        """
        url = self._url()
        client = build_async_client(
            "",
            timeout=build_timeout(self._timeout_s),
            headers={
                "Content-Type": "application/json",
                "User-Agent": f"offsetwatch/{__version__}",
                **build_authorization_headers(self._auth),
            },
            verify=self._tls.get_for(url),
        )
        async with client, client.stream("POST", url, content=body) as response:
            status, location = response.status_code, response.headers.get("Location")
            where = describe_redirect(status, location, host_only=True)
            if where is not None:
                return status, where.encode()
            if not response.headers.get("Content-Type", "").lower().startswith("text/html"):
                return status, b""
            return status, await read_body(response, PAGE_BYTES_MAX)


def _describe_response(status: int, answer: bytes) -> str:
    if httpx.codes.is_redirect(status):
        return f": {answer.decode(errors='replace')}" if answer else ""
    return f" with {HTML_PAGE}" if _is_page(answer) else ""


def _is_page(answer: bytes) -> bool:
    """Return True for a whole HTML document: frameworks also send a bare `ok` as text/html."""
    return answer.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower().startswith(_HTML_STARTS)
