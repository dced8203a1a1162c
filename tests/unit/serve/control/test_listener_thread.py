"""Sockets and TLS of the control listener, from its start to its end."""

from __future__ import annotations

import base64
import gc
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from lab.cluster.certificates import Authority
from offsetwatch.errors import ConfigError
from offsetwatch.model.observations import ControlRequestsCounted
from offsetwatch.serve.control.connection import ControlConnectionBounds
from offsetwatch.serve.control.dispatcher import _list_host_names
from tests.unit.serve.control.bad.table import status_of
from tests.unit.serve.control.bad.tls import CLIENTS, NAME, request, secured, trusting, web_file
from tests.unit.serve.control.stage import BECAUSE, Stage, control, serving, token
from tests.unit.serve.web_config.listeners import HASH, OTHER_HASH, PASSWORD
from tests.waiting import until


def test_the_port_is_free_again_when_it_has_stopped():
    with serving() as stage:
        port = stage.server.port
        taken = control().model_copy(update={"listen": f"127.0.0.1:{port}"})
        with pytest.raises(ConfigError):
            Stage(taken, ControlConnectionBounds()).server.start()
        stage.server.stop()
        again = Stage(taken, ControlConnectionBounds())
        again.server.start()
        assert again.call("GET", "/plans", "viewer").status_code == 200
        again.server.stop()
        again.server.stop()
        again.client.close()


def test_a_request_in_flight_is_answered_before_it_stops():
    here, go, answers = threading.Event(), threading.Event(), []

    def hold(_call: str) -> None:
        here.set()
        go.wait(20)

    def request() -> None:
        answers.append(stage.call("GET", "/plans", "viewer"))

    with serving() as stage:
        stage.desk.before = hold
        asking = threading.Thread(target=request)
        asking.start()
        assert here.wait(20)
        stopping = threading.Thread(target=stage.server.stop)
        stopping.start()
        go.set()
        asking.join(20)
        stopping.join(20)
    assert [answer.status_code for answer in answers] == [200]


def test_connections_that_come_while_it_stops_are_closed_and_none_is_lost():
    """A socket that was lost would be a warning, and so an error, when it is collected."""
    for held in range(6):
        with serving() as stage:
            built = [
                socket.create_connection(("127.0.0.1", stage.server.port), 20) for _ in range(held)
            ]
            stage.server.stop()
            for connection in built:
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
                connection.close()
    gc.collect()


def test_each_thread_that_queried_the_service_says_so_when_it_queries_no_more():
    names: set[str] = set()
    ended: list[str] = []
    with serving(at_end=lambda: ended.append(threading.current_thread().name)) as stage:
        stage.desk.before = lambda _: names.add(threading.current_thread().name)
        stage.hook()
        stage.call("GET", "/plans", "viewer")
        assert not ended
    until(lambda: len(ended) == 3, "all have ended")
    assert set(ended) >= names


@pytest.mark.parametrize(("held", "path"), [("verify", "/journal/verify"), ("propose", "/plans")])
def test_alerts_and_pauses_do_not_wait_for_slow_requests(held, path):
    here, go = threading.Event(), threading.Event()

    def hold(call: str) -> None:
        if call == held:
            here.set()
            go.wait(20)

    with serving() as stage:
        stage.desk.before = hold
        ask = stage.propose if held == "propose" else lambda: stage.call("GET", path, "viewer")
        waiting = threading.Thread(target=ask)
        waiting.start()
        try:
            assert here.wait(20)
            assert stage.hook().status_code == 202
            body = {"indefinite": True, "because": BECAUSE}
            assert stage.call("POST", "/pause", "operator", body).status_code == 200
            assert waiting.is_alive()
        finally:
            go.set()
            waiting.join(20)


def test_what_was_counted_is_reported_again_until_it_is_shown(stage: Stage):
    lost: list[ControlRequestsCounted] = []
    take, stage.server._report = stage.take, lost.append
    stage.hook()
    until(lambda: len(lost) >= 2 and dict(lost[-1].hooks) == {"new": 1}, "told twice")
    stage.server._report = take
    until(lambda: stage.counted("new") == 1, "shown")


