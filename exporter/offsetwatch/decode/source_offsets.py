"""Decoders of an offsets topic: the worker's `connect-offsets`, a dedicated one, or MM2's.

MM2's are named `mm2-offsets.<alias>.internal`.

Key: `["connector",{source partition}]`. Value: `{source offset}`, or no value: a tombstone. Both
are schemaless JSON without white space since Kafka 3.0 (OffsetStorageWriter, KIP-738). Older
workers could be configured to wrap both as `{"schema":…,"payload":…}`: those are unwrapped and
labelled, and a task of today never reads them. Other shapes are Undecodable, each with its own
reason.
"""

from __future__ import annotations

import hashlib
from operator import itemgetter
from typing import Any

from offsetwatch.decode.dialects import MIRROR_SOURCE, detect_shape, parse_mirror_partition
from offsetwatch.decode.java.hash_map import (
    build_connect_key,
    has_several_hash_map_orders,
    is_canonical,
)
from offsetwatch.decode.json_text import encode_sorted, is_flat_map, parse_flat_map, parse_json
from offsetwatch.decode.offset_order import Fields
from offsetwatch.decode.text_limits import NAME_CHARS_MAX
from offsetwatch.model.offsets import (
    KeyForm,
    LegacyOffset,
    Scalar,
    SourceKey,
    SourceOffset,
    Undecodable,
)

LABEL_BYTES_MAX = 120  # design/metrics.md: a label longer than this is cut and ends in its hash

_NULL = SourceOffset(text="null", numbers=(), is_null=True)
_NO_BYTES = SourceOffset(text="null", numbers=(), is_null=True, no_bytes=True)

SourcePartitionFields = dict[str, Scalar]


def decode_key(raw: bytes | None) -> SourceKey | Undecodable:
    """Decode a record key. Distinct keys are few: callers cache the results in a dict."""
    if raw is None:
        return Undecodable("key_null")
    parsed = parse_json(raw)
    if isinstance(parsed, Undecodable):
        return Undecodable(f"key_{parsed.reason}")
    enveloped = isinstance(parsed, dict) and parsed.keys() == {"schema", "payload"}
    if enveloped:
        parsed = parsed["payload"]
    if not isinstance(parsed, list) or len(parsed) != 2 or not isinstance(parsed[0], str):
        return Undecodable("key_shape")
    connector, partition = parsed
    if len(connector) > NAME_CHARS_MAX:
        return Undecodable("key_too_long")
    if partition is not None and not is_flat_map(partition):
        return Undecodable("key_partition_shape")
    mirror = None if partition is None else parse_mirror_partition(partition)
    if enveloped:
        form = KeyForm.LEGACY_ENVELOPE
    elif raw == build_connect_key(connector, partition):
        form = KeyForm.CANONICAL
    else:
        form = KeyForm.VARIANT
    if form is KeyForm.CANONICAL:
        ordered = partition is not None and has_several_hash_map_orders(tuple(partition))
    else:
        ordered = form is KeyForm.VARIANT and is_canonical(raw, connector)
    dialect = MIRROR_SOURCE if mirror is not None else detect_shape(partition)
    return SourceKey(
        connector=connector,
        identity=encode_sorted(partition).decode(),
        label="null" if partition is None else format_partition_label(partition),
        form=form,
        dialect=dialect.name,
        mirror=mirror,
        ordered=ordered,
    )


def decode_value(raw: bytes | None) -> SourceOffset | Undecodable | None:
    """Decode a record value; None is a tombstone.

    An empty value and the text `null` are not tombstones: Connect still lists the partition, with
    null.
    """
    if raw is None:
        return None
    if not raw:
        return _NO_BYTES
    fields = decode_fields(raw)
    if fields is not None:
        return _build_source_offset(fields)
    parsed = parse_json(raw)
    if isinstance(parsed, Undecodable):
        return Undecodable(f"value_{parsed.reason}")
    if _is_envelope(parsed):
        inside = _parse_source_offset(parsed["payload"])
        if isinstance(inside, Undecodable):
            return inside
        return LegacyOffset(reason="value_legacy_envelope", offset=inside)
    return _parse_source_offset(parsed)


def decode_fields(raw: bytes) -> Fields | None:
    """Return the fields of a value as a worker writes it; `decode_value` gives the same offset.

    None for any other value, which only `decode_value` can classify.
    """
    fields = parse_flat_map(raw)
    if fields is None or (len(fields) == 2 and _is_envelope(fields)):
        return None
    return fields


def _is_envelope(parsed: object) -> bool:
    """Check whether a value is a schema envelope.

    `schema` and `payload` may also be the names of an offset's own fields; those hold scalars,
    which no schema does.
    """
    if not isinstance(parsed, dict) or parsed.keys() != {"schema", "payload"}:
        return False
    return all(part is None or isinstance(part, dict) for part in parsed.values())


def _parse_source_offset(parsed: Any) -> SourceOffset | Undecodable:
    if parsed is None:
        return _NULL
    return _build_source_offset(parsed) if is_flat_map(parsed) else Undecodable("value_shape")


def _build_source_offset(fields: Fields) -> SourceOffset:
    numbers: tuple[tuple[str, Any], ...] = tuple(fields.items())
    # Of most it is one integer, of which nothing is to be left out or sorted. The types themselves,
    # because to isinstance a bool is an int.
    if len(numbers) != 1 or type(numbers[0][1]) is not int:
        numbers = tuple(
            sorted(item for item in numbers if type(item[1]) is int or type(item[1]) is float)
        )
    return SourceOffset(text=encode_sorted(fields).decode(), numbers=numbers)


def format_partition_label(partition: SourcePartitionFields) -> str:
    """Return `k=v` pairs sorted by key; over 120 bytes they end in `~` and 8 hex digits."""
    text = ",".join(
        f"{name}={value if isinstance(value, str) else encode_sorted(value).decode()}"
        for name, value in sorted(partition.items(), key=itemgetter(0))
    )
    return text if len(text.encode()) <= LABEL_BYTES_MAX else _append_hash(text, text)


def format_namesake_label(label: str, identity: str) -> str:
    """Return the label of a partition where another one of its connector has the same `label`.

    `k=v` pairs do not show types: {"partition":0} and {"partition":"0"} look the same.
    """
    return _append_hash(label, identity)


def _append_hash(text: str, what: str) -> str:
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return text.encode()[: LABEL_BYTES_MAX - 9].decode(errors="ignore") + "~" + digest
