"""Answers of a Connect cluster's REST API in virtual time, and of whatever stands before it.

`Proxy` answers as the workers do, until a fault is set: then as a proxy, a login page, another
Connect cluster or a broken network would. `Reader` asks it with the product's own client.
"""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import httpx

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.decode.java.hash_map import build_connect_key

if TYPE_CHECKING:
    from tests.scenarios.connect import ScenarioConnect

CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
OTHER_ID: Final = "ZZZZZZZZTWuDn1WB1ueCVQ"
_LOGIN: Final = b"<!doctype html><html><body><form>Sign in</form></body></html>"
_BOMB_BYTES: Final = 8 * 1024 * 1024
_AMBIGUOUS: Final = ("/", "\\", "%", "\x7f")  # Jetty 12 refuses a path that holds these encoded
_EXPANDED: Final = "/connectors?expand=status&expand=info"

Answer = tuple[int, dict[str, str], bytes]


def _subclasses(kind: type[BaseException]) -> list[type[BaseException]]:
    return [
        kind,
        *(deeper for subclasse in kind.__subclasses__() for deeper in _subclasses(subclasse)),
    ]


def _errors() -> dict[str, Callable[[], BaseException]]:
    """Return what makes each exception that an HTTP exchange may end in, by its name."""
    results: dict[str, Callable[[], BaseException]] = {}
    for kind in _subclasses(httpx.TransportError):
        results[kind.__name__] = partial(kind, "it broke")
    for kind in (httpx.DecodingError, httpx.InvalidURL, httpx.TooManyRedirects):
        results[kind.__name__] = partial(kind, "it broke")
    for kind in (
        ConnectionResetError,
        BrokenPipeError,
        TimeoutError,
        OSError,
        ssl.SSLError,
        ssl.SSLZeroReturnError,
        ssl.SSLCertVerificationError,
        EOFError,
        ValueError,
        OverflowError,
        LookupError,
        RecursionError,
        RuntimeError,
        MemoryError,
    ):
        results[kind.__name__] = partial(kind, "it broke")
    results["UnicodeDecodeError"] = partial(UnicodeDecodeError, "utf-8", b"\xff", 0, 1, "it broke")
    results["ExceptionGroup"] = partial(ExceptionGroup, "it broke", [OSError(104, "reset")])
    return results


ERRORS: Final = _errors()


def _error(name: str) -> BaseException:
    return ERRORS[name]()


class _Body(httpx.AsyncByteStream):
    """Bytes as they came over the wire, in pieces; `broken` ends them in the middle."""

    def __init__(self, body: bytes, *, broken: bool = False) -> None:
        self._body = body
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for first in range(0, len(self._body), 65_536):
            yield self._body[first : first + 65_536]
        if self._broken:
            raise httpx.RemoteProtocolError("peer closed connection without a complete body")


