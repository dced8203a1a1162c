"""Which resource of Strimzi owns a connector, and what speaks against changing it.

Called by the daemon's guards, and by the toolbox. Only looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from offsetwatch.clients.kubernetes.access import access_of
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader
from offsetwatch.config import Connect, Strimzi
from offsetwatch.errors import ConfigError, NotFound, Refused
from offsetwatch.remedy.drivers.strimzi.resource_state import (
    CLUSTER_LABEL,
    CONNECTORS,
    CONNECTS,
    KINDS,
    MIRRORS,
    USES_RESOURCES,
    Owner,
    Seen,
    gitops,
    mirror_parts,
)

Json = dict[str, Any]


class Cluster(NamedTuple):
    """The resource that runs a Connect cluster, and the plural of its kind."""

    plural: str
    document: Json

    @property
    def unmanaged(self) -> str | None:
        """Why the operator does nothing with connectors' resources here; None if it does."""
        metadata = self.document.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        if self.plural == CONNECTS and str(annotations.get(USES_RESOURCES)).lower() != "true":
            name = f"{metadata.get('namespace')}/{metadata.get('name')}"
            return f"KafkaConnect {name} is not annotated with {USES_RESOURCES}: true"
        return None


def clusters(read: KubeReader, namespace: str, name: str) -> list[Cluster]:
    """Those of this name: a KafkaConnect, a KafkaMirrorMaker2, none or both. Raises ClientError."""
    read.strimzi_version()  # raises where there is no Strimzi at all
    found = []
    for plural in (CONNECTS, MIRRORS):
        try:
            found.append(Cluster(plural, read.resource(plural, namespace, name)))
        except NotFound:
            continue
    return found


def owners(read: KubeReader, cluster: Cluster, namespace: str, name: str) -> dict[str, Seen]:
    """The resources of all connectors of a cluster, by their names. Raises ClientError."""
    if cluster.plural == MIRRORS:
        return _in_mirror(cluster, namespace, name)
    found = {}
    for document in read.resources(CONNECTORS, namespace, label=f"{CLUSTER_LABEL}={name}"):
        # Items of a list do not say what they are.
        document.setdefault("apiVersion", cluster.document.get("apiVersion"))
        connector = str((document.get("metadata") or {}).get("name"))
        found[connector] = Seen(Owner(CONNECTORS, namespace, connector, connector), document)
    return found


def owner_of(
    read: KubeReader, cluster: Cluster, namespace: str, name: str, connector: str
) -> Seen | None:
    """The resource of one connector; None if none of this cluster's is. Raises ClientError."""
    if cluster.plural == MIRRORS:
        return _in_mirror(cluster, namespace, name).get(connector)
    try:
        document = read.resource(CONNECTORS, namespace, connector)
    except NotFound:
        return None
    labels = (document.get("metadata") or {}).get("labels") or {}
    if labels.get(CLUSTER_LABEL) != name:
        return None
    return Seen(Owner(CONNECTORS, namespace, connector, connector), document)


def _in_mirror(cluster: Cluster, namespace: str, name: str) -> dict[str, Seen]:
    return {
        connector: Seen(Owner(MIRRORS, namespace, name, connector), cluster.document)
        for connector, _, _ in mirror_parts(cluster.document)
    }


def obstacle(seen: Seen) -> tuple[str, str] | None:
    """Why a resource is not to be changed just now, and what would help; None if nothing is."""
    if not seen.reconciled:
        wrong = f"{seen.owner.said} is annotated with strimzi.io/pause-reconciliation"
        return wrong, "the operator would not act: remove it first"
    if seen.held is None:
        wrong = f"{seen.owner.said} is held by a change of another of its connectors"
        return wrong, "finish that first: `plan list`"
    if seen.operation is not None and "asked" not in seen.held:
        wrong = f"another client has requested this of the operator: {seen.operation}"
        return wrong, "wait for it, or remove the annotation"
    return None


_NEEDED: Final = "the daemon may not patch {kind} {name} (RBAC)"
_NEEDED_MAPS: Final = "the daemon may not create ConfigMaps in {namespace}, where offsets go (RBAC)"


class Resources:
    """What speaks against changing connectors through the resources that own them, for guards."""

    def __init__(self, connects: Mapping[str, Connect]) -> None:
        self._connects = connects

    def problem(self, connect: str, connector: str) -> str:
        """An empty text where nothing does. Raises ClientError."""
        at = self._connects[connect].strimzi
        assert at is not None, "the caller has checked that it is linked"
        return problem(reader_of(at), at, connector)


def reader_of(at: Strimzi) -> KubeReader:
    """Raises Refused where nothing tells how the API server is reached."""
    try:
        return KubeReader(access_of(at.kubeconfig_file))
    except ConfigError as exc:
        raise Refused(f"{at.namespace}/{at.name}", "; ".join(exc.mistakes)) from exc


def cluster_of(read: KubeReader, at: Strimzi) -> Cluster:
    """The one that an entry is linked to. Raises ClientError."""
    found = clusters(read, at.namespace, at.name)
    if len(found) != 1:
        both = "a KafkaConnect, and a KafkaMirrorMaker2 as well" if found else "not there"
        raise NotFound(read.name, f"{at.namespace}/{at.name} is {both}")
    return found[0]


def seen_of(read: KubeReader, at: Strimzi, connector: str) -> tuple[Cluster, Seen]:
    """The resources of a connector and of its cluster. Raises ClientError."""
    cluster = cluster_of(read, at)
    seen = owner_of(read, cluster, at.namespace, at.name, connector)
    if seen is None:
        said = f"no resource of {at.namespace}/{at.name} owns {connector}"
        raise NotFound(read.name, said)
    return cluster, seen


def problem(read: KubeReader, at: Strimzi, connector: str) -> str:
    """See Resources."""
    try:
        cluster, seen = seen_of(read, at, connector)
    except NotFound as exc:
        return exc.detail
    who = gitops(seen.document)
    if who is not None:
        return f"{seen.owner.said} is owned by {who}, which would put it back"
    if cluster.unmanaged is not None:
        return cluster.unmanaged
    found = obstacle(seen)
    if found is not None:
        return found[0]
    owner = seen.owner
    if not read.may("patch", STRIMZI, owner.plural, owner.namespace, owner.name):
        return _NEEDED.format(kind=KINDS[owner.plural], name=f"{owner.namespace}/{owner.name}")
    if not read.may("create", "", "configmaps", owner.namespace):
        return _NEEDED_MAPS.format(namespace=owner.namespace)
    return ""
