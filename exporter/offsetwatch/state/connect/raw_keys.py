"""Raw keys of source partitions in offsets topics, and the one that a task looks up.

A task writes and looks up the bytes that its own map serialises to (OffsetStorageWriter and
-ReaderImpl): the order of a LinkedHashMap, a TreeMap, or a Map.of, which differs between JVMs. Only
what passes through REST is a java.util.HashMap. So several raw keys, the SPELLINGS of one source
partition, may hold offsets, and nothing in a key shows which one a task reads. The commits under it
do:

* The connector goes on committing under the spelling that its task looks up. The newest commit
  counts: by log offset inside a Kafka partition; across them by the order in which they were read
  live, or by timestamps that are further apart than clocks are. Else there is no order.
* A record with offsetwatch's header comes from an operator, and is no evidence. Nor is a tombstone.
* A PATCH over REST has no header. It is written once, in HashMap order, while the connector is
  stopped; a second attempt is another such record. So HashMap order needs three moments to replace
  another spelling, any other order two, and one is enough to be confirmed again.
* One class writes all partitions of the same fields alike, so what the connector commits for the
  others confirms a spelling, too.

Until the spelling is confirmed the position is unknown. Pure; used by the source book, by
remediation and by the history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from offsetwatch.decode.dialects import (
    has_hash_maps,
    has_reached_offset,
    is_lookup_key,
    resolve_dialect,
)
from offsetwatch.decode.json_text import parse_json
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import SourceKey, SourceOffset, Undecodable
from offsetwatch.state.clock_skew import is_later

FLUSH_WINDOW_S: Final = 1.0  # records closer together are one flush, or one request over REST
_COMMITS_NEEDED: Final = 2
_REST_COMMITS_NEEDED: Final = 3  # what a person asks of REST twice is no connector that goes on


class OffsetRecordPosition(NamedTuple):
    """Position of a record in the offsets topic, with its timestamp in Unix seconds.

    `read` is its number among the records read live; 0 if it was there when the topic was first
    read.
    """

    at: float
    partition: int
    log_offset: int
    read: int = 0

    def is_after(self, other: OffsetRecordPosition) -> bool:
        """Return whether this record is certainly newer. In two Kafka partitions neither may be."""
        if self.partition == other.partition:
            return self.log_offset > other.log_offset
        if is_later(self.at, other.at) or is_later(other.at, self.at):
            return self.at > other.at
        return self.read > other.read


class OffsetRecord(NamedTuple):
    """Record of a raw key. `ours`: it was written by offsetwatch."""

    position: OffsetRecordPosition
    offset: SourceOffset | Undecodable | None
    ours: bool = False


def choose_newest_record(records: Sequence[OffsetRecord]) -> tuple[OffsetRecord, bool]:
    """Return the newest of the last records of a raw key in several Kafka partitions.

    Also returns whether it is contested: another one with another offset may be newer. Connect has
    no order for them either: a worker that starts uses the one that it reads last.
    """
    candidates = [
        record
        for record in records
        if not any(other.position.is_after(record.position) for other in records)
    ]
    newest = max(candidates, key=lambda record: (record.position.at, record.position.partition))
    return newest, len({_read_effective_text(record.offset) for record in candidates}) > 1


def _read_effective_text(offset: SourceOffset | Undecodable | None) -> str | None:
    return offset.text if isinstance(offset, SourceOffset) and not offset.is_null else None


FieldOrder = tuple[str, ...]  # names of the fields in the order of a key

# The newest moments at which the connector committed so.
_CommitsByOrder = dict[FieldOrder, tuple[OffsetRecordPosition, ...]]


class Spelling(msgspec.Struct, gc=False):
    """Spelling: one raw key of a source partition, with its newest record.

    place, offset, ours    of its newest record; `ours`: it was written by offsetwatch
    committed  its newest commit without a header of ours; None if there was none
    moments    number of its commits since the last one of any other spelling
    most       the greatest such number so far
    first      the offset of the first of those
    intruder   it first appeared while another spelling was in use
    elsewhere  its last records in other Kafka partitions
    contested  one of those may be the newest
    present    it was among the records of the last reading of the whole topic
    """

    key: SourceKey
    raw_key: bytes
    position: OffsetRecordPosition
    offset: SourceOffset | Undecodable | None
    ours: bool = False
    committed: OffsetRecordPosition | None = None
    moments: int = 0
    most: int = 0
    first: SourceOffset | None = None
    intruder: bool = False
    elsewhere: tuple[OffsetRecord, ...] = ()
    contested: bool = False
    present: bool = True

    @property
    def value(self) -> SourceOffset | None:
        """Return the offset that a task receives for this key; None for none."""
        offset = self.offset
        return offset if isinstance(offset, SourceOffset) and not offset.is_null else None

    @property
    def by_rest(self) -> bool:
        """Return whether these are the bytes that REST looks up and writes."""
        return self.key.canonical

    @property
    def needed(self) -> int:
        """Return how many moments prove that the connector commits under this key."""
        return _REST_COMMITS_NEEDED if self.by_rest else _COMMITS_NEEDED


class SpellingChange(NamedTuple):
    """Change of spelling: a task began to look up another raw key, with another offset or none.

    at         Unix seconds: of the newest commit that showed it
    offset     the offset under the raw key before
    restarted  the task did not go on from there
    """

    before: bytes
    after: bytes
    at: float
    offset: SourceOffset | None
    restarted: bool


class SpellingInUse(NamedTuple):
    """Spelling that a task looks up, with other raw keys of its source partition.

    spelling   None if it cannot be determined
    unsure     the candidates, the newest first; empty if there is no doubt
    strays     raw keys with an offset from another writer that no task reads
    change     the last change of spelling
    others     number of other spellings with an offset, including strays
    """

    spelling: Spelling | None
    unsure: tuple[Spelling, ...] = ()
    strays: frozenset[bytes] = frozenset()
    change: SpellingChange | None = None
    others: int = 0


class KnownSpellings(msgspec.Struct, frozen=True):
    """Raw keys of a source partition as they were known before a restart.

    used, change    keys that were once in use, the last of them last, and the last such change
    intruders       keys that first appeared while another was in use
    others          all other keys
    """

    used: tuple[bytes, ...]
    intruders: tuple[bytes, ...] = ()
    others: tuple[bytes, ...] = ()
    change: SpellingChange | None = None

    def is_intruder(self, raw_key: bytes) -> bool:
        """Return whether a raw key was an intruder before the restart, or has appeared since."""
        return raw_key not in self.used and raw_key not in self.others


class _Partition(msgspec.Struct):
    """Spellings of one source partition; `used` were once in use, the last of them last."""

    spellings: dict[bytes, Spelling]
    used: tuple[bytes, ...] = ()
    change: SpellingChange | None = None


_NO_SPELLINGS: Final = KnownSpellings(())


class KeySpellings:
    """Spellings of one connector's source partitions.

    Records that are not `live` may be added in any order of Kafka partitions, before the first
    query. Live ones must be added in the order of their commits.
    """

    def __init__(
        self,
        known: Mapping[str, KnownSpellings] | None = None,
        class_name: str = "",
        known_orders: Collection[FieldOrder] = (),
    ) -> None:
        """Create spellings from what was known before a restart.

        `known` has the raw keys by identity. `known_orders` has the field orders of the source
        partitions that had one spelling then.
        """
        self._known = {} if known is None else dict(known)
        self._known_orders = known_orders
        self.class_name = class_name
        """The connector's class, "" if it is not known: it says what its offsets mean."""
        self._of: dict[str, _Partition] = {}
        self._orders: _CommitsByOrder = {}
        self._read = 0

    def __contains__(self, identity: str) -> bool:
        return identity in self._of

    def add(self, record: SourceRecord) -> bool:
        """Add a record. Return False if it is not newer than the last one of its raw key."""
        position = self._locate(record)
        self._note(record, position)
        partition = self._of.get(record.key.identity)
        if partition is None:
            known = self._known.get(record.key.identity, _NO_SPELLINGS)
            partition = self._of[record.key.identity] = _Partition({}, known.used, known.change)
        spelling = partition.spellings.get(record.raw_key)
        if spelling is None:
            spelling = Spelling(record.key, record.raw_key, position, record.offset)
            known = self._known.get(record.key.identity, _NO_SPELLINGS)
            spelling.intruder = bool(partition.used) and known.is_intruder(record.raw_key)
            partition.spellings[record.raw_key] = spelling
        elif not spelling.present:
            spelling.elsewhere, spelling.contested = (), False
        elif position.partition != spelling.position.partition or spelling.elsewhere:
            if not _add_to_several(spelling, OffsetRecord(position, record.offset, record.ours)):
                return False
        elif not position.is_after(spelling.position):
            return False
        spelling.present = True
        spelling.position, spelling.offset, spelling.ours = position, record.offset, record.ours
        if _is_commit(record):
            _count_commit(partition, spelling)
        if record.live:
            _decide_spelling(partition, self._orders, self.class_name)
        return True

    def note(self, record: SourceRecord) -> None:
        """Record only what a record shows about other source partitions."""
        self._note(record, self._locate(record))

    def _locate(self, record: SourceRecord) -> OffsetRecordPosition:
        self._read += record.live
        return locate_record(record, self._read if record.live else 0)

    def _note(self, record: SourceRecord, at: OffsetRecordPosition) -> None:
        if not _is_commit(record):
            return
        order = parse_field_order(record.raw_key)
        moments = self._orders.get(order, ())
        # Ordered: records of different Kafka partitions are read in any order at first.
        if not any(abs(moment.at - at.at) <= FLUSH_WINDOW_S for moment in moments):
            moments_after = sorted(
                (*moments, at), key=lambda position: (position.read, position.at)
            )
            self._orders[order] = tuple(moments_after[-_REST_COMMITS_NEEDED:])

    def in_use(self, identity: str) -> SpellingInUse:
        """Return the spelling of a source partition that its task looks up."""
        partition = self._of.get(identity)
        if partition is None:
            return SpellingInUse(None)
        return _decide_spelling(partition, self._orders, self.class_name)

    def spellings(self, identity: str) -> tuple[Spelling, ...]:
        """Return all raw keys of a source partition, including tombstones."""
        partition = self._of.get(identity)
        return () if partition is None else tuple(partition.spellings.values())

    def remembered(self) -> dict[str, KnownSpellings]:
        """Return the raw keys that must survive a restart, by identity."""
        return {
            identity: _build_known_spellings(partition)
            for identity, partition in self._of.items()
            if partition.used and len(partition.spellings) > 1
        }

    def begin_whole(self) -> None:
        """Begin a new reading of the whole topic: earlier records may no longer exist."""
        for partition in self._of.values():
            for spelling in partition.spellings.values():
                spelling.present = False

    def end_whole(self) -> None:
        """Forget the raw keys without a record since `begin_whole`."""
        self._known.clear()
        for partition in self._of.values() if self._known_orders else ():
            if not partition.used:
                _recognise_spelling(partition, self._known_orders)
        self._known_orders = ()
        for identity, partition in list(self._of.items()):
            for raw_key, spelling in list(partition.spellings.items()):
                if not spelling.present:
                    del partition.spellings[raw_key]
            if not partition.spellings:
                del self._of[identity]


