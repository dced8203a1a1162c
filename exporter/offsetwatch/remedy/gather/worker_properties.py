"""A worker's properties file and logs, for what its REST API does not return.

A file that cannot be read counts as missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from offsetwatch.config import properties
from offsetwatch.config.files import describe_file_error
from offsetwatch.remedy.locate.connect_error_log import LOG_CHARS_MAX
from offsetwatch.remedy.locate.connector_settings import WORKER_SETTINGS

_log = structlog.get_logger()


def read_worker_settings(path: Path | None) -> dict[str, str | None] | None:
    """Read the worker's defaults for connectors from its properties file; None if unreadable.

    The file may hold secrets: no other properties are returned.
    """
    if path is None:
        return None
    try:
        found = properties.read_properties(path)
    except (OSError, ValueError) as exc:
        _log.warning("worker_properties_unread", path=str(path), reason=describe_file_error(exc))
        return None
    return {name: value for name, value in found.items() if name in WORKER_SETTINGS}


def read_log_end(paths: Sequence[str]) -> str | None:
    """Read whole lines from the end of each log, at most LOG_CHARS_MAX in all.

    None if no log can be read.
    """
    found = []
    for path in paths:
        try:
            found.append(_read_end(path, LOG_CHARS_MAX // len(paths)))
        except OSError as exc:
            _log.warning("worker_log_unread", path=path, reason=describe_file_error(exc))
    return "\n".join(found) if found else None


def _read_end(path: str, size_max: int) -> str:
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - size_max))
        raw = file.read(size_max)
    if size > size_max:
        raw = raw.partition(b"\n")[2]
    return raw.decode(errors="replace")
