"""A Kubernetes API server in memory, with one connector of Strimzi's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from offsetwatch.remedy.drivers.strimzi.resources import OFFSETS_ANNOTATION

LISTED = {"partition": {"filename": "/in"}, "offset": {"position": 15}}


class Server:
    """One KafkaConnector, the KafkaConnect it belongs to, if there is one, and ConfigMaps.

    operator    called after each patch of the KafkaConnector, before: before each
    denied      what we may not do, as `patch kafkaconnectors`
    """

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        self.resource: dict[str, Any] = {
            "apiVersion": "kafka.strimzi.io/v1",
            "metadata": {"name": "c", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": spec or {},
        }
        self.maps: dict[str, dict[str, Any]] = {}
        self.patches: list[list[dict[str, Any]]] = []
        self.cluster: dict[str, Any] | None = None
        self.denied: set[str] = set()
        self.operator: Callable[[Server], None] = lambda _server: None
        self.before: Callable[[Server], None] = lambda _server: None

    @property
    def notes(self) -> dict[str, str]:
        result: dict[str, str] = self.resource["metadata"].get("annotations") or {}
        return result

    def touch(self) -> None:
        metadata = self.resource["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/apis/kafka.strimzi.io":
            return httpx.Response(200, json={"versions": [{"version": "v1"}]})
        if "/selfsubjectaccessreviews" in path:
            requested = json.loads(request.content)["spec"]["resourceAttributes"]
            allowed = f"{requested['verb']} {requested['resource']}" not in self.denied
            return httpx.Response(201, json={"status": {"allowed": allowed}})
        if "/kafkaconnects/" in path or "/kafkamirrormaker2s/" in path:
            if self.cluster is None or "/kafkaconnects/" not in path:
                return httpx.Response(404, json={"message": "not there"})
            return httpx.Response(200, json=self.cluster)
        if "/configmaps" in path:
            return self._map(request, path.rpartition("/")[2])
        if path.endswith("/kafkaconnectors"):
            return httpx.Response(200, json={"items": [self.resource]})
        if request.method == "GET":
            return httpx.Response(200, json=self.resource)
        self.before(self)
        return self._patch(json.loads(request.content))

    def _map(self, request: httpx.Request, name: str) -> httpx.Response:
        if request.method == "POST":
            document = json.loads(request.content)
            self.maps[document["metadata"]["name"]] = document
            return httpx.Response(201, json=document)
        if name not in self.maps:
            return httpx.Response(404, json={"message": "not there"})
        if request.method == "PATCH":
            self.maps[name]["data"] = json.loads(request.content)[1]["value"]
        return httpx.Response(200, json=self.maps[name])

    def _patch(self, ops: list[dict[str, Any]]) -> httpx.Response:
        only_if, *rest = ops
        if only_if["value"] != self.resource["metadata"]["resourceVersion"]:
            return httpx.Response(409, json={"message": "the object has been modified"})
        for op in rest:
            *parents, last = op["path"].strip("/").split("/")
            at = self.resource
            for parent in parents:
                at = at[parent]
            if op["op"] == "remove":
                del at[last]
            else:
                at[last] = op["value"]
        self.patches.append(rest)
        self.touch()
        self.operator(self)
        return httpx.Response(200, json=self.resource)


def obliging(server: Server) -> None:
    """Does what it is asked for at once."""
    request = server.notes.pop(OFFSETS_ANNOTATION, None)
    if request == "list":
        name = server.resource["spec"]["listOffsets"]["toConfigMap"]["name"]
        server.maps[name] = {"data": {"offsets.json": json.dumps({"offsets": [LISTED]})}}
    if request is not None:
        server.touch()
