"""What plans are made with and carried out by, out of one configuration. For one thread each: the
loop's, and the one in which people's wishes are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from offsetwatch.clock import Clock, SteadyClock
from offsetwatch.config import Config
from offsetwatch.remedy.drivers.factory import connect_of, driver_of
from offsetwatch.remedy.drivers.quarantine.store import quarantine_of
from offsetwatch.remedy.drivers.rest.connect_state import Sight
from offsetwatch.remedy.drivers.strimzi.ownership import Resources
from offsetwatch.remedy.gather.broker_queries import KafkaBrokers
from offsetwatch.remedy.gather.facts_collector import Gatherer, Time
from offsetwatch.remedy.gather.poison_locator import WindowFinder
from offsetwatch.remedy.journal.index import Ledger
from offsetwatch.remedy.journal.journal import Publish
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.policy_settings import policy_of
from offsetwatch.state.snapshot import Snapshot


class Parts(NamedTuple):
    """See the module."""

    ledger: Ledger
    planner: Planner
    policy: Policy
    brokers: KafkaBrokers


@contextmanager
def parts_of(
    config: Config,
    snapshot: Callable[[], Snapshot],
    folder: Path,
    clock: Clock,
    pause: Callable[[float], None],
    publish: Publish | None = None,
) -> Iterator[Parts]:
    """Made now and closed afterwards; `publish` of a journal that replicas share. Raises
    JournalDamaged.
    """
    policy = policy_of(config.remedy)
    with ExitStack() as stack:
        ledger = Ledger(folder, publish)
        stack.enter_context(closing(ledger.journal))
        sights = stack.enter_context(closing(Sights(config)))
        brokers = stack.enter_context(closing(KafkaBrokers(config.kafka)))
        ledger.read_on()
        gatherer = Gatherer(
            sight_of=sights.of,
            brokers=brokers,
            snapshot=snapshot,
            past=ledger.fleet,
            policy=policy,
            state_dir=folder,
            time=Time(clock, SteadyClock(), pause),
            resource_problem=Resources({at.name: at for at in config.connect}).problem,
        )
        planner = Planner(
            sight_of=sights.of,
            gatherer=gatherer,
            finder=WindowFinder(config, brokers, policy, clock),
            snapshot=snapshot,
            policy=policy,
            quarantine=quarantine_of(config, folder).name,
            state_dir=folder,
            clock=clock.now,
        )
        yield Parts(ledger, planner, policy, brokers)


class Sights:
    """One Sight for each Connect cluster, made when it is first asked for. For one thread."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[str, Sight] = {}

    def of(self, connect: str) -> Sight:
        """Raises Refused where none is configured."""
        if connect not in self._made:
            self._made[connect] = Sight(connect_of(self._config, connect))
        return self._made[connect]

    def close(self) -> None:
        """Let go of connections."""
        for sight in self._made.values():
            sight.close()


class Drivers:
    """Who carries plans out: over REST, by the configuration. `check`: see ConnectWriter."""

    def __init__(
        self, config: Config, folder: Path, check: Callable[[], None] = lambda: None
    ) -> None:
        self._check = check
        self._config = config
        self._folder = folder

    def driver(self, plan: Plan) -> AbstractContextManager[Driver]:
        """See agent.Drivers."""
        return driver_of(plan, self._config, self._folder, check=self._check)
