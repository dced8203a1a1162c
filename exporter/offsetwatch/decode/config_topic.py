"""Decoders of the config topic of a Connect cluster (KafkaConfigBackingStore).

Keys are plain text:

    connector-<name>             {"properties":{…}}
    task-<name>-<n>              {"properties":{…}}, in force with the next commit
    commit-<name>                {"tasks":n}
    target-state-<name>          {"state":…,"state.v2":…}
    tasks-fencing-<name>         {"task-count":n}
    restart-connector-<name>     {"include-tasks":…,"only-failed":…}
    logger-cluster-<namespace>   {"level":…}
    session-key                  a secret

This topic is full of secrets. connector_config.py decides which settings of a connector are
retained. The session key is not parsed, and of a task's configuration only the assignment of a
MirrorSourceTask is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.decode.status_topic import (
    decode_json_map,
    decode_text_key,
    parse_integer,
    parse_task_id,
)
from offsetwatch.model.connectors import (
    ConfigRecord,
    ConnectorConfigured,
    LoggerLevel,
    RestartRequested,
    SessionKey,
    TargetState,
    TaskConfigured,
    TasksCommitted,
    TasksFenced,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition

Body = dict[str, Any] | None  # None is a tombstone

# Of one connector: a number becomes as many tasks. An entry of REST's list holds as many.
TASKS_MAX: Final = 25_000
_SESSION_KEY = "session-key"
_WRONG_SHAPE = Undecodable("value_shape")


def decode_config(key: bytes | None, value: bytes | None) -> ConfigRecord | Undecodable:
    """Decode a record of the config topic."""
    name = decode_text_key(key)
    if isinstance(name, Undecodable):
        return name
    if name == _SESSION_KEY:
        return SessionKey()
    for prefix, decode in _DECODERS_BY_PREFIX:
        if name.startswith(prefix):
            body = decode_json_map(value)
            if isinstance(body, Undecodable):
                return body
            return decode(name.removeprefix(prefix), body)
    return Undecodable("key_unknown")


def _decode_connector(name: str, body: Body) -> ConnectorConfigured | Undecodable:
    if body is None:
        return ConnectorConfigured(connector=name, settings=None)
    properties = body.get("properties")
    if not isinstance(properties, dict):
        return _WRONG_SHAPE
    return ConnectorConfigured(connector=name, settings=parse_connector_settings(name, properties))


def _decode_task(rest: str, body: Body) -> TaskConfigured | Undecodable:
    task = parse_task_id(rest)
    if isinstance(task, Undecodable):
        return task
    if task[1] >= TASKS_MAX:
        return Undecodable("too_many_tasks")
    properties = {} if body is None else body.get("properties")
    if not isinstance(properties, dict):
        return _WRONG_SHAPE
    assigned = parse_assigned_partitions(properties)
    if isinstance(assigned, Undecodable):
        return assigned
    return TaskConfigured(connector=task[0], task=task[1], assigned=assigned)


def parse_assigned_partitions(
    properties: dict[str, Any],
) -> tuple[TopicPartition, ...] | Undecodable | None:
    """Return the partitions that a configuration assigns to a MirrorSourceTask.

    None for any other task. The format is `topic-partition,…` as in MirrorSourceTaskConfig; a
    topic's name may contain `-`.
    """
    if not str(properties.get("task.class")).endswith(".MirrorSourceTask"):
        return None
    text = properties.get("task.assigned.partitions")
    if not isinstance(text, str):
        return None
    found = []
    for part in text.split(",") if text else ():
        place = parse_task_id(part.strip())
        if isinstance(place, Undecodable):
            return Undecodable("value_assigned_partitions")
        found.append(TopicPartition(*place))
    return tuple(found)


def _decode_commit(name: str, body: Body) -> TasksCommitted | Undecodable:
    tasks = None if body is None else parse_integer(body.get("tasks"))
    if body is not None and (tasks is None or tasks < 0):
        return _WRONG_SHAPE
    if tasks is not None and tasks > TASKS_MAX:
        return Undecodable("too_many_tasks")
    return TasksCommitted(connector=name, tasks=tasks)


def _decode_target_state(name: str, body: Body) -> TargetState | Undecodable:
    """Decode the state that an operator requested; `state.v2` has precedence over `state`.

    `state` exists for workers before 3.5, and says PAUSED where `state.v2` says STOPPED.
    """
    if body is None:
        return TargetState(connector=name, state=None)
    state = body.get("state.v2")
    if state is None:
        state = body.get("state")
    return (
        TargetState(connector=name, state=state.lower()) if isinstance(state, str) else _WRONG_SHAPE
    )


def _decode_fencing(name: str, body: Body) -> TasksFenced | Undecodable:
    tasks = None if body is None else parse_integer(body.get("task-count"))
    if body is not None and tasks is None:
        return _WRONG_SHAPE
    return TasksFenced(connector=name, tasks=tasks)


def _decode_restart(name: str, body: Body) -> RestartRequested | Undecodable:
    if body is None:
        return RestartRequested(connector=name, include_tasks=None, only_failed=None)
    tasks, failed = body.get("include-tasks"), body.get("only-failed")
    if not isinstance(tasks, bool) or not isinstance(failed, bool):
        return _WRONG_SHAPE
    return RestartRequested(connector=name, include_tasks=tasks, only_failed=failed)


def _decode_logger(name: str, body: Body) -> LoggerLevel | Undecodable:
    level = None if body is None else body.get("level")
    if body is not None and not isinstance(level, str):
        return _WRONG_SHAPE
    return LoggerLevel(logger=name, level=level)


_DECODERS_BY_PREFIX: tuple[tuple[str, Callable[[str, Body], ConfigRecord | Undecodable]], ...] = (
    ("connector-", _decode_connector),
    ("task-", _decode_task),
    ("commit-", _decode_commit),
    ("target-state-", _decode_target_state),
    ("tasks-fencing-", _decode_fencing),
    ("restart-connector-", _decode_restart),
    ("logger-cluster-", _decode_logger),
)
