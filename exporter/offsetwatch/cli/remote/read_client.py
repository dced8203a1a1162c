"""An HTTP client of a daemon's read listener, which verbs ask before they inspect clusters.

The daemon has in memory what an own inspection takes seconds to read. If the web config file of the
configured daemon on this machine has TLS, only the certificate that this file names is trusted,
unless own_access names an authority. The address of a local command is in no certificate, and a
daemon with an expired certificate must not appear dead. Nothing is sent before the certificate is
checked.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from offsetwatch.cli.remote.plain_request import (
    BODY_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    DaemonResponse,
    exchange,
    find_local_address,
    open_connection,
    split_address,
)
from offsetwatch.clients.http.auth import (
    TlsContext,
    UnusableCredentials,
    build_authorization_headers,
)
from offsetwatch.clients.http.bodies import HTML_PAGE, is_html
from offsetwatch.config import Config, OwnAccess, Tls
from offsetwatch.config.files import describe_file_error, read_secret
from offsetwatch.config.schema import web
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    MalformedResponse,
    SizeLimitExceeded,
    TargetUnreachable,
)

_CERTIFICATE_END: Final = "-----END CERTIFICATE-----"


def find_daemon_address(config: Config) -> str:
    """Return the address at which the daemon of this configuration listens on this machine."""
    return find_local_address(config.listen)


def request_document(config: Config, path: str, timeout_s: float) -> DaemonResponse:
    """Return the response to one GET.

    Raises TargetUnreachable, SizeLimitExceeded, and ConfigError if a file cannot be used.
    """
    where = find_daemon_address(config)
    access = config.own_access if config.own_access is not None else OwnAccess()
    try:
        headers = build_authorization_headers(access.auth)
        connection, pinned = _build_connection(config, access, where, timeout_s)
    except UnusableCredentials as exc:
        raise ConfigError((f"own_access.{exc}",)) from exc
    open_connection(connection, where)
    if pinned is not None and _read_peer_certificate(connection) != pinned:
        connection.close()
        raise TargetUnreachable(where, "it shows another certificate than web_config_file names")
    return exchange(connection, where, path, headers, timeout_s)


def _build_connection(
    config: Config, access: OwnAccess, where: str, timeout_s: float
) -> tuple[http.client.HTTPConnection, bytes | None]:
    """Return an unconnected connection, and the certificate to expect; None if none is pinned."""
    host, port = split_address(where)
    file = config.web_config_file
    tls = None if file is None else web.load_web_config(file).tls_server_config
    if tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s), None
    own = access.tls if access.tls is not None else Tls()
    context = TlsContext(own).get()
    pinned = None
    if own.ca_file is None:
        # Not trusted by any authority but compared, byte by byte.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            pinned = ssl.PEM_cert_to_DER_cert(_cut_first_certificate(read_secret(tls.cert_file)))
        except (OSError, ValueError) as exc:
            problem = describe_file_error(exc)
            raise ConfigError((f"tls_server_config.cert_file: {problem}",)) from None
    connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    return connection, pinned


def _cut_first_certificate(pem: str) -> str:
    """Return the first certificate of a chain, which is the listener's own."""
    begin, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find(_CERTIFICATE_END)
    if begin < 0 or end < begin:
        raise ValueError("it holds no certificate in PEM")
    return pem[begin : end + len(_CERTIFICATE_END)]


def _read_peer_certificate(connection: http.client.HTTPConnection) -> bytes | None:
    tls_socket = connection.sock
    return (
        tls_socket.getpeercert(binary_form=True) if isinstance(tls_socket, ssl.SSLSocket) else None
    )


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
        return find_daemon_address(self.config)

    def get(self, path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> DaemonResponse:
        """Return the response to one GET.

        Raises ClientError, and ConfigError for unusable settings.
        """
        if self.url is None:
            assert self.config is not None  # the options see to it
            return request_document(self.config, path, timeout_s)
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
        said = (
            f"HTTP {answer.status} with {page}" if page else "user name and password are required"
        )
        raise refused(
            listener.where, f"{said}: own_access has them; `control.listen` has no such document"
        )
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    raise TargetUnreachable(listener.where, f"HTTP {answer.status}: {page or said}")


def _send_get(url: str, path: str, access: OwnAccess, timeout_s: float) -> DaemonResponse:
    from offsetwatch.clients.http.client import build_async_client, read_body  # noqa: PLC0415 - httpx: a sixth of a verb's start
    from offsetwatch.clients.http.exchange import build_timeout, run_exchange  # noqa: PLC0415 - httpx too

    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(
            ("--url: expected http://host:port or https://host:port, as in http://host:9640",)
        )
    try:
        headers = build_authorization_headers(access.auth)
        verify = TlsContext(access.tls or Tls()).get_for(url)
    except UnusableCredentials as exc:
        raise ConfigError((f"own_access.{exc}",)) from exc

    async def exchange() -> tuple[int, bytes]:
        client = build_async_client(
            url, timeout=build_timeout(timeout_s), headers=headers, verify=verify
        )
        async with client, client.stream("GET", path) as response:
            return response.status_code, await read_body(response, BODY_BYTES_MAX)

    try:
        status, body = run_exchange(url, exchange(), timeout_s)
    except ClientError as exc:
        advice = exc.advice or "check the address, which is `listen` of the daemon's configuration"
        raise TargetUnreachable(url, exc.detail, advice) from exc
    if len(body) > BODY_BYTES_MAX:
        raise SizeLimitExceeded(url, f"an answer of more than {BODY_BYTES_MAX} bytes")
    return DaemonResponse(status, body)
