"""The current web config file of a listener with its TLS context, read again when it changes.

A file that cannot be used, or that would weaken the protection, changes nothing: the previous one
stays in use, and an error is logged and counted. A file that is being written is empty for a
moment, and must not open a listener to everyone. Opening one on purpose needs a restart.

Settings that Python's ssl does not support are applied more strictly or not at all, never less
strictly. A required certificate is also verified (RequireAnyClientCert). One that would be
requested and not checked is not requested (RequestClientCert).
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from offsetwatch.config.files import describe_tls_error, read_file_stamp
from offsetwatch.config.schema import web as web_config
from offsetwatch.config.schema.web import WebConfig, WebTls
from offsetwatch.errors import ConfigError
from offsetwatch.serve.metrics.families import WebConfigStatus

_SETTING_PATH: Final = "tls_server_config"
_CLIENT_CA: Final = "client_ca_file"
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
_CIPHERS: Final = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}


def build_ssl_context(web: WebConfig) -> ssl.SSLContext | None:
    """Build the TLS context; None for plain HTTP. Raises ConfigError if the files do not fit."""
    tls = web.tls_server_config
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS["TLS13" if tls.tls13_only else tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    try:
        # A password is always given, as OpenSSL would ask for one on the terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
    except (OSError, ValueError) as exc:
        raise _build_config_error("cert_file or key_file", exc) from None
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=tls.client_ca_file)
        except (OSError, ValueError) as exc:
            raise _build_config_error(_CLIENT_CA, exc) from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.demands else ssl.CERT_OPTIONAL
    _set_ciphers_and_curves(context, tls)
    return context


def list_ineffective_settings(web: WebConfig) -> tuple[str, ...]:
    """Return the accepted settings that ssl cannot apply exactly, for the log."""
    tls = web.tls_server_config
    if tls is None:
        return ()
    settings = []
    if tls.client_auth_type == "RequestClientCert":
        settings.append(f"{_SETTING_PATH}.client_auth_type: no certificate is requested")
    if tls.client_auth_type == "RequireAnyClientCert":
        settings.append(f"{_SETTING_PATH}.client_auth_type: certificates are also verified")
    if len(tls.curve_preferences) > 1:
        settings.append(f"{_SETTING_PATH}.curve_preferences: only a single one can be set")
    return tuple(settings)


def is_certificate_allowed(certificate: Mapping[str, Any] | None, web: WebConfig) -> bool:
    """Check whether a connection's verified certificate has one of the allowed names."""
    tls = web.tls_server_config
    if tls is None or tls.client_allowed_sans is None:
        return True
    names = set(_read_alternative_names(certificate or {}))
    return any(_normalise_name(name) in names for name in tls.client_allowed_sans)


def _read_alternative_names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the alternative names of any kind, as client_allowed_sans does not tell the kind."""
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            yield _normalise_name(value.strip())
        elif kind in {"DNS", "URI", "email"}:
            yield value


def _normalise_name(name: str) -> str:
    """Return an address in one spelling, as ssl writes IPv6 in full; any other name as it is."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _set_ciphers_and_curves(context: ssl.SSLContext, tls: WebTls) -> None:
    """Set the ciphers of TLS 1.2, and the curve if there is only one.

    The ciphers of TLS 1.3 cannot be set, neither in Prometheus nor here.
    """
    older = [_translate_cipher(name) for name in tls.cipher_suites if name.startswith("TLS_ECDHE")]
    try:
        if older:
            context.set_ciphers(":".join(older))
        if len(tls.curve_preferences) == 1:
            context.set_ecdh_curve(_CURVES[tls.curve_preferences[0]])
    except (OSError, ValueError) as exc:
        reason = "this machine's OpenSSL does not know one of them"
        what = f"{_SETTING_PATH}.cipher_suites or curve_preferences"
        raise ConfigError((f"{what}: {reason}",)) from exc
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _translate_cipher(name: str) -> str:
    """Translate TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 to ECDHE-RSA-AES128-GCM-SHA256."""
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    return f"{exchange.replace('_', '-')}-{_CIPHERS[rest]}"


