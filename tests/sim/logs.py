"""Logs with a record that blocks a connector: a topic, a file of lines, a table of rows.

A file and a table are real ones, which the product reads with its own readers. The connector of the
model is given the same lines and rows.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

from offsetwatch.config.schema.sources import Source
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.common_steps import RecordSource
from offsetwatch.remedy.gather.source_logs import SourceLog
from offsetwatch.remedy.model.plan import PartitionOffset
from tests.fakes.connect_model import FILE_SOURCE, JDBC_SOURCE, MIRROR_SOURCE, SINK, FakeConnect
from tests.fakes.connect_model.broker import Broker, Record, Trouble
from tests.fakes.connect_model.offsets import GLOBAL, Stores
from tests.fakes.connect_model.sinks import group_of

NAME: Final = "orders-copy"
TOPIC: Final = "orders"
OUTPUT: Final = "orders-out"
TOO_LARGE: Final = 2 * 1024 * 1024
_TRANSFORM: Final = Trouble("source_transform", "transform", NAME)


class PoisonLog(Protocol):
    """What a connector reads.

    kafka, topic    its name in plans
    config          of the connector
    ahead           what the connector stores after a record, less the record's offset
    field           the field of a stored offset that has this number
    reader          it, open
    """

    kafka: str
    topic: str
    config: dict[str, str]
    ahead: int
    field: str
    reader: RecordSource

    def produce(self, text: bytes) -> None:
        """Append a good record."""

    def poison(self, text: bytes) -> None:
        """Append a record that the connector fails on."""

    def truncate(self, kept: int) -> None:
        """Part of it is gone, as such a log loses records; of a topic what is from `kept` on."""

    def recreate(self) -> None:
        """Another log has its name, with one record."""

    def open(self) -> RecordSource:
        """Open it as the copier of records does."""

    def bounds(self) -> LogBounds:
        """Return its bounds."""

    def pair(self, number: int) -> PartitionOffset:
        """Return what is stored."""

    def stored(self) -> int | None:
        """Return the number that is stored now."""

    def delivered(self) -> set[int]:
        """Return the offsets of the records that came out of the connector."""


class KafkaLog:
    """A topic of the workers' own cluster, or of the one that a mirror copies from."""

    def __init__(self, connect: FakeConnect, broker: Broker, *, is_mirrored: bool) -> None:
        self._connect, self._broker, self._is_mirrored = connect, broker, is_mirrored
        self.kafka, self.topic = broker.name, TOPIC
        self.config = {"connector.class": SINK, "topics": TOPIC, "tasks.max": "1"}
        self.ahead, self.field = 1, "kafka_offset"
        if is_mirrored:
            self.config |= {
                "connector.class": MIRROR_SOURCE,
                "source.cluster.alias": "west",
                "target.cluster.alias": "east",
            }
            self.ahead, self.field = 0, "offset"
        broker.create_topic(TOPIC)
        self.reader: RecordSource = self

    def produce(self, text: bytes) -> None:
        self._broker.produce(TOPIC, text)

    def poison(self, text: bytes) -> None:
        if self._is_mirrored:
            self._broker.produce(TOPIC, text, key=b"k", size_bytes=TOO_LARGE)
        else:
            trouble = Trouble("value_converter", "data", NAME)
            self._broker.produce(TOPIC, text, key=b"k", troubles=(trouble,))

    def truncate(self, kept: int) -> None:
        self._broker.truncate(TOPIC, 0, kept)

    def recreate(self) -> None:
        self._broker.recreate_topic(TOPIC)
        self.produce(b"anew")

    def open(self) -> RecordSource:
        return self

    def bounds(self) -> LogBounds:
        log = self._broker.log(TOPIC, 0)
        return LogBounds(start=log.start, end=log.end, stable_end=log.end)

    def pair(self, number: int) -> PartitionOffset:
        offset = f'{{"{self.field}":{number}}}'
        if self._is_mirrored:
            return PartitionOffset(f'{{"cluster":"west","partition":0,"topic":"{TOPIC}"}}', offset)
        return PartitionOffset(f'{{"kafka_partition":0,"kafka_topic":"{TOPIC}"}}', offset)

    def stored(self) -> int | None:
        if self._is_mirrored:
            return _read_stored(self._connect, self)
        group = self._connect.broker.groups.get(group_of(NAME, self.config))
        return None if group is None else group.offsets.get((TOPIC, 0))

    def delivered(self) -> set[int]:
        return {item.offset for item in self._connect.delivered[NAME]}

    # --- as a RecordSource ----------------------------------------------------------------------

    def cluster_id(self) -> str | None:
        return self._broker.cluster_id

    def topic_id(self, topic: str) -> str | None:
        found = self._broker.topics.get(topic)
        return found.id if found else None

    def window(
        self, partition: TopicPartition, start: int, until: int | None = None, count_max: int = 1
    ) -> LogWindow:
        log = self._broker.topics[partition.topic].logs[partition.partition]
        end = log.end if until is None else until
        records = (_build_raw(each) for each in log.read(start, count_max))
        found = tuple(record for record in records if record.offset < end)
        return LogWindow(found, end, log.end, log.start)

    def close(self) -> None:
        pass


