"""Readers of the messages of internal topics, one for each kind of topic.

A TopicReader folds the messages of the bootstrap and decodes live messages one by one.

Bootstrap is the hot path: a compacted topic may hold millions of records for a few thousand keys.
Folding keeps the last message and the message of the last change of each raw key, and decodes them
once at the end. The same key may exist in two Kafka partitions, which are read in no order.
Therefore each partition keeps its own, and the state decides which one counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar, cast

from offsetwatch.clients.kafka.clients import Message
from offsetwatch.clients.kafka.whole_topic import is_written_by_offsetwatch
from offsetwatch.decode.connect_topics import decode_config, decode_status
from offsetwatch.decode.mirror_maker import (
    decode_checkpoint,
    decode_heartbeat,
    decode_sync,
    decode_sync_value,
)
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.connectors import ConfigRecord, ConnectorStatus, StatusRecord, TaskStatus
from offsetwatch.model.observations import (
    CheckpointRecord,
    HeartbeatRecord,
    ListingRecord,
    Records,
    SourceRecord,
    SyncRecord,
)
from offsetwatch.model.offsets import SourceKey, Undecodable
from offsetwatch.model.topology import KafkaTopic, Topology
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.mirror.offset_translation import SyncHistory

_Record = TypeVar("_Record", CheckpointRecord, HeartbeatRecord)

KEYS_CACHED_MAX = 500_000  # distinct raw keys are as many as source partitions; then start again
KEYS_CACHED_BYTES_MAX = 128 * 1024 * 1024  # of those: a quarter of a KiB each


class TopicReader(ABC):
    """Reader of the messages of one kind of topic.

    size    bytes of keys and newest values in memory until `folded` is called
    """

    def __init__(self) -> None:
        self.size = 0

    @property
    @abstractmethod
    def keys(self) -> int:
        """Return the number of keys in memory until `folded` is called."""

    @abstractmethod
    def fold(self, messages: list[Message]) -> list[Message]:
        """Fold a batch; return the messages that are no records (they have no key)."""

    @abstractmethod
    def folded(self) -> tuple[Records, Counter[str]]:
        """Return the folded records, and the number of undecodable ones by reason."""

    @abstractmethod
    def live(self, messages: list[Message]) -> tuple[Records, Counter[str]]:
        """Return every record of a batch in order, and the number of undecodable ones by reason."""


class RecordWiseTopicReader(TopicReader):
    """TopicReader that folds and decodes each record by itself."""

    def fold(self, messages: list[Message]) -> list[Message]:
        keyless = []
        for message in messages:
            key = _bytes_or_none(message.key())
            if key is None:
                keyless.append(message)
            else:
                self._fold(key, message)
        return keyless

    def live(self, messages: list[Message]) -> tuple[Records, Counter[str]]:
        decoded = [self._decode(message) for message in messages]
        undecodable = Counter(item.reason for item in decoded if isinstance(item, Undecodable))
        records = tuple(item for item in decoded if not isinstance(item, Undecodable))
        return cast("Records", records), undecodable

    @abstractmethod
    def _fold(self, key: bytes, message: Message) -> None:
        """Fold a record."""

    @abstractmethod
    def _decode(self, message: Message) -> object:
        """Return a live record or Undecodable."""


class SourceOffsetsTopicReader(TopicReader):
    """Reader of an offsets topic; of several records of a raw key a batch has only the last."""

    def __init__(self) -> None:
        super().__init__()
        # Kafka partition -> raw key -> [last value, message of the last change, last message]
        self._slots: dict[int | None, dict[bytes, list[object]]] = {}
        self._keys: dict[bytes, SourceKey | Undecodable] = {}
        self._keys_size = 0

    @property
    def keys(self) -> int:
        return sum(map(len, self._slots.values()))

    def fold(self, messages: list[Message]) -> list[Message]:
        """See TopicReader. The loop runs for every message of the bootstrap: keep it cheap."""
        partition: int | None = -1
        slots: dict[bytes, list[object]] = {}
        keyless = []
        for message in messages:
            key = message.key()
            if key is None:
                keyless.append(message)
                continue
            if message.partition() != partition:  # they come in runs
                partition = message.partition()
                slots = self._slots.setdefault(partition, {})
            value = message.value()
            slot = slots.get(key)
            if slot is None:
                slots[key] = [value, message, message]
                self.size += len(key) + len(message)
            elif slot[0] == value:
                slot[2] = message
            else:
                self.size += len(message) - len(slot[2])  # type: ignore[arg-type]
                slot[0] = value
                slot[1] = slot[2] = message
        return keyless

    def folded(self) -> tuple[Records, Counter[str]]:
        records: list[SourceRecord] = []
        undecodable: Counter[str] = Counter()
        all_slots = [slot for slots in self._slots.values() for slot in slots.values()]
        for _, changed, last in all_slots:
            assert isinstance(changed, Message)
            assert isinstance(last, Message)
            moment = _read_timestamp(last)
            # Of most it is one record, and then one float.
            advanced_at = moment if changed is last else _read_timestamp(changed)
            record = self._record(last, at=moment, advanced_at=advanced_at, live=False)
            if isinstance(record, Undecodable):
                undecodable[record.reason] += 1
            else:
                records.append(record)
        self._slots.clear()
        self.size = 0
        return tuple(records), undecodable

    def live(self, messages: list[Message]) -> tuple[Records, Counter[str]]:
        records: list[SourceRecord] = []
        undecodable: Counter[str] = Counter()
        for message in messages:
            record = self._record(message, at=_read_timestamp(message), advanced_at=None, live=True)
            if isinstance(record, Undecodable):
                undecodable[record.reason] += 1
            else:
                if isinstance(record.offset, Undecodable):
                    undecodable[record.offset.reason] += 1
                records.append(record)
        return tuple(records), undecodable

    def _record(
        self, message: Message, *, at: float, advanced_at: float | None, live: bool
    ) -> SourceRecord | Undecodable:
        raw_key = _bytes_or_none(message.key())
        key = self._key(raw_key)
        if isinstance(key, Undecodable) or raw_key is None:
            return key if isinstance(key, Undecodable) else Undecodable("key_null")
        return SourceRecord(
            key=key,
            raw_key=raw_key,
            offset=decode_value(_bytes_or_none(message.value())),
            partition=message.partition() or 0,
            log_offset=message.offset() or 0,
            at=at,
            advanced_at=advanced_at,
            live=live,
            ours=is_written_by_offsetwatch(message),
        )

    def _key(self, raw: bytes | None) -> SourceKey | Undecodable:
        if raw is None:
            return decode_key(None)
        key = self._keys.get(raw)
        if key is None:
            self._keys_size += len(raw)
            if len(self._keys) >= KEYS_CACHED_MAX or self._keys_size > KEYS_CACHED_BYTES_MAX:
                self._keys.clear()
                self._keys_size = len(raw)
            key = self._keys[raw] = decode_key(raw)
        return key


class OffsetSyncsTopicReader(RecordWiseTopicReader):
    """Reader of an offset-syncs topic: the last readable record of a key counts.

    The topic has one Kafka partition.

    Its SyncRecord carries the earlier records of the key as the corners of a SyncHistory.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[bytes, tuple[Message, SyncHistory]] = {}

    @property
    def keys(self) -> int:
        return len(self._last)

    def _fold(self, key: bytes, message: Message) -> None:
        value = decode_sync_value(_bytes_or_none(message.value()))
        if isinstance(value, Undecodable):
            return
        known = self._last.get(key)
        self.size += 0 if known is not None else len(key) + len(message)
        history = SyncHistory() if known is None else known[1]
        history.add(*value, joined=False)
        self._last[key] = (message, history)

    def folded(self) -> tuple[Records, Counter[str]]:
        newest = sorted(self._last.values(), key=lambda item: item[0].offset() or 0)
        records: list[SyncRecord] = []
        undecodable: Counter[str] = Counter()
        for message, history in newest:
            record = self._decode(message, history.corners()[:-1])
            if isinstance(record, Undecodable):
                undecodable[record.reason] += 1
            else:
                records.append(record)
        self._last.clear()
        self.size = 0
        return tuple(records), undecodable

    def _decode(
        self, message: Message, earlier: tuple[tuple[int, int], ...] = ()
    ) -> SyncRecord | Undecodable:
        sync = decode_sync(_bytes_or_none(message.key()), _bytes_or_none(message.value()))
        if isinstance(sync, Undecodable):
            return sync
        offset = message.offset() or 0
        return SyncRecord(
            sync=sync, log_offset=offset, at=_read_timestamp(message), earlier=earlier
        )


