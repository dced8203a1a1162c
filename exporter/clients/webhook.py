"""JSON to somebody else's HTTP endpoint: one POST, bounded in time and size, errors translated.

Called by notify. Such an address is often a secret itself, so no error says more than the name that
the configuration gives it.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx

from exporter import __version__
from exporter.clients.auth import TlsContext, authorization
from exporter.clients.http_body import REQUEST_HEADERS
from exporter.clients.wire import bounds, carry_out, error_of
from exporter.config import Auth, Tls


class Webhook:
    """One endpoint. `url` is asked for at each call, as it may stand in a file; it may raise
    CannotIdentify. Thread-safe: every call has its own connection.
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
        """Done once the endpoint has said 2xx. Raises ClientError; after Ambiguous it may have
        taken it all the same.
        """
        status, _ = carry_out(self.name, self._exchange(body), self._timeout_s)
        if not httpx.codes.is_success(status):
            raise error_of(self.name, status, f"HTTP {status}")

    async def _exchange(self, body: bytes) -> tuple[int, bytes]:
        """What stands in the answer is nobody's business: it may quote what was sent."""
        url = self._url()
        client = httpx.AsyncClient(
            timeout=bounds(self._timeout_s),
            follow_redirects=False,
            headers={
                "Content-Type": "application/json",
                "User-Agent": f"offsetwatch/{__version__}",
                **REQUEST_HEADERS,
                **authorization(self._auth),
            },
            trust_env=False,
            verify=self._tls.get_for(url),
        )
        async with client, client.stream("POST", url, content=body) as response:
            return response.status_code, b""
