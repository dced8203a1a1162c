"""
A proxy in front of one Connect worker that writes down every request, and makes trouble on demand.

What a daemon asks for is read here and not in the daemon: "it changes nothing" is a statement about
what reached Connect.
"""

import gzip
import http.client
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from lab.cluster.certificates import Certificate
from lab.processes.ports import LOOPBACK

# Connect answers within its own 90 s or not at all.
UPSTREAM_S_MAX = 120.0
# Longer than whoever holds a request back waits for anything.
HELD_S_MAX = 900.0
POLL_S = 0.05
TRICKLE_BYTES = 16
READS = frozenset({"GET", "HEAD", "OPTIONS"})
# Of one connection between two neighbours, and so not to be handed on.
_OWN_HEADERS = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_RESET = struct.pack("ii", 1, 0)

Headers = Sequence[tuple[str, str]]


class Fault(StrEnum):
    """
    What becomes of a request that is to go wrong.

    cut_before  the connection breaks, the worker hears nothing
    cut_after   the worker has answered, and the connection breaks before anybody hears that
    delay       the worker is asked later
    held        the worker is asked when somebody lets the request go
    twice       the worker is asked twice, and its second answer handed on
    answer      an answer of our own; the worker hears nothing
    half        the worker's answer, and the connection breaks in the middle of it
    trickle     the worker's answer, a few bytes at a time with `delay_s` between them
    gzip        the worker's answer, compressed though nobody asked for that
    """

    CUT_BEFORE = "cut_before"
    CUT_AFTER = "cut_after"
    DELAY = "delay"
    HELD = "held"
    TWICE = "twice"
    ANSWER = "answer"
    HALF = "half"
    TRICKLE = "trickle"
    GZIP = "gzip"


class DelayedRequest(NamedTuple):
    """A request on its way: `come` is set once it is here, and `go` lets it reach the worker."""

    come: threading.Event
    go: threading.Event


@dataclass(frozen=True, slots=True)
class Trouble:
    """For the next `times` requests of this method whose whole path the expression matches."""

    fault: Fault
    method: str
    path: str
    times: int = 1
    delay_s: float = 0.0
    status: int = 500
    body: bytes = b'{"error_code":500,"message":"trouble on demand"}'
    content_type: str = "application/json"
    headers: Headers = ()
    held: DelayedRequest | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    One request as it came, and what became of it.

    status      of the answer that was handed on; None for none
    reached     how often the worker was asked
    """

    at: float
    method: str
    path: str
    body: bytes
    status: int | None
    reached: int


@dataclass(frozen=True, slots=True)
class Certified:
    """
    Both ends have to be certified by `ca`, on either side of the recorder.

    own     what the recorder shows to whoever asks it, and to the worker
    """

    ca: Path
    own: Certificate

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """For a client or a server, by whom it wants to know."""
        built = ssl.create_default_context(purpose, cafile=self.ca)
        built.load_cert_chain(self.own.cert, self.own.key)
        built.verify_mode = ssl.CERT_REQUIRED
        return built


class _Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes
    half: bool = False
    pause_s: float = 0.0


class Recorder:
    """
    See the module; a context manager, or start() and stop(). All methods from any thread.

    It speaks to one worker, `upstream`, over TLS where `tls` is given. While that one is away,
    connections to here are made and reset: nobody can refuse on another's behalf.
    """

    def __init__(self, upstream: str, tls: Certified | None = None) -> None:
        self._upstream = urlsplit(upstream)
        assert (tls is not None) == (self._upstream.scheme == "https")
        self._tls = None if tls is None else tls.context(ssl.Purpose.SERVER_AUTH)
        self._lock = threading.Lock()
        self._exchanges: list[Exchange] = []
        self._troubles: list[Trouble] = []
        self._weather: Trouble | None = None
        self._server = _Server(self, tls)
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(POLL_S,), daemon=True)
        self.url = f"{self._upstream.scheme}://{LOOPBACK}:{self._server.server_port}"
        """To be configured in place of the worker's."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections; what was written down stays."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # ---- what was asked -----------------------------------------------------------------------

    def exchanges(self) -> list[Exchange]:
        """All that ended, in the order of their ends."""
        with self._lock:
            return list(self._exchanges)

    def changes(self, connector: str | None = None) -> list[Exchange]:
        """What was more than a look; of one connector, or of all."""
        begin = "/" if connector is None else f"/connectors/{connector}/"
        return [
            exchange
            for exchange in self.exchanges()
            if exchange.method not in READS
            and f"{exchange.path.partition('?')[0]}/".startswith(begin)
        ]

    # ---- trouble ------------------------------------------------------------------------------

    def trouble(self, expected: Trouble) -> None:
        """From now on, after what was asked for earlier."""
        with self._lock:
            self._troubles += [expected] * expected.times

    def hold(self, method: str, path: str) -> DelayedRequest:
        """The next such request waits here: whoever made it is known to be in the midst of it."""
        held = DelayedRequest(threading.Event(), threading.Event())
        self.trouble(Trouble(Fault.HELD, method, path, held=held))
        return held

    def weather(self, expected: Trouble) -> None:
        """For all such requests that meet no other trouble, until calm(), however many they are."""
        with self._lock:
            self._weather = expected

    def calm(self) -> None:
        """No more trouble."""
        with self._lock:
            self._troubles.clear()
            self._weather = None

    # ---- for the server -----------------------------------------------------------------------

    def pass_on(self, method: str, path: str, headers: Headers, body: bytes) -> _Answer | None:
        """One request; None where the connection is to break."""
        moment, trouble = time.time(), self._next_trouble(method, path)
        answer, reached = self._answer(trouble, method, path, headers, body)
        status = None if answer is None else answer.status
        with self._lock:
            self._exchanges.append(Exchange(moment, method, path, body, status, reached))
        return answer

    def _answer(
        self, trouble: Trouble | None, method: str, path: str, headers: Headers, body: bytes
    ) -> tuple[_Answer | None, int]:
        """What is handed on, and how often the worker was asked for it."""
        match trouble:
            case Trouble(fault=Fault.ANSWER, status=status, body=said, content_type=kind):
                return _Answer(status, (("Content-Type", kind), *trouble.headers), said), 0
            case Trouble(fault=Fault.CUT_BEFORE):
                return None, 0
            case Trouble(fault=Fault.DELAY, delay_s=delay_s):
                time.sleep(delay_s)
            case Trouble(held=DelayedRequest(come=come, go=go)):
                come.set()
                go.wait(HELD_S_MAX)
        fault = None if trouble is None else trouble.fault
        times = 2 if fault is Fault.TWICE else 1
        answers = [self._forward(method, path, headers, body) for _ in range(times)]
        reached = sum(answer is not None for answer in answers)
        return _spoilt(answers[-1], trouble), reached

    def _forward(self, method: str, path: str, headers: Headers, body: bytes) -> _Answer | None:
        """The worker's answer; None without one."""
        connection = self._connection()
        try:
            inputs = {name: value for name, value in headers if name.lower() not in _OWN_HEADERS}
            connection.request(method, path, body or None, inputs)
            response = connection.getresponse()
            return _Answer(response.status, response.getheaders(), response.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._upstream.hostname, self._upstream.port
        assert host is not None
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=UPSTREAM_S_MAX)
        return http.client.HTTPSConnection(host, port, timeout=UPSTREAM_S_MAX, context=self._tls)

    def _next_trouble(self, method: str, path: str) -> Trouble | None:
        with self._lock:
            for number, expected in enumerate(self._troubles):
                if _meant(expected, method, path):
                    return self._troubles.pop(number)
            weather = self._weather
            return weather if weather is not None and _meant(weather, method, path) else None


