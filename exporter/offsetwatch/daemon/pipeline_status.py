"""Status and baselines files of the history pipeline, polled for changes.

The pipeline is another process, possibly on another host. The daemon knows of it only by its files,
and shows nothing without them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import pipeline_status
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import BaselinesRead, Observation, PipelineStatusRead

FILE_POLL_S = 5.0

_FileIdentity = tuple[int, int, int]
_INACCESSIBLE_FILE: _FileIdentity = (0, 0, 0)  # there may be one, and we may not look
_UNREADABLE_FILE: _FileIdentity = (-1, -1, -1)  # what was told last is that one cannot be read
_log = structlog.get_logger()

PutBatch = Callable[[Batch], bool]
"""Hands a batch to the loop and says whether it was taken; what was not is told again."""


class _WatchedFile:
    """Watched file. `read` makes an observation of it; `unreadable` is reported if that raises."""

    def __init__(
        self,
        path: Path,
        put: PutBatch,
        read: Callable[[], Observation],
        unreadable: Observation,
        event: str,
    ) -> None:
        self._path = path
        self._put = put
        self._read = read
        self._unreadable = unreadable
        self._event = event
        self._told: _FileIdentity | None = None
        self._refused: _FileIdentity | None = None

    def look(self) -> None:
        """Report the file if it is new or has changed since the last report."""
        there = self._identity()
        if there == self._told:
            return
        try:
            found = self._read()
        except HistoryError as exc:
            self._refuse(there, str(exc))
            return
        if self._put((found,)):
            self._told, self._refused = there, None

    def _refuse(self, there: _FileIdentity | None, why: str) -> None:
        """Report and log an unreadable file once, not at each poll."""
        if there != self._refused and self._put((self._unreadable,)):
            _log.warning(self._event, detail=why)
            self._told, self._refused = _UNREADABLE_FILE, there

    def _identity(self) -> _FileIdentity | None:
        """Return a value that changes when the file is replaced; None without a file."""
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _INACCESSIBLE_FILE
        return (found.st_ino, found.st_mtime_ns, found.st_size)


class PipelineStatusFile(_WatchedFile):
    """Status file of the pipeline, with its progress."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            pipeline_status.path_of(base),
            put,
            lambda: PipelineStatusRead(pipeline_status.read_status(base)),
            PipelineStatusRead(None, unreadable=True),
            "history_status_unreadable",
        )


class BaselinesFile(_WatchedFile):
    """Baselines file of the pipeline."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            pipeline_status.find_baselines_path(base),
            put,
            lambda: BaselinesRead(pipeline_status.read_baselines(base)),
            BaselinesRead(None, damaged=True),
            "history_baselines_unreadable",
        )
