"""Decoders of the config and status topics of a Connect cluster.

Keys of the config topic (KafkaConfigBackingStore) are plain text:

    connector-<name>             {"properties":{…}}
    task-<name>-<n>              {"properties":{…}}, in force with the next commit
    commit-<name>                {"tasks":n}
    target-state-<name>          {"state":…,"state.v2":…}
    tasks-fencing-<name>         {"task-count":n}
    restart-connector-<name>     {"include-tasks":…,"only-failed":…}
    logger-cluster-<namespace>   {"level":…}
    session-key                  a secret

It is full of secrets. connector_config.py decides which settings of a connector are retained. The
session key is not parsed, and of a task's configuration only the assignment of a MirrorSourceTask
is read.

Keys of the status topic (KafkaStatusBackingStore):

    status-connector-<name>                   {"state","trace","worker_id","generation","version"}
    status-task-<name>-<n>                    the same
    status-topic-<topic>:connector-<name>     {"topic":{"name","connector","task",…}}

A tombstone is a deleted status. Names may contain `-`: a task's number follows the last one. A
trace may quote records and configurations: it is dropped, except for the failure kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from offsetwatch.decode import InvalidRecordError
from offsetwatch.decode.connector_config import has_shortened_text, parse_connector_settings
from offsetwatch.decode.json_text import parse_json, replace_lone_surrogates
from offsetwatch.decode.stack_trace import failure_of
from offsetwatch.decode.text_limits import (
    NAME_CHARS_MAX,
    STATE_CHARS_MAX,
    TEXT_CHARS_MAX,
)
from offsetwatch.model.connectors import (
    Condition,
    ConfigRecord,
    ConnectorConfigured,
    ConnectorStatus,
    LoggerLevel,
    RestartRequested,
    SessionKey,
    StatusRecord,
    TargetState,
    TaskConfigured,
    TasksCommitted,
    TasksFenced,
    TaskStatus,
    TopicUse,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition, is_topic_name

Body = dict[str, Any] | None  # None is a tombstone

# Of one connector: a number becomes as many tasks. An entry of REST's list holds as many.
TASKS_MAX: Final = 25_000
# A prefix, a connector of up to four bytes a character, and a topic or the number of a task.
KEY_BYTES_MAX: Final = 4 * NAME_CHARS_MAX + 300
_SESSION_KEY = "session-key"
_WRONG_SHAPE = "value_shape"


def decode_config(key: bytes | None, value: bytes | None) -> ConfigRecord | Undecodable:
    """Decode a record of the config topic."""
    try:
        name = decode_text_key(key)
        if name == _SESSION_KEY:
            return SessionKey()
        for prefix, decode in _DECODERS_BY_PREFIX:
            if name.startswith(prefix):
                return decode(name.removeprefix(prefix), decode_json_map(value))
    except InvalidRecordError as exc:
        return Undecodable(str(exc))
    return Undecodable("key_unknown")


def _decode_connector(name: str, body: Body) -> ConnectorConfigured:
    if body is None:
        return ConnectorConfigured(connector=name, settings=None)
    properties = body.get("properties")
    if not isinstance(properties, dict):
        raise InvalidRecordError(_WRONG_SHAPE)
    settings = parse_connector_settings(name, properties)
    if has_shortened_text(settings):
        raise InvalidRecordError("value_text_too_long")
    return ConnectorConfigured(connector=name, settings=settings)


def _decode_task(rest: str, body: Body) -> TaskConfigured:
    connector, task = parse_task_id(rest)
    if task >= TASKS_MAX:
        raise InvalidRecordError("too_many_tasks")
    properties = {} if body is None else body.get("properties")
    if not isinstance(properties, dict):
        raise InvalidRecordError(_WRONG_SHAPE)
    assigned = parse_assigned_partitions(properties)
    return TaskConfigured(connector=connector, task=task, assigned=assigned)


def parse_assigned_partitions(properties: dict[str, Any]) -> tuple[TopicPartition, ...] | None:
    """Return the partitions that a configuration assigns to a MirrorSourceTask.

    None for any other task. The format is `topic-partition,…` as in MirrorSourceTaskConfig; a
    topic's name may contain `-`. Raises InvalidRecordError.
    """
    if not str(properties.get("task.class")).endswith(".MirrorSourceTask"):
        return None
    text = properties.get("task.assigned.partitions")
    if not isinstance(text, str):
        return None
    try:
        assigned = tuple(
            TopicPartition(*parse_task_id(part.strip())) for part in text.split(",") if text
        )
    except InvalidRecordError:
        raise InvalidRecordError("value_assigned_partitions") from None
    if not all(is_topic_name(partition.topic) for partition in assigned):
        raise InvalidRecordError("value_assigned_partitions")
    return assigned


def _decode_commit(name: str, body: Body) -> TasksCommitted:
    tasks = None if body is None else parse_integer(body.get("tasks"))
    if body is not None and (tasks is None or tasks < 0):
        raise InvalidRecordError(_WRONG_SHAPE)
    if tasks is not None and tasks > TASKS_MAX:
        raise InvalidRecordError("too_many_tasks")
    return TasksCommitted(connector=name, tasks=tasks)


def _decode_target_state(name: str, body: Body) -> TargetState:
    """Decode the state that an operator requested; `state.v2` has precedence over `state`.

    `state` exists for workers before 3.5, and says PAUSED where `state.v2` says STOPPED.
    """
    if body is None:
        return TargetState(connector=name, state=None)
    state = body.get("state.v2")
    if state is None:
        state = body.get("state")
    if not isinstance(state, str):
        raise InvalidRecordError(_WRONG_SHAPE)
    return TargetState(connector=name, state=parse_state(state))


def _decode_fencing(name: str, body: Body) -> TasksFenced:
    tasks = None if body is None else parse_java_integer(body.get("task-count"))
    if body is not None and tasks is None:
        raise InvalidRecordError(_WRONG_SHAPE)
    return TasksFenced(connector=name, tasks=tasks)


def _decode_restart(name: str, body: Body) -> RestartRequested:
    if body is None:
        return RestartRequested(connector=name, include_tasks=None, only_failed=None)
    tasks, failed = body.get("include-tasks"), body.get("only-failed")
    if not isinstance(tasks, bool) or not isinstance(failed, bool):
        raise InvalidRecordError(_WRONG_SHAPE)
    return RestartRequested(connector=name, include_tasks=tasks, only_failed=failed)


def _decode_logger(name: str, body: Body) -> LoggerLevel:
    level = None if body is None else body.get("level")
    if body is not None and not isinstance(level, str):
        raise InvalidRecordError(_WRONG_SHAPE)
    return LoggerLevel(logger=name, level=level)


_DECODERS_BY_PREFIX: tuple[tuple[str, Callable[[str, Body], ConfigRecord]], ...] = (
    ("connector-", _decode_connector),
    ("task-", _decode_task),
    ("commit-", _decode_commit),
    ("target-state-", _decode_target_state),
    ("tasks-fencing-", _decode_fencing),
    ("restart-connector-", _decode_restart),
    ("logger-cluster-", _decode_logger),
)


_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"
_TOPIC_SEPARATOR = ":connector-"


def decode_status(key: bytes | None, value: bytes | None) -> StatusRecord | Undecodable:
    """Decode a record of the status topic."""
    try:
        name, body = decode_text_key(key), decode_json_map(value)
        if name.startswith(_TOPIC):
            return _parse_topic_use(name.removeprefix(_TOPIC), body)
        if name.startswith(_CONNECTOR):
            connector = name.removeprefix(_CONNECTOR)
            return ConnectorStatus(connector=connector, condition=_parse_condition(body))
        if name.startswith(_TASK):
            connector, task = parse_task_id(name.removeprefix(_TASK))
            return TaskStatus(connector=connector, task=task, condition=_parse_condition(body))
    except InvalidRecordError as exc:
        return Undecodable(str(exc))
    return Undecodable("key_unknown")


def decode_text_key(key: bytes | None) -> str:
    """Decode a key of Connect's own topics: plain UTF-8. Raises InvalidRecordError."""
    if key is None:
        raise InvalidRecordError("key_null")
    if len(key) > KEY_BYTES_MAX:
        raise InvalidRecordError("key_too_long")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InvalidRecordError("key_not_utf8") from None


