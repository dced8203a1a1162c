"""What one of Strimzi's resources says of one connector, and the patches that say something else.

Pure. A connector is owned by a KafkaConnector of its name, or stands in a KafkaMirrorMaker2, where
its part of the specification, its key in ConfigMaps and its status are others. The procedure is
Strimzi's (0.44 and newer): an annotation asks for a listing, a change or a reset of the offsets,
and is removed once that is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from offsetwatch.clients.kubernetes.reader import strimzi_path
from offsetwatch.remedy.model.plan import RequestedState

Json = dict[str, Any]
PatchOp = dict[str, Any]

CLUSTER_LABEL: Final = "strimzi.io/cluster"
OFFSETS_ANNOTATION: Final = "strimzi.io/connector-offsets"
MIRROR_CONNECTOR_ANNOTATION: Final = "strimzi.io/mirrormaker-connector"
PAUSE_ANNOTATION: Final = "strimzi.io/pause-reconciliation"
USE_RESOURCES_ANNOTATION: Final = "strimzi.io/use-connector-resources"
BACKUP_ANNOTATION: Final = "offsetwatch/held"
"""What we changed of the specification for a while, and what was there before."""
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
        """For people."""
        return f"{KINDS[self.plural]} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ConnectorResource:
    """An owner as it was when it was read."""

    owner: Owner
    document: Json

    # --- what it says ----------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """Of this very state of it."""
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def metadata(self) -> Json:
        """Names, labels, annotations."""
        return _ensure_mapping(self.document.get("metadata"))

    @property
    def annotations(self) -> Json:
        """Empty where there are none."""
        return _ensure_mapping(self.metadata.get("annotations"))

    @property
    def path(self) -> str:
        """Where it lives."""
        version = str(self.document.get("apiVersion", "")).rpartition("/")[2]
        return strimzi_path(version, self.owner.plural, self.owner.namespace, self.owner.name)

    @property
    def base(self) -> str | None:
        """The JSON pointer of its part of the specification; None where it has none any more."""
        if self.owner.plural == KAFKA_CONNECTORS:
            return "/spec"
        for connector, pointer, _ in find_mirror_parts(self.document):
            if connector == self.owner.connector:
                return pointer
        return None

    @property
    def part(self) -> Json:
        """Its part of the specification."""
        if self.owner.plural == KAFKA_CONNECTORS:
            return _ensure_mapping(self.document.get("spec"))
        for connector, _, part in find_mirror_parts(self.document):
            if connector == self.owner.connector:
                return part
        return {}

    @property
    def wanted(self) -> RequestedState:
        """What the specification wants it to be; `pause` is how the oldest versions said it."""
        return parse_target_state(self.part)

    @property
    def key(self) -> str:
        """Under which its offsets stand in a ConfigMap."""
        if self.owner.plural == KAFKA_CONNECTORS:
            return "offsets.json"
        return f"{self.owner.connector.replace('->', '--')}.json"

    @property
    def observed(self) -> bool:
        """Whether the status is of this very specification."""
        seen = _ensure_mapping(self.document.get("status")).get("observedGeneration")
        return isinstance(seen, int) and seen >= int(self.metadata.get("generation") or 0)

    @property
    def state(self) -> str:
        """What Connect said of it when the operator last asked, in lower case; "" for nothing."""
        return str(_ensure_mapping(self._status().get("connector")).get("state") or "").lower()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The states of its tasks, likewise."""
        tasks = self._status().get("tasks")
        listed = tasks if isinstance(tasks, list) else []
        return tuple(str(_ensure_mapping(task).get("state") or "").lower() for task in listed)

    @property
    def said(self) -> str:
        """What it is and is to be, for people."""
        tasks = f", tasks: {' '.join(self.tasks)}" if self.tasks else ", no tasks"
        stale = "" if self.observed else "; the operator has not seen the newest change yet"
        status = f"{self.state}{tasks}" if self.state else "nothing"
        return f"wanted is {self.wanted}, and the operator last saw {status}{stale}"

    @property
    def warnings(self) -> frozenset[tuple[str, str]]:
        """(reason, message) of what the operator complains of."""
        conditions = _ensure_mapping(self.document.get("status")).get("conditions")
        found = set()
        for condition in conditions if isinstance(conditions, list) else []:
            if condition.get("status") == "True" and condition.get("type") in {
                "Warning",
                "NotReady",
            }:
                found.add((str(condition.get("reason") or ""), str(condition.get("message") or "")))
        return frozenset(found)

    @property
    def operation(self) -> str | None:
        """What is asked for just now, by whomever; None for nothing."""
        asked = self.annotations.get(OFFSETS_ANNOTATION)
        if asked is None:
            return None
        return f"{asked} {self.annotations.get(MIRROR_CONNECTOR_ANNOTATION, '')}".strip()

    @property
    def held(self) -> Json | None:
        """What we hold changed of this connector, field -> what was there before; {} for nothing;
        None where that is held for another connector of the same resource.
        """
        text = self.annotations.get(BACKUP_ANNOTATION)
        if text is None:
            return {}
        try:
            found = msgspec.json.decode(str(text))
        except (msgspec.DecodeError, RecursionError):
            return None
        if _ensure_mapping(found).get("connector") != self.owner.connector:
            return None
        return _ensure_mapping(_ensure_mapping(found).get("was"))

    @property
    def reconciled(self) -> bool:
        """Whether the operator may touch it at all."""
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

    def changed(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Other values of its fields, with what was there kept in an annotation."""
        was = dict(self.held or {})
        ops = self._set(was, fields)
        return [*ops, *self._annotated({BACKUP_ANNOTATION: self._holding(was)})]

    def restored(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """What was there before, where our values still stand: what somebody else has set since is
        his. `fields` are our values.
        """
        was = dict(self.held or {})
        ops = self._put_back(was, fields)
        return [*ops, *self._annotated({BACKUP_ANNOTATION: self._holding(was)})]

    def asked_for(self, operation: str, fields: Mapping[str, Any]) -> list[PatchOp]:
        """The annotations of an operation, and the fields that it needs; that they are ours is
        kept, so that they are taken back whoever comes next.
        """
        was = {**(self.held or {}), OPERATION_KEY: operation}
        ops = self._set(was, fields)
        wanted: dict[str, str | None] = {
            OFFSETS_ANNOTATION: operation,
            BACKUP_ANNOTATION: self._holding(was),
        }
        if self.owner.plural == KAFKA_MIRROR_MAKERS:
            wanted[MIRROR_CONNECTOR_ANNOTATION] = self.owner.connector
        return [*ops, *self._annotated(wanted)]

    def taken_back(self, fields: Mapping[str, Any]) -> list[PatchOp]:
        """Without an operation of ours, and without the fields that it needed; nothing where there
        is none.
        """
        was = dict(self.held or {})
        operation = was.pop(OPERATION_KEY, None)
        if operation is None:
            return []
        ops = self._put_back(was, fields)
        notes: dict[str, str | None] = {BACKUP_ANNOTATION: self._holding(was)}
        if self.operation == self.operation_of(operation):
            notes |= dict.fromkeys((OFFSETS_ANNOTATION, MIRROR_CONNECTOR_ANNOTATION))
        return [*self._annotated(notes), *ops]

    def operation_of(self, operation: str) -> str:
        """As `operation` says it, were it asked for now."""
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
        for name, ours in fields.items():
            if name in was:
                before = was.pop(name)
                if self.part.get(name) == ours:
                    ops += self.field(name, before)
        return ops

    def field(self, name: str, value: Any) -> list[PatchOp]:
        """A field as it is to stay; None for not at all."""
        assert self.base is not None, "the caller has read it before a change"
        path = f"{self.base}/{name}"
        if value is None:
            return [{"op": "remove", "path": path}] if name in self.part else []
        return [{"op": "add", "path": path, "value": value}]

    def _annotated(self, wanted: Mapping[str, str | None]) -> list[PatchOp]:
        """Every annotation in one map: JSON pointers of names with slashes are hard to read."""
        then = {**self.annotations, **wanted}
        kept = {name: value for name, value in then.items() if value is not None}
        if kept == self.annotations:
            return []
        return [{"op": "add", "path": "/metadata/annotations", "value": kept}]

    def _holding(self, was: Json) -> str | None:
        if not was:
            return None
        held = {"connector": self.owner.connector, "was": was}
        return msgspec.json.encode(held, order="sorted").decode()


def parse_target_state(part: Mapping[str, Any]) -> RequestedState:
    """What a specification wants a connector to be."""
    text = part.get("state")
    if text is None:
        return RequestedState.PAUSED if part.get("pause") is True else RequestedState.RUNNING
    return RequestedState(str(text))


def find_mirror_parts(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """(connector's name, JSON pointer, part of the specification) of a KafkaMirrorMaker2, of v1
    (clusters stand where they are used) as of v1beta2 (by their aliases).
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
    """Of the cluster that is copied from, and of the one that is copied to."""
    source = _ensure_mapping(mirror.get("source")).get("alias") or mirror.get("sourceCluster")
    target = _ensure_mapping(spec.get("target")).get("alias") or mirror.get("targetCluster")
    return str(source or ""), str(target or spec.get("connectCluster") or "")


def find_gitops_tool(document: Mapping[str, Any]) -> str | None:
    """Who puts a resource back to what a repository says; None if nobody seems to. Argo CD knows
    its own by a label that Helm also gives.
    """
    metadata = _ensure_mapping(document.get("metadata"))
    labels, notes = (
        _ensure_mapping(metadata.get("labels")),
        _ensure_mapping(metadata.get("annotations")),
    )
    if any(notes.get(name) == value for name, value in _GITOPS_OPT_OUT.items()):
        return None
    for name in (*labels, *notes):
        for prefix, who in _GITOPS.items():
            if name.startswith(prefix):
                return who
    if "app.kubernetes.io/instance" in labels and "meta.helm.sh/release-name" not in notes:
        return "Argo CD, by the label app.kubernetes.io/instance"
    return None


def build_config_map_name(owner: Owner, what: str) -> str:
    """The ConfigMap of ours beside a resource."""
    end = f"-offsetwatch-{what}"
    return owner.name[: _NAME_MAX - len(end)] + end


def _ensure_mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}
