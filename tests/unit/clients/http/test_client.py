"""Every client that speaks HTTP, given the same odd answers."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

from offsetwatch.cli.remote.control_client import ControlClient, ControlEndpoint
from offsetwatch.cli.remote.read_client import ReadListener, fetch_document
from offsetwatch.clients.connect.offsets_sweep import ConnectSweep, OffsetsSweepListener
from offsetwatch.clients.connect.reader import ConnectReader, read_worker_clock
from offsetwatch.clients.http.exchange import build_connection_error
from offsetwatch.clients.http.webhook import WebhookClient
from offsetwatch.clients.kubernetes.access import KubernetesAccess, send_kubernetes_request
from offsetwatch.clients.write.connect import ConnectWriter
from offsetwatch.errors import ClientError, OffsetwatchError, TargetUnreachable
from offsetwatch.remedy.drivers.rest.driver import classify_offsets_reply, classify_request_reply
from offsetwatch.remedy.model.driver import AttemptResult
from tests.fakes.worker import ok, serving

SECRET = "hunter2"
PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><title>Log in, hunter2</title>"
Ask = Callable[[str], object]


def read(url: str) -> object:
    return ConnectReader("lab", (url,), 10.0).root()


def change(url: str) -> object:
    return ConnectWriter("lab", (url,)).send("PUT", "/connectors/a/stop")


def sweep(url: str) -> object:
    reports: list[tuple[str, bytes]] = []
    listener = OffsetsSweepListener(lambda _: True, reports.extend, lambda: False)
    for error in ConnectSweep("lab", (url,), 10.0).offsets(["a"], listener).values():
        raise error
    return reports


def notify(url: str) -> object:
    return WebhookClient("on-call", lambda: f"{url}/{SECRET}", 10.0).post(b"{}")


def kubernetes(url: str) -> object:
    return send_kubernetes_request(KubernetesAccess(url), "GET", "/api")


def control(url: str) -> object:
    asking = ControlClient(ControlEndpoint(url))
    try:
        return asking.get("/plans", dict)
    finally:
        asking.close()


def daemon(url: str) -> object:
    return fetch_document(ReadListener(None, url), "/api/v1/findings")


def probe(url: str) -> object:
    return read_worker_clock(url, 10.0)


READING = [read, sweep, kubernetes, control]
EVERY = [*READING, change, notify, probe]


def words(ask: Ask, url: str) -> str:
    """What is said of an answer, whoever says it."""
    try:
        answer = ask(url)
    except OffsetwatchError as exc:
        return str(exc)
    return classify_request_reply(answer, done=frozenset({202})).said


@pytest.mark.parametrize("ask", [read, sweep, kubernetes, control, change, notify])
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Keep", "308 Moved for good"])
def test_a_redirect_says_where_it_leads_without_what_may_be_secret(ask: Ask, status: str):
    location = (
        f"https://u:{SECRET}@login.example.org:8443/;jsessionid={SECRET}?to={SECRET}#{SECRET}"
    )
    with serving(ok(b"", status=f"{status}\r\nLocation: {location}")) as server:
        result = words(ask, server.url)
    assert f"HTTP {status[:3]}: it redirects to https://login.example.org:8443" in result
    assert SECRET not in result


def test_a_webhooks_redirect_keeps_the_path_to_itself():
    location = f"https://hooks.example.org/{SECRET}"
    with serving(ok(b"", status=f"308 Moved\r\nLocation: {location}")) as server:
        result = words(notify, server.url)
    assert result == "on-call: HTTP 308: it redirects to https://hooks.example.org"


@pytest.mark.parametrize("ask", [read, sweep, kubernetes, control, change, notify, daemon])
@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "403 Forbidden"])
def test_a_login_page_is_called_one(ask: Ask, status: str):
    expected = "an HTML page, as of a login or a proxy"
    with serving(ok(PAGE, kind="text/html; charset=utf-8", status=status)) as server:
        result = words(ask, server.url)
    assert expected in result
    assert SECRET not in result


def test_a_login_page_in_place_of_an_answer_acknowledges_no_change():
    with serving(ok(PAGE, kind="text/html")) as server:
        reply = ConnectWriter("lab", (server.url,)).send("PATCH", "/connectors/a/offsets")
    assert classify_offsets_reply(reply).answer is AttemptResult.IN_DOUBT


@pytest.mark.parametrize("body", [b"ok", b"<p>ok</p>", b""])
def test_a_short_answer_that_is_called_html_is_delivered(body: bytes):
    with serving(ok(body, kind="text/html")) as server:
        notify(server.url)


@pytest.mark.parametrize("ask", EVERY)
def test_a_cookie_is_not_even_parsed(ask: Ask, capfd: pytest.CaptureFixture[str]):
    cookie = f"a=b; expires=Thu, 01-Dec-{'9' * 5000} 00:00:00 GMT"
    with warnings.catch_warnings(), suppress(ClientError):
        warnings.simplefilter("error", UserWarning)  # of http.cookiejar
        with serving(ok(b"{}", status=f"200 OK\r\nSet-Cookie: {cookie}")) as server:
            ask(server.url)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("reason", "said", "advice"),
    [
        ("WRONG_VERSION_NUMBER", "the server does not speak TLS", "write http:// in place"),
        ("HTTP_REQUEST", "the server does not speak TLS", "write http:// in place"),
        ("NO_CIPHERS", "TLS failed: NO_CIPHERS", ""),
    ],
)
def test_tls_with_a_port_that_speaks_none_is_named(reason: str, said: str, advice: str) -> None:
    error = httpx.ConnectError("[SSL] (_ssl.c:1006)")
    error.__cause__ = ssl.SSLError(1, "x")
    error.__cause__.reason = reason
    found = build_connection_error("http://a:1", error)
    assert isinstance(found, TargetUnreachable)
    assert found.detail == said
    assert (found.advice or "").startswith(advice)


def test_a_port_that_is_no_http_server_is_named() -> None:
    error = httpx.RemoteProtocolError("Server disconnected without sending a response.")
    found = build_connection_error("http://a:1", error)
    assert "as a port without HTTP does" in found.detail
