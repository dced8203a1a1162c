"""Stored offsets of an offsets topic or file, and the records that change them.

Connect finds an offset by the bytes of its key, so everything here compares bytes. A task is given
the offset under the bytes that its own map serialises to: of several raw keys of a source
partition, those under which its connector commits (state/connect/raw_keys.py). A change is written
under all existing keys of a source partition. A key is built only if a task may look up none of
these: in the field order of the document, of the connector's other keys, or of a HashMap.

One key may be in two Kafka partitions, after their number was changed or by another partitioner. A
worker that starts reads them in no order, and the record that it reads last counts
(KafkaOffsetBackingStore). Here the one in the key's home partition counts: the one to which
Connect's producer writes with the current number of partitions, as offsets committed since their
number was changed are only there. Timestamps, perhaps of two writers, order only the records
outside it.

Pure; used by the storage driver and by the toolbox's offset stores.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from offsetwatch.decode.dialects import is_lookup_key
from offsetwatch.decode.java.hash_map import build_connect_key, build_ordered_key
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.partitioner import partition_of
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.errors import RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import KeyForm, LegacyOffset, SourceKey, SourceOffset, Undecodable
from offsetwatch.remedy.model.plan import LocatedRawRecord, PartitionOffset, RawOffsetRecord
from offsetwatch.state.connect.raw_keys import KeySpellings, collect_spellings, parse_field_order

_ENVELOPE: Final = (b'{"schema":null,"payload":', b"}")
_KEY_ENVELOPE: Final = b'{"schema":'


class StoredOffsetRecord(NamedTuple):
    """Newest record of a key in one partition of a topic, or an entry of a file.

    at      Unix seconds; like kpartition and koffset, None in a file
    ours    a driver of ours wrote it, as one of its headers says
    """

    key: bytes | None
    value: bytes | None
    kpartition: int | None = None
    koffset: int | None = None
    at: float | None = None
    ours: bool = False


def _age_key_of(stored: StoredOffsetRecord) -> tuple[float, int]:
    """Return the sort key of a record's age; entries of a file all have the same."""
    return (stored.at or 0.0, stored.koffset or 0)


class _ConnectorRecord(NamedTuple):
    """Record of a connector, with its decoded key."""

    key: SourceKey
    stored: StoredOffsetRecord

    @property
    def raw_key(self) -> bytes:
        """Return the bytes of the key, without the envelope if it is in one."""
        key = self.stored.key or b""
        before, after = _ENVELOPE
        enveloped = key.startswith(before) and key.endswith(after)
        return key[len(before) : -len(after)] if enveloped else key

    @property
    def bare(self) -> SourceKey:
        """Return the decoded key without an envelope."""
        if self.key.form is not KeyForm.LEGACY_ENVELOPE:
            return self.key
        key = decode_key(self.raw_key)
        return key if isinstance(key, SourceKey) else self.key


