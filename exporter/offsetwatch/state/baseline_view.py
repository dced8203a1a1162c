"""What is usual of connectors, as history has taught it: whether that still counts.

What is too old, damaged or not there is never guessed: without it the laws
go by what the daemon saw itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetwatch.model.baselines import TOO_OLD_S, Baseline
from offsetwatch.model.observations import BaselinesRead

BaselinesByConnector = Mapping[tuple[str, str], Baseline]


@dataclass(frozen=True, slots=True)
class BaselinesView:
    """What may be used.

    valid   None where nothing was ever published; False: it is damaged, or too old to be used
    of      (Connect cluster, connector) -> what is usual of it; empty unless valid
    """

    valid: bool | None = None
    of: BaselinesByConnector = field(default_factory=dict)


NO_BASELINES = BaselinesView()


class BaselinesBook:
    """The newest document."""

    def __init__(self) -> None:
        self._until: float | None = None
        self._view = NO_BASELINES
        self._old = BaselinesView(valid=False)

    def read(self, baselines: BaselinesRead) -> None:
        """Replace what was known; by nothing, if it is damaged."""
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
        """What still counts."""
        if self._until is not None and now - self._until > TOO_OLD_S:
            return self._old
        return self._view
