"""Offset store of a Connect cluster that Strimzi runs, through its operator.

To list offsets, the operator needs an annotation of the resource that owns the connector (and a
temporary ConfigMap of offsetwatch, if the resource names none). Everything else is only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.errors import ConfigError, NotFound, RemoteRefusal
from offsetwatch.model.connectors import ConnectorKind, ConnectorSettings
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.drivers.strimzi.operator import build_operator_client
from offsetwatch.remedy.drivers.strimzi.resources import (
    KAFKA_CONNECTS,
    KAFKA_MIRROR_MAKERS,
    ConnectClusterResource,
    ConnectorResource,
    find_cluster_resources,
    find_gitops_tool,
    find_obstacle,
    list_connector_resources,
    read_aliases,
)
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, PlanSubject, RequestedState, Reset
from offsetwatch.toolbox import connector_facts as facts
from offsetwatch.toolbox.source_pool import SourcePool
from offsetwatch.toolbox.store.offset_store import (
    MOVING_OFFSETS_NOTE,
    ChangeSteps,
    OffsetStore,
    StateBeforeChange,
    subject_kind,
)
from offsetwatch.toolbox.suggestions import explain_offsets_name, format_names, suggest_name
from offsetwatch.toolbox.validation import UnknownConnector, ValidationProblem

_FAILED_NOTE: Final = "it has failed: Strimzi before 1.1 does not stop a connector that has failed"
Json = dict[str, Any]
_MIRROR_CLASS: Final = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class StrimziConnectCluster:
    """The KafkaConnect or KafkaMirrorMaker2 that runs the connectors.

    lock    its name in the journal: the name of the entry under `connect` that is linked to it
    wait_s  for the operator, of one operation
    home    the workers' configured Kafka cluster; None if it is unknown
    """

    namespace: str
    name: str
    lock: str
    wait_s: float
    home: str | None = None


class StrimziOffsetStore(OffsetStore):
    """OffsetStore through Strimzi's operator.

    With `even_if_gitops`, resources that a GitOps tool owns are changed as well.
    """

    no_past = "the operator lists only current offsets; the storage has the past: --worker-config"

    def __init__(
        self,
        access: KubernetesAccess,
        cluster: StrimziConnectCluster,
        kafkas: facts.KafkaClusterPool,
        *,
        even_if_gitops: bool = False,
        sources: SourcePool | None = None,
    ) -> None:
        super().__init__(kafkas, cluster.home, sources)
        self._access = access
        self._connect = cluster
        self._even_if_gitops = even_if_gitops
        self._read = KubeReader(access)
        self._cluster: ConnectClusterResource | None = None
        self._owners: dict[str, ConnectorResource] | None = None

    @property
    def name(self) -> str:
        """The cluster's namespace and name."""
        return f"{self._connect.namespace}/{self._connect.name}"

    def connectors(self) -> tuple[str, ...]:
        """Return the connectors that have a resource."""
        return tuple(sorted(self._resources()))

    def cluster(self) -> ConnectClusterResource:
        """Return the cluster's resource. Raises ConfigError if there is none, or two."""
        if self._cluster is None:
            namespace = self._connect.namespace
            resources = find_cluster_resources(self._read, namespace, self._connect.name)
            if len(resources) > 1:
                both = f"{self.name} is a KafkaConnect, and a KafkaMirrorMaker2 as well"
                raise ConfigError((f"--strimzi: {both}",))
            if not resources:
                names = [
                    str((document.get("metadata") or {}).get("name"))
                    for plural in (KAFKA_CONNECTS, KAFKA_MIRROR_MAKERS)
                    for document in self._read.resources(plural, namespace)
                ]
                none = f"no KafkaConnect or KafkaMirrorMaker2 {self.name}"
                there = format_names(names) or "none"
                raise ConfigError((f"--strimzi: {none} (there: {there})",))
            self._cluster = resources[0]
        return self._cluster

    def settings(self, connector: str) -> ConnectorSettings | None:
        """Return the connector's configuration from its resource."""
        resource = self._resources().get(connector)
        if resource is None:
            return None
        plural, document = self.cluster()
        if plural == KAFKA_MIRROR_MAKERS:
            return parse_connector_settings(connector, _build_mirror_config(document, resource))
        spec = resource.document.get("spec") or {}
        name = str(spec.get("class") or "")
        plugins = (document.get("status") or {}).get("connectorPlugins") or ()
        kind = next(
            (str(plugin.get("type")) for plugin in plugins if _is_same_class(plugin, name)), ""
        )
        config = {**(spec.get("config") or {}), "connector.class": name}
        return parse_connector_settings(connector, config, kind=kind)

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that the operator lists.

        Raises RemoteRefusal where that needs a change of a resource that a GitOps tool owns.
        """
        resource = self._resources().get(connector)
        name = None if resource is None else self._gitops_tool(resource)
        if resource is not None and name is not None and "listOffsets" not in resource.part:
            raise RemoteRefusal(
                self.name,
                f"{resource.owner.said} is owned by {name}, and has no spec.listOffsets: set it "
                "there, or say --even-if-gitops",
            )
        return self.driver(connector).offsets().pairs

    def lock_name(self, connector: str) -> str:
        """Return the name in the journal of the connector's cluster."""
        del connector
        return self._connect.lock

    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the state that the connector's resource specifies, or why it cannot be changed."""
        resource = self._resources().get(connector)
        if resource is None:
            right = suggest_name(connector, self.connectors()) + explain_offsets_name(connector)
            return UnknownConnector(connector, f"{self.name} has no such connector", right)
        problem = self._find_obstacle(connector, resource)
        if problem is not None:
            return problem
        settings = self.settings(connector)
        notes = [MOVING_OFFSETS_NOTE] if resource.requested_state is RequestedState.RUNNING else []
        notes += [_FAILED_NOTE] if resource.state == "failed" else []
        subject = PlanSubject(
            driver="strimzi",
            store=self._connect.lock,
            connector=connector,
            kind=subject_kind(ConnectorKind.UNKNOWN if settings is None else settings.kind),
            identity=str(resource.metadata.get("uid")),
        )
        return StateBeforeChange(subject, resource.requested_state, tuple(notes))

    def _find_obstacle(
        self, connector: str, resource: ConnectorResource
    ) -> ValidationProblem | None:
        """Return why its resource must not be changed, or why a change would have no effect."""
        name = self._gitops_tool(resource)
        if name is not None:
            right = (
                f"{name} would put back what is changed in the middle of it: make it leave the "
                "resource alone for that time, or say --even-if-gitops"
            )
            return ValidationProblem(connector, f"{resource.owner.said} is owned by {name}", right)
        unmanaged = self.cluster().unmanaged
        if unmanaged is not None:
            return ValidationProblem(
                connector, unmanaged, "the operator would not act: --connect goes there"
            )
        obstacle = find_obstacle(resource)
        return None if obstacle is None else ValidationProblem(connector, *obstacle)

    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the one step of the operator."""
        del connector
        return ChangeSteps((Reset() if whole else Alter(pairs),))

    def driver(self, connector: str) -> StrimziDriver:
        """Build the driver for a connector. Raises NotFound."""
        resource = self._resources().get(connector)
        if resource is None:
            raise NotFound(self.name, f"no connector {connector}")
        operator = build_operator_client(self._access, resource.owner, self._connect.wait_s)
        return StrimziDriver(operator)

    def _gitops_tool(self, resource: ConnectorResource) -> str | None:
        """Return the GitOps tool that would revert changes of the resource.

        None if there is none, or with `even_if_gitops`.
        """
        return None if self._even_if_gitops else find_gitops_tool(resource.document)

    def _resources(self) -> dict[str, ConnectorResource]:
        if self._owners is None:
            self._owners = list_connector_resources(
                self._read, self.cluster(), self._connect.namespace, self._connect.name
            )
        return self._owners


def _is_same_class(plugin: Mapping[str, Any], name: str) -> bool:
    """Return whether a plugin has this class name, in full or in Connect's short forms."""
    known = str(plugin.get("class") or "")
    last = known.rpartition(".")[2]
    return name in {known, last, last.removesuffix("Connector")} and name != ""


def _build_mirror_config(document: Json, resource: ConnectorResource) -> dict[object, object]:
    """Build the configuration that the operator derives from the resource, as far as needed."""
    spec = document.get("spec") or {}
    clusters = {str(item.get("alias")): item for item in spec.get("clusters") or ()}
    for mirror in spec.get("mirrors") or ():
        source, target = read_aliases(spec, mirror)
        if not resource.owner.connector.startswith(f"{source}->{target}."):
            continue
        where = {
            source: mirror.get("source") or clusters.get(source) or {},
            target: spec.get("target") or clusters.get(target) or {},
        }
        simple = resource.owner.connector.rpartition(".")[2]
        return {
            **(resource.part.get("config") or {}),
            "connector.class": f"{_MIRROR_CLASS}{simple}",
            "source.cluster.alias": source,
            "target.cluster.alias": target,
            "source.cluster.bootstrap.servers": where[source].get("bootstrapServers"),
            "target.cluster.bootstrap.servers": where[target].get("bootstrapServers"),
        }
    return {}
