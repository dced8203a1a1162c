"""The reader against sockets that misbehave, and against TLS that asks for a certificate."""

from __future__ import annotations

import base64
import gc
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from lab.cluster.certificates import Authority, Certificate
from lab.processes.ports import free_port
from offsetwatch.clients.connect.offsets_sweep import ConnectSweep
from offsetwatch.clients.connect.reader import BODY_BYTES_MAX, ConnectReader
from offsetwatch.clients.write.connect import TIMEOUT_S, ConnectReply, ConnectWriter
from offsetwatch.config import Auth, Tls
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    Conflict,
    IncompleteResponse,
    MalformedResponse,
    ResponseTimeout,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
)
from offsetwatch.ingest.connect_rest import ConnectorsPoll, poll_connectors, poll_rest_offsets
from offsetwatch.model.observations import InputFailed
from tests.fakes.clock import VirtualClock
from tests.fakes.swept import swept
from tests.fakes.worker import Worker, ok, serving

SECRET = "hunter2"


def reader(*urls: str, timeout_s: float = 10.0, **access: Any) -> ConnectReader:
    return ConnectReader("lab", urls, timeout_s, **access)


def error_of(connect: ConnectReader) -> ClientError:
    with pytest.raises(ClientError) as caught:
        connect.connectors()
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    return caught.value


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ok(b"<html>welcome</html>", kind="text/html"), MalformedResponse),
        (ok(b'{"error_code":500,"message":"hunter2"}', status="500 Server Error"), ServerError),
        (ok(b'{"error_code":409,"message":"rebalance"}', status="409 Conflict"), Conflict),
        (ok(b"User cannot access the resource.", status="401 Unauthorized"), AccessDenied),
        (lambda connection, _: connection.sendall(b"SSH-2.0-hunter\r\n\r\n"), IncompleteResponse),
        (lambda connection, _: None, IncompleteResponse),
        (
            lambda connection, _: connection.sendall(
                b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"a":'
            ),
            IncompleteResponse,
        ),
        (
            lambda connection, _: connection.sendall(
                b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n'
            ),
            IncompleteResponse,
        ),
    ],
)
def test_every_answer_that_is_no_answer_has_its_error(answer, expected):
    with serving(answer) as worker:
        assert type(error_of(reader(worker.url))) is expected


def test_fifty_mebibytes_are_not_held():
    sent = []

    def large(connection: socket.socket, _head: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n")
        for _ in range(50):
            connection.sendall(b" " * 1024 * 1024)
            sent.append(1)

    with serving(large) as worker:
        assert type(error_of(reader(worker.url))) is SizeLimitExceeded
    assert BODY_BYTES_MAX // 1024**2 <= len(sent) < 50


@pytest.mark.parametrize("head", [b"", b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"a":"'])
def test_an_answer_that_drips_is_given_up_in_time_wherever_it_drips(head):
    worker: Worker

    def drip(connection: socket.socket, _head: str) -> None:
        connection.sendall(head)
        for byte in chain(b"HTTP/1.1 200 OK\r\nX: ", repeat(120)):
            connection.sendall(bytes([byte]))
            if worker.gone.wait(0.05):
                return

    with serving(drip) as worker:
        result = error_of(reader(worker.url, timeout_s=0.5))
    assert type(result) is ResponseTimeout
    assert result.detail.endswith("no whole answer within 0.5 s")


def test_a_worker_that_hangs_costs_its_time_and_the_next_one_answers():
    def hang(connection: socket.socket, _head: str) -> None:
        worker.gone.wait(30)

    with serving(hang) as worker, serving(ok(b"{}")) as other:
        connect = reader(worker.url, other.url, timeout_s=1.0)
        assert connect.connectors() == connect.connectors() == b"{}"
        assert (len(worker.heads), len(other.heads)) == (1, 2)


def test_a_closed_port_is_unreachable_with_the_reason():
    port = free_port()
    for host in ("127.0.0.1", "localhost"):
        result = error_of(reader(f"http://{host}:{port}"))
        assert type(result) is TargetUnreachable
        assert result.detail.endswith("Connection refused")


def test_an_unknown_host_name_is_unreachable_with_the_reason():
    result = error_of(reader("http://nobody.invalid:8083"))
    assert type(result) is TargetUnreachable
    assert "its host name cannot be resolved" in result.detail


# --- who we are ----------------------------------------------------------------------------------


def header(worker: Worker) -> str | None:
    lines = worker.heads[-1].splitlines()
    results = [line for line in lines if line.lower().startswith("authorization:")]
    return results[0].partition(": ")[2] if results else None


def auth(**fields: Any) -> Auth:
    return Auth.model_validate(fields)


def test_without_auth_nothing_is_said():
    with serving(ok(b"{}")) as worker:
        reader(worker.url).connectors()
        assert header(worker) is None


def test_basic_is_the_username_and_the_password():
    with serving(ok(b"{}")) as worker:
        reader(worker.url, auth=auth(username="me", password="pä:ss")).connectors()
        assert header(worker) == "Basic " + base64.b64encode("me:pä:ss".encode()).decode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"bearer_token_file": "token"}, "Bearer {}"),
        ({"username": "me", "password_file": "token"}, "Basic me:{}"),
    ],
)
def test_a_secret_of_a_file_that_is_replaced_is_the_new_one(tmp_path: Path, fields, expected):
    path = tmp_path / "token"
    path.write_text("one\n")
    who = Auth.model_validate(fields, context={"folder": tmp_path})
    with serving(ok(b"{}")) as worker:
        connect = reader(worker.url, auth=who)
        for secret in ("one", "two"):
            path.write_text(f"{secret}\n")
            connect.connectors()
            kind, _, value = str(header(worker)).partition(" ")
            if kind == "Basic":
                value = base64.b64decode(value).decode()
            assert f"{kind} {value}" == expected.format(secret)
        path.unlink()
        result = error_of(connect)
        assert type(result) is TargetUnreachable
        assert "_file: cannot be read: No such file or directory" in result.detail
        assert len(worker.heads) == 2


