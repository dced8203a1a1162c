"""The TLS context of the control listener, built again when one of its files has changed.

The files are those of `control.tls`, or of the web config file that replaces it.
"""

from __future__ import annotations

import ssl
from typing import Final

import structlog

from offsetwatch.config import Control, ControlTls, WebConfig
from offsetwatch.config.checks.tls import describe_tls_error
from offsetwatch.config.files import read_file_stamp, read_secret
from offsetwatch.errors import ConfigError
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.serve.web_config.current import WebConfigReloader

_MINIMUM_VERSION: Final = ssl.TLSVersion.TLSv1_2
_CLIENT_CA: Final = "client_ca_file"

log = structlog.get_logger()


class ServerTls:
    """Current TLS context of the control listener. For one thread.

    Raises ConfigError if the files cannot be used at first. If they cannot be used later, the
    previous context stays: a certificate may be half written.
    """

    def __init__(self, control: Control, current: WebConfigReloader | None = None) -> None:
        self._path = control.web_config_file
        if current is None and self._path is not None:
            current = WebConfigReloader(self._path, "control")
        self._current = current
        self._tls = control.tls
        # Who is known by a token alone shows no certificate; where nobody is, everybody must.
        self._verify = ssl.CERT_OPTIONAL if control.tokens else ssl.CERT_REQUIRED
        self._stamp = self._now()
        self._context = self._made()

    def following(self, control: Control) -> ServerTls:
        """Return the TLS of this configuration. Raises ConfigError if its files cannot be used.

        If the web config file has the same path, its reloader is kept, with all that it refuses.
        """
        same = self._path is not None and control.web_config_file == self._path
        return ServerTls(control, self._current if same else None)

    @property
    def web_file(self) -> WebConfigStatus | None:
        """Return the status of the web config file; None without one. Any thread."""
        return None if self._current is None else self._current.seen

    def web(self) -> WebConfig | None:
        """Return the current web config file, if there is one."""
        return None if self._current is None else self._current.get().web

    def get(self) -> ssl.SSLContext | None:
        """Return the current context; None for plain HTTP."""
        if self._current is not None:
            return self._current.get().context
        now = self._now()
        if now != self._stamp:
            self._stamp = now
            try:
                self._context = self._made()
                log.info("control_tls_reloaded")
            except ConfigError as exc:
                log.warning("control_tls_unusable", mistakes=exc.mistakes)
        return self._context

    def _now(self) -> object:
        tls = self._tls
        if tls is None:
            return None
        files = (tls.cert_file, tls.key_file, tls.key_password_file, tls.client_ca_file)
        return tuple(read_file_stamp(path) for path in files if path is not None)

    def _made(self) -> ssl.SSLContext | None:
        tls = self._tls
        if tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _MINIMUM_VERSION
        try:
            password = _read_password(tls)
            # Always given, as OpenSSL would ask for a missing one on the terminal.
            context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: password)
        except (OSError, ValueError) as exc:
            raise _build_config_error("cert_file, key_file or key_password", exc) from None
        if tls.client_ca_file is not None:
            try:
                context.load_verify_locations(cafile=tls.client_ca_file)
            except (OSError, ValueError) as exc:
                raise _build_config_error(_CLIENT_CA, exc) from None
            context.verify_mode = self._verify
        return context


def _read_password(tls: ControlTls) -> str:
    if tls.key_password_file is not None:
        return read_secret(tls.key_password_file)
    return "" if tls.key_password is None else tls.key_password.get_secret_value()


def _build_config_error(what: str, error: OSError | ValueError) -> ConfigError:
    problem = describe_tls_error(error, authorities=what == _CLIENT_CA)
    return ConfigError((f"control.tls.{what}: {problem}",))
