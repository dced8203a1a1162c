"""A connector's configuration -> the few settings that we need, wherever it was found.

Configurations may hold secrets: what is named here leaves this module, and nothing else. Called for
bodies of the REST API and for records of the config topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.model.connectors import (
    ConnectorKind,
    ConnectorSettings,
    MirrorSettings,
    SinkSettings,
)

_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
_FILE_STREAM = "org.apache.kafka.connect.file.FileStream"


def connector_settings(
    name: str, config: Mapping[object, object], *, kind: str = ""
) -> ConnectorSettings:
    """`kind` is Connect's own word, source or sink; the config topic has none, and a connector that
    is not MM2's is of unknown kind there.
    """
    texts = {str(key): str(value) for key, value in config.items() if value is not None}
    class_name = texts.get("connector.class", "")
    known = _kind(class_name, kind)
    return ConnectorSettings(
        kind=known,
        class_name=class_name,
        mirror=_mirror(texts) if _is_mirrors(class_name, "Source") else None,
        translates=_mirror(texts) if _is_mirrors(class_name, "Checkpoint") else None,
        sink=_sink(name, texts) if known is ConnectorKind.SINK else None,
        dedicated_offsets_topic=texts.get("offsets.storage.topic"),
        offsets_addresses=_addresses(texts.get("producer.override.bootstrap.servers", "")),
        filename=texts.get("file") if _is_file_source(class_name) else None,
    )


def _is_mirrors(class_name: str, which: str) -> bool:
    """Connect also accepts aliases: the simple name, with or without its suffix."""
    simple = f"Mirror{which}"
    return class_name in {f"{_MIRROR_PACKAGE}{simple}Connector", f"{simple}Connector", simple}


def _is_file_source(class_name: str) -> bool:
    return class_name in {
        f"{_FILE_STREAM}SourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
    }


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
    separator = internal = config.get("replication.policy.separator", ".")
    if config.get("replication.policy.internal.topic.separator.enabled", "true").lower() == "false":
        internal = "."
    alias = target if on_source else source
    topic = internal.join(("mm2-offset-syncs", alias, "internal"))
    policy = config.get("replication.policy.class", "DefaultReplicationPolicy")
    return MirrorSettings(
        source=source,
        target=target,
        source_addresses=_addresses(config.get("source.cluster.bootstrap.servers", "")),
        target_addresses=_addresses(config.get("target.cluster.bootstrap.servers", "")),
        syncs_topic=topic if emitted else None,
        syncs_on_source=on_source,
        read_committed=_consumer(config, "isolation.level") == "read_committed",
        from_start=_consumer(config, "auto.offset.reset") in {None, "earliest"},
        policy=policy.rpartition(".")[2],
        separator=separator,
    )


def _consumer(config: Mapping[str, str], name: str) -> str | None:
    """A setting of its consumer, from the more specific of the prefixes that
    MirrorConnectorConfig.sourceConsumerConfig merges.

    `source.cluster.` gives it addresses and security only.
    """
    for prefix in ("source.consumer.", "consumer."):
        value = config.get(prefix + name)
        if value is not None:
            return value
    return None


def _sink(name: str, config: Mapping[str, str]) -> SinkSettings:
    level = config.get("consumer.override.isolation.level")
    return SinkSettings(
        group=config.get("consumer.override.group.id", f"connect-{name}"),
        addresses=_addresses(config.get("consumer.override.bootstrap.servers", "")),
        topics=frozenset(topic.strip() for topic in config.get("topics", "").split(",")) - {""},
        topics_regex=config.get("topics.regex") or None,
        read_committed=None if level is None else level == "read_committed",
    )


def _addresses(text: str) -> frozenset[str]:
    """`host:port` of each bootstrap server, without a protocol prefix."""
    parts = (part.strip().rpartition("://")[2] for part in text.split(","))
    return frozenset(part for part in parts if part)
