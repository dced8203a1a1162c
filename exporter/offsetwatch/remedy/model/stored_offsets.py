"""What an offsets topic or file holds of a connector, and which bytes would make it hold more.

Connect finds an offset by the bytes of its key, so everything here goes by bytes. A task is handed
what stands under the bytes that its own map serialises to: of several raw keys of a source
partition, those that its connector commits under (state/connect/raw_keys.py). A change is written
under all keys that stand there for a source partition, and a key is made up only where none does
that a task may look up: in the order of the document, of the connector's other keys, or of a
HashMap.

One key may stand in two Kafka partitions, after their number was changed or by another partitioner.
A worker that starts reads them in no order, and the record that it reads last counts
(KafkaOffsetBackingStore). Here the one in the key's home counts, the partition to which Connect's
producer writes it as there are partitions now: what it committed since their number was changed is
there and nowhere else. Timestamps, of two writers perhaps, order only what is not at home.
Pure; called by the storage driver and by places.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from offsetwatch.decode.java.hash_map import build_connect_key, build_ordered_key
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.partitioner import partition_of
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import KeyForm, LegacyOffset, SourceKey, SourceOffset, Undecodable
from offsetwatch.remedy.model.plan import LocatedRawRecord, PartitionOffset, RawOffsetRecord
from offsetwatch.state.connect.raw_keys import KeySpellings, collect_spellings

_ENVELOPE: Final = (b'{"schema":null,"payload":', b"}")
_KEY_ENVELOPE: Final = b'{"schema":'


class StoredOffsetRecord(NamedTuple):
    """The newest record of a key in one partition of a topic, or an entry of a file.

    at      Unix seconds; as kpartition and koffset, None in a file
    ours    it was written by a driver of ours, and says so in a header
    """

    key: bytes | None
    value: bytes | None
    kpartition: int | None = None
    koffset: int | None = None
    at: float | None = None
    ours: bool = False


def _age_key_of(stored: StoredOffsetRecord) -> tuple[float, int]:
    """Which of two records is the younger one; entries of a file are all of one age."""
    return (stored.at or 0.0, stored.koffset or 0)


class _ConnectorRecord(NamedTuple):
    """A record that is a connector's, and what its key says."""

    key: SourceKey
    stored: StoredOffsetRecord

    @property
    def raw_key(self) -> bytes:
        """Its key, taken out of an envelope if it is in one."""
        key = self.stored.key or b""
        before, after = _ENVELOPE
        enveloped = key.startswith(before) and key.endswith(after)
        return key[len(before) : -len(after)] if enveloped else key

    @property
    def bare(self) -> SourceKey:
        """What its key says without an envelope."""
        if self.key.form is not KeyForm.LEGACY_ENVELOPE:
            return self.key
        found = decode_key(self.raw_key)
        return found if isinstance(found, SourceKey) else self.key


