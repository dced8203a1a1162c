"""A control listener on loopback with a desk in memory, and everybody who may ask it."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from offsetwatch.config import Control
from offsetwatch.model.observations import ControlRequestsCounted
from offsetwatch.serve.control.connection import ControlConnectionBounds
from offsetwatch.serve.control.listener_thread import ControlServer
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.fakes.clock import VirtualClock
from tests.fakes.remediation_service import MemoryService, plan_row
from tests.waiting import DEADLINE_S

ROLES = ("viewer", "proposer", "approver", "operator", "hook")
V1 = "/api/v1"
BECAUSE = "the row is broken at its source"
ALERT = {
    "status": "firing",
    "labels": {"alertname": "SinkStuck", "connect_cluster": "lab", "connector": "orders"},
    "annotations": {"summary": "it does not move"},
    "startsAt": "2026-08-17T09:52:26.739266876+02:00",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus.example.com/graph",
    "fingerprint": "1a30ba71cca2921f",
}
SKIP = {
    "action": "skip_one",
    "connect_cluster": "lab",
    "connector": "orders",
    "partition": {"kafka_topic": "orders", "kafka_partition": 3},
    "offset": {"kafka_offset": 1235},
    "because": BECAUSE,
}


def token(name: str) -> str:
    """Somebody's token: as long as a real one, and told apart in logs."""
    return f"s3cret-{name}-".ljust(40, "x")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def payload(*alerts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What Alertmanager 0.25 sends."""
    return {
        "receiver": "offsetwatch",
        "status": "firing",
        "alerts": list(alerts or (ALERT,)),
        "groupLabels": {"alertname": "SinkStuck"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example.com",
        "version": "4",
        "groupKey": '{}:{alertname="SinkStuck"}',
        "truncatedAlerts": 0,
        **more,
    }


def alert(*, labels: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**ALERT, "labels": {**ALERT["labels"], **(labels or {})}, **more}


def control(**more: Any) -> Control:
    inputs = {
        "listen": "127.0.0.1:9641",
        "tokens": [
            {"name": role, "role": role, "token_sha256": sha256(token(role))} for role in ROLES
        ],
        **more,
    }
    # A free port: the kernel chooses it, and the name of the listener stays that of loopback.
    host = inputs["listen"].rpartition(":")[0]
    return Control.model_validate(inputs).model_copy(update={"listen": f"{host}:0"})


@dataclass
class Stage:
    """`call` asks as one of the roles, or as whoever has the token that is given. `follows`: whom
    this replica follows, if it does.
    """

    configured: Control
    bounds: ControlConnectionBounds
    at_end: Callable[[], None] = lambda: None
    clock: VirtualClock = field(default_factory=VirtualClock)
    shown: Snapshot = EMPTY_SNAPSHOT
    reported: list[ControlRequestsCounted] = field(default_factory=list)
    follows: str | None = None

    def __post_init__(self) -> None:
        self.desk = MemoryService(self.clock)
        self.server = ControlServer(
            self.configured,
            self.desk,
            self.clock,
            snapshot=lambda: self.shown,
            report=self.take,
            at_end=self.at_end,
            why_not=lambda: self.follows,
            bounds=self.bounds,
        )
        # Trusts nobody: to read all authorities takes longer than most tests.
        self.client = httpx.Client(timeout=DEADLINE_S, trust_env=False, verify=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def take(self, observed: ControlRequestsCounted) -> None:
        self.reported.append(observed)
        self.shown = replace(
            self.shown, hooks_received=observed.hooks, control_refused=observed.refused
        )

    def call(
        self, method: str, path: str, role: str | None = None, body: Any = None, **headers: str
    ) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            sent.setdefault("Authorization", f"Bearer {token(role)}")
        content: dict[str, Any] = {}
        if isinstance(body, bytes):
            content["content"] = body
            sent.setdefault("Content-Type", "application/json")
        elif body is not None:
            content["json"] = body
        return self.client.request(method, f"{self.url}{V1}{path}", headers=sent, **content)

    def propose(
        self, body: Any = None, key: str = "once", role: str = "proposer"
    ) -> httpx.Response:
        expected = SKIP if body is None else body
        return self.call("POST", "/plans", role, expected, Idempotency_Key=key)

    def hook(self, body: Any = None, role: str | None = "hook", **headers: str) -> httpx.Response:
        expected = payload() if body is None else body
        return self.call("POST", "/hooks/alertmanager", role, expected, **headers)

    def raw(self, sent: bytes) -> bytes:
        """All that comes back for these bytes until the other side closes."""
        with socket.create_connection(("127.0.0.1", self.server.port), DEADLINE_S) as connection:
            connection.sendall(sent)
            result = b""
            while part := _received(connection):
                result += part
            return result

    def counted(self, reason: str, of: str = "hooks") -> int:
        """How often, in what was reported last."""
        return dict(getattr(self.reported[-1], of)).get(reason, 0) if self.reported else 0

    def with_plan(self, plan_id: str = "p1", **more: Any) -> str:
        """A plan on the desk; its hash."""
        self.desk.rows[plan_id] = plan_row(plan_id, **more)
        return self.desk.rows[plan_id].sha256


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


@contextmanager
def serving(
    configured: Control | None = None,
    bounds: ControlConnectionBounds | None = None,
    at_end: Callable[[], None] = lambda: None,
) -> Iterator[Stage]:
    stage = Stage(configured or control(), bounds or ControlConnectionBounds(), at_end)
    stage.server.start()
    try:
        yield stage
    finally:
        stage.server.stop()
        stage.client.close()
