"""Classes of connectors: what each asks of a configuration, which tasks it has, and what it says to
offsets that somebody wants to give it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.connect_model.answers import NOT_MODIFIABLE, Refusal
from tests.fakes.connect_model.broker import Broker
from tests.fakes.connect_model.offsets import LONG_MAX, Pairs, java

FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JDBC_SOURCE: Final = "io.aiven.connect.jdbc.JdbcSourceConnector"
MIRROR_SOURCE: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
MIRROR_CHECKPOINT: Final = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
MIRROR_HEARTBEAT: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
ROWS: Final = "org.example.RowSource"
SINK: Final = "org.example.Sink"

INT_MAX: Final = 2**31 - 1
_INVALID: Final = (
    "Connector configuration is invalid and contains the following {} error(s):{}\n"
    "You can also find the above list of errors at the endpoint "
    "`/connector-plugins/{{connectorType}}/config/validate`"
)
_MISSING: Final = 'Missing required configuration "{}" which has no default value.'

Config = dict[str, str]
TaskConfigs = list[Config]
# Raises Refusal; says whether the class vouches for the new offsets (None: it has no such method
# and Connect's own default answers, False; "unsupported": it refuses all of them).
Alter = Callable[[Config, Pairs], bool]


@dataclass(frozen=True)
class Plugin:
    """`order` is that of the fields in the keys its tasks write, `work` names their class."""

    name: str
    kind: str
    work: str
    required: tuple[str, ...] = ()
    alter: Alter = lambda _config, _pairs: False
    order: str = "hash"

    def check(self, config: Config) -> None:
        """Raises Refusal."""
        missing = [_MISSING.format(name) for name in self.required if not config.get(name)]
        if self.kind == "sink" and not config.get("topics") and not config.get("topics.regex"):
            missing.append("Must configure one of topics or topics.regex")
        if missing:
            raise Refusal(400, _INVALID.format(len(missing), "".join(f"\n{it}" for it in missing)))


def tasks_of(plugin: Plugin, config: Config, upstream: Broker | None) -> TaskConfigs:
    """The configurations of its tasks, as many as it has work for."""
    most = int(config.get("tasks.max", "1"))
    match plugin.work:
        case "file":
            return [{**config, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}]
        case "mirror":
            return _mirrored(config, upstream, most)
        case "rows":
            return [{**config, "task.id": str(n)} for n in range(most)]
        case "checkpoint":
            return []  # as long as no group on the other side reads what is copied
        case "heartbeat":
            return [dict(config)]
    return [{**config, "task.id": str(n)} for n in range(most)]


def _mirrored(config: Config, upstream: Broker | None, most: int) -> TaskConfigs:
    pattern = re.compile("|".join(part.strip() for part in config["topics"].split(",")))
    parts = [
        f"{name}-{number}"
        for name, topic in sorted((upstream.topics if upstream else {}).items())
        if pattern.fullmatch(name)
        for number in range(len(topic.logs))
    ]
    shares = [parts[n::most] for n in range(most)]
    return [
        {**config, "task.assigned.partitions": ",".join(share), "task.index": str(n)}
        for n, share in enumerate(shares)
        if share
    ]


# --- what they say to offsets --------------------------------------------------------------------


def _file_alter(config: Config, pairs: Pairs) -> bool:
    if not config.get("file"):
        raise Refusal(
            500,
            "Offsets cannot be modified if the 'file' configuration is unspecified. This is "
            "because stdin is used for input and offsets are not tracked.",
        )
    for partition, offset in pairs:
        if offset is None:
            continue
        if "position" not in offset:
            raise Refusal(500, "Offset objects should either be null or contain the key 'position'")
        if not _long(offset["position"]):
            raise Refusal(
                500, "The value for the 'position' key in the offset is expected to be a Long value"
            )
        if offset["position"] < 0:
            raise Refusal(
                500,
                "The value for the 'position' key in the offset should be a non-negative value",
            )
        if partition is None:
            raise Refusal(500, "Partition objects cannot be null")
        if "filename" not in partition:
            raise Refusal(500, "Partition objects should contain the key 'filename'")
    return True


def _mirror_alter(*texts: str, only_zero: bool, number: bool) -> Alter:
    """Of MirrorMaker's connectors: which fields of a partition are texts, and whether it has a
    number; some have no use for any offset but 0.
    """

    def alter(_config: Config, pairs: Pairs) -> bool:
        for partition, offset in pairs:
            if offset is None:
                continue
            if partition is None:
                raise Refusal(500, "Source partitions may not be null")
            for name in texts:
                _check_field(partition, name, is_text=True)
            if number:
                _check_field(partition, "partition", is_text=False)
            _check_offset(partition, offset, only_zero=only_zero)
        return True

    return alter


def _check_field(partition: dict[str, Any], name: str, *, is_text: bool) -> None:
    where = f"Source partition {java(partition)}"
    if name not in partition:
        raise Refusal(500, f"{where} is missing the '{name}' key, which is required")
    value = partition[name]
    wrong = f"{where} has an invalid value {java(value)} for the '{name}' key, which"
    if is_text and not isinstance(value, str):
        raise Refusal(500, f"{wrong} must be a string")
    if not is_text and (not _long(value) or value > INT_MAX):
        raise Refusal(500, f"{wrong} must be an integer")
    if not is_text and value < 0:
        raise Refusal(500, f"{wrong} cannot be negative")


def _check_offset(partition: dict[str, Any], offset: dict[str, Any], *, only_zero: bool) -> None:
    where = f"Source offset {java(offset)} for source partition {java(partition)}"
    if "offset" not in offset:
        raise Refusal(500, f"{where} is missing the 'offset' key, which is required")
    value = offset["offset"]
    wrong = f"{where} has an invalid value {java(value)} for the 'offset' key"
    if not _long(value):
        raise Refusal(500, f"{wrong}, which must be an integer")
    if only_zero and value != 0:
        raise Refusal(500, f"{wrong}; the only accepted value is 0")
    if value < 0:
        raise Refusal(500, f"{wrong}, which cannot be negative")


def unsupported(config: Config, pairs: Pairs) -> bool:
    """Of a class that throws UnsupportedOperationException."""
    del pairs
    raise Refusal(500, NOT_MODIFIABLE.format(config["name"]))


def _long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LONG_MAX


_ALIASES: Final = ("source.cluster.alias", "target.cluster.alias")

PLUGINS: Final = {
    plugin.name: plugin
    for plugin in (
        Plugin(FILE_SOURCE, "source", "file", ("topic",), _file_alter),
        Plugin(FILE_SINK, "sink", "sink", (), lambda _config, _pairs: True),
        Plugin(
            MIRROR_SOURCE,
            "source",
            "mirror",
            _ALIASES,
            _mirror_alter("cluster", "topic", only_zero=False, number=True),
        ),
        Plugin(
            MIRROR_CHECKPOINT,
            "source",
            "checkpoint",
            _ALIASES,
            _mirror_alter("group", "topic", only_zero=True, number=True),
        ),
        Plugin(
            MIRROR_HEARTBEAT,
            "source",
            "heartbeat",
            _ALIASES,
            _mirror_alter("sourceClusterAlias", "targetClusterAlias", only_zero=True, number=False),
        ),
        Plugin(ROWS, "source", "rows", ("topic",), lambda _config, _pairs: True, order="given"),
        Plugin(JDBC_SOURCE, "source", "incrementing", ("topic", "table")),
        Plugin(SINK, "sink", "sink", (), lambda _config, _pairs: True),
    )
}
