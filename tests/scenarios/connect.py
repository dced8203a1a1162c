"""Connect clusters in virtual time: connectors that read and write as the real ones do, and what
they leave in Connect's own topics, byte by byte. MirrorMaker's are in mirrors.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.model.topology import TopicPartition
from tests.scenarios.brokers import Cluster, Internal, partitions_of
from tests.scenarios.proxy import Proxy

FLUSH_S = 60.0  # Connect's default


@dataclass
class Task:
    state: str = "RUNNING"
    trace: str | None = None


@dataclass
class ScenarioConnect:
    """A Connect cluster on Kafka cluster east.

    without_status  connectors, and tasks as CONNECTOR-NUMBER, whose records in the status topic
                    are gone
    leftovers       traces of failed tasks, by connector and number, that are configured no more
    skews           by how much clocks are ahead: of who writes `commits`, of who writes `syncs`
    """

    name: str
    east: Cluster
    connectors: dict[str, Connector] = field(default_factory=dict)
    offsets: str = "connect-offsets"
    generation: int = 1
    without_status: set[str] = field(default_factory=set)
    leftovers: dict[str, dict[int, str]] = field(default_factory=dict)
    skews: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.proxy = Proxy(self)

    def offsets_topic(self, connector: str) -> Internal:
        """Its own, if it has one."""
        own = self.connectors[connector].own_topic if connector in self.connectors else None
        return self.east.internal[own or self.offsets]

    @property
    def status_topic(self) -> Internal:
        return self.east.internal[f"{self.name}-status"]

    def commit(
        self,
        connector: str,
        partition: dict[str, Any],
        offset: dict[str, Any] | None,
        moment: float,
    ) -> None:
        key = build_connect_key(connector, partition)
        assert key is not None
        self.write_offset(connector, key, offset, moment)

    def write_offset(
        self, connector: str, key: bytes, offset: dict[str, Any] | None, moment: float
    ) -> None:
        """Write a record of an offsets topic under a key as its writer spells it."""
        value = None if offset is None else json.dumps(offset, separators=(",", ":")).encode()
        moment += self.skews.get("commits", 0.0)
        self.offsets_topic(connector).write(key, value, moment)

    def last_offset(self, connector: str, key: bytes) -> dict[str, Any] | None:
        """Return what Connect finds under a key."""
        for record in reversed(self.offsets_topic(connector).records):
            if record.key() == key:
                value = record.value()
                assert value is None or isinstance(value, bytes)
                result: dict[str, Any] | None = None if value is None else json.loads(value)
                return result
        return None

    def say(self, key: str, state: str | None, trace: str | None, moment: float) -> None:
        """A record of the status topic; None: it is taken back."""
        body = {
            "state": state,
            "trace": trace,
            "worker_id": "worker-1:8083",
            "generation": self.generation,
            "version": "4.3.1",
        }
        value = None if state is None else json.dumps(body).encode()
        if state is not None:
            self.without_status.discard(key.partition("-")[2])
        self.status_topic.write(f"status-{key}".encode(), value, moment)

    # --- as its REST API -------------------------------------------------------------------------

    def rest(self) -> bytes:
        """`GET /connectors?expand=status&expand=info`: without those that have no status."""
        listed = (
            connector
            for connector in self.connectors.values()
            if connector.name not in self.without_status
        )
        return json.dumps({connector.name: connector.rest() for connector in listed}).encode()

    def rest_tasks(self, connector: str) -> bytes:
        return json.dumps(self.connectors[connector].rest_tasks()).encode()


@dataclass
class Connector:
    """What all of them have: states, restarts, a flush every minute.

    sick        None: well. Else the trace that its tasks end with, `fails_after_s` after a start
    heals_with  somebody restarts failed tasks so often
    hung        it claims to run and does nothing
    """

    name: str
    site: ScenarioConnect
    tasks_max: int = 1
    flush_s: float = FLUSH_S
    state: str = "RUNNING"
    tasks: list[Task] = field(default_factory=list)
    sick: str | None = None
    fails_after_s: float = 2.0
    restarted_every_s: float | None = None
    hung: bool = False
    own_topic: str | None = None
    _acted_at: float = 0.0
    _back_at: float | None = None

    kind = "source"

    @property
    def phase_s(self) -> float:
        """Connectors do not flush all at once."""
        return float(crc32(self.name.encode()) % int(self.flush_s))

    @property
    def config(self) -> dict[str, str]:
        raise NotImplementedError

    @property
    def works(self) -> bool:
        return self.state == "RUNNING" and any(task.state == "RUNNING" for task in self.tasks)

    # --- what people do --------------------------------------------------------------------------

    def create(self, now: float) -> None:
        self.tasks = [Task() for _ in range(self.tasks_max)]
        self._say(now, "RUNNING")
        self._acted_at = now
        self.started(now)

    def delete(self, now: float) -> None:
        self.flush(now)
        self._say(now, "UNASSIGNED")  # its workers let go of it before the leader takes these back
        self._say(now, None)
        del self.site.connectors[self.name]

    def stop(self, now: float) -> None:
        """STOPPED: it has no tasks any more."""
        self.flush(now)
        self.state = "STOPPED"
        for number in range(len(self.tasks)):
            self.site.say(f"task-{self.name}-{number}", None, None, now)
        self.tasks = []
        self.site.say(f"connector-{self.name}", "STOPPED", None, now)

    def pause(self, now: float) -> None:
        self.flush(now)
        self.state = "PAUSED"
        self.tasks = [Task("PAUSED") for _ in self.tasks]
        self._say(now, "PAUSED")

    def resume(self, now: float) -> None:
        self.state = "RUNNING"
        self.create(now)

    def restart(self, now: float) -> None:
        for number, task in enumerate(self.tasks):
            task.state, task.trace = "RESTARTING", None
            self.site.say(f"task-{self.name}-{number}", "RESTARTING", None, now)
            task.state = "RUNNING"
            self.site.say(f"task-{self.name}-{number}", "RUNNING", None, now)
        if self.name in self.site.without_status:
            self.site.say(f"connector-{self.name}", self.state, None, now)
        self._acted_at = now
        self.started(now)

    def fail(self, now: float, trace: str) -> None:
        for number, task in enumerate(self.tasks):
            task.state, task.trace = "FAILED", trace
            self.site.say(f"task-{self.name}-{number}", "FAILED", trace, now)
        self._acted_at = now

    def leave(self, now: float, for_s: float) -> None:
        """A rebalance: its tasks are nobody's for a while. A worker that goes in peace flushes."""
        if self.state != "RUNNING" or not self.tasks:
            return
        self.flush(now)
        for number, task in enumerate(self.tasks):
            if task.state == "RUNNING":
                task.state = "UNASSIGNED"
                self.site.say(f"task-{self.name}-{number}", "UNASSIGNED", None, now)
        self._back_at = now + for_s

    # --- time ------------------------------------------------------------------------------------

    def live(self, now: float, elapsed_s: float) -> None:
        self._tend(now)
        if self.works and not self.hung:
            self.work(now, elapsed_s)
        if self.works and not self.hung and (now - self.phase_s) % self.flush_s < elapsed_s:
            self.flush(now)

    def _tend(self, now: float) -> None:
        if self._back_at is not None and now >= self._back_at:
            self._back_at = None
            for number, task in enumerate(self.tasks):
                if task.state == "UNASSIGNED":
                    task.state = "RUNNING"
                    self.site.say(f"task-{self.name}-{number}", "RUNNING", None, now)
            self.started(now)
        if self.sick is not None and self.works and now - self._acted_at >= self.fails_after_s:
            self.flush(now)
            self.fail(now, self.sick)
        elif (
            self.restarted_every_s is not None
            and any(task.state == "FAILED" for task in self.tasks)
            and now - self._acted_at >= self.restarted_every_s
        ):
            self.restart(now)

    def recall(self) -> None:
        """Take for committed what stands in the offsets topic."""

    def started(self, now: float) -> None:
        """Its tasks begin where the committed offsets say."""

    def work(self, now: float, elapsed_s: float) -> None:
        raise NotImplementedError

    def flush(self, now: float) -> None:
        """Commit what there is to commit."""

    # --- REST ------------------------------------------------------------------------------------

    def rest(self) -> dict[str, Any]:
        worker = {"worker_id": "worker-1:8083", "version": "4.3.1"}
        tasks = [{"connector": self.name, "task": number} for number in range(len(self.tasks))]
        return {
            "info": {
                "name": self.name,
                "config": self._config(),
                "type": self.kind,
                "tasks": tasks,
            },
            "status": {
                "name": self.name,
                "type": self.kind,
                "connector": {"state": self.state, **worker},
                "tasks": [
                    {"id": number, "state": task.state, **worker}
                    | ({"trace": task.trace} if task.trace else {})
                    for number, task in enumerate(self.tasks)
                    if f"{self.name}-{number}" not in self.site.without_status
                ]
                + [
                    {"id": number, "state": "FAILED", "trace": trace, **worker}
                    for number, trace in self.site.leftovers.get(self.name, {}).items()
                ],
            },
        }

    def _config(self) -> dict[str, str]:
        own = {} if self.own_topic is None else {"offsets.storage.topic": self.own_topic}
        return {**self.config, **own}

    def rest_tasks(self) -> list[dict[str, Any]]:
        return [{"config": {"task.class": "org.example.Task"}} for _ in self.tasks]

    def _say(self, now: float, state: str | None) -> None:
        self.site.say(f"connector-{self.name}", state, None, now)
        for number in range(len(self.tasks)):
            self.site.say(f"task-{self.name}-{number}", state, None, now)


