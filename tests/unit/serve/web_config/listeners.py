"""A read listener with a web config file, certificates for both ends, and whoever asks it."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import yaml

from lab.cluster.certificates import Authority, Certificate
from offsetwatch.serve.http.read_listener import LoopHeartbeat, ReadServer
from offsetwatch.serve.metrics.families import ConfigReloadStatus
from tests.unit.serve.worlds import full

DEADLINE_S = 60.0
PASSWORD = "s3cret-of-ada"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
OTHER_HASH = bcrypt.hashpw(b"s3cret-of-bob", bcrypt.gensalt(4)).decode()
ADA = {"basic_auth_users": {"ada": HASH}}


def basic(user: str = "ada", password: str = PASSWORD) -> str:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Authorization: Basic {pair}\r\n"


class WebListener:
    """Files in a folder, and a listener that was started with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ca")
        self.own = self.authority.issue("listener")
        self.file = folder / "web.yaml"

    def tls(self, **more: Any) -> dict[str, Any]:
        files = {"cert_file": str(self.own.cert), "key_file": str(self.own.key)}
        return {"tls_server_config": {**files, **more}}

    def mutual(self, **more: Any) -> dict[str, Any]:
        return self.tls(
            client_auth_type="RequireAndVerifyClientCert",
            client_ca_file=str(self.authority.ca),
            **more,
        )

    def write(self, *parts: dict[str, Any]) -> None:
        whole: dict[str, Any] = {}
        for part in parts:
            whole |= part
        new = self.file.with_suffix(".new")
        new.write_text(yaml.safe_dump(whole))
        new.rename(self.file)

    @contextmanager
    def serving(self, *parts: dict[str, Any]) -> Iterator[ReadServer]:
        self.write(*parts)
        server = ReadServer(
            "127.0.0.1:0",
            full,
            LoopHeartbeat(lambda: True),
            reload=Future,
            reloaded=lambda: ConfigReloadStatus(successful=True, at=0.0),
            web_config=self.file,
        )
        server.start()
        self.server = server
        try:
            yield server
        finally:
            server.stop()

    def connect(
        self, certificate: Certificate | None = None, context: ssl.SSLContext | None = None
    ) -> ssl.SSLSocket:
        """Trusting this authority alone."""
        used = self.trusting(certificate) if context is None else context
        plain = socket.create_connection(("127.0.0.1", self.server.port), DEADLINE_S)
        return used.wrap_socket(plain, server_hostname="localhost")

    def trusting(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority.ca)
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        return context

    def get(
        self,
        path: str = "/-/healthy",
        head: str = "",
        certificate: Certificate | None = None,
        *,
        context: ssl.SSLContext | None = None,
    ) -> bytes:
        """All that comes back over TLS; b"" if the connection ends before anything does."""
        try:
            with self.connect(certificate, context) as connection:
                return request(connection, path, head)
        except (ssl.SSLError, ConnectionError):
            return b""

    def plain(self, path: str = "/-/healthy", head: str = "") -> bytes:
        """The same in the clear."""
        try:
            with socket.create_connection(("127.0.0.1", self.server.port), DEADLINE_S) as plain:
                return request(plain, path, head)
        except ConnectionError:
            return b""


def request(connection: socket.socket, path: str, head: str) -> bytes:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n"
    connection.sendall(request.encode())
    result = b""
    while part := connection.recv(65536):
        result += part
    return result


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0