@dataclass
class Proxy(httpx.AsyncBaseTransport):
    """The answers of one Connect cluster.

    fault     what is wrong with them: a word of FAULTS, with an argument after a colon
    wrong_for connectors that a fault of one entry concerns
    down      the error that every question raises
    """

    site: ScenarioConnect
    fault: str = ""
    wrong_for: frozenset[str] = frozenset()
    down: Callable[[], BaseException] | None = None
    request_counts: dict[str, int] = field(default_factory=dict)

    # --- as a transport of the product's client --------------------------------------------------

    @property
    def on_the_wire(self) -> bool:
        """Whether the fault lies in headers or encodings, which need a whole HTTP answer."""
        return self.fault.partition(":")[0] in _WIRE

    def exchange(
        self, _method: str, _url: str, path: str, _body: bytes | None, _timeout_s: float
    ) -> tuple[int, bytes]:
        status, _, body = self.answer(path)
        return status, body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        word, _, argument = self.fault.partition(":")
        status, headers, body = self.answer(path)
        if word in _WIRE:
            status, headers, body = _WIRE[word](status, headers, body, argument)
        return httpx.Response(status, headers=headers, stream=_Body(body, broken=word == "cut"))

    def answer(self, path: str) -> Answer:
        """Return (status, headers, body) before any fault of the wire. Raises what ends it."""
        self.request_counts[path] = self.request_counts.get(path, 0) + 1
        if self.down is not None:
            raise self.down()
        word, _, argument = self.fault.partition(":")
        if word == "raises":
            raise _error(argument)
        if word == "one_raises" and any(f"/{_quoted(name)}/" in path for name in self.wrong_for):
            raise _error(argument)
        status, body = self._sound(path)
        if word in _BODIES:
            status, body = _BODIES[word](self, path, status, body, argument)
        return status, {"Content-Type": "application/json"}, body

    # --- what the workers say --------------------------------------------------------------------

    def _sound(self, path: str) -> tuple[int, bytes]:
        cluster = self.site
        bare = path.partition("?")[0]
        if path == "/":
            return 200, _json({"version": "4.3.1", "commit": "0", "kafka_cluster_id": CLUSTER_ID})
        if path == _EXPANDED:
            return 200, cluster.rest()
        if path == "/connectors?expand=info":
            return 200, _json(
                {
                    name: {"info": connector.rest()["info"]}
                    for name, connector in cluster.connectors.items()
                }
            )
        if bare == "/connectors":
            return 200, _json(sorted(cluster.connectors))
        _, _, quoted, rest = [*bare.split("/", 3), ""][:4]
        name = unquote(quoted)
        if any(mark in name for mark in _AMBIGUOUS):
            return 400, b"<h1>Bad Message 400</h1><pre>reason: Ambiguous URI path separator</pre>"
        if name in {"", ".", ".."} or name not in cluster.connectors:
            return 404, _json({"error_code": 404, "message": f"Connector {name} not found"})
        if rest == "tasks":
            return 200, cluster.rest_tasks(name)
        if rest == "config":
            return 200, _json(cluster.connectors[name].rest()["info"]["config"])
        if rest == "offsets":
            return 200, _json({"offsets": rest_offsets(cluster, name)})
        if rest == "status" and name in cluster.without_status:
            message = f"No status found for connector {name}"
            return 404, _json({"error_code": 404, "message": message})
        if rest == "status":
            return 200, _json(cluster.connectors[name].rest()["status"])
        return 200, _json(cluster.connectors[name].rest()["info"])


def _json(of: Any) -> bytes:
    return json.dumps(of).encode()


def _quoted(name: str) -> str:
    return httpx.URL("http://x/").copy_with(path=f"/{name}").raw_path.decode()[1:]


def rest_offsets(cluster: ScenarioConnect, connector: str) -> list[dict[str, Any]]:
    """Return what Connect finds of a connector: each partition, looked up as a HashMap of it."""
    group = getattr(cluster.connectors[connector], "group", None)
    if group is not None:
        return [
            {
                "partition": {"kafka_topic": location.topic, "kafka_partition": location.partition},
                "offset": {"kafka_offset": offset},
            }
            for location, offset in sorted(group.items())
        ]
    newest: dict[bytes, bytes | None] = {}
    for record in cluster.offsets_topic(connector).records:
        key, value = record.key(), record.value()
        assert isinstance(key, bytes)
        newest[key] = value if isinstance(value, bytes) else None
    results: dict[str, dict[str, Any]] = {}
    for key, value in newest.items():
        name, partition = json.loads(key)
        if name != connector or value is None:
            continue
        offset = newest.get(build_connect_key(connector, partition) or b"")
        results[json.dumps(partition, sort_keys=True)] = {
            "partition": partition,
            "offset": None if offset is None else json.loads(offset),
        }
    return list(results.values())


# --- faults of the body --------------------------------------------------------------------------


def _of_list(path: str) -> bool:
    return path.startswith("/connectors?")


def _empty(_: Proxy, path: str, status: int, body: bytes, __: str) -> tuple[int, bytes]:
    return (200, b"{}") if _of_list(path) else (status, body)


def _lists_nothing(_: Proxy, path: str, status: int, body: bytes, __: str) -> tuple[int, bytes]:
    """Another Connect cluster of the same Kafka cluster, or a config topic that was made anew."""
    if path == "/":
        return status, body
    if path.partition("?")[0] == "/connectors":
        return 200, b"{}" if _of_list(path) else b"[]"
    return 404, _json({"error_code": 404, "message": "Connector c not found"})


