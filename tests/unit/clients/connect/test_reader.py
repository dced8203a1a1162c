"""What a worker may answer, and the error of ours that says what to do about it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from offsetwatch.clients.connect import reader as connect_read
from offsetwatch.clients.connect.reader import REBALANCE_MESSAGE, ConnectReader, read_worker_clock
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    Conflict,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
)
from tests.fakes.worker import ok, serving


def reader(handler: Callable[[httpx.Request], httpx.Response]) -> ConnectReader:
    return ConnectReader(
        "lab", ("http://worker:8083",), timeout_s=1.0, transport=httpx.MockTransport(handler)
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


@pytest.mark.parametrize(
    ("half", "expected"),
    [
        (rb"cut \ud83d", rb"cut \ufffd"),
        (rb"\ude00\ud83d", rb"\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00", rb"\ufffd\ud83d\ude00"),
        (rb"\\\ud83d\n\\ud83d", rb"\\\ufffd\n\\ud83d"),
    ],
)
def test_half_a_character_in_one_trace_takes_no_connector_with_it(half, expected):
    """Java cuts a message between the halves of an emoji, and Jackson escapes what is left."""
    body = b'{"a":{"status":{"trace":"%b"}},"b":{}}'
    assert answering(200, body % half).connectors() == body % expected


def test_connectors_come_with_status_and_info_in_one_request():
    requests = []
    reader(lambda request: requests.append(request) or httpx.Response(200, json={})).connectors()
    assert [(request.method, str(request.url)) for request in requests] == [
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
    requests = []
    reader(lambda request: requests.append(request) or httpx.Response(200, json={})).offsets(name)
    assert requests[0].url.raw_path.startswith(path)


def test_a_path_before_the_api_is_retained():
    requests = []
    connect = ConnectReader(
        "lab",
        ("http://proxy/connect-a/",),
        timeout_s=1.0,
        transport=httpx.MockTransport(
            lambda request: requests.append(request) or httpx.Response(200, json={})
        ),
    )
    connect.connectors()
    assert requests[0].url.path == "/connect-a/connectors"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectTimeout, ResponseTimeout),
        (httpx.ReadTimeout, ResponseTimeout),
        (httpx.PoolTimeout, ResponseTimeout),
        (httpx.ConnectError, TargetUnreachable),
        (httpx.UnsupportedProtocol, TargetUnreachable),
        (httpx.ReadError, IncompleteResponse),
        (httpx.RemoteProtocolError, IncompleteResponse),
        (httpx.DecodingError, MalformedResponse),
    ],
)
def test_every_way_in_which_a_connection_fails_has_its_error(error, expected):
    result = error_of(failing(error))
    assert type(result) is expected
    assert result.target == "lab"
    assert isinstance(result.__cause__, error)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (204, MalformedResponse),
        (302, MalformedResponse),
        (400, RemoteRefusal),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (405, RemoteRefusal),
        (409, Conflict),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_every_status_has_its_error(status, expected):
    error = error_of(answering(status, b'{"error_code":0,"message":"no"}'))
    assert type(error) is expected
    assert f"HTTP {status}" in error.detail


@pytest.mark.parametrize("message", [b'"\xff"', b"[" * 100_000], ids=["no UTF-8", "deep"])
def test_an_error_in_words_that_cannot_be_read_is_still_that_error(message):
    body = b'{"error_code":500,"message":' + message + b"}"
    assert type(error_of(answering(500, body))) is ServerError
    assert "HTTP 404" in error_of(answering(404, body)).detail


def test_a_rebalance_is_one_where_connect_calls_it_an_error_of_its_own():
    body = b'{"error_code":500,"message":"%s"}' % REBALANCE_MESSAGE.encode()
    assert type(error_of(answering(500, body))) is Conflict


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("https://connect.example.com/", "https://connect.example.com/"),
        ("https://u:secret@host:1/a?ticket=secret#x", "https://host:1/a"),
        ("/login?to=secret", "/login"),
    ],
)
def test_a_redirect_says_where_it_leads_to_without_what_may_be_secret(location, where):
    result = error_of(answering(308, Location=location))
    assert isinstance(result, MalformedResponse)
    assert f"HTTP 308: it redirects to {where}; url must name" in result.detail
    assert "secret" not in result.detail


def test_a_login_page_is_distinguished_from_broken_json():
    page = error_of(answering(200, "\n<!DOCTYPE html><title>Log in, secret</title>"))
    assert "HTTP 200 with an HTML page, as of a login or a proxy" in page.detail
    assert "secret" not in page.detail
    assert "not JSON" in error_of(answering(200, "{")).detail


def test_a_redirect_is_not_followed():
    requests = []

    def redirect(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(302, headers={"Location": "http://elsewhere/"})

    error_of(reader(redirect))
    assert len(requests) == 1


def test_an_errors_body_is_not_repeated_because_it_may_quote_a_configuration():
    error = error_of(answering(500, b'{"message":"sasl.jaas.config=hunter2 is invalid"}'))
    assert "hunter2" not in f"{error} {error.detail}"


def test_an_answer_over_the_bound_is_refused_while_it_is_read(monkeypatch):
    monkeypatch.setattr(connect_read, "BODY_BYTES_MAX", 1000)
    sent = []

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            sent.append(100)
            yield b"x" * 100

    error = error_of(reader(lambda _: httpx.Response(200, content=endless())))
    assert type(error) is SizeLimitExceeded
    assert sum(sent) <= 1200


def test_an_answer_of_the_bound_is_taken(monkeypatch):
    monkeypatch.setattr(connect_read, "BODY_BYTES_MAX", 1000)
    assert len(answering(200, b'"' + b"x" * 998 + b'"').connectors()) == 1000


def test_an_answer_cut_in_the_middle_is_cut_off_and_not_half_believed():
    async def half() -> AsyncIterator[bytes]:
        yield b'{"a":'
        raise httpx.RemoteProtocolError("peer closed connection")

    assert (
        type(error_of(reader(lambda _: httpx.Response(200, content=half())))) is IncompleteResponse
    )


async def chunks() -> AsyncIterator[bytes]:
    yield b"no gzip"


def test_an_answer_that_says_gzip_and_is_not_is_malformed():
    connect = reader(
        lambda _: httpx.Response(200, content=chunks(), headers={"Content-Encoding": "gzip"})
    )
    assert type(error_of(connect)) is MalformedResponse


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_one_whatever_is_wrong_with_its_body(status):
    broken = {"content": chunks(), "headers": {"Content-Encoding": "gzip"}}
    refused = error_of(reader(lambda _: httpx.Response(status, **broken)))
    assert type(refused) is AccessDenied
    assert refused.detail.endswith(f": HTTP {status}")


def test_a_proxy_of_the_environment_is_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(ok(b"{}")) as worker:
        assert ConnectReader("lab", (worker.url,), timeout_s=5.0).connectors() == b"{}"


def test_each_question_has_its_path():
    requests = []
    connect = reader(
        lambda request: requests.append(request.url.path) or httpx.Response(200, json=0)
    )
    connect.root()
    connect.tasks("a b")
    assert requests == ["/", "/connectors/a b/tasks"]


@pytest.mark.parametrize(
    "body", [b"", b"<html></html>", b'{"a":', b"{}{}", b"\xff", b"[" * 100_000]
)
def test_a_200_that_is_not_json_is_malformed(body):
    assert type(error_of(answering(200, body))) is MalformedResponse


def among(*answers: httpx.Response | type[httpx.RequestError]) -> tuple[ConnectReader, list[str]]:
    """A reader of workers w0, w1, … and the hosts it has asked so far."""
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.host)
        result = answers[int(request.url.host[1:])]
        if isinstance(result, httpx.Response):
            return result
        raise result("no luck", request=request)

    urls = tuple(f"http://w{number}:8083" for number in range(len(answers)))
    transport = httpx.MockTransport(answer)
    return ConnectReader("lab", urls, timeout_s=1.0, transport=transport), requests


NO_CONNECTOR = {"error_code": 404, "message": "Connector a not found"}
NO_ROUTE = {"error_code": 404, "message": "HTTP 404 Not Found"}


@pytest.mark.parametrize(
    "first",
    [
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.ReadTimeout,
        httpx.ReadError,
        httpx.Response(500, json={"error_code": 500, "message": "no"}),
        httpx.Response(503, content=b"starting"),
        httpx.Response(404, content=b"<html>Jetty</html>"),
        httpx.Response(404, json=NO_ROUTE),
        httpx.Response(200, content=b"<html>log in</html>"),
        httpx.Response(302, headers={"Location": "http://elsewhere/"}),
    ],
)
def test_where_a_worker_fails_the_next_is_queried_and_then_kept(first):
    connect, request = among(first, httpx.Response(200, json={}))
    assert connect.connectors() == connect.connectors() == b"{}"
    assert request == ["w0", "w1", "w1"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx.Response(401), AccessDenied),
        (httpx.Response(403), AccessDenied),
        (httpx.Response(409), Conflict),
        (httpx.Response(400), RemoteRefusal),
        (httpx.Response(404, json=NO_CONNECTOR), NotFound),
    ],
)
def test_an_answer_that_another_worker_would_repeat_is_final(answer, expected):
    connect, request = among(answer, httpx.Response(200, json={}))
    assert type(error_of(connect)) is expected
    assert request == ["w0"]


def test_the_worker_that_is_kept_fails_and_the_round_begins_there():
    connect, request = among(
        httpx.Response(200, json={}), httpx.Response(200, json={}), httpx.Response(500)
    )
    connect._current = 2
    assert connect.connectors() == b"{}"
    assert request == ["w2", "w0"]


def test_when_all_workers_fail_the_most_reporting_is_raised_and_each_ones_reason_is_reported():
    connect, _ = among(httpx.ConnectError, httpx.Response(500), httpx.ReadTimeout)
    result = error_of(connect)
    assert type(result) is ServerError
    assert result.detail == (
        "GET /connectors?expand=status&expand=info: http://w0:8083: no luck; "
        "http://w1:8083: HTTP 500; http://w2:8083: no whole answer within 1 s"
    )


def test_a_worker_that_says_no_is_reported_beside_those_that_failed_before():
    connect, request = among(httpx.ConnectError, httpx.Response(409), httpx.Response(200, json={}))
    result = error_of(connect)
    assert type(result) is Conflict
    assert "w0:8083: no luck; http://w1:8083: HTTP 409" in result.detail
    assert request == ["w0", "w1"]


# --- clock probe ---------------------------------------------------------------------------------


def transport_with(**headers: str) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(401, headers=headers))


def read_clock(transport: httpx.MockTransport) -> float | None:
    return read_worker_clock("http://worker:8083/", 1.0, transport=transport)


def test_even_a_refusal_reports_the_time():
    assert read_clock(transport_with(Date="Fri, 21 Nov 2025 08:00:00 GMT")) == 1_763_712_000.0


@pytest.mark.parametrize("headers", [{}, {"Date": "soon"}])
def test_a_worker_that_does_not_say_leaves_it_unknown(headers: dict[str, str]):
    assert read_clock(transport_with(**headers)) is None


def test_a_worker_that_does_not_answer_leaves_it_unknown():
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert read_clock(httpx.MockTransport(refuse)) is None
