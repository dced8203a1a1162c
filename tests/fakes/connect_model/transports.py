"""Ways into a FakeConnect for clients: without a loop (clients.wire.InMemory) or as a transport of
httpx's; and what can go wrong on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from tests.fakes.connect_model.answers import STALE, Reply, refused
from tests.fakes.connect_model.rest import WorkerRequest, serve
from tests.fakes.connect_model.timeline import Process

if TYPE_CHECKING:
    from tests.fakes.connect_model.cluster import FakeConnect
    from tests.fakes.connect_model.worker import Worker

CLIENT_PATIENCE_S: Final = 100.0
HTML: Final = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


class How(StrEnum):
    """What becomes of a request.

    refused     no connection: nothing happens
    dropped     the connection breaks before the request arrives
    lost        it is carried out; the connection breaks before the answer arrives
    late        it arrives `delay_s` from now, when nobody waits for its answer any more; the client
                sees its connection break at once
    slow        the same, but the client waits as long as it wants to, in vain
    answered    a proxy, or a worker in trouble, answers with `status` and `body` in place of the
                real answer; whether the request is carried out is `applied`
    cut         it is carried out, and the answer's body breaks off
    twice       it arrives twice
    """

    REFUSED = "refused"
    DROPPED = "dropped"
    LOST = "lost"
    LATE = "late"
    SLOW = "slow"
    ANSWERED = "answered"
    CUT = "cut"
    TWICE = "twice"


@dataclass(frozen=True)
class Fault:
    """See How. Ready-made ones are below."""

    how: How
    applied: bool = False
    status: int = 500
    body: bytes = b""
    delay_s: float = 0.0


def conflict(message: str = STALE) -> Fault:
    """409, and nothing happened."""
    return Fault(How.ANSWERED, status=409, body=refused(409, message).body)


def error(message: str = "Request timed out", *, applied: bool = False) -> Fault:
    """500, which says nothing of whether it happened."""
    return Fault(How.ANSWERED, applied, 500, refused(500, message).body)


def page(status: int = 200, *, applied: bool = True) -> Fault:
    """HTML of something in between."""
    return Fault(How.ANSWERED, applied, status, HTML)


class TransportExchange(NamedTuple):
    """A request and what became of it; `status` None where no answer came back.

    number      of all requests, from 1; effects name it as `#12`
    change      whether it is no GET
    """

    number: int
    at: float
    who: str
    method: str
    path: str
    body: bytes
    fault: str | None
    status: int | None
    ended: float

    @property
    def change(self) -> bool:
        return self.method != "GET"


class Door:
    """One client's way in.

    faults      the n-th change through this door (from 1) -> what becomes of it
    next_time   (method or None for any change, part of the path as a regular expression, fault):
                the first request that fits, once each
    before      called before each request, and may raise: a process that dies then has sent nothing
    after       called when an answer is there, and may raise: a process that dies then has not
                heard it
    """

    def __init__(self, connect: FakeConnect, who: str) -> None:
        self._connect, self.who = connect, who
        self.faults: dict[int, Fault] = {}
        self.next_time: list[tuple[str | None, str, Fault]] = []
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self.after: Callable[[str, str, int], None] = lambda _method, _path, _status: None
        self.changes = 0
        self._keeps: list[Process] = []

    def exchange(
        self, method: str, url: str, path: str, body: bytes | None, timeout_s: float
    ) -> tuple[int, bytes]:
        """See InMemory: as long as it takes, the world goes on."""
        reply = self.reply(method, url, path, body or b"", timeout_s)
        return reply.status, reply.body

    def request(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Of the first worker that lives."""
        for url in self._connect.urls[:-1]:
            try:
                return self.reply(method, url, path, body, CLIENT_PATIENCE_S)
            except httpx.ConnectError:
                continue
        return self.reply(method, self._connect.urls[-1], path, body, CLIENT_PATIENCE_S)

    def transport(self) -> httpx.AsyncBaseTransport:
        """The same for httpx, which then makes of it what it makes of a socket."""

        async def answer(request: httpx.Request) -> httpx.Response:
            url = f"{request.url.scheme}://{request.url.netloc.decode()}"
            path = request.url.raw_path.decode()
            reply = self.reply(request.method, url, path, request.content, CLIENT_PATIENCE_S)
            headers = {"Content-Type": "application/json"}
            if reply.location is not None:
                headers["Location"] = reply.location
            return httpx.Response(reply.status, headers=headers, content=reply.body)

        return httpx.MockTransport(answer)

    # --- one request -----------------------------------------------------------------------------

    def reply(self, method: str, url: str, path: str, body: bytes, timeout_s: float) -> Reply:
        """Raises what httpx raises."""
        self.before(method, path)
        connect = self._connect
        number = len(connect.requests) + 1
        fault = self._fault(method, path)
        began = connect.line.at
        observed = TransportExchange(
            number,
            began,
            self.who,
            method,
            path,
            body,
            None if fault is None else fault.how,
            None,
            began,
        )
        connect.requests.append(observed)
        status: int | None = None
        try:
            requests = WorkerRequest(method, path, body, f"#{number}")
            reply = self._through(fault, self._worker(url), requests, timeout_s)
            status = reply.status
        finally:
            connect.requests[number - 1] = observed._replace(status=status, ended=connect.line.at)
            if observed.change:
                connect.note(
                    f"#{number} {self.who} {method} {path} -> {status} {observed.fault or ''}"
                )
        self.after(method, path, reply.status)
        return reply

    def _fault(self, method: str, path: str) -> Fault | None:
        if method != "GET":
            self.changes += 1
            if self.changes in self.faults:
                return self.faults.pop(self.changes)
        for offset, (expected, pattern, fault) in enumerate(self.next_time):
            fits = method == expected if expected else method != "GET"
            if fits and re.search(pattern, path):
                del self.next_time[offset]
                return fault
        return None

    def _worker(self, url: str) -> Worker:
        host = urlsplit(url).netloc
        for worker in self._connect.workers:
            if worker.alive and worker.id == host:
                return worker
        raise httpx.ConnectError("Connection refused")

    def _through(
        self, fault: Fault | None, worker: Worker, requests: WorkerRequest, timeout_s: float
    ) -> Reply:
        if fault is None:
            return self._carried_out(worker, requests, timeout_s)
        match fault.how:
            case How.REFUSED:
                raise httpx.ConnectError("Connection refused")
            case How.DROPPED:
                raise httpx.WriteError("Broken pipe")
            case How.LATE | How.SLOW:
                return self._late(fault, worker, requests, timeout_s)
            case How.ANSWERED:
                if fault.applied:
                    self._carried_out(worker, requests, timeout_s)
                return Reply(fault.status, fault.body)
            case How.TWICE:
                self._carried_out(worker, requests, timeout_s)
                return self._carried_out(worker, requests, timeout_s)
        self._carried_out(worker, requests, timeout_s)
        if fault.how == How.CUT:
            raise httpx.RemoteProtocolError(
                "peer closed connection without sending complete message body"
            )
        raise httpx.ReadError("Connection reset by peer")

    def _late(
        self, fault: Fault, worker: Worker, requests: WorkerRequest, timeout_s: float
    ) -> Reply:
        line = self._connect.line

        def arrive() -> None:
            if worker.alive:
                worker.spawn(serve(worker, requests), "late request")

        line.call_after(fault.delay_s, arrive)
        if fault.how == How.SLOW:
            line.run(until=line.at + timeout_s)
            raise httpx.ReadTimeout("no answer")
        raise httpx.ReadError("Connection reset by peer")

    def _carried_out(self, worker: Worker, requests: WorkerRequest, timeout_s: float) -> Reply:
        line = self._connect.line
        served = worker.spawn(serve(worker, requests), f"{requests.method} {requests.path}")
        line.run(until=line.at + timeout_s, stop=lambda: not served.alive)
        if served.alive:
            raise httpx.ReadTimeout("no answer")
        if served.result is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        reply: Reply = served.result
        return reply