def _omits(proxy: Proxy, path: str, status: int, body: bytes, _: str) -> tuple[int, bytes]:
    if not _of_list(path):
        return status, body
    listed = json.loads(body)
    return 200, _json({name: at for name, at in listed.items() if name not in proxy.wrong_for})


def _answer_alternately(
    proxy: Proxy, path: str, status: int, body: bytes, _: str
) -> tuple[int, bytes]:
    """Two Connect clusters of one Kafka cluster share an address and answer by turns."""
    if path.partition("?")[0] != "/connectors":
        return status, body
    listed, odd = json.loads(body), bool(sum(proxy.request_counts.values()) % 2)
    names = [name for name in listed if (name in proxy.wrong_for) is odd]
    return 200, _json({name: listed[name] for name in names} if _of_list(path) else names)


def _unlists(proxy: Proxy, path: str, status: int, body: bytes, _: str) -> tuple[int, bytes]:
    """Return what is said where a connector is in no list, and cannot be asked for."""
    if any(path.startswith(f"/connectors/{_quoted(name)}/") for name in proxy.wrong_for):
        return 404, _json({"error_code": 404, "message": "Connector c not found"})
    if path == "/connectors":
        return 200, _json([name for name in json.loads(body) if name not in proxy.wrong_for])
    return _omits(proxy, path, status, body, "")


def _answer_malformed_entry(
    proxy: Proxy, path: str, status: int, body: bytes, shape: str
) -> tuple[int, bytes]:
    if not _of_list(path):
        return status, body
    listed = json.loads(body)
    for name in proxy.wrong_for & listed.keys():
        entry = listed[name]
        match shape:
            case "no_status":
                del entry["status"]
            case "no_info":
                del entry["info"]
            case "no_class":
                entry["info"]["config"] = {}
            case "kind":
                entry["info"]["type"] = entry["status"]["type"] = "unknown"
            case "null":
                listed[name] = None
            case "list":
                listed[name] = [entry]
            case "state":
                entry["status"]["connector"]["state"] = 7
            case "tasks":
                entry["status"]["tasks"] = {"0": "RUNNING"}
            case "id":
                entry["status"]["tasks"] = [{"id": "zero", "state": None}]
            case _:
                entry["status"] = "RUNNING"
    return 200, _json(listed)


def _other(proxy: Proxy, path: str, _: int, __: bytes, names: str) -> tuple[int, bytes]:
    """Return what another Connect cluster says: some names are there as well, all paused."""
    worker = {"worker_id": "elsewhere:8083", "version": "4.3.1"}
    same = sorted(proxy.site.connectors)[:1] if names == "same_names" else []
    listed = {
        name: {
            "info": {
                "name": name,
                "config": {"connector.class": "org.example.Other", "name": name},
                "type": "source",
                "tasks": [],
            },
            "status": {
                "name": name,
                "type": "source",
                "connector": {"state": "PAUSED", **worker},
                "tasks": [{"id": 0, "state": "PAUSED", **worker}],
            },
        }
        for name in (*same, "of-another-team")
        if names != "none"
    }
    if path == "/":
        return 200, _json({"version": "4.3.1", "commit": "0", "kafka_cluster_id": OTHER_ID})
    if _of_list(path):
        return 200, _json(listed)
    if path == "/connectors":
        return 200, _json(sorted(listed))
    return 404, _json({"error_code": 404, "message": "Connector c not found"})


def _status(_: Proxy, __: str, ___: int, ____: bytes, argument: str) -> tuple[int, bytes]:
    return int(argument), _json({"error_code": int(argument), "message": "no"})


def _tasks_status(
    _: Proxy, path: str, status: int, body: bytes, argument: str
) -> tuple[int, bytes]:
    return (int(argument), b"") if path.endswith("/tasks") else (status, body)


def _offsets_status(
    proxy: Proxy, path: str, status: int, body: bytes, argument: str
) -> tuple[int, bytes]:
    concerns = any(path == f"/connectors/{_quoted(name)}/offsets" for name in proxy.wrong_for)
    return (int(argument), b"") if concerns else (status, body)


