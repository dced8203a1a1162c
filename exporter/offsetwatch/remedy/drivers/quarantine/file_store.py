"""Copies of records as files in the state directory.

Files are used where no topic is configured, or where a record is too large for the topic. Before a
receipt is given, the file is on the disk, complete, under its name, and has been read back. Its
name is derived from its content; no file is ever overwritten.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from offsetwatch.clock import UnixClock
from offsetwatch.disk import sync_folder
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.model.quarantine import (
    DamagedCopy,
    QuarantineContext,
    QuarantinedCopy,
    QuarantinedRecord,
    QuarantineFileHead,
    Receipt,
    build_file_lines,
    compute_key_id,
    compute_receipt_id,
    parse_file_head,
    parse_file_lines,
)

FOLDER: Final = "quarantine"
SUFFIX: Final = ".jsonl"
_NAMES_MAX: Final = 100  # of one record: each but the last is damaged


class FileQuarantine:
    """A QuarantineStore in files.

    Calls raise OSError where the disk fails: there is no receipt then, and no file remains.
    """

    def __init__(self, folder: Path, clock: UnixClock) -> None:
        """Take `folder`, which is the state directory."""
        self._home = folder / FOLDER
        self._clock = clock

    @property
    def name(self) -> str:
        """See QuarantineStore."""
        return str(self._home)

    def find(self, skip_key: str, sha256: str | None = None) -> Receipt | None:
        """See QuarantineStore."""
        receipts = [
            found
            for path in self._paths(compute_key_id(skip_key))
            for found in (_read_receipt(path, skip_key, sha256),)
            if found is not None
        ]
        if receipts:
            sync_folder(self._home)  # whoever wrote it may have ended before
        return max(receipts, key=lambda receipt: receipt.at, default=None)

    def put(self, record: RawRecord, about: QuarantineContext) -> Receipt:
        """See QuarantineStore."""
        sha256 = record.sha256
        found = self.find(about.skip_key, sha256)
        if found is not None:
            return found
        if not self._home.exists():
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_folder(self._home.parent)
        path = self._placed(record, about, compute_receipt_id(about.skip_key, sha256))
        receipt = _read_receipt(path, about.skip_key, sha256)
        if receipt is None:
            path.unlink()
            raise OSError(f"{path} is not what was written")
        return receipt

    def kept(self) -> Iterator[tuple[QuarantinedCopy, QuarantinedRecord | None]]:
        """Yield all copies by name, each with its record; None if the copy is damaged."""
        for path in self._paths(""):
            told, whole = _read_head(path), read_copy(path)
            if isinstance(told, DamagedCopy):
                receipt = Receipt(str(path), None, None, str(path), "", path.stat().st_mtime)
                nobody = QuarantineContext("", "", "", "", "", "")
                yield QuarantinedCopy(path.stem, receipt, nobody, ("", 0, 0), 0, told.reason), None
                continue
            receipt = Receipt(str(path), None, None, str(path), told.sha256, told.at)
            kept = QuarantinedCopy(
                id=compute_receipt_id(told.about.skip_key, told.sha256),
                receipt=receipt,
                about=told.about,
                record=(told.topic, told.partition, told.offset),
                size_bytes=told.size_bytes,
                problem=whole.reason if isinstance(whole, DamagedCopy) else None,
            )
            yield kept, whole if isinstance(whole, QuarantinedRecord) else None

    def _paths(self, prefix: str) -> list[Path]:
        return sorted(self._home.glob(f"{prefix}*{SUFFIX}")) if self._home.exists() else []

    def _placed(self, record: RawRecord, about: QuarantineContext, stem: str) -> Path:
        handle, name = tempfile.mkstemp(dir=self._home, prefix=".", suffix=".fresh")
        fresh = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:  # mkstemp made it for us alone: 0600
                file.writelines(build_file_lines(record, about, self._clock.now()))
                file.flush()
                os.fsync(file.fileno())
            path = self._linked(fresh, stem)
        finally:
            fresh.unlink()
        try:
            sync_folder(self._home)
        except OSError:
            path.unlink()
            raise
        return path

    def _linked(self, fresh: Path, stem: str) -> Path:
        """Link the file to its name: a rename would overwrite an existing file.

        An existing file of the name was read before, and is damaged.
        """
        for number in range(_NAMES_MAX):
            path = self._home / (f"{stem}-{number}{SUFFIX}" if number else f"{stem}{SUFFIX}")
            with suppress(FileExistsError):
                path.hardlink_to(fresh)
                return path
        raise OSError(f"{self._home / stem}{SUFFIX} is there {_NAMES_MAX} times, and damaged")


def read_copy(path: Path) -> QuarantinedRecord | DamagedCopy:
    """Read the copy in a file."""
    try:
        with path.open("rb") as lines:
            return parse_file_lines(lines)
    except OSError as exc:
        return DamagedCopy(f"it cannot be read: {exc.strerror}")


def write_copy(path: Path, record: RawRecord, about: QuarantineContext, moment: float) -> None:
    """Write a copy of the same format to a path, readable by its owner only.

    Raises OSError, including FileExistsError.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.writelines(build_file_lines(record, about, moment))


def _read_head(path: Path) -> QuarantineFileHead | DamagedCopy:
    try:
        with path.open("rb") as lines:
            return parse_file_head(lines.readline())
    except OSError as exc:
        return DamagedCopy(f"it cannot be read: {exc.strerror}")


def _read_receipt(path: Path, skip_key: str, sha256: str | None) -> Receipt | None:
    """Return the receipt of a sound file that has this skip key and hash; None for any other."""
    told = _read_head(path)
    if isinstance(told, DamagedCopy) or told.about.skip_key != skip_key:
        return None
    if (sha256 is not None and told.sha256 != sha256) or isinstance(read_copy(path), DamagedCopy):
        return None
    return Receipt(str(path), None, None, str(path), told.sha256, told.at)
