"""MirrorMaker 2 in virtual time: what it copies, and the syncs and checkpoints that it leaves."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.model.topology import TopicPartition
from tests.scenarios.brokers import Cluster, Log, Topic, partitions_of
from tests.scenarios.connect import Connector
from tests.scenarios.script import only

BATCH = 500  # max.poll.records
TOO_LARGE = """\
org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer callback
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.maybeThrowProducerSendException(A.java:1)
Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is too large
"""
LAG_MAX = 100  # offset.lag.max: a sync is written after so many records at the latest
_MIRROR = "org.apache.kafka.connect.mirror."
_TRANSFORMS = "org.apache.kafka.connect.transforms."


@dataclass(frozen=True)
class Route:
    """A transform that renames topics: a RegexRouter, or one of a class that nobody knows, which
    puts `tenant-` before a name that fits. `only`, `negated`: under TopicNameMatches.
    """

    regex: str
    replacement: str = ""
    class_name: str = f"{_TRANSFORMS}RegexRouter"
    only: str | None = None
    negated: bool = False

    def apply(self, name: str) -> str:
        if self.only is not None and (re.fullmatch(self.only, name) is None) is not self.negated:
            return name
        if re.fullmatch(self.regex, name) is None:
            return name
        if self.class_name != f"{_TRANSFORMS}RegexRouter":
            return f"tenant-{name}"
        return re.sub(self.regex, re.sub(r"\$(\d)", r"\\\1", self.replacement), name, count=1)

    def config(self, alias: str) -> dict[str, str]:
        prefix = f"transforms.{alias}."
        results = {
            f"{prefix}type": self.class_name,
            f"{prefix}regex": self.regex,
            f"{prefix}replacement": self.replacement,
        }
        if self.only is not None:
            results |= {
                f"{prefix}predicate": alias,
                f"{prefix}negate": str(self.negated).lower(),
                f"predicates.{alias}.type": f"{_TRANSFORMS}predicates.TopicNameMatches",
                f"predicates.{alias}.pattern": self.only,
            }
        return results


def routes_of(where: str, report: Any) -> tuple[Route, ...]:
    """Return the transforms that a world tells: RegexRouters, but for those with a `class`."""
    routes = []
    for inputs in report:
        route = only(where, inputs, "regex", "replacement", "class", "only", "negated")
        routes.append(
            Route(
                route["regex"],
                route.get("replacement", ""),
                route.get("class", Route.class_name),
                route.get("only"),
                route.get("negated", False),
            )
        )
    return tuple(routes)


@dataclass(frozen=True)
class Copied:
    """Records that were copied one after the other, from upstream and downstream offsets on."""

    upstream: int
    topic: str
    downstream: int
    records: int


@dataclass
class Mirror(Connector):
    """A MirrorSourceConnector from west to east. `copied` tells which records it wrote where."""

    west: Cluster | None = None
    topics: list[str] = field(default_factory=list)
    source: str = "west"
    target: str = "east"
    speed: float = 1000.0
    fetch: dict[TopicPartition, int] = field(default_factory=dict)
    done: dict[TopicPartition, int] = field(default_factory=dict)  # the last record copied
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    synced: dict[TopicPartition, int] = field(default_factory=dict)
    written: dict[TopicPartition, int] = field(default_factory=dict)  # downstream log end
    assigned: list[TopicPartition] | None = None  # what it keeps to; None: all that there are
    refreshes: bool = True
    refused: tuple[TopicPartition, int] | None = None  # a record that the target does not take
    routes: tuple[Route, ...] = ()
    copied: dict[TopicPartition, list[Copied]] = field(default_factory=dict)

    @property
    def upstream(self) -> Cluster:
        assert self.west is not None
        return self.west

    @property
    def syncs(self) -> str:
        return f"mm2-offset-syncs.{self.target}.internal"

    @property
    def config(self) -> dict[str, str]:
        return {
            "connector.class": f"{_MIRROR}MirrorSourceConnector",
            "name": self.name,
            "source.cluster.alias": self.source,
            "target.cluster.alias": self.target,
            "source.cluster.bootstrap.servers": "west:9092",
            "target.cluster.bootstrap.servers": "east:9092",
            "topics": ",".join(self.topics),
            **({} if self.refreshes else {"refresh.topics.enabled": "false"}),
            **self._transforms(),
        }

    def _transforms(self) -> dict[str, str]:
        named = {f"r{number}": route for number, route in enumerate(self.routes)}
        result = {"transforms": ",".join(named), "predicates": ",".join(named)} if named else {}
        for alias, route in named.items():
            result |= route.config(alias)
        return result

    def copy_of(self, topic: str) -> str:
        """Return the topic that its transforms write the copies to."""
        name = f"{self.source}.{topic}"
        for route in self.routes:
            name = route.apply(name)
        return name

    def partitions(self) -> list[TopicPartition]:
        if self.assigned is None:
            return partitions_of(self.upstream, self.topics)
        there = partitions_of(
            self.upstream, sorted({partition.topic for partition in self.assigned})
        )
        return [partition for partition in self.assigned if partition in there]

    def remote(self, partition: TopicPartition) -> Log:
        """Where it is copied to. MM2 makes the topic of its own name whatever a transform says."""
        for name in dict.fromkeys(
            (f"{self.source}.{partition.topic}", self.copy_of(partition.topic))
        ):
            logs = self.site.east.data.setdefault(name, Topic(logs=[])).logs
            while len(logs) <= partition.partition:
                logs.append(Log())
        return logs[partition.partition]

    def _copies_end(self, partition: TopicPartition) -> int:
        """Return where the log of its copies ends. Makes no topic, whose ids are counted: memories
        of earlier versions hold ids of worlds.
        """
        topic = self.site.east.data.get(self.copy_of(partition.topic))
        known = topic is not None and len(topic.logs) > partition.partition
        return topic.logs[partition.partition].end if topic is not None and known else 0

    def key(self, partition: TopicPartition) -> dict[str, Any]:
        return {"cluster": self.source, "partition": partition.partition, "topic": partition.topic}

    def recall(self) -> None:
        self.committed = {}
        for partition in self.partitions():
            key = build_connect_key(self.name, self.key(partition))
            assert key is not None
            answer = (self.site.last_offset(self.name, key) or {}).get("offset")
            if answer is not None:
                self.committed[partition] = answer

    def started(self, now: float) -> None:
        self.fetch = {partition: offset + 1 for partition, offset in self.committed.items()}
        self.done = dict(self.committed)
        self.synced = {}

    def begin_at_ends(self) -> None:
        """Take over from another mirror, which has copied all that there is."""
        for partition in self.partitions():
            log = self.upstream.log(partition)
            assert log is not None
            self.fetch[partition] = log.end
            self.written[partition] = self.remote(partition).end

    def work(self, now: float, elapsed_s: float) -> None:
        for partition in self.partitions():
            self._copy(partition, now, int(self.speed * elapsed_s))

    def _copy(self, partition: TopicPartition, now: float, records: int) -> None:
        log = self.upstream.log(partition)
        assert log is not None
        following = self.fetch.get(partition, log.start)
        if (
            self.refused is not None
            and self.refused[0] == partition
            and following <= self.refused[1]
        ):
            if following == self.refused[1]:
                self._lose_one_of_a_batch(partition, log, now)
                return
            records = min(records, self.refused[1] - following)
        if not log.start <= following <= log.end:
            following = log.start  # auto.offset.reset=earliest: not a word about it
        until = min(log.end, following + records)
        last = log.last_readable(until)
        self.fetch[partition] = until
        if last is None or last < following:
            return
        if partition not in self.synced:  # the first record after a start has a sync of its own
            first = log.first_readable(following)
            assert first is not None
            self._sync(partition, first, self._copies_end(partition), now)
        self._write(partition, following, log.readable(following, until), now)
        self.done[partition] = last
        if last - self.synced[partition] >= LAG_MAX or last < self.synced[partition]:
            self._sync(partition, last, self.written[partition] - 1, now)

    def _lose_one_of_a_batch(self, partition: TopicPartition, log: Log, now: float) -> None:
        """The error of the first comes when the others of its batch are written: they are
        acknowledged, and have their syncs (AbstractWorkerSourceTask.sendRecords).
        """
        assert self.refused is not None
        first, last = self.refused[1] + 1, min(log.end, self.refused[1] + BATCH) - 1
        if log.end <= self.refused[1]:
            return
        if first <= last:
            written = self._copies_end(partition)
            self._sync(partition, first, written, now)
            self._sync(partition, last, written + last - first, now)
            self._write(partition, first, last - first + 1, now)
        for where, offset in self.done.items():
            if self.committed.get(where) != offset:
                self.commit(where, offset, now)
        self.fail(now, TOO_LARGE)

    def _write(self, partition: TopicPartition, upstream: int, records: int, now: float) -> None:
        """Append records to the topic of their copies, to which others may write as well."""
        remote, topic = self.remote(partition), self.copy_of(partition.topic)
        runs = self.copied.setdefault(partition, [])
        last = runs[-1] if runs else None
        if last is not None and last.topic == topic and _follows(last, upstream, remote.end):
            runs[-1] = Copied(last.upstream, topic, last.downstream, last.records + records)
        else:
            runs.append(Copied(upstream, topic, remote.end, records))
        remote.append(records, now)
        self.written[partition] = remote.end

    def _sync(self, partition: TopicPartition, upstream: int, downstream: int, now: float) -> None:
        self.synced[partition] = upstream
        name = partition.topic.encode()
        key = struct.pack(">h", len(name)) + name + struct.pack(">i", partition.partition)
        value = struct.pack(">qq", upstream, downstream)
        if self.syncs in self.upstream.internal:
            at_s = now + self.site.skews.get("syncs", 0.0)
            self.upstream.internal[self.syncs].write(key, value, at_s)

    def flush(self, now: float) -> None:
        for partition, offset in self.done.items():
            if self.committed.get(partition) != offset:
                self.commit(partition, offset, now)
            if self.works and self.synced.get(partition, offset) != offset:
                self._sync(partition, offset, self.written[partition] - 1, now)

    def commit(self, partition: TopicPartition, offset: int | None, now: float) -> None:
        if offset is None:
            self.committed.pop(partition, None)
        else:
            self.committed[partition] = offset
        self.site.commit(
            self.name, self.key(partition), None if offset is None else {"offset": offset}, now
        )

    def rest_tasks(self) -> list[dict[str, Any]]:
        own = self.partitions()
        return [
            {
                "config": {
                    "task.class": f"{_MIRROR}MirrorSourceTask",
                    "task.assigned.partitions": ",".join(
                        f"{partition.topic}-{partition.partition}"
                        for partition in own[number :: len(self.tasks)]
                    ),
                }
            }
            for number in range(len(self.tasks))
        ]


def _follows(last: Copied, upstream: int, downstream: int) -> bool:
    ends = last.upstream + last.records, last.downstream + last.records
    return ends == (upstream, downstream)


@dataclass
class Checkpoints(Connector):
    """A MirrorCheckpointConnector beside a Mirror: where a group on west would go on, on east."""

    of: Mirror | None = None
    groups: list[str] = field(default_factory=list)
    excluded_groups: frozenset[str] = frozenset()

    @property
    def mirror(self) -> Mirror:
        assert self.of is not None
        return self.of

    @property
    def topic(self) -> str:
        return f"{self.mirror.source}.checkpoints.internal"

    @property
    def config(self) -> dict[str, str]:
        return {
            **self.mirror.config,
            "connector.class": f"{_MIRROR}MirrorCheckpointConnector",
            "name": self.name,
        }

    def work(self, now: float, elapsed_s: float) -> None:
        """It does what it does once a flush."""

    def flush(self, now: float) -> None:
        mirror = self.mirror
        if not self.works or self.hung:
            return
        for group in self.groups:
            if group in self.excluded_groups:
                continue
            for partition, offset in mirror.upstream.groups.get(group, {}).items():
                if partition not in mirror.synced:
                    continue
                highest = max(0, mirror.synced[partition] + 1 - offset)
                failover_cost = max(0, mirror.written.get(partition, 0) - highest)
                self._write(group, partition, offset, failover_cost, now)

    def _write(self, group: str, partition: TopicPartition, up: int, down: int, now: float) -> None:
        remote = f"{self.mirror.source}.{partition.topic}"
        key = b"".join(
            struct.pack(">h", len(text)) + text for text in (group.encode(), remote.encode())
        )
        self.site.east.internal[self.topic].write(
            key + struct.pack(">i", partition.partition),
            struct.pack(">hqqh", 0, up, down, 0),
            now,
        )
