"""Bronze rows from Kafka records, as Arrow batches. The pipeline's only Python over data; no Spark.

It runs on Spark executors, inside stream.py's mapInArrow. It adds nothing to the results of
offsetwatch.decode, and a row NEVER raises: one hostile record would stop the stream for ever. Each
distinct key of a batch is decoded once, because keys are few and values are many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from offsetwatch.decode.dialects import (
    DIALECTS,
    is_lookup_key,
    read_event_time,
    read_event_time_from_fields,
    read_position,
    read_position_from_fields,
)
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.mirror_maker import decode_sync_key, decode_sync_value
from offsetwatch.decode.source_offsets import decode_fields, decode_key, decode_value
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.schemas import (
    ARROW,
    BRONZE_RECORDS,
    CHECKPOINTS,
    CONFIGS,
    CONNECT_OFFSETS,
    DAYS_AHEAD_MAX,
    DAYS_BACK_MAX,
    HEARTBEATS,
    OFFSET_SYNCS,
    RECORD,
    STATUS,
)
from offsetwatch.model.offsets import SourceKey, Undecodable
from offsetwatch.model.topology import AuxiliaryTopic, KafkaTopic, TopicKind, Topology

KEYS_MAX = 16_384  # remembered from batch to batch: at half a kilobyte each, 8 MB

SCHEMA = pa.schema([pa.field(column.name, ARROW[column.type]) for column in RECORD])

# Each batch of a partition brings the keys of the one before.
_decode_key = lru_cache(maxsize=KEYS_MAX)(decode_key)

Key = TypeVar("Key")
Columns = dict[str, Any]  # an Arrow array by column name; Arrow ships no types

_KEY = (
    *("connector", "source_partition", "canonical", "dialect"),
    *("mirror_cluster", "mirror_topic", "mirror_partition", "key_form"),
)
_VALUE = ("source_offset", "pos", "event_at", "error")
_SYNC = ("sync_topic", "sync_partition", "sync_upstream", "sync_downstream", "error")
_OBSERVATION_COLUMNS = ("observation", "error")
# Their values hold configurations, and traces that quote them: of those no byte is kept.
_SECRET_KINDS = frozenset({STATUS, CONFIGS})


@dataclass(frozen=True, slots=True)
class RecordedTopic:
    """Kind of a topic's records, the Connect cluster that owns it, and its id."""

    kind: str
    connect_cluster: str | None
    topic_id: str


def resolve_recorded_topics(
    topology: Topology,
    topic_ids: Mapping[KafkaTopic, str],
    beside: Iterable[AuxiliaryTopic] = (),
) -> dict[KafkaTopic, RecordedTopic]:
    """Return the kind of every topic to be read. Raises HistoryError if one would have two.

    A topic whose id is not given is refused: without it, a topic created again under the same name
    could not be distinguished from the old one, and its records would count as repetitions.
    """
    claims: dict[KafkaTopic, set[tuple[str, str | None]]] = defaultdict(set)
    for offsets in topology.offsets_topics:
        claims[offsets.at].add((CONNECT_OFFSETS, offsets.connect_cluster))
    for flow in topology.flows:
        if flow.offset_syncs is not None:
            claims[flow.offset_syncs].add((OFFSET_SYNCS, None))
    for auxiliary in beside:
        claims[auxiliary.at].add((auxiliary.role.value, auxiliary.connect_cluster))
    recorded: dict[KafkaTopic, RecordedTopic] = {}
    for topic, owners in sorted(claims.items()):
        if len(owners) > 1:
            names = ", ".join(sorted(owner or kind for kind, owner in owners))
            raise HistoryError(f"{topic} is claimed by {names}: its records look the same")
        if topic not in topic_ids:
            raise HistoryError(f"the topic id of {topic} is not known")
        recorded[topic] = RecordedTopic(*owners.pop(), topic_id=topic_ids[topic])
    return recorded


def decode_batches(
    batches: Iterable[pa.RecordBatch], by_topic: Mapping[str, RecordedTopic]
) -> Iterator[pa.RecordBatch]:
    """Decode batches of Spark's Kafka source; rows of one topic stay in order."""
    for batch in batches:
        for topic in pc.unique(batch["topic"]).to_pylist():
            rows = batch.filter(pc.equal(batch["topic"], topic))
            yield _decode(rows, by_topic[topic])


