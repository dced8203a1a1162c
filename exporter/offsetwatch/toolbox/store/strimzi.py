"""Reader of offsets of a Connect cluster that Strimzi runs, through its operator.

To list offsets, the operator needs an annotation of the resource that owns the connector (and a
temporary ConfigMap of offsetwatch, if the resource names none). Everything else is only read.
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
    """The KafkaConnect or KafkaMirrorMaker2 that runs the connectors.

    lock    its name in the journal: the name of the entry under `connect` that is linked to it
    wait_s  for the operator, of one operation
    """

    namespace: str
    name: str
    lock: str
    wait_s: float


class StrimziOffsetReader:
    """OffsetReader through Strimzi's operator. Raises ClientError."""

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
        """The cluster's namespace and name."""
        return f"{self._site.namespace}/{self._site.name}"

    @property
    def lock(self) -> str:
        """The cluster's name in the journal; see StrimziConnectCluster."""
        return self._site.lock

    def connectors(self) -> tuple[str, ...]:
        """Return the connectors that have a resource."""
        return tuple(sorted(self._listed()))

    def seen(self, connector: str) -> ConnectorResource | None:
        """Return the connector's resource as of the first query; None if there is none."""
        return self._listed().get(connector)

    def of_gitops(self, connector: str) -> str | None:
        """Return the GitOps tool that would revert changes of the connector's resource.

        None if there is none, or with `even_if_gitops`.
        """
        connector_resource = self.seen(connector)
        return (
            None
            if connector_resource is None or self._even_if_gitops
            else find_gitops_tool(connector_resource.document)
        )

    def unmanaged(self) -> str | None:
        """Return why the operator ignores connector resources here; None if it does not."""
        return self.cluster().unmanaged

    def cluster(self) -> ConnectClusterResource:
        """Return the cluster's resource. Raises ConfigError if there is none, or two."""
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
        """Return the connector's configuration from its resource."""
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
        """Build the driver for a connector. Raises NotFound."""
        connector_resource = self.seen(connector)
        if connector_resource is None:
            raise NotFound(self.name, f"no connector {connector}")
        return StrimziDriver(self._access, connector_resource.owner, wait_s=self._site.wait_s)

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that the operator lists.

        Raises RemoteRefusal where that needs a change of a resource that a GitOps tool owns.
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
        """Return nothing: only Connect can explain why a listed partition has no offset."""
        del connector
        return ()

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Raise RemoteRefusal: the operator lists only current offsets."""
        del connectors
        said = "the operator lists only current offsets; the storage has the past: --worker-config"
        raise RemoteRefusal(self.name, said)

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def _listed(self) -> dict[str, ConnectorResource]:
        if self._owners is None:
            cluster = self._site
            self._owners = list_connector_resources(
                self._read, self.cluster(), cluster.namespace, cluster.name
            )
        return self._owners


def _is_same_class(plugin: Mapping[str, Any], name: str) -> bool:
    """Return whether a plugin has this class name, in full or in Connect's short forms."""
    known = str(plugin.get("class") or "")
    last = known.rpartition(".")[2]
    return name in {known, last, last.removesuffix("Connector")} and name != ""


def _build_mirror_config(
    document: Json, connector_resource: ConnectorResource
) -> dict[object, object]:
    """Build the configuration that the operator derives from the resource, as far as needed."""
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
