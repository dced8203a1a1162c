"""The answer to `GET /` of a Connect worker. Pure and total."""

from __future__ import annotations

import msgspec

from offsetwatch.model.offsets import Undecodable


class ConnectRoot(msgspec.Struct, frozen=True):
    """What a worker says of itself; the Kafka cluster's id since 1.1."""

    version: str
    kafka_cluster_id: str | None = None


def decode_root(body: bytes) -> ConnectRoot | Undecodable:
    """Undecodable if this is no Connect worker."""
    try:
        return msgspec.json.decode(body, type=ConnectRoot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Undecodable("root_shape")
