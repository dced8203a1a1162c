"""`state_dir`: what must survive a restart, one file for each part that remembers something.

A file is written beside the old one and put in its place when it is on the disk, so a crash leaves
one or the other. One daemon at a time: two would overwrite what the other has counted. Read verbs
read without a lock and never write.
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
    """What `name` said last; None if it never said anything, or nobody can read it."""
    try:
        return (folder / f"{name}.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        _log.error("memory_unreadable", name=name, error=str(exc))
        return None


def load_document(folder: Path, name: str, into: Callable[[bytes], None]) -> None:
    """Hand `into` what `name` said last, unless it refuses (ValueError); write nothing."""
    document = read_document(folder, name)
    if document is not None:
        with suppress(ValueError):
            into(document)


def is_in_use(folder: Path) -> bool:
    """Whether a daemon has this folder now."""
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
    """The folder, locked. Made if it is not there. Raises ConfigError if it is in use, or cannot be
    written in.
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
            raise ConfigError((f"state_dir: another offsetwatch uses {folder}",)) from exc

    def recall(self, name: str, into: Callable[[bytes], None]) -> None:
        """Hand `into` what `name` said last. What it refuses, by whatever error, is put aside, so
        that it can be looked at, and the part begins anew: it would fail at every start.
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
        """Write it down; False, with a line in the log, if that did not work, for whatever reason:
        the loop calls it, and must not end for what it remembers.
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
        """Let another one use it."""
        os.close(self._lock)

    def _write(self, path: Path, document: bytes) -> None:
        fresh = path.with_suffix(".fresh")
        with fresh.open("wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(self.folder)