@dataclass(frozen=True)
class OffsetStoreContents:
    """All that a topic or a file holds now.

    where           `kafka/topic`, or the path of a file
    partitions      of the topic; None of a file
    keys_in_envelope, values_in_envelope
                    whether the worker may be one from before 3.0 that writes envelopes. Only if the
                    newest record is in one as well is it taken for such a worker
    """

    where: str
    stored: tuple[StoredOffsetRecord, ...]
    partitions: int | None
    keys_in_envelope: bool = False
    values_in_envelope: bool = False

    @cached_property
    def by_connector(self) -> dict[str, tuple[_ConnectorRecord, ...]]:
        """Records by the connector that their key names, tombstones among them."""
        found: dict[str, list[_ConnectorRecord]] = defaultdict(list)
        for stored in self.stored:
            key = decode_key(stored.key)
            if isinstance(key, SourceKey):
                found[key.connector].append(_ConnectorRecord(key, stored))
        return {name: tuple(records) for name, records in found.items()}

    @cached_property
    def _spellings(self) -> dict[str, KeySpellings]:
        return {}

    def spellings(self, connector: str) -> KeySpellings:
        """What its records tell of the raw keys that its tasks look up."""
        if connector not in self._spellings:
            in_envelope = self.enveloped[0]
            self._spellings[connector] = collect_spellings(
                SourceRecord(
                    key=stored_offset.bare,
                    raw_key=stored_offset.raw_key,
                    offset=_decode_offset(self, stored_offset.stored),
                    partition=stored_offset.stored.kpartition or 0,
                    log_offset=stored_offset.stored.koffset or 0,
                    at=stored_offset.stored.at or 0.0,
                    advanced_at=None,
                    live=False,
                    ours=stored_offset.stored.ours,
                )
                for stored_offset in _drop_strays(self, self.by_connector.get(connector, ()))
                if (stored_offset.key.form is KeyForm.LEGACY_ENVELOPE) == in_envelope
            )
        return self._spellings[connector]

    @cached_property
    def _orders(self) -> dict[str, dict[frozenset[str], tuple[str, ...]]]:
        return {}

    def orders(self, connector: str) -> dict[frozenset[str], tuple[str, ...]]:
        """The order of the fields, by the fields, in which the connector last wrote a key."""
        if connector not in self._orders:
            found: dict[frozenset[str], tuple[str, ...]] = {}
            written = [
                stored_offset
                for stored_offset in self.by_connector.get(connector, ())
                if _is_commit(stored_offset)
            ]
            for stored_offset in sorted(written, key=lambda offset: _age_key_of(offset.stored)):
                order = _parse_field_order(stored_offset.raw_key)
                found[frozenset(order)] = order
            self._orders[connector] = found
        return self._orders[connector]

    @cached_property
    def enveloped(self) -> tuple[bool, bool]:
        """Do (keys, values) stand in envelopes, as their only reader takes them?"""
        newest = max(
            (
                stored_offset
                for stored_offset in self.stored
                if stored_offset.value is not None and stored_offset.key is not None
            ),
            key=_age_key_of,
            default=None,
        )
        if newest is None:
            return (False, False)
        key, value = newest.key or b"", newest.value or b""
        return (
            self.keys_in_envelope and key.startswith(_KEY_ENVELOPE),
            self.values_in_envelope and isinstance(decode_value(value), LegacyOffset),
        )

    @property
    def undecided(self) -> bool:
        """Would a first record have to be in an envelope? Nothing here tells."""
        asked = self.keys_in_envelope or self.values_in_envelope
        return asked and not any(stored_offset.value is not None for stored_offset in self.stored)


def list_connectors(contents: OffsetStoreContents) -> tuple[str, ...]:
    """Those with an offset, or anything else that is no tombstone."""
    return tuple(
        sorted(
            name
            for name, records in contents.by_connector.items()
            if any(record.stored.value is not None for record in records)
        )
    )


def list_pairs(contents: OffsetStoreContents, connector: str) -> tuple[PartitionOffset, ...]:
    """What a task would be handed, in order of the partitions."""
    found = []
    for identity, records in _group_by_identity(contents, connector).items():
        key = _find_lookup_key(contents, connector, identity, records)
        offset = _decode_offset(contents, _find_effective_record(contents, key, records))
        if isinstance(offset, SourceOffset) and not offset.is_null:
            found.append(PartitionOffset(identity, offset.text, _format_raw_key(key, records)))
    return tuple(sorted(found, key=lambda pair: pair.partition))


def _format_raw_key(key: bytes | None, records: Iterable[_ConnectorRecord]) -> str | None:
    """The raw key for people and documents; None if it is the one of a HashMap."""
    of = next((record for record in records if record.stored.key == key), None)
    return None if of is None or not of.bare.ordered else of.raw_key.decode()


def list_raw_records(contents: OffsetStoreContents, connector: str) -> tuple[LocatedRawRecord, ...]:
    """Every record of the connector that is no tombstone, byte for byte."""
    return tuple(
        LocatedRawRecord(
            **structs.asdict(
                _encode_raw(
                    stored_offset.stored.key,
                    stored_offset.stored.value,
                    stored_offset.stored.kpartition,
                )
            ),
            where=contents.where,
        )
        for stored_offset in contents.by_connector.get(connector, ())
        if stored_offset.stored.value is not None
    )


