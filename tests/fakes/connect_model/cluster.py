"""FakeConnect: the Connect cluster as one object, and what can be done to it from outside.

Set it up, query it through `door()` (transports.py), let time pass with `advance`, and inspect the
result.
Everything in it is one real thread's work on virtual time: the same calls give the same trace.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.fakes.connect_model import traces
from tests.fakes.connect_model.answers import Refusal
from tests.fakes.connect_model.broker import At, Broker, Record
from tests.fakes.connect_model.configs import STARTED, ConfigRecord, of_target
from tests.fakes.connect_model.files import Files
from tests.fakes.connect_model.membership import Membership, TaskId
from tests.fakes.connect_model.mirror import Sync
from tests.fakes.connect_model.offsets import GLOBAL, OffsetsTopics, Pairs, Stores
from tests.fakes.connect_model.plugins import PLUGINS, Plugin
from tests.fakes.connect_model.tasks import Behaviour, Task
from tests.fakes.connect_model.timeline import Timeline
from tests.fakes.connect_model.transports import Door, TransportExchange
from tests.fakes.connect_model.worker import Worker

UPSTREAM: Final = "west"


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds. What Connect fixes is as Connect has it."""

    request_s: float = 0.002
    hop_s: float = 0.003
    config_write_s: float = 0.004
    config_read_s: float = 0.003
    executor_s: float = 0.02
    rebalance_s: float = 0.1
    worker_start_s: float = 1.0
    worker_session_s: float = 10.0
    reassign_s: float = 300.0
    task_start_s: float = 0.1
    graceful_s: float = 5.0
    flush_s: float = 60.0
    consumer_session_s: float = 45.0


class Effect(NamedTuple):
    """A change that was really made. `by` is the number of the request that caused it (`#12`), a
    task or a zombie, a person's request, or Connect itself.
    """

    at: float
    what: str
    connector: str
    detail: str
    by: str


@dataclass
class Part:
    """The state of a connector or a task, as its worker last said it."""

    state: str
    worker_id: str
    trace: str | None = None


@dataclass
class Status:
    connector: Part
    tasks: dict[int, Part] = field(default_factory=dict)


