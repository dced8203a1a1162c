"""A worker's REST API: routes, forwarding, and how long an answer is waited for.

Whoever waits gives up after 90 s; what was asked for goes on. Requests that only the leader may
carry out are forwarded by whoever gets them, at most twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.connect_model import bodies, configs, requests
from tests.fakes.connect_model.answers import (
    GONE_WHILE_FORWARDING,
    NO_LEADER,
    NOT_FORWARDED,
    ROUTE,
    STALE,
    TWO_HOPS,
    Callback,
    NotHere,
    RebalanceNeeded,
    Refusal,
    Reply,
    refused,
    said,
)
from tests.fakes.connect_model.configs import PAUSED, STARTED
from tests.fakes.connect_model.timeline import Steps

if TYPE_CHECKING:
    from tests.fakes.connect_model.worker import Worker

PATIENCE_S: Final = 90.0
HEALTH_PATIENCE_S: Final = 10.0
_NOT_ALLOWED: Final = "HTTP 405 Method Not Allowed"
_NAMES: Final = re.compile(r"[^/]+")


class WorkerRequest(NamedTuple):
    """A request as a worker gets it. `by` is who caused it, to be named by what comes of it."""

    method: str
    path: str
    body: bytes
    by: str


# How many hops a request may still take: one that comes from outside two, one that was forwarded
# for the last time none.
HOPS: Final = 2


def serve(worker: Worker, requested: WorkerRequest, hops: int = HOPS) -> Steps:
    """A thread of the worker's web server; the Reply."""
    yield worker.connect.timing.request_s
    if not worker.ready:
        return refused(404, ROUTE)
    try:
        return (yield from _Resource(worker, requested, hops).answer())
    except Refusal as exc:
        return refused(exc.status, exc.message)


