"""Strimzi resources that own connectors: their state, the patches that change it, and obstacles.

A connector is owned by a KafkaConnector of its name, or is part of a KafkaMirrorMaker2, with its
own path in the specification, key in ConfigMaps and part of the status. The procedure is Strimzi's
(0.44 and newer): an annotation requests that offsets be listed, altered or reset, and the operator
removes it once that is done. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from offsetwatch.clients.http.exchange import redact_secrets
from offsetwatch.clients.kubernetes.access import find_kubernetes_access
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader, strimzi_path
from offsetwatch.config import Connect, Strimzi
from offsetwatch.errors import ConfigError, NotFound, RemoteRefusal
from offsetwatch.remedy.model.plan import RequestedState

Json = dict[str, Any]
PatchOp = dict[str, Any]

CLUSTER_LABEL: Final = "strimzi.io/cluster"
OFFSETS_ANNOTATION: Final = "strimzi.io/connector-offsets"
MIRROR_CONNECTOR_ANNOTATION: Final = "strimzi.io/mirrormaker-connector"
PAUSE_ANNOTATION: Final = "strimzi.io/pause-reconciliation"
USE_RESOURCES_ANNOTATION: Final = "strimzi.io/use-connector-resources"
BACKUP_ANNOTATION: Final = "offsetwatch/held"
"""Fields of the specification that offsetwatch changed temporarily, with their earlier values."""
OPERATION_KEY: Final = "asked"  # beside these: what we have the operator do

KAFKA_CONNECTORS: Final = "kafkaconnectors"
KAFKA_CONNECTS: Final = "kafkaconnects"
KAFKA_MIRROR_MAKERS: Final = "kafkamirrormaker2s"
KINDS: Final = {
    KAFKA_CONNECTORS: "KafkaConnector",
    KAFKA_CONNECTS: "KafkaConnect",
    KAFKA_MIRROR_MAKERS: "KafkaMirrorMaker2",
}
_PARTS: Final = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
_GITOPS: Final = {
    "argocd.argoproj.io/": "Argo CD",
    "kustomize.toolkit.fluxcd.io/": "Flux",
    "helm.toolkit.fluxcd.io/": "Flux",
}
_GITOPS_OPT_OUT: Final = {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}
_NAME_MAX: Final = 253


@dataclass(frozen=True, slots=True)
class Owner:
    """The resource that owns a connector.

    plural      of its kind, as in its path
    """

    plural: str
    namespace: str
    name: str
    connector: str

    @property
    def said(self) -> str:
        """The kind, namespace and name, for users."""
        return f"{KINDS[self.plural]} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ConnectorResource:
    """An owner's document as it was when it was read."""

    owner: Owner
    document: Json

    # --- what it says ----------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """The document's resourceVersion."""
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def metadata(self) -> Json:
        """The resource's metadata; empty if missing."""
        return _ensure_mapping(self.document.get("metadata"))

    @property
    def annotations(self) -> Json:
        """The annotations; empty if there are none."""
        return _ensure_mapping(self.metadata.get("annotations"))

    @property
    def path(self) -> str:
        """The resource's path in the Kubernetes API."""
        version = str(self.document.get("apiVersion", "")).rpartition("/")[2]
        return strimzi_path(version, self.owner.plural, self.owner.namespace, self.owner.name)

    @property
    def base(self) -> str | None:
        """The JSON pointer of the connector's part of the specification; None if that is gone."""
        return self._find_part()[0]

    @property
    def part(self) -> Json:
        """The connector's part of the specification; empty if it is gone."""
        return self._find_part()[1]

    def _find_part(self) -> tuple[str | None, Json]:
        if self.owner.plural == KAFKA_CONNECTORS:
            return "/spec", _ensure_mapping(self.document.get("spec"))
        for connector, pointer, part in find_mirror_parts(self.document):
            if connector == self.owner.connector:
                return pointer, part
        return None, {}

    @property
    def requested_state(self) -> RequestedState:
        """The state in the specification; the oldest versions have `pause` instead of `state`."""
        return parse_target_state(self.part)

    @property
    def key(self) -> str:
        """The key of the connector's offsets in a ConfigMap."""
        if self.owner.plural == KAFKA_CONNECTORS:
            return "offsets.json"
        return f"{self.owner.connector.replace('->', '--')}.json"

    @property
    def observed(self) -> bool:
        """Return whether the status is for the current generation of the specification."""
        generation = _ensure_mapping(self.document.get("status")).get("observedGeneration")
        return isinstance(generation, int) and generation >= int(
            self.metadata.get("generation") or 0
        )

    @property
    def state(self) -> str:
        """The connector's state at the operator's last poll, in lower case; "" if unknown."""
        return str(_ensure_mapping(self._status().get("connector")).get("state") or "").lower()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The states of the tasks at the operator's last poll, in lower case."""
        tasks = self._status().get("tasks")
        listed = tasks if isinstance(tasks, list) else []
        return tuple(str(_ensure_mapping(task).get("state") or "").lower() for task in listed)

    @property
    def said(self) -> str:
        """The specified and the observed state, for users."""
        tasks = f", tasks: {' '.join(self.tasks)}" if self.tasks else ", no tasks"
        stale = "" if self.observed else "; the operator has not seen the newest change yet"
        status = f"{self.state}{tasks}" if self.state else "nothing"
        return f"wanted is {self.requested_state}, and the operator last saw {status}{stale}"

    @property
    def warnings(self) -> frozenset[tuple[str, str]]:
        """The operator's warnings as (reason, message)."""
        conditions = _ensure_mapping(self.document.get("status")).get("conditions")
        return frozenset(
            (str(condition.get("reason") or ""), str(condition.get("message") or ""))
            for condition in (conditions if isinstance(conditions, list) else [])
            if condition.get("status") == "True"
            and condition.get("type") in {"Warning", "NotReady"}
        )

    @property
    def warning_texts(self) -> tuple[str, ...]:
        """The operator's warnings for users, without secrets."""
        return tuple(redact_secrets(f"{why}: {text}") for why, text in sorted(self.warnings))

    @property
    def operation(self) -> str | None:
        """The offsets operation that any client has requested; None if there is none."""
        operation = self.annotations.get(OFFSETS_ANNOTATION)
        if operation is None:
            return None
        return f"{operation} {self.annotations.get(MIRROR_CONNECTOR_ANNOTATION, '')}".strip()

    @property
    def backup(self) -> Json | None:
        """The fields that offsetwatch changed for this connector, with their earlier values.

        Empty if there are none; None if they belong to another connector of the same resource.
        """
        text = self.annotations.get(BACKUP_ANNOTATION)
        if text is None:
            return {}
        try:
            offsets = msgspec.json.decode(str(text))
        except (msgspec.DecodeError, RecursionError):
            return None
        if _ensure_mapping(offsets).get("connector") != self.owner.connector:
            return None
        return _ensure_mapping(_ensure_mapping(offsets).get("was"))

    @property
    def reconciled(self) -> bool:
        """Return whether reconciliation is not paused."""
        return str(self.annotations.get(PAUSE_ANNOTATION, "")).lower() != "true"

    def _status(self) -> Json:
        status = _ensure_mapping(self.document.get("status"))
        if self.owner.plural == KAFKA_CONNECTORS:
            return _ensure_mapping(status.get("connectorStatus"))
        listed = status.get("connectors")
        for item in listed if isinstance(listed, list) else []:
            if _ensure_mapping(item).get("name") == self.owner.connector:
                return _ensure_mapping(item)
        return {}

    # --- what is to be said ----------------------------------------------------------------------

    def patch_fields(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Build the patch that sets fields and keeps their earlier values in an annotation."""
        was = dict(self.backup or {})
        ops = self._set(was, fields)
        return [*ops, *self._patch_annotations({BACKUP_ANNOTATION: self._encode_backup(was)})]

    def patch_restore(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Build the patch that restores the earlier values of fields.

        `fields` has the values of offsetwatch: a field that another client has set since stays.
        """
        was = dict(self.backup or {})
        ops = self._put_back(was, fields)
        return [*ops, *self._patch_annotations({BACKUP_ANNOTATION: self._encode_backup(was)})]

    def patch_operation(self, operation: str, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Build the patch that requests an operation, with the fields that it needs.

        The annotation records both as offsetwatch's, so that any later process can remove them.
        """
        was = {**(self.backup or {}), OPERATION_KEY: operation}
        ops = self._set(was, fields)
        annotations: dict[str, str | None] = {
            OFFSETS_ANNOTATION: operation,
            BACKUP_ANNOTATION: self._encode_backup(was),
        }
        if self.owner.plural == KAFKA_MIRROR_MAKERS:
            annotations[MIRROR_CONNECTOR_ANNOTATION] = self.owner.connector
        return [*ops, *self._patch_annotations(annotations)]

    def patch_withdrawal(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Build the patch that removes our operation and its fields; empty if there is none."""
        was = dict(self.backup or {})
        operation = was.pop(OPERATION_KEY, None)
        if operation is None:
            return []
        ops = self._put_back(was, fields)
        notes: dict[str, str | None] = {BACKUP_ANNOTATION: self._encode_backup(was)}
        if self.operation == self.operation_of(operation):
            notes |= dict.fromkeys((OFFSETS_ANNOTATION, MIRROR_CONNECTOR_ANNOTATION))
        return [*self._patch_annotations(notes), *ops]

    def operation_of(self, operation: str) -> str:
        """Return the value of `operation` as if this operation were requested now."""
        return (
            f"{operation} {self.owner.connector}"
            if self.owner.plural == KAFKA_MIRROR_MAKERS
            else operation
        )

    def _set(self, was: Json, fields: Mapping[str, Any]) -> list[PatchOp]:
        ops: list[PatchOp] = []
        for name, value in fields.items():
            was.setdefault(name, self.part.get(name))
            ops += self.field(name, value)
        return ops

    def _put_back(self, was: Json, fields: Mapping[str, Any]) -> list[PatchOp]:
        ops: list[PatchOp] = []
        for name, planned in fields.items():
            if name in was:
                before = was.pop(name)
                if self.part.get(name) == planned:
                    ops += self.field(name, before)
        return ops

    def field(self, name: str, value: Any) -> list[PatchOp]:
        """Build the patch that sets a field permanently; None removes it."""
        assert self.base is not None, "the caller has read it before a change"
        path = f"{self.base}/{name}"
        if value is None:
            return [{"op": "remove", "path": path}] if name in self.part else []
        return [{"op": "add", "path": path, "value": value}]

    def _patch_annotations(self, changes: Mapping[str, str | None]) -> list[PatchOp]:
        """Build one patch of all annotations, because JSON pointers escape slashes in names."""
        then = {**self.annotations, **changes}
        remaining = {name: value for name, value in then.items() if value is not None}
        if remaining == self.annotations:
            return []
        return [{"op": "add", "path": "/metadata/annotations", "value": remaining}]

    def _encode_backup(self, was: Json) -> str | None:
        if not was:
            return None
        backup = {"connector": self.owner.connector, "was": was}
        return msgspec.json.encode(backup, order="sorted").decode()


def parse_target_state(part: Mapping[str, Any]) -> RequestedState:
    """Return the state that a specification requests."""
    text = part.get("state")
    if text is None:
        return RequestedState.PAUSED if part.get("pause") is True else RequestedState.RUNNING
    return RequestedState(str(text))


def find_mirror_parts(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """Yield (connector name, JSON pointer, part of the specification) of a KafkaMirrorMaker2.

    It may be v1, with clusters inside each mirror, or v1beta2, with clusters by their aliases.
    """
    spec = _ensure_mapping(document.get("spec"))
    mirrors = spec.get("mirrors")
    for number, mirror in enumerate(mirrors if isinstance(mirrors, list) else []):
        source, target = read_aliases(spec, mirror)
        for part, connector in _PARTS.items():
            if isinstance(mirror.get(part), dict):
                name = f"{source}->{target}.{connector}"
                yield name, f"/spec/mirrors/{number}/{part}", mirror[part]


def read_aliases(spec: Mapping[str, Any], mirror: Mapping[str, Any]) -> tuple[str, str]:
    """Return the aliases of a mirror's source and target cluster."""
    source = _ensure_mapping(mirror.get("source")).get("alias") or mirror.get("sourceCluster")
    target = _ensure_mapping(spec.get("target")).get("alias") or mirror.get("targetCluster")
    return str(source or ""), str(target or spec.get("connectCluster") or "")


def find_gitops_tool(document: Mapping[str, Any]) -> str | None:
    """Return the GitOps tool that would revert changes of a resource; None if none is found.

    Argo CD marks its resources with a label that Helm also uses.
    """
    metadata = _ensure_mapping(document.get("metadata"))
    labels = _ensure_mapping(metadata.get("labels"))
    notes = _ensure_mapping(metadata.get("annotations"))
    if any(notes.get(name) == value for name, value in _GITOPS_OPT_OUT.items()):
        return None
    for name in (*labels, *notes):
        for prefix, tool in _GITOPS.items():
            if name.startswith(prefix):
                return tool
    if "app.kubernetes.io/instance" in labels and "meta.helm.sh/release-name" not in notes:
        return "Argo CD, by the label app.kubernetes.io/instance"
    return None


def build_config_map_name(owner: Owner, what: str) -> str:
    """Build the name of offsetwatch's ConfigMap for a resource."""
    end = f"-offsetwatch-{what}"
    return owner.name[: _NAME_MAX - len(end)] + end


def _ensure_mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


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
    resources = []
    for plural in (KAFKA_CONNECTS, KAFKA_MIRROR_MAKERS):
        try:
            resources.append(ConnectClusterResource(plural, read.resource(plural, namespace, name)))
        except NotFound:
            continue
    return resources


def list_connector_resources(
    read: KubeReader, cluster: ConnectClusterResource, namespace: str, name: str
) -> dict[str, ConnectorResource]:
    """Return the resources of all connectors of a cluster, by connector. Raises ClientError."""
    if cluster.plural == KAFKA_MIRROR_MAKERS:
        return _list_mirror_connectors(cluster, namespace, name)
    resources = {}
    for document in read.resources(KAFKA_CONNECTORS, namespace, label=f"{CLUSTER_LABEL}={name}"):
        # Items of a list do not say what they are.
        document.setdefault("apiVersion", cluster.document.get("apiVersion"))
        connector = str((document.get("metadata") or {}).get("name"))
        resources[connector] = ConnectorResource(
            Owner(KAFKA_CONNECTORS, namespace, connector, connector), document
        )
    return resources


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


def find_obstacle(resource: ConnectorResource) -> tuple[str, str] | None:
    """Return why a resource must not be changed now, and what helps; None if nothing is wrong."""
    if not resource.reconciled:
        wrong = f"{resource.owner.said} is annotated with strimzi.io/pause-reconciliation"
        return wrong, "the operator would not act: remove it first"
    if resource.backup is None:
        wrong = f"{resource.owner.said} is held by a change of another of its connectors"
        return wrong, "finish that first: `plan list`"
    if resource.operation is not None and "asked" not in resource.backup:
        wrong = f"another client has requested this of the operator: {resource.operation}"
        return wrong, "wait for it, or remove the annotation"
    return None


def find_resource_problem(connects: Mapping[str, Connect], connect: str, connector: str) -> str:
    """Return what forbids a change of the connector's resource; "" if nothing does.

    Raises ClientError.
    """
    strimzi = connects[connect].strimzi
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
    resources = find_cluster_resources(read, strimzi.namespace, strimzi.name)
    if len(resources) != 1:
        both = "a KafkaConnect, and a KafkaMirrorMaker2 as well" if resources else "not there"
        raise NotFound(read.name, f"{strimzi.namespace}/{strimzi.name} is {both}")
    return resources[0]


def read_owning_resources(
    read: KubeReader, strimzi: Strimzi, connector: str
) -> tuple[ConnectClusterResource, ConnectorResource]:
    """Return the resources of a cluster and of a connector. Raises ClientError."""
    cluster = read_cluster_resource(read, strimzi)
    resource = find_connector_resource(read, cluster, strimzi.namespace, strimzi.name, connector)
    if resource is None:
        said = f"no resource of {strimzi.namespace}/{strimzi.name} owns {connector}"
        raise NotFound(read.name, said)
    return cluster, resource


def find_change_problem(read: KubeReader, strimzi: Strimzi, connector: str) -> str:
    """Return what forbids a change of the connector's resource; "" if nothing."""
    try:
        cluster, resource = read_owning_resources(read, strimzi, connector)
    except NotFound as exc:
        return exc.detail
    name = find_gitops_tool(resource.document)
    if name is not None:
        return f"{resource.owner.said} is owned by {name}, which would put it back"
    if cluster.unmanaged is not None:
        return cluster.unmanaged
    obstacle = find_obstacle(resource)
    if obstacle is not None:
        return obstacle[0]
    owner = resource.owner
    if not read.may("patch", STRIMZI, owner.plural, owner.namespace, owner.name):
        return f"the daemon may not patch {owner.said} (RBAC)"
    if not read.may("create", "", "configmaps", owner.namespace):
        where = f"{owner.namespace}, where offsets go"
        return f"the daemon may not create ConfigMaps in {where} (RBAC)"
    return ""
