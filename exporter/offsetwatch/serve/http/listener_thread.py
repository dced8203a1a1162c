"""The thread of a listener, with its socket and its event loop: the base of both listeners."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Final

import structlog

from offsetwatch.errors import ConfigError, TargetUnreachable

STOP_S_MAX: Final = 5.0  # for requests in flight when we are told to stop
PORT_MAX: Final = 65535
BACKLOG: Final = 128  # connections that wait to be accepted; more are the kernel's to refuse

log = structlog.get_logger()

ServeCoroutine = Callable[[socket.socket, asyncio.Event], Coroutine[None, None, None]]


class ListenerThread:
    """Thread that serves one listening socket.

    `listen` is `host:port`; an empty host means every address, port 0 any free one.

    serve   takes the socket, and returns once the event is set
    """

    def __init__(self, name: str, listen: str, serve: ServeCoroutine) -> None:
        self._name = name
        self._listen = listen
        self._serve = serve
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start listening, once; connections queue from here on.

        Raises TargetUnreachable if the address cannot be bound.
        """
        listener = _bind_socket(self._listen)
        self._port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop, listener), name=self._name, daemon=True
        )
        self._thread.start()
        log.info("listening", listener=self._name, listen=self._listen, port=self._port)

    def stop(self) -> None:
        """Let the requests in flight end, for at most STOP_S_MAX seconds, and close. Idempotent."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=2 * STOP_S_MAX)

    @property
    def failed(self) -> bool:
        """Return True if the thread ended without stop()."""
        thread = self._thread
        return thread is not None and not thread.is_alive() and not self._stopping.is_set()

    @property
    def port(self) -> int:
        """Return the bound port; 0 before start()."""
        return self._port

    def _run(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve(listener, self._stopping))


def _parse_address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError((f"listen: expected host:port, not {listen!r}",))
    return host.removeprefix("[").removesuffix("]"), int(port)


def _bind_socket(listen: str) -> socket.socket:
    """Return a listening socket. Called outside the loop, so that start() raises its errors."""
    host, port = _parse_address(listen)
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise TargetUnreachable(f"listen {listen}", str(error)) from error
