"""Records of a Connect cluster's status topic (KafkaStatusBackingStore), keys in plain text:

    status-connector-<name>                   {"state","trace","worker_id","generation","version"}
    status-task-<name>-<n>                    the same
    status-topic-<topic>:connector-<name>     {"topic":{"name","connector","task",…}}

No value is a status that was deleted. Names hold `-` like any other character: a task's number is
what stands after the last one. A trace quotes records and configurations at times: it is dropped,
but for what failure.py keeps.
"""

from __future__ import annotations

from typing import Any

from offsetwatch.decode.failure import failure_of
from offsetwatch.decode.json_text import parse_json
from offsetwatch.model.connect.connectors import (
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
    """Decode one whole record."""
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
    """The keys of Connect's own topics are plain UTF-8."""
    if key is None:
        return Undecodable("key_null")
    try:
        return key.decode()
    except UnicodeDecodeError:
        return Undecodable("key_not_utf8")


def decode_json_map(value: bytes | None) -> dict[str, Any] | Undecodable | None:
    """The values of Connect's own topics are maps; None is a tombstone."""
    if value is None:
        return None
    parsed = parse_json(value)
    if isinstance(parsed, Undecodable):
        return Undecodable(f"value_{parsed.reason}")
    return parsed if isinstance(parsed, dict) else Undecodable("value_shape")


def parse_task_id(text: str) -> tuple[str, int] | Undecodable:
    """`<connector>-<number>`."""
    connector, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdigit() or len(number) > 9:
        return Undecodable("key_task")
    return connector, int(number)


def parse_integer(value: object) -> int | None:
    """An integer, which a bool is not."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_condition(body: dict[str, Any]) -> Condition | Undecodable:
    state, worker = body.get("state"), body.get("worker_id")
    generation = parse_integer(body.get("generation"))
    if not isinstance(state, str) or not isinstance(worker, str) or generation is None:
        return Undecodable("value_shape")
    return Condition(
        state=state.lower(),
        worker=worker,
        generation=generation,
        version=str(body.get("version") or ""),
        failure=failure_of(body.get("trace")),
    )


def _parse_topic_use(rest: str, body: dict[str, Any] | None) -> TopicUse | Undecodable:
    """A topic's name holds no colon, so the first one ends it."""
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
