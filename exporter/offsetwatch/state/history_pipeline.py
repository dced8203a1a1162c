"""The history pipeline, as it describes itself: what of that is still true.

Times and counters speak for themselves however old they are; how far it is
behind does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsetwatch.model.observations import PipelineStatusRead
from offsetwatch.model.pipeline_status import PipelineStatus


@dataclass(frozen=True, slots=True)
class PipelineView:
    """What may be shown. `unreadable` counts files of the pipeline's that nobody could read."""

    status: PipelineStatus | None = None
    unreadable: int = 0


NO_PIPELINE_STATUS = PipelineView()


class PipelineBook:
    """The newest word of the pipeline. `fresh_s` after its last batch nobody knows how far behind
    it is.
    """

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._view = NO_PIPELINE_STATUS

    def read(self, status: PipelineStatusRead) -> None:
        """Replace what was known."""
        unreadable = self._view.unreadable + status.unreadable
        self._view = PipelineView(status=status.status, unreadable=unreadable)

    def view(self, now: float) -> PipelineView:
        """What is still true."""
        status = self._view.status
        if status is None or (
            status.batch_at is not None and abs(now - status.batch_at) <= self._fresh_s
        ):
            return self._view
        feeds = tuple(replace(feed, behind=None) for feed in status.feeds)
        return replace(self._view, status=replace(status, feeds=feeds))
