"""Requests to the control listener, in process: head and body are bytes that are nearly good ones.
Answered with a yes or a no of the client's, whatever they are; and nothing changes for whoever has
no right to it.

`bodies` asks a desk in memory, made anew for every request; `bodies_journal` the real office, and
looks at its journal.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from multidict import CIMultiDict
from structlog.testing import capture_logs

from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.serve.control.connection import NDJSON, ControlHttpAnswer
from offsetwatch.serve.control.dispatcher import (
    ControlDispatcher,
    ControlRequestCounters,
    ControlWorkers,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.remediation_service import MemoryService, plan_row
from tests.fuzz.targets import Parts, Target
from tests.unit.remedy.services import ServiceBench
from tests.unit.serve.control.stage import BECAUSE, ROLES, SKIP, alert, control, payload, token

_PREFIX: Final = "/api/v1"
_PEOPLE: Final = ("viewer", "proposer", "approver", "operator")
_FROM: Final = {name: set(_PEOPLE[offset:]) for offset, name in enumerate(_PEOPLE)}
# Said here anew, and not taken from the routes: who may change anything at all, and where.
_RIGHTS: Final[dict[str, set[str]]] = {
    "POST /plans": _FROM["proposer"],
    "POST /plans/{id}/approve": _FROM["approver"],
    "POST /plans/{id}/reject": _FROM["approver"],
    "POST /plans/{id}/abort": _FROM["operator"],
    "POST /plans/{id}/resolve": _FROM["operator"],
    "PUT /mode": _FROM["operator"],
    "POST /pause": _FROM["operator"],
    "POST /unpause": _FROM["operator"],
    "POST /breakers/ack": _FROM["operator"],
    "POST /hooks/alertmanager": {"hook"},
}
_REASON: Final = {"because": BECAUSE}
_MIRROR: Final = {
    **SKIP,
    "connector": "files",
    "partition": {"cluster": "west", "topic": "orders", "partition": 0},
    "offset": {"offset": 12},
}
_RESTORE: Final = {
    "action": "restore",
    "connect_cluster": "lab",
    "connector": "orders",
    "because": BECAUSE,
    "backup": "2030-01-01-orders.json",
}
_REQUESTS: Final[tuple[tuple[str, str, str, Any], ...]] = (
    ("POST", "/hooks/alertmanager", "hook", payload()),
    ("POST", "/hooks/alertmanager", "hook", payload(alert(status="resolved"), alert())),
    ("POST", "/hooks/alertmanager", "viewer", payload(alert(labels={"partition": "3"}))),
    ("POST", "/plans", "proposer", SKIP),
    ("POST", "/plans", "operator", _MIRROR),
    ("POST", "/plans", "viewer", _RESTORE),
    ("POST", "/plans/p1/approve", "approver", {"plan_sha256": "0" * 64, **_REASON}),
    ("POST", "/plans/p1/reject", "approver", _REASON),
    ("POST", "/plans/p2/abort", "operator", _REASON),
    ("POST", "/plans/p3/resolve", "proposer", _REASON),
    ("PUT", "/mode", "operator", {"mode": "observe", **_REASON}),
    ("PUT", "/mode", "approver", {"mode": "auto", **_REASON}),
    ("POST", "/pause", "operator", {"until": "2030-03-17T17:46:40Z", **_REASON}),
    ("POST", "/pause", "hook", {"indefinite": True, **_REASON}),
    ("POST", "/unpause", "operator", _REASON),
    ("POST", "/breakers/ack", "operator", {"scope": "lab/orders", **_REASON}),
    ("GET", "/plans?state=proposed", "viewer", None),
    ("GET", "/plans/p1", "hook", None),
    ("GET", "/journal?from_seq=1", "viewer", None),
    ("GET", "/journal/verify", "operator", None),
    ("GET", "/mode", "viewer", None),
    ("GET", "/openapi.json", "viewer", None),
)


@dataclass
class _Request:
    """What connection.Request is to the listener."""

    method: str
    raw_path: str
    headers: CIMultiDict[str]
    body: bytes
    address: str = "127.0.0.1"
    certificate: dict[str, Any] | None = None

    def cut(self) -> None:
        pass

    def whole(self) -> None:
        pass

    async def read(self, bytes_max: int) -> bytes | None:
        return None if len(self.body) > bytes_max else self.body


@dataclass
class _ListenerHost:
    """A listener of one process, and its loop; its desk may be another one with every request."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    workers: ControlWorkers = field(default_factory=ControlWorkers)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.listener = ControlDispatcher(
            control(), MemoryService(), self.clock, ControlRequestCounters(), self.workers
        )

    def answer(self, service: Any, request: _Request) -> ControlHttpAnswer:
        self.listener._service = service
        self.clock.advance(60.0)  # so that no failure of before is held against this one
        return self.loop.run_until_complete(self.listener.answer(request))


