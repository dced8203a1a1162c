"""Locks of connectors: kernel file locks, one for each connector that a process works on.

A lock ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from offsetwatch.disk import acquire_file_lock
from offsetwatch.errors import ConnectorBusy, JournalDamaged


@contextmanager
def lock_connector(folder: Path, place: str, connector: str, since: str) -> Iterator[None]:
    """Lock the connector for this process.

    Raises ConnectorBusy naming the process that holds the lock, and JournalDamaged where file locks
    do not work.
    """
    path = _build_lock_path(folder, place, connector)
    with _open_lock_file(path) as handle:
        try:
            holder = acquire_file_lock(handle, since)
        except OSError as exc:  # a network file system
            raise _build_lock_error(path, exc) from exc
        if holder is not None:
            by = holder or "a process that has not said who it is"
            raise ConnectorBusy(f"{connector} ({place}) is being changed by {by}: nothing was done")
        yield


def is_locked(folder: Path, place: str, connector: str) -> bool:
    """Check whether a process works on this connector now."""
    path = _build_lock_path(folder, place, connector)
    if not path.exists():
        return False
    with _open_lock_file(path) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as exc:
            raise _build_lock_error(path, exc) from exc
    return False


def _build_lock_path(folder: Path, place: str, connector: str) -> Path:
    return folder / hashlib.sha256(f"{place}\0{connector}".encode()).hexdigest()[:32]


def _open_lock_file(path: Path) -> TextIO:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise _build_lock_error(path, exc) from exc
    return os.fdopen(handle, "r+", encoding="utf-8")


def _build_lock_error(path: Path, exc: OSError) -> JournalDamaged:
    return JournalDamaged(f"{path} cannot be locked: {exc.strerror}: use another --state-dir")
