"""Strimzi resources that own connectors, and obstacles to changing them. Read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from offsetwatch.clients.kubernetes.access import find_kubernetes_access
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader
from offsetwatch.config import Connect, Strimzi
from offsetwatch.errors import ConfigError, NotFound, RemoteRefusal
from offsetwatch.remedy.drivers.strimzi.resource_state import (
    CLUSTER_LABEL,
    KAFKA_CONNECTORS,
    KAFKA_CONNECTS,
    KAFKA_MIRROR_MAKERS,
    KINDS,
    USE_RESOURCES_ANNOTATION,
    ConnectorResource,
    Owner,
    find_gitops_tool,
    find_mirror_parts,
)

Json = dict[str, Any]


class ConnectClusterResource(NamedTuple):
    """The resource that runs a Connect cluster, and the plural of its kind."""

    plural: str
    document: Json

    @property
    def unmanaged(self) -> str | None:
        """The reason why the operator ignores connector resources here; None if it does not."""
        metadata = self.document.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        if (
            self.plural == KAFKA_CONNECTS
            and str(annotations.get(USE_RESOURCES_ANNOTATION)).lower() != "true"
        ):
            name = f"{metadata.get('namespace')}/{metadata.get('name')}"
            return f"KafkaConnect {name} is not annotated with {USE_RESOURCES_ANNOTATION}: true"
        return None


def find_cluster_resources(
    read: KubeReader, namespace: str, name: str
) -> list[ConnectClusterResource]:
    """Return the KafkaConnect and the KafkaMirrorMaker2 of this name. Raises ClientError."""
    read.strimzi_version()  # raises where there is no Strimzi at all
    found = []
    for plural in (KAFKA_CONNECTS, KAFKA_MIRROR_MAKERS):
        try:
            found.append(ConnectClusterResource(plural, read.resource(plural, namespace, name)))
        except NotFound:
            continue
    return found


def list_connector_resources(
    read: KubeReader, cluster: ConnectClusterResource, namespace: str, name: str
) -> dict[str, ConnectorResource]:
    """Return the resources of all connectors of a cluster, by connector. Raises ClientError."""
    if cluster.plural == KAFKA_MIRROR_MAKERS:
        return _list_mirror_connectors(cluster, namespace, name)
    found = {}
    for document in read.resources(KAFKA_CONNECTORS, namespace, label=f"{CLUSTER_LABEL}={name}"):
        # Items of a list do not say what they are.
        document.setdefault("apiVersion", cluster.document.get("apiVersion"))
        connector = str((document.get("metadata") or {}).get("name"))
        found[connector] = ConnectorResource(
            Owner(KAFKA_CONNECTORS, namespace, connector, connector), document
        )
    return found


def find_connector_resource(
    read: KubeReader, cluster: ConnectClusterResource, namespace: str, name: str, connector: str
) -> ConnectorResource | None:
    """Return the resource of a connector; None if this cluster has none. Raises ClientError."""
    if cluster.plural == KAFKA_MIRROR_MAKERS:
        return _list_mirror_connectors(cluster, namespace, name).get(connector)
    try:
        document = read.resource(KAFKA_CONNECTORS, namespace, connector)
    except NotFound:
        return None
    labels = (document.get("metadata") or {}).get("labels") or {}
    if labels.get(CLUSTER_LABEL) != name:
        return None
    return ConnectorResource(Owner(KAFKA_CONNECTORS, namespace, connector, connector), document)


def _list_mirror_connectors(
    cluster: ConnectClusterResource, namespace: str, name: str
) -> dict[str, ConnectorResource]:
    return {
        connector: ConnectorResource(
            Owner(KAFKA_MIRROR_MAKERS, namespace, name, connector), cluster.document
        )
        for connector, _, _ in find_mirror_parts(cluster.document)
    }


def find_obstacle(connector_resource: ConnectorResource) -> tuple[str, str] | None:
    """Return why a resource must not be changed now, and what helps; None if nothing is wrong."""
    if not connector_resource.reconciled:
        wrong = f"{connector_resource.owner.said} is annotated with strimzi.io/pause-reconciliation"
        return wrong, "the operator would not act: remove it first"
    if connector_resource.held is None:
        wrong = f"{connector_resource.owner.said} is held by a change of another of its connectors"
        return wrong, "finish that first: `plan list`"
    if connector_resource.operation is not None and "asked" not in connector_resource.held:
        wrong = f"another client has requested this of the operator: {connector_resource.operation}"
        return wrong, "wait for it, or remove the annotation"
    return None


_PATCH_DENIED: Final = "the daemon may not patch {kind} {name} (RBAC)"
_CREATE_CONFIG_MAPS_DENIED: Final = (
    "the daemon may not create ConfigMaps in {namespace}, where offsets go (RBAC)"
)


class StrimziObstacles:
    """Obstacles to changing connectors through the resources that own them, for guards."""

    def __init__(self, connects: Mapping[str, Connect]) -> None:
        self._connects = connects

    def problem(self, connect: str, connector: str) -> str:
        """Return what forbids a change of the connector's resource; "" if nothing does.

        Raises ClientError.
        """
        strimzi = self._connects[connect].strimzi
        assert strimzi is not None, "the caller has checked that it is linked"
        return find_change_problem(build_kube_reader(strimzi), strimzi, connector)


def build_kube_reader(strimzi: Strimzi) -> KubeReader:
    """Build a reader of the API server. Raises RemoteRefusal if its address is not configured."""
    try:
        return KubeReader(find_kubernetes_access(strimzi.kubeconfig_file))
    except ConfigError as exc:
        raise RemoteRefusal(f"{strimzi.namespace}/{strimzi.name}", "; ".join(exc.mistakes)) from exc


def read_cluster_resource(read: KubeReader, strimzi: Strimzi) -> ConnectClusterResource:
    """Return the resource that a configured Connect cluster is linked to. Raises ClientError."""
    found = find_cluster_resources(read, strimzi.namespace, strimzi.name)
    if len(found) != 1:
        both = "a KafkaConnect, and a KafkaMirrorMaker2 as well" if found else "not there"
        raise NotFound(read.name, f"{strimzi.namespace}/{strimzi.name} is {both}")
    return found[0]


def read_owning_resources(
    read: KubeReader, strimzi: Strimzi, connector: str
) -> tuple[ConnectClusterResource, ConnectorResource]:
    """Return the resources of a cluster and of a connector. Raises ClientError."""
    cluster = read_cluster_resource(read, strimzi)
    connector_resource = find_connector_resource(
        read, cluster, strimzi.namespace, strimzi.name, connector
    )
    if connector_resource is None:
        said = f"no resource of {strimzi.namespace}/{strimzi.name} owns {connector}"
        raise NotFound(read.name, said)
    return cluster, connector_resource


def find_change_problem(read: KubeReader, strimzi: Strimzi, connector: str) -> str:
    """Return what forbids a change of the connector's resource; "" if nothing."""
    try:
        cluster, connector_resource = read_owning_resources(read, strimzi, connector)
    except NotFound as exc:
        return exc.detail
    name = find_gitops_tool(connector_resource.document)
    if name is not None:
        return f"{connector_resource.owner.said} is owned by {name}, which would put it back"
    if cluster.unmanaged is not None:
        return cluster.unmanaged
    found = find_obstacle(connector_resource)
    if found is not None:
        return found[0]
    owner = connector_resource.owner
    if not read.may("patch", STRIMZI, owner.plural, owner.namespace, owner.name):
        return _PATCH_DENIED.format(
            kind=KINDS[owner.plural], name=f"{owner.namespace}/{owner.name}"
        )
    if not read.may("create", "", "configmaps", owner.namespace):
        return _CREATE_CONFIG_MAPS_DENIED.format(namespace=owner.namespace)
    return ""
