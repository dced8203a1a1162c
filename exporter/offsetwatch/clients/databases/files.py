"""Reader of the sizes of files that FileStream connectors read.

The end of a file is the position after its last complete line, as a task reads no other. FileStream
counts characters and not bytes, so the end of a file with others than ASCII cannot be compared.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from offsetwatch.config.schema.sources import Source
from offsetwatch.model.source_ends import FileEnd, FileState, SourceEndRequest

LAST_LINE_BYTES_MAX: Final = 64 * 1024


class FileReader:
    """Reader of the sizes of files. It keeps none open."""

    def __init__(self, source: Source) -> None:
        self._folder = None if source.folder is None else Path(source.folder)

    def read(self, request: SourceEndRequest) -> FileEnd:
        """Return the states of the requested files now; a file that cannot be read has an error."""
        return FileEnd({name: self._read_file(name) for name in request.files})

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _read_file(self, name: str) -> FileState:
        path = Path(name)
        if self._folder is not None:
            path = self._folder / path.name
        elif not path.is_absolute():
            return FileState(None, "its path is relative to a worker's folder: set folder")
        try:
            return _measure(path)
        except (OSError, ValueError) as exc:  # ValueError: a name with a NUL
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else type(exc).__name__
            return FileState(None, f"its file cannot be read: {why}")


def _measure(path: Path) -> FileState:
    # A pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return FileState(None, "it is not a file")
        start = max(0, status.st_size - LAST_LINE_BYTES_MAX)
        tail = os.pread(descriptor, status.st_size - start, start)
    finally:
        os.close(descriptor)
    if not tail.isascii():
        return FileState(
            None, "its file has characters that are not ASCII, which FileStream counts otherwise"
        )
    newline = tail.rfind(b"\n")
    if newline < 0 and start > 0:
        limit = LAST_LINE_BYTES_MAX // 1024
        return FileState(None, f"its last line is not complete, and longer than {limit} KiB")
    return FileState(start + newline + 1)