def test_off_loopback_any_name_may_lead_to_us_because_a_certificate_reports():
    assert _list_host_names("0.0.0.0:9641") is None
    assert _list_host_names("control.example.com:9641") is None
    assert _list_host_names("127.0.0.1:9641") == {"127.0.0.1", "localhost", "[::1]"}
    assert _list_host_names("127.0.0.9:1") == {"127.0.0.1", "127.0.0.9", "localhost", "[::1]"}


# --- TLS ------------------------------------------------------------------------------------------


def test_a_client_certificate_is_a_principal(tmp_path: Path):
    authority = Authority(tmp_path / "ours")
    with serving(secured(tmp_path, authority)) as stage:
        own = authority.issue("anything", names=f"DNS:{NAME}")
        assert status_of(request(stage, trusting(own))) == 200


def test_a_listeners_certificate_that_is_replaced_is_the_new_one(tmp_path: Path):
    authority = Authority(tmp_path / "ours")
    configured = secured(tmp_path, authority)
    used = json.loads((tmp_path / "web.yaml").read_text())["tls_server_config"]
    other = Authority(tmp_path / "other")
    new = other.issue("new")
    with serving(configured) as stage:
        own = authority.issue("mine", names=f"DNS:{NAME}")
        theirs = other.issue("theirs", names=f"DNS:{NAME}")
        assert status_of(request(stage, trusting(own))) == 200
        assert request(stage, trusting(theirs)) == b""
        # Half written: the old ones are kept.
        Path(used["cert_file"]).write_text("half of a cert")
        with capture_logs() as events:
            assert status_of(request(stage, trusting(own))) == 200
        assert [event["event"] for event in events] == ["web_config_unusable"]
        Path(used["cert_file"]).write_bytes(new.cert.read_bytes())
        Path(used["key_file"]).write_bytes(new.key.read_bytes())
        Path(used["client_ca_file"]).write_bytes(other.ca.read_bytes())
        assert status_of(request(stage, trusting(theirs))) == 200
        assert request(stage, trusting(own)) == b""


def test_tls_that_cannot_be_used_is_a_mistake_before_anything_listens(tmp_path: Path):
    (tmp_path / "nothing.pem").write_text("nothing")
    authority = Authority(tmp_path / "ours")
    own = authority.issue("listener")
    bad = {"cert_file": tmp_path / "nothing.pem", "key_file": own.key}
    with pytest.raises(ConfigError, match=r"tls_server_config\.cert_file"):
        Stage(control(web_config_file=web_file(tmp_path, **bad)), ControlConnectionBounds())
    bad = {
        "cert_file": own.cert,
        "key_file": own.key,
        "client_auth_type": "VerifyClientCertIfGiven",
        "client_ca_file": tmp_path / "nothing.pem",
    }
    with pytest.raises(ConfigError, match=r"tls_server_config\.client_ca_file"):
        Stage(
            control(web_config_file=web_file(tmp_path, **bad), clients=CLIENTS),
            ControlConnectionBounds(),
        )


def test_a_configuration_that_cannot_be_followed_changes_nothing(tmp_path: Path):
    (tmp_path / "nothing.pem").write_text("nothing")
    with serving() as stage:
        nothing = tmp_path / "nothing.pem"
        path = web_file(tmp_path, cert_file=nothing, key_file=nothing)
        with pytest.raises(ConfigError):
            stage.server.follow(control(tokens=[], web_config_file=path))
        assert stage.call("GET", "/plans", "viewer").status_code == 200


# --- web config ----------------------------------------------------------------------------------

USERS = [{"name": "ada", "role": "viewer", "user": "ada"}]


class Files:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "ours")
        self.own = self.authority.issue("listener")
        self.path = folder / "web.yaml"

    def write(self, **tls: Any) -> None:
        files = {"cert_file": str(self.own.cert), "key_file": str(self.own.key), **tls}
        whole = {
            "tls_server_config": files,
            "basic_auth_users": {"ada": HASH, "scraper": OTHER_HASH},
            "http_server_config": {"headers": {"X-Content-Type-Options": "nosniff"}},
        }
        self.path.write_text(yaml.safe_dump(whole))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    built = Files(tmp_path)
    built.write(client_auth_type="VerifyClientCertIfGiven", client_ca_file=str(built.authority.ca))
    return built


