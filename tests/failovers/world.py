"""The world that two replicas act on: a Connect cluster in memory that goes on in real time, over
HTTP, with a door for each of them; and what was asked of it, and what that changed.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from lab.processes.ports import LOOPBACK, free_port
from tests.contract.worlds import SINK_NAME, TOPIC, state, with_sink
from tests.fakes.connect_model import Trouble

GOOD = 3
TURN_S = 0.05


@dataclass(frozen=True)
class Request:
    """One that could change something. `changed`: what it really did."""

    at: float
    who: str
    what: str
    status: int | None
    changed: tuple[str, ...]


class World:
    """See the module. A bad record comes whenever the one before was got past."""

    def __init__(self, seed: int) -> None:
        self.connect = with_sink(records=3)
        self.bad: list[int] = []
        self.requests: list[Request] = []
        self._chance = random.Random(seed)
        self._lock = threading.RLock()
        self._began = time.monotonic() - self.connect.line.at
        self._stop = threading.Event()
        self._change = threading.Event()
        self._awaited = ""
        self._servers: list[ThreadingHTTPServer] = []
        self._threads = [threading.Thread(target=self._go_on, daemon=True)]
        self.more = True

    def url(self, who: str) -> str:
        """A door for this one; it listens from now on."""
        server = ThreadingHTTPServer((LOOPBACK, free_port()), _handler(self, who))
        server.daemon_threads = True
        self._servers.append(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self._threads.append(thread)
        return f"http://{LOOPBACK}:{server.server_port}"

    def start(self) -> None:
        self._threads[0].start()

    def stop(self) -> None:
        self._stop.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(10)

    def _go_on(self) -> None:
        while not self._stop.wait(TURN_S):
            with self._lock:
                self._turn()
                if self.more and self._got_past():
                    self._spoil()

    def _turn(self) -> None:
        """Up to now; an answer may have taken the world a little further."""
        now = time.monotonic() - self._began
        self.connect.line.run(until=max(now, self.connect.line.at))

    @property
    def committed(self) -> int:
        group = self.connect.broker.group(f"connect-{SINK_NAME}")
        return group.offsets.get((TOPIC, 0), 0)

    def _got_past(self) -> bool:
        running = state(self.connect, SINK_NAME) == ("RUNNING", ["RUNNING"])
        return running and len(self.delivered()) == self.end() - len(self.bad)

    def _spoil(self) -> None:
        broker = self.connect.broker
        self.bad.append(self.end())
        broker.produce(TOPIC, b"bad", troubles=(Trouble("value_converter", "data"),))
        for number in range(GOOD):
            broker.produce(TOPIC, b"good %d" % number)

    def end(self) -> int:
        return self.connect.broker.log(TOPIC, 0).end

    def delivered(self) -> set[int]:
        return {item.offset for item in self.connect.delivered[SINK_NAME]}

    def at_rest(self) -> bool:
        """Whether all is delivered, and the connector runs."""
        with self._lock:
            return self._got_past()

    def describe(self) -> str:
        with self._lock:
            return f"{state(self.connect, SINK_NAME)} at {self.committed} of {self.end()}"

    def ask(self, who: str, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """A request on its way: it takes a moment to come, and its answer another one."""
        if method != "GET" and path.endswith(self._awaited):
            self._change.set()
        self._way()
        with self._lock:
            self._turn()
            before = len(self.connect.effects)
            moment, status, answer = time.time(), None, b""
            try:
                reply = self.connect.door(who).request(method, path, body)
                status, answer = reply.status, reply.body
            except httpx.HTTPError:
                pass
            finally:
                if method != "GET":
                    number = f"#{len(self.connect.requests)}"
                    changed = tuple(
                        f"{effect.what} {effect.detail}"
                        for effect in self.connect.effects[before:]
                        if effect.by == number
                    )
                    what = f"{method} {path.rpartition('/')[2]} {body.decode()}".strip()
                    self.requests.append(Request(moment, who, what, status, changed))
        self._way()
        return (502, b"") if status is None else (status, answer)

    def wait_for(self, what: str, seconds: float) -> None:
        """Until somebody asks for a change of this kind, or so long."""
        self._awaited = what
        self._change.clear()
        self._change.wait(seconds)

    def _way(self) -> None:
        with self._lock:
            seconds = self._chance.choice((0.0, 0.0, self._chance.uniform(0.0, 0.2)))
        time.sleep(seconds)


def _handler(world: World, who: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            status, answer = world.ask(who, self.command, self.path, self.rfile.read(length))
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                pass  # who asked is gone, which is what this is about

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


@contextmanager
def world(seed: int) -> Iterator[World]:
    built = World(seed)
    built.start()
    try:
        yield built
    finally:
        built.stop()


def offset_of(body: str) -> int | None:
    """That a PATCH sets."""
    try:
        return int(json.loads(body)["offsets"][0]["offset"]["kafka_offset"])
    except (ValueError, KeyError, IndexError, TypeError):
        return None
