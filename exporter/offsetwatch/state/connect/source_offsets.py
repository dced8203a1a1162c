"""Source offsets in the offsets topics of a Connect cluster: newest records and counts of changes.

Connect finds an offset by the bytes of its key. Of several raw keys of one source partition, the
one that the connector commits under moves it (raw_keys.py); the others are counted as variants.
Nearly all partitions have one raw key, so the state for several is only kept where there are
several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from offsetwatch.decode.dialects import (
    compare_offsets,
    describe_offset,
    has_reached_offset,
    is_treated_as_absent,
    read_position,
    resolve_dialect,
)
from offsetwatch.decode.java.hash_map import build_connect_key_from_json
from offsetwatch.decode.source_offsets import decode_key, format_namesake_label
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import (
    FLOAT_EXACT_MAX,
    MirrorPartition,
    Order,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from offsetwatch.state.clock_skew import has_timestamp, is_later
from offsetwatch.state.connect.raw_keys import (
    FieldOrder,
    KeySpellings,
    KnownSpellings,
    OffsetRecord,
    OffsetRecordPosition,
    SpellingChange,
    SpellingInUse,
    choose_newest_record,
    locate_record,
    parse_field_order,
)
from offsetwatch.state.key_budget import KeyBudget
from offsetwatch.state.memo import Memo
from offsetwatch.state.mirror.lag import MirrorPosition
from offsetwatch.state.snapshot import RawKeysView, SourcePartitionView

# A connector writes all its source partitions in one order of fields, or in few.
ORDER_SAMPLES_MAX: Final = 32
ORDERS_MAX: Final = 8

# Why a source partition, or a raw key of it, is left out.
_DROP_REASON: Final = "source_partitions_max"
_ORDER_BEHIND = Order.BEHIND  # it is asked for with every commit, and enums are slow to look up


def accept_all(_name: str) -> bool:
    """Accept every name."""
    return True


class _SeveralRawKeys(msgspec.Struct, gc=False):
    """State of a source partition with several raw keys.

    position    the last one that was certain
    restarted   the change of raw key since which it has not come as far again
    """

    use: SpellingInUse
    position: SourceOffset | None
    restarted: SpellingChange | None = None


class _Partition(msgspec.Struct, gc=False):
    """State of one source partition.

    log_offset  -1 if the topic holds no record of it that counts
    own_key     the raw key that moves it; None: the one of a HashMap that was filled in the order
                of the identity
    variants    its raw keys that hold a value and that no worker writes; seldom any, and an empty
                frozenset takes no memory
    several     which raw key is in use, where a worker may write several
    records     its last record in each Kafka partition if there are several, and it was not read
                live which of them is the newest
    rivals      the offsets of those that may be the newest, if they differ
    namesake    another source partition of its connector has the same label
    view        the cached view, dropped at each change
    index       its index among the sorted views; -1 if it is none of them
    """

    key: SourceKey
    offset: SourceOffset | None = None
    kafka_partition: int = -1
    log_offset: int = -1
    committed_at: float | None = None
    advanced_at: float | None = None
    read_at: float | None = None
    commits: int = 0
    advances: int = 0
    rewinds: int = 0
    resets: int = 0
    own_key: bytes | None = None
    variants: frozenset[bytes] = frozenset()
    several: _SeveralRawKeys | None = None
    records: tuple[OffsetRecord, ...] = ()
    rivals: tuple[SourceOffset, ...] = ()
    namesake: bool = False
    view: SourcePartitionView | None = None
    index: int = -1


class SourceBook:
    """Source partitions in one offsets topic of a Connect cluster, at most `partitions_max`.

    Their raw keys take no more than a KeyBudget of that many keys. `wants_topic` selects upstream
    topics of MirrorMaker 2.
    """

    def __init__(
        self,
        connect_cluster: str,
        partitions_max: int,
        wants_topic: Callable[[str], bool] = accept_all,
        known: Mapping[str, dict[str, KnownSpellings]] | None = None,
        known_orders: Mapping[str, Collection[FieldOrder]] | None = None,
    ) -> None:
        """Create a book from what was known before a restart.

        `known` has the raw keys by connector and identity. `known_orders` has, by connector, the
        field orders of source partitions with one raw key.
        """
        self._known_spellings = dict(known or {})
        self._known_orders = dict(known_orders or {})
        self._without_order: list[_Partition] = []  # they were added, and not looked at since
        self._orders: dict[str, set[FieldOrder]] = {}
        self._connect_cluster = connect_cluster
        self._wants_topic = wants_topic
        self._of: dict[str, dict[str, _Partition]] = {}
        self._labels: dict[str, dict[str, _Partition]] = {}
        self._budget = KeyBudget(partitions_max)
        self._classes: dict[str, str] = {}
        self._frozen: frozenset[int] = frozenset()
        self._mirrors: dict[tuple[str, str], dict[MirrorPartition, _Partition]] = {}
        self._unread: dict[tuple[str, str], Memo[bool]] = {}
        self._watched: dict[str, dict[str, set[str | None]]] = {}
        self._spellings: dict[str, KeySpellings] = {}
        self._committed: dict[str, tuple[float, float]] = {}  # by timestamp, and by our clock
        self._in_order: list[_Partition] | None = None
        # Of which connectors, their partitions, and the views of these but for what is outdated:
        # 20,000 are put together in no time if those that changed were replaced as they came.
        self._views: tuple[frozenset[str], list[_Partition], list[SourcePartitionView]] | None
        self._views = None
        self._outdated: list[_Partition] = []
        self._exported: Memo[tuple[SourcePartitionView, ...]] = Memo()
        self.dropped: Counter[str] = Counter()
        self.version = 0
        self.layout: object = object()
        """Another one whenever other source partitions are shown, or with more or fewer fields."""

    def apply(
        self, records: tuple[SourceRecord, ...], read_at: float, *, whole: bool = False
    ) -> None:
        """Apply records in topic order; `read_at` is by our clock.

        `whole`: the topic holds no others. What is not among them is forgotten, and known log
        offsets are dropped, as they may be of a topic that is gone.
        """
        if whole:
            for partition in self._all():
                partition.log_offset = -1
                partition.records = ()
                partition.variants = frozenset()
                partition.view = None
            for spellings in self._spellings.values():
                spellings.begin_whole()
            self._views = None
        several = self._apply_all(records, read_at)
        if whole:
            self._known_spellings.clear()
            self._known_orders.clear()
            for spellings in self._spellings.values():
                spellings.end_whole()
        for partition in several:
            self._settle(partition)
        if whole:
            for partition in self._all():
                if partition.log_offset < 0 and not self._has_spellings(partition):
                    self._forget(partition)
            self._budget.size = sum(map(self._key_bytes, self._all()))
        self.version += whole or bool(records)

    def prepare(self) -> None:
        """Rebuild the views that were shown and have changed, ahead of `views`."""
        views = [] if self._views is None else self._views[2]
        for partition in self._outdated:
            view = partition.view or self._view(partition)
            if views and partition.index >= 0:
                views[partition.index] = view
        self._outdated.clear()

    def remembered(self) -> dict[str, dict[str, KnownSpellings]]:
        """Return the raw keys that must survive a restart, by connector and identity."""
        remembered = dict(self._known_spellings)  # until the topic was read once
        for connector, spellings in self._spellings.items():
            if known := spellings.remembered():
                remembered[connector] = {**remembered.get(connector, {}), **known}
        return remembered

    def remembered_orders(self) -> dict[str, tuple[FieldOrder, ...]]:
        """Return the field orders of source partitions with one raw key, by connector.

        After a restart a raw key of another order is a stray beside one of these.
        """
        for partition in self._without_order:
            if partition.several is None and partition.log_offset >= 0:
                orders = self._orders.setdefault(partition.key.connector, set())
                if len(orders) < ORDERS_MAX:
                    orders.add(parse_field_order(_find_raw_key(partition)))
        self._without_order.clear()
        known_orders = {name: tuple(orders) for name, orders in self._known_orders.items()}
        return known_orders | {name: tuple(sorted(orders)) for name, orders in self._orders.items()}

    def freeze(self, frozen: frozenset[int]) -> None:
        """Hide the offsets in these Kafka partitions: newer commits there may be unread."""
        if frozen != self._frozen:
            self._frozen = frozen
            self.version += 1
            self.layout = object()

    def _apply_all(self, records: tuple[SourceRecord, ...], read_at: float) -> Iterable[_Partition]:
        """Apply records. Return the partitions with several raw keys that are not settled yet."""
        several: dict[tuple[str, str], _Partition] = {}
        for record in records:
            key = record.key
            partition = self._find(key.connector, key.identity)
            if partition is None:
                if not self._budget.admits(len(record.raw_key)):
                    self.dropped[_DROP_REASON] += 1
                    continue
                partition = self._add(key)
                self._budget.add(len(record.raw_key) if key.is_spelling else 0)
            elif (
                not self._budget.admits_bytes(len(record.raw_key))
                and record.raw_key not in partition.variants
                and record.raw_key not in self._raw_keys(partition)
            ):
                self.dropped[_DROP_REASON] += 1
                continue
            partition.read_at = read_at
            if not key.is_spelling:
                self._note_variant(partition, record)
            elif self._is_alone(partition, record):
                self._apply(partition, record, read_at)
            else:
                if record.raw_key not in self._raw_keys(partition):
                    self._budget.add(len(record.raw_key), keys=0)
                if record.live:
                    self._apply_several(partition, record, read_at)
                else:  # of these none may be judged before all are read
                    self._spellings_of(partition, live=False).add(record)
                    several[key.connector, key.identity] = partition
            if partition.view is not None:
                partition.view = None
                self._outdated.append(partition)
        return several.values()

    def _raw_keys(self, partition: _Partition) -> tuple[bytes, ...]:
        spellings = self._spellings.get(partition.key.connector)
        if spellings is not None and partition.key.identity in spellings:
            written = spellings.spellings(partition.key.identity)
            return tuple(spelling.raw_key for spelling in written)
        return (_find_raw_key(partition),) if partition.log_offset >= 0 else ()

    def _key_bytes(self, partition: _Partition) -> int:
        """Return the length of all raw keys of a partition; one in HashMap order is not kept."""
        key, size = partition.key, sum(map(len, partition.variants))
        spellings = self._spellings.get(key.connector)
        if spellings is not None and key.identity in spellings:
            written = spellings.spellings(key.identity)
            return size + sum(len(spelling.raw_key) for spelling in written)
        return size + len(partition.own_key or key.connector + key.identity)

    def _has_spellings(self, partition: _Partition) -> bool:
        spellings = self._spellings.get(partition.key.connector)
        return spellings is not None and partition.key.identity in spellings

    def _note_variant(self, partition: _Partition, record: SourceRecord) -> None:
        before = len(partition.variants)
        if record.offset is None:
            partition.variants -= {record.raw_key}
        else:
            partition.variants |= {record.raw_key}
        self._budget.add(len(record.raw_key) * (len(partition.variants) - before), keys=0)

    def _all(self) -> Iterator[_Partition]:
        return chain.from_iterable(of.values() for of in self._of.values())

    def _find(self, connector: str, identity: str) -> _Partition | None:
        of = self._of.get(connector)
        return None if of is None else of.get(identity)

    def _add(self, key: SourceKey) -> _Partition:
        partition = self._of.setdefault(key.connector, {})[key.identity] = _Partition(key)
        if len(self._of[key.connector]) <= ORDER_SAMPLES_MAX:
            self._without_order.append(partition)
        self._in_order = self._views = None
        self.layout = object()
        first = self._labels.setdefault(key.connector, {}).setdefault(key.label, partition)
        if first is not partition:
            first.namesake = partition.namesake = True
            first.view = None
        if key.mirror is not None:
            flow = (key.connector, key.mirror.cluster)
            self._mirrors.setdefault(flow, {})[key.mirror] = partition
        return partition

    def _is_alone(self, partition: _Partition, record: SourceRecord) -> bool:
        """Return whether the partition has no other raw key that a task may look up."""
        own_key = record.raw_key if record.key.ordered else None
        if own_key is not None and record.key.mirror is not None:
            return False  # whether a task may look it up depends on the connector's class
        spellings = self._spellings.get(partition.key.connector)
        if spellings is None:
            if partition.log_offset < 0:
                partition.own_key = own_key
            return partition.own_key == own_key
        if partition.several is not None or partition.key.identity in spellings:
            return False
        if partition.log_offset >= 0 and partition.own_key != own_key:
            return False
        partition.own_key = own_key
        spellings.note(record)
        return True

    def _spellings_of(self, partition: _Partition, *, live: bool) -> KeySpellings:
        """Return the spellings of a connector, with those of this partition, which has several."""
        connector = partition.key.connector
        spellings = self._spellings.get(connector)
        if spellings is None:
            known = self._known_spellings.get(connector)
            spellings = KeySpellings(
                known, self._classes.get(connector, ""), self._known_orders.get(connector, ())
            )
            self._spellings[connector] = spellings
            for other in self._of[connector].values():
                if other is not partition and other.log_offset >= 0:
                    for record in _build_newest_records(other):
                        spellings.note(record)
        if partition.key.identity not in spellings and partition.log_offset >= 0:
            for record in _build_newest_records(partition):
                spellings.add(record)
            if live:
                spellings.in_use(partition.key.identity)
                self._settle(partition)
        return spellings

    def _apply_several(self, partition: _Partition, record: SourceRecord, read_at: float) -> None:
        spellings = self._spellings_of(partition, live=True)
        before = partition.several
        known = partition.offset if before is None else before.position
        self._note_rest_text(partition)
        if not spellings.add(record):
            return
        self._settle(partition)
        self._note_rest_text(partition)
        assert partition.several is not None
        after, change = partition.several, partition.several.use.change
        if after.use.spelling is None:
            return
        if change is not None and (before is None or before.use.change != change):
            after.restarted = change if change.restarted else None
            partition.rewinds += change.restarted
        elif compare_offsets(self._dialect(partition.key), known, after.position) is _ORDER_BEHIND:
            partition.rewinds += 1
        if record.raw_key == after.use.spelling.raw_key:
            partition.commits += 1
            partition.resets += record.offset is None and known is not None
            if after.position is not None:
                partition.advances += _format_offset(known) != after.position.text
                self._note_commit(record, read_at)

    def _note_commit(self, record: SourceRecord, read_at: float) -> None:
        committed_at = record.at if has_timestamp(record.at) else read_at
        self._committed[record.key.connector] = (committed_at, read_at)

    def _settle(self, partition: _Partition) -> None:
        """Set the offset to that of the raw key in use; to None if that is not known."""
        use = self._spellings[partition.key.connector].in_use(partition.key.identity)
        partition.records = partition.rivals = ()
        before, spelling = partition.several, use.spelling
        position = partition.offset if before is None else before.position
        change = use.change if before is None else before.restarted
        restarted = change if change is not None and change.restarted else None
        if spelling is None:
            newest = use.unsure[0].position if use.unsure else None
            self._set(partition, None)
        else:
            newest = spelling.position
            advanced = _format_offset(position) != _format_offset(spelling.value)
            partition.advanced_at = newest.at if advanced else partition.advanced_at
            partition.own_key = spelling.raw_key if spelling.key.ordered else None
            position = spelling.value
            self._set(partition, position)
        if newest is None:  # no key of it is one that a task looks up
            partition.kafka_partition = partition.log_offset = -1
        else:
            partition.committed_at, partition.kafka_partition, partition.log_offset, _ = newest
        if restarted is not None and has_reached_offset(
            self._dialect(partition.key), restarted.offset, position
        ):
            restarted = None
        partition.several = _SeveralRawKeys(use, position, restarted)

    def _apply(self, partition: _Partition, record: SourceRecord, read_at: float) -> None:
        if not record.live and _has_several_logs(partition, record):
            self._apply_to_several_logs(partition, record)
            return
        if not _is_newer(partition, record):
            return
        offset = _read_effective_offset(record)
        partition.records = partition.rivals = ()
        partition.kafka_partition = record.partition
        partition.log_offset = record.log_offset
        before = partition.offset
        self._note_rest_text(partition)
        self._set(partition, offset)
        self._note_rest_text(partition)
        changed = _format_offset(before) != _format_offset(offset)
        if record.live:
            partition.commits += 1
            if record.offset is None and before is not None:  # there was something to take back
                partition.resets += 1
            elif changed and not isinstance(record.offset, Undecodable):
                partition.advances += 1
            if changed:
                order = compare_offsets(self._dialect(partition.key), before, offset)
                partition.rewinds += order is _ORDER_BEHIND
            if offset is not None:
                self._note_commit(record, read_at)
        # Read again, an unchanged record has nothing new to say of when it last changed: by then
        # the topic may have been compacted, and tells less than we know.
        again = partition.committed_at == record.at and not changed
        partition.committed_at = record.at
        if record.advanced_at is None:
            partition.advanced_at = record.at if changed else partition.advanced_at
        elif not again:
            partition.advanced_at = record.advanced_at
        if offset is not None:
            for _, number in offset.numbers:
                if not -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX:
                    self.dropped["inexact"] += 1
                    break

    def _apply_to_several_logs(self, partition: _Partition, record: SourceRecord) -> None:
        """Apply a record that was there before, of a key that other Kafka partitions have, too."""
        position = locate_record(record)
        records = {known.position.partition: known for known in _list_records(partition)}
        before = records.get(position.partition)
        if before is not None and not position.is_after(before.position):
            return
        records[position.partition] = OffsetRecord(position, _read_effective_offset(record))
        partition.records = tuple(records.values())
        newest, contested = choose_newest_record(partition.records)
        partition.rivals = _list_rivals(partition.records, newest) if contested else ()
        if newest.position == position:
            partition.advanced_at = record.at if record.advanced_at is None else record.advanced_at
        offset = newest.offset
        assert not isinstance(offset, Undecodable)
        self._note_rest_text(partition)
        self._set(partition, None if contested else offset)
        self._note_rest_text(partition)
        partition.committed_at, partition.kafka_partition, partition.log_offset, _ = newest.position

    def _forget(self, partition: _Partition) -> None:
        """Clear a partition of which the topic holds no record any more."""
        self._note_rest_text(partition)
        partition.own_key = partition.several = None
        partition.records = partition.rivals = ()
        self._set(partition, None)
        self._note_rest_text(partition)

    def _note_rest_text(self, partition: _Partition) -> None:
        """Record the offset that REST would show, if the connector is watched."""
        texts = self._watched.get(partition.key.connector)
        if texts is not None:
            texts.setdefault(partition.key.identity, set()).update(self._rest_texts(partition))

    def _rest_texts(self, partition: _Partition) -> tuple[str | None, ...]:
        """Return the offsets that REST may show: those of HashMap keys, whatever the task uses.

        Of several such keys (has_several_hash_map_orders) it shows any one.
        """
        if partition.several is not None:
            spellings = self._spellings[partition.key.connector]
            written = spellings.spellings(partition.key.identity)
            texts = [_format_offset(spelling.value) for spelling in written if spelling.by_rest]
            return tuple(texts) or (None,)
        return (_format_offset(partition.offset) if _is_hash_map_key(partition.own_key) else None,)

    def _set(self, partition: _Partition, offset: SourceOffset | None) -> None:
        before = partition.offset
        if before is None or offset is None or len(before.numbers) != len(offset.numbers):
            self.layout = object()
        partition.offset = offset

    def classify(self, classes: Mapping[str, str]) -> None:
        """Set the classes of connectors, by name: the meaning of offsets depends on the class."""
        changed = {name for name in self._of if classes.get(name) != self._classes.get(name)}
        self._classes = dict(classes)
        for name in changed & self._spellings.keys():
            if not classes.get(name):
                continue  # nothing is known of another class
            self._spellings[name].class_name = classes[name]
            for partition in self._of[name].values():
                if partition.several is not None:
                    self._settle(partition)
        for partition in chain.from_iterable(self._of[name].values() for name in changed):
            partition.view = None
        if changed:
            self._views = None
            self.version += 1

    def _dialect(self, key: SourceKey) -> str:
        return resolve_dialect(key.dialect, self._classes.get(key.connector, ""))

    def mirrored(self, connector: str, source: str) -> dict[MirrorPartition, MirrorPosition]:
        """Return committed offsets of a MirrorSourceConnector; others than `source` are dead."""
        positions: dict[MirrorPartition, MirrorPosition] = {}
        for mirror, partition in self._mirrors.get((connector, source), {}).items():
            offset = read_position(partition.key.dialect, partition.offset)
            if offset is None or partition.committed_at is None:
                continue
            if self._is_exported(partition):
                positions[mirror] = MirrorPosition(offset=offset, at=partition.committed_at)
        return positions

    def claimed(self, connector: str, source: str) -> tuple[MirrorPartition, ...]:
        """Return the upstream partitions that the connector has an offset for, shown or not."""
        mirrors = self._mirrors.get((connector, source), {})
        return tuple(
            mirror for mirror, partition in mirrors.items() if _has_resumable_offset(partition)
        )

    def complete(self) -> bool:
        """Return whether a partition that is not known is certainly not in the topic."""
        return not self._frozen and _DROP_REASON not in self.dropped

    def uncommitted(self, connector: str, mirror: MirrorPartition) -> bool:
        """Return whether the connector certainly has no offset for this upstream partition."""
        partition = self._mirrors.get((connector, mirror.cluster), {}).get(mirror)
        return self.complete() and (partition is None or not _has_resumable_offset(partition))

    def has_unknown_positions(self, connector: str, source: str) -> bool:
        """Return whether the connector may have a position that is not known."""
        if not self.complete():
            return True
        return self._unread.setdefault((connector, source), Memo()).get(
            self.version,
            make=lambda: any(
                _has_resumable_offset(partition)
                and read_position(partition.key.dialect, partition.offset) is None
                for partition in self._mirrors.get((connector, source), {}).values()
            ),
        )

    def watch(self, connector: str) -> None:
        """Record every offset of this connector from now on, until `unwatch`."""
        self._watched.setdefault(connector, {})

    def unwatch(self, connector: str) -> None:
        """Stop recording the offsets of this connector."""
        self._watched.pop(connector, None)

    def agrees(self, connector: str, identity: str, text: str | None) -> bool:
        """Return whether the topic has this offset, or had it at any moment since `watch`."""
        if self._frozen:
            return True  # an open transaction may hide what REST has seen
        partition = self._find(connector, identity)
        if partition is None and (_DROP_REASON in self.dropped or not self._budget.admits(0)):
            return True  # it may be one of those that the bound cut: nothing is known of it
        if text in ((None,) if partition is None else self._rest_texts(partition)):
            return True
        if partition is not None and partition.rivals:
            return True  # it may be any of them
        return text in self._watched.get(connector, {}).get(identity, ())

    def offset_text(self, connector: str, identity: str) -> str | None:
        """Return the newest effective offset of a source partition, as compared with REST's."""
        partition = self._find(connector, identity)
        return None if partition is None else self._rest_texts(partition)[0]

    def committing(self, since: float) -> frozenset[str]:
        """Return the connectors with a commit read live since `since`, by our clock."""
        return frozenset(name for name, (_, moment) in self._committed.items() if moment >= since)

    def committed_at(self, connector: str) -> float | None:
        """Return the timestamp of this connector's newest commit that was read live."""
        committed = self._committed.get(connector)
        return None if committed is None else committed[0]

    def held(self, connector: str) -> tuple[str, ...]:
        """Return the identities of a connector's partitions with an offset that REST lists."""
        return tuple(
            identity
            for identity, partition in self._of.get(connector, {}).items()
            if _has_offset(partition) and not partition.key.without_partition
        )

    def connectors(self) -> tuple[str, ...]:
        """Return every connector that has an offset."""
        return tuple(
            name
            for name, partitions in self._of.items()
            if any(_has_offset(partition) for partition in partitions.values())
        )

    def views_of(self, connector: str) -> tuple[SourcePartitionView, ...]:
        """Return the views of one connector's source partitions, in no order."""
        return tuple(
            partition.view or self._view(partition)
            for partition in self._of.get(connector, {}).values()
            if self._is_exported(partition)
        )

    def views(self, listed: frozenset[str]) -> tuple[SourcePartitionView, ...]:
        """Return the views of these connectors' partitions; the same tuple while unchanged."""
        return self._exported.get(self.version, listed, make=lambda: self._build_views(listed))

    def _build_views(self, listed: frozenset[str]) -> tuple[SourcePartitionView, ...]:
        self.prepare()
        if self._in_order is None:
            self._in_order = [
                of[identity] for _, of in sorted(self._of.items()) for identity in sorted(of)
            ]
            self._views = None
        if self._views is None or self._views[0] != listed:
            included: list[_Partition] = []
            for partition in self._in_order:
                partition.index = -1
                if partition.key.connector in listed and self._is_included(partition):
                    partition.index = len(included)
                    included.append(partition)
            views = [partition.view or self._view(partition) for partition in included]
            self._views = (listed, included, views)
        _, included, views = self._views
        if not self._frozen:
            return tuple(views)
        return tuple(
            view
            for partition, view in zip(included, views, strict=True)
            if partition.kafka_partition not in self._frozen
        )

    def _is_exported(self, partition: _Partition) -> bool:
        return partition.kafka_partition not in self._frozen and self._is_included(partition)

    def _is_included(self, partition: _Partition) -> bool:
        return partition.key.mirror is None or self._wants_topic(partition.key.mirror.topic)

    def _view(self, partition: _Partition) -> SourcePartitionView:
        key, offset = partition.key, partition.offset
        logged = partition.log_offset >= 0
        dialect, event_at, broken = describe_offset(
            key.dialect, offset, self._classes.get(key.connector, "")
        )
        partition.view = view = SourcePartitionView(
            connect_cluster=self._connect_cluster,
            connector=key.connector,
            identity=key.identity,
            label=format_namesake_label(key.label, key.identity)
            if partition.namesake
            else key.label,
            dialect=dialect,
            offset=offset,
            event_at=event_at,
            poisoned=broken,
            kafka_partition=partition.kafka_partition if logged else None,
            log_offset=partition.log_offset if logged else None,
            committed_at=None if offset is None else _drop_missing_time(partition.committed_at),
            advanced_at=None if offset is None else _drop_missing_time(partition.advanced_at),
            read_at=partition.read_at,
            commits=partition.commits,
            advances=partition.advances,
            rewinds=partition.rewinds,
            resets=partition.resets,
            variants=len(partition.variants) + _count_other_keys(partition),
            keys=_build_keys_view(partition),
        )
        return view


