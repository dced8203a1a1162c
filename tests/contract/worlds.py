"""Small worlds that tests of the model begin with."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.connect_model import (
    FILE_SOURCE,
    MIRROR_SOURCE,
    SINK,
    Door,
    FakeConnect,
    Trouble,
)

SINK_NAME, SOURCE_NAME, MIRROR_NAME = "rows-sink", "lines-source", "west-mirror"
TOPIC, LINES, UPSTREAM = "rows", "/data/lines.txt", "orders"


def with_sink(
    *, records: int = 0, partitions: int = 1, tasks: int = 1, **built: Any
) -> FakeConnect:
    """A sink that has delivered so many records."""
    connect = FakeConnect(**built)
    connect.broker.create_topic(TOPIC, partitions)
    config = {"connector.class": SINK, "topics": TOPIC, "tasks.max": str(tasks)}
    connect.create(SINK_NAME, config)
    for number in range(records):
        connect.broker.produce(TOPIC, b"%d" % number, partition=number % partitions)
    connect.advance(61.0)
    return connect


def with_source(
    *, lines: int = 0, config: dict[str, str] | None = None, **built: Any
) -> FakeConnect:
    """A FileStream source that has committed so many lines of ten bytes."""
    connect = FakeConnect(**built)
    own = {"connector.class": FILE_SOURCE, "file": LINES, "topic": "lines", "tasks.max": "1"}
    connect.create(SOURCE_NAME, own | (config or {}))
    grow(connect, lines)
    connect.advance(61.0)
    return connect


def with_mirror(*, records: int = 0, partitions: int = 1, **built: Any) -> FakeConnect:
    """A mirror of a topic on west, which has copied so many records."""
    connect = FakeConnect(**built)
    connect.upstreams["west"].create_topic(UPSTREAM, partitions)
    for number in range(records):
        connect.upstreams["west"].produce(UPSTREAM, b"x", partition=number % partitions)
    connect.create(MIRROR_NAME, mirror_config())
    connect.advance(61.0)
    return connect


def mirror_config(**more: str) -> dict[str, str]:
    own = {
        "connector.class": MIRROR_SOURCE,
        "topics": UPSTREAM,
        "tasks.max": "1",
        "source.cluster.alias": "west",
        "target.cluster.alias": "east",
    }
    return own | {name.replace("_", "."): value for name, value in more.items()}


def grow(connect: FakeConnect, lines: int) -> None:
    have = connect.files.size(LINES) // 10
    connect.files.append(LINES, *(f"line {have + number:04d}" for number in range(lines)))


def bad(stage: str = "value_converter", cause: str = "data") -> tuple[Trouble, ...]:
    return (Trouble(stage, cause),)


def request(
    connection: Door, method: str, name: str, what: str = "", body: Any = None
) -> tuple[int, Any]:
    """(status, body), the body decoded."""
    sent = b"" if body is None else json.dumps(body).encode()
    reply = connection.request(method, f"/connectors/{name}{what}", sent)
    return reply.status, json.loads(reply.body) if reply.body else None


def alter(connection: Door, name: str, *pairs: tuple[Any, Any]) -> tuple[int, Any]:
    entries = [{"partition": partition, "offset": offset} for partition, offset in pairs]
    return request(connection, "PATCH", name, "/offsets", {"offsets": entries})


def spot(offset: int | None, partition: int = 0) -> tuple[Any, Any]:
    """A sink's partition and offset."""
    entry = {"kafka_topic": TOPIC, "kafka_partition": partition}
    return entry, None if offset is None else {"kafka_offset": offset}


def file_position(position: int | None) -> tuple[Any, Any]:
    """A file and a position in it."""
    return {"filename": LINES}, None if position is None else {"position": position}


def copied(offset: int | None, partition: int = 0) -> tuple[Any, Any]:
    """A mirrored partition and the last record that was copied."""
    entry = {"cluster": "west", "partition": partition, "topic": UPSTREAM}
    return entry, None if offset is None else {"offset": offset}


def stored(connect: FakeConnect, name: str) -> list[Any]:
    """The offsets that REST shows."""
    status, result = request(connect.door("onlooker"), "GET", name, "/offsets")
    assert status == 200, result
    return [entry["offset"] for entry in result["offsets"]]


def state(connect: FakeConnect, name: str) -> tuple[str, list[str]]:
    """Of the connector and of its tasks, as REST shows it."""
    output = connect.status_of(name)
    return output["connector"]["state"], [task["state"] for task in output["tasks"]]


def numbers(connect: FakeConnect, name: str) -> list[int]:
    """The offsets of what it delivered."""
    return [item.offset for item in connect.delivered[name]]
