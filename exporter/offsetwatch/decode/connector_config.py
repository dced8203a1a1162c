"""Parser of connector configurations: keeps the few settings that are needed, and drops the rest.

Configurations may hold secrets: nothing but the settings named here leaves this module. It parses
bodies of the REST API and records of the config topic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from offsetwatch.addresses import normalize_address
from offsetwatch.decode.dialects import DEBEZIUM, JDBC, find_own_dialect
from offsetwatch.decode.java.hash_map import trim_blanks, values_of
from offsetwatch.decode.text_limits import is_shortened, shorten_text
from offsetwatch.model.connectors import (
    REFRESH_S,
    Connector,
    ConnectorKind,
    ConnectorSettings,
    DatabaseSettings,
    MirrorSettings,
    SinkSettings,
)
from offsetwatch.model.topology import REGEX_ROUTER, TopicFilter, TopicRouter, is_provided

_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
# Strimzi's own IdentityReplicationPolicy is older than MM2's and names topics as that does.
_POLICY_PACKAGES = (_MIRROR_PACKAGE, "io.strimzi.kafka.connect.mirror.")
_FILE_SOURCE_CLASSES = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "FileStreamSourceConnector",
    "FileStreamSource",
}
_TRANSFORMS_PACKAGE = "org.apache.kafka.connect.transforms."
_PREDICATES_PACKAGE = f"{_TRANSFORMS_PACKAGE}predicates."
_LOGICAL_TABLES = "ByLogicalTableRouter"
# Transforms that write a record to the topic it came with, by package: Connect's own, which may be
# written without, and those of common libraries.
_TOPIC_KEEPING_TRANSFORMS = {
    _TRANSFORMS_PACKAGE: (
        "Cast",
        "DropHeaders",
        "ExtractField",
        "Filter",
        "Flatten",
        "HeaderFrom",
        "HoistField",
        "InsertField",
        "InsertHeader",
        "MaskField",
        "ReplaceField",
        "SetSchemaMetadata",
        "TimestampConverter",
        "ValueToKey",
    ),
    "io.aiven.kafka.connect.transforms.": (
        "ConcatFields",
        "ExtractTimestamp",
        "FilterByFieldValue",
        "Hash",
        "MakeTombstone",
        "TombstoneHandler",
    ),
    "io.confluent.connect.transforms.": ("Drop", "Filter", "GzipDecompress", "TombstoneHandler"),
    "io.debezium.transforms.": ("Filter",),
}
_TOPIC_KEEPING_CLASSES = frozenset(
    package + name for package, names in _TOPIC_KEEPING_TRANSFORMS.items() for name in names
) | frozenset(_TOPIC_KEEPING_TRANSFORMS[_TRANSFORMS_PACKAGE])
_INT_MAX = 2**31 - 1
_DEFAULT_SLOT = "debezium"  # PostgresConnectorConfig.SLOT_NAME
_DEFAULT_PUBLICATION = "dbz_publication"  # PostgresConnectorConfig.PUBLICATION_NAME
_PREFIXES = ("topic.prefix", "database.server.name", "mongodb.name")  # the others until Debezium 1
_DEFAULT_POLL_MS = 5000  # JdbcSourceConnectorConfig.POLL_INTERVAL_MS_DEFAULT
_PORT_DIGITS = 5
_MILLIS_DIGITS = 15
_FILTER_CLASS = f"{_MIRROR_PACKAGE}DefaultTopicFilter"
_FILTER_DEFAULTS = {
    "topics": "",
    "topics.exclude": r"mm2.*\.internal,.*\.replica,__.*",
    "topic.filter.class": _FILTER_CLASS,
    "enabled": "true",
    "topics.blacklist": "",
}
_INTERNAL_SEPARATOR = "replication.policy.internal.topic.separator"


def parse_connector_settings(
    name: str, config: Mapping[Any, object], *, kind: str = ""
) -> ConnectorSettings:
    """Return the settings of a connector's configuration.

    `kind` is Connect's own word, source or sink. The config topic has none, so there a connector
    that is not MM2's is of unknown kind.
    """
    written = {str(key): str(value) for key, value in config.items() if value is not None}
    texts = {key: trim_blanks(value) for key, value in written.items()}
    class_name = shorten_text(texts.get("connector.class", ""))
    if is_provided(class_name):
        class_name = ""
    known = _parse_kind(class_name, kind)
    mirror, translates = (
        _parse_mirror_settings(texts, written) if _is_mirror_connector(class_name, which) else None
        for which in ("Source", "Checkpoint")
    )
    filename = texts.get("file") if class_name in _FILE_SOURCE_CLASSES else None
    if filename is not None and is_provided(filename):
        filename = None
    return ConnectorSettings(
        kind=known,
        class_name=class_name,
        mirror=mirror,
        translates=translates,
        sink=_parse_sink_settings(name, texts, written) if known is ConnectorKind.SINK else None,
        sink_if_one=(
            _parse_sink_settings(name, texts, written) if known is ConnectorKind.UNKNOWN else None
        ),
        dedicated_offsets_topic=texts.get("offsets.storage.topic") or None,
        offsets_addresses=parse_bootstrap_addresses(
            texts.get("producer.override.bootstrap.servers", "")
        ),
        filename=filename,
        database=_parse_database_settings(class_name, texts),
    )


def has_shortened_text(settings: ConnectorSettings | Connector) -> bool:
    """Check whether the class or an alias of a connector was too long and has been shortened."""
    mirrors = (mirror for mirror in (settings.mirror, settings.translates) if mirror is not None)
    aliases = (alias for mirror in mirrors for alias in (mirror.source, mirror.target))
    return any(map(is_shortened, (settings.class_name, *aliases)))


def has_connector_class(config: Mapping[Any, object]) -> bool:
    """Check whether a configuration names a class, which every connector's does (ConnectorConfig).

    An empty map, or one of which a proxy left out values, is no configuration.
    """
    class_name = config.get("connector.class")
    return class_name is not None and trim_blanks(str(class_name)) != ""


def _parse_database_settings(class_name: str, config: Mapping[str, str]) -> DatabaseSettings | None:
    """Return what a Debezium or JDBC source connector reads; None for any other class.

    A JDBC URL may hold a password, so it is not read.
    """
    dialect = find_own_dialect(class_name)
    if dialect is None:
        return None
    if dialect == JDBC.name:
        mode = _read_plain(config, "mode")
        columns = _read_plain(config, "timestamp.column.name") or ""
        return DatabaseSettings(
            mode=mode,
            incrementing_column=_read_plain(config, "incrementing.column.name"),
            timestamp_columns=tuple(name for name in values_of(columns) if name),
            has_query=bool(config.get("query")),
            poll_s=_read_millis(config, "poll.interval.ms", _DEFAULT_POLL_MS)
            + _read_millis(config, "timestamp.delay.interval.ms", 0),
        )
    if not dialect.startswith(f"{DEBEZIUM.name}_"):
        return None
    port = _read_plain(config, "database.port")
    is_port = port is not None and port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS
    return DatabaseSettings(
        host=_read_plain(config, "database.hostname"),
        port=int(port) if port is not None and is_port else None,
        database=_read_plain(config, "database.dbname"),
        user=_read_plain(config, "database.user"),
        topic_prefix=next(
            (prefix for name in _PREFIXES if (prefix := _read_plain(config, name))), None
        ),
        slot=_read_plain(config, "slot.name", _DEFAULT_SLOT),
        publication=_read_plain(config, "publication.name", _DEFAULT_PUBLICATION),
    )


def _read_plain(config: Mapping[str, str], name: str, default: str | None = None) -> str | None:
    """Return a setting; None where a config provider has it, and `default` where it is unset."""
    value = config.get(name) or default
    return None if value is None or is_provided(value) else value


def _read_millis(config: Mapping[str, str], name: str, default: int) -> float:
    """Return a time in seconds; the default where it is no plain number."""
    text = (config.get(name) or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _MILLIS_DIGITS
    return (int(text) if is_number else default) / 1000


def _is_mirror_connector(class_name: str, which: str) -> bool:
    """Check whether a class name is that of an MM2 connector.

    Connect also accepts aliases: the simple name, with or without its suffix `Connector`.
    """
    simple = f"Mirror{which}"
    return class_name in {f"{_MIRROR_PACKAGE}{simple}Connector", f"{simple}Connector", simple}


def _parse_kind(class_name: str, kind: str) -> ConnectorKind:
    simple = class_name.removeprefix(_MIRROR_PACKAGE).removesuffix("Connector")
    if simple in {"MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat"}:
        return ConnectorKind.MIRROR
    if kind in {ConnectorKind.SOURCE, ConnectorKind.SINK}:
        return ConnectorKind(kind)
    return ConnectorKind.UNKNOWN


def _parse_mirror_settings(config: Mapping[str, str], written: Mapping[str, str]) -> MirrorSettings:
    """Return the settings of an MM2 connector.

    Defaults and names are those of MirrorSourceConfig and DefaultReplicationPolicy (KIP-716,
    KIP-690). A policy is configured with the values as they are `written`: blanks around a
    separator are part of it, and a truth value with blanks around it is false to
    Boolean.parseBoolean.
    """
    source = shorten_text(config.get("source.cluster.alias", "source"))
    target = shorten_text(config.get("target.cluster.alias", "target"))
    location = config.get("offset-syncs.topic.location", "source")
    on_source = location != "target"
    emitted = config.get("emit.offset-syncs.enabled", "true")
    separator = internal = written.get("replication.policy.separator", ".")
    shared = written.get(f"{_INTERNAL_SEPARATOR}.enabled", "true")
    if is_provided(shared) and separator != ".":
        internal = shared
    elif shared.lower() != "true":
        internal = "."
    alias = target if on_source else source
    topic = internal.join(("mm2-offset-syncs", alias, "internal"))
    has_syncs = emitted.lower() != "false"
    is_known = not has_syncs or not is_provided(topic, location, emitted)
    return MirrorSettings(
        source=source,
        target=target,
        source_addresses=parse_bootstrap_addresses(
            config.get("source.cluster.bootstrap.servers", "")
        ),
        target_addresses=parse_bootstrap_addresses(
            config.get("target.cluster.bootstrap.servers", "")
        ),
        syncs_topic=topic if has_syncs and is_known else None,
        syncs_known=is_known,
        syncs_on_source=on_source,
        read_committed=_parse_isolation(_read_consumer_setting(config, "isolation.level"), False),
        from_start=_read_consumer_setting(config, "auto.offset.reset") in {None, "earliest"},
        policy=_shorten_policy_name(
            config.get("replication.policy.class", "DefaultReplicationPolicy")
        ),
        separator=separator,
        internal_separator=internal,
        routers=tuple(_parse_routers(config, written)),
        refresh_s=_parse_refresh_s(config),
        topic_filter=_parse_topic_filter(config),
    )


def _shorten_policy_name(class_name: str) -> str:
    """Return the simple name of a policy of MM2's own, and any other class name unchanged.

    A class of another package may have the same simple name.
    """
    for package in _POLICY_PACKAGES:
        if class_name.startswith(package):
            return class_name.removeprefix(package)
    return class_name


def _parse_routers(config: Mapping[str, str], written: Mapping[str, str]) -> Iterator[TopicRouter]:
    """Yield the transforms that may write to another topic, in their order.

    A transform of an unknown class may do anything, so it is among them.
    """
    for alias in values_of(config.get("transforms", "")):
        prefix = f"transforms.{alias}."
        class_name = config.get(f"{prefix}type", "")
        if class_name.partition("$")[0] in _TOPIC_KEEPING_CLASSES:
            continue
        router = TopicRouter(class_name.rpartition(".")[2] or alias)
        if class_name in {REGEX_ROUTER, _TRANSFORMS_PACKAGE + REGEX_ROUTER}:
            names = config.get(f"{prefix}regex"), config.get(f"{prefix}replacement")
        elif class_name in {_LOGICAL_TABLES, f"io.debezium.transforms.{_LOGICAL_TABLES}"}:
            # Debezium reads its settings as they are written.
            names = written.get(f"{prefix}topic.regex"), written.get(f"{prefix}topic.replacement")
        else:
            names = None, None
        regex, replacement = names
        if regex is not None and replacement is not None and not is_provided(regex, replacement):
            router = replace(router, regex=regex, replacement=replacement)
        yield _add_predicate(router, config, prefix)


def _add_predicate(router: TopicRouter, config: Mapping[str, str], prefix: str) -> TopicRouter:
    """Add the condition under which Connect applies a transform (KIP-585)."""
    alias = config.get(f"{prefix}predicate", "")
    if not alias:
        return router
    class_name = config.get(f"predicates.{alias}.type", "").removeprefix(_PREDICATES_PACKAGE)
    pattern = config.get(f"predicates.{alias}.pattern", "")
    negated = config.get(f"{prefix}negate", "false").lower()
    if (
        class_name != "TopicNameMatches"
        or not pattern
        or is_provided(pattern)
        or negated not in {"true", "false"}
    ):
        return replace(router, conditional=True)
    return replace(router, topics=pattern, negated=negated == "true")


def _parse_topic_filter(config: Mapping[str, str]) -> TopicFilter | None:
    """Return the topics that a configuration names; None without any, or if they are not known.

    They are joined as MirrorUtils.compilePatternList does. The class of a filter may be another
    one, and `topics.blacklist` is the name of `topics.exclude` in old versions.
    """
    settings = tuple(config.get(name, default) for name, default in _FILTER_DEFAULTS.items())
    topics, exclude, class_name, enabled, old_exclude = settings
    if (
        not topics
        or is_provided(*settings)
        or class_name != _FILTER_CLASS
        or enabled.lower() != "true"
        or old_exclude
    ):
        return None
    return TopicFilter("|".join(values_of(topics)), "|".join(values_of(exclude)))


def _parse_refresh_s(config: Mapping[str, str]) -> float | None:
    """Return how often MM2 looks for new topics and partitions, in seconds; None: never.

    The setting is MirrorSourceConfig.refreshTopicsInterval. Scheduler ignores a negative interval.
    Infinite if a config provider knows it.
    """
    enabled = config.get("refresh.topics.enabled", "true")
    interval = config.get("refresh.topics.interval.seconds", str(int(REFRESH_S)))
    if enabled.lower() == "false":
        return None
    if is_provided(enabled, interval):
        return math.inf
    try:
        seconds = int(interval)
    except ValueError:
        return REFRESH_S
    if seconds > _INT_MAX:  # no connector starts with it
        return REFRESH_S
    return float(seconds) if seconds >= 0 else None


def _read_consumer_setting(config: Mapping[str, str], name: str) -> str | None:
    """Return a setting of the connector's consumer, from the more specific prefix; None if unset.

    The prefixes are those that MirrorConnectorConfig.sourceConsumerConfig merges. `source.cluster.`
    gives the consumer addresses and security only.
    """
    return config.get(f"source.consumer.{name}", config.get(f"consumer.{name}"))


def _parse_isolation(level: str | None, default: bool | None) -> bool | None:  # noqa: FBT001
    """Return whether an isolation level is read_committed; None if a config provider knows it."""
    if level is None:
        return default
    return None if is_provided(level) else level == "read_committed"


def _parse_sink_settings(
    name: str, config: Mapping[str, str], written: Mapping[str, str]
) -> SinkSettings:
    """Return the settings of a sink connector.

    `topics.regex` is compiled as it is `written` (WorkerSinkTask); the other values are trimmed.
    Topics that a config provider knows are like a pattern that cannot be evaluated.
    """
    level = config.get("consumer.override.isolation.level")
    topics = config.get("topics", "")
    pattern = written["topics.regex"] if config.get("topics.regex") else None
    if is_provided(topics):
        topics, pattern = "", topics
    return SinkSettings(
        group=config.get("consumer.override.group.id", f"connect-{name}"),
        addresses=parse_bootstrap_addresses(config.get("consumer.override.bootstrap.servers", "")),
        topics=frozenset(values_of(topics)) - {""},
        topics_regex=pattern,
        read_committed=_parse_isolation(level, None),
        from_start=config.get("consumer.override.auto.offset.reset", "earliest") == "earliest",
    )


def parse_bootstrap_addresses(text: str) -> frozenset[str]:
    """Return the normalized `host:port` of each bootstrap server, without a protocol."""
    parts = (part.rpartition("://")[2] for part in values_of(text))
    return frozenset(normalize_address(part) for part in parts if part)