def _build_config_error(what: str, error: OSError | ValueError) -> ConfigError:
    return ConfigError(
        (f"{_SETTING_PATH}.{what}: {describe_tls_error(error, authorities=what == _CLIENT_CA)}",)
    )


log = structlog.get_logger()


# --- the current file -----------------------------------------------------------------------------


class LoadedWebConfig(NamedTuple):
    """Content of a web config file, with its TLS context; None for plain HTTP."""

    web: WebConfig
    context: ssl.SSLContext | None


class WebConfigReloader:
    """Reloader of one web config file. For one thread, except `seen`.

    Raises ConfigError if the file cannot be used at first. `listener` is its name in logs and
    metrics.
    """

    def __init__(self, path: Path, listener: str) -> None:
        self.path = path
        self._listener = listener
        self._in_use = _read_web_config(path)
        self._stamp = self._now()
        self._status = WebConfigStatus(listener=listener, successful=True, failures=0)
        self._say_without_effect()

    @property
    def status(self) -> WebConfigStatus:
        """Return the status of the last read. Any thread."""
        return self._status

    def get(self) -> LoadedWebConfig:
        """Return the content in use. Costs next to nothing while no file has changed."""
        now = self._now()
        if now == self._stamp:
            return self._in_use
        self._stamp = now
        failures = self._status.failures
        try:
            loaded = _read_web_config(self.path)
            weaker = tuple(_find_weaker_settings(loaded.web, self._in_use.web))
            if weaker:
                raise ConfigError(weaker)
        except ConfigError as exc:
            # No trace: what is wrong with the file is all there is to say.
            mistakes = exc.mistakes
            log.error("web_config_unusable", listener=self._listener, mistakes=mistakes)  # noqa: TRY400
            self._status = WebConfigStatus(self._listener, successful=False, failures=failures + 1)
            return self._in_use
        self._in_use = loaded
        self._stamp = self._now()  # it may name other files
        self._status = WebConfigStatus(self._listener, successful=True, failures=failures)
        log.info("web_config_reloaded", listener=self._listener)
        self._say_without_effect()
        return loaded

    def _now(self) -> tuple[object, ...]:
        tls = self._in_use.web.tls_server_config
        files = () if tls is None else (tls.cert_file, tls.key_file, tls.client_ca_file)
        return tuple(read_file_stamp(path) for path in (self.path, *files) if path is not None)

    def _say_without_effect(self) -> None:
        settings = list_ineffective_settings(self._in_use.web)
        if settings:
            log.warning("web_config_in_part", listener=self._listener, settings=settings)


def check_web_config(path: Path) -> None:
    """Raise ConfigError if a listener cannot be started with this file."""
    _read_web_config(path)


def _read_web_config(path: Path) -> LoadedWebConfig:
    web = web_config.load_web_config(path)
    try:
        return LoadedWebConfig(web, build_ssl_context(web))
    except ConfigError as exc:
        raise ConfigError(tuple(f"{path.name}: {mistake}" for mistake in exc.mistakes)) from None


def _find_weaker_settings(new: WebConfig, old: WebConfig) -> Iterator[str]:
    """Yield the settings by which a new file would weaken the protection."""
    if old.basic_auth_users and not new.basic_auth_users:
        yield "basic_auth_users: removing all passwords needs a restart"
    if old.tls_server_config is None:
        return
    if new.tls_server_config is None:
        yield "tls_server_config: plain HTTP again needs a restart"
        return
    before, after = old.tls_server_config, new.tls_server_config
    if (before.demands, before.verifies) > (after.demands, after.verifies):
        yield "tls_server_config.client_auth_type: requiring less needs a restart"
    if before.client_allowed_sans is not None and after.client_allowed_sans is None:
        yield "tls_server_config.client_allowed_sans: to let in any name needs a restart"
