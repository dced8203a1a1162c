"""JSON to somebody else's HTTP endpoint: one POST, bounded in time and size, errors translated.

Such an address is often a secret itself, so no error says more than the name that
the configuration gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx

from offsetwatch import __version__
from offsetwatch.clients.http.auth import TlsContext, build_authorization_headers
from offsetwatch.clients.http.body import read_body
from offsetwatch.clients.http.client import HTML_PAGE, build_async_client, describe_redirect
from offsetwatch.clients.http.exchange import build_status_error, build_timeout, run_exchange
from offsetwatch.config import Auth, Tls
from offsetwatch.errors import MalformedResponse

PAGE_BYTES_MAX: Final = 1024  # enough to tell a page
_HTML_STARTS: Final = (b"<!doctype html", b"<html")


class WebhookClient:
    """One endpoint. `url` is asked for at each call, as it may stand in a file; it may raise
    UnusableCredentials. Thread-safe: every call has its own connection.
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
        """Done once the endpoint has said 2xx. Raises ClientError; after AmbiguousOutcome it may
        have taken it all the same.
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
        """Return (status, the beginning of an HTML answer or where it leads). None of it is
        repeated: it may quote what was sent. Of an address only the host is named, for the path may
        be the secret.
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
    """Return True for a whole document: frameworks call a bare `ok` text/html, too."""
    return answer.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower().startswith(_HTML_STARTS)
