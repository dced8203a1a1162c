"""What a crash, a second process or another user must not spoil: names that are on the disk, one
holder, and files that are ours alone.

Beneath everything that keeps files of its own.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import TextIO


def sync_folder(folder: Path) -> None:
    """Put on the disk which files a folder has: a file that was synced may still have no name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def acquire_file_lock(handle: TextIO, since: str) -> str | None:
    """Be the one process that holds this file, and say so in it, for as long as it is open: the
    kernel's lock ends with its process however that ends.

    None if it is ours now; else what its holder said of itself, "" if it has not yet.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        return handle.read().strip()
    handle.truncate(0)
    handle.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
    handle.flush()
    os.fsync(handle.fileno())  # else a network file system may show it to nobody yet
    return None


def find_ownership_problem(path: Path) -> str | None:
    """Why somebody else may have written this file, or may yet; None if nobody can, or if it is not
    there.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return "it is a link" if stat.S_ISLNK(found.st_mode) else "it is no plain file"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write to it"
    return None
