"""One POST: what counts as delivered, and what every other answer is called."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster.certificates import Authority
from lab.processes.ports import free_port
from offsetwatch.clients.http.auth import UnusableCredentials
from offsetwatch.clients.http.webhook import WebhookClient
from offsetwatch.config import Auth, Tls
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
    TargetUnreachable,
    TooManyRequests,
)
from tests.fakes.endpoint import Endpoint, endpoint
from tests.fakes.worker import ok, serving

SECRET = "hunter2"


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as built:
        yield built


def webhook(url: str, timeout_s: float = 10.0, **access) -> WebhookClient:
    return WebhookClient("on-call", lambda: f"{url}/{SECRET}", timeout_s, **access)


def error_of(to: WebhookClient) -> ClientError:
    with pytest.raises(ClientError) as caught:
        to.post(b"{}")
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert caught.value.target == "on-call"
    return caught.value


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_is_delivered(hook, status):
    hook.status = status
    webhook(hook.url).post(b'{"a":1}')
    assert [got.body for got in hook.got] == [{"a": 1}]
    assert hook.got[0].headers["User-Agent"].startswith("offsetwatch/")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (302, MalformedResponse),
        (400, RemoteRefusal),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, NotFound),
        (409, Conflict),
        (413, RemoteRefusal),
        (429, TooManyRequests),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_every_other_answer_has_its_error(hook, status, expected):
    hook.status = status
    assert type(error_of(webhook(hook.url))) is expected


def test_we_are_not_led_elsewhere_with_our_credentials(hook):
    hook.status = 307
    auth = Auth.model_validate({"bearer_token": SECRET})
    error_of(webhook(hook.url, auth=auth))
    assert [got.path for got in hook.got] == [f"/{SECRET}"]


def test_one_that_does_not_answer_is_given_up_in_time(hook):
    hook.go.clear()
    assert type(error_of(webhook(hook.url, timeout_s=0.5))) is ResponseTimeout


def test_one_that_hangs_up_may_have_taken_it():
    with serving(lambda *_: None) as worker:
        assert type(error_of(webhook(worker.url))) is IncompleteResponse


def test_an_answer_without_an_end_is_not_waited_for():
    def endless(connection, _head):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
        connection.sendall(b" " * 1024)
        worker.gone.wait(10)

    with serving(endless) as worker:
        webhook(worker.url).post(b"{}")


def test_one_that_is_not_there_took_nothing():
    assert type(error_of(webhook(f"http://127.0.0.1:{free_port()}"))) is TargetUnreachable


def test_an_address_that_cannot_be_read_is_unreachable_and_says_why():
    def unreadable() -> str:
        raise UnusableCredentials("url_file: it is empty")

    result = error_of(WebhookClient("on-call", unreadable, 1.0))
    assert type(result) is TargetUnreachable
    assert result.detail == "url_file: it is empty"


def test_a_password_is_sent_as_basic_authentication(hook):
    auth = Auth.model_validate({"username": "u", "password": SECRET})
    webhook(hook.url, auth=auth).post(b"{}")
    assert hook.got[0].headers["Authorization"] == "Basic dTpodW50ZXIy"


def test_an_endpoint_is_trusted_by_the_authority_that_is_named_and_no_other(tmp_path: Path):
    authority = Authority(tmp_path)
    own = authority.issue("server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.cert, own.key)
    with serving(ok(b""), server) as worker:
        webhook(worker.url, tls=Tls.model_validate({"ca_file": authority.ca})).post(b"{}")
        result = error_of(webhook(worker.url))
    assert type(result) is TargetUnreachable
    assert "not trusted" in result.detail
