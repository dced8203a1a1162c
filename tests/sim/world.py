"""One cluster with one connector that needs a remedy, and what a plan for it touches beside REST.

Everything here outlives the processes that work on it, as it does outside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from offsetwatch.config import Connect
from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.model import plan_templates
from offsetwatch.remedy.model.plan import (
    PartitionOffset,
    Plan,
    PlanSubject,
    RecordLocation,
    RequestedState,
)
from tests.fakes.connect_model import MIRROR_SOURCE, SINK, FakeConnect, Timing, Trouble
from tests.fakes.connect_model.broker import Broker, Record
from tests.fakes.connect_model.offsets import GLOBAL, Stores
from tests.fakes.connect_model.sinks import group_of

PLACE, NAME, TOPIC = "lab", "orders-copy", "orders"
BEFORE, BEHIND = 3, 3
QUARANTINE: Final = "east/quarantine"
TOO_LARGE: Final = 2 * 1024 * 1024
STOP_TOTAL_S, QUIET_S, FLUSH_S = 180.0, 10.0, 10.0
SETTLED_S: Final = plan_templates.QUIET_S
CASES: Final = ("skip at a sink", "skip at a mirror", "restore", "stop", "restart")
PLAN_ID: Final = "20270115-080000-a1b2c3"


@dataclass
class QuarantinedBytes:
    """What quarantine holds. The bytes are what counts: `sha256` is of what is there."""

    skip_key: str
    record: RawRecord
    at: float

    def __post_init__(self) -> None:
        self.sha256 = self.record.sha256


class Numbers(NamedTuple):
    """Of a skip or of what is put back: the offsets in the plan as numbers."""

    frm: int
    to: int


class World:
    """`foreign` is what others did to the connector or its topic, with when; `moved` whether that
    concerns its offsets or the log; `troubled` whether it cannot work at the end.
    """

    def __init__(self, case: str, *, second_poison: bool = False) -> None:
        self.case = case
        self.mirror = case == "skip at a mirror"
        self.skips = case.startswith("skip")
        self.connect = FakeConnect(timing=Timing(flush_s=FLUSH_S))
        self.line = self.connect.line
        self.copies: list[QuarantinedBytes] = []
        self.foreign: list[tuple[float, str]] = []
        self.moved = self.troubled = self.tears_copies = False
        self.log_broker: Broker = self.connect.broker
        if self.mirror:
            self.log_broker = self.connect.upstreams["west"]
        self.config = self._config()
        self._fill(second_poison=second_poison)
        log = self.log_broker.log(TOPIC, 0)
        self.hashes = {record.at.offset: raw_of(record).sha256 for record in log.records}
        self.site = Connect(name=PLACE, kafka="east", urls=list(self.connect.urls))
        self.plan = self._plan()

    # --- set up ----------------------------------------------------------------------------------

    def _config(self) -> dict[str, str]:
        if not self.mirror:
            return {"connector.class": SINK, "topics": TOPIC, "tasks.max": "1"}
        return {
            "connector.class": MIRROR_SOURCE,
            "topics": TOPIC,
            "tasks.max": "1",
            "source.cluster.alias": "west",
            "target.cluster.alias": "east",
        }

    def _fill(self, *, second_poison: bool) -> None:
        connect = self.connect
        self.log_broker.create_topic(TOPIC)
        for number in range(BEFORE):
            self.log_broker.produce(TOPIC, b"good %d" % number)
        connect.create(NAME, self.config)
        connect.advance(FLUSH_S + 1.0)
        if self.case == "restart":
            connect.behaviour(NAME).outage = Trouble("put", "data")
            self.log_broker.produce(TOPIC, b"while the database is down")
            connect.advance(5.0)
            connect.behaviour(NAME).outage = None
        if self.skips:
            self.poison(b"poison")
        if second_poison:
            self.poison(b"another one")
        for number in range(BEHIND):
            self.log_broker.produce(TOPIC, b"good behind %d" % number)
        connect.advance(5.0 if self.skips else FLUSH_S + 1.0)
        self.line.call_after(20.0, lambda: self.log_broker.produce(TOPIC, b"later"))

    def poison(self, value: bytes) -> None:
        if self.mirror:
            self.log_broker.produce(TOPIC, value, key=b"k", size_bytes=TOO_LARGE)
        else:
            self.log_broker.produce(
                TOPIC, value, key=b"k", troubles=(Trouble("value_converter", "data", NAME),)
            )

    # --- the plan --------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        subject = PlanSubject(
            driver="rest",
            store=PLACE,
            connector=NAME,
            kind="mirror" if self.mirror else "sink",
            identity=self.connect.broker.cluster_id,
        )
        about = plan_templates.PlanHeader(
            plan_id=PLAN_ID,
            at=self.line.now(),
            by=plan_templates.DETECTOR if self.case != "restore" else "ada",
            subject=subject,
            original=RequestedState.RUNNING,
            incident="i1",
            config_sha256=compute_config_sha256(NAME, self.config),
            evidence=(EvidenceItem("repeat", 3, "times"),),
        )
        match self.case:
            case "stop":
                return plan_templates.build_stop_plan(about)
            case "restart":
                return plan_templates.build_restart_plan(about)
            case "restore":
                return plan_templates.build_restore_plan(
                    about, (self.pair(self.numbers.to),), "a backup"
                )
        record = self.read(BEFORE)
        assert record is not None
        raw = raw_of(record)
        what = plan_templates.RecordToSkip(
            record=RecordLocation(self.log_broker.name, TOPIC, record.at.topic_id, 0, BEFORE),
            sha256=raw.sha256,
            size_bytes=record.size_bytes,
            frm=self.pair(self.numbers.frm),
            to=self.pair(self.numbers.to),
        )
        return plan_templates.build_skip_plan(
            about, what, quarantine=QUARANTINE, stop_total_s=STOP_TOTAL_S, quiet_s=QUIET_S
        )

    @property
    def numbers(self) -> Numbers:
        """The offset before, and the one that is to be."""
        if self.case == "restore":
            return Numbers(BEFORE + BEHIND, 1)
        return Numbers(BEFORE - 1, BEFORE) if self.mirror else Numbers(BEFORE, BEFORE + 1)

    def pair(self, offset: int) -> PartitionOffset:
        if self.mirror:
            return PartitionOffset(
                f'{{"cluster":"west","partition":0,"topic":"{TOPIC}"}}', f'{{"offset":{offset}}}'
            )
        partition = f'{{"kafka_partition":0,"kafka_topic":"{TOPIC}"}}'
        return PartitionOffset(partition, f'{{"kafka_offset":{offset}}}')

    # --- what can be seen ------------------------------------------------------------------------

    def read(self, offset: int) -> Record | None:
        """The record at this offset, if there is one."""
        topic = self.log_broker.topics.get(TOPIC)
        result = topic.logs[0].read(offset, 1) if topic else []
        return result[0] if result and result[0].at.offset == offset else None

    def end(self) -> int:
        topic = self.log_broker.topics.get(TOPIC)
        return topic.logs[0].end if topic else 0

    def topic_id(self) -> str | None:
        topic = self.log_broker.topics.get(TOPIC)
        return topic.id if topic else None

    def next_read(self) -> int | None:
        """The first record that the connector has not put behind itself; None if it has no offset
        or the topic is not the one that there was.
        """
        if self.mirror:
            document = json.loads(self.pair(0).partition)
            offset = self.connect.offsets.read(Stores(GLOBAL, None), NAME, document)
            return None if offset is None else int(offset["offset"]) + 1
        group = self.connect.broker.groups.get(group_of(NAME, self.config))
        return None if group is None else group.offsets.get((TOPIC, 0))

    def delivered(self) -> set[int]:
        return {item.offset for item in self.connect.delivered[NAME]}

    def quarantined(self) -> set[int]:
        """Offsets whose record, byte for byte, has a copy."""
        return {
            retained.record.offset
            for retained in self.copies
            if self.hashes.get(retained.record.offset) == retained.sha256
        }

    def nothing_after(self, record: RecordLocation) -> bool:
        """For proofs.ProofSteps."""
        topic = self.log_broker.topics.get(record.topic)
        return topic is None or not topic.logs[0].read(record.offset + 1, 1)

    def state(self) -> str | None:
        status = self.connect.statuses.get(NAME)
        return None if status is None else status.connector.state

    def tasks(self) -> list[str]:
        status = self.connect.statuses.get(NAME)
        return [] if status is None else [task.state for task in status.tasks.values()]


def raw_of(record: Record) -> RawRecord:
    """As a reader of the real thing would have it."""
    return RawRecord(
        topic=record.at.topic,
        partition=record.at.partition,
        offset=record.at.offset,
        leader_epoch=record.leader_epoch,
        timestamp_ms=record.timestamp_ms,
        timestamp_type="create",
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


class LogSource:
    """What copies are made from."""

    def __init__(self, world: World) -> None:
        self._world = world

    def cluster_id(self) -> str | None:
        return self._world.log_broker.cluster_id

    def topic_id(self, topic: str) -> str | None:
        return self._world.topic_id()

    def window(self, partition: TopicPartition, start: int, until: int) -> LogWindow:
        log = self._world.log_broker.topics[partition.topic].logs[partition.partition]
        records = tuple(raw_of(each) for each in log.read(start, 1) if each.at.offset < until)
        return LogWindow(records, until, log.end, log.start)

    def close(self) -> None:
        pass
