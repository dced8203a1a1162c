"""The journal's file on the disk: made so that nobody else can read it, and used only where nobody
else can have written it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from offsetwatch.disk import find_ownership_problem
from offsetwatch.errors import JournalDamaged


def create_private_file(path: Path) -> None:
    """An empty file that nobody else can read, where there is none. One that is there is not so
    much as opened: POSIX drops all locks of a process on a file when it closes any handle of it,
    those of SQLite's other connections among them, and then the next process to leave takes itself
    for the last and deletes the log that this one is writing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


def require_private_files(path: Path) -> None:
    """The file, and those that SQLite keeps beside it: what they say is carried out."""
    for at in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        problem = find_ownership_problem(at)
        if problem is not None:
            raise JournalDamaged(f"{at} cannot be used: {problem}")
