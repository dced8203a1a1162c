"""Decoders of the status topic of a Connect cluster (KafkaStatusBackingStore).

Keys are plain text:

    status-connector-<name>                   {"state","trace","worker_id","generation","version"}
    status-task-<name>-<n>                    the same
    status-topic-<topic>:connector-<name>     {"topic":{"name","connector","task",…}}

A tombstone is a deleted status. Names may contain `-`: a task's number follows the last one. A
trace may quote records and configurations: it is dropped, except for the failure kind.
"""

from __future__ import annotations

import sys
from typing import Any

from offsetwatch.decode.json_text import parse_json, replace_lone_surrogates
from offsetwatch.decode.stack_trace import failure_of
from offsetwatch.model.connectors import (
    Condition,
    ConnectorStatus,
    StatusRecord,
    TaskStatus,
    TopicUse,
)
from offsetwatch.model.offsets import Undecodable

_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"
_TOPIC_SEPARATOR = ":connector-"


def decode_status(key: bytes | None, value: bytes | None) -> StatusRecord | Undecodable:
    """Decode a record of the status topic."""
    name = decode_text_key(key)
    if isinstance(name, Undecodable):
        return name
    body = decode_json_map(value)
    if isinstance(body, Undecodable):
        return body
    if name.startswith(_TOPIC):
        return _parse_topic_use(name.removeprefix(_TOPIC), body)
    if name.startswith(_CONNECTOR):
        whose: tuple[str, int | None] | Undecodable = (name.removeprefix(_CONNECTOR), None)
    elif name.startswith(_TASK):
        whose = parse_task_id(name.removeprefix(_TASK))
    else:
        return Undecodable("key_unknown")
    if isinstance(whose, Undecodable):
        return whose
    condition = None if body is None else _parse_condition(body)
    if isinstance(condition, Undecodable):
        return condition
    connector, task = whose
    if task is None:
        return ConnectorStatus(connector=connector, condition=condition)
    return TaskStatus(connector=connector, task=task, condition=condition)


def decode_text_key(key: bytes | None) -> str | Undecodable:
    """Decode a key of Connect's own topics: plain UTF-8."""
    if key is None:
        return Undecodable("key_null")
    try:
        return key.decode()
    except UnicodeDecodeError:
        return Undecodable("key_not_utf8")


def decode_json_map(value: bytes | None) -> dict[str, Any] | Undecodable | None:
    """Decode a value of Connect's own topics: a map; None is a tombstone."""
    if value is None:
        return None
    parsed = parse_json(value)
    if isinstance(parsed, Undecodable):
        parsed = parse_json(replace_lone_surrogates(value))  # as of a trace that was cut
    if isinstance(parsed, Undecodable):
        return Undecodable(f"value_{parsed.reason}")
    return parsed if isinstance(parsed, dict) else Undecodable("value_shape")


def parse_task_id(text: str) -> tuple[str, int] | Undecodable:
    """Parse `<connector>-<number>`."""
    connector, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdigit() or len(number) > 9:
        return Undecodable("key_task")
    return connector, int(number)


def parse_integer(value: object) -> int | None:
    """Return an integer, or None for any other value, a bool included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_condition(body: dict[str, Any]) -> Condition | Undecodable:
    state, worker = body.get("state"), body.get("worker_id")
    generation = parse_integer(body.get("generation"))
    if not isinstance(state, str) or not isinstance(worker, str) or generation is None:
        return Undecodable("value_shape")
    return Condition(
        state=sys.intern(state.lower()),
        worker=sys.intern(worker),
        generation=generation,
        version=sys.intern(str(body.get("version") or "")),
        failure=failure_of(body.get("trace")),
    )


def _parse_topic_use(rest: str, body: dict[str, Any] | None) -> TopicUse | Undecodable:
    """Decode a topic's use; a topic's name has no colon, so the first colon ends it."""
    topic, separator, connector = rest.partition(_TOPIC_SEPARATOR)
    if not separator:
        return Undecodable("key_topic")
    if body is None:
        return TopicUse(topic=topic, connector=connector, task=None, since=None)
    use = body.get("topic")
    task = parse_integer(use.get("task")) if isinstance(use, dict) else None
    millis = parse_integer(use.get("discoverTimestamp")) if isinstance(use, dict) else None
    if task is None or millis is None or not 0 <= millis < 2**63:
        return Undecodable("value_shape")
    return TopicUse(topic=topic, connector=connector, task=task, since=millis / 1000)
