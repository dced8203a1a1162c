"""Bytes that Kafka Connect and MirrorMaker 2 wrote, as captured from running clusters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    at: float
    key: bytes
    value: bytes | None


def records(name: str) -> list[Record]:
    """The records of one topic, each Kafka partition in its order."""
    rows = json.loads((GOLDEN / f"{name}.json").read_text())
    results = [
        Record(
            partition=row["partition"],
            offset=row["offset"],
            at=row["ts"] / 1000,
            key=bytes.fromhex(row["key"]),
            value=None if row["value"] is None else bytes.fromhex(row["value"]),
        )
        for row in rows
    ]
    return sorted(results, key=lambda record: (record.partition, record.offset))


def rest_body(request: str) -> bytes:
    """What Connect 4.3.1 answered to this request."""
    answers = json.loads((GOLDEN / "connect-rest.json").read_text())
    return next(answer["body"] for answer in answers if answer["request"] == request).encode()