def build_bronze_rows(
    batches: Iterable[pa.RecordBatch],
    by_topic: Mapping[str, RecordedTopic],
    kafka: str,
    read_at: datetime,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of bronze/records from batches of Spark's Kafka source, read at `read_at`.

    `day` is the record's own, clamped around that time: producers' clocks are wrong by centuries at
    times, and each such date would be a folder of its own.
    """
    today = (read_at.date() - date(1970, 1, 1)).days
    least = pa.scalar(today - DAYS_BACK_MAX, pa.int32())
    greatest = pa.scalar(today + DAYS_AHEAD_MAX, pa.int32())
    schema = BRONZE_RECORDS.schema
    for rows in decode_batches(batches, by_topic):
        days = rows["kts"].cast(pa.date32()).cast(pa.int32())
        clamped = pc.max_element_wise(pc.min_element_wise(days, greatest), least)
        added: Columns = {
            "kafka": pa.repeat(kafka, rows.num_rows),
            "ingest_ts": pa.repeat(pa.scalar(read_at, ARROW["TIMESTAMP"]), rows.num_rows),
            "day": clamped.cast(pa.date32()),
        }
        arrays = [added[name] if name in added else rows[name] for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _decode(rows: pa.RecordBatch, role: RecordedTopic) -> pa.RecordBatch:
    columns: Columns = {
        "kind": pa.repeat(role.kind, rows.num_rows),
        "connect_cluster": pa.array([role.connect_cluster] * rows.num_rows, pa.string()),
        "topic": rows["topic"],
        "topic_id": pa.repeat(role.topic_id, rows.num_rows),
        "kpartition": rows["partition"],
        "koffset": rows["offset"],
        "kts": rows["timestamp"],
        "key": rows["key"],
        "value": pa.nulls(rows.num_rows) if role.kind in _SECRET_KINDS else rows["value"],
        **_DECODERS[role.kind](rows),
    }
    absent = pa.nulls(rows.num_rows)
    arrays = [columns.get(field.name, absent).cast(field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _source_columns(rows: pa.RecordBatch) -> Columns:
    keys, indices = _decode_distinct(rows["key"], _decode_key)
    by_key = _columns(_KEY, [_source_key(key) for key in keys])
    key_columns = {name: column.take(indices) for name, column in by_key.items()}
    values = _source_values(keys, indices.to_pylist(), rows["value"].to_pylist())
    return {**key_columns, "tombstone": rows["value"].is_null(), **_columns(_VALUE, values)}


def _source_values(
    keys: list[SourceKey | Undecodable], indices: list[int], raws: list[bytes | None]
) -> list[tuple[object, ...]]:
    """Return the results of `_source_value` for all rows.

    A value as a worker writes it, which is nearly every one, is parsed once, without an object for
    it.
    """
    known = [None if isinstance(key, Undecodable) else DIALECTS[key.dialect] for key in keys]
    values: list[tuple[object, ...]] = []
    for index, raw in zip(indices, raws, strict=True):
        dialect = known[index]
        fields = None if dialect is None or raw is None else decode_fields(raw)
        if dialect is None or fields is None:
            values.append(_source_value(keys[index], raw))
            continue
        pos = micros = None
        if dialect.position is not None:
            pos = read_position_from_fields(dialect, fields)
        if dialect.time is not None:
            micros = _micros(read_event_time_from_fields(dialect, fields))
        values.append((encode_sorted(fields), pos, micros, None))
    return values


def _source_key(key: SourceKey | Undecodable) -> tuple[object, ...]:
    if isinstance(key, Undecodable):
        return (None,) * len(_KEY)
    mirror: tuple[object, ...] = (None, None, None)
    if key.mirror is not None:
        mirror = (key.mirror.cluster, key.mirror.topic, key.mirror.partition)
    form = "ordered" if key.ordered and not key.canonical else key.form.value
    return (key.connector, key.identity, is_lookup_key(key, ""), key.dialect, *mirror, form)


def _source_value(key: SourceKey | Undecodable, raw: bytes | None) -> tuple[object, ...]:
    """Return text, position, event time and error of a value; of an unreadable key, the error."""
    if isinstance(key, Undecodable):
        return (None, None, None, key.reason)
    offset = decode_value(raw)
    if offset is None:
        return (None, None, None, None)
    if isinstance(offset, Undecodable):
        return (None, None, None, offset.reason)
    moment = read_event_time(key.dialect, offset)
    return (offset.text, read_position(key.dialect, offset), _micros(moment), None)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)


def _sync_columns(rows: pa.RecordBatch) -> Columns:
    keys, indices = _decode_distinct(rows["key"], decode_sync_key)
    pairs = zip(indices.to_pylist(), rows["value"].to_pylist(), strict=True)
    return _columns(_SYNC, [_sync(keys[index], raw) for index, raw in pairs])


def _sync(where: tuple[str, int] | Undecodable, raw: bytes | None) -> tuple[object, ...]:
    if isinstance(where, Undecodable):
        return (None, None, None, None, where.reason)
    what = decode_sync_value(raw)
    if isinstance(what, Undecodable):
        return (*where, None, None, what.reason)
    return (*where, *what, None)


def _build_observation_decoder(role: TopicKind) -> Callable[[pa.RecordBatch], Columns]:
    def columns(rows: pa.RecordBatch) -> Columns:
        pairs = zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True)
        nouns = [decode_record(role, key, raw) for key, raw in pairs]
        observations: list[tuple[object, ...]] = [
            (None, noun.reason) if isinstance(noun, Undecodable) else (format_record(noun), None)
            for noun in nouns
        ]
        return _columns(_OBSERVATION_COLUMNS, observations)

    return columns


def _decode_distinct(
    raw_keys: pa.Array, decode: Callable[[bytes | None], Key]
) -> tuple[list[Key], pa.Array]:
    """Decode each distinct key once; return the results, and for every row its index in them."""
    encoded = raw_keys.dictionary_encode()
    distinct = [decode(raw) for raw in encoded.dictionary.to_pylist()]
    absent = len(distinct)  # the index of "no key": dictionary_encode leaves those rows null
    return [*distinct, decode(None)], encoded.indices.fill_null(absent)


def _columns(names: tuple[str, ...], rows: list[tuple[object, ...]]) -> Columns:
    return {
        name: pa.array(values, SCHEMA.field(name).type)
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }


_DECODERS: dict[str, Callable[[pa.RecordBatch], Columns]] = {
    CONNECT_OFFSETS: _source_columns,
    OFFSET_SYNCS: _sync_columns,
    **{
        kind: _build_observation_decoder(TopicKind(kind))
        for kind in (CHECKPOINTS, HEARTBEATS, STATUS, CONFIGS)
    },
}
