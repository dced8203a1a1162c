"""Users of a flow's offset-syncs topic: its deletion concerns all of them.

The topic's name has one alias and its records no connector: every flow of the same name on the same
cluster writes to the same topic, and every checkpoint connector of these aliases reads it.
MirrorSourceConnector recreates it at its start. Tombstones are no alternative, because one ends the
reader (OffsetSyncStore, ByteBuffer.wrap of null).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from offsetwatch.model.connectors import Connector, MirrorSettings
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.mirror.flows import find_cluster_at
from offsetwatch.toolbox.validation import ValidationProblem


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

    who: str
    does: str
    stopped: bool
    sure: bool = True
    why: str = ""

    def __str__(self) -> str:
        state = "stopped" if self.stopped else "NOT stopped"
        why = f": {self.why}" if self.why else ""
        where = "" if self.sure else ", if the cluster it names is the same one"
        return f"{self.who} {self.does} it{where} ({state}{why})"


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
    sites: Collection[ConnectClusterInventory],
    addresses: Mapping[str, frozenset[str]],
    *,
    besides: tuple[str, str],
) -> tuple[SyncTopicUser, ...]:
    """Return all users of the topic except `besides`, a (Connect cluster, connector)."""
    return tuple(
        user
        for connect_cluster_inventory in sites
        for user in _find_cluster_users(topic, connect_cluster_inventory, addresses, besides)
    )


def _find_cluster_users(
    topic: KafkaTopic,
    connect_cluster_inventory: ConnectClusterInventory,
    addresses: Mapping[str, frozenset[str]],
    besides: tuple[str, str],
) -> Iterator[SyncTopicUser]:
    told = False
    for connector in connect_cluster_inventory.connectors or ():
        for settings, does in ((connector.mirror, "writes"), (connector.translates, "reads")):
            if settings is None or settings.syncs_topic != topic.topic:
                continue
            kafka_topic = find_syncs_topic(settings, connect_cluster_inventory.home, addresses)
            if kafka_topic is None or kafka_topic == topic:
                told = True
                if (connect_cluster_inventory.name, connector.name) == besides:
                    continue
                yield SyncTopicUser(
                    who=f"{connect_cluster_inventory.name}/{connector.name}",
                    does=does,
                    stopped=_is_stopped(connector, connect_cluster_inventory),
                    sure=kafka_topic is not None,
                    why=connect_cluster_inventory.running or "",
                )
    if topic in connect_cluster_inventory.named and not told:
        yield _build_unknown_user(
            f"a flow of {connect_cluster_inventory.name}", "uses", connect_cluster_inventory
        )
    elif connect_cluster_inventory.connectors is None:
        yield _build_unknown_user(
            f"{connect_cluster_inventory.name} ({connect_cluster_inventory.why})",
            "may use",
            connect_cluster_inventory,
        )


def _is_stopped(connector: Connector, connect_cluster_inventory: ConnectClusterInventory) -> bool:
    if connect_cluster_inventory.running is not None:
        return not connect_cluster_inventory.running
    return connector.state == "stopped" and not connector.tasks


def _build_unknown_user(
    name: str, does: str, connect_cluster_inventory: ConnectClusterInventory
) -> SyncTopicUser:
    """Build a user whose state is unknown."""
    return SyncTopicUser(
        who=name,
        does=does,
        stopped=connect_cluster_inventory.running == "",
        why=connect_cluster_inventory.running or "",
    )


def find_blocking_users(
    topic: KafkaTopic, found: Collection[SyncTopicUser]
) -> tuple[ValidationProblem, ...]:
    """Return users that are not stopped, as problems: none may run during the deletion."""
    return tuple(
        ValidationProblem(
            where=f"--clear-syncs ({topic})",
            wrong=str(user),
            right="stop it first, and start it again afterwards",
        )
        for user in found
        if not user.stopped
    )


def describe_deletion(topic: KafkaTopic, found: Collection[SyncTopicUser]) -> tuple[str, ...]:
    """Describe the effect of the deletion and the users concerned."""
    others = "; ".join(str(user) for user in found)
    gone = (
        f"{topic} will be deleted, which nothing puts back: MirrorMaker makes it again at its next "
        "start, and no consumer group can be translated before it is filled again"
    )
    if others:
        return (gone, f"it is also used by others: {others}")
    return (gone, f"no other entry of the configuration uses {topic}")