@dataclass
class Source(Connector):
    """A source connector with one source partition and one offset that counts.

    active      does the outside world have something new at this moment?
    repeats     it commits its offset although it has not changed (a heartbeat)
    keys        `hash`: its partition is a java.util.HashMap; `linked`: a LinkedHashMap, in the
                order of `partition`; `map_of`: Map.of, whose order each JVM picks anew
    texts       its offset is a text, as some connectors have it
    class_name  what its configuration says
    """

    partition: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    counts: str = "position"
    step: int = 1
    every_s: float = 10.0
    active: Callable[[float], bool] = lambda _: True
    repeats: bool = False
    keys: str = "hash"
    texts: bool = False
    class_name: str = "org.example.Source"
    at: int | None = None
    committed: int | None = None
    last_written: dict[str, Any] | None = None
    _since: float = 0.0
    _turned: bool = False  # Map.of lists its fields backwards in this JVM

    @property
    def config(self) -> dict[str, str]:
        return {"connector.class": self.class_name, "name": self.name}

    @property
    def key(self) -> bytes:
        """The bytes that its task writes and looks up."""
        if self.keys == "hash":
            key = build_connect_key(self.name, self.partition)
            assert key is not None
            return key
        names = [*reversed(self.partition)] if self._turned else [*self.partition]
        spelled = {name: self.partition[name] for name in names}
        return json.dumps([self.name, spelled], separators=(",", ":"), ensure_ascii=False).encode()

    def start_jvm(self, *, turned: bool, now: float) -> None:
        """Start its task in another JVM, in which Map.of has an order of its own."""
        if self.keys == "map_of":
            self._turned = turned
        self.committed = self.stored()
        self.started(now)

    def stored(self) -> int | None:
        """Return what Connect finds under its key."""
        answer = (self.site.last_offset(self.name, self.key) or {}).get(self.counts)
        return None if answer is None else int(answer)

    def recall(self) -> None:
        self.at = self.committed = self.stored()

    @property
    def offset(self) -> dict[str, Any] | None:
        """What it committed last, as it stands in the topic."""
        return None if self.committed is None else self.offset_of(self.committed)

    def offset_of(self, index: int) -> dict[str, Any]:
        """Return the offset that says so."""
        return {**self.fields, self.counts: str(index) if self.texts else index}

    def started(self, now: float) -> None:
        self.at = self.committed
        self._since = now

    def work(self, now: float, elapsed_s: float) -> None:
        if not self.active(now):
            self._since = now
        while now - self._since >= self.every_s:
            self._since += self.every_s
            self.at = (self.at or 0) + self.step

    def flush(self, now: float) -> None:
        if self.at is not None and (self.at != self.committed or (self.repeats and self.works)):
            self.commit(self.at, now)

    def commit(self, index: int, now: float) -> None:
        self.committed = index
        self.last_written = self.offset_of(index)
        self.site.write_offset(self.name, self.key, self.last_written, now)


@dataclass
class Sink(Connector):
    """A sink connector: a consumer group of its own. `commits`: False, and it never does."""

    topics: list[str] = field(default_factory=list)
    speed: float = 1000.0
    commits: bool = True
    at: dict[TopicPartition, int] = field(default_factory=dict)

    kind = "sink"

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": "org.example.Sink",
            "name": self.name,
            "topics": ",".join(self.topics),
        }

    @property
    def group(self) -> dict[TopicPartition, int]:
        return self.site.east.groups.setdefault(f"connect-{self.name}", {})

    def started(self, now: float) -> None:
        self.at = dict(self.group)

    def work(self, now: float, elapsed_s: float) -> None:
        for partition in partitions_of(self.site.east, self.topics):
            log = self.site.east.log(partition)
            assert log is not None
            following = self.at.get(partition, log.start)
            if not log.start <= following <= log.end:
                following = log.start
            self.at[partition] = min(log.end, following + int(self.speed * elapsed_s))

    def flush(self, now: float) -> None:
        if self.commits:
            self.group.update(self.at)
