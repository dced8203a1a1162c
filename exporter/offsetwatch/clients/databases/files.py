"""Reader of the sizes and lines of files that FileStream connectors read.

The end of a file is the position after its last complete line, as a task reads no other. FileStream
counts characters and not bytes, so the end of a file with others than ASCII cannot be compared.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import NotFound, RemoteRefusal, SizeLimitExceeded
from offsetwatch.formatting import format_count
from offsetwatch.model.source_ends import (
    FileEnd,
    FileState,
    SourceEndRequest,
    SourceRange,
    SourceRow,
)

LAST_LINE_BYTES_MAX: Final = 64 * 1024
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
COUNTED_BYTES_MAX: Final = 1024 * 1024 * 1024  # read in about a second
_CHUNK_BYTES: Final = 1024 * 1024
# Where FileStreamSourceTask.extractLine ends a line: \r at the end may yet be followed by \n.
_LINE_END: Final = re.compile(rb"\n|\r\n|\r(?=[^\n])")
_NOT_ASCII: Final = "its file has characters that are not ASCII, which FileStream counts otherwise"


class FileReader:
    """Reader of the sizes and lines of files. It keeps none open."""

    def __init__(self, source: Source) -> None:
        self._name = source.name
        self._folder = None if source.folder is None else Path(source.folder)

    def read(self, request: SourceEndRequest) -> FileEnd:
        """Return the states of the requested files now; a file that cannot be read has an error."""
        return FileEnd({name: self._read_file(name) for name in request.files})

    def close(self) -> None:
        """Do nothing: no file is open."""

    def read_records(self, file: str, start: int, count_max: int) -> SourceRange:
        """Return the complete lines with an end at or after a position. Raises ClientError.

        The position counts characters, as the task does: all of the file before it is read too, and
        must be ASCII.
        """
        with self._open(file) as descriptor:
            status = os.fstat(descriptor)
            state = _measure(descriptor, status.st_size)
            if state.size is None:
                raise RemoteRefusal(self._name, state.error or "")
            self._check_characters(descriptor, start, state.size)
            lines = tuple(self._read_lines(descriptor, start, state.size, count_max))
        return SourceRange(f"{status.st_dev}:{status.st_ino}", state.size, lines)

    def _check_characters(self, descriptor: int, start: int, end: int) -> None:
        if start > end:
            raise RemoteRefusal(self._name, f"its file ends at {end}, before {start}")
        if start > COUNTED_BYTES_MAX:
            what = f"{format_count(start, 'byte')} are too many to count characters"
            raise SizeLimitExceeded(self._name, what)
        for begin in range(0, start, _CHUNK_BYTES):
            if not os.pread(descriptor, min(_CHUNK_BYTES, start - begin), begin).isascii():
                raise RemoteRefusal(self._name, _NOT_ASCII)

    def _read_lines(
        self, descriptor: int, start: int, end: int, count_max: int
    ) -> Iterator[SourceRow]:
        base = max(0, start - LINE_BYTES_MAX)
        before = os.pread(descriptor, start - base, base)
        if before.endswith(b"\r") and os.pread(descriptor, 1, start) == b"\n":
            before = before[:-1]  # both are one line end
        begin = base + max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
        for _ in range(count_max):
            if begin >= end:
                return
            content = os.pread(descriptor, LINE_BYTES_MAX, begin)
            line_end = _LINE_END.search(content)
            if line_end is None:
                raise SizeLimitExceeded(self._name, f"the line at {begin} is too long to copy")
            line = content[: line_end.end()]
            if not line.isascii():
                raise RemoteRefusal(self._name, _NOT_ASCII)
            begin += len(line)
            yield SourceRow(begin - 1, line)

    def _read_file(self, file: str) -> FileState:
        try:
            with self._open(file) as descriptor:
                return _measure(descriptor, os.fstat(descriptor).st_size)
        except (NotFound, RemoteRefusal) as exc:
            return FileState(None, exc.detail)

    @contextmanager
    def _open(self, file: str) -> Iterator[int]:
        """Open a file by its name on the workers. Raises NotFound, and RemoteRefusal if it is none.

        An error while it is read is a NotFound, too.
        """
        path = Path(file)
        if self._folder is not None:
            path = self._folder / path.name
        elif not path.is_absolute():
            raise NotFound(self._name, "its path is relative to a worker's folder: set folder")
        try:
            # A pipe would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise RemoteRefusal(self._name, "it is not a file")
                yield descriptor
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as exc:  # ValueError: a name with a NUL
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else type(exc).__name__
            raise NotFound(self._name, f"its file cannot be read: {why}") from exc


def _measure(descriptor: int, size: int) -> FileState:
    start = max(0, size - LAST_LINE_BYTES_MAX)
    tail = os.pread(descriptor, size - start, start)
    if not tail.isascii():
        return FileState(None, _NOT_ASCII)
    newline = tail.rfind(b"\n")
    if newline < 0 and start > 0:
        limit = LAST_LINE_BYTES_MAX // 1024
        return FileState(None, f"its last line is not complete, and longer than {limit} KiB")
    return FileState(start + newline + 1)
