"""Bodies of the Connect REST API -> connectors and offsets.

Pure and total like the rest of decode. Configurations may hold secrets, and traces quote data: only
the settings that connector_config.py names leave this module, and of a trace what failure.py keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from exporter.decode.configs import assigned_partitions
from exporter.decode.connector_config import connector_settings
from exporter.decode.failure import TRACE_CHARS_MAX, failure_of
from exporter.decode.jsontext import encode_sorted
from exporter.model.connectors import Connector, Task
from exporter.model.offsets import Undecodable
from exporter.model.topology import TopicPartition


class _ConsumedPartition(msgspec.Struct):
    kafka_topic: str
    kafka_partition: int


class _ConsumedOffset(msgspec.Struct):
    kafka_offset: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a connector and of each of its tasks, in lower case, and whether it is a source
    or a sink (or unknown).
    """

    state: str
    tasks: tuple[str, ...]
    kind: str


def decode_connectors(body: bytes) -> tuple[Connector, ...] | Undecodable:
    """The answer to `GET /connectors?expand=status&expand=info`."""
    parsed = _parse(body)
    if not isinstance(parsed, dict):
        return Undecodable("connectors_not_a_map")
    connectors = []
    for name, entry in sorted(parsed.items()):
        connector = _connector(name, entry)
        if connector is None:
            return Undecodable("connector_shape")
        connectors.append(connector)
    return tuple(connectors)


def decode_offsets(body: bytes) -> tuple[tuple[str, str | None], ...] | Undecodable:
    """The answer to `GET /connectors/{c}/offsets`: (identity, offset text or None for null) pairs.

    Identities and texts are JSON with sorted keys, comparable with SourceKey.identity and
    SourceOffset.text.
    """
    parsed = _parse(body)
    entries = parsed.get("offsets") if isinstance(parsed, dict) else None
    if not isinstance(entries, list):
        return Undecodable("offsets_shape")
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or "partition" not in entry or "offset" not in entry:
            return Undecodable("offsets_entry_shape")
        offset = entry["offset"]
        text = None if offset is None else encode_sorted(offset).decode()
        found.append((encode_sorted(entry["partition"]).decode(), text))
    return tuple(found)


def consumed_partition(identity: str, text: str | None) -> tuple[str, int, int] | None:
    """Return topic, partition and next offset of an entry that `decode_offsets` found of a sink;
    None for an entry of another shape (KIP-875, SinkUtils.parseSinkConnectorOffsets).
    """
    try:
        partition = msgspec.json.decode(identity, type=_ConsumedPartition)
        offset = msgspec.json.decode(text or "null", type=_ConsumedOffset)
    except msgspec.DecodeError:
        return None
    return partition.kafka_topic, partition.kafka_partition, offset.kafka_offset


def decode_assignment(body: bytes) -> frozenset[TopicPartition] | Undecodable:
    """The answer to `GET /connectors/{c}/tasks`: what the tasks of a MirrorSourceConnector copy."""
    parsed = _parse(body)
    if not isinstance(parsed, list):
        return Undecodable("tasks_shape")
    found: set[TopicPartition] = set()
    for task in parsed:
        config = task.get("config") if isinstance(task, dict) else None
        if not isinstance(config, dict):
            return Undecodable("task_shape")
        assigned = assigned_partitions(config)
        if assigned is None:
            return Undecodable("task_not_mirror_source")  # the others' shares would not be all
        if isinstance(assigned, Undecodable):
            return assigned
        found.update(assigned)
    return frozenset(found)


def decode_standing(body: bytes) -> Standing | Undecodable:
    """The answer to `GET /connectors/{c}/status`."""
    parsed = _parse(body)
    connector = parsed.get("connector") if isinstance(parsed, dict) else None
    tasks = parsed.get("tasks") if isinstance(parsed, dict) else None
    if not isinstance(connector, dict) or not isinstance(tasks, list):
        return Undecodable("status_shape")
    if not all(isinstance(task, dict) and "state" in task for task in tasks):
        return Undecodable("status_shape")
    return Standing(
        state=str(connector.get("state", "")).lower(),
        tasks=tuple(str(task["state"]).lower() for task in tasks),
        kind=str(parsed.get("type", "unknown")),
    )


