"""Checks between the settings of the control listener, on the raw document.

Values of the wrong shape are ignored here, since they are reported already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from offsetwatch.config.files import parse_tokens, read_private_file
from offsetwatch.config.raw_document import as_mapping, check_cluster_name, iterate_mappings
from offsetwatch.config.schema.types import is_loopback

_TOKEN_KEYS: Final = ("token_sha256", "token_file")
_HOOK_ROLE: Final = "hook"


def check_control(document: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield every contradiction under control:, each with its path."""
    if document.get("control") is None:
        return
    control = as_mapping(document["control"])
    listen = control.get("listen")
    web = control.get("web_config_file") is not None
    if not web and isinstance(listen, str) and not is_loopback(listen):
        yield (
            "control.listen: a web_config_file with TLS is required to listen on anything but "
            "loopback"
        )
    if isinstance(listen, str) and listen == document.get("listen"):
        yield "control.listen: metrics are served there already"
    tokens = tuple(iterate_mappings(control.get("tokens"), "control.tokens"))
    clients = tuple(iterate_mappings(control.get("clients"), "control.clients"))
    users = tuple(iterate_mappings(control.get("users"), "control.users"))
    if not tokens and not clients and not users:
        yield "control: without tokens, clients or users no request is accepted"
    if users and not web:
        yield "control.users: control.web_config_file is required: it has the passwords"
    if clients and not web:
        yield "control.clients: control.web_config_file is required: it has client_ca_file"
    connects = [
        str(entry.get("name")) for _, entry in iterate_mappings(document.get("connect"), "")
    ]
    yield from _check_principals((*tokens, *clients, *users), connects)
    yield from _check_tokens(tokens, folder)
    yield from _check_duplicates(clients, "san")
    yield from _check_duplicates(users, "user")


def _check_principals(
    principals: tuple[tuple[str, dict[Any, Any]], ...], connects: list[str]
) -> Iterator[str]:
    roles: dict[str, object] = {}
    for path, principal in principals:
        clusters = principal.get("connect")
        for number, cluster in enumerate(clusters if isinstance(clusters, list) else ()):
            yield from check_cluster_name(
                cluster, connects, f"{path}.connect[{number}]", under="connect"
            )
        scope = principal.get("connectors")
        if isinstance(scope, dict) and not scope.get("include") and not scope.get("exclude"):
            yield f"{path}.connectors: names none; for all of them leave it out"
        name, role = principal.get("name"), principal.get("role")
        if not isinstance(name, str):
            continue
        if name in roles:
            other = roles[name] != role and _HOOK_ROLE in (role, roles[name])
            hint = "; a client of role hook has no other role" if other else ""
            yield f'{path}.name: "{name}" is used twice{hint}'
        roles.setdefault(name, role)


def _check_tokens(tokens: tuple[tuple[str, dict[Any, Any]], ...], folder: Path) -> Iterator[str]:
    holders: dict[str, str] = {}
    for path, token in tokens:
        given = [key for key in _TOKEN_KEYS if token.get(key) is not None]
        if len(given) != 1:
            what = "not both" if given else "one of them"
            yield f"{path}: give token_sha256 or token_file, {what}"
        for sha256 in _read_token_hashes(token, folder):
            if holders.setdefault(sha256, path) != path:
                yield f"{path}: has the same token as {holders[sha256]}"


def _read_token_hashes(token: dict[Any, Any], folder: Path) -> Iterator[str]:
    if isinstance(token.get("token_sha256"), str):
        yield token["token_sha256"]
    if not isinstance(token.get("token_file"), str):
        return
    try:
        found = parse_tokens(read_private_file(folder / token["token_file"]))
    except (OSError, ValueError):
        return  # a mistake of its own
    yield from {hashlib.sha256(name.encode()).hexdigest() for name in found}


def _check_duplicates(
    principals: tuple[tuple[str, dict[Any, Any]], ...], key: str
) -> Iterator[str]:
    taken: set[str] = set()
    for path, principal in principals:
        value = principal.get(key)
        if isinstance(value, str) and value in taken:
            yield f"{path}.{key}: used twice"
        taken.add(str(value))
