"""The current web config file of a listener, read again when it changes.

A file that cannot be used, or that would weaken the protection, changes nothing: the previous one
stays in use, and an error is logged and counted. A file that is being written is empty for a
moment, and must not open a listener to everyone. Opening one on purpose needs a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from offsetwatch.config.files import read_file_stamp
from offsetwatch.config.schema import web as web_config
from offsetwatch.config.schema.web import WebConfig
from offsetwatch.errors import ConfigError
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.serve.web_config.tls import build_ssl_context, list_ineffective_settings

log = structlog.get_logger()


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
        self._seen = WebConfigStatus(listener=listener, successful=True, failures=0)
        self._say_without_effect()

    @property
    def seen(self) -> WebConfigStatus:
        """Return the status of the last read. Any thread."""
        return self._seen

    def get(self) -> LoadedWebConfig:
        """Return the content in use. Costs next to nothing while no file has changed."""
        now = self._now()
        if now == self._stamp:
            return self._in_use
        self._stamp = now
        failures = self._seen.failures
        try:
            found = _read_web_config(self.path)
            weaker = tuple(_find_weaker_settings(found.web, self._in_use.web))
            if weaker:
                raise ConfigError(weaker)
        except ConfigError as exc:
            # No trace: what is wrong with the file is all there is to say.
            mistakes = exc.mistakes
            log.error("web_config_unusable", listener=self._listener, mistakes=mistakes)  # noqa: TRY400
            self._seen = WebConfigStatus(self._listener, successful=False, failures=failures + 1)
            return self._in_use
        self._in_use = found
        self._stamp = self._now()  # it may name other files
        self._seen = WebConfigStatus(self._listener, successful=True, failures=failures)
        log.info("web_config_reloaded", listener=self._listener)
        self._say_without_effect()
        return found

    def _now(self) -> tuple[object, ...]:
        tls = self._in_use.web.tls_server_config
        files = () if tls is None else (tls.cert_file, tls.key_file, tls.client_ca_file)
        return tuple(read_file_stamp(path) for path in (self.path, *files) if path is not None)

    def _say_without_effect(self) -> None:
        found = list_ineffective_settings(self._in_use.web)
        if found:
            log.warning("web_config_in_part", listener=self._listener, settings=found)


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
