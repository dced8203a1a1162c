"""Documents of the history pipeline, as far as they are still valid: its status, and baselines.

Times and counters of the status are valid at any age; the pipeline's lag is not. A baseline that is
too old, damaged or missing is never guessed: without it the rules use what the daemon observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offsetwatch.model.history_documents import TOO_OLD_S, Baseline, PipelineStatus
from offsetwatch.model.observations import BaselinesRead, PipelineStatusRead


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


BaselinesByConnector = Mapping[tuple[str, str], Baseline]


@dataclass(frozen=True, slots=True)
class BaselinesView:
    """Baselines that may be used.

    valid   None where nothing was ever published; False: damaged, or too old to be used
    of      (Connect cluster, connector) -> its baseline; empty unless valid
    """

    valid: bool | None = None
    of: BaselinesByConnector = field(default_factory=dict)


NO_BASELINES = BaselinesView()


class BaselinesBook:
    """Holder of the newest baselines document."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._view = NO_BASELINES
        self._old = BaselinesView(valid=False)

    def read(self, baselines: BaselinesRead) -> None:
        """Replace the baselines; with none, if the document is missing or damaged."""
        if baselines.found is None:
            self._until = None
            self._view = BaselinesView(valid=False) if baselines.damaged else NO_BASELINES
            return
        of = {
            (connector.connect_cluster, connector.connector): connector
            for connector in baselines.found.connectors
        }
        self._until = baselines.found.until
        self._view = BaselinesView(valid=True, of=of)

    def view(self, now: float) -> BaselinesView:
        """Return the baselines that are valid at `now`."""
        if self._until is not None and now - self._until > TOO_OLD_S:
            return self._old
        return self._view