def list_notes(contents: OffsetStoreContents, connector: str) -> tuple[str, ...]:
    """What is odd, in a sentence each."""
    found: list[str] = []
    for identity, records in sorted(_group_by_identity(contents, connector).items()):
        found += _note_oddities(contents, connector, identity, records)
    return tuple(found)


def build_set_records(
    contents: OffsetStoreContents, connector: str, wanted: Iterable[PartitionOffset]
) -> tuple[RawOffsetRecord, ...]:
    """The records after which these partitions have these offsets; those that have them already
    need none. Raises RemoteRefusal where nobody could say which key Connect would look up.
    """
    by_identity = _group_by_identity(contents, connector)
    found: list[RawOffsetRecord] = []
    for pair in wanted:
        records = by_identity.get(pair.partition, ())
        if pair.offset is None:
            found += _build_tombstones(records)
        else:
            found += _build_values(contents, connector, pair, records)
    return tuple(found)


def build_reset_records(
    contents: OffsetStoreContents, connector: str
) -> tuple[RawOffsetRecord, ...]:
    """Tombstones for everything that stands under the connector's name, variants and all."""
    return _build_tombstones(contents.by_connector.get(connector, ()))


def index_by_key(
    contents: OffsetStoreContents,
) -> dict[tuple[bytes | None, int | None], bytes | None]:
    """(key, partition) -> value, tombstones as None."""
    return {
        (stored_offset.key, stored_offset.kpartition): stored_offset.value
        for stored_offset in contents.stored
    }


def decode_record_value(record: RawOffsetRecord) -> bytes | None:
    """What the record's value is."""
    return None if record.value is None else base64.b64decode(record.value)


# --- keys --------------------------------------------------------------------------------------


def _group_by_identity(
    contents: OffsetStoreContents, connector: str
) -> dict[str, tuple[_ConnectorRecord, ...]]:
    """The records whose key a reader takes for a source partition, by that partition."""
    found: dict[str, list[_ConnectorRecord]] = defaultdict(list)
    in_envelope = contents.enveloped[0]
    for stored_offset in contents.by_connector.get(connector, ()):
        if (stored_offset.key.form is KeyForm.LEGACY_ENVELOPE) == in_envelope:
            found[stored_offset.key.identity].append(stored_offset)
    return {identity: tuple(records) for identity, records in found.items()}


def _find_lookup_key(
    contents: OffsetStoreContents,
    connector: str,
    identity: str,
    records: Iterable[_ConnectorRecord],
) -> bytes | None:
    """The bytes that its task looks up, as far as its records tell; the newest where they do not.
    None if a task may look none of them up.
    """
    keys = {record.raw_key: record.stored.key for record in records if record.bare.is_spelling}
    if len(keys) < 2:
        return next(iter(keys.values()), None)
    use = contents.spellings(connector).in_use(identity)
    spelling = use.spelling or next(iter(use.unsure), None)
    return None if spelling is None else keys[spelling.raw_key]


def _build_key(
    contents: OffsetStoreContents, connector: str, pair: PartitionOffset
) -> bytes | None:
    """A key where there is none that a task may look up; None where the bytes cannot be told."""
    fields = msgspec.json.decode(pair.partition)
    order = None
    if fields:
        order = (
            _parse_field_order(pair.key.encode())
            if pair.key
            else _find_common_order(contents, connector, fields)
        )
    key = build_connect_key(connector, fields)
    if order is not None:
        key = build_ordered_key(connector, fields, order)
    return key.join(_ENVELOPE) if key is not None and contents.enveloped[0] else key


def _parse_field_order(raw_key: bytes) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(raw_key)[1] or ())


def _is_commit(offset: _ConnectorRecord) -> bool:
    return offset.bare.is_spelling and not offset.stored.ours and offset.stored.value is not None