def decode_traces(body: bytes) -> dict[int | None, str] | Undecodable:
    """The answer to `GET /connectors/{c}/status`: the stack traces of what has failed, by task;
    None is the connector itself. They quote records and settings: to be classified, and not kept.
    """
    parsed = _parse(body)
    connector = parsed.get("connector") if isinstance(parsed, dict) else None
    tasks = parsed.get("tasks") if isinstance(parsed, dict) else None
    if not isinstance(connector, dict) or not isinstance(tasks, list):
        return Undecodable("status_shape")
    found: dict[int | None, str] = {}
    for number, at in [(None, connector), *((at.get("id"), at) for at in tasks if _is_map(at))]:
        trace = at.get("trace")
        if str(at.get("state", "")).upper() == "FAILED" and isinstance(trace, str):
            if number is not None and not isinstance(number, int):
                return Undecodable("status_shape")
            found[number] = trace[:TRACE_CHARS_MAX]
    return found


def decode_task_count(body: bytes) -> int | Undecodable:
    """The answer to `GET /connectors/{c}/tasks`: how many tasks are configured."""
    parsed = _parse(body)
    return len(parsed) if isinstance(parsed, list) else Undecodable("tasks_shape")


def decode_plugins(body: bytes) -> dict[str, str] | Undecodable:
    """The answer to `GET /connector-plugins`: class -> source or sink."""
    parsed = _parse(body)
    if not isinstance(parsed, list) or not all(isinstance(at, dict) for at in parsed):
        return Undecodable("plugins_shape")
    return {str(at.get("class")): str(at.get("type")) for at in parsed}


def decode_config_texts(body: bytes) -> dict[str, str | None] | Undecodable:
    """The answer to `GET /connectors/{c}/config`, as Connect keeps it: all values are texts. May
    hold secrets: to be compared, and not kept.
    """
    parsed = _parse(body)
    return config_texts(parsed) if isinstance(parsed, dict) else Undecodable("config_shape")


def config_texts(config: Mapping[str, Any]) -> dict[str, str | None]:
    """A configuration as Connect keeps it, which makes texts of numbers and truth values."""
    return {
        key: value if value is None or isinstance(value, str) else encode_sorted(value).decode()
        for key, value in config.items()
    }


def _is_map(at: object) -> bool:
    return isinstance(at, dict)


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _connector(name: str, entry: object) -> Connector | None:
    """None if the entry lacks what every version of Connect gives."""
    if not isinstance(entry, dict):
        return None
    status, info = entry.get("status"), entry.get("info")
    if not isinstance(status, dict) or not isinstance(info, dict):
        return None
    state, tasks = status.get("connector"), status.get("tasks")
    raw_config = info.get("config")
    if not isinstance(state, dict) or not isinstance(tasks, list):
        return None
    if not isinstance(raw_config, dict):
        return None
    settings = connector_settings(
        name, raw_config, kind=str(info.get("type", status.get("type", "")))
    )
    return Connector(
        name=name,
        kind=settings.kind,
        class_name=settings.class_name,
        version=str(state.get("version") or ""),
        state=str(state.get("state", "")).lower(),
        tasks=tuple(
            Task(
                number=task["id"],
                state=str(task.get("state", "")).lower(),
                failure=failure_of(task.get("trace")),
            )
            for task in tasks
            if isinstance(task, dict) and isinstance(task.get("id"), int)
        ),
        mirror=settings.mirror,
        sink=settings.sink,
        dedicated_offsets_topic=settings.dedicated_offsets_topic,
        offsets_addresses=settings.offsets_addresses,
        failure=failure_of(state.get("trace")),
        translates=settings.translates,
        filename=settings.filename,
    )