def _read_timestamp(message: Message) -> float:
    """Return the timestamp of a record in Unix seconds."""
    return message.timestamp()[1] / 1000.0


def _bytes_or_none(data: object) -> bytes | None:
    """Return a key or value, which are bytes because our consumers have no deserializer."""
    return data if isinstance(data, bytes) else None


_Listing = ConfigRecord | StatusRecord
_KeyInPartition = tuple[bytes, int | None]  # key, Kafka partition


class ListingTopicReader(RecordWiseTopicReader):
    """Reader of a config or status topic: the last readable record of a key counts.

    A record that was outdated when it was written does not count. `_newest` chooses between several
    Kafka partitions that hold the same key.
    """

    def __init__(
        self, decode: Callable[[bytes | None, bytes | None], _Listing | Undecodable]
    ) -> None:
        super().__init__()
        self._decode_record = decode
        self._last: dict[_KeyInPartition, tuple[Message, _Listing]] = {}
        self._unreadable: dict[_KeyInPartition, str] = {}

    @property
    def keys(self) -> int:
        return len(self._last) + len(self._unreadable)

    def _fold(self, key: bytes, message: Message) -> None:
        says = self._decode_record(key, _bytes_or_none(message.value()))
        slot = (key, message.partition())
        if self._unreadable.pop(slot, None) is not None:
            self.size -= len(key)
        if isinstance(says, Undecodable):
            self.size += len(key)
            self._unreadable[slot] = says.reason
            return
        last = self._last.get(slot)
        if last is None or not _is_outdated(says, last[1]):
            self.size += len(message) + (len(key) if last is None else -len(last[0]))
            self._last[slot] = (message, says)

    def folded(self) -> tuple[Records, Counter[str]]:
        """See TopicReader. In topic order: the meaning of a record may depend on other keys."""
        newest = sorted(self._newest(), key=lambda item: (item[0].partition(), item[0].offset()))
        unreadable = Counter(self._unreadable.values())
        self._last.clear()
        self._unreadable.clear()
        self.size = 0
        return tuple(_build_listing_record(message, says) for message, says in newest), unreadable

    def _decode(self, message: Message) -> ListingRecord | Undecodable:
        says = self._decode_record(_bytes_or_none(message.key()), _bytes_or_none(message.value()))
        if isinstance(says, Undecodable):
            return says
        return _build_listing_record(message, says, live=True)

    def _newest(self) -> Iterator[tuple[Message, _Listing]]:
        """Yield the record that counts of each key.

        Kafka partitions are read in no order. A key is in several partitions if their number was
        changed. Timestamps then order its records if they are further apart than clocks are. If
        they are not, and the records differ, none counts.
        """
        by_key: dict[bytes, list[tuple[Message, _Listing]]] = {}
        for (key, _), record in self._last.items():
            by_key.setdefault(key, []).append(record)
        for records in by_key.values():
            newest, says = max(records, key=lambda item: _read_timestamp(item[0]))
            if all(
                older is newest
                or said == says
                or is_later(_read_timestamp(newest), _read_timestamp(older))
                for older, said in records
            ):
                yield newest, says