def _find_common_order(
    contents: OffsetStoreContents, connector: str, fields: Mapping[str, object]
) -> tuple[str, ...] | None:
    """The order in which the connector last wrote keys of these fields; None if it wrote none."""
    return contents.orders(connector).get(frozenset(fields))


def _find_effective_record(
    contents: OffsetStoreContents, key: bytes | None, records: Iterable[_ConnectorRecord]
) -> StoredOffsetRecord | None:
    """The record of a key that counts: the one at home, or else the youngest by its timestamp."""
    found = [record.stored for record in records if key is not None and record.stored.key == key]
    if len(found) < 2:  # nearly all: to find a home is slow
        return found[0] if found else None
    return max(found, key=lambda stored: (_is_home(contents, stored), _age_key_of(stored)))


def _is_home(contents: OffsetStoreContents, stored: StoredOffsetRecord) -> bool:
    """Return whether it stands where Connect's producer writes its key by now."""
    if contents.partitions is None or stored.key is None:
        return False
    return partition_of(stored.key, contents.partitions) == stored.kpartition


def _drop_strays(
    contents: OffsetStoreContents, records: Collection[_ConnectorRecord]
) -> Iterable[_ConnectorRecord]:
    """Leave out the records of keys that also stand at home."""
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
    """What a reader makes of its value."""
    if stored is None:
        return None
    found = decode_value(stored.value)
    if isinstance(found, LegacyOffset):
        inside = found.offset if contents.enveloped[1] else None
        return inside if inside is not None else Undecodable("value_legacy_envelope")
    if contents.enveloped[1] and isinstance(found, SourceOffset):
        return Undecodable("value_without_envelope")
    return found


# --- records to write --------------------------------------------------------------------------


def _build_values(
    contents: OffsetStoreContents,
    connector: str,
    pair: PartitionOffset,
    records: tuple[_ConnectorRecord, ...],
) -> Iterator[RawOffsetRecord]:
    if contents.undecided:
        raise RemoteRefusal(
            contents.where,
            "it is empty, and internal.key.converter.schemas.enable or its like is set: a worker "
            "before 3.0 wants envelopes then and a newer one does not; take the setting out of the "
            "file, or let the worker write its first offset itself",
        )
    assert pair.offset is not None
    value = encode_sorted(msgspec.json.decode(pair.offset))
    if contents.enveloped[1]:
        value = value.join(_ENVELOPE)
    offset = [record.stored for record in records if record.stored.value is not None]
    places = {(stored_offset.key, stored_offset.kpartition) for stored_offset in offset}
    looked_up = _find_lookup_key(contents, connector, pair.partition, records)
    if looked_up is None:
        looked_up = _build_key(contents, connector, pair)
    if looked_up is not None and all(key != looked_up for key, _ in places):
        places.add((looked_up, _choose_kpartition(contents, looked_up, records)))
    if not places:
        raise RemoteRefusal(
            contents.where,
            f"{connector} {pair.partition}: Connect's bytes for such a partition are unknown",
        )
    effective = _find_effective_record(contents, looked_up, records)
    if effective is not None and _is_home(contents, effective):
        # It may be a tombstone, which would count beside what stands elsewhere.
        places.add((effective.key, effective.kpartition))
    has = {
        (stored_offset.key, stored_offset.kpartition)
        for stored_offset in offset
        if _is_offset(_decode_offset(contents, stored_offset), pair.offset)
    }
    counts = _decode_offset(contents, effective)
    if not _is_offset(
        counts, pair.offset
    ):  # what it has in one partition is older than that in another
        has = {item for item in has if item[0] != looked_up}
    for key, kpartition in sorted(places - has, key=lambda item: (item[1] or 0, item[0] or b"")):
        yield _encode_raw(key, value, kpartition)


def _is_offset(offset: SourceOffset | Undecodable | None, text: str) -> bool:
    return isinstance(offset, SourceOffset) and offset.text == text


def _choose_kpartition(
    contents: OffsetStoreContents, key: bytes, records: tuple[_ConnectorRecord, ...]
) -> int | None:
    """Where a key that has no value now belongs: where it last stood, or where Java puts it."""
    if contents.partitions is None:
        return None
    last = _find_effective_record(contents, key, records)
    return partition_of(key, contents.partitions) if last is None else last.kpartition