@dataclass(frozen=True)
class OffsetStoreContents:
    """Contents of an offsets topic or file at one moment.

    where           `kafka/topic`, or the path of a file
    partitions      number of the topic's partitions; None for a file
    classes         classes of connectors by name, where they are known
    keys_in_envelope, values_in_envelope
                    whether the worker may be one before 3.0 that writes envelopes. It is taken for
                    one only if the newest record is in an envelope too
    """

    where: str
    stored: tuple[StoredOffsetRecord, ...]
    partitions: int | None
    keys_in_envelope: bool = False
    values_in_envelope: bool = False
    classes: Mapping[str, str] = field(default_factory=dict)

    def is_lookup_key(self, key: SourceKey) -> bool:
        """Return whether a task of the key's connector may look it up."""
        return is_lookup_key(key, self.classes.get(key.connector, ""))

    @cached_property
    def by_connector(self) -> dict[str, tuple[_ConnectorRecord, ...]]:
        """Return the records by the connector that their key names, including tombstones."""
        by_connector: dict[str, list[_ConnectorRecord]] = defaultdict(list)
        for stored in self.stored:
            key = decode_key(stored.key)
            if isinstance(key, SourceKey):
                by_connector[key.connector].append(_ConnectorRecord(key, stored))
        return {name: tuple(records) for name, records in by_connector.items()}

    @cached_property
    def _spellings(self) -> dict[str, KeySpellings]:
        return {}

    def spellings(self, connector: str) -> KeySpellings:
        """Return what a connector's records show about the raw keys that its tasks look up."""
        if connector not in self._spellings:
            in_envelope = self.enveloped[0]
            records = (
                SourceRecord(
                    key=record.bare,
                    raw_key=record.raw_key,
                    offset=_decode_offset(self, record.stored),
                    partition=record.stored.kpartition or 0,
                    log_offset=record.stored.koffset or 0,
                    at=record.stored.at or 0.0,
                    advanced_at=None,
                    live=False,
                    ours=record.stored.ours,
                )
                for record in _drop_strays(self, self.by_connector.get(connector, ()))
                if (record.key.form is KeyForm.LEGACY_ENVELOPE) == in_envelope
            )
            class_name = self.classes.get(connector, "")
            self._spellings[connector] = collect_spellings(records, class_name)
        return self._spellings[connector]

    @cached_property
    def _orders(self) -> dict[str, dict[frozenset[str], tuple[str, ...]]]:
        return {}

    def orders(self, connector: str) -> dict[frozenset[str], tuple[str, ...]]:
        """Return the field order of the key that the connector last wrote, by its set of fields."""
        if connector not in self._orders:
            field_orders: dict[frozenset[str], tuple[str, ...]] = {}
            commits = [
                record
                for record in self.by_connector.get(connector, ())
                if self.is_lookup_key(record.bare)
                and not record.stored.ours
                and record.stored.value is not None
            ]
            for record in sorted(commits, key=lambda commit: _age_key_of(commit.stored)):
                order = parse_field_order(record.raw_key)
                field_orders[frozenset(order)] = order
            self._orders[connector] = field_orders
        return self._orders[connector]

    @cached_property
    def enveloped(self) -> tuple[bool, bool]:
        """Return whether (keys, values) are in envelopes, as the only reader expects them."""
        live = (record for record in self.stored if None not in (record.key, record.value))
        newest = max(live, key=_age_key_of, default=None)
        if newest is None:
            return (False, False)
        key, value = newest.key or b"", newest.value or b""
        return (
            self.keys_in_envelope and key.startswith(_KEY_ENVELOPE),
            self.values_in_envelope and isinstance(decode_value(value), LegacyOffset),
        )

    @property
    def undecided(self) -> bool:
        """Check whether it is unknown if a first record must be in an envelope."""
        may_be = self.keys_in_envelope or self.values_in_envelope
        return may_be and not any(stored.value is not None for stored in self.stored)


def list_connectors(contents: OffsetStoreContents) -> tuple[str, ...]:
    """Return the connectors with an offset, or any other record that is no tombstone."""
    return tuple(
        sorted(
            name
            for name, records in contents.by_connector.items()
            if any(record.stored.value is not None for record in records)
        )
    )


def list_pairs(contents: OffsetStoreContents, connector: str) -> tuple[PartitionOffset, ...]:
    """Return the offsets that a task would be given, in order of the partitions."""
    pairs = []
    for identity, partition in _group_by_identity(contents, connector).items():
        offset = _decode_offset(contents, partition.effective)
        if isinstance(offset, SourceOffset) and not offset.is_null:
            pairs.append(PartitionOffset(identity, offset.text, partition.format_lookup_key()))
    return tuple(sorted(pairs, key=lambda pair: pair.partition))


def list_raw_records(contents: OffsetStoreContents, connector: str) -> tuple[LocatedRawRecord, ...]:
    """Return every record of the connector that is no tombstone, byte for byte."""
    return tuple(
        LocatedRawRecord(
            **structs.asdict(_encode_raw(stored.key, stored.value, stored.kpartition)),
            where=contents.where,
        )
        for _, stored in contents.by_connector.get(connector, ())
        if stored.value is not None
    )


