"""A broker that answers ApiVersions and Metadata alone. Once it is fenced it lists no broker, not
even itself: so do brokers of KRaft while the controller hears the heartbeats of none.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lab.processes.ports import LOOPBACK, free_port

_API_VERSIONS: Final = 18
_METADATA: Final = 3
_METADATA_VERSION: Final = 8  # the last one without tagged fields
_UNSUPPORTED_VERSION: Final = 35


class FencedBroker:
    """Served at `address`; lists itself, as node 1 and controller, until `fenced` is set."""

    def __init__(self, listener: socket.socket) -> None:
        self.fenced = threading.Event()
        self._listener = listener
        self._port: int = listener.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"

    def accept(self) -> None:
        """Serve connections until the listener is shut down."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                request = requests.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack_from(">hhi", request)
                body = self._metadata() if key == _METADATA else _api_versions(version)
                answer = struct.pack(">i", correlation) + body
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _metadata(self) -> bytes:
        own = struct.pack(">ih9sih", 1, 9, b"127.0.0.1", self._port, -1)
        brokers, controller = (b"", -1) if self.fenced.is_set() else (own, 1)
        return b"".join(
            (
                struct.pack(">ii", 0, len(brokers) // len(own)),  # throttle time
                brokers,
                struct.pack(">h2si", 2, b"id", controller),  # cluster id
                struct.pack(">ii", 0, -(2**31)),  # no topics; authorized operations not asked for
            )
        )


def _api_versions(version: int) -> bytes:
    spoken = ((_METADATA, _METADATA_VERSION), (_API_VERSIONS, 0))
    error = 0 if version == 0 else _UNSUPPORTED_VERSION
    return struct.pack(">hi", error, len(spoken)) + b"".join(
        struct.pack(">hhh", api, 0, newest) for api, newest in spoken
    )


@contextmanager
def fenced_broker() -> Iterator[FencedBroker]:
    """Serve one."""
    with socket.create_server((LOOPBACK, free_port())) as listener:
        broker = FencedBroker(listener)
        threading.Thread(target=broker.accept, daemon=True).start()
        yield broker
        listener.shutdown(socket.SHUT_RDWR)
