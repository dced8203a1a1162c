"""Backups of offsets: all of a connector before a change, as KIP-199 JSON.

Kafka's tools and ours can restore one. A backup is on the disk, complete and read back, before its
path is reported; none is ever overwritten.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from offsetwatch.disk import sync_folder
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.engine.requests import build_offset_entry
from offsetwatch.remedy.model.plan import FrozenOffsets, PartitionOffset
from offsetwatch.remedy.model.service_api import BackupRow

FOLDER: Final = "backups"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class BackupFile(NamedTuple):
    """Path and SHA-256 of a backup."""

    path: Path
    sha256: str


def encode_backup(connector: str, pairs: tuple[PartitionOffset, ...]) -> bytes:
    """Return offsets as KIP-199 JSON; exact integers stay exact."""
    entries = [build_offset_entry(pair.partition, pair.offset, pair.key) for pair in pairs]
    return msgspec.json.format(msgspec.json.encode({connector: entries}), indent=2) + b"\n"


def write_backup(
    folder: Path, *, connector: str, pairs: tuple[PartitionOffset, ...], at: float
) -> BackupFile:
    """Write a backup to the state directory. Raises OSError if it is not there afterwards."""
    body = encode_backup(connector, pairs)
    sha256 = hashlib.sha256(body).hexdigest()
    home = folder / FOLDER
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    moment = datetime.fromtimestamp(at, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{moment}-{_UNSAFE.sub('_', connector)[:80]}-{sha256[:8]}"
    path = _write_new_file(home, stem, body)
    problem = find_backup_problem(path, sha256)
    if problem is not None:
        raise OSError(problem)
    return BackupFile(path, sha256)


def copy_backup(folder: Path, *, connector: str, frozen: FrozenOffsets) -> None:
    """Write a backup of another replica under the same name, unless it exists.

    Raises OSError if it is not there afterwards.
    """
    path = resolve_backup_path(folder, frozen.backup)
    if path.exists():
        return
    body = encode_backup(connector, frozen.pairs)
    if hashlib.sha256(body).hexdigest() != frozen.backup_sha256:
        raise OSError(f"{path.name} was not made of the offsets that stand beside its name")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy_path = _write_new_file(path.parent, path.stem, body)
    if copy_path != path:
        raise OSError(f"{path} was made by another process meanwhile")


def resolve_backup_path(folder: Path, backup: str) -> Path:
    """Return the path of a backup in this state directory.

    Each replica has all backups, and the journal has the path from the replica that wrote it.
    """
    return folder / FOLDER / Path(backup).name


def _write_new_file(home: Path, stem: str, body: bytes) -> Path:
    handle, name = tempfile.mkstemp(dir=home, prefix=".", suffix=".fresh")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        path = _link_file(fresh, home, stem)
    finally:
        fresh.unlink()
    sync_folder(home)
    return path


def _link_file(fresh: Path, home: Path, stem: str) -> Path:
    """Link the file to a free name: a rename would overwrite an existing one."""
    for number in range(1000):
        path = home / (f"{stem}-{number}.json" if number else f"{stem}.json")
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
            return path
    raise OSError(f"{home / stem}.json is there a thousand times")


def find_backup_problem(path: Path, sha256: str) -> str | None:
    """Return why a backup is not what was written; None if it is."""
    try:
        body = path.read_bytes()
    except OSError as exc:
        return f"{path} cannot be read: {exc.strerror}"
    if hashlib.sha256(body).hexdigest() != sha256:
        return f"{path} is not what was written"
    return None


def list_backups(folder: Path) -> tuple[BackupRow, ...]:
    """List all backups of a state directory, oldest first.

    A file that is no backup of ours has no connectors.
    """
    paths = sorted((folder / FOLDER).glob("*.json"))
    return tuple(_read_summary(path) for path in paths)


def parse_entries(body: bytes) -> tuple[tuple[str, str, str | None], ...]:
    """Return the connector, source partition and offset of each entry of a backup.

    Raises msgspec.DecodeError.
    """
    try:
        entries = msgspec.json.decode(body, type=dict[str, list[_BackupEntry]])
        return tuple(
            (name, _format_compact(entry.partition), None if offset == "null" else offset)
            for name, listed in entries.items()
            for entry in listed
            for offset in (_format_compact(entry.offset),)
        )
    except (UnicodeDecodeError, RecursionError) as exc:
        raise msgspec.DecodeError(str(exc)) from exc


class _BackupEntry(msgspec.Struct, frozen=True):
    partition: msgspec.Raw
    offset: msgspec.Raw


def _format_compact(raw: msgspec.Raw) -> str:
    return msgspec.json.format(bytes(raw), indent=-1).decode()


def _read_summary(path: Path) -> BackupRow:
    body = path.read_bytes()
    try:
        backed_up = msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        backed_up = {}
    counts = tuple((name, len(entries)) for name, entries in backed_up.items())
    written_at = Moment(path.stat().st_mtime)
    return BackupRow(path.name, written_at, hashlib.sha256(body).hexdigest(), counts)