def _drop_missing_time(moment: float | None) -> float | None:
    return moment if moment is not None and has_timestamp(moment) else None


def _has_several_logs(partition: _Partition, record: SourceRecord) -> bool:
    if partition.log_offset < 0:
        return False
    return bool(partition.records) or record.partition != partition.kafka_partition


def _list_records(partition: _Partition) -> tuple[OffsetRecord, ...]:
    """Return the last record in each Kafka partition, as far as one of these may be the newest."""
    if partition.records or partition.log_offset < 0:
        return partition.records
    position = OffsetRecordPosition(
        partition.committed_at or 0.0, partition.kafka_partition, partition.log_offset
    )
    return (OffsetRecord(position, partition.offset),)


def _list_rivals(records: Iterable[OffsetRecord], newest: OffsetRecord) -> tuple[SourceOffset, ...]:
    """Return the different offsets of the records that may be the newest."""
    rivals = {
        record.offset.text: record.offset
        for record in records
        if not newest.position.is_after(record.position) and isinstance(record.offset, SourceOffset)
    }
    return tuple(rivals.values())


def _is_newer(partition: _Partition, record: SourceRecord) -> bool:
    """Return whether a record is newer than the known one of its key.

    The log offset orders the records of one key. The same key in two Kafka partitions (a changed
    partition count, a foreign writer) has no order but that of reading both live, or timestamps
    that are further apart than clocks are.
    """
    if partition.log_offset < 0 or record.partition == partition.kafka_partition:
        return record.log_offset > partition.log_offset
    return not is_later(partition.committed_at or 0.0, record.at)


