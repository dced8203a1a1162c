"""A web config file as it is now. Called by the listeners: at each connection and each request.

One that cannot be used, or that would take protection away, changes nothing: the one before stays
in use, an error is logged and counted. A file that is being written is empty for a moment, and must
not open a listener to everybody. To open one on purpose is worth a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from offsetwatch.config.files import stamp
from offsetwatch.config.schema import web as web_config
from offsetwatch.config.schema.web import Web
from offsetwatch.errors import ConfigError
from offsetwatch.serve.metrics.families import WebFile
from offsetwatch.serve.web_config.tls import context_of, without_effect

log = structlog.get_logger()


class InUse(NamedTuple):
    """A file's content, and its TLS: None for plain HTTP."""

    web: Web
    context: ssl.SSLContext | None


class Current:
    """For one thread, but for `seen`. Raises ConfigError if the file cannot be used when it is
    made. `listener` is its name in logs and metrics.
    """

    def __init__(self, path: Path, listener: str) -> None:
        self._path = path
        self._listener = listener
        self._in_use = _read(path)
        self._stamp = self._now()
        self._seen = WebFile(listener=listener, successful=True, failures=0)
        self._say_without_effect()

    @property
    def seen(self) -> WebFile:
        """How reading it went. Any thread."""
        return self._seen

    def get(self) -> InUse:
        """What is in use now. As good as free while no file has changed."""
        now = self._now()
        if now == self._stamp:
            return self._in_use
        self._stamp = now
        failures = self._seen.failures
        try:
            found = _read(self._path)
            weaker = tuple(_weaker(found.web, self._in_use.web))
            if weaker:
                raise ConfigError(weaker)
        except ConfigError as exc:
            # No trace: what is wrong with the file is all there is to say.
            mistakes = exc.mistakes
            log.error("web_config_unusable", listener=self._listener, mistakes=mistakes)  # noqa: TRY400
            self._seen = WebFile(self._listener, successful=False, failures=failures + 1)
            return self._in_use
        self._in_use = found
        self._stamp = self._now()  # it may name other files
        self._seen = WebFile(self._listener, successful=True, failures=failures)
        log.info("web_config_reloaded", listener=self._listener)
        self._say_without_effect()
        return found

    def _now(self) -> tuple[object, ...]:
        tls = self._in_use.web.tls_server_config
        files = () if tls is None else (tls.cert_file, tls.key_file, tls.client_ca_file)
        return tuple(stamp(path) for path in (self._path, *files) if path is not None)

    def _say_without_effect(self) -> None:
        found = without_effect(self._in_use.web)
        if found:
            log.warning("web_config_in_part", listener=self._listener, settings=found)


def check(path: Path) -> None:
    """Raises ConfigError where a listener could not be started with this file."""
    _read(path)


def _read(path: Path) -> InUse:
    web = web_config.load(path)
    try:
        return InUse(web, context_of(web))
    except ConfigError as exc:
        raise ConfigError(tuple(f"{path.name}: {mistake}" for mistake in exc.mistakes)) from None


def _weaker(new: Web, old: Web) -> Iterator[str]:
    """What a change of the file would take away."""
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