def _build_tombstones(records: Iterable[_ConnectorRecord]) -> tuple[RawOffsetRecord, ...]:
    return tuple(
        _encode_raw(record.stored.key, None, record.stored.kpartition)
        for record in records
        if record.stored.value is not None
    )


def _encode_raw(key: bytes | None, value: bytes | None, kpartition: int | None) -> RawOffsetRecord:
    assert key is not None
    return RawOffsetRecord(
        key=base64.b64encode(key).decode(),
        value=None if value is None else base64.b64encode(value).decode(),
        kpartition=kpartition,
    )


# --- oddities ----------------------------------------------------------------------------------


def _note_oddities(
    contents: OffsetStoreContents,
    connector: str,
    identity: str,
    records: tuple[_ConnectorRecord, ...],
) -> Iterator[str]:
    sink_offset = [record.stored for record in records if record.stored.value is not None]
    if not sink_offset:
        return
    looked_up = _find_lookup_key(contents, connector, identity, records)
    own = [stored_offset for stored_offset in sink_offset if stored_offset.key == looked_up]
    yield from _note_other_keys(contents, connector, identity, records, looked_up)
    counts = _find_effective_record(contents, looked_up, records)
    if len(own) > 1:
        numbers = ", ".join(str(stored_offset.kpartition) for stored_offset in own)
        home = counts is not None and _is_home(contents, counts)
        why = "to which Connect writes it now" if home else "the newest by its timestamp"
        yield (
            f"{identity}: its key stands in partitions {numbers} of {contents.where}; Connect "
            f"uses the one that it reads last when it starts. Shown is the one in partition "
            f"{None if counts is None else counts.kpartition}, {why}"
        )
    offset = _decode_offset(contents, counts)
    if isinstance(offset, Undecodable):
        yield f"{identity}: its value is no offset ({offset.reason}); a task gets nothing"
    elif offset is not None and offset.is_null:
        yield f"{identity}: its value is null; Connect lists it, and a task gets nothing"
    elif offset is not None and offset.beyond_64_bits:
        yield f"{identity}: {offset.text} is beyond 64 bits; Connect wraps it round"


def _note_other_keys(
    contents: OffsetStoreContents,
    connector: str,
    identity: str,
    records: tuple[_ConnectorRecord, ...],
    looked_up: bytes | None,
) -> Iterator[str]:
    """Say which other raw keys hold something, and how sure it is that no task looks them up."""
    others = [
        record
        for record in records
        if record.stored.value is not None and record.stored.key != looked_up
    ]
    foreign = [stored_offset for stored_offset in others if not stored_offset.bare.is_spelling]
    own = any(
        record.stored.value is not None and record.stored.key == looked_up for record in records
    )
    if foreign:
        rest = "beside the key that it does" if own else "and no other: a task gets nothing"
        yield (
            f"{identity}: {len(foreign)} key(s) in bytes that Connect does not look up, {rest}; "
            f"{_format_key(foreign[0].stored.key)}"
        )
    spelled = [stored_offset for stored_offset in others if stored_offset.bare.is_spelling]
    if not spelled:
        return
    use = contents.spellings(connector).in_use(identity)
    if use.unsure:
        told = ", ".join(
            f"{_format_key(spelling.raw_key)} = "
            f"{'null' if spelling.value is None else spelling.value.text}"
            for spelling in use.unsure
        )
        yield (
            f"{identity}: which of its raw keys its task looks up is not known until it commits "
            f"again; the newest is shown, and a change is written under all: {told}"
        )
        return
    yield (
        f"{identity}: {len(spelled)} more raw key(s) in another order of the fields, under which "
        f"its connector does not commit now; {_format_key(spelled[0].stored.key)}"
    )


def _format_key(key: bytes | None) -> str:
    text = (key or b"").decode(errors="backslashreplace")
    return text if len(text) <= 200 else f"{text[:200]}…"