_place = cache(_ListenerHost)


def _request(head: bytes | None, body: bytes | None) -> _Request:
    """As aiohttp reads them: what is no UTF-8 becomes surrogates."""
    lines = (head or b"").decode("utf-8", "surrogateescape").split("\n")
    method, _, path = lines[0].partition(" ")
    headers = CIMultiDict[str]()
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers.add(name.strip(), value.strip())
    return _Request(method, path, headers, body or b"")


def _judged(answer: ControlHttpAnswer, request: _Request, events: list[Any]) -> None:
    """What holds of every answer."""
    failed = [f"{event.get('kind')} at {event.get('at')}" for event in events if "kind" in event]
    assert 200 <= answer.status < 300 or 400 <= answer.status < 500, (answer.status, *failed)
    if answer.content_type == NDJSON:
        return
    document = json.loads(answer.body)
    assert isinstance(document, dict)
    if answer.status >= 400:
        assert {"error", "message"} <= document.keys()
        assert re.fullmatch(r"[a-z_]+", document["error"])


def may_change(request: _Request) -> bool:
    """Whether somebody asks who has a right to ask this."""
    # After the scheme there may be any number of spaces, and has to be one (RFC 9110, 11.4).
    headers = request.headers.getall("Authorization", [])
    inputs = [re.sub("^[Bb]earer +", "Bearer ", header) for header in headers]
    roles = [role for role in ROLES if inputs == [f"Bearer {token(role)}"]]
    path = request.raw_path.partition("?")[0]
    if not path.startswith(_PREFIX):
        return False
    named = re.sub(r"^/plans/[\w-]+/", "/plans/{id}/", path.removeprefix(_PREFIX))
    return bool(roles) and roles[0] in _RIGHTS.get(f"{request.method} {named}", set())


def _furnished(clock: VirtualClock) -> MemoryService:
    """A desk with a plan in each state that something can be decided in."""
    service = MemoryService(clock)
    for number, state in enumerate((PlanStatus.PROPOSED, PlanStatus.RUNNING, PlanStatus.PARKED), 1):
        service.rows[f"p{number}"] = plan_row(f"p{number}", state=state)
    return service


def in_memory(head: bytes | None, body: bytes | None) -> int:
    """The status of the answer."""
    location, request = _place(), _request(head, body)
    service = _furnished(location.clock)
    with capture_logs() as events:
        answer = location.answer(service, request)
    _judged(answer, request, events)
    changes = len(service.changed) + len(service.hints)
    if changes:
        assert answer.status < 300
        assert may_change(request), (request.method, request.raw_path, service.changed)
    assert len(service.changed) <= 1
    return answer.status


@dataclass
class _JournalService:
    """One on a journal, which is made anew once something stands in it."""

    folder: Path
    made: int = 0
    bureau: ServiceBench | None = None

    def fresh(self) -> ServiceBench:
        if self.bureau is None or self.lines(self.bureau):
            self.made += 1
            self.bureau = ServiceBench(self.folder / f"{id(self)}-{self.made}")
            self.bureau.proposed("p1")
            self.before = self.lines(self.bureau, 0)
        return self.bureau

    def lines(self, bureau: ServiceBench, before: int | None = None) -> int:
        """How many records there are beyond those of the beginning."""
        count = len(bureau.bench.journal.tail(1_000))
        return count - (self.before if before is None else before)


def on_a_journal(
    service: Callable[[], _JournalService], head: bytes | None, body: bytes | None
) -> None:
    location, request = _place(), _request(head, body)
    home = service()
    bureau = home.fresh()
    # Threads keep their connections to a journal: of an office of their own for each request.
    with capture_logs() as events:
        answer = location.answer(bureau.another(), request)
    _judged(answer, request, events)
    if home.lines(bureau):
        assert answer.status < 300
        assert may_change(request), (request.method, request.raw_path)
        assert isinstance(bureau.bench.journal, Journal)
        bureau.bench.journal.verify()


def _head(method: str, path: str, role: str) -> bytes:
    return (
        f"{method} {_PREFIX}{path}\nHost: localhost\nAuthorization: Bearer {token(role)}\n"
        "Content-Type: application/json\nIdempotency-Key: once"
    ).encode()


def _seeds() -> list[Parts]:
    return [
        (_head(method, path, role), None if body is None else json.dumps(body).encode())
        for method, path, role, body in _REQUESTS
    ]


def in_folder(folder: Path) -> list[Target]:
    """The targets, with journals in this folder."""
    service = cache(partial(_JournalService, folder))
    often = (0.3, 0.8)
    return [
        Target("bodies", _seeds(), in_memory, share=39, often=often),
        Target("bodies_journal", _seeds(), partial(on_a_journal, service), often=often),
    ]
