"""A Connect cluster that Strimzi runs, as a place where offsets are read: through the operator.

To list offsets the operator has to be asked, which takes an annotation of the resource that owns
the connector (and, where it names no ConfigMap for that, one of ours for as long as it takes).
Everything else is only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.errors import ConfigError, NotFound, RemoteRefusal
from offsetwatch.model.connect.connectors import ConnectorSettings
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.drivers.strimzi.ownership import (
    ConnectClusterResource,
    find_cluster_resources,
    list_connector_resources,
)
from offsetwatch.remedy.drivers.strimzi.resource_state import (
    KAFKA_CONNECTS,
    KAFKA_MIRROR_MAKERS,
    ConnectorResource,
    find_gitops_tool,
    read_aliases,
)
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.store.reader import HistoricOffset
from offsetwatch.toolbox.suggestions import format_names

Json = dict[str, Any]
_MIRROR_CLASS = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class StrimziConnectCluster:
    """The KafkaConnect or the KafkaMirrorMaker2 whose connectors are meant.

    lock    as what the journal knows it: the name of the entry under `connect` that is linked to it
    wait_s  for the operator, of one operation
    """

    namespace: str
    name: str
    lock: str
    wait_s: float


class StrimziOffsetReader:
    """See Place. Raises ClientError."""

    def __init__(
        self,
        access: KubernetesAccess,
        cluster: StrimziConnectCluster,
        *,
        even_if_gitops: bool = False,
    ) -> None:
        self._access = access
        self._site = cluster
        self._even_if_gitops = even_if_gitops
        self._read = KubeReader(access)
        self._cluster: ConnectClusterResource | None = None
        self._owners: dict[str, ConnectorResource] | None = None

    @property
    def name(self) -> str:
        """Namespace and name of the cluster."""
        return f"{self._site.namespace}/{self._site.name}"

    @property
    def lock(self) -> str:
        """See Site."""
        return self._site.lock

    def connectors(self) -> tuple[str, ...]:
        """All that have a resource."""
        return tuple(sorted(self._listed()))

    def seen(self, connector: str) -> ConnectorResource | None:
        """Its resource as of the first question; None if there is none."""
        return self._listed().get(connector)

    def of_gitops(self, connector: str) -> str | None:
        """Who puts its resource back to what a repository says, unless a person says not to mind;
        None if nobody does.
        """
        connector_resource = self.seen(connector)
        return (
            None
            if connector_resource is None or self._even_if_gitops
            else find_gitops_tool(connector_resource.document)
        )

    def unmanaged(self) -> str | None:
        """Why the operator does nothing with connectors' resources here; None if it does."""
        return self.cluster().unmanaged

    def cluster(self) -> ConnectClusterResource:
        """The cluster's own resource. Raises ConfigError where it is not to be found, or there are
        two.
        """
        if self._cluster is None:
            found = find_cluster_resources(self._read, self._site.namespace, self._site.name)
            if len(found) != 1:
                raise ConfigError((self._not_one(len(found)),))
            self._cluster = found[0]
        return self._cluster

    def _not_one(self, count: int) -> str:
        if count:
            return f"--strimzi: {self.name} is a KafkaConnect, and a KafkaMirrorMaker2 as well"
        names = [
            str((at.get("metadata") or {}).get("name"))
            for plural in (KAFKA_CONNECTS, KAFKA_MIRROR_MAKERS)
            for at in self._read.resources(plural, self._site.namespace)
        ]
        has = format_names(names) or "none"
        return f"--strimzi: no KafkaConnect or KafkaMirrorMaker2 {self.name} (there: {has})"

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Its configuration, from its resource."""
        connector_resource = self.seen(connector)
        if connector_resource is None:
            return None
        plural, document = self.cluster()
        if plural == KAFKA_MIRROR_MAKERS:
            return parse_connector_settings(
                connector, _build_mirror_config(document, connector_resource)
            )
        spec = connector_resource.document.get("spec") or {}
        name = str(spec.get("class") or "")
        plugins = (document.get("status") or {}).get("connectorPlugins") or ()
        kind = next(
            (str(plugin.get("type")) for plugin in plugins if _is_same_class(plugin, name)), ""
        )
        config = {**(spec.get("config") or {}), "connector.class": name}
        return parse_connector_settings(connector, config, kind=kind)

    def driver(self, connector: str) -> StrimziDriver:
        """Raises NotFound."""
        connector_resource = self.seen(connector)
        if connector_resource is None:
            raise NotFound(self.name, f"no connector {connector}")
        return StrimziDriver(self._access, connector_resource.owner, wait_s=self._site.wait_s)

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """What the operator lists. Raises RemoteRefusal where that takes a change of a resource
        that a repository owns.
        """
        connector_resource, name = self.seen(connector), self.of_gitops(connector)
        if (
            connector_resource is not None
            and name is not None
            and "listOffsets" not in connector_resource.part
        ):
            raise RemoteRefusal(
                self.name,
                f"{connector_resource.owner.said} is owned by {name}, and has no "
                "spec.listOffsets: set it there, "
                "or say --even-if-gitops",
            )
        return self.driver(connector).offsets().pairs

    def notes(self, connector: str) -> tuple[str, ...]:
        """Partitions that are listed and have no offset are Connect's to explain."""
        del connector
        return ()

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Refused: the operator tells only what holds now."""
        del connectors
        said = "the operator lists only current offsets; the storage has the past: --worker-config"
        raise RemoteRefusal(self.name, said)

    def close(self) -> None:
        """Nothing stays open."""

    def _listed(self) -> dict[str, ConnectorResource]:
        if self._owners is None:
            cluster = self._site
            self._owners = list_connector_resources(
                self._read, self.cluster(), cluster.namespace, cluster.name
            )
        return self._owners


def _is_same_class(plugin: Mapping[str, Any], name: str) -> bool:
    """By its full name or as Connect abbreviates it."""
    known = str(plugin.get("class") or "")
    last = known.rpartition(".")[2]
    return name in {known, last, last.removesuffix("Connector")} and name != ""


def _build_mirror_config(
    document: Json, connector_resource: ConnectorResource
) -> dict[object, object]:
    """As the operator makes it of the resource, as far as we need it."""
    spec = document.get("spec") or {}
    clusters = {str(item.get("alias")): item for item in spec.get("clusters") or ()}
    for mirror in spec.get("mirrors") or ():
        source, target = read_aliases(spec, mirror)
        if not connector_resource.owner.connector.startswith(f"{source}->{target}."):
            continue
        where = {
            source: mirror.get("source") or clusters.get(source) or {},
            target: spec.get("target") or clusters.get(target) or {},
        }
        simple = connector_resource.owner.connector.rpartition(".")[2]
        return {
            **(connector_resource.part.get("config") or {}),
            "connector.class": f"{_MIRROR_CLASS}{simple}",
            "source.cluster.alias": source,
            "target.cluster.alias": target,
            "source.cluster.bootstrap.servers": where[source].get("bootstrapServers"),
            "target.cluster.bootstrap.servers": where[target].get("bootstrapServers"),
        }
    return {}
