"""Who we are to a server: an `Authorization` header and a TLS context.

Called by clients that speak HTTP. Files are read when they are needed, as secrets and
certificates rotate. No error repeats what a file holds.
"""

from __future__ import annotations

import base64
import ssl
from functools import cache
from pathlib import Path

from pydantic import SecretStr

from offsetwatch.config import Auth, Tls
from offsetwatch.config.checks.tls import tls_problem
from offsetwatch.config.files import problem_with, read_secret, stamp


class CannotIdentify(Exception):
    """A secret or a certificate cannot be used as it is now; the message says which and why."""


def authorization(auth: Auth | None) -> dict[str, str]:
    """The headers that say who asks. Raises CannotIdentify."""
    if auth is None:
        return {}
    if auth.username is None:
        token = _secret(auth.bearer_token, auth.bearer_token_file, "auth.bearer_token")
        return {"Authorization": f"Bearer {_one_line(token or '', 'bearer_token')}"}
    password = _secret(auth.password, auth.password_file, "auth.password") or ""
    pair = base64.b64encode(f"{auth.username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


class TlsContext:
    """The context for https, made anew when one of its files has changed."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._made: tuple[object, ssl.SSLContext] | None = None

    def get(self) -> ssl.SSLContext:
        """The context of now. Raises CannotIdentify."""
        stamp = self._stamp()
        if self._made is None or self._made[0] != stamp:
            self._made = (stamp, _context(self._tls if self._tls is not None else Tls()))
        return self._made[1]

    def get_for(self, url: str) -> ssl.SSLContext:
        """For plain HTTP an empty one, which trusts nobody: the real one takes a while to make."""
        return self.get() if url.startswith("https:") else _nobody()

    def _stamp(self) -> object:
        """What changes when a file is written or replaced; a missing file changes it too."""
        tls = self._tls
        if tls is None:
            return None
        files = (tls.ca_file, tls.cert_file, tls.key_file, tls.key_password_file)
        return tuple(stamp(path) for path in files if path is not None)


def unusable_tls(tls: Tls) -> tuple[str, ...]:
    """Return why these files make no TLS context: empty if they do."""
    try:
        _context(tls)
    except CannotIdentify as exc:
        return (str(exc),)
    return ()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ValueError) as exc:
        problem = tls_problem(exc, authorities=True)
        raise CannotIdentify(f"tls.ca_file: {problem}") from None
    if tls.cert_file is None:
        return context
    password = _secret(tls.key_password, tls.key_password_file, "tls.key_password") or ""
    try:
        # A password that is always given, as OpenSSL would ask for a missing one on the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: password)
    except (OSError, ValueError) as exc:
        problem = tls_problem(exc)
        raise CannotIdentify(f"tls.cert_file, key_file or key_password: {problem}") from None
    return context


def _secret(value: SecretStr | None, path: Path | None, name: str) -> str | None:
    if path is None:
        return None if value is None else value.get_secret_value()
    try:
        return read_secret(path)
    except (OSError, ValueError) as exc:
        raise CannotIdentify(f"{name}_file: {problem_with(exc)}") from None


def _one_line(token: str, name: str) -> str:
    """A header with a line break in it is refused by httpx with a message that quotes it."""
    if not token or not token.isascii() or not token.isprintable():
        raise CannotIdentify(f"auth.{name}: empty, or characters that a header cannot carry")
    return token
