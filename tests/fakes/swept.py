"""A Connect worker that keeps its connections, and counts what it is asked at once."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

MISSING = json.dumps({"error_code": 404, "message": "Connector c not found"}).encode()


def offsets(position: int = 1) -> bytes:
    """What a connector with one source partition is answered with."""
    entry = {"partition": {"filename": "/a"}, "offset": {"position": position}}
    return json.dumps({"offsets": [entry]}).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The other side may leave, and a handshake fail: that is what tests are about."""


class SweptWorker:
    """`answer` gives (status, body) for a connector; None closes the connection without one."""

    def __init__(
        self,
        answer: Callable[[str], tuple[int, bytes] | None],
        tls: ssl.SSLContext | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.answer = answer
        self.headers = headers or {}
        self.requests: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.at_once = 0
        self.at_once_max = 0
        self.connections = 0
        self.gone = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._tls = tls
        self._server = Server(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_port}"

    def hang(self, _connector: str = "") -> tuple[int, bytes] | None:
        """An answer that does not come as long as the worker is there."""
        self.gone.wait(300)
        return None

    def stop(self) -> None:
        self.gone.set()
        self._server.shutdown()
        self._thread.join(60)
        self._server.server_close()
        with self._lock:
            remaining = list(self._open)
        for connection in remaining:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        worker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                with worker._lock:
                    worker.connections += 1
                    worker._open.add(self.connection)

            def finish(self) -> None:
                with worker._lock:
                    worker._open.discard(self.connection)
                super().finish()

            def do_GET(self) -> None:
                connector = unquote(self.path.split("/")[-2])
                with worker._lock:
                    worker.requests.append(connector)
                    worker.paths.append(self.path)
                    worker.heads.append(dict(self.headers.items()))
                    worker.at_once += 1
                    worker.at_once_max = max(worker.at_once_max, worker.at_once)
                results = worker.answer(connector)
                with worker._lock:
                    worker.at_once -= 1
                if results is None:
                    self.close_connection = True
                    return
                status, body = results
                self.send_response(status)
                for name, value in worker.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        return Handler


@contextmanager
def swept(
    answer: Callable[[str], tuple[int, bytes] | None] = lambda _: (200, offsets()),
    tls: ssl.SSLContext | None = None,
    headers: dict[str, str] | None = None,
) -> Iterator[SweptWorker]:
    worker = SweptWorker(answer, tls, headers)
    try:
        yield worker
    finally:
        worker.stop()