def _other_offsets(_: Proxy, path: str, status: int, body: bytes, __: str) -> tuple[int, bytes]:
    """What connectors of the same names have on another Connect cluster."""
    if not path.endswith("/offsets"):
        return status, body
    offsets = json.loads(body)["offsets"]
    return status, _json({"offsets": [{**item, "offset": {"position": 7}} for item in offsets]})


def _login(_: Proxy, __: str, ___: int, ____: bytes, _____: str) -> tuple[int, bytes]:
    return 200, _LOGIN


def _half(_: Proxy, __: str, status: int, body: bytes, ___: str) -> tuple[int, bytes]:
    return status, body[: len(body) // 2]


def _deep(_: Proxy, __: str, status: int, ___: bytes, argument: str) -> tuple[int, bytes]:
    return status, argument.encode() * 200_000


def _wide(_: Proxy, path: str, status: int, body: bytes, __: str) -> tuple[int, bytes]:
    return (status, b"[" + b"{}," * 400_000 + b"{}]") if _of_list(path) else (status, body)


_BODIES: Final[dict[str, Callable[[Proxy, str, int, bytes, str], tuple[int, bytes]]]] = {
    "empty": _empty,
    "lists_nothing": _lists_nothing,
    "omits": _omits,
    "by_turns": _answer_alternately,
    "unlists": _unlists,
    "odd_entry": _answer_malformed_entry,
    "other_cluster": _other,
    "status": _status,
    "tasks_status": _tasks_status,
    "offsets_status": _offsets_status,
    "other_offsets": _other_offsets,
    "login": _login,
    "half": _half,
    "deep": _deep,
    "wide": _wide,
}


# --- faults of the wire --------------------------------------------------------------------------


def _zipped(status: int, headers: dict[str, str], body: bytes, times: str) -> Answer:
    for _ in range(int(times)):
        body = gzip.compress(body)
    return status, {**headers, "Content-Encoding": ", ".join(["gzip"] * int(times))}, body


def _bomb(status: int, headers: dict[str, str], _: bytes, times: str) -> Answer:
    return _zipped(status, headers, b" " * _BOMB_BYTES, times)


def _not_zipped(status: int, headers: dict[str, str], body: bytes, encoding: str) -> Answer:
    return status, {**headers, "Content-Encoding": encoding}, body


def _header(status: int, headers: dict[str, str], body: bytes, header: str) -> Answer:
    name, _, value = header.partition("=")
    return status, {**headers, name: value}, body


def _cut(status: int, headers: dict[str, str], body: bytes, _: str) -> Answer:
    return status, {**headers, "Content-Length": str(len(body))}, body[: len(body) // 2]


def _redirect(_: int, headers: dict[str, str], __: bytes, status: str) -> Answer:
    return int(status), {**headers, "Location": "https://login.example.org/?from=connect"}, b""


def _throttle(_: int, headers: dict[str, str], __: bytes, after: str) -> Answer:
    return 429, {**headers, "Retry-After": after}, b""


_WIRE: Final[dict[str, Callable[[int, dict[str, str], bytes, str], Answer]]] = {
    "gzip": _zipped,
    "bomb": _bomb,
    "not_gzip": _not_zipped,
    "header": _header,
    "cut": _cut,
    "redirect": _redirect,
    "throttle": _throttle,
}
FAULTS: Final = frozenset({*_BODIES, *_WIRE, "raises", "one_raises"})


class Reader(ConnectReader):
    """The product's client over a proxy; whole HTTP answers only while headers are at fault."""

    def __init__(self, proxy: Proxy) -> None:
        name = proxy.site.name
        # Time is virtual: a real pause would take the length of a Retry-After.
        super().__init__(
            name, (f"http://{name}:8083",), 10.0, transport=proxy, pause=lambda _: None
        )
        self._proxy = proxy

    def _exchange(self, url: str, path: str) -> tuple[int, bytes]:
        self._transport = self._proxy if self._proxy.on_the_wire else _InMemory(self._proxy)
        return super()._exchange(url, path)


@dataclass
class _InMemory:
    """The same answers without a wire."""

    proxy: Proxy

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        return self.proxy.exchange(method, url, path, body, timeout_s)
