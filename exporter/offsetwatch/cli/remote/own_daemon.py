"""The daemon of a configuration, asked on this machine as that configuration says it can be.

Called by healthcheck, status and explain. Where its web config file has TLS, only the certificate
that this file names is trusted, unless own_access names an authority: a command on this machine
goes by an address that stands in no certificate, and one that has expired must not have a daemon
that works taken for dead. Nothing is sent before the certificate was looked at.
"""

from __future__ import annotations

import http.client
import ssl
from typing import Final, NamedTuple

from offsetwatch.addresses import written
from offsetwatch.clients.http.auth import CannotIdentify, TlsContext, authorization
from offsetwatch.config import Config, OwnAccess, Tls
from offsetwatch.config.files import problem_with, read_secret
from offsetwatch.config.identity import HEADER
from offsetwatch.config.schema import web
from offsetwatch.errors import ConfigError, TooLarge, Unreachable

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_END: Final = "-----END CERTIFICATE-----"


class Answer(NamedTuple):
    """What came back. clusters: which ones the daemon is about (config/identity.py)."""

    status: int
    body: bytes
    clusters: str | None = None


def address(config: Config) -> str:
    """Where the daemon of this configuration answers on this machine."""
    host, _, port = config.listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if bare in {"", "0.0.0.0", "*"}:  # noqa: S104 - compared only
        bare = "127.0.0.1"
    return written("::1" if bare == "::" else bare, port)


def get(config: Config, path: str, timeout_s: float) -> Answer:
    """One GET. Raises Unreachable, TooLarge, and ConfigError where a file cannot be used."""
    where = address(config)
    access = config.own_access if config.own_access is not None else OwnAccess()
    try:
        headers = authorization(access.auth)
        connection, pinned = _connection(config, access, where, timeout_s)
    except CannotIdentify as exc:
        raise ConfigError((f"own_access.{exc}",)) from exc
    try:
        connection.connect()
        if pinned is not None and _shown(connection) != pinned:
            raise Unreachable(where, "it shows another certificate than web_config_file names")
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(BODY_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as exc:
        raise Unreachable(where, str(exc) or type(exc).__name__) from exc
    finally:
        connection.close()
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(where, f"an answer of more than {BODY_BYTES_MAX} bytes")
    return Answer(answer.status, body, answer.getheader(HEADER))


def _connection(
    config: Config, access: OwnAccess, where: str, timeout_s: float
) -> tuple[http.client.HTTPConnection, bytes | None]:
    """Not connected yet; and the certificate that has to be shown there, if it is to be one."""
    host, _, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    file = config.web_config_file
    tls = None if file is None else web.load(file).tls_server_config
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
            pinned = ssl.PEM_cert_to_DER_cert(_first(read_secret(tls.cert_file)))
        except (OSError, ValueError) as exc:
            problem = problem_with(exc)
            raise ConfigError((f"tls_server_config.cert_file: {problem}",)) from None
    made = http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=context)
    return made, pinned


def _first(pem: str) -> str:
    """The listener's own one, before those of its chain."""
    begin, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("it holds no certificate in PEM")
    return pem[begin : end + len(_END)]


def _shown(connection: http.client.HTTPConnection) -> bytes | None:
    found = connection.sock
    return found.getpeercert(binary_form=True) if isinstance(found, ssl.SSLSocket) else None
