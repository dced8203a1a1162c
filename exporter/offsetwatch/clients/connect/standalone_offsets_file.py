"""Offsets file of a standalone worker, and detection of a running worker that would overwrite it.

Such a worker opens its file only while it reads or writes it, so an open file is not the only sign:
its process names its properties file, and its REST API answers. Used by the offset stores
(remedy/drivers/storage.py). Nothing here writes.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from offsetwatch.decode.offsets_file import OffsetsFileEntries, read_offsets_file
from offsetwatch.errors import AccessDenied, MalformedResponse, NotFound, TargetUnreachable
from offsetwatch.model.offsets import Undecodable

_ATTEMPTS_MAX: Final = 20
_PAUSE_S: Final = 0.05  # a worker truncates its file and rewrites it within some milliseconds
_CONNECT_TIMEOUT_S: Final = 2.0
_STANDALONE_CLASS: Final = b"ConnectStandalone"
_PROC: Final = Path("/proc")


def read_offsets_entries(path: Path) -> OffsetsFileEntries:
    """Return the entries of the file.

    Raises NotFound if it does not exist, AccessDenied if it cannot be read, MalformedResponse if it
    is no offsets file. A truncated file may be one that is being written; it never counts as empty.
    """
    entries: OffsetsFileEntries | Undecodable = Undecodable("truncated")
    for attempt in range(_ATTEMPTS_MAX):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            entries = read_offsets_file(path.read_bytes())
        except FileNotFoundError as exc:
            raise NotFound(str(path), "there is no such file") from exc
        except OSError as exc:
            raise AccessDenied(str(path), f"cannot be read: {exc.strerror}") from exc
        if not isinstance(entries, Undecodable):
            return entries
        if entries.reason != "truncated":
            break
    assert isinstance(entries, Undecodable)
    raise MalformedResponse(str(path), f"not a whole offsets file ({entries.reason})")


def find_worker_evidence(path: Path, properties: Path, urls: tuple[str, ...]) -> tuple[str, ...]:
    """Return signs of a running worker that uses this file; empty without any.

    Raises TargetUnreachable if processes cannot be inspected.
    """
    if not _PROC.joinpath("self", "fd").is_dir():
        raise TargetUnreachable(str(path), "cannot see who has it open: there is no /proc")
    evidence = list(_find_processes(path, properties))
    evidence += [f"something answers at {url}" for url in urls if _is_listening(url)]
    return tuple(evidence)


def _find_processes(path: Path, properties: Path) -> Iterator[str]:
    identity = _read_file_identity(path)
    for process in sorted(_PROC.glob("[0-9]*"), key=lambda path: int(path.name)):
        if process.name == str(os.getpid()):
            continue
        if _is_worker_with_properties(process, properties):
            yield f"process {process.name} is a standalone worker with {properties.name}"
        elif identity is not None and _has_open(process, identity):
            yield f"process {process.name} has the file open"


def _is_worker_with_properties(process: Path, properties: Path) -> bool:
    """Check whether the process is a standalone worker with this properties file."""
    try:
        arguments = process.joinpath("cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False
    if not any(argument.endswith(_STANDALONE_CLASS) for argument in arguments):
        return False
    named = [Path(os.fsdecode(argument)) for argument in arguments if argument]
    try:
        folder = process.joinpath("cwd").readlink()
    except OSError:  # somebody else's: the name alone has to do
        return any(path.name == properties.name for path in named)
    identity = _read_file_identity(properties)
    return any(
        _read_file_identity(folder / path) == identity
        for path in named
        if path.suffix == properties.suffix
    )


def _has_open(process: Path, identity: tuple[int, int]) -> bool:
    try:
        handles = list(process.joinpath("fd").iterdir())
    except OSError:
        return False
    return any(_read_file_identity(handle) == identity for handle in handles)


def _read_file_identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino)


def _is_listening(url: str) -> bool:
    """Check whether a server listens there.

    Only a refused connection means no: a starting worker accepts connections before it answers.
    """
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT_TIMEOUT_S):
            return True
    except ConnectionRefusedError:
        return False
    except (OSError, UnicodeError) as exc:  # the second: of a host name with an empty label
        raise TargetUnreachable(url, f"cannot be asked whether it runs: {exc}") from exc