def _recognise_spelling(partition: _Partition, known_orders: Collection[FieldOrder]) -> None:
    """Set the spelling in use before a restart, if exactly one has a known field order."""
    own = [
        spelling.raw_key
        for spelling in partition.spellings.values()
        if spelling.present and parse_field_order(spelling.raw_key) in known_orders
    ]
    if len(own) == 1:
        partition.used = (own[0],)
        for spelling in partition.spellings.values():
            spelling.intruder = spelling.raw_key != own[0]


def _build_known_spellings(partition: _Partition) -> KnownSpellings:
    rest = [
        spelling
        for spelling in partition.spellings.values()
        if spelling.raw_key not in partition.used
    ]
    return KnownSpellings(
        used=partition.used,
        intruders=tuple(sorted(spelling.raw_key for spelling in rest if spelling.intruder)),
        others=tuple(sorted(spelling.raw_key for spelling in rest if not spelling.intruder)),
        change=partition.change,
    )


def locate_record(record: SourceRecord, read: int = 0) -> OffsetRecordPosition:
    """Return the position of a record; `read` is 0 for one that was not read live."""
    return OffsetRecordPosition(record.at, record.partition, record.log_offset, read)


def collect_spellings(records: Iterable[SourceRecord], class_name: str = "") -> KeySpellings:
    """Return the spellings of one connector of this class from its records, in any order."""
    spellings = KeySpellings(class_name=class_name)
    for record in records:
        spellings.add(record)
    return spellings


