"""Somebody's HTTP endpoint on loopback: takes JSON, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_S_MAX = 30.0


@dataclass(frozen=True)
class Got:
    path: str
    headers: Message
    body: Any


class Endpoint:
    """`status` is what every request is answered with; `hang` keeps them waiting until cleared;
    `choose`, if set, makes the status of a body.
    """

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.status = 200
        self.choose: Any = None
        self.go = threading.Event()
        self.go.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def findings(self) -> list[dict[str, Any]]:
        """What a webhook was told, in order."""
        return [finding for got in self.got for finding in got.body["findings"]]

    def alerts(self) -> list[dict[str, Any]]:
        """What an Alertmanager was told, in order."""
        return [alert for got in self.got for alert in got.body]

    def stop(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.got.append(Got(self.path, self.headers, body))
                endpoint.go.wait(HANG_S_MAX)
                status = endpoint.status if endpoint.choose is None else endpoint.choose(body)
                self.send_response(status)
                if status in (301, 302, 307, 308):
                    self.send_header("Location", f"{endpoint.url}/elsewhere")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        return Handler


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    built = Endpoint()
    try:
        yield built
    finally:
        built.stop()