def decode_json_map(value: bytes | None) -> dict[str, Any] | None:
    """Decode a value of Connect's own topics: a map; None is a tombstone.

    Raises InvalidRecordError.
    """
    parsed = None if value is None else parse_json(value)
    if value is not None and isinstance(parsed, Undecodable):
        parsed = parse_json(replace_lone_surrogates(value))  # as of a trace that was cut
    if isinstance(parsed, Undecodable):
        raise InvalidRecordError(f"value_{parsed.reason}")
    if value is not None and not isinstance(parsed, dict):
        raise InvalidRecordError("value_shape")
    return parsed


def parse_task_id(text: str) -> tuple[str, int]:
    """Parse `<connector>-<number>`. Raises InvalidRecordError."""
    connector, dash, number = text.rpartition("-")
    if not dash or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise InvalidRecordError("key_task")
    return connector, int(number)


def parse_state(text: str) -> str:
    """Return a state in lower case. Raises InvalidRecordError for one that is too long."""
    if len(text) > STATE_CHARS_MAX:
        raise InvalidRecordError("value_text_too_long")
    return text.lower()


def parse_integer(value: object) -> int | None:
    """Return an integer, or None for any other value, a bool included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_java_integer(value: object) -> int | None:
    """Return a Java int that counts or numbers something; None for any other value."""
    number = parse_integer(value)
    return number if number is not None and 0 <= number < 2**31 else None


def _parse_condition(body: dict[str, Any] | None) -> Condition | None:
    if body is None:
        return None
    state, worker = body.get("state"), body.get("worker_id")
    generation = parse_java_integer(body.get("generation"))
    version = str(body.get("version") or "")
    if not isinstance(state, str) or not isinstance(worker, str) or generation is None:
        raise InvalidRecordError("value_shape")
    if max(len(worker), len(version)) > TEXT_CHARS_MAX:
        raise InvalidRecordError("value_text_too_long")
    return Condition(
        state=sys.intern(parse_state(state)),
        worker=sys.intern(worker),
        generation=generation,
        version=sys.intern(version),
        failure=failure_of(body.get("trace")),
    )


def _parse_topic_use(rest: str, body: dict[str, Any] | None) -> TopicUse:
    """Decode a topic's use; a topic's name has no colon, so the first colon ends it."""
    topic, separator, connector = rest.partition(_TOPIC_SEPARATOR)
    if not separator:
        raise InvalidRecordError("key_topic")
    if body is None:
        return TopicUse(topic=topic, connector=connector, task=None, since=None)
    use = body.get("topic")
    task = parse_java_integer(use.get("task")) if isinstance(use, dict) else None
    millis = parse_integer(use.get("discoverTimestamp")) if isinstance(use, dict) else None
    if task is None or millis is None or not 0 <= millis < 2**63:
        raise InvalidRecordError("value_shape")
    return TopicUse(topic=topic, connector=connector, task=task, since=millis / 1000)