def _meant(trouble: Trouble, method: str, path: str) -> bool:
    return trouble.method == method and re.fullmatch(trouble.path, path) is not None


def _spoilt(answer: _Answer | None, trouble: Trouble | None) -> _Answer | None:
    """What is made of the worker's answer on its way back."""
    match trouble:
        case Trouble(fault=Fault.CUT_AFTER):
            return None
        case Trouble(fault=Fault.HALF) if answer is not None:
            return answer._replace(half=True)
        case Trouble(fault=Fault.TRICKLE, delay_s=pause_s) if answer is not None:
            return answer._replace(pause_s=pause_s)
        case Trouble(fault=Fault.GZIP) if answer is not None:
            headers = (*answer.headers, ("Content-Encoding", "gzip"))
            return answer._replace(headers=headers, body=gzip.compress(answer.body))
    return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A daemon that polls and several people at once: the default of five is soon too few.
    request_queue_size = 128

    def __init__(self, recorder: Recorder, tls: Certified | None) -> None:
        self.recorder = recorder
        super().__init__((LOOPBACK, 0), _Handler)
        if tls is not None:
            # Hands are shaken in the thread of a connection: none holds up another one.
            self.socket = tls.context(ssl.Purpose.CLIENT_AUTH).wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone: a timeout of a client, as a rule, and nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        """Any method: none is known to be harmless before it was written down."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
            return
        if not self.parse_request():
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = tuple(self.headers.items())
        answer = self.server.recorder.pass_on(self.command, self.path, headers, body)
        if answer is None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        if answer.status != http.client.NO_CONTENT:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self._send(answer)

    def _send(self, answer: _Answer) -> None:
        body = answer.body[: len(answer.body) // 2] if answer.half else answer.body
        size = TRICKLE_BYTES if answer.pause_s else max(1, len(body))
        for begin in range(0, len(body), size):
            self.wfile.write(body[begin : begin + size])
            self.wfile.flush()
            time.sleep(answer.pause_s)
        if answer.half:
            # Closed in the usual way: the client hears the end, too early, as of a proxy that died.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """All is in the recorder."""
