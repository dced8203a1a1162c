"""Replica of this daemon in leader election, if the configuration says that there are several.

It is created again if a configuration changes the journal's location or how it is reached.
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
    """Current replica of this daemon. `put` hands an observation to the loop."""

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
        """Return the replica; None if the daemon acts alone. Thread-safe."""
        return self._now

    def follow(self, config: Config) -> None:
        """Use this configuration from now on."""
        settings = build_replica_settings(config)
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        if settings is not None:
            self._now = Replica(settings, self._folder, self._clock, self._told)
            self._now.start()

    def stop(self) -> None:
        """Stop leading."""
        replica, self._now = self._now, None
        if replica is not None:
            replica.stop()

    def why_not(self) -> str | None:
        """Return why this daemon may not make changes and which one leads; None if it may.

        Thread-safe.
        """
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
    """Return the replica settings; None if the journal is a file.

    Raises ClientError if the OAuth hook cannot be loaded.
    """
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
