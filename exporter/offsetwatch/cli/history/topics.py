"""Topics that the pipeline records besides offsets and syncs: config, status and checkpoints.

They need not exist, and may be unreadable: history then has less, and the run continues. The result
does not depend on the progress of the cluster monitor: a topic that is read in one run and not in
the next would restart the stream from the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import structlog

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import KafkaInspector, TopicShape
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError
from offsetwatch.ingest.internal_topics_poll import read_siblings
from offsetwatch.model.topology import AuxiliaryTopic, KafkaTopic, TopicKind, Topology
from offsetwatch.model.topology import InternalTopicRole as InternalTopic
from offsetwatch.state.mirror.mm2_names import locate_checkpoints

_ROLES = {InternalTopic.CONFIG: TopicKind.CONFIGS, InternalTopic.STATUS: TopicKind.STATUS}
_log = structlog.get_logger()


ReaderFactory = Callable[[str], TailReader]
"""Opens one for a Kafka cluster."""


def find_readable_topics(loaded: Config, topology: Topology) -> tuple[AuxiliaryTopic, ...]:
    """Return the topics that exist and may be read, in a stable order.

    A topic that several Connect clusters could use, or that holds offsets, is left out.
    """
    properties = {name: kafka.client_properties() for name, kafka in loaded.kafka.items()}
    admins = {name: KafkaInspector(name, entry) for name, entry in properties.items()}
    try:
        return choose_topics(
            loaded.connect, topology, admins, lambda name: TailReader(name, properties[name])
        )
    finally:
        for admin in admins.values():
            admin.close()


def choose_topics(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaInspector],
    open_reader: ReaderFactory,
) -> tuple[AuxiliaryTopic, ...]:
    """Return the same as find_readable_topics, with clients that the caller opened."""
    found = {
        *_find_checkpoints_topics(topology),
        *_find_connect_topics(connects, topology, admins, open_reader),
    }
    claims = Counter(each.at for each in found)
    recorded = set(topology.recorded())
    alone = [each for each in found if claims[each.at] == 1 and each.at not in recorded]
    readable = _select_readable(admins, {each.at for each in alone})
    return tuple(
        sorted((each for each in alone if each.at in readable), key=lambda topic: topic.at)
    )


def _find_checkpoints_topics(topology: Topology) -> Iterator[AuxiliaryTopic]:
    for flow in topology.flows:
        topic = locate_checkpoints(flow)
        if topic is not None:
            yield AuxiliaryTopic(topic, TopicKind.CHECKPOINTS, None)


def _find_connect_topics(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaInspector],
    open_reader: ReaderFactory,
) -> Iterator[AuxiliaryTopic]:
    """Yield the config and status topics of Connect clusters.

    They are named in the configuration, or are named like the offsets topic and have keys of their
    kind.
    """
    homes = {
        topic.connect_cluster: topic.at
        for topic in topology.offsets_topics
        if topic.connector is None
    }
    for connect in connects:
        named = {TopicKind.CONFIGS: connect.config_topic, TopicKind.STATUS: connect.status_topic}
        for role, name in named.items():
            if name is not None:
                yield AuxiliaryTopic(KafkaTopic(connect.home, name), role, connect.name)
        home = homes.get(connect.name)
        if home is None or home.kafka != connect.kafka or None not in named.values():
            continue
        for name, role in _find_sibling_topics(home, admins[home.kafka], open_reader).items():
            if named[role] is None:
                yield AuxiliaryTopic(KafkaTopic(home.kafka, name), role, connect.name)


def _find_sibling_topics(
    home: KafkaTopic, admin: KafkaInspector, open_reader: ReaderFactory
) -> dict[str, TopicKind]:
    """Return the topics beside an offsets topic by name, each with its kind.

    Two topics of the same kind are ambiguous and left out.
    """
    try:
        found = read_siblings(admin, lambda: open_reader(home.kafka), home.topic, SystemClock())
    except ClientError as exc:
        _log.warning("history_beside", topic=str(home), reason=str(exc))
        return {}
    times = Counter(found.values())
    return {name: _ROLES[role] for name, role in found.items() if times[role] == 1}


def _select_readable(
    admins: Mapping[str, KafkaInspector], topics: set[KafkaTopic]
) -> set[KafkaTopic]:
    found: set[KafkaTopic] = set()
    for kafka in sorted({topic.kafka for topic in topics}):
        names = sorted(topic.topic for topic in topics if topic.kafka == kafka)
        try:
            shapes = admins[kafka].shapes(names)
        except ClientError as exc:
            _log.warning("history_beside", kafka=kafka, reason=str(exc))
            continue
        found |= {
            KafkaTopic(kafka, name)
            for name, shape in shapes.items()
            if isinstance(shape, TopicShape) and shape.may("READ")
        }
    return found