@lru_cache(maxsize=1024)
def parse_field_order(raw_key: bytes) -> FieldOrder:
    """Return the names of a source partition's fields in the order of a raw key, () for none."""
    parsed = parse_json(raw_key)
    fields = parsed[1] if isinstance(parsed, list) else None  # an envelope is no spelling
    return tuple(fields) if isinstance(fields, dict) else ()


def _add_to_several(spelling: Spelling, record: OffsetRecord) -> bool:
    """Add a record of a raw key in several Kafka partitions. Return whether it is the newest."""
    last = OffsetRecord(spelling.position, spelling.offset, spelling.ours)
    records = {known.position.partition: known for known in (last, *spelling.elsewhere)}
    known = records.get(record.position.partition)
    if known is not None and not record.position.is_after(known.position):
        return False
    records[record.position.partition] = record
    newest, spelling.contested = choose_newest_record(tuple(records.values()))
    del records[newest.position.partition]
    spelling.position, spelling.offset, spelling.ours = newest
    spelling.elsewhere = tuple(records.values())
    return newest is record


def _is_commit(record: SourceRecord) -> bool:
    """Return whether a connector may have written a record. It writes maps; null is a tombstone."""
    offset = record.offset
    value = isinstance(offset, SourceOffset) and not offset.is_null
    return value and not record.ours and record.key.is_spelling


