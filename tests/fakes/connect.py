"""A Connect worker in memory, over HTTP on loopback: it answers as the recorded real one does.

Its misbehaviour is the real one's: 409 during a rebalance, a 500 that is applied all the same, a
stop that returns before tasks have ended, a sink's alter that half applies.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"
POSSIBLE: Final = (
    "The Connect framework-managed offsets for this connector have been altered successfully. "
    "However, if this connector manages offsets externally, they will need to be manually altered "
    "in the system that the connector uses."
)
NOT_STOPPED: Final = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' "
    "endpoint"
)
REBALANCE: Final = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a "
    "concurrent config change)"
)
TIMED_OUT: Final = (
    "Request timed out. The last operation the worker completed was reading to the end of the "
    "config topic"
)
ZOMBIES: Final = (
    "Failed to alter consumer group offsets for connector {} either because its tasks haven't "
    "stopped completely yet or the connector was resumed before the request to alter its offsets "
    "could be successfully completed. If the connector is in a stopped state, this operation can "
    "be safely retried. If it doesn't eventually succeed, the Connect cluster may need to be "
    "restarted to get rid of the zombie sink tasks."
)
ROUTE: Final = "HTTP 404 Not Found"
PLUGINS: Final = {
    "org.apache.kafka.connect.file.FileStreamSinkConnector": "sink",
    "org.apache.kafka.connect.file.FileStreamSourceConnector": "source",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": "source",
    "org.example.Source": "source",
}


@dataclass
class CreatedConnector:
    """A connector. `lingering`: how many looks at its status still show its tasks after a stop."""

    config: dict[str, Any]
    kind: str = "source"
    state: str = "RUNNING"
    tasks: int = 1
    tasks_max: int = 1
    failing: bool = False
    lingering: int = 0
    task_config: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """What happens to the next request that it matches, once.

    applied     whether the request is carried out all the same
    status      None: the connection is cut
    late        carried out after so many further requests of any kind
    """

    method: str
    path: str
    status: int | None
    message: str = ""
    applied: bool = False
    late: int | None = None
    raw: bytes | None = None


class Refuse(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class Connect:
    """Set what it holds, ask it over HTTP, look at what it holds.

    offsets     connector -> source partition (JSON, sorted) -> offset; stays when one is deleted
    topics      of sinks: topic -> number of partitions; any other cannot be committed to
    validate    what the connector class itself refuses: None or its words
    """

    version: str = "4.3.1"
    cluster_id: str = "kafka-of-the-fake"
    standalone: bool = False
    connectors: dict[str, CreatedConnector] = field(default_factory=dict)
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=lambda: dict(PLUGINS))
    odd_plugins: list[Any] = field(default_factory=list)  # members of their list without a class
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    validate: Callable[[dict[str, Any], Any], str | None] = lambda _partition, _offset: None
    vouches: bool = True
    linger: int = 0
    url: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._late: list[list[Any]] = []

    def add(self, name: str, **built: Any) -> CreatedConnector:
        """A connector that is there from the beginning."""
        config = {"connector.class": "org.example.Source", "name": name, **built.pop("config", {})}
        self.connectors[name] = CreatedConnector(config=config, **built)
        self.offsets.setdefault(name, {})
        return self.connectors[name]

    def commit(self, name: str, partition: dict[str, Any], offset: dict[str, Any] | None) -> None:
        """As a task does."""
        self.offsets.setdefault(name, {})[_text(partition)] = offset

    def restart(self) -> None:
        """Of a standalone worker: what was asked for over REST is forgotten, offsets are not."""
        assert self.standalone, "the others keep it in the config topic"
        for connector in self.connectors.values():
            connector.state, connector.tasks = "RUNNING", connector.tasks_max

    def changes(self) -> list[tuple[str, str]]:
        """Every request that is no GET, in order."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    def fail(
        self, method: str, path: str, status: int | None, message: str = "", **how: Any
    ) -> None:
        """See Fault; `path` is a regular expression."""
        self.faults.append(Fault(method, path, status, message, **how))

    # --- requests --------------------------------------------------------------------------------

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """(status, body); None cuts the connection."""
        with self._lock:
            self.requests.append((method, path, _json(body)))
            self._carry_out_late_ones()
            fault = self._fault(method, path)
            if fault is None:
                return self._answered(method, path, body)
            if fault.late is not None:
                self._late.append([fault.late, method, path, body])
            elif fault.applied:
                self._answered(method, path, body)
            if fault.raw is not None:
                return fault.status or 200, fault.raw
            return None if fault.status is None else _error(fault.status, fault.message)

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and re.search(fault.path, path):
                self.faults.remove(fault)
                return fault
        return None

    def _carry_out_late_ones(self) -> None:
        for waiting in self._late:
            waiting[0] -= 1
        due = [waiting for waiting in self._late if waiting[0] <= 0]
        self._late = [waiting for waiting in self._late if waiting[0] > 0]
        for _, method, path, body in due:
            self._answered(method, path, body)

    def _answered(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            status, result = self._route(method, path, body)
        except Refuse as exc:
            return _error(exc.status, exc.message)
        return status, b"" if result is None else json.dumps(result).encode()

    def _route(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        parts = urlsplit(path)
        names = [unquote(part) for part in parts.path.strip("/").split("/") if part]
        match (method, names):
            case ("GET", []):
                return 200, {
                    "version": self.version,
                    "commit": "0",
                    "kafka_cluster_id": self.cluster_id,
                }
            case ("GET", ["connectors"]):
                return 200, {
                    name: {"status": self._status(name), "info": self._info(name)}
                    for name in self.connectors
                }
            case ("GET", ["connector-plugins"]):
                listed = [{"class": name, "type": kind} for name, kind in self.plugins.items()]
                return 200, [*listed, *self.odd_plugins]
            case ("POST", ["connectors"]):
                return self._create(_json(body))
            case (_, ["connectors", name]):
                return self._one(method, name)
            case (_, ["connectors", name, what]):
                return self._of_connector(method, name, what, parts.query, body)
        raise Refuse(404, ROUTE)

    def _one(self, method: str, name: str) -> tuple[int, Any]:
        self._known(name)
        if method == "DELETE":
            del self.connectors[name]  # its offsets stay
            return 204, None
        return 200, self._info(name)

    def _of_connector(
        self, method: str, name: str, what: str, query: str, body: bytes
    ) -> tuple[int, Any]:
        since = {"stop": (3, 5), "offsets": (3, 5) if method == "GET" else (3, 6)}
        if self._version() < since.get(what, (0, 0)):
            raise (
                Refuse(405, "HTTP 405 Method Not Allowed")
                if self._version() == (3, 5)
                else (Refuse(404, ROUTE))
            )
        built = self._known(name)
        match (method, what):
            case ("GET", "status"):
                return 200, self._status(name)
            case ("GET", "config"):
                return 200, built.config
            case ("GET", "tasks"):
                return 200, [
                    {"id": {"connector": name, "task": task}, "config": built.task_config}
                    for task in range(built.tasks)
                ]
            case ("GET", "offsets"):
                return 200, {
                    "offsets": [
                        {"partition": json.loads(partition), "offset": offset}
                        for partition, offset in self.offsets.get(name, {}).items()
                    ]
                }
            case ("PUT", "stop"):
                built.lingering = self.linger if built.tasks else 0
                built.state, built.tasks = "STOPPED", 0
                return 204, None
            case ("PUT", "pause"):
                built.state = "PAUSED"
                return 202, None
            case ("PUT", "resume"):
                built.state, built.tasks = "RUNNING", built.tasks or built.tasks_max
                return 202, None
            case ("POST", "restart"):
                return (202, self._status(name)) if "true" in query else (204, None)
            case ("PATCH", "offsets"):
                return 200, {"message": self._alter(name, built, _json(body))}
            case ("DELETE", "offsets"):
                self._stopped(name, built)
                self.offsets[name] = {}
                return 200, {"message": RESET}
        raise Refuse(405, "HTTP 405 Method Not Allowed")

    # --- what it does ----------------------------------------------------------------------------

    def _create(self, request: dict[str, Any]) -> tuple[int, Any]:
        name, initial = request["name"], request.get("initial_state")
        if initial is not None and self._version() < (3, 7):
            raise Refuse(500, 'Unrecognized field "initial_state" (class CreateConnectorRequest)')
        if name in self.connectors:
            raise Refuse(409, f"Connector {name} already exists")
        config = {key: _config_text(value) for key, value in request["config"].items()}
        state = (initial or "RUNNING").upper()
        kind = "sink" if "topics" in config else "source"
        self.connectors[name] = CreatedConnector(
            config={**config, "name": name},
            kind=kind,
            state=state,
            tasks=0 if state == "STOPPED" else 1,
        )
        self.offsets.setdefault(name, {})
        return 201, self._info(name)

    def _alter(self, name: str, built: CreatedConnector, request: Any) -> str:
        entries = request.get("offsets") if isinstance(request, dict) else None
        if not entries:
            raise Refuse(
                400, "Partitions / offsets need to be provided for an alter offsets request"
            )
        self._stopped(name, built)
        for entry in entries:
            words = self.validate(entry.get("partition"), entry.get("offset"))
            if words is not None:
                raise Refuse(500, words)
        refused = False
        for entry in entries:
            partition, offset = entry["partition"], entry.get("offset")
            if built.kind == "sink" and not self._there(partition):
                refused = True
                continue
            if offset is None:
                self.offsets[name].pop(_text(partition), None)
            else:
                self.offsets[name][_text(partition)] = offset
        if refused:
            raise Refuse(500, f"Failed to alter consumer group offsets for connector {name}")
        return ALTERED if self.vouches else POSSIBLE

    def _there(self, partition: dict[str, Any]) -> bool:
        return partition["kafka_partition"] in range(self.topics.get(partition["kafka_topic"], 0))

    def _stopped(self, name: str, built: CreatedConnector) -> None:
        if built.state != "STOPPED" or built.tasks:
            raise Refuse(400, NOT_STOPPED.format(name))
        if built.kind == "sink" and built.lingering:
            built.lingering -= 1
            raise Refuse(500, ZOMBIES.format(name))

    def _known(self, name: str) -> CreatedConnector:
        if name not in self.connectors:
            raise Refuse(404, f"Connector {name} not found")
        return self.connectors[name]

    def _version(self) -> tuple[int, int]:
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    def _info(self, name: str) -> dict[str, Any]:
        built = self.connectors[name]
        return {
            "name": name,
            "config": built.config,
            "tasks": [{"connector": name, "task": task} for task in range(built.tasks)],
            "type": built.kind,
        }

    def _status(self, name: str) -> dict[str, Any]:
        built = self.connectors[name]
        tasks = built.tasks
        if built.state == "STOPPED" and built.lingering:
            built.lingering -= 1
            tasks = built.tasks_max
        state = "FAILED" if built.failing and built.state == "RUNNING" else built.state
        return {
            "name": name,
            "connector": {"state": built.state, "worker_id": "w:8083"},
            "tasks": [
                {"id": task, "state": "RUNNING" if built.state == "STOPPED" else state}
                for task in range(tasks)
            ],
            "type": built.kind,
        }


@contextmanager
def serving(**world: Any) -> Iterator[Connect]:
    """A fake on a port of its own."""
    connect = Connect(**world)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            answer = connect.answer(self.command, self.path, self.rfile.read(length))
            self.close_connection = True
            if answer is None:
                return
            self.send_response(answer[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - their name for it

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    connect.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield connect
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@dataclass(frozen=True)
class MemoryTransport:
    """The same answers without a socket, which is nine tenths of what a request costs here."""

    connect: Connect

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        answer = self.connect.answer(method, path, body or b"")
        if answer is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return answer


def _error(status: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": status, "message": message}).encode()


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _text(partition: Any) -> str:
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def _config_text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else json.dumps(value)
