"""Parts of remediation, built from one configuration: planner, readers, drivers and replica.

Each set of parts belongs to one thread: that of remediation, or one that answers a request.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from offsetwatch.clients.kafka.journal_topic import JournalTopicRequirements
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Config
from offsetwatch.model.observations import Observation
from offsetwatch.model.remediation import ReplicaReported
from offsetwatch.remedy.drivers.factory import find_connect_cluster
from offsetwatch.remedy.drivers.quarantine.stores import build_configured_quarantine
from offsetwatch.remedy.drivers.strimzi.resources import find_resource_problem
from offsetwatch.remedy.gather.facts_collector import FactsCollector, TimeSources
from offsetwatch.remedy.gather.live_queries import Brokers, ConnectClient
from offsetwatch.remedy.gather.poison_locator import PoisonLocator
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import LinePublisher
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import PlanningAnswer, PlanRequest
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.policy_settings import build_policy
from offsetwatch.remedy.replicas.replica import Replica, ReplicaSettings, ReplicaStatus
from offsetwatch.state.snapshot import Snapshot


class RemediationParts(NamedTuple):
    """Journal, planner, policy and Kafka connections of remediation."""

    ledger: JournalIndex
    planner: Planner
    policy: Policy
    brokers: Brokers


@contextmanager
def open_remediation_parts(
    config: Config,
    snapshot: Callable[[], Snapshot],
    folder: Path,
    clock: UnixClock,
    pause: Callable[[float], None],
    publish: LinePublisher | None = None,
) -> Iterator[RemediationParts]:
    """Open the parts and close them afterwards.

    `publish` writes a journal that replicas share. Raises JournalDamaged.
    """
    policy = build_policy(config.remedy)
    with ExitStack() as stack:
        ledger = JournalIndex(folder, publish)
        stack.enter_context(closing(ledger.journal))
        readers = stack.enter_context(closing(ConnectStateReaders(config)))
        brokers = stack.enter_context(closing(Brokers(config.kafka)))
        ledger.read_on()
        collector = FactsCollector(
            client_of=readers.of,
            brokers=brokers,
            snapshot=snapshot,
            fleet=ledger.fleet,
            policy=policy,
            state_dir=folder,
            time=TimeSources(clock, SteadyClock(), pause),
            find_resource_problem=partial(
                find_resource_problem, {cluster.name: cluster for cluster in config.connect}
            ),
        )
        planner = Planner(
            client_of=readers.of,
            collector=collector,
            locator=PoisonLocator(config, brokers, policy, clock),
            snapshot=snapshot,
            policy=policy,
            quarantine=build_configured_quarantine(config, folder).name,
            state_dir=folder,
            clock=clock.now,
        )
        yield RemediationParts(ledger, planner, policy, brokers)


def plan_for_person(
    config: Config,
    snapshot: Callable[[], Snapshot],
    folder: Path,
    clock: UnixClock,
    request: PlanRequest,
    by: str,
) -> PlanningAnswer:
    """Plan what the operator `by` requests, as ServiceCallbacks requires.

    Connections are made for each request, because requests are rare.
    """
    with open_remediation_parts(config, snapshot, folder, clock, pause=lambda _: None) as parts:
        return parts.planner.for_person(request, by)


class ConnectStateReaders:
    """Clients of Connect clusters, one each, created at first use; not thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, ConnectClient] = {}

    def of(self, connect: str) -> ConnectClient:
        """Return the client of a Connect cluster. Raises RemoteRefusal if it is not configured."""
        if connect not in self._made:
            self._made[connect] = ConnectClient(find_connect_cluster(self._config, connect))
        return self._made[connect]

    def close(self) -> None:
        """Close all connections."""
        for client in self._made.values():
            client.close()


class DaemonReplica:
    """Replica of this daemon in leader election, if the configuration says that there are several.

    It is created again if a configuration changes the journal's location or how it is reached.
    `put` hands an observation to the loop.
    """

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
        requirements=JournalTopicRequirements(
            journal.topic, journal.replication_factor, journal.min_insync_replicas
        ),
        name=journal.name or socket.gethostname(),
        session_s=journal.session_timeout_s,
    )