def _read_effective_offset(record: SourceRecord) -> SourceOffset | None:
    """Return the offset that a task receives; None for a tombstone or an equivalent value."""
    offset = record.offset
    return offset if isinstance(offset, SourceOffset) and not offset.is_null else None


def _has_offset(partition: _Partition) -> bool:
    """Return whether a partition has, or may have, an offset."""
    several = partition.several
    return (
        partition.offset is not None
        or bool(partition.rivals)
        or (several is not None and bool(several.use.unsure))
    )


def _has_resumable_offset(partition: _Partition) -> bool:
    """Return whether MirrorMaker resumes, or may resume, from an offset of this partition."""
    return _has_offset(partition) and not is_treated_as_absent(
        partition.key.dialect, partition.offset
    )


def _count_other_keys(partition: _Partition) -> int:
    """Return how many raw keys that a worker may have written hold an offset and are not in use."""
    several = partition.several
    if several is None:
        return 0
    use = several.use
    return use.others if use.spelling is not None else len(use.unsure) + len(use.strays)


def _build_keys_view(partition: _Partition) -> RawKeysView | None:
    several, strays = partition.several, len(partition.variants)
    if partition.rivals:
        raw_key = _find_raw_key(partition)
        return RawKeysView(None, strays, tuple((raw_key, rival) for rival in partition.rivals))
    if several is None:
        return None if partition.own_key is None else RawKeysView(partition.own_key, strays)
    return RawKeysView(
        partition.own_key,
        strays + len(several.use.strays),
        tuple((spelling.raw_key, spelling.value) for spelling in several.use.unsure),
        several.restarted,
    )


