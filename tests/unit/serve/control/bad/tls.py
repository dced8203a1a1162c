"""Certificates: 58 and 59."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cluster.certificates import Authority, Certificate
from offsetwatch.config import Control
from tests.unit.serve.control.stage import DEADLINE_S, Stage, control, serving, token

from .table import row, status_of

NAME = "console.example.com"
CLIENTS = [
    {"name": "console", "role": "operator", "san": f"dns:{NAME}"},
    {"name": "robot", "role": "viewer", "san": "uri:spiffe://example.com/robot"},
]
GET = b"GET /api/v1/plans HTTP/1.1\r\nHost: anything\r\n"


def secured(folder: Path, authority: Authority, **more: object) -> Control:
    """As on the network, where a certificate says who we are, and any name may lead to us."""
    own = authority.issue("listener")
    asks_all = more.get("tokens") == []
    tls = {
        "cert_file": own.cert,
        "key_file": own.key,
        "client_auth_type": (
            "RequireAndVerifyClientCert" if asks_all else "VerifyClientCertIfGiven"
        ),
        "client_ca_file": authority.ca,
    }
    return control(
        listen="0.0.0.0:9641", clients=CLIENTS, web_config_file=web_file(folder, **tls), **more
    )


def web_file(folder: Path, **tls: object) -> Path:
    """A web config file with this TLS."""
    path = folder / "web.yaml"
    path.write_text(json.dumps({"tls_server_config": tls}, default=str))
    return path


def trusting(certificate: Certificate | None) -> ssl.SSLContext:
    """A client that asks nothing of the listener, so that whoever ends TLS is the listener."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.cert, certificate.key)
    return context


def request(stage: Stage, context: ssl.SSLContext, head: bytes = b"") -> bytes:
    """What comes back; b"" if TLS ends before anything does."""
    try:
        with (
            socket.create_connection(("127.0.0.1", stage.server.port), DEADLINE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(GET + head + b"\r\n")
            result = b""
            while part := connection.recv(65536):
                result += part
            return result
    except (ssl.SSLError, ConnectionError):
        return b""


@contextmanager
def stage_of(folder: Path, **more: object) -> Iterator[tuple[Stage, Authority]]:
    authority = Authority(folder / "ours")
    with serving(secured(folder, authority, **more)) as stage:
        yield stage, authority


@row(58, "a certificate that has expired, is of another authority or of nobody opens nothing")
def _(_stage, folder):
    with stage_of(folder) as (stage, authority):
        good = authority.issue("good", names=f"DNS:{NAME}")
        assert status_of(request(stage, trusting(good))) == 200
        unknown = Authority(folder / "theirs")
        for bad in (
            authority.issue_expired("expired", names=f"DNS:{NAME}"),
            unknown.issue("strange", names=f"DNS:{NAME}"),
            Certificate(unknown.ca, folder / "theirs" / "ca-key.pem"),
        ):
            assert request(stage, trusting(bad)) == b""
            yield None
            auth = f"Authorization: Bearer {token('operator')}\r\n".encode()
            assert request(stage, trusting(bad), auth) == b""
            yield None


@row(58, "a certificate of ours with a name that nobody was given opens nothing")
def _(_stage, folder):
    with stage_of(folder) as (stage, authority):
        for number, names in enumerate(
            (
                "DNS:other.example.com",
                f"DNS:x.{NAME}",
                "DNS:*.example.com",
                f"email:{NAME}",
                f"URI:dns:{NAME}",
                f"DNS:{NAME},URI:spiffe://example.com/robot",  # of two: which of them asks?
            )
        ):
            status = status_of(request(stage, trusting(authority.issue(f"c{number}", names=names))))
            assert status == 401, names
            yield status
        assert status_of(request(stage, trusting(None))) == 401
        auth = f"Authorization: Bearer {token('viewer')}\r\n".encode()
        assert status_of(request(stage, trusting(None), auth)) == 200
        wrong = b"Authorization: Bearer wrong\r\n"
        good = authority.issue("good", names=f"DNS:{NAME.upper()}")
        assert status_of(request(stage, trusting(good))) == 200
        yield status_of(request(stage, trusting(good), wrong))


@row(58, "where everybody is known by a certificate, without one there is no connection")
def _(_stage, folder):
    with stage_of(folder, tokens=[]) as (stage, authority):
        assert (
            status_of(request(stage, trusting(authority.issue("good", names=f"DNS:{NAME}")))) == 200
        )
        assert request(stage, trusting(None)) == b""
        return [None]


@row(58, "TLS older than 1.2, and plain HTTP, are not spoken")
def _(_stage, folder):
    with stage_of(folder) as (stage, authority):
        good = authority.issue("good", names=f"DNS:{NAME}")
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            old = trusting(good)
            old.set_ciphers("ALL:@SECLEVEL=0")  # else the client itself would not speak it
            with pytest.deprecated_call():
                old.minimum_version = ssl.TLSVersion.TLSv1
                old.maximum_version = version
            assert request(stage, old) == b""
            yield None
        new = trusting(good)
        new.maximum_version = ssl.TLSVersion.TLSv1_2
        assert status_of(request(stage, new)) == 200
        assert b"HTTP" not in stage.raw(GET + b"\r\n")
        yield None


@row(59, "a common name is no name")
def _(_stage, folder):
    with stage_of(folder) as (stage, authority):
        for number, names in enumerate(("DNS:other.example.com", "IP:127.0.0.1")):
            (folder / str(number)).mkdir()
            status = status_of(request(stage, trusting(authority.issue(NAME, names=names))))
            assert status == 401
            yield status