def _build_listing_record(message: Message, says: _Listing, *, live: bool = False) -> ListingRecord:
    return ListingRecord(
        says, at=_read_timestamp(message), live=live, partition=message.partition() or 0
    )


class MirrorMakerTopicReader(RecordWiseTopicReader, Generic[_Record]):
    """Reader of MM2's checkpoints or heartbeats: the last readable record of a key counts."""

    def __init__(self, record_of: Callable[[Message], _Record | Undecodable]) -> None:
        super().__init__()
        self._record_of: Callable[[Message], _Record | Undecodable] = record_of
        self._last: dict[bytes, _Record] = {}
        self._unreadable: dict[bytes, str] = {}

    @property
    def keys(self) -> int:
        return len(self._last) + len(self._unreadable)

    def _fold(self, key: bytes, message: Message) -> None:
        record = self._record_of(message)
        if key not in self._last and key not in self._unreadable:
            self.size += len(key)
        self._unreadable.pop(key, None)
        if isinstance(record, Undecodable):
            self._unreadable[key] = record.reason
        else:
            self._last[key] = record

    def folded(self) -> tuple[Records, Counter[str]]:
        """See TopicReader. Records of different keys do not depend on each other."""
        newest, unreadable = tuple(self._last.values()), Counter(self._unreadable.values())
        self._last.clear()
        self._unreadable.clear()
        self.size = 0
        return newest, unreadable

    def _decode(self, message: Message) -> _Record | Undecodable:
        return self._record_of(message)


def _decode_checkpoint_record(message: Message) -> CheckpointRecord | Undecodable:
    """Decode a checkpoint without its metadata: 32 KiB for each key, of which nothing is read."""
    said = decode_checkpoint(_bytes_or_none(message.key()), _bytes_or_none(message.value()))
    return (
        said
        if isinstance(said, Undecodable)
        else CheckpointRecord(replace(said, metadata=""), at=_read_timestamp(message))
    )


def _decode_heartbeat_record(message: Message) -> HeartbeatRecord | Undecodable:
    said = decode_heartbeat(_bytes_or_none(message.key()), _bytes_or_none(message.value()))
    return said if isinstance(said, Undecodable) else HeartbeatRecord(said)


def _is_outdated(says: _Listing, before: _Listing) -> bool:
    return (
        isinstance(says, ConnectorStatus | TaskStatus)
        and isinstance(before, ConnectorStatus | TaskStatus)
        and says.condition is not None
        and before.condition is not None
        and says.condition.outdated_by(before.condition)
    )


def choose_topic_reader(topology: Topology, topic: KafkaTopic) -> Callable[[], TopicReader]:
    """Return the constructor of the TopicReader for a topic that the topology names."""
    if topic in {offsets_topic.at for offsets_topic in topology.offsets_topics}:
        return SourceOffsetsTopicReader
    if topic in {listing.configs for listing in topology.listings}:
        return partial(ListingTopicReader, decode_config)
    if topic in {listing.status for listing in topology.listings} | {
        status.at for status in topology.statuses
    }:
        return partial(ListingTopicReader, decode_status)
    if topic in topology.checkpoints:
        return partial(MirrorMakerTopicReader, _decode_checkpoint_record)
    if topic in topology.heartbeats:
        return partial(MirrorMakerTopicReader, _decode_heartbeat_record)
    return OffsetSyncsTopicReader
