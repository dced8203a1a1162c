"""What a worker may answer, and the error of ours that says what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from exporter.clients import connect_read
from exporter.clients.connect_read import ConnectReader
from exporter.errors import (
    ClientError,
    Conflict,
    CutOff,
    Denied,
    Malformed,
    NotFound,
    Refused,
    ServerError,
    TimedOut,
    Unreachable,
)


def reader(handler: Callable[[httpx.Request], httpx.Response]) -> ConnectReader:
    return ConnectReader(
        "lab", "http://worker:8083", timeout_s=1.0, transport=httpx.MockTransport(handler)
    )


def answering(status: int, body: bytes | str = b"", **headers: str) -> ConnectReader:
    return reader(lambda _: httpx.Response(status, content=body, headers=headers))


def failing(error: type[httpx.RequestError]) -> ConnectReader:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("no luck", request=request)

    return reader(fail)


def error_of(connect: ConnectReader) -> ClientError:
    with pytest.raises(ClientError) as caught:
        connect.connectors()
    return caught.value


def test_the_body_is_handed_on_as_it_came():
    assert answering(200, b'{"a":{}}').connectors() == b'{"a":{}}'


def test_connectors_come_with_status_and_info_in_one_request():
    asked = []
    reader(lambda request: asked.append(request) or httpx.Response(200)).connectors()
    assert [(at.method, str(at.url)) for at in asked] == [
        ("GET", "http://worker:8083/connectors?expand=status&expand=info")
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("files", b"/connectors/files/offsets"),
        ("east->west.MirrorSourceConnector", b"/connectors/east-%3Ewest.MirrorSourceConnector"),
        ("a/b ?#é", b"/connectors/a%2Fb%20%3F%23%C3%A9/offsets"),
    ],
)
def test_any_connector_name_is_one_segment_of_the_path(name, path):
    asked = []
    reader(lambda request: asked.append(request) or httpx.Response(200)).offsets(name)
    assert asked[0].url.raw_path.startswith(path)


def test_a_path_before_the_api_is_kept():
    asked = []
    connect = ConnectReader(
        "lab",
        "http://proxy/connect-a/",
        timeout_s=1.0,
        transport=httpx.MockTransport(lambda request: asked.append(request) or httpx.Response(200)),
    )
    connect.connectors()
    assert asked[0].url.path == "/connect-a/connectors"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectTimeout, TimedOut),
        (httpx.ReadTimeout, TimedOut),
        (httpx.PoolTimeout, TimedOut),
        (httpx.ConnectError, Unreachable),
        (httpx.UnsupportedProtocol, Unreachable),
        (httpx.ReadError, CutOff),
        (httpx.RemoteProtocolError, CutOff),
        (httpx.DecodingError, Malformed),
    ],
)
def test_every_way_in_which_a_connection_fails_has_its_error(error, expected):
    found = error_of(failing(error))
    assert type(found) is expected
    assert found.target == "lab"
    assert isinstance(found.__cause__, error)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (204, Malformed),
        (302, Malformed),
        (400, Refused),
        (401, Denied),
        (403, Denied),
        (404, NotFound),
        (405, Refused),
        (409, Conflict),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_every_status_has_its_error(status, expected):
    found = error_of(answering(status, b'{"error_code":0,"message":"no"}'))
    assert type(found) is expected
    assert f"HTTP {status}" in found.detail


def test_a_redirect_is_not_followed():
    asked = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(302, headers={"Location": "http://elsewhere/"})

    error_of(reader(redirect))
    assert len(asked) == 1


def test_an_errors_body_is_not_repeated_because_it_may_quote_a_configuration():
    found = error_of(answering(500, b'{"message":"sasl.jaas.config=hunter2 is invalid"}'))
    assert "hunter2" not in f"{found} {found.detail}"


def test_an_answer_over_the_bound_is_refused_while_it_is_read(monkeypatch):
    monkeypatch.setattr(connect_read, "BODY_BYTES_MAX", 1000)
    sent = []

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(100)
            yield b"x" * 100

    found = error_of(reader(lambda _: httpx.Response(200, content=endless())))
    assert type(found) is Malformed
    assert sum(sent) <= 1200


def test_an_answer_of_the_bound_is_taken(monkeypatch):
    monkeypatch.setattr(connect_read, "BODY_BYTES_MAX", 1000)
    assert len(answering(200, b"x" * 1000).connectors()) == 1000


def test_an_answer_cut_in_the_middle_is_cut_off_and_not_half_believed():
    def half() -> Iterator[bytes]:
        yield b'{"a":'
        raise httpx.RemoteProtocolError("peer closed connection")

    assert type(error_of(reader(lambda _: httpx.Response(200, content=half())))) is CutOff


def test_an_answer_that_says_gzip_and_is_not_is_malformed():
    connect = reader(
        lambda _: httpx.Response(
            200, content=iter([b"no gzip"]), headers={"Content-Encoding": "gzip"}
        )
    )
    assert type(error_of(connect)) is Malformed


def test_a_proxy_of_the_environment_is_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://attacker:1")
    connect = ConnectReader("lab", "http://worker:8083", timeout_s=1.0)
    assert not connect._client.trust_env
    connect.close()
