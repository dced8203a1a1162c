"""Baselines of connectors from the history pipeline, as long as they are valid.

A baseline that is too old, damaged or missing is never guessed. Without it the rules use what the
daemon observed itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetwatch.model.baselines import TOO_OLD_S, Baseline
from offsetwatch.model.observations import BaselinesRead

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