def list_notes(contents: OffsetStoreContents, connector: str) -> tuple[str, ...]:
    """Return a sentence for each oddity of the connector's records."""
    partitions = sorted(_group_by_identity(contents, connector).items())
    return tuple(note for _, partition in partitions for note in partition.note_oddities())


def build_set_records(
    contents: OffsetStoreContents, connector: str, pairs: Iterable[PartitionOffset]
) -> tuple[RawOffsetRecord, ...]:
    """Build the records that give these partitions these offsets.

    A partition that has its offset already needs none. Raises RemoteRefusal where it is unknown
    which key Connect would look up.
    """
    by_identity = _group_by_identity(contents, connector)
    records: list[RawOffsetRecord] = []
    for pair in pairs:
        partition = by_identity.get(pair.partition) or _SourcePartitionRecords(
            contents, connector, pair.partition
        )
        if pair.offset is None:
            records += _build_tombstones(partition.records)
        else:
            records += partition.build_values(pair.offset, pair.key)
    return tuple(records)


def build_reset_records(
    contents: OffsetStoreContents, connector: str
) -> tuple[RawOffsetRecord, ...]:
    """Build tombstones for all records under the connector's name, in every form of key."""
    return _build_tombstones(contents.by_connector.get(connector, ()))


def index_by_key(
    contents: OffsetStoreContents,
) -> dict[tuple[bytes | None, int | None], bytes | None]:
    """Return the values by (key, partition), with None for tombstones."""
    return {(stored.key, stored.kpartition): stored.value for stored in contents.stored}


def decode_record_value(record: RawOffsetRecord) -> bytes | None:
    """Decode a record's value from base64; None for a tombstone."""
    return None if record.value is None else base64.b64decode(record.value)


# --- records of one source partition -------------------------------------------------------------


