"""The control listener with a web config file in the place of its own TLS."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from lab.cluster.certificates import Authority
from tests.unit.serve.web_config.sites import HASH, OTHER_HASH, PASSWORD

from .bad.table import status_of
from .bad.tls import CLIENTS, NAME, ask, trusting
from .stage import Stage, control, serving, token

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


def asked(stage: Stage, head: bytes = b"", output: Any = None) -> int:
    return status_of(ask(stage, trusting(output), head))


def test_tokens_certificates_and_passwords_each_make_somebody_known(files: Files):
    with serving(configured(files)) as stage:
        assert asked(stage, bearer("viewer")) == 200
        assert asked(stage, basic("ada", PASSWORD)) == 200
        own = files.authority.issue("mine", names=f"DNS:{NAME}")
        assert asked(stage, output=own) == 200
        assert asked(stage) == 401
        # A header counts where there is one.
        assert asked(stage, basic("ada", "wrong"), own) == 401
        assert b"HTTP" not in stage.raw(b"GET /api/v1/plans HTTP/1.1\r\nHost: a\r\n\r\n")


def test_a_password_that_no_user_is_named_for_opens_nothing(files: Files):
    with serving(configured(files)) as stage:
        assert asked(stage, basic("scraper", "s3cret-of-bob")) == 401
    with serving(configured(files, users=[])) as stage:
        assert asked(stage, basic("ada", PASSWORD)) == 401


def test_a_user_may_do_what_the_role_allows_and_no_more(files: Files):
    with serving(configured(files)) as stage:
        head = basic("ada", PASSWORD) + b"Content-Type: application/json\r\nContent-Length: 2\r\n"
        answer = ask_for(stage, b"POST /api/v1/unpause", head, b"{}")
        assert status_of(answer) == 403


def ask_for(stage: Stage, line: bytes, head: bytes, body: bytes) -> bytes:
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


def test_who_is_refused_is_told_of_both_ways_and_headers_are_there_once(files: Files):
    with serving(configured(files)) as stage:
        answer = ask(stage, trusting(None)).lower()
        assert b"www-authenticate: bearer\r\n" in answer
        assert b"www-authenticate: basic realm=" in answer
        assert answer.count(b"x-content-type-options: nosniff") == 1


def test_passwords_are_not_guessed_at_any_rate_and_never_logged(files: Files):
    with capture_logs() as events, serving(configured(files)) as stage:
        results = [asked(stage, basic("ada", f"s3cret{number}")) for number in range(12)]
        assert results == [401] * 10 + [429] * 2
        assert asked(stage, bearer("viewer")) == 200
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
        assert ask(stage, trusting(other), bearer("viewer")) == b""
        assert ask(stage, trusting(None), bearer("viewer")) == b""
        own = files.authority.issue("mine", names=f"DNS:{NAME}")
        assert asked(stage, bearer("viewer"), own) == 200


def test_a_bad_file_changes_nothing_also_when_the_configuration_is_read_again(files: Files):
    with serving(configured(files)) as stage:
        files.path.write_text("")
        assert asked(stage, basic("ada", PASSWORD)) == 200
        stage.server.follow(stage.configured)
        assert asked(stage, basic("ada", PASSWORD)) == 200
        status = stage.server.web_file
        assert (status.listener, status.successful, status.failures) == ("control", False, 1)
