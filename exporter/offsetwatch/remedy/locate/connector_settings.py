"""Settings of a connector that identifying a poison record depends on.

Configurations may hold secrets: only the settings named here leave this module. An externalized
value (`${file:…}`) is unknown. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from offsetwatch.decode.java.hash_map import trim_blanks
from offsetwatch.remedy.locate.converters import (
    UNKNOWN_CONVERTERS,
    ConnectorConverters,
    SettingsMap,
    parse_truth,
    read_converters,
)

BATCH_DEFAULT: Final = 500  # max.poll.records of Kafka's consumer
# Of a worker's properties; nothing else of them is looked at.
WORKER_SETTINGS: Final = frozenset(
    {
        *(
            f"{kind}.converter{setting}"
            for kind in ("key", "value", "header")
            for setting in ("", ".schemas.enable", ".schema.content")
        ),
        "consumer.isolation.level",
        "consumer.max.poll.records",
        "producer.compression.type",
        "producer.max.request.size",
    }
)
_DIGITS_MAX: Final = 10
_TOPIC_CHARS_MAX: Final = 249


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """Settings of a sink.

    batch_max       most records in one batch; None where neither it nor the worker sets it
    tolerant        errors.tolerance is `all`: failures of converters and transforms end no task
    dead_letters    the topic for these records
    logs_records    the worker's log names each record that a converter or transform fails on
    read_committed  None where neither it nor the worker sets it
    """

    converters: ConnectorConverters = UNKNOWN_CONVERTERS
    batch_max: int | None = None
    tolerant: bool | None = False
    dead_letters: str | None = None
    logs_records: bool | None = False
    read_committed: bool | None = None

    @property
    def batch(self) -> int:
        """The most records in one batch: BATCH_DEFAULT if no setting is known."""
        return BATCH_DEFAULT if self.batch_max is None else self.batch_max


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    """Settings of a MirrorSourceConnector.

    alias           of the cluster that it reads
    request_max     max.request.size of its producer; None where neither it nor the worker sets it
    compressed      its producer compresses; None as above
    """

    alias: str = "source"
    request_max: int | None = None
    compressed: bool | None = None
    read_committed: bool = False


def read_sink_facts(config: SettingsMap, worker: SettingsMap | None = None) -> SinkFacts:
    """Read the settings of a sink. `worker` has the worker's properties, if they are known."""
    tolerance = _read_literal(config.get("errors.tolerance", "none"))
    topic = _read_literal(config.get("errors.deadletterqueue.topic.name"))
    level = _read_client_setting("consumer", "isolation.level", config, worker)
    return SinkFacts(
        converters=read_converters(config, worker),
        batch_max=_parse_number(
            _read_client_setting("consumer", "max.poll.records", config, worker)
        ),
        tolerant=None if tolerance is None else tolerance.lower() == "all",
        dead_letters=topic if topic and len(topic) <= _TOPIC_CHARS_MAX else None,
        logs_records=_combine_truths(
            parse_truth(config.get("errors.log.enable"), default=False),
            parse_truth(config.get("errors.log.include.messages"), default=False),
        ),
        read_committed=_parse_isolation(level, known=worker is not None),
    )


def read_mirror_facts(config: SettingsMap, worker: SettingsMap | None = None) -> MirrorFacts:
    """Read the settings of a mirror. `worker` is as in read_sink_facts.

    The worker's consumer settings do not apply, because the consumer is MirrorMaker's own.
    """
    compression = _read_client_setting("producer", "compression.type", config, worker)
    level = config.get("source.consumer.isolation.level", config.get("consumer.isolation.level"))
    alias = config.get("source.cluster.alias")
    known = compression is not None or worker is not None
    return MirrorFacts(
        alias="source" if alias is None else trim_blanks(alias),
        request_max=_parse_number(
            _read_client_setting("producer", "max.request.size", config, worker)
        ),
        compressed=trim_blanks(compression or "none").lower() != "none" if known else None,
        read_committed=level is not None and trim_blanks(level) == "read_committed",
    )


def _read_client_setting(
    client: str, name: str, config: SettingsMap, worker: SettingsMap | None
) -> str | None:
    """Return a setting of the connector's consumer or producer, or else the worker's."""
    own = config.get(f"{client}.override.{name}")
    return own if own is not None else (worker or {}).get(f"{client}.{name}")


def _parse_isolation(level: str | None, *, known: bool) -> bool | None:
    if level is None:
        return False if known else None
    return {"read_committed": True, "read_uncommitted": False}.get(level.strip().lower())


def _combine_truths(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 - no flags: terms
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _read_literal(value: str | None) -> str | None:
    """Return the stripped value; None if it is missing or externalized."""
    return None if value is None or "${" in value else value.strip()


def _parse_number(value: str | None) -> int | None:
    text = (value or "").strip()
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if plain and int(text) > 0 else None
