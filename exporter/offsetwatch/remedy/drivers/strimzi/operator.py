"""Requests of offsets operations from Strimzi's operator, for one connector, to their end.

They are requested by annotations, which the operator removes when it is done. It retries a failed
operation at every reconciliation: so an annotation of ours is always removed first, whatever the
result. Every patch names the version of the resource that it was made for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from offsetwatch.clients.http.exchange import redact_secrets
from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.clients.kubernetes.reader import KubeReader, config_map_path
from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.decode.rest_answers import decode_offsets
from offsetwatch.errors import Conflict, MalformedResponse, NotFound, RemoteRefusal, ResponseTimeout
from offsetwatch.model.offsets import Undecodable
from offsetwatch.remedy.drivers.strimzi.resources import (
    KINDS,
    ConnectorResource,
    Owner,
    PatchOp,
    build_config_map_name,
)
from offsetwatch.remedy.model.plan import PartitionOffset

OPERATION_S: Final = 150.0  # a reconciliation that was missed comes again after 120 s
EDITS_MAX: Final = 8  # the operator writes the status of what we patch, at about the same time
_PAUSES_S: Final = (0.2, 0.3, 0.5, 1.0)
_MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
_MANAGER: Final = "offsetwatch"
_CONFIG_MAP_OF: Final = {
    "list": ("listOffsets", "toConfigMap"),
    "alter": ("alterOffsets", "fromConfigMap"),
}
_OFFSET_WARNING_REASONS: Final = frozenset(
    {"ListOffsets", "AlterOffsets", "ResetOffsets", "ManageOffsets"}
)


class OperatorRefusal(RemoteRefusal):
    """An operation that the operator refused, with its own message."""

    reason = "operator"


class StrimziOperatorClient:
    """Client of Strimzi's operator for one connector.

    wait_s      for one operation
    """

    def __init__(
        self,
        reader: KubeReader,
        writer: KubeWriter,
        owner: Owner,
        *,
        wait_s: float = OPERATION_S,
        clock: UnixClock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.owner = owner
        self.clock = SteadyClock() if clock is None else clock
        self._read = reader
        self._write = writer
        self._wait_s = wait_s
        self._pause = pause

    @property
    def name(self) -> str:
        """The name of the API server, for messages."""
        return self._read.name

    def read(self) -> ConnectorResource:
        """Read the resource. Raises NotFound where the connector is no longer in it."""
        owner = self.owner
        resource = ConnectorResource(
            owner, self._read.resource(owner.plural, owner.namespace, owner.name)
        )
        if resource.base is None:
            raise NotFound(
                self._read.name, f"{owner.said} has no connector {owner.connector} any more"
            )
        return resource

    def list_offsets(self) -> tuple[PartitionOffset, ...]:
        """List all offsets of the connector, sorted.

        Raises OperatorRefusal; ResponseTimeout if the operator does not react; Conflict if another
        client has requested an operation.
        """
        resource = self.run("list")
        namespace, name = self.owner.namespace, self._config_map_of(resource, "list")
        where = f"ConfigMap {namespace}/{name}"
        try:
            document = self._read.config_map(namespace, name)
        except NotFound as exc:
            said = f"the operator has listed, and there is no {where}"
            raise MalformedResponse(self._read.name, said) from exc
        text = (document.get("data") or {}).get(resource.key)
        if text is None:
            raise MalformedResponse(self._read.name, f"{where} has no {resource.key}")
        listed_pairs = decode_offsets(str(text).encode())
        if isinstance(listed_pairs, Undecodable):
            raise MalformedResponse(
                self._read.name, f"{where}, {resource.key}: {listed_pairs.reason}"
            )
        pairs = (PartitionOffset(partition, offset) for partition, offset in listed_pairs)
        return tuple(sorted(pairs, key=lambda pair: pair.partition))

    def _config_map_of(self, resource: ConnectorResource, operation: str) -> str:
        """Return the ConfigMap of an operation.

        An existing ConfigMap for listings is used; the one with offsets to set is always
        offsetwatch's.
        """
        field, inner = _CONFIG_MAP_OF[operation]
        if operation == "list" and field in resource.part:
            return str(resource.part[field][inner]["name"])
        return build_config_map_name(self.owner, operation)

    def fields(self, resource: ConnectorResource, operation: str) -> dict[str, Any]:
        """Return the fields that the operation needs and that the specification does not have."""
        if operation not in _CONFIG_MAP_OF:
            return {}
        field, inner = _CONFIG_MAP_OF[operation]
        own_fields = {inner: {"name": self._config_map_of(resource, operation)}}
        return {} if resource.part.get(field) == own_fields else {field: own_fields}

    def run(self, operation: str) -> ConnectorResource:
        """Request an operation, wait for its end and remove it; return the resource with it."""
        self.withdraw()  # what a process that was killed has left
        known: list[frozenset[tuple[str, str]]] = []

        def ask(resource: ConnectorResource) -> list[PatchOp]:
            if resource.operation is not None:
                said = f"another client has requested this of the operator: {resource.operation}"
                raise Conflict(self._read.name, f"{self.owner.said}: {said}")
            if resource.backup is None:
                raise Conflict(self._read.name, f"{self.owner.said} is held for another connector")
            known[:] = [resource.warnings]
            return resource.patch_operation(operation, self.fields(resource, operation))

        try:
            resource = self.edit(ask)
            self._await(operation, known[0])
        finally:
            self.withdraw()
        return resource

    def withdraw(self) -> None:
        """Remove the pending operation of offsetwatch.

        The annotation is removed first, because it makes the operator act.
        """

        def undo(resource: ConnectorResource) -> list[PatchOp]:
            fields = build_config_map_fields(self.owner)
            if "state" in (resource.backup or {}):
                # Of a plan that lists again: each change is one more generation for the operator.
                del fields["listOffsets"]
            return resource.patch_withdrawal(fields)

        with suppress(NotFound):  # and with it all that was there
            self.edit(undo)

    def _await(self, operation: str, known: frozenset[tuple[str, str]]) -> None:
        """Wait until the annotation is gone; warnings from before it are reported at a timeout."""
        since, polls = self.clock.now(), 0
        while True:
            resource = self.read()
            if resource.operation is None:
                return
            if resource.operation != resource.operation_of(operation):
                said = f"another client has requested something else: {resource.operation}"
                raise Conflict(self._read.name, f"{self.owner.said}: {said}")
            for reason, message in sorted(resource.warnings - known):
                if reason in _OFFSET_WARNING_REASONS:
                    raise OperatorRefusal(self._read.name, redact_secrets(message))
            if self.clock.now() - since >= self._wait_s:
                waited = f"the operator did not {operation} the offsets within {self._wait_s:.0f} s"
                said = "; ".join(resource.warning_texts)
                cause = f"the operator complains: {said}" if said else "is the operator running?"
                said = f"{self.owner.said}: {waited}, and is no longer asked to; {cause}"
                raise ResponseTimeout(self._read.name, said)
            self._pause(_PAUSES_S[min(polls, len(_PAUSES_S) - 1)])
            polls += 1

    def edit(self, edit: Callable[[ConnectorResource], list[PatchOp]]) -> ConnectorResource:
        """Read the resource and patch it; repeat after a conflict with the operator."""
        for attempt in range(EDITS_MAX):
            resource = self.read()
            ops = edit(resource)
            if not ops:
                return resource
            try:
                document = self._write.patch(resource.path, resource.version, ops)
                return ConnectorResource(self.owner, document)
            except Conflict:
                if attempt + 1 == EDITS_MAX:
                    raise
                self._pause(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
        raise AssertionError

    def put_config_map(self, resource: ConnectorResource, name: str, text: str) -> None:
        """Write offsetwatch's ConfigMap with the requested offsets."""
        namespace = self.owner.namespace
        try:
            there = self._read.config_map(namespace, name)
        except NotFound:
            document = _build_config_map(resource, name, text)
            self._write.create(config_map_path(namespace), document)
            return
        metadata = there.get("metadata") or {}
        if (metadata.get("labels") or {}).get(_MANAGED_BY_LABEL) != _MANAGER:
            said = f"there is a ConfigMap {namespace}/{name} that is not ours"
            raise RemoteRefusal(self._read.name, said)
        data = {**(there.get("data") or {}), resource.key: text}
        ops: list[PatchOp] = [{"op": "add", "path": "/data", "value": data}]
        version = str(metadata.get("resourceVersion"))
        self._write.patch(config_map_path(namespace, name), version, ops)


def build_operator_client(
    access: KubernetesAccess, owner: Owner, wait_s: float
) -> StrimziOperatorClient:
    """Build a client with connections of its own."""
    return StrimziOperatorClient(KubeReader(access), KubeWriter(access), owner, wait_s=wait_s)


def build_config_map_fields(owner: Owner) -> dict[str, Any]:
    """Return the fields that offsetwatch sets temporarily, besides the state."""
    return {
        field: {inner: {"name": build_config_map_name(owner, what)}}
        for what, (field, inner) in _CONFIG_MAP_OF.items()
    }


def _build_config_map(resource: ConnectorResource, name: str, text: str) -> dict[str, Any]:
    """Build the ConfigMap; Kubernetes deletes it with the resource, its owner."""
    owner = {
        "apiVersion": resource.document.get("apiVersion"),
        "kind": KINDS[resource.owner.plural],
        "name": resource.owner.name,
        "uid": resource.metadata.get("uid"),
    }
    metadata = {
        "name": name,
        "namespace": resource.owner.namespace,
        "labels": {_MANAGED_BY_LABEL: _MANAGER},
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {resource.key: text},
    }
