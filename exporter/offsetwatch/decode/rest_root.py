"""Decoder of the answer to `GET /` of a Connect worker. Pure and total."""

from __future__ import annotations

import msgspec

from offsetwatch.model.offsets import Undecodable


class ConnectRoot(msgspec.Struct, frozen=True):
    """Version of a worker, and the id of its Kafka cluster (since 1.1)."""

    version: str
    kafka_cluster_id: str | None = None


def decode_root(body: bytes) -> ConnectRoot | Undecodable:
    """Decode the answer to `GET /`; undecodable if it is not from a Connect worker."""
    try:
        return msgspec.json.decode(body, type=ConnectRoot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Undecodable("root_shape")
