"""Addresses of databases as URLs, and what is wrong with one, without repeating any of it.

A password with an unescaped `@` or `/` would be taken for a host or a port, and be shown with
the next error.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple
from urllib.parse import unquote

SCHEMES: Final = {
    "postgresql": ("postgresql", "postgres"),
    "mysql": ("mysql", "mariadb"),
}
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+_.-]*)://(?P<rest>.*)", re.DOTALL)
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(:(?P<port>\d*))?")
_ESCAPES: Final = "write %40 for an @ in a user or a password, %2F for a /, %3A for a :"


class DatabaseUrl(NamedTuple):
    """Parts of the address of a database; None where it does not have one.

    host    without brackets; several, separated by commas, where a library tries one after another
    """

    scheme: str
    user: str | None
    password: str | None
    host: str | None
    port: int | None
    database: str | None
    has_options: bool


def parse_database_url(text: str, schemes: Collection[str] = ()) -> DatabaseUrl:
    """Return the parts of a URL. Raises ValueError; its message repeats nothing of the text.

    `schemes` are those that are allowed; empty allows any.
    """
    example = f"{next(iter(schemes), 'oracle+oracledb')}://user:password@host/database"
    match = _URL.fullmatch(text)
    if match is None or (schemes and match["scheme"].lower() not in schemes):
        raise ValueError(f"expected a URL, as in {example}")
    authority, rest = _split(match["rest"])
    userinfo, at, hosts = authority.rpartition("@")
    if "@" in userinfo or "@" in rest.partition("?")[0] or (not at and "@" in rest):
        raise ValueError(_ESCAPES)
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    if None in found or any(
        not 1 <= int(host["port"]) <= 65535 for host in found if host is not None and host["port"]
    ):
        raise ValueError(f"a port is a number from 1 to 65535; {_ESCAPES}")
    names = [host["host"].strip("[]") for host in found if host is not None]
    ports = [int(host["port"]) for host in found if host is not None and host["port"]]
    user, colon, password = userinfo.partition(":")
    path, question, _ = rest.partition("?")
    return DatabaseUrl(
        scheme=match["scheme"].lower(),
        user=unquote(user) or None,
        password=unquote(password) if colon else None,
        host=",".join(names) or None,
        port=ports[0] if ports else None,
        database=unquote(path.removeprefix("/")) or None,
        has_options=bool(question),
    )


def _split(text: str) -> tuple[str, str]:
    """Return what comes before the path, and the rest."""
    match = re.match(r"[^/?#]*", text)
    assert match is not None
    return match[0], text[match.end() :]