class _Resource:
    def __init__(self, worker: Worker, requested: WorkerRequest, hops: int) -> None:
        self.worker, self.request, self.hops = worker, requested, hops
        self.connect = worker.connect

    def answer(self) -> Steps:
        parts = urlsplit(self.request.path)
        self.query = parse_qs(parts.query) if parts.query else {}
        names = [unquote(part) for part in _NAMES.findall(parts.path)]
        match names:
            case []:
                return (yield from self._root())
            case ["health"] if self.connect.version >= (3, 9):
                return (yield from self._health())
            case ["connector-plugins"]:
                return said(200, self.connect.plugin_list())
            case ["connectors"]:
                return (yield from self._connectors())
            case ["connectors", name]:
                return (yield from self._connector(name))
            case ["connectors", name, "tasks", number, "restart"] if number.isdigit():
                self._allow("POST")
                offset = int(number)
                yield from self._do(lambda: requests.restart_task(self.worker, name, offset))
                return said(204)
            case ["connectors", name, what]:
                return (yield from self._of_connector(name, what))
        raise Refusal(404, ROUTE)

    # --- waiting ---------------------------------------------------------------------------------

    def _here(self, action: Callable[[], Steps], callback: Callback | None = None) -> Steps:
        """Have the herder thread do it; its result. Raises Refusal."""
        callback = Callback() if callback is None else callback
        self.worker.add_request(action, callback)
        if not callback.has_outcome:
            yield (callback.done, PATIENCE_S)
        if not callback.has_outcome:
            raise Refusal(500, self._timed_out())
        if callback.error is not None:
            raise callback.error
        return callback.result

    def _do(self, action: Callable[[], Steps], callback: Callback | None = None) -> Steps:
        """The same, by another worker where this one cannot: then the answer is that one's."""
        try:
            return (yield from self._here(action, callback))
        except RebalanceNeeded:
            raise Refusal(409, STALE) from None
        except NotHere as exc:
            raise _Forwarded((yield from self._forwarded(exc.owner))) from None

    def _forwarded(self, worker: Worker | None) -> Steps:
        if self.hops == 0:
            raise Refusal(409, TWO_HOPS)
        if worker is None:
            raise Refusal(409, NO_LEADER)
        yield self.connect.timing.hop_s
        if not worker.alive:
            raise Refusal(500, NOT_FORWARDED)
        there = worker.spawn(serve(worker, self.request, self.hops - 1), "forwarded request")
        yield there.ended
        if there.result is None:
            raise Refusal(500, GONE_WHILE_FORWARDING)
        return there.result

    def _timed_out(self) -> str:
        if self.connect.version < (3, 9):
            return "Request timed out"
        what, began, ended = self.worker.stage
        if ended is None:
            return (
                f"Request timed out. The worker is currently {what}, which began at {_iso(began)}."
            )
        return (
            f"Request timed out. The last operation the worker completed was {what}, which began "
            f"at {_iso(began)} and completed at {_iso(ended)}."
        )

    # --- resources -------------------------------------------------------------------------------

    def _root(self) -> Steps:
        yield from ()
        return said(
            200,
            {
                "version": self.connect.version_text,
                "commit": "26b251a451ce941d",
                "kafka_cluster_id": self.connect.broker.cluster_id,
            },
        )

    def _health(self) -> Steps:
        callback = Callback()

        def nothing() -> Steps:
            yield from ()
            return ()

        self.worker.add_request(nothing, callback)
        yield (callback.done, HEALTH_PATIENCE_S)
        if callback.has_outcome:
            words = "Worker has completed startup and is ready to handle requests."
            return said(200, {"status": "healthy", "message": words})
        words = "Worker was unable to handle this request and may be unable to handle other ones."
        return said(500, {"status": "unhealthy", "message": words})

    def _connectors(self) -> Steps:
        self._allow("GET", "POST")
        if self.request.method == "POST":
            return (yield from self._create())
        known = self.worker.state.configs
        expected = self.query.get("expand", [])
        if not expected:
            return said(200, sorted(known))
        rows: dict[str, Any] = {}
        for name in sorted(known):
            entry: dict[str, Any] = {}
            if "status" in expected:
                if name not in self.connect.statuses:
                    continue  # created a moment ago
                entry["status"] = self.connect.status_of(name)
            if "info" in expected:
                entry["info"] = requests.info_of(self.worker, name, known[name])
            rows[name] = entry
        return said(200, rows)

    def _create(self) -> Steps:
        if self.connect.version < (3, 7) and b'"initial_state"' in self.request.body:
            raise Refusal(500, 'Unrecognized field "initial_state" (class CreateConnectorRequest)')
        name, inputs, state = bodies.creation_of(self.request.body)
        config = self._config(name, inputs)
        by = self.request.by
        try:
            _, info = yield from self._do(
                lambda: requests.put_config(self.worker, name, config, state, by, replace=False)
            )
        except _Forwarded as exc:
            return exc.reply
        return said(201, info)._replace(location=f"/connectors/{name}")

    def _connector(self, name: str) -> Steps:
        self._allow("GET", "DELETE")
        if self.request.method == "GET":
            return said(
                200, (yield from self._here(lambda: requests.read_config(self.worker, name)))
            )
        by = self.request.by
        return (yield from self._empty(204, lambda: requests.delete(self.worker, name, by)))

    def _of_connector(self, name: str, what: str) -> Steps:
        match what:
            case "status":
                self._allow("GET")
                return said(200, self.connect.status_of(name))
            case "tasks":
                self._allow("GET")
                return said(
                    200, (yield from self._here(lambda: requests.read_tasks(self.worker, name)))
                )
            case "config":
                return (yield from self._configuration(name))
            case "pause" | "resume":
                self._allow("PUT")
                return (yield from self._target(name, PAUSED if what == "pause" else STARTED))
            case "restart":
                self._allow("POST")
                return (yield from self._restart(name))
            case "stop" if self.connect.version >= (3, 5):
                self._allow("PUT")
                by = self.request.by
                return (yield from self._empty(204, lambda: requests.stop(self.worker, name, by)))
            case "offsets" if self.connect.version >= (3, 5):
                return (yield from self._offsets(name))
        raise Refusal(404, ROUTE)

    def _configuration(self, name: str) -> Steps:
        self._allow("GET", "PUT")
        if self.request.method == "GET":
            result = yield from self._here(lambda: requests.read_config(self.worker, name))
            return said(200, result["config"])
        config = self._config(name, bodies.config_of(self.request.body))
        by = self.request.by
        try:
            created, info = yield from self._do(
                lambda: requests.put_config(self.worker, name, config, None, by, replace=True)
            )
        except _Forwarded as exc:
            return exc.reply
        return said(201 if created else 200, info)

    def _config(self, name: str, inputs: dict[str, Any]) -> dict[str, str]:
        named = inputs.get("name", name)
        if named != name:
            raise Refusal(
                400,
                f"Connector name configuration ({named}) doesn't match connector name in the URL "
                f"({name})",
            )
        texts = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in inputs.items()
        }
        return {**texts, "name": name}

    def _target(self, name: str, state: str) -> Steps:
        """Any worker writes it, and nobody's thread is waited for: it may overtake a stop."""
        if name not in self.worker.store.configs:
            raise Refusal(404, f"Unknown connector {name}")
        record = configs.of_target(name, state)
        yield from self.worker.write([record], self.request.by, read_back=False)
        return said(202)

    def _restart(self, name: str) -> Steps:
        tasks, failed = (
            self.query.get(flag, ["false"])[0].lower() == "true"
            for flag in ("includeTasks", "onlyFailed")
        )
        if not (tasks or failed):
            return (
                yield from self._empty(204, lambda: requests.restart_connector(self.worker, name))
            )
        by = self.request.by
        try:
            plan = yield from self._do(
                lambda: requests.restart_all(
                    self.worker, name, by, include_tasks=tasks, only_failed=failed
                )
            )
        except _Forwarded as exc:
            return exc.reply
        return said(202, plan)

    def _offsets(self, name: str) -> Steps:
        callback = Callback()
        by = self.request.by
        if self.request.method == "GET":
            result = yield from self._here(
                lambda: requests.read_offsets(self.worker, name, callback), callback
            )
            return said(200, result)
        if self.connect.version < (3, 6):
            raise Refusal(405, _NOT_ALLOWED)
        self._allow("PATCH", "DELETE")
        expected = bodies.offsets_of(self.request.body) if self.request.method == "PATCH" else None
        try:
            result = yield from self._do(
                lambda: requests.modify_offsets(self.worker, name, expected, callback, by), callback
            )
        except _Forwarded as exc:
            return exc.reply
        return said(200, result)

    def _empty(self, status: int, action: Callable[[], Steps]) -> Steps:
        try:
            yield from self._do(action)
        except _Forwarded as exc:
            return exc.reply
        return said(status)

    def _allow(self, *methods: str) -> None:
        if self.request.method not in methods:
            raise Refusal(405, _NOT_ALLOWED)


class _Forwarded(Exception):
    """Another worker's answer, to be handed on as it is."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


def _iso(when: float) -> str:
    moment = datetime.fromtimestamp(when, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