def _build_raw(record: Record) -> RawRecord:
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


def _read_stored(connect: FakeConnect, log: PoisonLog) -> int | None:
    partition = json.loads(log.pair(0).partition)
    offset = connect.offsets.read(Stores(GLOBAL, None), NAME, partition)
    return None if offset is None else int(offset[log.field])


class _SourceRecords:
    """A file or a table, and the topic that its records come to. `offsets` are those of its
    records, by what comes out of the connector.
    """

    ahead: int
    field: str
    topic: str

    def __init__(self, connect: FakeConnect, settings: dict[str, Any]) -> None:
        self._connect = connect
        self._offsets: dict[bytes, int] = {}
        members = [{"connect": "lab", "include": [NAME]}]
        self._source = Source.model_validate({"name": "data", "connectors": members, **settings})
        self.kafka = f"source:{self._source.name}"
        self.reader = self.open()

    def open(self) -> SourceLog:
        return SourceLog(self._source)

    def bounds(self) -> LogBounds:
        return self.reader.bounds(self.topic)

    def stored(self) -> int | None:
        return _read_stored(self._connect, self)

    def delivered(self) -> set[int]:
        topic = self._connect.broker.topics.get(OUTPUT)
        records = topic.logs[0].records if topic else []
        return {self._offsets[record.value] for record in records if record.value in self._offsets}


class _NumberedLog(SourceLog):
    """One whose files have numbers, as those of inodes are others in each run."""

    identities: dict[str, str]

    def topic_id(self, topic: str) -> str:
        identity = super().topic_id(topic)
        return self.identities.setdefault(identity, f"file {len(self.identities) + 1}")


class FileLog(_SourceRecords):
    """A file that a FileStream source reads. The offset of a line is that of its last byte."""

    ahead, field, topic = 1, "position", "/data/orders.txt"

    def __init__(self, connect: FakeConnect, folder: Path) -> None:
        self._identities: dict[str, str] = {}
        super().__init__(connect, {"kind": "file", "folder": str(folder)})
        self._path = folder / Path(self.topic).name
        self._path.touch()
        self.config = {"connector.class": FILE_SOURCE, "file": self.topic, "topic": OUTPUT}

    def open(self) -> SourceLog:
        log = _NumberedLog(self._source)
        log.identities = self._identities
        return log

    def produce(self, text: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(text + b"\n")
            self._offsets[text] = file.tell() - 1
        self._connect.files.append(self.topic, text.decode())

    def poison(self, text: bytes) -> None:
        self._connect.files.troubles[text] = _TRANSFORM
        self.produce(text)

    def truncate(self, kept: int) -> None:
        del kept
        self._path.write_bytes(b"")
        self._connect.files.replace(self.topic)

    def recreate(self) -> None:
        other = self._path.with_suffix(".new")
        other.write_bytes(b"anew\n")
        other.rename(self._path)
        self._connect.files.replace(self.topic, "anew")

    def pair(self, number: int) -> PartitionOffset:
        return PartitionOffset(f'{{"filename":"{self.topic}"}}', f'{{"position":{number}}}')


class TableLog(_SourceRecords):
    """A table that a JDBC source reads by an incrementing column. The offset of a row is its id."""

    ahead, field, topic = 0, "incrementing", "orders(id)"

    def __init__(self, connect: FakeConnect, folder: Path) -> None:
        self._path = folder / "orders.sqlite"
        super().__init__(connect, {"kind": "sql", "dsn": f"sqlite:///{self._path}"})
        self._execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, text BLOB)")
        self.config = {
            "connector.class": JDBC_SOURCE,
            "table": TOPIC,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic": OUTPUT,
        }

    def produce(self, text: bytes) -> None:
        self._offsets[text] = self._execute("INSERT INTO orders (text) VALUES (?)", text)
        self._connect.files.insert(TOPIC, text.decode())

    def poison(self, text: bytes) -> None:
        self._connect.files.troubles[text] = _TRANSFORM
        self.produce(text)

    def truncate(self, kept: int) -> None:
        self._execute("DELETE FROM orders WHERE id <= ?", kept)
        self._connect.files.delete(TOPIC, kept)

    def recreate(self) -> None:
        self._execute("DROP TABLE orders")
        self._execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, text TEXT)")
        self._connect.files.drop(TOPIC)
        self.produce(b"anew")

    def pair(self, number: int) -> PartitionOffset:
        return PartitionOffset(
            f'{{"protocol":"1","table":"{TOPIC}"}}', f'{{"incrementing":{number}}}'
        )

    def _execute(self, statement: str, *values: object) -> int:
        """The id of the row that was inserted last."""
        with closing(sqlite3.connect(self._path)) as database:
            database.execute("PRAGMA synchronous = OFF")
            with database:
                return database.execute(statement, values).lastrowid or 0