@pytest.mark.parametrize("token", [f"{SECRET}\n{SECRET}", f"{SECRET}\x00", f"{SECRET}é"])
def test_a_token_that_no_header_can_carry_is_not_sent_and_not_shown(token):
    with serving(ok(b"{}")) as worker:
        error = error_of(reader(worker.url, auth=auth(bearer_token=token)))
        assert "auth.bearer_token" in error.detail
        assert worker.heads == []


def test_a_refusal_does_not_show_who_was_refused():
    with serving(ok(b"", status="401 Unauthorized")) as worker:
        error = error_of(reader(worker.url, worker.url, auth=auth(username="u", password=SECRET)))
        assert type(error) is AccessDenied
        assert len(worker.heads) == 1


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.issue("client", password=SECRET)


@pytest.fixture
def secured(authority: Authority) -> Iterator[Worker]:
    """A worker that wants a client certificate."""
    own = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(ok(b"{}"), context) as worker:
        yield worker


def tls(**fields: Any) -> Tls:
    return Tls.model_validate(fields)


def test_a_client_certificate_opens_the_door(secured: Worker, authority, client):
    who = tls(ca_file=authority.ca, cert_file=client.cert, key_file=client.key, key_password=SECRET)
    connect = reader(secured.url, tls=who)
    assert connect.connectors() == connect.connectors() == b"{}"


def test_key_and_certificate_may_be_in_one_file(secured: Worker, authority, tmp_path):
    own = authority.issue("both")
    both = tmp_path / "both.pem"
    both.write_bytes(own.key.read_bytes() + own.cert.read_bytes())
    assert reader(secured.url, tls=tls(ca_file=authority.ca, cert_file=both)).connectors() == b"{}"


def test_without_a_client_certificate_the_worker_refuses(secured: Worker, authority):
    # Its alert and its end of the connection race each other; either way it is no answer.
    assert type(error_of(reader(secured.url, tls=tls(ca_file=authority.ca)))) in {
        AccessDenied,
        IncompleteResponse,
    }
    assert secured.heads == []


@pytest.mark.parametrize("trusting", ["another authority", "the operating system's"])
def test_a_worker_of_an_unknown_authority_is_unreachable_and_says_why(
    secured: Worker, client, tmp_path, trusting
):
    other = tls(ca_file=Authority(tmp_path).ca) if trusting == "another authority" else None
    result = error_of(reader(secured.url, tls=other))
    assert type(result) is TargetUnreachable
    assert "its certificate is not trusted: " in result.detail
    assert secured.heads == []


def test_a_worker_with_anothers_name_is_unreachable_and_says_why(authority, tmp_path):
    own = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    with serving(ok(b"{}"), context) as worker:
        url = worker.url.replace("127.0.0.1", "127.0.0.2")
        assert type(error_of(reader(url, tls=tls(ca_file=authority.ca)))) is TargetUnreachable
        url = worker.url.replace("127.0.0.1", "localhost")
        assert reader(url, tls=tls(ca_file=authority.ca)).connectors() == b"{}"


def test_a_worker_that_speaks_no_tls_is_no_worker():
    with serving(ok(b"{}")) as worker:
        # Half of it is for the handshake, which has to end first, however late a thread is run.
        error = error_of(reader(worker.url.replace("http:", "https:"), timeout_s=4.0))
        assert type(error) in {TargetUnreachable, IncompleteResponse, ResponseTimeout}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"key_password": "wrong"}, "tls.cert_file, key_file or key_password"),
        ({}, "tls.cert_file, key_file or key_password"),  # and OpenSSL asks nobody for it
    ],
)
def test_a_key_that_does_not_open_is_reported_and_never_its_password(
    secured: Worker, authority, client, wrong, words
):
    who = tls(ca_file=authority.ca, cert_file=client.cert, key_file=client.key, **wrong)
    result = error_of(reader(secured.url, tls=who))
    assert type(result) is TargetUnreachable
    assert words in result.detail


