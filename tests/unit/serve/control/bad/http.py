"""How it is sent: 45 to 49."""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import httpx

from lab.cluster.certificates import Authority
from lab.http import NO_AUTHORITIES
from offsetwatch.serve.control.connection import ControlConnectionBounds
from offsetwatch.serve.http.read_listener import LoopHeartbeat, ReadServer
from offsetwatch.serve.metrics.families import ConfigReloadStatus
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.unit.serve.control.stage import Stage, payload, serving, token
from tests.waiting import DEADLINE_S, until

from .table import TAKEN, refused, row, status_of
from .tls import secured

HOLD_S = 0.5  # for what is not whole; a listener that bounds nothing would wait for ever


def get(host: str | None, *, version: str = "1.1", target: str = "/api/v1/plans") -> bytes:
    named = "" if host is None else f"Host: {host}\r\n"
    auth = f"Authorization: Bearer {token('operator')}\r\n"
    return f"GET {target} HTTP/{version}\r\n{named}{auth}\r\n".encode()


@row(45, "on loopback only loopback's own names are served")
def _(stage, _):
    port = stage.server.port
    for good in (f"127.0.0.1:{port}", "localhost", "LOCALHOST:1", "[::1]"):
        assert status_of(stage.raw(get(good))) == 200
    for bad in (
        "attacker.example.com",
        f"attacker.example.com:{port}",
        "127.0.0.1.attacker.example.com",
        "localhost.attacker.example.com",
        "127.0.0.2",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "localhost:80:80",
        "localhost/",
        "",
    ):
        yield status_of(stage.raw(get(bad)))
    yield status_of(stage.raw(get("localhost\r\nHost: attacker.example.com")))
    target = "http://attacker.example.com/api/v1/plans"
    yield status_of(stage.raw(get("localhost", target=target)))


@row(46, "no web page may ask, nor find out that it may")
def _(stage, _):
    origin = {"Origin": "https://attacker.example.com"}
    preflight = {**origin, "Access-Control-Request-Method": "POST"}
    yield refused(stage.call("OPTIONS", "/plans", None, **preflight))
    yield refused(stage.call("OPTIONS", "/plans", "operator", **preflight))
    yield refused(stage.call("OPTIONS", "/plans", "operator"))
    yield refused(stage.call("GET", "/plans", "operator", **origin))
    yield refused(stage.call("GET", "/plans", "operator", Origin="null"))
    yield refused(
        stage.call("POST", "/unpause", "operator", b"because=x", Content_Type="text/plain")
    )
    form = "application/x-www-form-urlencoded"
    yield refused(stage.call("POST", "/unpause", "operator", b"because=x", Content_Type=form))


