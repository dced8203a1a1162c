"""A Connect worker made of a socket: what it answers is written byte by byte, good or bad."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket, str], None]
HEAD_BYTES_MAX = 64 * 1024
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def ok(body: bytes, *, kind: str = "application/json", status: str = "200 OK") -> Answer:
    """One whole answer."""

    def answer(connection: socket.socket, _head: str) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    return answer


class Worker:
    """Serves each connection in a thread of its own; one request, one answer, close."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.gone = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self) -> None:
        self.gone.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.gone.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(lambda connection=connection: self._serve(connection))

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, self._wrapped(connection) as stream:
                head = b""
                while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                    part = stream.recv(4096)
                    if not part:
                        return
                    head += part
                head, _, body = head.partition(b"\r\n\r\n")
                announced = _LENGTH.search(head)
                # What is left unread when the connection closes resets it, and the answer with it.
                while announced and len(body) < int(announced[1]) and (part := stream.recv(4096)):
                    body += part
                self.heads.append(head.decode())
                self.answer(stream, head.decode())
        except OSError:
            return  # the other side has had enough, which is what some tests are about

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        return connection if self._tls is None else self._tls.wrap_socket(connection, True)


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Worker]:
    worker = Worker(answer, tls)
    try:
        yield worker
    finally:
        worker.stop()
