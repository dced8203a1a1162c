"""Constructors of the remediation planner, its readers and drivers, from one configuration.

Each set of parts belongs to one thread: that of remediation, or one that answers a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Config
from offsetwatch.remedy.drivers.factory import find_connect_cluster, open_remediation_driver
from offsetwatch.remedy.drivers.quarantine.stores import build_configured_quarantine
from offsetwatch.remedy.drivers.rest.connect_state import ConnectClient
from offsetwatch.remedy.drivers.strimzi.resources import StrimziObstacles
from offsetwatch.remedy.gather.broker_queries import Brokers
from offsetwatch.remedy.gather.facts_collector import FactsCollector, TimeSources
from offsetwatch.remedy.gather.poison_locator import PoisonLocator
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import LinePublisher
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.policy_settings import build_policy
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
        sights = stack.enter_context(closing(ConnectStateReaders(config)))
        brokers = stack.enter_context(closing(Brokers(config.kafka)))
        ledger.read_on()
        gatherer = FactsCollector(
            sight_of=sights.of,
            brokers=brokers,
            snapshot=snapshot,
            past=ledger.fleet,
            policy=policy,
            state_dir=folder,
            time=TimeSources(clock, SteadyClock(), pause),
            resource_problem=StrimziObstacles(
                {cluster.name: cluster for cluster in config.connect}
            ).problem,
        )
        planner = Planner(
            sight_of=sights.of,
            gatherer=gatherer,
            finder=PoisonLocator(config, brokers, policy, clock),
            snapshot=snapshot,
            policy=policy,
            quarantine=build_configured_quarantine(config, folder).name,
            state_dir=folder,
            clock=clock.now,
        )
        yield RemediationParts(ledger, planner, policy, brokers)


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


class ConfiguredDrivers:
    """Drivers that execute plans over REST by the configuration. `check`: see ConnectWriter."""

    def __init__(
        self, config: Config, folder: Path, check: Callable[[], None] = lambda: None
    ) -> None:
        self._check = check
        self._config = config
        self._folder = folder

    def driver(self, plan: Plan) -> AbstractContextManager[Driver]:
        """Open the driver that executes this plan."""
        return open_remediation_driver(plan, self._config, self._folder, check=self._check)
