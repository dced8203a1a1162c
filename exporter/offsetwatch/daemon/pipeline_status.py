"""The history pipeline's own files, looked at now and then. Called by edge.py, in one thread.

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
from offsetwatch.model.observations import BaselinesSeen, Observation, PipelineSeen

LOOK_S = 5.0

_Identity = tuple[int, int, int]
_HIDDEN: _Identity = (0, 0, 0)  # there may be one, and we may not look
_REFUSED: _Identity = (-1, -1, -1)  # what was told last is that one cannot be read
_log = structlog.get_logger()

Put = Callable[[Batch], bool]
"""Hands a batch to the loop and says whether it was taken; what was not is told again."""


class _File:
    """One file. `read` makes an observation of it; `unreadable` is told where that raises."""

    def __init__(
        self,
        path: Path,
        put: Put,
        read: Callable[[], Observation],
        unreadable: Observation,
        event: str,
    ) -> None:
        self._path = path
        self._put = put
        self._read = read
        self._unreadable = unreadable
        self._event = event
        self._told: _Identity | None = None
        self._refused: _Identity | None = None

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

    def _refuse(self, there: _Identity | None, why: str) -> None:
        """Counted and logged once for each file that cannot be read, not once for each look."""
        if there != self._refused and self._put((self._unreadable,)):
            _log.warning(self._event, detail=why)
            self._told, self._refused = _REFUSED, there

    def _identity(self) -> _Identity | None:
        """What changes when the file is replaced; None where there is none."""
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _HIDDEN
        return (found.st_ino, found.st_mtime_ns, found.st_size)


class PipelineFile(_File):
    """How far the pipeline is."""

    def __init__(self, base: Path, put: Put) -> None:
        super().__init__(
            pipeline_status.path_of(base),
            put,
            lambda: PipelineSeen(pipeline_status.read(base)),
            PipelineSeen(None, unreadable=True),
            "history_status_unreadable",
        )


class BaselinesFile(_File):
    """What it has learned to be usual."""

    def __init__(self, base: Path, put: Put) -> None:
        super().__init__(
            document.path_of(base),
            put,
            lambda: BaselinesSeen(document.published(base)),
            BaselinesSeen(None, damaged=True),
            "history_baselines_unreadable",
        )
