"""Positions of a connector's tasks at each failure, remembered between polls.

A run of failures has the positions that have not changed since its first failure. A sink with
max.poll.records=1 advances once more, up to the poison record, and stops there. A failure counts
for that setting only if it came after the setting did, because a trace stays in the status until
the tasks are restarted. Pure; used by poison_locator.py.

A state that this process has not observed counts as no failure, and so does one whose time is
unknown: after a restart of the daemon, and when another task's failures become the most, as many
failures are needed again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offsetwatch.model.findings import FailureRun
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.snapshot_queries import is_label_of
from offsetwatch.remedy.locate.search import ReadPosition
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.state.clock_skew import is_later

OBSERVATIONS_MAX: Final = 10_000


class _PositionObservation(NamedTuple):
    """A configuration or a position, and the run of failures when it was first observed.

    what                        the configuration or the position
    first_at, last_at, times    of the run of failures at that time
    """

    what: str
    first_at: float
    last_at: float
    times: int

    def tells_of(self, run: FailureRun) -> bool:
        """Return whether the number of this run's failures since the observation is known."""
        return run.first_at == self.first_at or is_later(run.first_at, self.last_at)

    def failures(self, run: FailureRun) -> int:
        """Return how often the run has failed since the observation."""
        return run.count - self.times if run.first_at == self.first_at else run.count


class FailurePositions:
    """Configurations and positions at the failures of each connector. For one thread."""

    def __init__(self) -> None:
        self._since: dict[tuple[ConnectorKey, TopicPartition | None], _PositionObservation] = {}

    def failures_under(self, key: ConnectorKey, config: str, run: FailureRun | None) -> int:
        """Return how many failures certainly came under this configuration, given by its hash."""
        if run is None:
            return 0
        return self._seen(key, None, config, run).failures(run)

    def moved(
        self, key: ConnectorKey, run: FailureRun | None, partition: ReadPosition | None
    ) -> bool | None:
        """Return whether a position has moved since the run's first failure; None if unknown.

        A position that was the same at two failures has not moved.
        """
        if run is None or partition is None:
            return None
        if any(
            is_label_of(label, partition.at.topic, partition.at.partition) for label, _ in run.same
        ):
            return False
        since = self._seen(key, partition.at, f"{partition.next} in {run.first_at!r}", run)
        if since.failures(run) > 0:
            return False
        return True if run.moved else None

    def _seen(
        self, key: ConnectorKey, partition: TopicPartition | None, what: str, run: FailureRun
    ) -> _PositionObservation:
        """Return the observation of this value; if the value is new, record it as of now."""
        known = self._since.get((key, partition))
        if known is None or known.what != what or not known.tells_of(run):
            if len(self._since) >= OBSERVATIONS_MAX:
                self._since.clear()
            known = self._since[key, partition] = _PositionObservation(
                what, run.first_at, run.last_at, run.count
            )
        return known
