"""Inventory of all configured Connect clusters, to find users of an offset-syncs topic.

Clusters with a REST API are queried. For the others, mostly dedicated MirrorMakers, the config
topic is read; the workers' group and the offsets topic show whether workers run.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import StorageAdmin, read_whole_topic
from offsetwatch.config import Config, Connect
from offsetwatch.decode.config_topic import decode_config
from offsetwatch.errors import AccessDenied, NotFound
from offsetwatch.model.connectors import Connector
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.remedy.model.plan import DeleteTopic
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.connect.connect_cluster import guess_sibling_names
from offsetwatch.state.connect.topic_listing import Listing
from offsetwatch.toolbox.connector_facts import KafkaClusterPool, list_connectors
from offsetwatch.toolbox.mirror.flow_reset import SyncTopicDeletion
from offsetwatch.toolbox.mirror.sync_topic_users import (
    ConnectClusterInventory,
    describe_deletion,
    find_blocking_users,
    find_topic_users,
)
from offsetwatch.toolbox.validation import ValidationProblem

# Three of Connect's own intervals between commits; they are dated by the clocks of its workers.
QUIET_S: Final = 180.0 + SKEW_S_MAX
_PREFIX, _SUFFIX = "mm2-offsets.", ".internal"
_CONFIG_TOPIC_UNKNOWN: Final = "its config topic is not known: name it in connect[].config_topic"


def inspect_connect_clusters(
    config: Config, kafkas: KafkaClusterPool, now: float
) -> tuple[ConnectClusterInventory, ...]:
    """Inspect all Connect clusters. Raises ClientError, because any of them may use the topic."""
    return tuple(
        _inspect_over_rest(config, connect)
        if connect.worker_urls
        else _inspect_by_topics(config, connect, kafkas, now)
        for connect in config.connect
    )


def prepare_sync_deletion(
    topic: KafkaTopic | None,
    found: tuple[ConnectClusterInventory, ...],
    kafkas: KafkaClusterPool,
    *,
    besides: tuple[str, str],
) -> SyncTopicDeletion:
    """Prepare the deletion of an offset-syncs topic, or return why it is not possible.

    `besides` is its owner, as (Connect cluster, connector).
    """
    if topic is None:
        return SyncTopicDeletion(
            None,
            problems=(
                ValidationProblem(
                    where="--clear-syncs",
                    wrong="the flow emits no offset syncs, or onto a cluster not configured",
                    right="leave it out, or name that cluster under kafka",
                ),
            ),
        )
    try:
        topic_id = kafkas.at(topic.kafka).topic_id_now(topic.topic)
    except NotFound:
        return SyncTopicDeletion(None, notes=(f"there is no topic {topic} to be cleared",))
    if topic_id is None:
        wrong = "its brokers know no topic ids (before Kafka 2.8), by which to know it again"
        right = "delete it by hand while MirrorMaker is stopped"
        return SyncTopicDeletion(
            None, problems=(ValidationProblem(f"--clear-syncs ({topic})", wrong, right),)
        )
    others = find_topic_users(topic, found, kafkas.addresses(), besides=besides)
    return SyncTopicDeletion(
        step=DeleteTopic(kafka=topic.kafka, topic=topic.topic, topic_id=topic_id),
        notes=describe_deletion(topic, others),
        problems=find_blocking_users(topic, others),
    )


def _inspect_over_rest(config: Config, connect: Connect) -> ConnectClusterInventory:
    return ConnectClusterInventory(
        name=connect.name,
        home=connect.kafka,
        connectors=list_connectors(connect),
        named=_find_named_topics(config, connect),
        offsets_topic=connect.offsets_topic,
    )


def _find_named_topics(config: Config, connect: Connect) -> frozenset[KafkaTopic]:
    return frozenset(
        KafkaTopic(flow.offset_syncs.kafka, flow.offset_syncs.topic)
        for flow in config.flows
        if flow.offset_syncs is not None and config.connect_of(flow) == connect.name
    )


def _inspect_by_topics(
    config: Config, connect: Connect, kafkas: KafkaClusterPool, now: float
) -> ConnectClusterInventory:
    admin = StorageAdmin(connect.home, kafkas.properties(connect.home))
    try:
        connectors = _read_connectors(connect, admin, kafkas)
        running = _describe_activity(connect, admin, now)
    finally:
        admin.close()
    return ConnectClusterInventory(
        name=connect.name,
        home=connect.home,
        connectors=connectors,
        why="" if connectors is not None else _CONFIG_TOPIC_UNKNOWN,
        running=running,
        named=_find_named_topics(config, connect),
        offsets_topic=connect.offsets_topic,
    )


def _read_connectors(
    connect: Connect, admin: StorageAdmin, kafkas: KafkaClusterPool
) -> tuple[Connector, ...] | None:
    """Read the connectors in the config topic, named or guessed; None without such a topic."""
    topic = connect.config_topic
    if topic is None:
        there, _ = admin.topics()
        likely = [
            name for name in guess_sibling_names(connect.offsets_topic or "") if "config" in name
        ]
        topic = next((name for name in likely if name in there), None)
    if topic is None:
        return None
    listing = Listing()
    properties = kafkas.properties(connect.home)
    records = read_whole_topic(admin, lambda: TailReader(connect.home, properties), topic)
    try:
        listing.apply(
            record
            for record in (decode_config(log.key, log.value) for log in records)
            if not isinstance(record, Undecodable)
        )
    except NotFound:
        return None
    return listing.connectors()


def _describe_activity(connect: Connect, admin: StorageAdmin, now: float) -> str:
    """Return evidence that the cluster's workers run; "" if there is none.

    The group of a dedicated MirrorMaker is named after the source, unless it is configured
    otherwise; while it runs, its heartbeats alone cause a commit every minute. For any other
    cluster the group is unknown, and without permission to describe it, workers must be assumed to
    run.
    """
    topic = connect.offsets_topic or ""
    if not topic.startswith(_PREFIX) or not topic.endswith(_SUFFIX):
        return "it is unknown whether its workers run"
    group = f"{topic.removeprefix(_PREFIX).removesuffix(_SUFFIX)}-mm2"
    try:
        if admin.members(group):
            return f"group {group} has members"
    except AccessDenied:
        return f"offsetwatch may not describe group {group}"
    try:
        _, count = admin.shape(topic)
    except NotFound:
        return ""
    since = {TopicPartition(topic, number): now - QUIET_S for number in range(count)}
    if any(offset is not None for offset in admin.offsets_at(since).values()):
        return (
            f"{topic} was written to in the last {QUIET_S / 60:g} minutes, by its workers' clocks"
        )
    return ""
