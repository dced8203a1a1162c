"""healthcheck, status and explain ask a daemon that has a web config file."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.processes.ports import LOOPBACK, free_port
from offsetwatch.cli.inspect import status
from offsetwatch.cli.remote import read_client
from offsetwatch.cli.remote.read_client import ReadListener, fetch_document
from offsetwatch.config import load
from offsetwatch.errors import AccessDenied, ConfigError, TargetUnreachable
from tests.unit.serve.web_config.listeners import ADA, PASSWORD, WebListener


@pytest.fixture
def web_listener(tmp_path: Path) -> WebListener:
    return WebListener(tmp_path)


def minimal(listen: str) -> dict[str, Any]:
    return {
        "kafka": {"east": {"bootstrap": "127.0.0.1:1"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}],
        "listen": listen,
    }


def configured(cluster: WebListener, own_access: dict[str, Any] | None = None) -> Path:
    path = cluster.folder / "offsetwatch.yaml"
    document = minimal(f"127.0.0.1:{cluster.server.port}") | {
        "web_config_file": str(cluster.file),
        "own_access": own_access,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def password(text: str = PASSWORD) -> dict[str, Any]:
    return {"auth": {"username": "ada", "password": text}}


def certificate(cluster: WebListener) -> dict[str, Any]:
    output = cluster.authority.issue("own", names="DNS:own.example.com")
    return {"tls": {"cert_file": str(output.cert), "key_file": str(output.key)}}


def test_a_password_makes_us_known(web_listener: WebListener, capsys: pytest.CaptureFixture[str]):
    with web_listener.serving(web_listener.tls(), ADA):
        assert status.check_health(configured(web_listener, password())) == 0
        assert status.check_health(configured(web_listener, password("wrong"))) == 6
        assert status.check_health(configured(web_listener)) == 6
    result = capsys.readouterr()
    assert "own_access" in result.err
    assert "wrong" not in result.err + result.out


def test_a_certificate_makes_us_known_and_without_one_nothing_answers(web_listener: WebListener):
    with web_listener.serving(web_listener.mutual()):
        assert status.check_health(configured(web_listener, certificate(web_listener))) == 0
        assert status.check_health(configured(web_listener)) == 7


def test_a_certificate_of_any_name_and_age_is_trusted_if_it_is_the_one(web_listener: WebListener):
    web_listener.own = web_listener.authority.issue_expired(
        "expired", names="DNS:elsewhere.example.com"
    )
    with web_listener.serving(web_listener.tls()):
        assert status.check_health(configured(web_listener)) == 0


def test_nothing_is_sent_to_a_server_with_another_certificate(web_listener: WebListener):
    with web_listener.serving(web_listener.tls(), ADA) as server:
        path = configured(web_listener, password())
        other = web_listener.authority.issue("other")
        retained = web_listener.folder / "kept.pem"
        retained.write_bytes(other.cert.read_bytes())
        document = yaml.safe_load(web_listener.file.read_text())
        document["tls_server_config"]["cert_file"] = str(retained)  # its key does not fit
        web_listener.file.write_text(yaml.safe_dump(document))
        with pytest.raises(TargetUnreachable, match="another certificate"):
            read_client.request_document(load(path, {}), "/-/healthy", 10.0)
        assert not server._refused


def test_an_authority_that_is_named_is_gone_by_instead(web_listener: WebListener):
    with web_listener.serving(web_listener.tls()):
        named = {"tls": {"ca_file": str(web_listener.authority.ca)}}
        assert status.check_health(configured(web_listener, named)) == 0
        unknown = WebListener(web_listener.folder / "stranger")
        named = {"tls": {"ca_file": str(unknown.authority.ca)}}
        assert status.check_health(configured(web_listener, named)) == 7


def test_findings_are_requested_in_the_same_way(web_listener: WebListener):
    with web_listener.serving(web_listener.tls(), ADA):
        listener = ReadListener(load(configured(web_listener, password()), {}))
        assert fetch_document(listener, "/api/v1/findings") is not None
        with pytest.raises(AccessDenied):
            fetch_document(ReadListener(load(configured(web_listener), {})), "/api/v1/findings")


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("0.0.0.0:9640", "127.0.0.1:9640"),
        ("[::]:9640", "[::1]:9640"),
        ("[::1]:9640", "[::1]:9640"),
        ("host:9640", "host:9640"),
    ],
)
def test_a_daemon_is_queried_where_it_listens_on_this_machine(
    tmp_path: Path, listen: str, expected: str
) -> None:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(yaml.safe_dump(minimal(listen)))
    assert read_client.find_daemon_address(load(path, {})) == expected


# --- answers without an end -----------------------------------------------------------------------

PARTS_MAX = 200  # then the server gives up


@pytest.fixture(params=["of the head", "of the body"])
def dripping(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the port of a server that sends its answer part by part: each comes soon enough."""
    gone = threading.Event()
    head, part = b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"
    if request.param == "of the body":
        head, part = head + b"\r\n", b" "

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head)
                for _ in range(PARTS_MAX):
                    if gone.wait(0.05):
                        return
                    connection.sendall(part)

    with socket.create_server((LOOPBACK, free_port())) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        gone.set()
        thread.join()


def test_an_answer_that_does_not_end_is_given_up_at_a_url(dripping: int) -> None:
    listener = ReadListener(None, f"http://127.0.0.1:{dripping}")
    with pytest.raises(TargetUnreachable, match=r"no whole answer within 0\.5 s"):
        fetch_document(listener, "/api/v1/status", 0.5)


def test_an_answer_that_does_not_end_is_given_up_on_this_machine(
    dripping: int, tmp_path: Path
) -> None:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(yaml.safe_dump(minimal(f"127.0.0.1:{dripping}")))
    with pytest.raises(TargetUnreachable, match=r"no whole answer within 0\.5 s"):
        read_client.request_document(load(path, {}), "/-/healthy", 0.5)


@pytest.mark.parametrize("url", ["http://1.2.3.999:1", "http://\u200b:1", "http://a..test:1"])
def test_a_url_that_names_no_host_is_unreachable(url: str) -> None:
    with pytest.raises(TargetUnreachable) as raised:
        fetch_document(ReadListener(None, url), "/api/v1/status")
    assert raised.value.advice is not None


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="expected http://host:port") as raised:
        fetch_document(ReadListener(None, "http://ada:s3cret@127.0.0.1:1"), "/api/v1/status")
    assert "s3cret" not in str(raised.value)


def test_a_host_of_listen_with_an_empty_label_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(yaml.safe_dump(minimal("a..test:9640")))
    with pytest.raises(TargetUnreachable) as raised:
        read_client.request_document(load(path, {}), "/-/healthy", 5.0)
    assert raised.value.advice is not None
