"""An HTTP client of a daemon's read listener, which verbs ask before they inspect clusters.

The daemon has in memory what an own inspection takes seconds to read.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from offsetwatch.cli.remote import own_daemon
from offsetwatch.cli.remote.own_daemon import BODY_BYTES_MAX, DaemonResponse
from offsetwatch.clients.http.auth import (
    TlsContext,
    UnusableCredentials,
    build_authorization_headers,
)
from offsetwatch.clients.http.body import read_body_blocking
from offsetwatch.clients.http.client import HTML_PAGE, build_blocking_client, is_html
from offsetwatch.config import Config, OwnAccess, Tls
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    MalformedResponse,
    SizeLimitExceeded,
    TargetUnreachable,
)

REQUEST_TIMEOUT_S: Final = 2.0


class ReadListener(NamedTuple):
    """A read listener, at a given URL or at the address of the configuration.

    url    None for the daemon of `config` on this machine
    """

    config: Config | None
    url: str | None = None

    @property
    def where(self) -> str:
        """Return the address for messages."""
        if self.url is not None:
            return self.url
        assert self.config is not None  # the options see to it
        return own_daemon.find_daemon_address(self.config)

    def get(self, path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> DaemonResponse:
        """Return the response to one GET.

        Raises ClientError, and ConfigError for unusable settings.
        """
        if self.url is None:
            assert self.config is not None  # the options see to it
            return own_daemon.request_document(self.config, path, timeout_s)
        own = None if self.config is None else self.config.own_access
        return _send_get(self.url, path, own if own is not None else OwnAccess(), timeout_s)


def fetch_document(
    listener: ReadListener, path: str, timeout_s: float = REQUEST_TIMEOUT_S
) -> DaemonResponse | None:
    """Return the response; None if there is no such document.

    Raises ClientError if no document can be read, and ConfigError.
    """
    answer = listener.get(path, timeout_s)
    refusals: dict[int, Callable[[str, str], ClientError]] = {
        HTTPStatus.UNAUTHORIZED: AccessDenied,
        HTTPStatus.FORBIDDEN: AccessDenied,
    }
    page = HTML_PAGE if is_html(answer.body) else ""
    if answer.status == HTTPStatus.OK:
        if page:
            raise MalformedResponse(
                listener.where, f"HTTP 200 with {page}, and not offsetwatch's answer"
            )
        return answer
    said = answer.body[:500].decode(errors="replace").strip()
    if answer.status == HTTPStatus.NOT_FOUND and path.startswith("/api/v1/explain"):
        raise ConfigError((said,))
    refused = refusals.get(answer.status)
    if refused is not None:
        said = f"HTTP {answer.status} with {page}" if page else "it does not know us"
        raise refused(listener.where, f"{said}: see own_access")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    raise TargetUnreachable(listener.where, f"HTTP {answer.status}: {page or said}")


def _send_get(url: str, path: str, access: OwnAccess, timeout_s: float) -> DaemonResponse:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(
            ("--url: expected http://host:port or https://host:port, as in http://host:9640",)
        )
    try:
        headers = build_authorization_headers(access.auth)
        verify = TlsContext(access.tls or Tls()).get() if url.startswith("https:") else True
    except UnusableCredentials as exc:
        raise ConfigError((f"own_access.{exc}",)) from exc
    try:
        with (
            build_blocking_client(
                url, timeout_s=timeout_s, headers=headers, verify=verify
            ) as client,
            client.stream("GET", path) as response,
        ):
            body = read_body_blocking(response, BODY_BYTES_MAX)
            status = response.status_code
    except httpx.HTTPError as exc:
        said = str(exc) or type(exc).__name__
        advice = "check the address, which is `listen` of the daemon's configuration"
        raise TargetUnreachable(url, said, advice) from exc
    if len(body) > BODY_BYTES_MAX:
        raise SizeLimitExceeded(url, f"an answer of more than {BODY_BYTES_MAX} bytes")
    return DaemonResponse(status, body)
