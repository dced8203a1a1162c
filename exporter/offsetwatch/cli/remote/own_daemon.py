"""An HTTP client of the daemon of a configuration on this machine.

If its web config file has TLS, only the certificate that this file names is trusted, unless
own_access names an authority. The address of a local command is in no certificate, and a daemon
with an expired certificate must not appear dead. Nothing is sent before the certificate is checked.
"""

from __future__ import annotations

import http.client
import ssl
from typing import Final, NamedTuple

from offsetwatch.addresses import format_address
from offsetwatch.clients.http.auth import (
    TlsContext,
    UnusableCredentials,
    build_authorization_headers,
)
from offsetwatch.config import Config, OwnAccess, Tls
from offsetwatch.config.files import describe_file_error, read_secret
from offsetwatch.config.identity import CLUSTERS_HEADER
from offsetwatch.config.schema import web
from offsetwatch.errors import ConfigError, SizeLimitExceeded, TargetUnreachable

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_CERTIFICATE_END: Final = "-----END CERTIFICATE-----"


class DaemonResponse(NamedTuple):
    """Response of a daemon.

    clusters    hashes of the clusters that it watches (config/identity.py); None if it sends none
    """

    status: int
    body: bytes
    clusters: str | None = None


def find_daemon_address(config: Config) -> str:
    """Return the address at which the daemon of this configuration listens on this machine."""
    host, _, port = config.listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if bare in {"", "0.0.0.0", "*"}:  # noqa: S104 - compared only
        bare = "127.0.0.1"
    return format_address("::1" if bare == "::" else bare, port)


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
    try:
        connection.connect()
        if pinned is not None and _read_peer_certificate(connection) != pinned:
            raise TargetUnreachable(
                where, "it shows another certificate than web_config_file names"
            )
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(BODY_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as exc:
        raise TargetUnreachable(where, str(exc) or type(exc).__name__) from exc
    finally:
        connection.close()
    if len(body) > BODY_BYTES_MAX:
        raise SizeLimitExceeded(where, f"an answer of more than {BODY_BYTES_MAX} bytes")
    return DaemonResponse(answer.status, body, answer.getheader(CLUSTERS_HEADER))


def _build_connection(
    config: Config, access: OwnAccess, where: str, timeout_s: float
) -> tuple[http.client.HTTPConnection, bytes | None]:
    """Return an unconnected connection, and the certificate to expect; None if none is pinned."""
    host, _, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    file = config.web_config_file
    tls = None if file is None else web.load_web_config(file).tls_server_config
    if tls is None:
        return http.client.HTTPConnection(host, int(port), timeout=timeout_s), None
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
    made = http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=context)
    return made, pinned


def _cut_first_certificate(pem: str) -> str:
    """Return the first certificate of a chain, which is the listener's own."""
    begin, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find(_CERTIFICATE_END)
    if begin < 0 or end < begin:
        raise ValueError("it holds no certificate in PEM")
    return pem[begin : end + len(_CERTIFICATE_END)]


def _read_peer_certificate(connection: http.client.HTTPConnection) -> bytes | None:
    found = connection.sock
    return found.getpeercert(binary_form=True) if isinstance(found, ssl.SSLSocket) else None
