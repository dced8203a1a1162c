"""Readers of single records, one per Kafka cluster and isolation level, kept between polls.

A reader is created when it is first needed, so a cluster without lag gets no connection.
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
    """Reads of record ages on all Kafka clusters; `stopped` is checked while reading."""

    def __init__(self, config: Config, clock: UnixClock, stopped: Callable[[], bool]) -> None:
        self._config = config
        self._clock = clock
        self._stopped = stopped
        self._memories = {name: ProbeMemory() for name in config.kafka}
        self._due_at = dict.fromkeys(config.kafka, 0.0)
        self._readers: dict[tuple[str, bool], ProbeReader] = {}

    def round(self, kafka: str, snapshot: Snapshot) -> Batch:
        """Return the observations of one poll of this Kafka cluster.

        Empty if there is nothing to read, or before log ends are due again since the last poll.
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
        """Close all readers, after the last poll."""
        for reader in self._readers.values():
            reader.close()

    def _reader(self, kafka: str, *, committed: bool) -> ProbeReader:
        found = self._readers.get((kafka, committed))
        if found is None:
            properties = self._config.kafka[kafka].client_properties()
            found = ProbeReader(kafka, properties, committed=committed)
            self._readers[kafka, committed] = found
        return found
