"""Writer of Kubernetes resources: requests that change them, each sent once.

A request names the resourceVersion that it was made for. If another client has changed the object,
the server refuses the request (Conflict) and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import httpx
import msgspec

from offsetwatch.clients.kubernetes.access import KubernetesAccess, send_kubernetes_request

JSON_PATCH: Final = "application/json-patch+json"
FIELD_MANAGER: Final = "offsetwatch"

Json = dict[str, Any]
PatchOperation = dict[str, Any]


class KubeWriter:
    """Writer to one API server. Thread-safe.

    `transport` is a parameter for tests; `check` is called before each request, as in
    ConnectWriter.
    """

    def __init__(
        self,
        access: KubernetesAccess,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._access = access
        self._transport = transport

    def patch(self, path: str, version: str, ops: list[PatchOperation]) -> Json:
        """Patch the object that has this resourceVersion (JSON patch); return the new object.

        Raises Conflict if it has another one by now, and the errors of `send_kubernetes_request`.
        """
        only_if = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        body = msgspec.json.encode([only_if, *ops])
        return self._send("PATCH", path, body, JSON_PATCH)

    def create(self, path: str, document: Json) -> Json:
        """Create an object. Raises Conflict if one of its name exists."""
        return self._send("POST", path, msgspec.json.encode(document), "application/json")

    def _send(self, method: str, path: str, body: bytes, content_type: str) -> Json:
        self._check()
        return send_kubernetes_request(
            self._access,
            method,
            f"{path}?fieldManager={FIELD_MANAGER}",
            body=body,
            content_type=content_type,
            transport=self._transport,
        )
