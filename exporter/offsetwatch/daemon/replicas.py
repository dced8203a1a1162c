"""The replica that this daemon is, where a configuration says that there are several: made anew
with each configuration that changes where the journal is or how it is reached.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from offsetwatch.clients.kafka.journal_topic import Wanted
from offsetwatch.clock import Clock
from offsetwatch.config import Config
from offsetwatch.model.observations import Observation
from offsetwatch.model.remediation import ReplicaSeen
from offsetwatch.remedy.replicas.replica import Replica, Settings, Standing


class Replicas:
    """See the module. `put` hands an observation to the loop."""

    def __init__(self, put: Callable[[Observation], object], folder: Path, clock: Clock) -> None:
        self._put = put
        self._folder = folder
        self._clock = clock
        self._settings: Settings | None = None
        self._now: Replica | None = None

    @property
    def now(self) -> Replica | None:
        """None where a daemon acts alone. Any thread."""
        return self._now

    def follow(self, config: Config) -> None:
        """Be what this configuration says from now on."""
        settings = settings_of(config)
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

    def _told(self, standing: Standing) -> None:
        leader, since = standing.leader or ("", 0.0)
        self._put(
            ReplicaSeen(
                leading=standing.leading,
                leader=leader,
                since=since,
                seq=standing.seq,
                problem=standing.problem,
            )
        )


def settings_of(config: Config) -> Settings | None:
    """None where the journal is a file. Raises ClientError for a hook that cannot be had."""
    journal = config.remedy.journal
    if journal is None:
        return None
    return Settings(
        kafka=journal.kafka,
        properties=config.kafka[journal.kafka].client_properties(),
        wanted=Wanted(journal.topic, journal.replication_factor, journal.min_insync_replicas),
        name=journal.name or socket.gethostname(),
        session_s=journal.session_timeout_s,
    )
