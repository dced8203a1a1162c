"""The history pipeline's own file, looked at now and then. Called by edge.py, in one thread.

The pipeline is another process and may be on another host: its file is all that the daemon knows of
it, and without one nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from exporter.errors import HistoryError
from exporter.history import status
from exporter.ingest.poll import Batch
from exporter.model.observations import PipelineSeen

LOOK_S = 5.0

_Identity = tuple[int, int, int]
_HIDDEN: _Identity = (0, 0, 0)  # there may be one, and we may not look
_log = structlog.get_logger()


class PipelineFile:
    """The file below one base path. `put` hands a batch to the loop and says whether it was taken;
    what was not is told again.
    """

    def __init__(self, base: Path, put: Callable[[Batch], bool]) -> None:
        self._base = base
        self._put = put
        self._told: _Identity | None = None
        self._refused: _Identity | None = None

    def look(self) -> None:
        """Tell what is new: nothing while the file is the one that was told of last."""
        there = self._identity()
        if there == self._told:
            return
        try:
            found = status.read(self._base)
        except HistoryError as exc:
            self._refuse(there, str(exc))
            return
        if self._put((PipelineSeen(found),)):
            self._told, self._refused = there, None

    def _refuse(self, there: _Identity | None, why: str) -> None:
        """Counted and logged once for each file that cannot be read, not once for each look."""
        if there != self._refused and self._put((PipelineSeen(None, unreadable=True),)):
            _log.warning("history_status_unreadable", detail=why)
            self._told, self._refused = None, there

    def _identity(self) -> _Identity | None:
        """What changes when the file is replaced; None where there is none."""
        try:
            found = status.path_of(self._base).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _HIDDEN
        return (found.st_ino, found.st_mtime_ns, found.st_size)
