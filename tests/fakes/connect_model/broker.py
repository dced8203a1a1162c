"""A Kafka cluster in memory: what it knows of topics, records and consumer groups.

Every record that was ever produced is remembered, and what became of it here: readers come and go,
retention and people take records away.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.fakes.connect_model.timeline import Timeline


class At(NamedTuple):
    """Where a record is, or was. A topic that is made anew has another id."""

    kafka: str
    topic: str
    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a record does to a connector that meets it.

    stage       key_converter, value_converter, header_converter, transform, put (a sink fails),
                put_retriable (a sink tries again for ever), corrupt (nobody reads it off the log);
                what is too large for a mirror's producer is so by its size
    cause       the name of a cause in traces.py
    connector   whom; None for everybody
    """

    stage: str
    cause: str = "data"
    connector: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """`size_bytes` is what it takes when it is produced."""

    at: At
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    size_bytes: int
    leader_epoch: int = 0
    troubles: tuple[Trouble, ...] = ()

    def trouble(self, connector: str, stages: Iterable[str]) -> Trouble | None:
        """The first of these stages that it spoils for this connector."""
        for stage in stages:
            for trouble in self.troubles:
                if trouble.stage == stage and trouble.connector in {None, connector}:
                    return trouble
        return None


@dataclass(slots=True)
class Log:
    """A partition. `records` is sorted; offsets may be missing (compaction, transactions)."""

    start: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)

    def read(self, offset: int, count_max: int) -> list[Record]:
        """The first existing records from this offset on."""
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].at.offset < offset:
                low = middle + 1
            else:
                high = middle
        return self.records[low : low + count_max]


@dataclass(slots=True)
class Topic:
    name: str
    id: str
    logs: list[Log]


@dataclass(slots=True)
class Group:
    """A consumer group. Members are consumers by name, each with what it is given when that
    changes; offsets are of (topic, partition).
    """

    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    members: dict[str, Callable[[], None]] = field(default_factory=dict)
    topics: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """STABLE or EMPTY, as the broker says."""
        return "STABLE" if self.members else "EMPTY"


class NotAMember(Exception):
    """UnknownMemberId: somebody commits who is not, or no longer, in the group; or an admin who may
    only change a group without members.
    """


class NoSuchPartition(Exception):
    """UnknownTopicOrPartition."""


class Broker:
    """`produced` is every record there ever was, `lost` what nobody can read here any more."""

    def __init__(self, line: Timeline, name: str, *, seed: int = 0) -> None:
        self.name, self._line, self._seed = name, line, seed
        self.cluster_id = _id(f"{seed}/{name}")
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.produced: list[At] = []
        self.lost: list[At] = []
        self._made: dict[str, int] = defaultdict(int)
        self._watching: dict[str, dict[object, Callable[[], None]]] = defaultdict(dict)

    # --- topics ----------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1) -> Topic:
        """The topic; as it is where it exists."""
        if name not in self.topics:
            self._made[name] += 1
            topic_id = _id(f"{self._seed}/{self.name}/{name}/{self._made[name]}")
            self.topics[name] = Topic(name, topic_id, [Log() for _ in range(partitions)])
            self._notify_subscribers(name)
        return self.topics[name]

    def delete_topic(self, name: str) -> None:
        """With its records. Groups keep their offsets of it, as Kafka does for a while."""
        topic = self.topics.pop(name)
        for log in topic.logs:
            self.lost.extend(record.at for record in log.records)
        self._notify_subscribers(name)

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """The same name, another topic."""
        had = self.topics[name]
        self.delete_topic(name)
        return self.create_topic(name, partitions or len(had.logs))

    def log(self, topic: str, partition: int) -> Log:
        """Raises NoSuchPartition."""
        answer = self.topics.get(topic)
        if answer is None or partition not in range(len(answer.logs)):
            raise NoSuchPartition(f"{topic}-{partition}")
        return answer.logs[partition]

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        troubles: tuple[Trouble, ...] = (),
        size_bytes: int | None = None,
    ) -> Record:
        """Append one record. `size_bytes` is for one that is told to be larger than its bytes."""
        result = self.create_topic(topic)
        log = result.logs[partition]
        size = 70 + len(key or b"") + len(value or b"")
        record = Record(
            at=At(self.name, topic, result.id, partition, log.end),
            key=key,
            value=value,
            headers=headers,
            timestamp_ms=int(self._line.now() * 1000),
            size_bytes=size if size_bytes is None else size_bytes,
            troubles=troubles,
        )
        log.records.append(record)
        log.end += 1
        self.produced.append(record.at)
        self._notify_subscribers(topic)
        return record

    def subscribe(self, topic: str, who: object, report: Callable[[], None]) -> None:
        """Call this whenever something is appended to a topic of this name."""
        self._watching[topic][who] = report

    def unwatch(self, who: object) -> None:
        for watching in self._watching.values():
            watching.pop(who, None)

    def _notify_subscribers(self, topic: str) -> None:
        for report in list(self._watching[topic].values()):
            report()

    def leave_gap(self, topic: str, partition: int, count: int = 1) -> None:
        """Offsets that no record has, as transaction markers leave them."""
        self.create_topic(topic).logs[partition].end += count

    def retain_from(self, topic: str, partition: int, offset: int) -> None:
        """Retention: what is before this offset is gone."""
        log = self.log(topic, partition)
        self.lost.extend(record.at for record in log.records if record.at.offset < offset)
        log.records = [record for record in log.records if record.at.offset >= offset]
        log.start = max(log.start, offset)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """An unclean election: what is from this offset on never was."""
        log = self.log(topic, partition)
        self.lost.extend(record.at for record in log.records if record.at.offset >= end)
        log.records = [record for record in log.records if record.at.offset < end]
        log.end = min(log.end, end)

    def compact_away(self, topic: str, partition: int, offset: int) -> None:
        """One record is gone from the middle of its log."""
        log = self.log(topic, partition)
        self.lost.extend(record.at for record in log.records if record.at.offset == offset)
        log.records = [record for record in log.records if record.at.offset != offset]

    # --- groups ----------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """Made where there is none, as a consumer's first visit does."""
        return self.groups.setdefault(name, Group())

    def join(
        self, name: str, member: str, topics: tuple[str, ...], report: Callable[[], None]
    ) -> None:
        """Become a member; `told` is called whenever the share of this member changes."""
        group = self.group(name)
        group.members[member], group.topics[member] = report, topics
        self._notify(group)

    def leave(self, name: str, member: str) -> None:
        """Also what the coordinator does with one that has not polled for too long."""
        group = self.groups.get(name)
        if group is not None and group.members.pop(member, None) is not None:
            del group.topics[member]
            self._notify(group)

    def share(self, name: str, member: str) -> tuple[tuple[str, int], ...]:
        """Which partitions a member reads: in turn to those that want the topic."""
        group = self.groups[name]
        own = []
        for topic in sorted({topic for topics in group.topics.values() for topic in topics}):
            readers = sorted(value for value, topics in group.topics.items() if topic in topics)
            logs = self.topics[topic].logs if topic in self.topics else ()
            own += [
                (topic, number)
                for number in range(len(logs))
                if readers[number % len(readers)] == member
            ]
        return tuple(own)

    def commit(self, name: str, member: str, offsets: dict[tuple[str, int], int]) -> None:
        """As a member does. Raises NotAMember."""
        group = self.group(name)
        if member not in group.members:
            raise NotAMember(member)
        group.offsets.update(offsets)

    @staticmethod
    def _notify(group: Group) -> None:
        for member in list(group.members.values()):
            member()


def _id(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).decode()[:22]
