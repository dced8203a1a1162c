"""One cluster with one connector that needs a remedy, and what a plan for it touches beside REST.

Everything here outlives the processes that work on it, as it does outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from offsetwatch.config import Connect
from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.records import RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.model import plan_templates
from offsetwatch.remedy.model.facts import SubjectKind
from offsetwatch.remedy.model.plan import (
    Plan,
    PlanSubject,
    RecordLocation,
    RequestedState,
)
from tests.fakes.connect_model import FakeConnect, Timing, Trouble
from tests.sim.logs import NAME, FileLog, KafkaLog, PoisonLog, TableLog

PLACE = "lab"
BEFORE, BEHIND = 3, 3
QUARANTINE: Final = "east/quarantine"
STOP_TOTAL_S, QUIET_S, FLUSH_S = 180.0, 10.0, 10.0
SETTLED_S: Final = plan_templates.QUIET_S
CASES: Final = (
    "skip at a sink",
    "skip at a mirror",
    "restore",
    "stop",
    "restart",
    "skip at a file",
    "skip at a table",
)
PLAN_ID: Final = "20270115-080000-a1b2c3"
_RECORDS_MAX: Final = 1000


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

    def __init__(self, case: str, folder: Path, *, second_poison: bool = False) -> None:
        self.case = case
        self.kind = {
            "skip at a mirror": SubjectKind.MIRROR,
            "skip at a file": SubjectKind.SOURCE,
            "skip at a table": SubjectKind.SOURCE,
        }.get(case, SubjectKind.SINK)
        self.skips = case.startswith("skip")
        self.connect = FakeConnect(timing=Timing(flush_s=FLUSH_S))
        self.line = self.connect.line
        self.copies: list[QuarantinedBytes] = []
        self.foreign: list[tuple[float, str]] = []
        self.moved = self.troubled = self.tears_copies = False
        self.log = self._open_log(folder)
        self.config = self.log.config
        self._fill(second_poison=second_poison)
        records = self.records()
        self.hashes = {record.offset: record.sha256 for record in records}
        self.poison = records[BEFORE]
        self.numbers = self._number(records)
        self.site = Connect(name=PLACE, kafka="east", urls=list(self.connect.urls))
        self.plan = self._plan()

    # --- set up ----------------------------------------------------------------------------------

    def _open_log(self, folder: Path) -> PoisonLog:
        match self.case:
            case "skip at a mirror":
                return KafkaLog(self.connect, self.connect.upstreams["west"], is_mirrored=True)
            case "skip at a file":
                return FileLog(self.connect, folder)
            case "skip at a table":
                return TableLog(self.connect, folder)
        return KafkaLog(self.connect, self.connect.broker, is_mirrored=False)

    def _fill(self, *, second_poison: bool) -> None:
        connect = self.connect
        for number in range(BEFORE):
            self.log.produce(b"good %d" % number)
        connect.create(NAME, self.config)
        connect.advance(FLUSH_S + 1.0)
        if self.case == "restart":
            connect.behaviour(NAME).outage = Trouble("put", "data")
            self.log.produce(b"while the database is down")
            connect.advance(5.0)
            connect.behaviour(NAME).outage = None
        if self.skips:
            self.log.poison(b"poison")
        if second_poison:
            self.log.poison(b"another one")
        for number in range(BEHIND):
            self.log.produce(b"good behind %d" % number)
        connect.advance(5.0 if self.skips else FLUSH_S + 1.0)
        self.line.call_after(20.0, lambda: self.log.produce(b"later"))

    # --- the plan --------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        subject = PlanSubject(
            driver="rest",
            store=PLACE,
            connector=NAME,
            kind=self.kind.value,
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
                    about, (self.log.pair(self.numbers.to),), "a backup"
                )
        topic = self.log.topic
        topic_id = self.topic_id()
        assert topic_id is not None
        what = plan_templates.RecordToSkip(
            record=RecordLocation(self.log.kafka, topic, topic_id, 0, self.poison.offset),
            sha256=self.poison.sha256,
            size_bytes=self.poison.size_bytes,
            frm=self.log.pair(self.numbers.frm),
            to=self.log.pair(self.numbers.to),
        )
        return plan_templates.build_skip_plan(
            about, what, quarantine=QUARANTINE, stop_total_s=STOP_TOTAL_S, quiet_s=QUIET_S
        )

    def _number(self, records: list[RawRecord]) -> Numbers:
        """Return the offset before, and the one that is to be."""
        if self.case == "restore":
            return Numbers(BEFORE + BEHIND, 1)
        last_good, poison = records[BEFORE - 1], records[BEFORE]
        return Numbers(last_good.offset + self.log.ahead, poison.offset + self.log.ahead)

    # --- what can be seen ------------------------------------------------------------------------

    def records(self) -> list[RawRecord]:
        """All that the log has."""
        partition = TopicPartition(self.log.topic, 0)
        return list(self.log.reader.window(partition, 0, count_max=_RECORDS_MAX).records)

    def topic_id(self) -> str | None:
        return self.log.reader.topic_id(self.log.topic)

    def first(self, offset: int) -> int | None:
        """The first record at or after an offset."""
        return next((record.offset for record in self.records() if record.offset >= offset), None)

    def next_read(self) -> int | None:
        """The first record that the connector has not put behind itself, or an offset between it
        and the one before; None if it has no offset or the topic is not the one that there was.
        """
        stored = self.log.stored()
        return None if stored is None else stored + 1 - self.log.ahead

    def quarantined(self) -> set[int]:
        """Offsets whose record, byte for byte, has a copy."""
        return {
            retained.record.offset
            for retained in self.copies
            if self.hashes.get(retained.record.offset) == retained.sha256
        }

    def nothing_after(self, record: RecordLocation) -> bool:
        """For proofs.ProofSteps."""
        return self.first(record.offset + 1) is None

    def state(self) -> str | None:
        status = self.connect.statuses.get(NAME)
        return None if status is None else status.connector.state

    def tasks(self) -> list[str]:
        status = self.connect.statuses.get(NAME)
        return [] if status is None else [task.state for task in status.tasks.values()]