def _count_commit(partition: _Partition, spelling: Spelling) -> None:
    position = spelling.position
    spelling.moments += 1  # no flush, and no request over REST, writes a key twice
    spelling.most = max(spelling.most, spelling.moments)
    if spelling.moments == 1:
        spelling.first = spelling.value
    spelling.committed = position
    for other in partition.spellings.values():
        is_other = other is not spelling and other.committed is not None
        if is_other and other.committed is not None and position.is_after(other.committed):
            other.moments = 0


def _decide_spelling(
    partition: _Partition, orders: _CommitsByOrder, class_name: str
) -> SpellingInUse:
    chosen, unsure = _choose_spelling(partition, orders, class_name)
    if chosen is not None and chosen.contested:
        unsure, chosen = (chosen,), None
    by_shape = () if class_name else _find_excluded_by_shape(partition)
    if chosen is None:
        strays = _find_foreign_keys(partition, class_name)
        strays -= {spelling.raw_key for spelling in by_shape}
        return SpellingInUse(None, unsure or by_shape, strays, partition.change)
    if by_shape:  # not a fact to keep: of another class these may be its own keys
        return SpellingInUse(chosen, (), frozenset(), partition.change, len(by_shape))
    used = partition.used
    if not used or used[-1] != chosen.raw_key:
        before = partition.spellings.get(used[-1]) if used else None
        if before is not None:
            partition.change = _build_change(before, chosen, class_name)
        partition.used = (*(raw for raw in used if raw != chosen.raw_key), chosen.raw_key)
        chosen.intruder = False
    strays = _find_foreign_keys(partition, class_name) | {
        spelling.raw_key
        for spelling in partition.spellings.values()
        if spelling.intruder and spelling.value is not None
    }
    others = sum(
        spelling is not chosen and spelling.value is not None
        for spelling in partition.spellings.values()
    )
    return SpellingInUse(chosen, (), strays, partition.change, others)


def _find_excluded_by_shape(partition: _Partition) -> tuple[Spelling, ...]:
    """Return the spellings that only a connector of another class would look up.

    One whose value is unreadable counts, as it may hold an offset; one that was erased does not.
    """
    return tuple(
        spelling
        for spelling in partition.spellings.values()
        if spelling.offset is not None
        and spelling.key.is_spelling
        and not is_lookup_key(spelling.key, "")
    )


def _find_foreign_keys(partition: _Partition, class_name: str) -> frozenset[bytes]:
    """Return the raw keys with an offset that no task of this class looks up."""
    return frozenset(
        raw_key
        for raw_key, spelling in partition.spellings.items()
        if spelling.value is not None and not is_lookup_key(spelling.key, class_name)
    )


def _build_change(before: Spelling, after: Spelling, class_name: str) -> SpellingChange:
    moment = (after.committed or after.position).at
    dialect = resolve_dialect(after.key.dialect, class_name)
    restarted = not has_reached_offset(dialect, before.value, after.first)
    return SpellingChange(before.raw_key, after.raw_key, moment, before.value, restarted)


