"""A flow as it was: records and samples of a past hour in tables that are made without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    GOLD_FLOW_PROGRESS,
    GOLD_FLOWS,
    GOLD_TOPICS,
    OFFSET_SYNCS,
    STATUS,
)
from tests.history.delta import Row, write
from tests.history.rows import (
    Raw,
    RecordedTopic,
    checkpoint_key,
    checkpoint_value,
    decoded,
    mirror_key,
    sync_key,
    sync_value,
)

NOON = 1_795_262_400  # 2026-11-21T12:00:00Z
SYNCS, CHECKED = "mm2-offset-syncs.east.internal", "west.checkpoints.internal"
COMMITS, STATES, SETTINGS = "connect-offsets", "connect-status", "connect-configs"
ROLES = {
    SYNCS: RecordedTopic(OFFSET_SYNCS, None, "s1"),
    CHECKED: RecordedTopic(CHECKPOINTS, None, "c1"),
    COMMITS: RecordedTopic(CONNECT_OFFSETS, "lab", "o1"),
    STATES: RecordedTopic(STATUS, "lab", "t1"),
    SETTINGS: RecordedTopic(CONFIGS, "lab", "g1"),
}
FLOW: Row = {
    "connect_cluster": "lab",
    "connector": "mm2",
    "source": "west",
    "target": "east",
    "upstream": "west",
    "downstream": "east",
    "syncs_kafka": "west",
    "syncs_topic": SYNCS,
    "policy": "DefaultReplicationPolicy",
    "separator": ".",
    "read_committed": False,
    "from_start": True,
}


def when(second: float) -> datetime:
    return datetime.fromtimestamp(NOON, tz=UTC) + timedelta(seconds=second)


class Past:
    """What was written and asked, by seconds after noon. Everything is read a second later, by one
    run that was always there, unless a test says otherwise.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Raw, float, str]] = []
        self.ends: list[Row] = []
        self.group_offsets: list[Row] = []
        self.flows = [FLOW]
        self.progress: list[Row] = []
        self.read_until = 1200.0
        self.ids = {topic: role.topic_id for topic, role in ROLES.items()}
        self._next: dict[tuple[str, str], int] = {}

    def _add(
        self, topic: str, second: float, key: bytes, value: bytes | None, read: float | None
    ) -> None:
        log = (topic, self.ids[topic])
        offset = self._next.get(log, 0)
        self._next[log] = offset + 1
        raw = Raw(key, value, topic, 0, offset, round((NOON + second) * 1000))
        self.records.append((raw, second + 1 if read is None else read, log[1]))

    def hole(self, topic: str, offsets: int = 1) -> None:
        """So many offsets have no record."""
        log = (topic, self.ids[topic])
        self._next[log] = self._next.get(log, 0) + offsets

    def sync(
        self, second: float, upstream: int, downstream: int | None = None, *, partition: int = 0
    ) -> None:
        value = sync_value(upstream, upstream if downstream is None else downstream)
        self._add(SYNCS, second, sync_key("orders", partition), value, None)

    def checkpoint(
        self,
        second: float,
        downstream: int,
        *,
        group: str = "billing",
        partition: int = 0,
        read: float | None = None,
    ) -> None:
        key = checkpoint_key(group, "west.orders", partition)
        value = checkpoint_value(downstream, downstream)
        self._add(CHECKED, second, key, value, read)

    def add_connect_record(
        self, second: float, topic: str, key: str, value: dict[str, object]
    ) -> None:
        """A record of Connect's status or config topic."""
        self._add(topic, second, key.encode(), json.dumps(value).encode(), None)

    def running(self, second: float, connector: str) -> None:
        """A worker says that task 0 of this connector runs."""
        state = {"state": "RUNNING", "worker_id": "a:8083", "generation": 1, "trace": None}
        self.add_connect_record(second, STATES, f"status-task-{connector}-0", state)

    def configured(self, second: float, connector: str, class_name: str) -> None:
        """Somebody has created this connector."""
        properties = {"connector.class": f"org.apache.kafka.connect.mirror.{class_name}"}
        self.add_connect_record(
            second, SETTINGS, f"connector-{connector}", {"properties": properties}
        )

    def commit(self, second: float, offset: int | None, *, partition: int = 0) -> None:
        """The connector's: the LAST record it has copied."""
        key = mirror_key("mm2", "west", "orders", partition)
        value = None if offset is None else b'{"offset":%d}' % offset
        self._add(COMMITS, second, key, value, None)

    def add_samples(
        self,
        second: float,
        position: int | None,
        *,
        own: int | None = None,
        here: tuple[int, int] | None = (0, 3000),
        there: tuple[int, int] | None = (0, 3000),
        group: str = "billing",
        partition: int = 0,
    ) -> None:
        """One round of samples of one group."""
        moment = when(second)
        both = (("west", "orders", position, here), ("east", "west.orders", own, there))
        for kafka, topic, offset, bounds in both:
            row = {"at": moment, "kafka": kafka, "topic": topic, "partition": partition}
            row["day"] = moment.date()
            if offset is not None:
                self.group_offsets.append({**row, "group_id": group, "committed": offset})
            if bounds is not None:
                self.ends.append({**row, "log_start": bounds[0], "log_end": bounds[1]})

    def rows(self) -> list[Row]:
        results = []
        for raw, read, topic_id in self.records:
            (row,) = decoded(raw, roles=ROLES)
            stamp = row["kts"]
            assert isinstance(stamp, datetime)
            kafka = "west" if raw.topic == SYNCS else "east"
            more = {"kafka": kafka, "topic_id": topic_id}
            results.append({**row, **more, "ingest_ts": when(read), "day": stamp.date()})
        return results

    def _others(self) -> list[Row]:
        """What was read last of both clusters, of topics that are no business of the flow."""
        row = {"topic": "other", "topic_id": "x", "kpartition": 0, "koffset": 0}
        moment = when(self.read_until)
        stamps = {"kind": OFFSET_SYNCS, "kts": moment, "ingest_ts": moment, "day": moment.date()}
        return [{**row, **stamps, "kafka": kafka} for kafka in ("west", "east")]

    def write(self, base: Path) -> Path:
        write(base, BRONZE_RECORDS, *self.rows(), *self._others())
        write(base, BRONZE_LOG_ENDS, *self.ends)
        write(base, BRONZE_GROUP_OFFSETS, *self.group_offsets)
        write(base, GOLD_FLOWS, *self.flows)
        write(base, GOLD_FLOW_PROGRESS, *self.progress)
        entry = {"connect_cluster": "lab", "kafka": "east", "topic": COMMITS}
        write(base, GOLD_TOPICS, entry)
        return base


def build_typical_hour() -> Past:
    """Syncs of the first and the last of 3,000 records; a group at 2,700, of which the checkpoint
    is of the first. Asked once a minute from 12:00 to 12:10.
    """
    past = Past()
    past.sync(-300, 0)
    past.sync(-200, 2999)
    past.commit(-190, 2999)
    past.checkpoint(-100, 1)
    for minute in range(11):
        past.add_samples(minute * 60, 2700)
    return past
