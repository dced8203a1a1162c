"""The endpoints, but for the hook: one function each, from a call to the desk to an answer.

They run in workers of their own, where they may wait for the disk. What a principal is not to see
is to them as if it were not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    Damaged,
    Desk,
    Done,
    Expired,
    Intact,
    KeyReused,
    NotFound,
    PlanState,
    PlanTold,
    Proposed,
    Refused,
    SelfApproval,
    Stale,
    Switches,
)
from offsetwatch.serve.control.access import Principal, Role
from offsetwatch.serve.control.request_bodies import (
    Approval,
    BreakerSeen,
    Reason,
    WantMode,
    WantPause,
    WantPlan,
    asked,
)
from offsetwatch.serve.control.responses import NDJSON, NOT_FOUND, SCOPED, Answer, problem, told
from offsetwatch.serve.control.strict_json import Wrong

PREFIX: Final = "/api/v1"
LINES_MAX: Final = 1000
JOURNAL_BYTES_MAX: Final = 4 * 1024 * 1024
PLAN_ID: Final = r"[A-Za-z0-9_-]{1,100}"
_SEQ = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, recognised and read. `plan_id` is "" where the path has none."""

    desk: Desk
    by: Principal
    now: float
    plan_id: str = ""
    query: dict[str, str] = field(default_factory=dict)
    key: str = ""
    body: Any = None


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint. `says` is for the document that describes it.

    of_all      it is about all connectors, so nobody who is held to some may ask
    keyed       it wants an Idempotency-Key
    slow        it may take its time: nobody who must stop something waits behind it
    statuses    what it answers beside what every endpoint may
    """

    method: str
    path: str
    role: Role
    says: str
    run: Callable[[Call], Answer]
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    of_all: bool = False
    keyed: bool = False
    slow: bool = False
    statuses: tuple[int, ...] = (200,)


# --- plans ----------------------------------------------------------------------------------------


def _plans(call: Call) -> Answer:
    wanted = call.query.get("state")
    if wanted is not None and wanted not in set(PlanState):
        raise Wrong(f"state: one of {', '.join(PlanState)}")
    rows = call.desk.plans(None if wanted is None else PlanState(wanted))
    shown = [row for row in rows if call.by.sees(row.connect_cluster, row.connector)]
    return told({"plans": shown})


def _seen(call: Call) -> PlanTold | None:
    found = call.desk.plan(call.plan_id)
    if found is None or not call.by.sees(found.row.connect_cluster, found.row.connector):
        return None
    return found


def _plan(call: Call) -> Answer:
    found = _seen(call)
    return NOT_FOUND if found is None else told(found)


def _propose(call: Call) -> Answer:
    wish = asked(call.body, call.key)
    subject = (wish.connect_cluster, wish.connector)
    if not call.by.sees(*subject) or subject not in call.desk.inventory():
        return problem(404, "unknown_connector", "there is no such connector")
    outcome = call.desk.propose(wish, call.by.name)
    if isinstance(outcome, Proposed):
        where = ("Location", f"{PREFIX}/plans/{outcome.row.plan_id}")
        return told(outcome.row, 201 if outcome.new else 200, where)
    return _no(outcome)


def _approve(call: Call) -> Answer:
    body: Approval = call.body
    return _of_plan(
        call,
        lambda: call.desk.approve(call.plan_id, body.plan_sha256, call.by.name, body.because),
    )


def _reject(call: Call) -> Answer:
    return _of_plan(call, lambda: call.desk.reject(call.plan_id, call.by.name, call.body.because))


def _abort(call: Call) -> Answer:
    return _of_plan(call, lambda: call.desk.abort(call.plan_id, call.by.name, call.body.because))


def _resolve(call: Call) -> Answer:
    return _of_plan(call, lambda: call.desk.resolve(call.plan_id, call.by.name, call.body.because))


No = NotFound | Stale | Expired | SelfApproval | AlreadyDecided | KeyReused | Refused


def _of_plan(call: Call, decide: Callable[[], Done | No]) -> Answer:
    """A decision about a plan. Which connector a plan is of never changes, so looking before is
    soon enough.
    """
    if _seen(call) is None:
        return NOT_FOUND
    outcome = decide()
    return _done(outcome) if isinstance(outcome, Done) else _no(outcome)


def _done(outcome: Done) -> Answer:
    return told({"done": True} if outcome.row is None else outcome.row)


def _no(outcome: No) -> Answer:
    match outcome:
        case NotFound():
            return NOT_FOUND
        case Stale():
            said = "this is not the plan that you read: read it again"
            return problem(409, "plan_changed", said, plan_sha256=outcome.sha256)
        case Expired():
            said = "the time for its approval is over"
            return problem(409, "plan_expired", said, expired_at=outcome.at)
        case SelfApproval():
            return problem(403, "self_approval", "a plan needs another approver than its author")
        case AlreadyDecided():
            said = "the state of the plan no longer allows this"
            return problem(409, "already_decided", said, state=outcome.state, by=outcome.by)
        case KeyReused():
            said = "this Idempotency-Key was used for another request"
            return problem(409, "idempotency_key_reused", said)
        case Refused():
            return problem(422, "refused", outcome.said, guards=outcome.guards)


# --- switches -------------------------------------------------------------------------------------


def _mode(call: Call) -> Answer:
    found = call.desk.switches()
    if not call.by.sees_all:
        found = Switches(mode=found.mode, pause=found.pause, breakers=())
    return told(found)


def _set_mode(call: Call) -> Answer:
    body: WantMode = call.body
    return _done(call.desk.set_mode(body.mode, call.by.name, body.because))


def _pause(call: Call) -> Answer:
    body: WantPause = call.body
    until = body.until if isinstance(body.until, Moment) else None
    if body.indefinite == (until is not None):
        raise Wrong("give until, or indefinite: true")
    if until is not None and until <= call.now:
        raise Wrong("until: this time is in the past")
    return _done(call.desk.pause(until, call.by.name, body.because))


def _unpause(call: Call) -> Answer:
    return _done(call.desk.unpause(call.by.name, call.body.because))


def _ack_breaker(call: Call) -> Answer:
    body: BreakerSeen = call.body
    outcome = call.desk.ack_breaker(body.scope, call.by.name, body.because)
    return _done(outcome) if isinstance(outcome, Done) else _no(outcome)


# --- what was done --------------------------------------------------------------------------------


def _journal(call: Call) -> Answer:
    text = call.query.get("from_seq", "1")
    if not _SEQ.fullmatch(text):
        raise Wrong("from_seq: expected a whole number from 1")
    lines: list[bytes] = []
    size = 0
    for line in call.desk.journal(int(text), LINES_MAX):
        encoded = msgspec.json.encode(line)
        size += len(encoded) + 1
        if lines and size > JOURNAL_BYTES_MAX:
            break
        lines.append(encoded)
    return Answer(200, b"".join(line + b"\n" for line in lines), content_type=NDJSON)


def _verify(call: Call) -> Answer:
    outcome = call.desk.verify()
    match outcome:
        case Intact():
            return told({"intact": True, "records": outcome.records})
        case Damaged():
            return told({"intact": False, "said": outcome.said})


def _connectors(call: Call) -> Answer:
    rows = [
        {"connect_cluster": cluster, "connector": connector}
        for cluster, connector in sorted(call.desk.inventory())
        if call.by.sees(cluster, connector)
    ]
    return told({"connectors": rows})


def _quarantine(call: Call) -> Answer:
    rows = call.desk.quarantine()
    shown = [row for row in rows if call.by.sees(row.connect_cluster, row.connector)]
    return told({"quarantine": shown})


def _backups(call: Call) -> Answer:
    return told({"backups": call.desk.backups()})


_DECIDED: Final = (200, 404, 409)

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/plans", Role.VIEWER, "Plans, newest first.", _plans, query=("state",)),
    Route(
        "GET",
        "/plans/{id}",
        Role.VIEWER,
        "One plan: its steps, and the answers of its guards.",
        _plan,
        statuses=(200, 404),
    ),
    Route(
        "POST",
        "/plans",
        Role.PROPOSER,
        "Make a plan. Repeated requests with the same key give the same plan.",
        _propose,
        body=WantPlan,
        keyed=True,
        slow=True,
        statuses=(200, 201, 404, 409, 422),
    ),
    Route(
        "POST",
        "/plans/{id}/approve",
        Role.APPROVER,
        "Approve exactly this plan. Another operator than its author has to approve.",
        _approve,
        body=Approval,
        statuses=_DECIDED,
    ),
    Route(
        "POST",
        "/plans/{id}/reject",
        Role.APPROVER,
        "Reject a plan that has not begun.",
        _reject,
        body=Reason,
        statuses=_DECIDED,
    ),
    Route(
        "POST",
        "/plans/{id}/abort",
        Role.OPERATOR,
        "Roll a plan back as far as possible.",
        _abort,
        body=Reason,
        statuses=_DECIDED,
    ),
    Route(
        "POST",
        "/plans/{id}/resolve",
        Role.OPERATOR,
        "Close a plan that is parked or in doubt, and leave everything as it is.",
        _resolve,
        body=Reason,
        statuses=_DECIDED,
    ),
    Route("GET", "/mode", Role.VIEWER, "Mode, pause and open breakers.", _mode),
    Route("PUT", "/mode", Role.OPERATOR, "Set the mode.", _set_mode, body=WantMode, of_all=True),
    Route(
        "POST", "/pause", Role.OPERATOR, "Begin no new plan.", _pause, body=WantPause, of_all=True
    ),
    Route("POST", "/unpause", Role.OPERATOR, "End the pause.", _unpause, body=Reason, of_all=True),
    Route(
        "POST",
        "/breakers/ack",
        Role.OPERATOR,
        "Close a breaker.",
        _ack_breaker,
        body=BreakerSeen,
        of_all=True,
        statuses=(200, 404),
    ),
    Route(
        "GET",
        "/journal",
        Role.VIEWER,
        f"Records from this one on, one JSON object a line, at most {LINES_MAX}.",
        _journal,
        query=("from_seq",),
        of_all=True,
    ),
    Route(
        "GET",
        "/journal/verify",
        Role.VIEWER,
        "Verify all records and backups.",
        _verify,
        of_all=True,
        slow=True,
    ),
    Route(
        "GET", "/connectors", Role.VIEWER, "Connectors for which a plan can be made.", _connectors
    ),
    Route("GET", "/quarantine", Role.VIEWER, "Copies of skipped records.", _quarantine),
    Route("GET", "/backups", Role.VIEWER, "Backups.", _backups, of_all=True),
)


def run(route: Route, call: Call) -> Answer:
    """The answer of an endpoint, once its role was looked at. Raises Wrong for a body or a query
    that does not hold together.
    """
    if route.of_all and not call.by.sees_all:
        return SCOPED
    return route.run(call)
