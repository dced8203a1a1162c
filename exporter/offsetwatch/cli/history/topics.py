"""Which topics beside offsets and syncs the pipeline records: Connect's config and status topics,
MM2's checkpoints. Called by pipeline.py, before anything is read.

They need not exist, and we need not be allowed to read them: history then tells less, and a run
goes on. What is found does not depend on how far the edge has come, because a topic that is read
in one run and not in the next costs a new beginning of the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import structlog

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import KafkaFacts, TopicShape
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError
from offsetwatch.ingest.internal_topics_poll import read_siblings
from offsetwatch.model.topic_kinds import TopicRole
from offsetwatch.model.topology import BesideTopic, KafkaTopic, Topology
from offsetwatch.model.topology import TopicRole as InternalTopic
from offsetwatch.state.mirror.mm2_names import checkpoints_of

_ROLES = {InternalTopic.CONFIG: TopicRole.CONFIGS, InternalTopic.STATUS: TopicRole.STATUS}
_log = structlog.get_logger()


Reader = Callable[[str], TailReader]
"""Opens one for a Kafka cluster."""


def beside(loaded: Config, topology: Topology) -> tuple[BesideTopic, ...]:
    """Those that there are and that we may read, in a stable order. One that several Connect
    clusters could mean, or that holds offsets, is left out.
    """
    properties = {name: kafka.client_properties() for name, kafka in loaded.kafka.items()}
    admins = {name: KafkaFacts(name, at) for name, at in properties.items()}
    try:
        return choose(
            loaded.connect, topology, admins, lambda name: TailReader(name, properties[name])
        )
    finally:
        for admin in admins.values():
            admin.close()


def choose(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaFacts],
    open_reader: Reader,
) -> tuple[BesideTopic, ...]:
    """The same, of clients that are there."""
    found = {*_checkpoints(topology), *_of_connects(connects, topology, admins, open_reader)}
    claims = Counter(each.at for each in found)
    recorded = set(topology.recorded())
    alone = [each for each in found if claims[each.at] == 1 and each.at not in recorded]
    readable = _readable(admins, {each.at for each in alone})
    return tuple(sorted((each for each in alone if each.at in readable), key=lambda at: at.at))


def _checkpoints(topology: Topology) -> Iterator[BesideTopic]:
    for flow in topology.flows:
        at = checkpoints_of(flow)
        if at is not None:
            yield BesideTopic(at, TopicRole.CHECKPOINTS, None)


def _of_connects(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaFacts],
    open_reader: Reader,
) -> Iterator[BesideTopic]:
    """The topics that are named; those that are not, by the names that go with the offsets topic's,
    where keys say that it is so.
    """
    homes = {
        topic.connect_cluster: topic.at
        for topic in topology.offsets_topics
        if topic.connector is None
    }
    for connect in connects:
        named = {TopicRole.CONFIGS: connect.config_topic, TopicRole.STATUS: connect.status_topic}
        for role, name in named.items():
            if name is not None:
                yield BesideTopic(KafkaTopic(connect.home, name), role, connect.name)
        home = homes.get(connect.name)
        if home is None or home.kafka != connect.kafka or None not in named.values():
            continue
        for name, role in _siblings(home, admins[home.kafka], open_reader).items():
            if named[role] is None:
                yield BesideTopic(KafkaTopic(home.kafka, name), role, connect.name)


def _siblings(home: KafkaTopic, admin: KafkaFacts, open_reader: Reader) -> dict[str, TopicRole]:
    """Of two that both look like one, nobody can tell which it is."""
    try:
        found = read_siblings(admin, lambda: open_reader(home.kafka), home.topic, SystemClock())
    except ClientError as exc:
        _log.warning("history_beside", topic=str(home), reason=str(exc))
        return {}
    times = Counter(found.values())
    return {name: _ROLES[role] for name, role in found.items() if times[role] == 1}


def _readable(admins: Mapping[str, KafkaFacts], topics: set[KafkaTopic]) -> set[KafkaTopic]:
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
