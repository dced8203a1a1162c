"""Reader of Kubernetes resources: GETs, paged and bounded, and checks of our permissions.

clients/write/kubernetes.py changes resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from offsetwatch.clients.kubernetes.access import KubernetesAccess, send_kubernetes_request
from offsetwatch.errors import MalformedResponse, NotFound

PAGE_SIZE: Final = 250
OBJECTS_MAX: Final = 10_000
STRIMZI: Final = "kafka.strimzi.io"
_AUTHORIZATION: Final = "authorization.k8s.io"
# Newest first: what a newer one serves, an operator that knows it understands.
STRIMZI_API_VERSIONS: Final = ("v1", "v1beta2")

_PARTS: Final = ("metadata", "spec", "status", "data")

Json = dict[str, Any]
_Answer = TypeVar("_Answer")


class KubeReader:
    """Reader of one API server. Thread-safe. `transport` is a parameter for tests."""

    def __init__(
        self, access: KubernetesAccess, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.access = access
        self._transport = transport
        self._version: str | None = None

    @property
    def name(self) -> str:
        """Return the name for messages."""
        return self.access.name

    def strimzi_version(self) -> str:
        """Return the newest API version of Strimzi's resources that is served and known.

        Raises NotFound if there is none.
        """
        if self._version is None:
            try:
                group = self.get(f"/apis/{STRIMZI}")
            except NotFound as exc:
                raise NotFound(self.name, "Strimzi's resources are not installed") from exc
            listed = group.get("versions")
            served = {
                str(entry.get("version"))
                for entry in (listed if isinstance(listed, list) else ())
                if isinstance(entry, dict)
            }
            known = [version for version in STRIMZI_API_VERSIONS if version in served]
            if not known:
                has = ", ".join(sorted(served)) or "none"
                raise NotFound(self.name, f"no version of Strimzi's resources we know: {has}")
            self._version = known[0]
        return self._version

    def resource(self, plural: str, namespace: str, name: str) -> Json:
        """Return one Strimzi resource. Raises NotFound."""
        return self._of_strimzi(
            lambda version: self.get(strimzi_path(version, plural, namespace, name))
        )

    def resources(self, plural: str, namespace: str, *, label: str | None = None) -> list[Json]:
        """Return all Strimzi resources of one kind in a namespace; `label` selects, as `a=b`."""
        return self._of_strimzi(
            lambda version: self.all(strimzi_path(version, plural, namespace), label=label)
        )

    def _of_strimzi(self, request: Callable[[str], _Answer]) -> _Answer:
        """Return the answer in the API version that is served.

        An upgrade may have removed the version that was found before; then the request is repeated.
        """
        before = self._version
        try:
            return request(self.strimzi_version())
        except NotFound:
            self._version = None
            if before is None or self.strimzi_version() == before:
                raise
        return request(self.strimzi_version())

    def config_map(self, namespace: str, name: str) -> Json:
        """Return a ConfigMap. Raises NotFound."""
        return self.get(config_map_path(namespace, name))

    def secret(self, namespace: str, name: str) -> Json:
        """Return a Secret, whose values must not be shown. Raises NotFound."""
        space = quote(namespace, safe="")
        return self.get(f"/api/v1/namespaces/{space}/secrets/{quote(name, safe='')}")

    def may(self, verb: str, group: str, plural: str, namespace: str, name: str = "") -> bool:
        """Check whether we may do this (a SelfSubjectAccessReview, which is not stored)."""
        attributes = {
            "verb": verb,
            "group": group,
            "resource": plural,
            "namespace": namespace,
            "name": name,
        }
        review = {
            "apiVersion": f"{_AUTHORIZATION}/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = send_kubernetes_request(
            self.access,
            "POST",
            f"/apis/{_AUTHORIZATION}/v1/selfsubjectaccessreviews",
            body=msgspec.json.encode(review),
            transport=self._transport,
        )
        return mapping_or_empty(answer.get("status")).get("allowed") is True

    def get(self, path: str) -> Json:
        """Return the object at a path. Raises MalformedResponse if it is no Kubernetes object."""
        answer = send_kubernetes_request(self.access, "GET", path, transport=self._transport)
        self._check(path, answer)
        return answer

    def _check(self, path: str, body: object) -> None:
        """Raise MalformedResponse unless the common parts of an object are maps, if present.

        Their contents are the API server's to check.
        """
        if not isinstance(body, dict):
            raise MalformedResponse(
                self.name, f"GET {path.partition('?')[0]}: an item that is no object"
            )
        metadata = body.get("metadata")
        parts = [(name, body.get(name)) for name in _PARTS]
        parts += [
            (name, mapping_or_empty(metadata).get(name)) for name in ("labels", "annotations")
        ]
        for name, part in parts:
            if part is not None and not isinstance(part, dict):
                raise MalformedResponse(
                    self.name, f"GET {path.partition('?')[0]}: {name} is no map"
                )

    def all(self, path: str, *, label: str | None = None) -> list[Json]:
        """Return all items of a list, page by page."""
        resources: list[Json] = []
        after = ""
        while True:
            query = {"limit": str(PAGE_SIZE)}
            query |= {"labelSelector": label} if label else {}
            query |= {"continue": after} if after else {}
            page = self.get(f"{path}?{urlencode(query)}")
            items = page.get("items")
            if not isinstance(items, list):
                raise MalformedResponse(self.name, f"GET {path}: no list")
            for item in items:
                self._check(path, item)
            resources += items
            after = str(mapping_or_empty(page.get("metadata")).get("continue") or "")
            if not after:
                return resources
            if len(resources) > OBJECTS_MAX:
                raise MalformedResponse(self.name, f"GET {path}: more than {OBJECTS_MAX} objects")


def mapping_or_empty(value: object) -> Json:
    """Return a map, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def strimzi_path(version: str, plural: str, namespace: str, name: str | None = None) -> str:
    """Return the path of one Strimzi resource, or of all of its kind."""
    path = f"/apis/{STRIMZI}/{version}/namespaces/{quote(namespace, safe='')}/{plural}"
    return path if name is None else f"{path}/{quote(name, safe='')}"


def config_map_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a ConfigMap, or of all of them."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
    return path if name is None else f"{path}/{quote(name, safe='')}"
