"""Safety of our files on disk: durable file names, one process at a time, exclusive ownership.

Protects against a crash, a second process and another user. Used by every module that writes files.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO


def hash_file_stamp(path: Path) -> str:
    """Return a hash of a file's inode, size and time of change; "" if it cannot be read.

    Two processes on one machine compare by it whether they have read the same file. It depends on
    nothing in the file, which may be a password that few guesses would find.
    """
    try:
        facts = path.stat()
    except OSError:
        return ""
    stamp = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk: a file that was synced may otherwise still have no name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = True) -> None:
    """Replace a file as a whole by what `write` writes; on an error the old one remains.

    durable    it is on disk at the return, and survives a power failure
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")  # two may write it at once
    try:
        with partial.open("wb") as file:
            write(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def acquire_file_lock(handle: TextIO, since: str) -> str | None:
    """Lock a file for this process and write a description of the process into it.

    The lock lasts while the file is open. The kernel releases it when the process ends, for
    whatever reason.

    Returns None if this process now holds the lock. Otherwise returns the description that its
    holder wrote, "" if it has not written one yet.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        return handle.read().strip()
    handle.truncate(0)
    handle.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
    handle.flush()
    os.fsync(handle.fileno())  # else a network file system may not show it to others yet
    return None


def find_ownership_problem(path: Path) -> str | None:
    """Return why another user may have written this file, or may write it.

    None if no other user can, or if the file does not exist.
    """
    try:
        stat_result = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(stat_result.st_mode):
        return "it is a link" if stat.S_ISLNK(stat_result.st_mode) else "it is no plain file"
    if stat_result.st_uid != os.geteuid():
        return "it belongs to another user"
    if stat_result.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write to it"
    return None