def configured(files: Files, **more: Any):
    inputs = {"users": USERS, "clients": CLIENTS, **more}
    return control(listen="0.0.0.0:9641", web_config_file=files.path, **inputs)


def basic(user: str, password: str) -> bytes:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Authorization: Basic {pair}\r\n".encode()


def bearer(role: str) -> bytes:
    return f"Authorization: Bearer {token(role)}\r\n".encode()


def read_status(stage: Stage, head: bytes = b"", output: Any = None) -> int:
    return status_of(request(stage, trusting(output), head))


def test_tokens_certificates_and_passwords_each_authenticate(files: Files):
    with serving(configured(files)) as stage:
        assert read_status(stage, bearer("viewer")) == 200
        assert read_status(stage, basic("ada", PASSWORD)) == 200
        own = files.authority.issue("mine", names=f"DNS:{NAME}")
        assert read_status(stage, output=own) == 200
        assert read_status(stage) == 401
        # A header counts where there is one.
        assert read_status(stage, basic("ada", "wrong"), own) == 401
        assert b"HTTP" not in stage.raw(b"GET /api/v1/plans HTTP/1.1\r\nHost: a\r\n\r\n")


def test_a_password_that_no_user_is_named_for_opens_nothing(files: Files):
    with serving(configured(files)) as stage:
        assert read_status(stage, basic("scraper", "s3cret-of-bob")) == 401
    with serving(configured(files, users=[])) as stage:
        assert read_status(stage, basic("ada", PASSWORD)) == 401


def test_a_user_may_do_what_the_role_allows_and_no_more(files: Files):
    with serving(configured(files)) as stage:
        head = basic("ada", PASSWORD) + b"Content-Type: application/json\r\nContent-Length: 2\r\n"
        answer = send_request(stage, b"POST /api/v1/unpause", head, b"{}")
        assert status_of(answer) == 403


def send_request(stage: Stage, line: bytes, head: bytes, body: bytes) -> bytes:
    import socket

    with (
        socket.create_connection(("127.0.0.1", stage.server.port), 20) as plain,
        trusting(None).wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(line + b" HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n" + body)
        result = b""
        while part := connection.recv(65536):
            result += part
        return result


def test_who_is_refused_is_reported_of_both_ways_and_headers_are_there_once(files: Files):
    with serving(configured(files)) as stage:
        answer = request(stage, trusting(None)).lower()
        assert b"www-authenticate: bearer\r\n" in answer
        assert b"www-authenticate: basic realm=" in answer
        assert answer.count(b"x-content-type-options: nosniff") == 1


def test_passwords_are_not_guessed_at_any_rate_and_never_logged(files: Files):
    with capture_logs() as events, serving(configured(files)) as stage:
        results = [read_status(stage, basic("ada", f"s3cret{number}")) for number in range(12)]
        assert results == [401] * 10 + [429] * 2
        assert read_status(stage, bearer("viewer")) == 200
        assert stage.server._counts.refused["throttled"] == 2
    assert "s3cret" not in str(events)
    assert HASH not in str(events)


def test_names_that_are_not_let_in_are_closed_without_an_answer(files: Files):
    files.write(
        client_auth_type="RequireAndVerifyClientCert",
        client_ca_file=str(files.authority.ca),
        client_allowed_sans=[NAME],
    )
    with serving(configured(files)) as stage:
        other = files.authority.issue("other", names="DNS:other.example.com")
        assert request(stage, trusting(other), bearer("viewer")) == b""
        assert request(stage, trusting(None), bearer("viewer")) == b""
        own = files.authority.issue("mine", names=f"DNS:{NAME}")
        assert read_status(stage, bearer("viewer"), own) == 200


def test_a_bad_file_changes_nothing_also_when_the_configuration_is_read_again(files: Files):
    with serving(configured(files)) as stage:
        files.path.write_text("")
        assert read_status(stage, basic("ada", PASSWORD)) == 200
        stage.server.follow(stage.configured)
        assert read_status(stage, basic("ada", PASSWORD)) == 200
        status = stage.server.web_file
        assert (status.listener, status.successful, status.failures) == ("control", False, 1)
