"""Status of the history pipeline by its own report, as far as it is still valid.

Times and counters are valid at any age; the pipeline's lag is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsetwatch.model.observations import PipelineStatusRead
from offsetwatch.model.pipeline_status import PipelineStatus


@dataclass(frozen=True, slots=True)
class PipelineView:
    """Status that may be shown. `unreadable` counts the pipeline's unreadable files."""

    status: PipelineStatus | None = None
    unreadable: int = 0


NO_PIPELINE_STATUS = PipelineView()


class PipelineBook:
    """Holder of the pipeline's newest status. Its lag is unknown `fresh_s` after its last batch."""

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._view = NO_PIPELINE_STATUS

    def read(self, status: PipelineStatusRead) -> None:
        """Replace the status."""
        unreadable = self._view.unreadable + status.unreadable
        self._view = PipelineView(status=status.status, unreadable=unreadable)

    def view(self, now: float) -> PipelineView:
        """Return the status that is valid at `now`."""
        status = self._view.status
        if status is None or (
            status.batch_at is not None and abs(now - status.batch_at) <= self._fresh_s
        ):
            return self._view
        feeds = tuple(replace(feed, behind=None) for feed in status.feeds)
        return replace(self._view, status=replace(status, feeds=feeds))