def test_a_file_that_is_no_certificate_is_reported(secured: Worker, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text(SECRET)
    assert "tls.ca_file" in error_of(reader(secured.url, tls=tls(ca_file=path))).detail


def test_a_certificate_that_is_replaced_is_the_new_one(secured: Worker, authority, tmp_path):
    path = tmp_path / "mine.pem"
    certificate = Authority(tmp_path / "stranger").issue("stranger")
    path.write_bytes(certificate.key.read_bytes() + certificate.cert.read_bytes())
    connect = reader(secured.url, tls=tls(ca_file=authority.ca, cert_file=path))
    error_of(connect)
    own = authority.issue("renewed")
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(own.key.read_bytes() + own.cert.read_bytes())
    renewed.replace(path)
    assert connect.connectors() == b"{}"


# --- in memory -----------------------------------------------------------------------------------

URLS = ("http://one:8083", "http://two:8083")
REBALANCE = (
    b'{"error_code":500,"message":"Request cannot be completed because a rebalance is expected"}'
)


class World:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def exchange(self, method, url, path, body, timeout_s):
        self.requests.append((method, url, path, body, timeout_s))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def model_reader(world):
    return ConnectReader("lab", URLS, 10.0, transport=world)


def writer(world):
    return ConnectWriter("lab", URLS, transport=world)


def test_a_world_in_memory_is_queried_as_a_worker_is():
    world = World((200, b"{}"), (200, b'{"message":"done"}'))
    assert model_reader(world).offsets("a/b") == b"{}"
    assert writer(world).send("PATCH", "/connectors/a%2Fb/offsets", b"[]") == ConnectReply(
        200, "done"
    )
    assert world.requests == [
        ("GET", URLS[0], "/connectors/a%2Fb/offsets", None, 10.0),
        ("PATCH", URLS[0], "/connectors/a%2Fb/offsets", b"[]", TIMEOUT_S),
    ]


def test_the_next_worker_is_queried_where_there_is_no_connection():
    world = World(httpx.ConnectError("refused"), (204, b""))
    assert writer(world).send("PUT", "/connectors/c/stop").status == 204
    assert [url for _, url, *_ in world.requests] == list(URLS)


@pytest.mark.parametrize(
    ("raised", "meant"),
    [
        pytest.param(httpx.ReadTimeout("slow"), ResponseTimeout, id="no-answer"),
        pytest.param(httpx.ReadError("reset"), IncompleteResponse, id="cut-off"),
        pytest.param(httpx.RemoteProtocolError("half"), IncompleteResponse, id="half-an-answer"),
    ],
)
def test_a_change_whose_answer_is_lost_is_not_repeated_at_the_next_worker(raised, meant):
    world = World(raised)
    with pytest.raises(meant):
        writer(world).send("PUT", "/connectors/c/stop")
    assert len(world.requests) == 1


def test_errors_of_a_world_are_those_of_a_socket():
    with pytest.raises(Conflict):
        model_reader(World((500, REBALANCE))).tasks("c")
    with pytest.raises(TargetUnreachable):
        model_reader(World(httpx.ConnectError("a"), httpx.ConnectError("b"))).tasks("c")


# --- let go --------------------------------------------------------------------------------------

BODY_BYTES: Final = 4 * 1024 * 1024
TIMES: Final = 3
NO_JSON: Final = b'{"a": "' + b"x" * BODY_BYTES
NO_OFFSETS: Final = NO_JSON + b'"}'


@contextmanager
def nothing_stays() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert most - before > BODY_BYTES
    assert after - before < BODY_BYTES / 2


async def broken_off() -> AsyncIterator[bytes]:
    yield bytes(bytearray(NO_JSON))
    raise httpx.ReadError("gone")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: NO_JSON, "malformed"),
        (lambda: NO_OFFSETS, "malformed"),
        (broken_off, "cut_off"),
    ],
    ids=["no JSON", "not what was asked for", "broken off"],
)
def test_of_a_poll_that_fails_no_answer_stays(content: Callable[[], bytes], reason):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content()))
    reader = ConnectReader("lab", ("http://one", "http://two"), 60.0, transport=transport)
    poll = ConnectorsPoll(reader)
    with nothing_stays():
        for _ in range(TIMES):
            (failed,) = poll_connectors(poll, VirtualClock())
            assert isinstance(failed, InputFailed)
            assert failed.reason == reason


@pytest.mark.parametrize("body", [NO_JSON, NO_OFFSETS], ids=["no JSON", "not what was asked for"])
def test_of_a_sweep_that_fails_no_answer_stays(body: bytes):
    results = []
    with swept(lambda _: (200, body)) as worker, nothing_stays():
        sweep = ConnectSweep("lab", (worker.url,), 60.0)
        for _ in range(TIMES):
            poll_rest_offsets(sweep, ["a"], lambda batch: not results.extend(batch), lambda: False)
    assert [type(item) for item in results].count(InputFailed) == TIMES
