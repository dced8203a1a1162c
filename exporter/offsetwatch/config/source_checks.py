"""Checks between the settings of a source: what its kind needs, and what it cannot have.

They work on the raw document, as checks.py does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from offsetwatch.config.database_url import SCHEMES, DatabaseUrl, parse_database_url
from offsetwatch.config.document import check_cluster_name, check_exclusive, iterate_mappings
from offsetwatch.config.files import read_secret

_ADDRESS_KEYS: Final = ("dsn", "dsn_file")
_SERVER_KEYS: Final = ("host", "port", "database", "user", "password", "password_file")
_CONNECTION_KEYS: Final = (*_ADDRESS_KEYS, *_SERVER_KEYS, "tls")
_UNUSED_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "postgresql": ("columns", "folder"),
    "mysql": ("columns", "folder"),
    "sql": (*_SERVER_KEYS, "folder"),
    "file": (*_CONNECTION_KEYS, "columns"),
}
_READING: Final = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)


def check_sources(
    document: dict[Any, Any], folder: Path, connects: Collection[str]
) -> Iterator[str]:
    """Yield every contradiction under sources:, each with its path."""
    names: set[str] = set()
    for path, source in iterate_mappings(document.get("sources"), "sources"):
        name = source.get("name")
        if isinstance(name, str) and name in names:
            yield f'{path}.name: "{name}" is used twice'
        names.add(str(name))
        for members_path, members in iterate_mappings(
            source.get("connectors"), f"{path}.connectors"
        ):
            yield from check_cluster_name(
                members.get("connect"), connects, f"{members_path}.connect", under="connect"
            )
        kind = source.get("kind")
        if not isinstance(kind, str) or kind not in _UNUSED_KEYS:
            continue  # reported by the schema
        unused = [key for key in _UNUSED_KEYS[kind] if source.get(key) is not None]
        for key in unused:
            yield f"{path}.{key}: of no use for kind {kind}{_hint_at(kind, key)}"
        if kind != "file":
            used = {key: value for key, value in source.items() if key not in unused}
            yield from _check_connection(path, kind, used, folder)
        yield from _check_columns(f"{path}.columns", source.get("columns"))


def _hint_at(kind: str, key: str) -> str:
    return ": give dsn or dsn_file" if kind == "sql" and key in _SERVER_KEYS else ""


def _check_connection(path: str, kind: str, source: dict[Any, Any], folder: Path) -> Iterator[str]:
    yield from check_exclusive(path, source)
    addresses = [key for key in _ADDRESS_KEYS if source.get(key) is not None]
    others = [key for key in _SERVER_KEYS if source.get(key) is not None]
    if addresses and others:
        yield f"{path}: give {addresses[0]} or {', '.join(others)}, not both"
    elif not addresses and kind == "sql":
        yield f"{path}: dsn or dsn_file is required"
    elif not addresses and "host" not in others:
        yield f"{path}: dsn, dsn_file or host is required"
    elif not addresses and "user" not in others:
        yield f"{path}: user is required with host"
    tls = source.get("tls")
    url: DatabaseUrl | None = None
    for key in addresses:
        try:
            url = parse_database_url(_read_address(source, key, folder), SCHEMES.get(kind, ()))
        except OSError:
            continue  # reported by the schema
        except ValueError as exc:
            yield f"{path}.{key}: {exc}"
            continue
        if kind == "mysql" and url.has_options:
            yield f"{path}.{key}: options after a ? are of no use for kind mysql; give tls"
        dialect = url.scheme.partition("+")[0]
        if kind == "sql" and tls and not any(dialect in known for known in SCHEMES.values()):
            yield f"{path}.tls: of no use for {dialect}: give it in {key}, as its driver has it"
    if isinstance(tls, dict):
        yield from _check_tls(f"{path}.tls", tls)


def _read_address(source: dict[Any, Any], key: str, folder: Path) -> str:
    value = source[key]
    if not isinstance(value, str):
        raise OSError
    if key == "dsn":
        return value
    try:
        return read_secret(folder / value)
    except ValueError as exc:
        raise OSError from exc


def _check_tls(path: str, tls: dict[Any, Any]) -> Iterator[str]:
    if tls.get("key_file") is not None and tls.get("cert_file") is None:
        yield f"{path}: key_file is of no use without cert_file"
    if tls.get("verify") == "none" and tls.get("ca_file") is not None:
        yield f"{path}: ca_file is of no use with verify: none"
    if tls.get("verify") == "ca" and tls.get("ca_file") is None:
        yield (
            f"{path}: verify: ca needs ca_file, or every server that any authority has certified "
            "is trusted"
        )


def _check_columns(path: str, columns: object) -> Iterator[str]:
    tables: set[str] = set()
    for column_path, column in iterate_mappings(columns, path):
        table, statement = column.get("table"), column.get("statement")
        if isinstance(table, str) and table in tables:
            yield f"{column_path}.table: used twice"
        tables.add(str(table))
        if isinstance(statement, str) and statement and _READING.match(statement) is None:
            yield f"{column_path}.statement: begins with SELECT, or WITH"
