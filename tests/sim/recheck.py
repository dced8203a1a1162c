"""The look right before offsets are set: the product's own (Planner.recheck), over a World.

Its brokers are the model's, and the daemon's picture is made as it is asked for: one connector, and
the group of a sink. Guards that rest on more than that are not asked, see UNCHECKED_GUARDS.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from offsetwatch.clock import UnixClock
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import SinkGroup, TopicPartition, Topology
from offsetwatch.remedy.drivers.strimzi.resources import find_resource_problem
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute.approved_plans import approval_of
from offsetwatch.remedy.gather.facts_collector import FactsCollector, TimeSources
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.planner import Planner
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, Snapshot
from tests.sim.logs import NAME
from tests.sim.world import PLACE, QUARANTINE, World

if TYPE_CHECKING:
    from tests.sim.invariants import InvariantChecks

UNCHECKED_GUARDS: Final = {
    "nobody_else": "the status topic, which nobody follows here",
    "same_incarnation": "the status topic likewise",
    "views_agree": "the tail of the offsets topic",
    "one_raw_key": "the tail of the offsets topic",
    "same_policy": "plans are made before there is a policy here",
    "journal": "room on the machine's own disk",
}


class OnTime(ConnectClient):
    """Workers in memory send no Date."""

    line: UnixClock

    @property
    def server_time(self) -> float:
        """Theirs is the true one."""
        return self.line.now()


class ModelBrokers:
    """What is asked of Kafka (brokers.py), of the model."""

    def __init__(self, world: World, watch: InvariantChecks) -> None:
        self._world, self._watch = world, watch

    def topic_id(self, kafka: str, topic: str) -> str | None:
        return self._world.topic_id()

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        bounds = self._world.log.bounds()
        self._watch.saw_end(bounds.end)
        return bounds

    def first(
        self, kafka: str, partition: TopicPartition, offset: int, *, committed: bool
    ) -> int | None:
        return self._world.first(offset)

    def committed(self, kafka: str, group: str, partition: TopicPartition) -> int | None:
        answer = self._world.connect.broker.groups.get(group)
        return (
            None if answer is None else answer.offsets.get((partition.topic, partition.partition))
        )

    def members(self, kafka: str, group: str) -> int:
        answer = self._world.connect.broker.groups.get(group)
        return 0 if answer is None else len(answer.members)

    def ends(self, kafka: str, topic: str) -> dict[int, int]:
        return {}


class Recheck:
    """Of one process."""

    def __init__(
        self,
        world: World,
        watch: InvariantChecks,
        journal: Journal,
        on_time: OnTime,
        policy: Policy,
        clock: UnixClock,
    ) -> None:
        self._world, self._journal, self._past, self._seq = world, journal, FleetState(), 0
        collector = FactsCollector(
            client_of=lambda _: on_time,
            brokers=ModelBrokers(world, watch),
            snapshot=self._snapshot,
            fleet=self._past,
            policy=policy,
            state_dir=journal.folder,
            time=TimeSources(clock, world.line, world.line.advance),
            find_resource_problem=partial(find_resource_problem, {}),
        )
        self._planner = Planner(
            client_of=lambda _: on_time,
            collector=collector,
            locator=None,
            snapshot=self._snapshot,
            policy=policy,
            quarantine=QUARANTINE,
            state_dir=journal.folder,
            clock=clock.now,
        )

    def problems(self) -> tuple[str, ...]:
        """What speaks against going on."""
        for seq, plan_id, record in self._journal.since(self._seq + 1, 10_000):
            self._past.apply(seq, plan_id, record)
            self._seq = seq
        plan = self._world.plan
        records = self._journal.records(plan.plan_id)
        history, progress = build_plan_history(records), replay_records(records, EngineLimits())
        assert history is not None
        messages = self._planner.recheck(
            plan,
            None,
            approval_of(history),
            stopped_at=progress.stopped_at,
            receipt_sha256=progress.copied,
        )
        return tuple(name for name in messages if name.partition(":")[0] not in UNCHECKED_GUARDS)

    def _snapshot(self) -> Snapshot:
        world = self._world
        kind = ConnectorKind[world.kind.name]
        view = ConnectorView(PLACE, NAME, kind, world.config["connector.class"], "1", "running", ())
        sinks: tuple[SinkGroup, ...] = ()
        if kind is ConnectorKind.SINK:
            sinks = (SinkGroup(PLACE, NAME, f"connect-{NAME}", "east"),)
        topology = Topology((), (), sinks=sinks)
        return replace(EMPTY_SNAPSHOT, ready=True, connectors=(view,), topology=topology)
