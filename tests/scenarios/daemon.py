"""The daemon in virtual time: the real polls and decoders, the real loop, book and judge.

What is not real: threads, sockets, and the thread that follows a topic, whose work here is one
function (`_tail`). The rhythm of everything is that of daemon/edge.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from offsetwatch.clients.connect.offsets_sweep import OffsetsSweepListener
from offsetwatch.config import Config, parse
from offsetwatch.config.schema.root import Poll
from offsetwatch.daemon import monitor
from offsetwatch.daemon.discovery import Discovery
from offsetwatch.daemon.monitor import ASSIGNMENTS_S
from offsetwatch.daemon.polls import TOPICS_S, FailoverPolls
from offsetwatch.daemon.supervisor import Supervisor
from offsetwatch.errors import ClientError, NotFound, TargetUnreachable
from offsetwatch.ingest import connect_rest, polls
from offsetwatch.ingest.connect_rest import AssignmentsPoll, ConnectorsPoll, RestOffsetsPoll
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.ingest.record_age_poll import ProbeBudget, ProbeMemory, poll_probes
from offsetwatch.ingest.source_ends import SourceEndPoll, find_request
from offsetwatch.ingest.topic_readers import TopicReader, choose_topic_reader
from offsetwatch.loop import Loop
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    BrokerAddressesRead,
    Frozen,
    InputFailed,
    InputId,
    InputRetired,
    Observation,
    OffsetsTopicFound,
    TailRead,
    TopicFactsRead,
)
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, TopicFacts
from offsetwatch.state.snapshot import Snapshot
from tests.fakes.clock import VirtualClock
from tests.scenarios.brokers import Internal, InternalReader
from tests.scenarios.connect import ScenarioConnect
from tests.scenarios.databases import Database, Debezium
from tests.scenarios.proxy import Reader
from tests.scenarios.script import several
from tests.scenarios.world import World

FACTS_S = 300.0
CHECK_S = 2.0


def config_for(world: World) -> Config:
    """As small as can be."""
    return parse(
        {
            "kafka": {name: {"bootstrap": f"{name}:9092"} for name in world.kafkas},
            "connect": [
                {
                    "name": cluster.name,
                    "url": f"http://{cluster.name}:8083",
                    **_topics_of(world, cluster),
                    "connectors": {
                        "exclude": several(world.clusters[cluster.name].get("excludes", []))
                    },
                }
                for cluster in world.sites.values()
            ],
            "sources": [
                {
                    "name": database.name,
                    "kind": database.kind,
                    "host": database.name,
                    "database": "shop",
                    "user": "watcher",
                    "connectors": [{"connect": name, "include": names}],
                }
                for database in world.databases.values()
                for name, names in _readers_of(world, database)
            ],
        },
        {},
    )


def _readers_of(world: World, database: Database) -> list[tuple[str, list[str]]]:
    """Return the connectors that read a database, by Connect cluster."""
    readers: dict[str, list[str]] = {}
    for cluster in world.sites.values():
        for connector in cluster.connectors.values():
            if isinstance(connector, Debezium) and connector.database is database:
                readers.setdefault(cluster.name, []).append(connector.name)
    return [*readers.items()]


def _topics_of(world: World, cluster: ScenarioConnect) -> dict[str, str]:
    """Return what is named of its topics: nothing, where only its REST API can be asked."""
    if world.clusters[cluster.name].get("rest_only"):
        return {}
    results = {"kafka": "east", "status_topic": f"{cluster.name}-status"}
    return (
        results
        if _discovers(world, cluster.name)
        else {**results, "offsets_topic": cluster.offsets}
    )


def _discovers(world: World, cluster: str) -> bool:
    return bool(world.clusters[cluster].get("discovers"))


@dataclass
class Sweep:
    """The answers of `GET /connectors/{c}/offsets`, one after the other (clients/connect_sweep.py
    asks several at once).
    """

    reader: Reader

    @property
    def name(self) -> str:
        return self.reader.name

    def offsets(
        self, connectors: Sequence[str], listener: OffsetsSweepListener
    ) -> dict[str, ClientError]:
        refused: dict[str, ClientError] = {}
        for connector in connectors:
            if listener.announce([connector]):
                try:
                    body = self.reader.offsets(connector)
                except NotFound:
                    continue
                except TargetUnreachable:
                    raise
                except ClientError as exc:
                    refused[connector] = exc
                    continue
                listener.take([(connector, body)])
        return refused


@dataclass
class _Following:
    """A tail: how far it is in which topic of that name."""

    made: int
    role: TopicReader
    read: int = 0


@dataclass
class Daemon:
    """One process after another: `memory` is what state_dir holds."""

    world: World
    memory: dict[str, bytes] = field(default_factory=dict)
    running: bool = False

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.loop: Loop | None = None
        self.start()

    def start(self) -> None:
        """Another process, which reads the configuration again."""
        self.config = config_for(self.world)
        self.clock.at = self.world.now
        self.judge = monitor.build_judge(self.config)
        self.loop = Loop(
            monitor.build_book(self.config), self.judge, self.clock, self.config.tick_s
        )
        self.loop.recall_with(self._recall)
        self.loop.save_with(self._save)
        self.tails: dict[KafkaTopic, _Following] = {}
        self.due: dict[str, float] = {}
        self._supervisor = Supervisor(self._put, self.clock.now)
        self._guards: dict[str, Callable[[], None]] = {}
        self._states: dict[str, ConnectorsPoll] = {}
        self._assignments: dict[str, AssignmentsPoll] = {}
        self._polls: dict[str, RestOffsetsPoll] = {}
        self.probes = {name: ProbeMemory() for name in self.world.kafkas}
        self._ends: dict[str, LogEndsPoll] = {}
        self._source_ends = {
            source.name: SourceEndPoll(
                source.name,
                self.world.databases[source.name],
                source.interval,
                self.clock,  # type: ignore[arg-type]
            )
            for source in self.config.sources
        }
        self.failover = FailoverPolls(
            self.world.kafkas,
            lambda: self.snapshot,
            self._put,
            self.clock,  # type: ignore[arg-type]
        )
        self.batch: list[Observation] = [
            OffsetsTopicFound(cluster.name, KafkaTopic(cluster.kafka, cluster.offsets_topic))
            for cluster in self.config.connect
            if cluster.kafka is not None and cluster.offsets_topic is not None
        ]
        kafkas: Any = self.world.kafkas
        readers: Any = InternalReader
        self.discovery = Discovery(
            self.config, kafkas, lambda name: readers(kafkas[name]), self._put, self.clock
        )
        self.running = True

    def kill(self) -> None:
        self.running = False

    def _recall(self, name: str, into: Callable[[bytes], None]) -> None:
        if name in self.memory:
            into(self.memory[name])

    def _save(self, name: str, document: bytes) -> bool:
        self.memory[name] = document
        return True

    @property
    def snapshot(self) -> Snapshot:
        assert self.loop is not None
        return self.loop.snapshot

    # --- one tick --------------------------------------------------------------------------------

    def step(self) -> Snapshot:
        """Look at everything that is due, and let the loop make of it what it can."""
        assert self.loop is not None
        self.clock.at = now = self.world.now
        self._poll(self.snapshot, now)
        batch, self.batch = tuple(self.batch), []
        return self.loop.step(now, batch)

    def _put(self, batch: tuple[Observation, ...]) -> bool:
        self.batch.extend(batch)
        return True

    def _every(self, what: str, seconds: float, now: float) -> bool:
        if now < self.due.get(what, 0.0):
            return False
        self.due[what] = now + seconds
        return True

    def _poll(self, snapshot: Snapshot, now: float) -> None:
        for cluster in self.world.sites.values():
            self._poll_connect(cluster.name, snapshot, now)
        self._discover(snapshot)
        if self._every("failover", TOPICS_S, now):
            self.failover.poll_topics()
        self.failover.poll_new()
        self._follow(snapshot, now)
        for name in self.world.kafkas:
            self._poll_kafka(name, snapshot, now)
        for name, poll in self._source_ends.items():
            if self._every(f"source {name}", poll.interval_s, now):
                self._put(poll.read(find_request(snapshot.source_requests, name)))

    def _poll_connect(self, name: str, snapshot: Snapshot, now: float) -> None:
        entry = next(cluster.poll for cluster in self.config.connect if cluster.name == name)
        rest = InputId(CONNECT_REST, connect_cluster=name)
        if self._every(f"rest {name}", entry.state_s, now):
            self._run(f"states of {name}", partial(self._poll_states, name), rest)
        for flow in snapshot.topology.flows:
            if flow.connect_cluster == name and self._every(
                f"assigned {flow.connector}", ASSIGNMENTS_S, now
            ):
                job = partial(self._poll_assignment, name, flow.connector)
                self._run(f"assignment of {flow.connector} in {name}", job, rest, partly=True)
        polled = [
            connector.connector
            for connector in snapshot.by_rest
            if connector.connect_cluster == name
        ]
        self._poll_of(name, entry).step(polled, lambda: False)
        if self._every(f"offsets {name}", entry.offsets_s, now):
            self._run(f"offsets of {name}", partial(self._check_offsets, name), rest, partly=True)
        if self._every(f"groups {name}", entry.groups_s, now):
            groups = InputId(GROUPS, connect_cluster=name)
            self._run(f"groups of {name}", partial(self._poll_groups, name), groups)
            self.failover.poll_groups(name)

    def _poll_kafka(self, name: str, snapshot: Snapshot, now: float) -> None:
        up = self.world.kafkas[name].down is None
        if self._every(f"brokers {name}", 60.0, now) and up:
            self._put((BrokerAddressesRead(name, frozenset({f"{name}:9092"})),))
        if self._every(f"ends {name}", self.config.ends_s, now):
            ends = InputId(LOG_ENDS, kafka=name)
            self._run(f"log ends of {name}", partial(self._poll_ends, name), ends)
            self._put(self._probe(name, snapshot))
        if self._every(f"facts {name}", FACTS_S, now) and up:
            self._put((self._facts(name, snapshot, now),))

    def _run(
        self, name: str, job: Callable[[], object], *inputs: InputId, partly: bool = False
    ) -> None:
        """Do a job under the daemon's own supervisor, which keeps what it raises from the rest."""
        if name not in self._guards:
            self._guards[name] = self._supervisor.guard(name, job, lambda: inputs, partial=partly)
        self._guards[name]()

    def _discover(self, snapshot: Snapshot) -> None:
        for connect in self.config.connect:
            if _discovers(self.world, connect.name):
                self.discovery.inspect(connect, snapshot)

    def _poll_states(self, name: str) -> None:
        self._put(connect_rest.poll_connectors(self._states_of(name), self.clock))

    def _poll_assignment(self, name: str, connector: str) -> None:
        self._put(connect_rest.poll_assignment(self._assignments_of(name), connector))

    def _poll_groups(self, name: str) -> None:
        sinks = [sink for sink in self.snapshot.topology.sinks if sink.connect_cluster == name]
        if sinks:
            self._put(polls.poll_groups(name, self._admins(), sinks, self.clock))
        else:  # as the monitor does when the last one is gone
            self._put((InputRetired(InputId(GROUPS, connect_cluster=name)),))

    def _poll_ends(self, name: str) -> None:
        if name not in self._ends:
            self._ends[name] = LogEndsPoll(self._admin(name), self._put, self.clock)
        self._ends[name].poll(self.snapshot)

    def _check_offsets(self, name: str) -> None:
        """Compare with what REST says, as the truth check does."""
        snapshot = self.snapshot
        polled = snapshot.by_rest
        connectors = [
            view.name
            for view in snapshot.connectors
            if view.connect_cluster == name
            and view.kind is not ConnectorKind.SINK
            and all(
                (name, view.name) != (connector.connect_cluster, connector.connector)
                for connector in polled
            )
        ]
        sweep: Any = Sweep(self._reader(name))
        connect_rest.poll_rest_offsets(sweep, connectors, self._put, lambda: False)

    def _probe(self, kafka: str, snapshot: Snapshot) -> tuple[Observation, ...]:
        return poll_probes(
            kafka,
            lambda _committed: self.world.kafkas[kafka],
            snapshot,
            self.probes[kafka],
            ProbeBudget(reads_max=10_000, seconds=5.0),
            self.clock,
        )

    # --- tails -----------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot, now: float) -> None:
        expected = snapshot.topology.tailed()
        for topic in [tail for tail in self.tails if tail not in expected]:
            del self.tails[topic]
            self._put((InputRetired(InputId.of_tail(topic)),))
        for topic in expected:
            kafka = self.world.kafkas[topic.kafka]
            there = kafka.internal.get(topic.topic)
            if kafka.down is not None:
                self._failed(topic, kafka.down)
            elif there is None:
                self._failed(topic, NotFound(str(topic), "no such topic"))
            else:
                self._tail(topic, there, snapshot, now)

    def _failed(self, topic: KafkaTopic, error: ClientError) -> None:
        self._put((InputFailed(InputId.of_tail(topic), error.reason, error.detail),))

    def _tail(self, topic: KafkaTopic, there: Internal, snapshot: Snapshot, now: float) -> None:
        following = self.tails.get(topic)
        whole = following is None or following.made != there.made
        if following is None or whole:
            following = self.tails[topic] = _Following(
                there.made, choose_topic_reader(snapshot.topology, topic)()
            )
        end = len(there.records) if there.held is None else there.held
        fresh, following.read = there.records[following.read : end], max(following.read, end)
        if whole:
            following.role.fold(fresh)
            records, undecodable = following.role.folded()
        else:
            records, undecodable = following.role.live(fresh)
        if not whole and not fresh and not self._every(f"check {topic}", CHECK_S, now):
            return
        frozen: tuple[Frozen, ...] = ()
        if there.held is not None:
            frozen = (Frozen(0, there.held, "of nobody", len(there.records) - there.held),)
        read = TailRead(
            input=InputId.of_tail(topic),
            topic=topic,
            at=now,
            records=records,
            positions=((0, following.read),),
            caught_up=True,
            behind=len(there.records) - following.read,
            as_of=now,
            undecodable=() if whole else tuple(undecodable.items()),
            whole=whole,
            frozen=frozen,
        )
        self._put((read,))

    # --- clients ---------------------------------------------------------------------------------

    def _states_of(self, name: str) -> ConnectorsPoll:
        if name not in self._states:
            self._states[name] = ConnectorsPoll(self._reader(name))
        return self._states[name]

    def _assignments_of(self, name: str) -> AssignmentsPoll:
        if name not in self._assignments:
            self._assignments[name] = AssignmentsPoll(self._reader(name))
        return self._assignments[name]

    def _poll_of(self, name: str, poll: Poll) -> RestOffsetsPoll:
        if name not in self._polls:
            self._polls[name] = RestOffsetsPoll(
                self._reader(name),
                every_s=min(poll.rest_offsets_s, self.config.judge.interval_s),
                timeout_s=poll.timeout_s,
                put=self._put,
                clock=self.clock,
                guard=lambda job, name, input_id: self._supervisor.guard(
                    name, job, lambda: [input_id]
                ),
            )
        return self._polls[name]

    def _reader(self, name: str) -> Reader:
        return Reader(self.world.sites[name].proxy)

    def _admin(self, name: str) -> Any:
        return self.world.kafkas[name]

    def _admins(self) -> Any:
        return self.world.kafkas

    def _facts(self, kafka: str, snapshot: Snapshot, now: float) -> TopicFactsRead:
        topology = snapshot.topology
        roles = {
            offsets_topic.at: InternalTopicRole.OFFSETS for offsets_topic in topology.offsets_topics
        }
        roles |= {
            flow.offset_syncs: InternalTopicRole.OFFSET_SYNCS
            for flow in topology.flows
            if flow.offset_syncs
        }
        return TopicFactsRead(
            kafka=kafka,
            facts=tuple(
                TopicFacts(
                    at=topic,
                    role=role,
                    policy=self.world.policies.get(str(topic), "compact"),
                    partitions=1 if role is InternalTopicRole.OFFSET_SYNCS else 25,
                    replication=3,
                    brokers=3,
                )
                for topic, role in sorted(roles.items())
                if topic.kafka == kafka and topic.topic in self.world.kafkas[kafka].internal
            ),
            at=now,
        )