@dataclass(frozen=True)
class _SourcePartitionRecords:
    """Records of a connector whose keys a reader accepts as this source partition."""

    contents: OffsetStoreContents
    connector: str
    identity: str
    records: tuple[_ConnectorRecord, ...] = ()

    @cached_property
    def lookup_key(self) -> bytes | None:
        """Return the key bytes that the task looks up, or the newest if records do not show it.

        None if a task may look up none of them.
        """
        keys = {
            record.raw_key: record.stored.key
            for record in self.records
            if self.contents.is_lookup_key(record.bare)
        }
        if len(keys) < 2:
            return next(iter(keys.values()), None)
        use = self.contents.spellings(self.connector).in_use(self.identity)
        spelling = use.spelling or next(iter(use.unsure), None)
        return None if spelling is None else keys[spelling.raw_key]

    def format_lookup_key(self) -> str | None:
        """Return the raw key for users and documents; None if it is in HashMap order."""
        of = next((record for record in self.records if record.stored.key == self.lookup_key), None)
        return None if of is None or not of.bare.ordered else of.raw_key.decode()

    @property
    def effective(self) -> StoredOffsetRecord | None:
        """Return the record that a task is given; None if there is none."""
        return self._find_effective(self.lookup_key)

    def _find_effective(self, key: bytes | None) -> StoredOffsetRecord | None:
        """Return the record of a key that counts.

        It is the one in the key's home partition, or else the newest by its timestamp.
        """
        effective = [
            record.stored for record in self.records if key is not None and record.stored.key == key
        ]
        if len(effective) < 2:  # nearly all: to find a home is slow
            return effective[0] if effective else None
        return max(
            effective, key=lambda stored: (_is_home(self.contents, stored), _age_key_of(stored))
        )

    def _build_key(self, raw_key: str | None) -> bytes | None:
        """Build a key where a task may look up none of the existing; None if its bytes are unknown.

        raw_key     shows the order of its fields; None for the order that the connector last wrote
        """
        fields = msgspec.json.decode(self.identity)
        order = None
        if fields and raw_key:
            order = parse_field_order(raw_key.encode())
        elif fields:
            order = self.contents.orders(self.connector).get(frozenset(fields))
        key = None if order is None else build_ordered_key(self.connector, fields, order)
        decoded = decode_key(key)
        if not isinstance(decoded, SourceKey) or not self.contents.is_lookup_key(decoded):
            key = build_connect_key(self.connector, fields)
        return key.join(_ENVELOPE) if key is not None and self.contents.enveloped[0] else key

    def _choose_kpartition(self, key: bytes) -> int | None:
        """Return the partition for a key without a value: where it last was, or its home."""
        if self.contents.partitions is None:
            return None
        last = self._find_effective(key)
        return partition_of(key, self.contents.partitions) if last is None else last.kpartition

    def build_values(self, offset: str, raw_key: str | None) -> Iterator[RawOffsetRecord]:
        """Yield the records that give the partition this offset."""
        contents = self.contents
        if contents.undecided:
            raise RemoteRefusal(
                contents.where,
                "it is empty, and internal.key.converter.schemas.enable or its like is set: a "
                "worker before 3.0 wants envelopes then and a newer one does not; take the setting "
                "out of the file, or let the worker write its first offset itself",
            )
        value = encode_sorted(msgspec.json.decode(offset))
        if contents.enveloped[1]:
            value = value.join(_ENVELOPE)
        live = [record.stored for record in self.records if record.stored.value is not None]
        targets = {(stored.key, stored.kpartition) for stored in live}
        lookup_key = self.lookup_key
        if lookup_key is None:
            lookup_key = self._build_key(raw_key)
        if lookup_key is not None and all(key != lookup_key for key, _ in targets):
            targets.add((lookup_key, self._choose_kpartition(lookup_key)))
        if not targets:
            raise RemoteRefusal(
                contents.where,
                f"{self.connector} {self.identity}: Connect's bytes for such a partition are "
                "unknown",
            )
        effective = self._find_effective(lookup_key)
        if effective is not None and _is_home(contents, effective):
            # It may be a tombstone, which would count beside what stands elsewhere.
            targets.add((effective.key, effective.kpartition))
        has = {
            (stored.key, stored.kpartition)
            for stored in live
            if _has_offset(contents, stored, offset)
        }
        if not _has_offset(contents, effective, offset):
            # What it has in one partition is older than that in another.
            has = {item for item in has if item[0] != lookup_key}
        missing = targets - has
        for key, kpartition in sorted(missing, key=lambda pair: (pair[1] or 0, pair[0] or b"")):
            yield _encode_raw(key, value, kpartition)

    def note_oddities(self) -> Iterator[str]:
        """Yield a sentence for each oddity."""
        live = [record.stored for record in self.records if record.stored.value is not None]
        if not live:
            return
        own = [stored for stored in live if stored.key == self.lookup_key]
        yield from self._note_other_keys(own=bool(own))
        counts = self.effective
        if len(own) > 1:
            numbers = ", ".join(str(stored.kpartition) for stored in own)
            home = counts is not None and _is_home(self.contents, counts)
            why = "to which Connect writes it now" if home else "the newest by its timestamp"
            yield (
                f"{self.identity}: its key stands in partitions {numbers} of "
                f"{self.contents.where}; Connect uses the one that it reads last when it starts. "
                f"Shown is the one in partition {None if counts is None else counts.kpartition}, "
                f"{why}"
            )
        offset = _decode_offset(self.contents, counts)
        if isinstance(offset, Undecodable):
            yield f"{self.identity}: its value is no offset ({offset.reason}); a task gets nothing"
        elif offset is not None and offset.is_null:
            yield f"{self.identity}: its value is null; Connect lists it, and a task gets nothing"
        elif offset is not None and offset.beyond_64_bits:
            yield f"{self.identity}: {offset.text} is beyond 64 bits; Connect wraps it round"

    def _note_other_keys(self, *, own: bool) -> Iterator[str]:
        """Yield which other raw keys hold an offset, and how certain it is that no task uses them.

        own     the key that the task looks up holds one
        """
        others = [
            record
            for record in self.records
            if record.stored.value is not None and record.stored.key != self.lookup_key
        ]
        is_lookup_key = self.contents.is_lookup_key
        foreign = [record for record in others if not is_lookup_key(record.bare)]
        if foreign:
            rest = "beside the key that it does" if own else "and no other: a task gets nothing"
            yield (
                f"{self.identity}: {format_count(len(foreign), 'key')} in bytes that Connect does "
                f"not look up, {rest}; {_format_key(foreign[0].stored.key)}"
            )
        spelled = [record for record in others if is_lookup_key(record.bare)]
        if not spelled:
            return
        use = self.contents.spellings(self.connector).in_use(self.identity)
        if use.unsure:
            keys = ", ".join(
                f"{_format_key(spelling.raw_key)} = "
                f"{'null' if spelling.value is None else spelling.value.text}"
                for spelling in use.unsure
            )
            yield (
                f"{self.identity}: which of its raw keys its task looks up is not known until it "
                f"commits again; the newest is shown, and a change is written under all: {keys}"
            )
            return
        yield (
            f"{self.identity}: {format_count(len(spelled), 'more raw key')} in another order of "
            "the fields, under which its connector does not commit now; "
            f"{_format_key(spelled[0].stored.key)}"
        )


