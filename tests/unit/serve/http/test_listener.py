"""Clients of the read listener that take their time: each is bounded, and others are served."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from structlog.testing import capture_logs

from lab.http import NO_AUTHORITIES
from offsetwatch.serve.http import listener, read_listener
from offsetwatch.serve.metrics import exposition
from offsetwatch.serve.metrics.exposition import ChunkedBody
from tests.changed import replace
from tests.unit.serve.http.test_read_listener import World, samples, serving
from tests.unit.serve.worlds import full
from tests.waiting import DEADLINE_S, until

HOLD_S = 1.0  # a listener that bounds nothing would wait for ever
DRIP_S = 0.05
HEAD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(listener, "REQUEST_S", HOLD_S)
    monkeypatch.setattr(listener, "KEEP_ALIVE_S", HOLD_S)
    monkeypatch.setattr(listener, "LINGER_S", HOLD_S)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world, hurried):
    with serving(world) as client:
        yield client


def connect(client: httpx.Client) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", client.base_url.port), DEADLINE_S)
    connection.settimeout(DEADLINE_S)
    return connection


def rest(of: socket.socket) -> bytes:
    """What comes back until the other side closes; TimeoutError if it does not."""
    result = b""
    with suppress(ConnectionError):
        while part := of.recv(65536):
            result += part
    return result


def answers(client: httpx.Client) -> bool:
    """Over a connection of its own."""
    url = f"{client.base_url}/metrics"
    with suppress(httpx.TransportError):
        response = httpx.get(url, timeout=DEADLINE_S, trust_env=False, verify=NO_AUTHORITIES)
        return response.status_code == 200
    return False


@contextmanager
def dripping(into: socket.socket, part: bytes) -> Iterator[None]:
    """So that something comes all the time, and never the end of it."""
    ended = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            while not ended.wait(DRIP_S):
                into.sendall(part)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("first", "drop", "answered"),
    [
        (b"", b"", False),
        (b"", b"\r\n", False),
        (b"", b"G", False),
        (b"GET /", b"a", False),
        (HEAD + b"X: ", b"a", False),
        (HEAD, b"X: a\r\n", False),
        (HEAD + b"\r\n", b"", True),
        (HEAD + b"\r\n" + HEAD, b"X: a\r\n", True),
        (POST + b"Content-Length: 1000000\r\n\r\n", b"a", True),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", True),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"0", True),
    ],
    ids=[
        "nothing",
        "empty lines",
        "a method",
        "a path",
        "a header",
        "headers",
        "nothing after an answer",
        "headers after an answer",
        "a body",
        "chunks",
        "a chunk's size",
    ],
)
def test_who_never_ends_a_request_is_cut_off(client, first, drop, answered):
    with connect(client) as slow:
        slow.sendall(first)
        with dripping(slow, drop):
            assert rest(slow).startswith(b"HTTP/1.1 ") is answered


def test_while_many_are_slow_others_are_served(client):
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(client)).sendall(b"GET /")
        assert answers(client)


def test_when_every_connection_is_a_slow_one_there_is_room_again_in_time(client, monkeypatch):
    monkeypatch.setattr(read_listener, "CONNECTIONS_MAX", 10)
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connect(client)).sendall(b"GET /")
        until(lambda: answers(client), "a scrape is answered")


def test_who_does_not_take_the_answer_is_cut_off(client, world, monkeypatch):
    world.now = replace(full(), dropped=tuple((f"{n}".zfill(200), n) for n in range(60_000)))
    monkeypatch.setattr(read_listener, "CONNECTIONS_MAX", 1)
    with connect(client) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(HEAD + b"\r\n")
        until(lambda: world.requests, "it is asked")
        world.now = full()
        until(lambda: answers(client), "another one is answered")


def test_while_answers_are_not_taken_no_more_are_made(client, world, monkeypatch):
    monkeypatch.setattr(exposition, "UNTAKEN_BYTES_MAX", 1)
    world.now = replace(full(), dropped=tuple((f"{n}".zfill(200), n) for n in range(60_000)))
    with connect(client) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(HEAD + b"\r\n")
        until(lambda: world.requests, "it is asked")
        world.now = full()
        until(lambda: not answers(client), "others are refused")
        assert client.get("/-/healthy").status_code == 200
        until(lambda: answers(client), "it was cut off")
    refused = ("offsetwatch_read_refused_total", frozenset({("reason", "overload")}))
    assert samples(client.get("/metrics").text)[refused] >= 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_connection_that_rests_holds_no_answer(client, monkeypatch, method):
    built: list[ChunkedBody] = []
    answer = exposition.RenderCache.answer

    def noted(self, body, content_type):
        built.append(answer(self, body, content_type))
        return built[-1]

    monkeypatch.setattr(exposition.RenderCache, "answer", noted)
    assert client.request(method, "/metrics").status_code == 200
    until(lambda: not built[0]._body, "its bytes are gone")


def test_a_scrape_that_takes_us_longer_than_a_request_may_take_is_answered(
    client, world, monkeypatch
):
    """Cut off is who keeps us waiting, and not who waits for us."""
    snapshot = world.snapshot

    def slow() -> object:
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 2 * HOLD_S)
        return snapshot()

    world.snapshot = slow
    with serving(world) as other:
        until(lambda: answers(other), "it is answered")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"s3cret" * 4000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"X: " + b"s3cret" * 4000 + b"\r\n\r\n",
        HEAD + b"".join(b"X%d: s3cret\r\n" % n for n in range(1000)) + b"\r\n",
        HEAD + b"s3cret\r\n\r\n",
        HEAD + b"X: s3cret\x00\r\n\r\n",
        HEAD + b"Content-Length: s3cret\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\ns3cret",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfcs3cret",
    ],
    ids=[
        "a long path",
        "a long header",
        "a thousand headers",
        "no header",
        "a NUL",
        "a length that is none",
        "two lengths",
        "TLS",
    ],
)
def test_what_is_no_request_is_refused_and_not_quoted(client, caplog, head):
    caplog.set_level(0)
    with capture_logs() as events, connect(client) as odd:
        odd.sendall(head)
        result = rest(odd)
    assert result == b"" or result.splitlines()[0].endswith(b" 400 Bad Request")
    assert b"s3cret" not in result
    assert "s3cret" not in f"{events}{caplog.text}"
