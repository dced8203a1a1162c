"""`state_dir`: documents that must survive a restart, one file for each part that has state.

A new file is written beside the old one and replaces it once it is on disk, so a crash leaves one
or the other. Only one daemon may use the folder: two would overwrite each other's counters. Read
verbs read without a lock and never write.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from offsetwatch.disk import sync_folder
from offsetwatch.errors import ConfigError, raised_at

LOCK: Final = ".lock"

_log = structlog.get_logger()


def read_document(folder: Path, name: str) -> bytes | None:
    """Return the last document of `name`; None if there is none or it cannot be read."""
    try:
        return (folder / f"{name}.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        _log.error("memory_unreadable", name=name, error=str(exc))
        return None


def load_document(folder: Path, name: str, into: Callable[[bytes], None]) -> None:
    """Pass the last document of `name` to `into`, ignoring its ValueError; write nothing."""
    document = read_document(folder, name)
    if document is not None:
        with suppress(ValueError):
            into(document)


def is_in_use(folder: Path) -> bool:
    """Check whether a daemon uses this folder now."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


class StateDir:
    """Locked state folder, created if it does not exist.

    Raises ConfigError if it is in use, or is not writable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._one_at_a_time = threading.Lock()  # during a reload there are two loops for a moment
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            why = f"state_dir: {folder} cannot be written in ({exc.strerror}): name one that can"
            raise ConfigError((why,)) from exc
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._lock)
            why = (
                f"state_dir: another offsetwatch uses {folder}: stop it, or give this one a "
                "state_dir of its own"
            )
            raise ConfigError((why,)) from exc

    def recall(self, name: str, into: Callable[[bytes], None]) -> None:
        """Pass the last document of `name` to `into`.

        A document that `into` rejects, with any error, is moved aside for inspection, and the part
        starts without state: otherwise it would fail at every start.
        """
        document = read_document(self.folder, name)
        if document is None:
            return
        try:
            into(document)
        except Exception as exc:  # noqa: BLE001 - see the docstring
            aside = self.folder / f"{name}.damaged.json"
            with suppress(OSError):
                (self.folder / f"{name}.json").replace(aside)
            why = str(exc) if isinstance(exc, ValueError) else raised_at(exc)
            _log.error("memory_damaged", name=name, error=why, kept_as=aside.name)

    def save(self, name: str, document: bytes) -> bool:
        """Write the document; on any error log it and return False.

        The loop calls this and must not die because its state cannot be saved.
        """
        try:
            with self._one_at_a_time:
                self._write(self.folder / f"{name}.json", document)
        except Exception as exc:  # noqa: BLE001 - see the docstring
            why = str(exc) if isinstance(exc, OSError) else raised_at(exc)
            _log.error("memory_not_saved", name=name, error=why)
            return False
        return True

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def _write(self, path: Path, document: bytes) -> None:
        fresh = path.with_suffix(".fresh")
        with fresh.open("wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(self.folder)