def _group_by_identity(
    contents: OffsetStoreContents, connector: str
) -> dict[str, _SourcePartitionRecords]:
    by_identity: dict[str, list[_ConnectorRecord]] = defaultdict(list)
    for record in contents.by_connector.get(connector, ()):
        if (record.key.form is KeyForm.LEGACY_ENVELOPE) == contents.enveloped[0]:
            by_identity[record.key.identity].append(record)
    return {
        identity: _SourcePartitionRecords(contents, connector, identity, tuple(records))
        for identity, records in by_identity.items()
    }


# --- single records ------------------------------------------------------------------------------


def _is_home(contents: OffsetStoreContents, stored: StoredOffsetRecord) -> bool:
    """Return whether the record is where Connect's producer writes its key now."""
    if contents.partitions is None or stored.key is None:
        return False
    return partition_of(stored.key, contents.partitions) == stored.kpartition


def _drop_strays(
    contents: OffsetStoreContents, records: Collection[_ConnectorRecord]
) -> Iterable[_ConnectorRecord]:
    """Drop records outside their key's home partition if it also has one there."""
    counts = Counter(record.stored.key for record in records)
    if len(counts) == len(records):
        return records
    at_home = {
        record.stored.key: record.stored.kpartition
        for record in records
        if counts[record.stored.key] > 1 and _is_home(contents, record.stored)
    }
    return [
        record
        for record in records
        if at_home.get(record.stored.key, record.stored.kpartition) == record.stored.kpartition
    ]


def _decode_offset(
    contents: OffsetStoreContents, stored: StoredOffsetRecord | None
) -> SourceOffset | Undecodable | None:
    """Decode a record's value as a reader does."""
    if stored is None:
        return None
    offset = decode_value(stored.value)
    if isinstance(offset, LegacyOffset):
        inside = offset.offset if contents.enveloped[1] else None
        return inside if inside is not None else Undecodable("value_legacy_envelope")
    if contents.enveloped[1] and isinstance(offset, SourceOffset):
        return Undecodable("value_without_envelope")
    return offset


def _has_offset(
    contents: OffsetStoreContents, stored: StoredOffsetRecord | None, text: str
) -> bool:
    offset = _decode_offset(contents, stored)
    return isinstance(offset, SourceOffset) and offset.text == text


def _build_tombstones(records: Iterable[_ConnectorRecord]) -> tuple[RawOffsetRecord, ...]:
    return tuple(
        _encode_raw(stored.key, None, stored.kpartition)
        for _, stored in records
        if stored.value is not None
    )


def _encode_raw(key: bytes | None, value: bytes | None, kpartition: int | None) -> RawOffsetRecord:
    assert key is not None
    return RawOffsetRecord(
        key=base64.b64encode(key).decode(),
        value=None if value is None else base64.b64encode(value).decode(),
        kpartition=kpartition,
    )


def _format_key(key: bytes | None) -> str:
    text = (key or b"").decode(errors="backslashreplace")
    return text if len(text) <= 200 else f"{text[:200]}…"