def _build_newest_records(partition: _Partition) -> Iterator[SourceRecord]:
    raw_key = _find_raw_key(partition)
    key = decode_key(raw_key)
    assert isinstance(key, SourceKey)
    for record in _list_records(partition):
        yield SourceRecord(
            key=key,
            raw_key=raw_key,
            offset=record.offset,
            partition=record.position.partition,
            log_offset=record.position.log_offset,
            at=record.position.at,
            advanced_at=partition.advanced_at,
            live=False,
        )


def _find_raw_key(partition: _Partition) -> bytes:
    key = partition.key
    raw_key = partition.own_key or build_connect_key_from_json(key.connector, key.identity)
    assert raw_key is not None
    return raw_key


def _is_hash_map_key(own_key: bytes | None) -> bool:
    key = None if own_key is None else decode_key(own_key)
    return own_key is None or (isinstance(key, SourceKey) and key.canonical)


def _format_offset(offset: SourceOffset | None) -> str | None:
    return None if offset is None else offset.text


def build_superseded_views(
    own: Iterable[SourcePartitionView], home: Iterable[SourcePartitionView]
) -> tuple[SourcePartitionView, ...]:
    """Return the views of a connector with its own topic that only the cluster's topic has."""
    labels = {view.identity: view.label for view in own}
    used_labels = frozenset(labels.values())
    return tuple(
        replace(
            view,
            label=format_namesake_label(view.label, view.identity)
            if view.label in used_labels
            else view.label,
            offset=None,
            kafka_partition=None,
            log_offset=None,
            committed_at=None,
            advanced_at=None,
            read_at=None,
            commits=0,
            advances=0,
            rewinds=0,
            resets=0,
            shadow=view.offset,
        )
        for view in home
        if view.offset is not None and view.identity not in labels
    )