class FakeConnect:
    """See the module.

    broker          the workers' own Kafka cluster; `upstreams` are those that mirrors copy from
    requests        everything that was asked, by whom, when, and what became of it
    effects         everything that was really changed
    delivered       connector -> the records it has written where it writes to, in order and with
                    those that came twice
    slow_jobs       connector -> seconds that the next job on its offsets is late
    half_stops      connector -> `crash` or `fail`: what happens between the next stop's two writes
    unfenceable     connectors whose zombies cannot be fenced
    """

    def __init__(
        self,
        *,
        version: str = "4.3.1",
        workers: int = 1,
        exactly_once: bool = False,
        standalone: bool = False,
        timing: Timing | None = None,
        seed: int = 0,
        line: Timeline | None = None,
    ) -> None:
        assert not (standalone and (workers > 1 or exactly_once))
        self.version_text = version
        self.version = tuple(int(part) for part in version.split(".")[:2])
        self.exactly_once, self.standalone = exactly_once, standalone
        self.timing = timing or Timing()
        self.line = line or Timeline()
        self.broker = Broker(self.line, "east", seed=seed)
        self.upstreams = {UPSTREAM: Broker(self.line, UPSTREAM, seed=seed)}
        self.files = Files()
        self.plugins = dict(PLUGINS)
        self.config_log: list[ConfigRecord] = []
        self.offsets = OffsetsTopics(self.line.now)
        self.statuses: dict[str, Status] = {}
        self.requests: list[TransportExchange] = []
        self.effects: list[Effect] = []
        self.delivered: dict[str, list[At]] = defaultdict(list)
        self.dead_letters: dict[str, list[At]] = defaultdict(list)
        self.syncs: list[Sync] = []
        self.zombies: list[Task] = []
        self.slow_jobs: dict[str, float] = {}
        self.half_stops: dict[str, str] = {}
        self.unfenceable: set[str] = set()
        self._behaviours: dict[str, Behaviour] = {}
        self._trace: list[str] = []
        self._number = 0
        self.membership = Membership(self)
        self.membership.workers = [Worker(self, number) for number in range(1, workers + 1)]
        for worker in self.membership.workers:
            worker.start()
        self.advance(5.0)

    # --- from outside ----------------------------------------------------------------------------

    @property
    def workers(self) -> list[Worker]:
        return self.membership.workers

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(worker.url for worker in self.workers)

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.line.advance(seconds)

    def door(self, who: str = "us") -> Door:
        """A way in, with faults of its own; what clients are given for a transport."""
        return Door(self, who)

    def behaviour(self, connector: str) -> Behaviour:
        """How its tasks work; to be changed at will."""
        return self._behaviours.setdefault(connector, Behaviour())

    def hang(self, connector: str, where: str, seconds: float) -> None:
        """The next task of it that gets there hangs there (start, poll, put)."""
        self.behaviour(connector).hangs.append((where, seconds))
        for task in self.tasks(connector):
            task.wake.notify()

    def free(self, connector: str) -> None:
        """Whatever hangs of it, zombies too, goes on."""
        for task in [*self.zombies, *self.tasks(connector)]:
            if task.name == connector:
                task.freed.notify()

    def tasks(self, connector: str) -> list[Task]:
        """Its tasks that some worker still knows; zombies are not among them."""
        return [
            task
            for worker in self.workers
            for (name, _), task in worker.tasks.items()
            if name == connector
        ]

    def rebalance(self) -> None:
        """Somebody joins or leaves the group of workers: a round for nothing."""
        self.membership.request()

    def forget_leader(self, seconds: float) -> None:
        """Nobody knows who leads for a while: what only the leader may do is a 409."""
        leader, self.membership.leader = self.membership.leader, None

        def restore() -> None:
            self.membership.leader = self.membership.leader or leader

        self.line.call_after(seconds, restore)

    def restart_worker(self, number: int = 1) -> None:
        """Of a standalone worker: what was asked for over REST is forgotten, offsets are not."""
        worker = self.workers[number - 1]
        if worker.alive:
            worker.kill()
        if self.standalone:
            self.config_log.clear()
            self.statuses.clear()
        worker.start()

    # --- what can be looked at -------------------------------------------------------------------

    def produced(self, *topics: str, upstream: str | None = None) -> list[At]:
        """Every record of these topics, those that are lost too; all where none is named."""
        broker = self.broker if upstream is None else self.upstreams[upstream]
        return [item for item in broker.produced if not topics or item.topic in topics]

    def task_state(self, item: TaskId) -> str | None:
        status = self.statuses.get(item[0])
        part = None if status is None else status.tasks.get(item[1])
        return None if part is None else part.state

    def status_of(self, name: str) -> dict[str, Any]:
        """As REST shows it. Raises Refusal."""
        status = self.statuses.get(name)
        if status is None:
            raise Refusal(404, f"No status found for connector {name}")
        plugin = self.plugin_named(name)
        return {
            "name": name,
            "connector": self._format_statuses(status.connector),
            "tasks": [
                {"id": number, **self._format_statuses(part)}
                for number, part in sorted(status.tasks.items())
            ],
            "type": "unknown" if plugin is None else plugin.kind,
        }

    def _format_statuses(self, part: Part) -> dict[str, str]:
        rows = {"state": part.state, "worker_id": part.worker_id}
        if part.trace:
            rows["trace"] = part.trace
        if self.version >= (4, 1):
            rows["version"] = self.version_text
        return rows

    def plugin_named(self, connector: str) -> Plugin | None:
        for worker in self.workers:
            if connector in worker.store.configs:
                return self.plugin_of(worker.store.configs[connector])
        return None

    def plugin_of(self, config: dict[str, str]) -> Plugin:
        """Raises Refusal of a class that no worker has."""
        plugin = self.plugins.get(config.get("connector.class", ""))
        if plugin is None:
            raise Refusal(
                500 if "connector.class" in config else 400,
                f"Failed to find any class that implements Connector and which name matches "
                f"{config.get('connector.class')}",
            )
        return plugin

    def plugin_list(self) -> list[dict[str, str]]:
        return [
            {"class": name, "type": plugin.kind, "version": self.version_text}
            for name, plugin in sorted(self.plugins.items())
        ]

    def upstream_of(self, config: dict[str, str]) -> Broker | None:
        return self.upstreams.get(config.get("source.cluster.alias", ""))

    def stores_of(self, config: dict[str, str]) -> Stores:
        """A topic of a connector's own comes first, and alone where it is the workers'."""
        own = config.get("offsets.storage.topic", "")
        if not own or own == GLOBAL:
            return Stores(GLOBAL, None)
        return Stores(own, GLOBAL)

    def trace(self) -> bytes:
        """All that happened, in order: the same for the same calls."""
        return "\n".join(self._trace).encode()

    # --- what the parts of the model tell --------------------------------------------------------

    def note(self, what: str) -> None:
        self._trace.append(f"{self.line.at:.3f} {what}")

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def effect(self, what: str, connector: str, detail: str, by: str) -> None:
        self.effects.append(Effect(self.line.at, what, connector, detail, by))
        self.note(f"{what} {connector} {detail} by {by}")

    def append_config(self, records: list[tuple[str, Any]], by: str) -> None:
        for key, value in records:
            self.config_log.append(ConfigRecord(self.line.at, key, value, by))
            self._config_effect(key, value, by)
        for worker in self.workers:
            if worker.alive:
                self.line.call_after(self.timing.config_read_s, worker.read_to_end)

    def _config_effect(self, key: str, value: Any, by: str) -> None:
        if key.startswith("target-state-"):
            name = key.removeprefix("target-state-")
            self.effect("state", name, "none" if value is None else value["state.v2"], by)
        elif key.startswith("connector-"):
            name = key.removeprefix("connector-")
            self.effect("config", name, "deleted" if value is None else "written", by)
        elif key.startswith("commit-"):
            self.effect("tasks", key.removeprefix("commit-"), str(value["tasks"]), by)
        elif key.startswith("restart-connector-"):
            self.effect("restart", key.removeprefix("restart-connector-"), "", by)

    def say(
        self, name: str, number: int | None, state: str, worker: Worker, trace: str | None = None
    ) -> None:
        """A worker's word on a connector or a task."""
        part = Part(state, worker.id, trace)
        status = self.statuses.get(name)
        if number is None:
            if status is None:
                status = self.statuses[name] = Status(part)
            status.connector = part
        elif status is not None:
            status.tasks[number] = part
        self.note(f"{name}{'' if number is None else f'-{number}'} is {state}")

    def write_offsets(
        self, name: str, stores: Stores, pairs: Pairs, by: str, *, order: str = "hash"
    ) -> None:
        """To the first topic, and what is no tombstone to the second, too."""
        self.offsets.write(stores.primary, name, pairs, by, order=order)
        if stores.secondary is not None:
            copies = [pair for pair in pairs if pair[1] is not None]
            self.offsets.write(stores.secondary, name, copies, by, order=order)
        for partition, offset in pairs:
            self.effect("offset", name, f"{partition}={offset}", by)

    def fence(self, name: str) -> None:
        """No producer that an earlier task of it opened writes any more."""
        for task in [*self.zombies, *self.tasks(name)]:
            if task.name == name:
                task.fenced = True

    def deliver(self, name: str, records: list[Record]) -> None:
        self.delivered[name].extend(record.at for record in records)
        if records:
            first, last = records[0].at, records[-1].at
            self.note(
                f"{name} delivers {first.topic}-{first.partition}@{first.offset}..{last.offset}"
            )

    def emitted(self, name: str, at: At) -> None:
        self.note(f"{name} writes {at.topic}-{at.partition}@{at.offset}")

    def committed(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        text = ", ".join(
            f"{spot[0]}-{spot[1]}={offset}" for spot, offset in sorted(offsets.items())
        )
        self.note(f"{name} commits {text}")

    def dead_letter(self, name: str, config: dict[str, str], record: Record) -> None:
        """What a tolerant sink leaves out goes to its dead letter queue, if it has one."""
        self.dead_letters[name].append(record.at)
        queue = config.get("errors.deadletterqueue.topic.name")
        if queue:
            item = record.at
            coordinates = (
                ("__connect.errors.topic", item.topic.encode()),
                ("__connect.errors.partition", str(item.partition).encode()),
                ("__connect.errors.offset", str(item.offset).encode()),
                ("__connect.errors.connector.name", name.encode()),
            )
            self.broker.produce(
                queue, record.value, key=record.key, headers=(*record.headers, *coordinates)
            )

    @staticmethod
    def trace_of(stage: str, cause: str, **facts: object) -> str:
        return traces.trace(stage, cause, **facts)

    # --- set up ----------------------------------------------------------------------------------

    def create(self, name: str, config: dict[str, str], *, state: str = STARTED) -> None:
        """A connector that is there from the beginning; afterwards it runs."""
        self.append_config(
            [
                of_target(name, state),
                (f"connector-{name}", {"properties": {**config, "name": name}}),
            ],
            "set up",
        )
        self.advance(3.0)
