"""The history pipeline's own files, looked at now and then.

The pipeline is another process and may be on another host: its files are all that the daemon knows
of it, and without them nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from offsetwatch.errors import HistoryError
from offsetwatch.history.baselines import document
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
    """One file. `read` makes an observation of it; `unreadable` is told where that raises."""

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
        """Tell what is new: nothing while the file is the one that was told of last."""
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
        """Counted and logged once for each file that cannot be read, not once for each look."""
        if there != self._refused and self._put((self._unreadable,)):
            _log.warning(self._event, detail=why)
            self._told, self._refused = _UNREADABLE_FILE, there

    def _identity(self) -> _FileIdentity | None:
        """What changes when the file is replaced; None where there is none."""
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _INACCESSIBLE_FILE
        return (found.st_ino, found.st_mtime_ns, found.st_size)


class PipelineStatusFile(_WatchedFile):
    """How far the pipeline is."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            pipeline_status.path_of(base),
            put,
            lambda: PipelineStatusRead(pipeline_status.read_status(base)),
            PipelineStatusRead(None, unreadable=True),
            "history_status_unreadable",
        )


class BaselinesFile(_WatchedFile):
    """What it has learned to be usual."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            document.path_of(base),
            put,
            lambda: BaselinesRead(document.read_baselines(base)),
            BaselinesRead(None, damaged=True),
            "history_baselines_unreadable",
        )
