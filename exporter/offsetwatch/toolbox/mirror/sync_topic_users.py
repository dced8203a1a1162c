"""Users of a flow's offset-syncs topic in all configured Connect clusters, and its deletion.

The topic's name has one alias and its records no connector: every flow of the same name on the same
cluster writes to the same topic, and every checkpoint connector of these aliases reads it.
MirrorSourceConnector recreates it at its start. Tombstones are no alternative, because one ends the
reader (OffsetSyncStore, ByteBuffer.wrap of null).

Clusters with a REST API are queried. For the others, mostly dedicated MirrorMakers, the config
topic is read; the workers' group and the offsets topic show whether workers run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import StorageAdmin, read_whole_topic
from offsetwatch.config import Config, Connect
from offsetwatch.decode.connect_topics import decode_config
from offsetwatch.errors import AccessDenied, NotFound
from offsetwatch.model.connectors import Connector, MirrorSettings
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.remedy.model.plan import DeleteTopic
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.connect.connect_cluster import guess_sibling_names
from offsetwatch.state.connect.topic_listing import Listing
from offsetwatch.state.mirror.flows import find_cluster_at
from offsetwatch.toolbox.connector_facts import KafkaClusterPool, list_connectors
from offsetwatch.toolbox.mirror.flow_reset import SyncTopicDeletion
from offsetwatch.toolbox.validation import ValidationProblem

# Three of Connect's own intervals between commits; they are dated by the clocks of its workers.
QUIET_S: Final = 180.0 + SKEW_S_MAX
_PREFIX, _SUFFIX = "mm2-offsets.", ".internal"


@dataclass(frozen=True, slots=True)
class ConnectClusterInventory:
    """Inventory of a Connect cluster of the configuration, or of a dedicated MirrorMaker.

    home        the configured Kafka cluster its workers use; None if it is not configured
    connectors  None if unknown, for the reason in `why`
    running     evidence that a worker of it runs, "" if none; None where its REST API has the state
                of each connector
    named       offset-syncs topics that the configuration names for its flows
    offsets_topic   its workers' offsets topic, if the configuration names it
    """

    name: str
    home: str | None
    connectors: tuple[Connector, ...] | None
    why: str = ""
    running: str | None = None
    named: frozenset[KafkaTopic] = frozenset()
    offsets_topic: str | None = None


@dataclass(frozen=True, slots=True)
class SyncTopicUser:
    """A writer or reader of the topic.

    stopped     no part of it runs; False if unknown
    sure        it uses this very topic; else one of the same name on a cluster not configured
    why         evidence that it runs, where its state does not show it
    """

    user: str
    does: str
    stopped: bool
    sure: bool = True
    why: str = ""

    def __str__(self) -> str:
        state = "stopped" if self.stopped else "NOT stopped"
        why = f": {self.why}" if self.why else ""
        where = "" if self.sure else ", if the cluster it names is the same one"
        return f"{self.user} {self.does} it{where} ({state}{why})"


def find_syncs_topic(
    mirror: MirrorSettings, home: str | None, addresses: Mapping[str, frozenset[str]]
) -> KafkaTopic | None:
    """Return a flow's offset-syncs topic; None if it has none, or on a cluster not configured."""
    if mirror.syncs_topic is None:
        return None
    away = mirror.source_addresses if mirror.syncs_on_source else mirror.target_addresses
    holder = find_cluster_at(away, addresses)
    if holder is None and not mirror.syncs_on_source:
        holder = home
    return None if holder is None else KafkaTopic(holder, mirror.syncs_topic)


def find_topic_users(
    topic: KafkaTopic,
    inventories: Collection[ConnectClusterInventory],
    addresses: Mapping[str, frozenset[str]],
    *,
    besides: tuple[str, str],
) -> tuple[SyncTopicUser, ...]:
    """Return all users of the topic except `besides`, a (Connect cluster, connector)."""
    return tuple(
        user
        for inventory in inventories
        for user in _find_cluster_users(topic, inventory, addresses, besides)
    )


def _find_cluster_users(
    topic: KafkaTopic,
    inventory: ConnectClusterInventory,
    addresses: Mapping[str, frozenset[str]],
    besides: tuple[str, str],
) -> Iterator[SyncTopicUser]:
    reported, why = False, inventory.running or ""
    for connector in inventory.connectors or ():
        stopped = connector.state == "stopped" and not connector.tasks
        if inventory.running is not None:
            stopped = not inventory.running
        for settings, verb in ((connector.mirror, "write"), (connector.translates, "read")):
            if settings is None or settings.syncs_topic not in {topic.topic, None}:
                continue
            if settings.syncs_topic is None:
                if not settings.syncs_known and (inventory.name, connector.name) != besides:
                    user = f"{inventory.name}/{connector.name}"
                    yield SyncTopicUser(user, f"may {verb}", stopped, why=why)
                continue
            used = find_syncs_topic(settings, inventory.home, addresses)
            if used is not None and used != topic:
                continue
            reported = True
            if (inventory.name, connector.name) != besides:
                user = f"{inventory.name}/{connector.name}"
                yield SyncTopicUser(user, f"{verb}s", stopped, sure=used is not None, why=why)
    unknown = partial(SyncTopicUser, stopped=inventory.running == "", why=why)
    if topic in inventory.named and not reported:
        yield unknown(f"a flow of {inventory.name}", "uses")
    elif inventory.connectors is None:
        yield unknown(f"{inventory.name} ({inventory.why})", "may use")


