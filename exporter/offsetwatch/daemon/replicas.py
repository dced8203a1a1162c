"""The replica that this daemon is, where a configuration says that there are several: made anew
with each configuration that changes where the journal is or how it is reached.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from offsetwatch.clients.kafka.journal_topic import JournalTopicRequirements
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.model.observations import Observation
from offsetwatch.model.remediation import ReplicaReported
from offsetwatch.remedy.replicas.replica import Replica, ReplicaSettings, ReplicaStatus


class DaemonReplica:
    """See the module. `put` hands an observation to the loop."""

    def __init__(
        self, put: Callable[[Observation], object], folder: Path, clock: UnixClock
    ) -> None:
        self._put = put
        self._folder = folder
        self._clock = clock
        self._settings: ReplicaSettings | None = None
        self._now: Replica | None = None

    @property
    def now(self) -> Replica | None:
        """None where a daemon acts alone. Any thread."""
        return self._now

    def follow(self, config: Config) -> None:
        """Be what this configuration says from now on."""
        settings = build_replica_settings(config)
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        if settings is not None:
            self._now = Replica(settings, self._folder, self._clock, self._told)
            self._now.start()

    def stop(self) -> None:
        """Lead no more."""
        replica, self._now = self._now, None
        if replica is not None:
            replica.stop()

    def why_not(self) -> str | None:
        """Why nothing can be changed here, and who may be asked; None if it can. Any thread."""
        replica = self._now
        return None if replica is None or replica.term is not None else replica.who_leads()

    def _told(self, status: ReplicaStatus) -> None:
        leader, since = status.leader or ("", 0.0)
        self._put(
            ReplicaReported(
                leading=status.leading,
                leader=leader,
                since=since,
                seq=status.seq,
                problem=status.problem,
            )
        )


def build_replica_settings(config: Config) -> ReplicaSettings | None:
    """None where the journal is a file. Raises ClientError for a hook that cannot be had."""
    journal = config.remedy.journal
    if journal is None:
        return None
    return ReplicaSettings(
        kafka=journal.kafka,
        properties=config.kafka[journal.kafka].client_properties(),
        wanted=JournalTopicRequirements(
            journal.topic, journal.replication_factor, journal.min_insync_replicas
        ),
        name=journal.name or socket.gethostname(),
        session_s=journal.session_timeout_s,
    )