@row(47, "who does not say whom it means is not heard")
def _(stage, _):
    yield status_of(stage.raw(get(None, version="1.0")))
    yield status_of(stage.raw(get(None)))
    yield status_of(stage.raw(b"GET /api/v1/plans\r\n\r\n"))
    yield status_of(stage.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
    yield status_of(stage.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    yield status_of(stage.raw(get("localhost").replace(b"GET ", b"CONNECT ")))
    yield status_of(stage.raw(get("localhost", target="/" + "x" * 20_000)))
    head = get("localhost")[:-2]
    yield status_of(stage.raw(head + b"X: " + b"x" * 20_000 + b"\r\n\r\n"))
    yield status_of(stage.raw(head + b"".join(b"X%d: x\r\n" % n for n in range(1000)) + b"\r\n"))


@row(47, "a method is the one that is sent, whatever a header says")
def _(stage, _):
    body = {"mode": "auto", "because": "x"}
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        answer = stage.call("POST", "/mode", "operator", body, **{name: "PUT"})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, PUT")
        yield refused(answer)
        assert stage.call("GET", "/mode", "operator", **{name: "PUT"}).json()["mode"] == "observe"
    yield refused(stage.call("POST", "/mode?_method=PUT", "operator", body))
    for method in ("HEAD", "DELETE", "PATCH", "TRACE", "BREW"):
        answer = stage.call(method, "/plans", "operator")
        assert answer.status_code == (400 if method == "BREW" else 405)
        yield answer.status_code
    yield refused(stage.call("GET", "/hooks/alertmanager", "hook"))


def connections(stage: Stage, count: int, stack: ExitStack) -> list[socket.socket]:
    results = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", stage.server.port), DEADLINE_S)
        results.append(stack.enter_context(connection))
    return results


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(DEADLINE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@row(48, "a hundred who never finish their request keep nobody out, and are cut off")
def _(_stage, _):
    body = f"Authorization: Bearer {token('hook')}\r\nContent-Type: application/json\r\n"
    starts = (
        b"",
        b"GET /api/v1/plans HTTP/1.1\r\nHost: localhost\r\nX: ",
        f"POST /api/v1/hooks/alertmanager HTTP/1.1\r\nHost: localhost\r\n{body}"
        "Content-Length: 100\r\n\r\n{".encode(),
        b"\r\n",
    )
    with serving(bounds=ControlConnectionBounds(request_s=HOLD_S)) as stage, ExitStack() as stack:
        slow = connections(stage, 100, stack)
        for number, connection in enumerate(slow):
            connection.sendall(starts[number % len(starts)])
        assert stage.call("GET", "/plans", "viewer").status_code == 200
        assert all(is_closed(connection) for connection in slow)
        return [TAKEN if stage.hook().status_code == TAKEN else 500]


@row(48, "who never ends the handshake of TLS is cut off")
def _(_stage, folder):
    configured = secured(folder, Authority(folder / "ours"))
    with (
        serving(configured, ControlConnectionBounds(handshake_s=HOLD_S)) as stage,
        ExitStack() as stack,
    ):
        slow = connections(stage, 20, stack)
        slow[0].sendall(b"\x16\x03\x01\x02")
        assert all(is_closed(connection) for connection in slow)
        until(lambda: stage.counted("handshake", "refused") == 20, "all were counted")
        return [None]


@row(48, "more connections than the bound are closed unread, and when others end there is room")
def _(_stage, _):
    with (
        serving(bounds=ControlConnectionBounds(connections_max=10, request_s=HOLD_S)) as stage,
        ExitStack() as stack,
    ):
        slow = connections(stage, 30, stack)
        assert all(is_closed(connection) for connection in slow)
        until(lambda: stage.counted("overload", "refused") >= 1, "a refusal was counted")
        return [TAKEN if stage.hook().status_code == TAKEN else 500]


@row(48, "who does not take the answer is cut off")
def _(_stage, _):
    with serving(bounds=ControlConnectionBounds(answer_s=HOLD_S)) as stage, ExitStack() as stack:
        stage.with_plan()
        stage.desk.rows = {f"p{n}": stage.desk.rows["p1"] for n in range(60_000)}
        requests: list[str] = []
        stage.desk.before = requests.append
        (deaf,) = connections(stage, 1, stack)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(get("localhost"))
        until(lambda: requests, "it is asked")
        until(lambda: not stage.server._accepting.open, "nobody is connected any more")
        return [None]


@row(49, "while thousands of requests come in, metrics are answered")
def _(stage, _):
    done: Future[tuple[str, ...]] = Future()
    read = ReadServer(
        "127.0.0.1:0",
        lambda: EMPTY_SNAPSHOT,
        LoopHeartbeat(lambda: True),
        reload=lambda: done,
        reloaded=lambda: ConfigReloadStatus(successful=True, at=0.0),
    )
    read.start()
    wrong = {"Authorization": "Bearer x"}
    try:
        with ThreadPoolExecutor(16) as pool:
            flood = [pool.submit(stage.call, "GET", "/plans", None, **wrong) for _ in range(1000)]
            flood += [pool.submit(stage.hook, payload()) for _ in range(200)]
            scrapes = 0
            while not all(future.done() for future in flood):
                response = httpx.get(
                    f"http://127.0.0.1:{read.port}/metrics",
                    timeout=DEADLINE_S,
                    verify=NO_AUTHORITIES,
                )
                assert response.status_code == 200
                scrapes += 1
        assert scrapes
        answers = [future.result() for future in flood]
    finally:
        read.stop()
    assert {answer.status_code for answer in answers[:1000]} == {401, 429}
    stage.desk.hints.clear()
    return [refused(answer) for answer in answers]