def find_blocking_users(
    topic: KafkaTopic, users: Collection[SyncTopicUser]
) -> tuple[ValidationProblem, ...]:
    """Return users that are not stopped, as problems: none may run during the deletion."""
    return tuple(
        ValidationProblem(
            where=f"--clear-syncs ({topic})",
            wrong=str(user),
            right="stop it first, and start it again afterwards",
        )
        for user in users
        if not user.stopped
    )


def describe_deletion(topic: KafkaTopic, users: Collection[SyncTopicUser]) -> tuple[str, ...]:
    """Describe the effect of the deletion and the users concerned."""
    others = "; ".join(str(user) for user in users)
    gone = (
        f"{topic} will be deleted, which nothing puts back: MirrorMaker makes it again at its next "
        "start, and no consumer group can be translated before it is filled again"
    )
    if others:
        return (gone, f"it is also used by others: {others}")
    return (gone, f"no other entry of the configuration uses {topic}")


def inspect_connect_clusters(
    config: Config, kafkas: KafkaClusterPool, now: float
) -> tuple[ConnectClusterInventory, ...]:
    """Inspect all Connect clusters. Raises ClientError, because any of them may use the topic."""
    return tuple(
        _inspect_connect_cluster(config, connect, kafkas, now) for connect in config.connect
    )


def _inspect_connect_cluster(
    config: Config, connect: Connect, kafkas: KafkaClusterPool, now: float
) -> ConnectClusterInventory:
    named = frozenset(
        KafkaTopic(flow.offset_syncs.kafka, flow.offset_syncs.topic)
        for flow in config.flows
        if flow.offset_syncs is not None and config.connect_of(flow) == connect.name
    )
    inventory = partial(
        ConnectClusterInventory, connect.name, named=named, offsets_topic=connect.offsets_topic
    )
    if connect.worker_urls:
        return inventory(connect.kafka, list_connectors(connect))
    with closing(StorageAdmin(connect.home, kafkas.properties(connect.home))) as admin:
        connectors = _read_connectors(connect, admin, kafkas)
        running = _describe_activity(connect, admin, now)
    unknown = "its config topic is not known: name it in connect[].config_topic"
    why = unknown if connectors is None else ""
    return inventory(connect.home, connectors, why=why, running=running)


def prepare_sync_deletion(
    topic: KafkaTopic | None,
    inventories: tuple[ConnectClusterInventory, ...],
    kafkas: KafkaClusterPool,
    *,
    besides: tuple[str, str],
) -> SyncTopicDeletion:
    """Prepare the deletion of an offset-syncs topic, or return why it is not possible.

    `besides` is its owner, as (Connect cluster, connector).
    """
    if topic is None:
        wrong = (
            "the flow emits no offset syncs, or onto a cluster not configured, or only a config "
            "provider of its workers knows where"
        )
        right = "leave it out, or name that cluster under kafka"
        problem = ValidationProblem("--clear-syncs", wrong, right)
        return SyncTopicDeletion(None, problems=(problem,))
    try:
        topic_id = kafkas.at(topic.kafka).topic_id_now(topic.topic)
    except NotFound:
        return SyncTopicDeletion(None, notes=(f"there is no topic {topic} to be cleared",))
    if topic_id is None:
        wrong = "its brokers know no topic ids (before Kafka 2.8), by which to know it again"
        right = "delete it by hand while MirrorMaker is stopped"
        problem = ValidationProblem(f"--clear-syncs ({topic})", wrong, right)
        return SyncTopicDeletion(None, problems=(problem,))
    others = find_topic_users(topic, inventories, kafkas.addresses(), besides=besides)
    return SyncTopicDeletion(
        step=DeleteTopic(kafka=topic.kafka, topic=topic.topic, topic_id=topic_id),
        notes=describe_deletion(topic, others),
        problems=find_blocking_users(topic, others),
    )


def _read_connectors(
    connect: Connect, admin: StorageAdmin, kafkas: KafkaClusterPool
) -> tuple[Connector, ...] | None:
    """Read the connectors in the config topic, named or guessed; None without such a topic."""
    topic = connect.config_topic
    if topic is None:
        there, _ = admin.topics()
        names = guess_sibling_names(connect.offsets_topic or "")
        topic = next((name for name in names if "config" in name and name in there), None)
    if topic is None:
        return None
    listing = Listing()
    properties = kafkas.properties(connect.home)
    records = read_whole_topic(admin, lambda: TailReader(connect.home, properties), topic)
    decoded = (decode_config(record.key, record.value) for record in records)
    try:
        listing.apply(record for record in decoded if not isinstance(record, Undecodable))
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
    if all(offset is None for offset in admin.offsets_at(since).values()):
        return ""
    return f"{topic} was written to in the last {QUIET_S / 60:g} minutes, by its workers' clocks"