def _choose_spelling(
    partition: _Partition, orders: _CommitsByOrder, class_name: str
) -> tuple[Spelling | None, tuple[Spelling, ...]]:
    known = [
        spelling
        for spelling in partition.spellings.values()
        if is_lookup_key(spelling.key, class_name)
    ]
    if len(known) == 1:
        return known[0], ()
    own = _sort_newest_first(spelling for spelling in known if spelling.committed is not None)
    if not own:
        return _choose_if_identical(
            sorted(known, key=lambda spelling: spelling.position[:2], reverse=True)
        )
    newest, others = own[0], [spelling for spelling in own[1:] if spelling.value is not None]
    used = partition.used[-1] if partition.used else None
    unordered = any(
        not _find_last_commit(newest).is_after(_find_last_commit(spelling)) for spelling in others
    )
    if newest.raw_key == used and not unordered:
        return newest, ()
    before = next((spelling for spelling in known if spelling.raw_key == used), None)
    listed = before is newest or before in others
    if before is not None and before.value is not None and not listed:
        others.append(before)  # it stands as offsetwatch last wrote it
    if not others and not _is_erased(known, newest):
        return newest, ()
    if any(
        not _find_last_commit(newest).is_after(_find_last_commit(spelling)) for spelling in others
    ):
        return _choose_if_identical(
            [newest, *others]
        )  # an offsets file tells no time, nor do two clocks
    if newest.moments >= newest.needed:
        return newest, ()
    confirmed = _find_confirmed_spelling(newest, others, orders)
    if confirmed is not None:
        return confirmed, ()
    # Connectors that are known have HashMaps; of others that order may well be from REST.
    shape = newest.key.dialect
    plausible = newest.by_rest == has_hash_maps(
        resolve_dialect(shape, class_name) if class_name else shape
    )
    once = all(spelling.most <= 1 for spelling in others)
    if used is None and plausible and once and not _is_erased(known, newest):
        return newest, ()  # nothing but its age speaks for another
    return _choose_if_identical([newest, *others])


def _sort_newest_first(spellings: Iterable[Spelling]) -> list[Spelling]:
    remaining, ordered = sorted(spellings, key=_find_last_commit, reverse=True), []
    while remaining:
        newest = remaining[0]
        for spelling in remaining[1:]:
            assert spelling.committed is not None
            assert newest.committed is not None
            if spelling.committed.is_after(newest.committed):
                newest = spelling
        remaining.remove(newest)
        ordered.append(newest)
    return ordered


def _is_erased(known: list[Spelling], newest: Spelling) -> bool:
    """Return whether another spelling was deleted later: it may have been the one in use."""
    return any(
        spelling.offset is None
        and spelling is not newest
        and spelling.position.is_after(_find_last_commit(newest))
        for spelling in known
    )


def _find_last_commit(spelling: Spelling) -> OffsetRecordPosition:
    return spelling.position if spelling.committed is None else spelling.committed


def _find_confirmed_spelling(
    newest: Spelling, others: list[Spelling], orders: _CommitsByOrder
) -> Spelling | None:
    """Return the spelling whose field order the connector still uses for its other partitions."""
    last = _find_last_commit(newest)
    since = [
        moment
        for moment in _find_commit_moments(orders, newest)
        if moment.at > last.at - FLUSH_WINDOW_S
    ]
    going_on = [
        other
        for other in others
        if any(
            moment.is_after(last) and abs(moment.at - last.at) > FLUSH_WINDOW_S
            for moment in _find_commit_moments(orders, other)
        )
    ]
    if len(since) >= newest.needed:
        return None if going_on else newest
    established = len(_find_commit_moments(orders, newest)) > 1
    return going_on[0] if going_on and not established else None


def _find_commit_moments(
    orders: _CommitsByOrder, spelling: Spelling
) -> tuple[OffsetRecordPosition, ...]:
    return orders.get(parse_field_order(spelling.raw_key), ())


def _choose_if_identical(spellings: list[Spelling]) -> tuple[Spelling | None, tuple[Spelling, ...]]:
    """Return the first spelling if all have the same offset, otherwise all as candidates."""
    texts = {None if spelling.value is None else spelling.value.text for spelling in spellings}
    return (spellings[0], ()) if len(texts) == 1 else (None, tuple(spellings))
