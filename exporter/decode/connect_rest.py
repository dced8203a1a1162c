"""Bodies of the Connect REST API -> connectors and offsets.

Pure and total like the rest of decode. Configurations may hold secrets: only the settings named
here leave this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from exporter.model.connectors import (
    Connector,
    ConnectorKind,
    MirrorSettings,
    SinkSettings,
    Task,
)
from exporter.model.offsets import Undecodable

_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
_MIRROR_SOURCE = _MIRROR_PACKAGE + "MirrorSourceConnector"
_encode = msgspec.json.Encoder(order="sorted").encode


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
        text = None if offset is None else _encode(offset).decode()
        found.append((_encode(entry["partition"]).decode(), text))
    return tuple(found)


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
    config = {str(key): str(value) for key, value in raw_config.items() if value is not None}
    class_name = config.get("connector.class", "")
    kind = _kind(class_name, str(info.get("type", status.get("type", ""))))
    return Connector(
        name=name,
        kind=kind,
        class_name=class_name,
        version=str(state.get("version") or ""),
        state=str(state.get("state", "")).lower(),
        tasks=tuple(
            Task(number=task["id"], state=str(task.get("state", "")).lower())
            for task in tasks
            if isinstance(task, dict) and isinstance(task.get("id"), int)
        ),
        mirror=_mirror(config) if _is_mirror_source(class_name) else None,
        sink=_sink(name, config) if kind is ConnectorKind.SINK else None,
        dedicated_offsets_topic=config.get("offsets.storage.topic"),
    )


def _is_mirror_source(class_name: str) -> bool:
    """Connect also accepts aliases: the simple name, with or without its suffix."""
    return class_name in {_MIRROR_SOURCE, "MirrorSourceConnector", "MirrorSource"}


def _kind(class_name: str, kind: str) -> ConnectorKind:
    simple = class_name.removeprefix(_MIRROR_PACKAGE).removesuffix("Connector")
    if simple in {"MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat"}:
        return ConnectorKind.MIRROR
    if kind in {ConnectorKind.SOURCE, ConnectorKind.SINK}:
        return ConnectorKind(kind)
    return ConnectorKind.UNKNOWN


def _mirror(config: Mapping[str, str]) -> MirrorSettings:
    """Defaults and names from MirrorSourceConfig and DefaultReplicationPolicy (KIP-716,
    KIP-690).
    """
    source = config.get("source.cluster.alias", "source")
    target = config.get("target.cluster.alias", "target")
    on_source = config.get("offset-syncs.topic.location", "source") != "target"
    emitted = config.get("emit.offset-syncs.enabled", "true").lower() != "false"
    separator = config.get("replication.policy.separator", ".")
    if config.get("replication.policy.internal.topic.separator.enabled", "true").lower() == "false":
        separator = "."
    alias = target if on_source else source
    topic = separator.join(("mm2-offset-syncs", alias, "internal"))
    return MirrorSettings(
        source=source,
        target=target,
        source_addresses=_addresses(config.get("source.cluster.bootstrap.servers", "")),
        target_addresses=_addresses(config.get("target.cluster.bootstrap.servers", "")),
        syncs_topic=topic if emitted else None,
        syncs_on_source=on_source,
        read_committed=_isolation(config) == "read_committed",
    )


def _isolation(config: Mapping[str, str]) -> str:
    """The more specific of the prefixes that MirrorConnectorConfig.sourceConsumerConfig merges.

    `source.cluster.` gives it addresses and security only.
    """
    for prefix in ("source.consumer.", "consumer."):
        level = config.get(prefix + "isolation.level")
        if level is not None:
            return level
    return "read_uncommitted"


def _sink(name: str, config: Mapping[str, str]) -> SinkSettings:
    return SinkSettings(
        group=config.get("consumer.override.group.id", f"connect-{name}"),
        addresses=_addresses(config.get("consumer.override.bootstrap.servers", "")),
    )


def _addresses(text: str) -> frozenset[str]:
    """`host:port` of each bootstrap server, without a protocol prefix."""
    parts = (part.strip().rpartition("://")[2] for part in text.split(","))
    return frozenset(part for part in parts if part)
