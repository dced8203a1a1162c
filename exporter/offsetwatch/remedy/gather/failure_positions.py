"""What stood still, and for how many failures: what one look at a connector cannot tell.

A run of failures knows which positions are where they were at its first failure. A sink that is
told to take one record at a time moves once more, up to the very record, and stands there; and a
failure counts for that only if it came after it was told so, as a trace stays in sight until the
tasks have started anew. Pure; kept by poison_locator.py.

What this process has not seen counts as nothing, and neither does what it cannot tell the time of:
after a restart, and where another task's failures are the most now, it takes as many again.
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
    """what    a configuration, or an offset, that was seen then
    first_at, last_at, times    of the run of failures, as it was
    """

    what: str
    first_at: float
    last_at: float
    times: int

    def tells_of(self, run: FailureRun) -> bool:
        """Whether it is known how many of these failures came since."""
        return run.first_at == self.first_at or is_later(run.first_at, self.last_at)

    def failures(self, run: FailureRun) -> int:
        """How often it has failed since."""
        return run.count - self.times if run.first_at == self.first_at else run.count


class FailurePositions:
    """See the module. For one thread."""

    def __init__(self) -> None:
        self._since: dict[tuple[ConnectorKey, TopicPartition | None], _PositionObservation] = {}

    def failures_under(self, key: ConnectorKey, config: str, run: FailureRun | None) -> int:
        """How often it failed under this configuration, by its hash, for certain."""
        if run is None:
            return 0
        return self._seen(key, None, config, run).failures(run)

    def moved(
        self, key: ConnectorKey, run: FailureRun | None, partition: ReadPosition | None
    ) -> bool | None:
        """Whether a position has moved since the first failure of the run, and was not there any
        more when it failed again; None if nobody knows.
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
        """Since when it is so; if it was not so at the last look, since now."""
        known = self._since.get((key, partition))
        if known is None or known.what != what or not known.tells_of(run):
            if len(self._since) >= OBSERVATIONS_MAX:
                self._since.clear()
            known = self._since[key, partition] = _PositionObservation(
                what, run.first_at, run.last_at, run.count
            )
        return known
