"""Bodies of answers: bounded before they are decoded, at every client that speaks HTTP."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache

import httpx
import pytest

from offsetwatch.clients.connect.reader import BODY_BYTES_MAX, ConnectReader, read_worker_clock
from offsetwatch.clients.http.bodies import VALUES_MAX, has_too_many_values
from offsetwatch.clients.http.client import (
    BoundedBody,
    parse_retry_after_s,
    parse_server_time,
)
from offsetwatch.clients.kubernetes.access import KubernetesAccess, send_kubernetes_request
from offsetwatch.clients.write.connect import ConnectWriter
from offsetwatch.errors import ClientError, MalformedResponse, SizeLimitExceeded, TooManyRequests

MIB = 1024 * 1024
EMPTY = b"{}"
Ask = Callable[[httpx.MockTransport], object]


def read(transport: httpx.MockTransport) -> object:
    return ConnectReader("lab", ("http://worker",), 60.0, transport=transport).connectors()


def write(transport: httpx.MockTransport) -> object:
    return ConnectWriter("lab", ("http://worker",), transport=transport).send("PUT", "/x")


def kubernetes(transport: httpx.MockTransport) -> object:
    return send_kubernetes_request(KubernetesAccess("http://api"), "GET", "/x", transport=transport)


every_client = pytest.mark.parametrize("ask", [read, write, kubernetes])


def answering(body: bytes, coding: str | None = None, status: int = 200) -> httpx.MockTransport:
    headers = {} if coding is None else {"Content-Encoding": coding}

    async def parts():
        for first in range(0, len(body), 65536):
            yield body[first : first + 65536]

    return httpx.MockTransport(lambda _: httpx.Response(status, headers=headers, content=parts()))


@cache
def layered(layers: int) -> bytes:
    """Return 256 MiB of zeros, compressed so many times."""
    body = gzip.compress(bytes(256 * MIB), 1)
    for _ in range(layers - 1):
        body = gzip.compress(body)
    return body


@every_client
@pytest.mark.parametrize("status", [200, 404, 500, 302, 429])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_no_answer_is_decoded_beyond_its_bound(ask: Ask, status: int, layers: int):
    transport = answering(layered(layers), ", ".join(["gzip"] * layers), status)
    tracemalloc.start()
    try:
        # Of what is written only the status counts, and a beginning of the body.
        cut = ask is write and layers == 1
        with nullcontext() if cut else pytest.raises(ClientError):
            ask(transport)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * BODY_BYTES_MAX


@every_client
def test_identity_is_requested_and_one_layer_of_gzip_understood(ask: Ask):
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request.headers["Accept-Encoding"])
        zipped = gzip.compress(EMPTY)
        return httpx.Response(200, headers={"Content-Encoding": "GZIP"}, stream=Stream(zipped))

    ask(httpx.MockTransport(answer))
    assert requests == ["identity"]


class Stream(httpx.AsyncByteStream):
    """What httpx has not decoded yet."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self):
        yield self._body


@every_client
@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (zlib.compress(EMPTY), "deflate"),
        (EMPTY, "br"),
        (EMPTY, "gzip"),
        (gzip.compress(EMPTY)[:-9], "gzip"),
        (gzip.compress(EMPTY), "gzip, identity, gzip"),
    ],
    ids=["deflate", "brotli", "no gzip", "cut", "stacked"],
)
def test_what_is_encoded_otherwise_is_malformed(ask: Ask, body: bytes, coding: str):
    with pytest.raises(MalformedResponse):
        ask(answering(body, coding))


@pytest.mark.parametrize("ask", [read, kubernetes])
@pytest.mark.parametrize(
    "body", [b"[" + b"{}," * (BODY_BYTES_MAX // 3 - 10) + b"{}]", b"[" + b"0," * VALUES_MAX + b"0]"]
)
def test_what_would_be_decoded_into_too_many_objects_is_not(ask: Ask, body: bytes):
    with pytest.raises(SizeLimitExceeded):
        ask(answering(body))


def test_an_answer_as_wide_as_the_largest_cluster_is_read():
    assert not has_too_many_values(b"," * VALUES_MAX)
    assert has_too_many_values(b"," * VALUES_MAX + b"{")


def test_a_body_is_cut_one_byte_beyond_its_bound():
    for codings, body in ([], bytes(100)), (["gzip"], gzip.compress(bytes(100))):
        bounded = BoundedBody(codings, 10)
        bounded.add(body)
        assert bounded.is_full
        assert bounded.end() == bytes(11)


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 99999999999999999999 Jan 2026 00:00:00 GMT",
        "Mon, 01 Jan 2026 99999999999999999999:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "",
        ",",
        "\x00",
        "9" * 5000,
        "a" * 5000,
    ],
)
def test_a_date_that_is_none_is_no_error(date: str):
    assert parse_server_time(date) is None or isinstance(parse_server_time(date), float)
    assert parse_retry_after_s(date) is None or isinstance(parse_retry_after_s(date), float)

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Date": date}, content=b"{}")

    transport = httpx.MockTransport(answer)
    reader = ConnectReader("lab", ("http://worker",), 60.0, transport=transport)
    assert reader.connectors() == b"{}"
    assert reader.server_time == parse_server_time(date)
    assert read_worker_clock("http://worker", 5.0, transport=transport) == parse_server_time(date)


@pytest.mark.parametrize(
    ("after", "waited"), [("3", [3.0]), ("0", [0.0]), ("31", []), ("9" * 30, []), ("soon", [])]
)
def test_a_retry_after_is_waited_for_if_it_is_short(after: str, waited: list[float]):
    waits: list[float] = []
    throttled = httpx.Response(429, headers={"Retry-After": after})
    answers = [throttled, httpx.Response(200, content=b"{}")]
    reader = ConnectReader(
        "lab",
        ("http://worker",),
        30.0,
        transport=httpx.MockTransport(lambda _: answers.pop(0)),
        pause=waits.append,
    )
    if waited:
        assert reader.connectors() == b"{}"
    else:
        with pytest.raises(TooManyRequests):
            reader.connectors()
    assert waits == waited
