"""Checks of the web config files that the configuration names, on the raw document.

Values of the wrong shape are ignored here, since they are reported already.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from offsetwatch.config.raw_document import as_mapping, iterate_mappings
from offsetwatch.config.schema import web
from offsetwatch.config.schema.types import is_loopback
from offsetwatch.config.schema.web import WebConfig
from offsetwatch.errors import ConfigError

_FILE_KEY: Final = "web_config_file"


def check_web_configs(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield every mistake in these files, each with the key that names the file."""
    yield from _read_web_config(document.get(_FILE_KEY), folder, _FILE_KEY)[1]
    control = as_mapping(document.get("control"))
    path = f"control.{_FILE_KEY}"
    found, mistakes = _read_web_config(control.get(_FILE_KEY), folder, path)
    yield from mistakes
    if found is not None:
        yield from _check_control(control, found, path)


def _read_web_config(
    named: object, folder: Path, path: str
) -> tuple[WebConfig | None, tuple[str, ...]]:
    file = folder / named if isinstance(named, str) else None
    if file is None or not file.is_file():  # a mistake of its own
        return None, ()
    try:
        return web.load_web_config(file.absolute()), ()
    except ConfigError as exc:
        return None, tuple(f"{path}: {mistake}" for mistake in exc.mistakes)


def _check_control(control: dict[Any, Any], found: WebConfig, path: str) -> Iterator[str]:
    tls = found.tls_server_config
    listen = control.get("listen")
    if tls is None and isinstance(listen, str) and not is_loopback(listen):
        yield f"{path}: tls_server_config is required to listen on anything but loopback"
    if control.get("clients") and not (tls is not None and tls.verifies):
        yield f"{path}: verifies no certificates, so control.clients cannot authenticate"
    for at, user in iterate_mappings(control.get("users"), "control.users"):
        name = user.get("user")
        if isinstance(name, str) and name not in found.basic_auth_users:
            yield f"{at}.user: has no password under basic_auth_users"
