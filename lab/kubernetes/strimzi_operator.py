"""
Strimzi's operator, played: it does to a real Connect what resources on a real API server say.

Of the operator it has what concerns states and offsets, in its order and with its words: a resource
that has changed, and every resource once in a while, is reconciled: the state first, then what
`strimzi.io/connector-offsets` asks for, then the status is written. What cannot be done is
complained of in the status and tried again. Pods and configurations it leaves alone: connectors are
there already. It can be told to be silent, or to fail.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.kubernetes.api_server import Kubernetes

GROUP: Final = "kafka.strimzi.io"
OFFSETS: Final = "strimzi.io/connector-offsets"
MIRROR: Final = "strimzi.io/mirrormaker-connector"
CLUSTER: Final = "strimzi.io/cluster"
PAUSE: Final = "strimzi.io/pause-reconciliation"
POLL_S: Final = 0.2
RECONCILE_S: Final = 5.0  # Strimzi's own is 120 s

Json = dict[str, Any]


class Operator:
    """
    See the module. A context manager. It can be told to misbehave:

    * silent        it does nothing at all; falls_silent: as soon as a resource wants this state
    * fails         is said instead of doing an operation with offsets
    * garbles       is sent to Connect in place of the offsets to be set
    * loses         a listing is said to be done, and its ConfigMap is not there
    * meddles       is called once, when a connector has stopped, as by another person
    """

    def __init__(
        self, kubernetes: Kubernetes, url: str, *, namespace: str, version: str = "v1"
    ) -> None:
        self.silent = False
        self.falls_silent: str | None = None
        self.fails: str | None = None
        self.garbles: str | None = None
        self.loses = False
        self.meddles: Callable[[], None] | None = None
        self.every_s = RECONCILE_S
        self.done: list[str] = []
        """Operations with offsets that were carried out, as `list NAME`."""
        self.failed: list[str] = []
        """Those that were not."""
        self.rounds = 0
        """How often it has looked at everything."""
        self.resumed: list[str] = []
        """Connectors that were set going again."""
        self._kubernetes = kubernetes
        self._namespace = namespace
        self._version = version
        self._connect = httpx.Client(
            base_url=url, timeout=100.0, trust_env=False, verify=NO_AUTHORITIES
        )
        self._versions: dict[str, tuple[str, float]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.broken: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ending.set()
        self._thread.join()
        self._connect.close()
        if self.broken is not None:
            raise LabError("the operator fell over") from self.broken

    # ---- the loop -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending.wait(POLL_S):
                if not self.silent:
                    self._round()
                    self.rounds += 1
        except BaseException as exc:
            self.broken = exc
            raise

    def _round(self) -> None:
        for plural in ("kafkaconnectors", "kafkamirrormaker2s"):
            for item in self._get(self._path(plural))["items"]:
                name = f"{plural}/{item['metadata']['name']}"
                version, moment = item["metadata"]["resourceVersion"], time.monotonic()
                before = self._versions.get(name)
                if before is None or before[0] != version or moment - before[1] >= self.every_s:
                    self._reconcile(plural, item)
                    self._versions[name] = (version, moment)

    def _reconcile(self, plural: str, result: Json) -> None:
        notes = result["metadata"].get("annotations") or {}
        if notes.get(PAUSE) == "true":
            return
        conditions: list[Json] = []
        statuses = []
        for name, part, key in _connectors(plural, result):
            if self.falls_silent is not None and part.get("state") == self.falls_silent:
                self.silent = True
                return
            self._bring_to_state(name, part)
            answer = notes.get(OFFSETS)
            if answer and (plural == "kafkaconnectors" or notes.get(MIRROR) == name):
                self._operate(plural, result, name, part, key, answer, conditions)
            statuses.append({"name": name, **self._connect_get(f"/connectors/{_q(name)}/status")})
            if self.meddles is not None and statuses[-1]["connector"]["state"] == "STOPPED":
                meddles, self.meddles = self.meddles, None
                meddles()
        self._write_status(plural, result, statuses, conditions)

    def _bring_to_state(self, name: str, part: Json) -> None:
        """A connector that has failed is left alone here, as all that is on its way."""
        expected = part.get("state") or ("paused" if part.get("pause") else "running")
        status = self._connect_get(f"/connectors/{_q(name)}/status")
        state = status.get("connector", {}).get("state", "").lower()
        verb = {"running": "resume", "paused": "pause", "stopped": "stop"}[expected]
        if state in {"running", "paused", "stopped"} and state != expected:
            self.resumed += [name] if verb == "resume" else []
            self._connect.put(f"/connectors/{_q(name)}/{verb}")

    # ---- offsets ------------------------------------------------------------------------------

    def _operate(
        self,
        plural: str,
        result: Json,
        name: str,
        part: Json,
        key: str,
        request: str,
        conditions: list[Json],
    ) -> None:
        reasons = {"list": "ListOffsets", "alter": "AlterOffsets", "reset": "ResetOffsets"}
        try:
            if self.fails is not None:
                raise _Failed(self.fails)
            if request == "list":
                self._list(result, name, part, key)
            else:
                self._change(name, part, key, request)
        except _Failed as exc:
            self.failed.append(f"{request} {name}")
            words = {"list": "listing", "alter": "altering", "reset": "resetting"}[request]
            message = f"Encountered error {words} connector offsets. {exc}"
            conditions.append(_condition("Warning", reasons[request], message))
            return
        self.done.append(f"{request} {name}")
        without = {"metadata": {"annotations": {OFFSETS: None, MIRROR: None}}}
        self._patch(self._path(plural, result["metadata"]["name"]), without)

    def _list(self, result: Json, name: str, part: Json, key: str) -> None:
        if "listOffsets" not in part:
            raise _Failed("missing property listOffsets")
        at = part["listOffsets"]["toConfigMap"]["name"]
        if self.loses:
            return
        offsets = self._connect_ok("GET", f"/connectors/{_q(name)}/offsets").json()
        data = {key: json.dumps(offsets, indent=2)}
        path = f"/api/v1/namespaces/{self._namespace}/configmaps"
        if self._kubernetes.http.get(f"{path}/{at}").status_code == httpx.codes.OK:
            self._patch(f"{path}/{at}", {"data": data})
            return
        owner = {
            "apiVersion": result["apiVersion"],
            "kind": result["kind"],
            "name": result["metadata"]["name"],
            "uid": result["metadata"]["uid"],
            "blockOwnerDeletion": False,
            "controller": False,
        }
        labels = result["metadata"].get("labels") or {}
        metadata = {"name": at, "labels": labels, "ownerReferences": [owner]}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        _ok(self._kubernetes.http.post(path, json=document))

    def _change(self, name: str, part: Json, key: str, request: str) -> None:
        if request == "alter" and "alterOffsets" not in part:
            raise _Failed("missing property alterOffsets")
        status = self._connect_get(f"/connectors/{_q(name)}/status")
        if status.get("connector", {}).get("state") != "STOPPED":
            raise _Failed("Connector is not in STOPPED state")
        if request == "reset":
            self._connect_ok("DELETE", f"/connectors/{_q(name)}/offsets")
            return
        at = part["alterOffsets"]["fromConfigMap"]["name"]
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/{at}"
        answer = self._kubernetes.http.get(path)
        if answer.status_code != httpx.codes.OK:
            raise _Failed(f"ConfigMap {self._namespace}/{at} does not exist.")
        text = (answer.json().get("data") or {}).get(key)
        if text is None:
            raise _Failed(f"Data field {key} is missing.")
        sent = text if self.garbles is None else self.garbles
        self._connect_ok("PATCH", f"/connectors/{_q(name)}/offsets", content=sent)

    def _connect_ok(self, method: str, path: str, content: str | None = None) -> httpx.Response:
        answer = self._connect.request(
            method, path, content=content, headers={"Content-Type": "application/json"}
        )
        if answer.status_code != httpx.codes.OK:
            text = f"returned {answer.status_code} ({answer.reason_phrase})"
            raise _Failed(f"{method} {path} {text}: {answer.json().get('message')}")
        return answer

    # ---- the API server -----------------------------------------------------------------------

    def _write_status(
        self, plural: str, result: Json, statuses: Sequence[Json], conditions: list[Json]
    ) -> None:
        ready = _condition("Ready", None, None)
        status: Json = {
            "observedGeneration": result["metadata"]["generation"],
            "conditions": [ready, *conditions],
        }
        if plural == "kafkaconnectors":
            status["connectorStatus"] = statuses[0]
        else:
            status["connectors"] = list(statuses)
        before = dict(result.get("status") or {})
        if _untimed(before) != _untimed(status):
            path = self._path(plural, result["metadata"]["name"]) + "/status"
            self._patch(path, {"status": status})

    def _path(self, plural: str, name: str | None = None) -> str:
        path = f"/apis/{GROUP}/{self._version}/namespaces/{self._namespace}/{plural}"
        return path if name is None else f"{path}/{name}"

    def _get(self, path: str) -> Json:
        answer: Json = _ok(self._kubernetes.http.get(path)).json()
        return answer

    def _patch(self, path: str, patch: Mapping[str, Any]) -> None:
        answer = self._kubernetes.http.patch(
            path,
            content=json.dumps(patch),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        if answer.status_code != httpx.codes.NOT_FOUND:  # deleted meanwhile
            _ok(answer)

    def _connect_get(self, path: str) -> Json:
        answer = self._connect.get(path)
        result: Json = answer.json() if answer.status_code == httpx.codes.OK else {}
        return result


class _Failed(Exception):
    """An operation that the operator complains of."""


def _connectors(plural: str, result: Json) -> list[tuple[str, Json, str]]:
    """(name, part of the specification, key in ConfigMaps) of every connector of a resource."""
    spec = result["spec"]
    if plural == "kafkaconnectors":
        return [(result["metadata"]["name"], spec, "offsets.json")]
    listed = []
    for mirror in spec["mirrors"]:
        if "source" in mirror:
            flow = f"{mirror['source']['alias']}->{spec['target']['alias']}"
        else:
            flow = f"{mirror['sourceCluster']}->{spec['connectCluster']}"
        for part in ("source", "checkpoint", "heartbeat"):
            if f"{part}Connector" in mirror:
                name = f"{flow}.Mirror{part.capitalize()}Connector"
                key = name.replace("->", "--") + ".json"
                listed.append((name, mirror[f"{part}Connector"], key))
    return listed


def _condition(kind: str, reason: str | None, message: str | None) -> Json:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    reports = {"type": kind, "status": "True", "lastTransitionTime": moment}
    return reports | {
        name: text for name, text in (("reason", reason), ("message", message)) if text
    }


def _untimed(status: Json) -> Json:
    """As Strimzi compares them: the same complaint is not written again."""
    conditions = [
        {name: value for name, value in condition.items() if name != "lastTransitionTime"}
        for condition in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}


def _q(name: str) -> str:
    return quote(name, safe="")


def _ok(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise LabError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}")
    return answer
