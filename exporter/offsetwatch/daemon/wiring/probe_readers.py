"""The readers of single records, one per Kafka cluster and isolation level, kept between rounds.

A reader is made when it
is first needed, so nothing connects to a cluster that nobody lags behind on.
"""

from __future__ import annotations

from collections.abc import Callable

from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.ingest.polls import Batch
from offsetwatch.ingest.record_age_poll import ProbeBudget, ProbeMemory, poll_probes
from offsetwatch.state.snapshot import Snapshot


class RecordAgeProbes:
    """See the module. `stopped` is looked at while reading."""

    def __init__(self, config: Config, clock: UnixClock, stopped: Callable[[], bool]) -> None:
        self._config = config
        self._clock = clock
        self._stopped = stopped
        self._memories = {name: ProbeMemory() for name in config.kafka}
        self._due_at = dict.fromkeys(config.kafka, 0.0)
        self._readers: dict[tuple[str, bool], ProbeReader] = {}

    def round(self, kafka: str, snapshot: Snapshot) -> Batch:
        """What one round of reads on this cluster came to; nothing if there is nothing to read, or
        if log ends were not asked for anew since the last one.
        """
        config, now = self._config.probes, self._clock.now()
        if not config.enabled or 0 < self._due_at[kafka] - now <= self._config.ends_s:
            return ()
        found = poll_probes(
            kafka,
            lambda committed: self._reader(kafka, committed=committed),
            snapshot,
            self._memories[kafka],
            ProbeBudget(reads_max=config.reads_per_round, seconds=config.budget_s),
            self._clock,
            self._stopped,
        )
        if found:
            self._due_at[kafka] = now + self._config.ends_s
        return found

    def close(self) -> None:
        """After the last round."""
        for reader in self._readers.values():
            reader.close()

    def _reader(self, kafka: str, *, committed: bool) -> ProbeReader:
        found = self._readers.get((kafka, committed))
        if found is None:
            properties = self._config.kafka[kafka].client_properties()
            found = ProbeReader(kafka, properties, committed=committed)
            self._readers[kafka, committed] = found
        return found
