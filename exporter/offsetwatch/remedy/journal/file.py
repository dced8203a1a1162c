"""File of the journal: created so that only its owner can read it.

It is used only if no other user can have written it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from offsetwatch.disk import find_ownership_problem
from offsetwatch.errors import JournalDamaged


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists.

    An existing one is not even opened. POSIX drops all locks of a process on a file when it closes
    any handle of it, those of SQLite's other connections among them. Then the next process to leave
    considers itself the last and deletes the log that this one is writing.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


def require_private_files(path: Path) -> None:
    """Check that only the owner can write the file and those that SQLite keeps beside it.

    What they contain is carried out. Raises JournalDamaged.
    """
    for at in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        problem = find_ownership_problem(at)
        if problem is not None:
            raise JournalDamaged(f"{at} cannot be used: {problem}")
