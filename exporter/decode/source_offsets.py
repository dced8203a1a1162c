"""Records of an offsets topic: `connect-offsets`, a dedicated one, or
`mm2-offsets.<alias>.internal`.

Key: `["connector",{source partition}]`. Value: `{source offset}`, or no value: a tombstone. Both
are schemaless JSON without white space since Kafka 3.0 (OffsetStorageWriter, KIP-738). Older
clusters may hold other shapes; those are Undecodable with a reason of their own, never guessed at.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from exporter.decode.dialects import MIRROR_SOURCE, dialect_of, mirror_partition
from exporter.decode.javamap import connect_key
from exporter.model.offsets import Scalar, SourceKey, SourceOffset, Undecodable

LABEL_BYTES_MAX = 120  # design/metrics.md: a label longer than this is cut and ends in its hash

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


def decode_key(raw: bytes | None) -> SourceKey | Undecodable:
    """Decode a record key. Distinct keys are few: callers keep the results in a dict."""
    if raw is None:
        return Undecodable("key_null")
    parsed = _parse(raw)
    if isinstance(parsed, Undecodable):
        return Undecodable(f"key_{parsed.reason}")
    if isinstance(parsed, dict) and parsed.keys() == {"schema", "payload"}:
        return Undecodable("key_legacy_envelope")
    if not isinstance(parsed, list) or len(parsed) != 2 or not isinstance(parsed[0], str):
        return Undecodable("key_shape")
    connector, partition = parsed
    if partition is None:
        return Undecodable("key_partition_null")
    if not _is_flat_map(partition):
        return Undecodable("key_partition_shape")
    return _source_key(raw, connector, partition)


def decode_value(raw: bytes | None) -> SourceOffset | Undecodable | None:
    """Decode a record value; None is a tombstone.

    No bytes and the text `null` are not tombstones: Connect goes on listing the partition, with
    null.
    """
    if raw is None:
        return None
    if not raw:
        return SourceOffset(text="null", numbers=(), is_null=True)
    parsed = _parse(raw)
    if isinstance(parsed, Undecodable):
        return Undecodable(f"value_{parsed.reason}")
    if parsed is None:
        return SourceOffset(text="null", numbers=(), is_null=True)
    if not _is_flat_map(parsed):
        return Undecodable("value_shape")
    numbers = tuple(
        sorted(
            (name, value)
            for name, value in parsed.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        )
    )
    return SourceOffset(text=_encode(parsed).decode(), numbers=numbers)


def _source_key(raw: bytes, connector: str, partition: dict[str, Scalar]) -> SourceKey:
    mirror = mirror_partition(partition)
    dialect = MIRROR_SOURCE if mirror is not None else dialect_of(partition)
    return SourceKey(
        connector=connector,
        identity=_encode(partition).decode(),
        label=partition_label(partition),
        canonical=raw == connect_key(connector, partition),
        dialect=dialect.name,
        mirror=mirror,
    )


def partition_label(partition: dict[str, Scalar]) -> str:
    """`k=v` pairs sorted by key; over 120 bytes it is cut and ends in `~` and 8 hex digits."""
    text = ",".join(f"{name}={_label_value(partition[name])}" for name in sorted(partition))
    return text if len(text.encode()) <= LABEL_BYTES_MAX else _hashed(text, text)


def namesake_label(label: str, identity: str) -> str:
    """The label of a source partition where another one of its connector has the same `label`.

    `k=v` pairs do not show types: {"partition":0} and {"partition":"0"} read alike.
    """
    return _hashed(label, identity)


def _hashed(text: str, what: str) -> str:
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return text.encode()[: LABEL_BYTES_MAX - 9].decode(errors="ignore") + "~" + digest


def _label_value(value: Scalar) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _parse(raw: bytes) -> Any:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Undecodable("not_json")
    except RecursionError:  # deeply nested input: hostile, and never an offset
        return Undecodable("nested_too_deep")


def _is_flat_map(value: object) -> bool:
    """Connect accepts maps of primitives only (OffsetUtils.validateFormat)."""
    return isinstance(value, dict) and not any(
        isinstance(item, dict | list) for item in value.values()
    )
