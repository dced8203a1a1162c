"""Credentials for HTTP servers: the `Authorization` header and the TLS context.

Files are read at each use, because secrets and certificates rotate. No error quotes a file.
"""

from __future__ import annotations

import base64
import ssl
from functools import cache
from pathlib import Path

from pydantic import SecretStr

from offsetwatch.config import Auth, Tls
from offsetwatch.config.files import (
    describe_file_error,
    describe_tls_error,
    read_file_stamp,
    read_secret,
)


class UnusableCredentials(Exception):
    """Secret or certificate that cannot be used now; the message says which and why."""


def build_authorization_headers(auth: Auth | None) -> dict[str, str]:
    """Return the headers that authenticate us. Raises UnusableCredentials."""
    if auth is None:
        return {}
    if auth.username is None:
        token = _read_secret_value(auth.bearer_token, auth.bearer_token_file, "auth.bearer_token")
        # The error of httpx would quote it.
        if not token or not token.isascii() or not token.isprintable():
            raise UnusableCredentials(
                "auth.bearer_token: empty, or characters that a header cannot carry"
            )
        return {"Authorization": f"Bearer {token}"}
    password = _read_secret_value(auth.password, auth.password_file, "auth.password") or ""
    pair = base64.b64encode(f"{auth.username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


class TlsContext:
    """TLS context for https, built again when one of its files has changed."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._cached: tuple[object, ssl.SSLContext] | None = None

    def get(self) -> ssl.SSLContext:
        """Return the current context. Raises UnusableCredentials."""
        stamp = self._stamp()
        if self._cached is None or self._cached[0] != stamp:
            self._cached = (stamp, _build_context(self._tls if self._tls is not None else Tls()))
        return self._cached[1]

    def get_for(self, url: str) -> ssl.SSLContext:
        """Return the context for this URL; for plain HTTP an empty one, which is faster to build.

        The empty one trusts no certificate.
        """
        return self.get() if url.startswith("https:") else _build_empty_context()

    def _stamp(self) -> object:
        """Return a value that changes when a file is written, replaced or deleted."""
        tls = self._tls
        if tls is None:
            return None
        files = (tls.ca_file, tls.cert_file, tls.key_file, tls.key_password_file)
        return tuple(read_file_stamp(path) for path in files if path is not None)


def find_tls_problems(tls: Tls) -> tuple[str, ...]:
    """Return why these files make no TLS context; empty if they do."""
    try:
        _build_context(tls)
    except UnusableCredentials as exc:
        return (str(exc),)
    return ()


@cache
def _build_empty_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _build_context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ValueError) as exc:
        problem = describe_tls_error(exc, authorities=True)
        raise UnusableCredentials(f"tls.ca_file: {problem}") from None
    if tls.cert_file is None:
        return context
    password = _read_secret_value(tls.key_password, tls.key_password_file, "tls.key_password") or ""
    try:
        # A password that is always given, as OpenSSL would ask for a missing one on the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: password)
    except (OSError, ValueError) as exc:
        problem = describe_tls_error(exc)
        raise UnusableCredentials(f"tls.cert_file, key_file or key_password: {problem}") from None
    return context


def _read_secret_value(value: SecretStr | None, path: Path | None, name: str) -> str | None:
    if path is None:
        return None if value is None else value.get_secret_value()
    try:
        return read_secret(path)
    except (OSError, ValueError) as exc:
        raise UnusableCredentials(f"{name}_file: {describe_file_error(exc)}") from None
