"""Requests that change what Kubernetes holds.

Each is sent once, and names the version of the object that it was made for: where somebody else
was there first, the server refuses it (Conflict) and nothing has happened.
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
    """One API server. Thread-safe. `transport` is the seam for tests; `check` is called before each
    request, as of ConnectWriter.
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
        """A JSON patch of the object that had this resourceVersion; what it is then. Raises
        Conflict where it has another by now, and all that `exchange` raises.
        """
        only_if = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        body = msgspec.json.encode([only_if, *ops])
        return self._send("PATCH", path, body, JSON_PATCH)

    def create(self, path: str, document: Json) -> Json:
        """A new object. Raises Conflict where there is one of its name."""
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
