"""Endpoints of the control API, except the Alertmanager hook, and their OpenAPI document.

Each function calls the remediation API and returns an answer. They run in worker threads, where
they may wait for the disk. To a principal, what it may not see does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from offsetwatch import __version__, documents
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    ChangeRecorded,
    JournalCheckFailed,
    JournalCheckPassed,
    KeyReused,
    PlanDetails,
    PlanHashMismatch,
    ProposalAccepted,
    ProposalExpired,
    ProposalRefused,
    RequestRefusal,
    RequestTargetNotFound,
    SelfApproval,
    Switches,
)
from offsetwatch.remedy.service import RemediationService
from offsetwatch.serve.control.access import AuthenticatedPrincipal, UserRole
from offsetwatch.serve.control.connection import (
    NDJSON,
    NOT_FOUND,
    SCOPE_TOO_SMALL,
    ControlHttpAnswer,
    build_answer,
    build_problem,
)
from offsetwatch.serve.control.request_bodies import (
    Approval,
    BreakerToClose,
    MalformedRequest,
    Reason,
    WantMode,
    WantPause,
    WantPlan,
    build_plan_request,
)

PREFIX: Final = "/api/v1"
LINES_MAX: Final = 1000
JOURNAL_BYTES_MAX: Final = 4 * 1024 * 1024
PLAN_ID: Final = r"[A-Za-z0-9_-]{1,100}"
_SEQ = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """Authenticated and parsed request. `plan_id` is "" if the path has none."""

    service: RemediationService
    by: AuthenticatedPrincipal
    now: float
    plan_id: str = ""
    query: dict[str, str] = field(default_factory=dict)
    key: str = ""
    body: Any = None


@dataclass(frozen=True, slots=True)
class Route:
    """Endpoint of the control API. `says` is its summary in the OpenAPI document.

    of_all      it concerns all connectors: a principal restricted to some is refused
    keyed       it requires an Idempotency-Key
    slow        it may take long: it runs in the worker `slow`, where no stop waits behind it
    statuses    its own statuses, beside those of every endpoint
    """

    method: str
    path: str
    role: UserRole
    says: str
    run: Callable[[Call], ControlHttpAnswer]
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    of_all: bool = False
    keyed: bool = False
    slow: bool = False
    statuses: tuple[int, ...] = (200,)


# --- plans ----------------------------------------------------------------------------------------


def _list_plans(call: Call) -> ControlHttpAnswer:
    state = call.query.get("state")
    if state is not None and state not in set(PlanStatus):
        raise MalformedRequest(f"state: one of {', '.join(PlanStatus)}")
    rows = call.service.plans(None if state is None else PlanStatus(state))
    visible = [row for row in rows if call.by.sees(row.connect_cluster, row.connector)]
    return build_answer({"plans": visible})


def _find_visible_plan(call: Call) -> PlanDetails | None:
    plan = call.service.plan(call.plan_id)
    if plan is None or not call.by.sees(plan.row.connect_cluster, plan.row.connector):
        return None
    return plan


def _get_plan(call: Call) -> ControlHttpAnswer:
    plan = _find_visible_plan(call)
    return NOT_FOUND if plan is None else build_answer(plan)


def _propose(call: Call) -> ControlHttpAnswer:
    request = build_plan_request(call.body, call.key)
    connector = (request.connect_cluster, request.connector)
    if not call.by.sees(*connector) or connector not in call.service.inventory():
        return build_problem(404, "unknown_connector", "there is no such connector")
    outcome = call.service.propose(request, call.by.name)
    if isinstance(outcome, ProposalAccepted):
        location = ("Location", f"{PREFIX}/plans/{outcome.row.plan_id}")
        return build_answer(outcome.row, 201 if outcome.new else 200, location)
    return _answer_outcome(outcome)


def _decide_on_plan(
    decide: Callable[[Call], ChangeRecorded | RequestRefusal],
) -> Callable[[Call], ControlHttpAnswer]:
    """Return the endpoint that records a decision about a plan that the principal may see.

    The connector of a plan never changes, so it is enough to check it before.
    """
    return lambda call: (
        NOT_FOUND if _find_visible_plan(call) is None else _answer_outcome(decide(call))
    )


_approve = _decide_on_plan(
    lambda call: call.service.approve(
        call.plan_id, call.body.plan_sha256, call.by.name, call.body.because
    )
)
_reject = _decide_on_plan(
    lambda call: call.service.reject(call.plan_id, call.by.name, call.body.because)
)
_abort = _decide_on_plan(
    lambda call: call.service.abort(call.plan_id, call.by.name, call.body.because)
)
_resolve = _decide_on_plan(
    lambda call: call.service.resolve(call.plan_id, call.by.name, call.body.because)
)


def _answer_outcome(outcome: ChangeRecorded | RequestRefusal) -> ControlHttpAnswer:
    match outcome:
        case ChangeRecorded():
            return build_answer({"done": True} if outcome.row is None else outcome.row)
        case RequestTargetNotFound():
            return NOT_FOUND
        case PlanHashMismatch():
            said = "this is not the plan that you read: read it again"
            return build_problem(409, "plan_changed", said, plan_sha256=outcome.sha256)
        case ProposalExpired():
            said = "the time for its approval is over"
            return build_problem(409, "plan_expired", said, expired_at=outcome.at)
        case SelfApproval():
            return build_problem(
                403, "self_approval", "a plan needs another approver than its author"
            )
        case AlreadyDecided():
            said = "the state of the plan no longer allows this"
            return build_problem(409, "already_decided", said, state=outcome.state, by=outcome.by)
        case KeyReused():
            said = "this Idempotency-Key was used for another request"
            return build_problem(409, "idempotency_key_reused", said)
        case ProposalRefused():
            return build_problem(422, "refused", outcome.said, guards=outcome.guards)


# --- switches -------------------------------------------------------------------------------------


def _get_mode(call: Call) -> ControlHttpAnswer:
    switches = call.service.switches()
    if not call.by.sees_all:
        switches = Switches(mode=switches.mode, pause=switches.pause, breakers=())
    return build_answer(switches)


def _set_mode(call: Call) -> ControlHttpAnswer:
    body: WantMode = call.body
    return _answer_outcome(call.service.set_mode(body.mode, call.by.name, body.because))


def _pause(call: Call) -> ControlHttpAnswer:
    body: WantPause = call.body
    until = body.until if isinstance(body.until, Moment) else None
    if body.indefinite == (until is not None):
        raise MalformedRequest("give until, or indefinite: true")
    if until is not None and until <= call.now:
        raise MalformedRequest("until: this time is in the past")
    return _answer_outcome(call.service.pause(until, call.by.name, body.because))


def _unpause(call: Call) -> ControlHttpAnswer:
    return _answer_outcome(call.service.unpause(call.by.name, call.body.because))


def _ack_breaker(call: Call) -> ControlHttpAnswer:
    body: BreakerToClose = call.body
    return _answer_outcome(call.service.ack_breaker(body.scope, call.by.name, body.because))


# --- what was done --------------------------------------------------------------------------------


def _read_journal(call: Call) -> ControlHttpAnswer:
    text = call.query.get("from_seq", "1")
    if not _SEQ.fullmatch(text):
        raise MalformedRequest("from_seq: expected a whole number from 1")
    lines: list[bytes] = []
    size = 0
    for line in call.service.journal(int(text), LINES_MAX):
        encoded = msgspec.json.encode(line)
        size += len(encoded) + 1
        if lines and size > JOURNAL_BYTES_MAX:
            break
        lines.append(encoded)
    return ControlHttpAnswer(200, b"".join(line + b"\n" for line in lines), content_type=NDJSON)


def _verify_journal(call: Call) -> ControlHttpAnswer:
    outcome = call.service.verify()
    match outcome:
        case JournalCheckPassed():
            return build_answer({"intact": True, "records": outcome.records})
        case JournalCheckFailed():
            return build_answer({"intact": False, "said": outcome.said})


def _list_connectors(call: Call) -> ControlHttpAnswer:
    rows = [
        {"connect_cluster": cluster, "connector": connector}
        for cluster, connector in sorted(call.service.inventory())
        if call.by.sees(cluster, connector)
    ]
    return build_answer({"connectors": rows})


def _list_quarantine(call: Call) -> ControlHttpAnswer:
    rows = call.service.quarantine()
    visible = [row for row in rows if call.by.sees(row.connect_cluster, row.connector)]
    return build_answer({"quarantine": visible})


def _list_backups(call: Call) -> ControlHttpAnswer:
    return build_answer({"backups": call.service.backups()})


_DECISION_STATUSES: Final = (200, 404, 409)

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/plans", UserRole.VIEWER, "Plans, newest first.", _list_plans, query=("state",)),
    Route(
        "GET",
        "/plans/{id}",
        UserRole.VIEWER,
        "One plan: its steps, and the answers of its guards.",
        _get_plan,
        statuses=(200, 404),
    ),
    Route(
        "POST",
        "/plans",
        UserRole.PROPOSER,
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
        UserRole.APPROVER,
        "Approve exactly this plan. Another operator than its author has to approve.",
        _approve,
        body=Approval,
        statuses=_DECISION_STATUSES,
    ),
    Route(
        "POST",
        "/plans/{id}/reject",
        UserRole.APPROVER,
        "Reject a plan that has not begun.",
        _reject,
        body=Reason,
        statuses=_DECISION_STATUSES,
    ),
    Route(
        "POST",
        "/plans/{id}/abort",
        UserRole.OPERATOR,
        "Roll a plan back as far as possible.",
        _abort,
        body=Reason,
        statuses=_DECISION_STATUSES,
    ),
    Route(
        "POST",
        "/plans/{id}/resolve",
        UserRole.OPERATOR,
        "Close a plan that is parked or in doubt, and leave everything as it is.",
        _resolve,
        body=Reason,
        statuses=_DECISION_STATUSES,
    ),
    Route("GET", "/mode", UserRole.VIEWER, "Mode, pause and open breakers.", _get_mode),
    Route(
        "PUT",
        "/mode",
        UserRole.OPERATOR,
        "Set the mode, at most the configured one.",
        _set_mode,
        body=WantMode,
        of_all=True,
        statuses=(200, 422),
    ),
    Route(
        "POST",
        "/pause",
        UserRole.OPERATOR,
        "Begin no new plan.",
        _pause,
        body=WantPause,
        of_all=True,
    ),
    Route(
        "POST", "/unpause", UserRole.OPERATOR, "End the pause.", _unpause, body=Reason, of_all=True
    ),
    Route(
        "POST",
        "/breakers/ack",
        UserRole.OPERATOR,
        "Close a breaker.",
        _ack_breaker,
        body=BreakerToClose,
        of_all=True,
        statuses=(200, 404),
    ),
    Route(
        "GET",
        "/journal",
        UserRole.VIEWER,
        f"Records from this one on, one JSON object a line, at most {LINES_MAX}.",
        _read_journal,
        query=("from_seq",),
        of_all=True,
    ),
    Route(
        "GET",
        "/journal/verify",
        UserRole.VIEWER,
        "Verify all records and backups.",
        _verify_journal,
        of_all=True,
        slow=True,
    ),
    Route(
        "GET",
        "/connectors",
        UserRole.VIEWER,
        "Connectors for which a plan can be made.",
        _list_connectors,
    ),
    Route("GET", "/quarantine", UserRole.VIEWER, "Copies of skipped records.", _list_quarantine),
    Route("GET", "/backups", UserRole.VIEWER, "Backups.", _list_backups, of_all=True),
)


def run_route(route: Route, call: Call) -> ControlHttpAnswer:
    """Return the answer of an endpoint, after its role was checked.

    Raises MalformedRequest for an invalid body or query.
    """
    if route.of_all and not call.by.sees_all:
        return SCOPE_TOO_SMALL
    return route.run(call)


# --- the OpenAPI document -------------------------------------------------------------------------

HOOK_PATH: Final = "/hooks/alertmanager"
DOCUMENT_PATH: Final = "/openapi.json"
IDEMPOTENCY_KEY_PATTERN: Final = r"^[\x21-\x7e]{1,100}$"
_COMMON_STATUSES: Final = (400, 401, 403, 429)
_BODY_STATUSES: Final = (413, 415)
_REASONS: Final = {
    200: "Done; the answer is the requested document.",
    201: "Made.",
    202: "Taken.",
    400: "The request is malformed.",
    401: "The client is not authenticated.",
    403: "The role of the client does not allow it.",
    404: "There is no such path or object.",
    409: "The state has changed in the meantime.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "No plan can be made, or the configuration forbids this mode.",
    429: "Too many requests.",
    503: "The journal cannot be used: nothing is changed.",
}
_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "state": {"type": "string", "enum": [state.value for state in PlanStatus]},
    "from_seq": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
}


def build_document() -> dict[str, Any]:
    """Build the document, in OpenAPI 3.1."""
    bodies = [route.body for route in ROUTES if route.body is not None]
    _, schemas = documents.build_schemas(dict.fromkeys(bodies))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _build_operation(route)
    paths[PREFIX + HOOK_PATH] = {"post": _build_hook_operation()}
    paths[PREFIX + DOCUMENT_PATH] = {
        "get": {
            "summary": "This document. Needs the role viewer.",
            "responses": _build_responses((200,), body=False, content="application/json"),
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "offsetwatch control", "version": __version__},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**schemas, "Problem": _build_problem_schema()},
        },
    }


def _build_operation(route: Route) -> dict[str, Any]:
    content = NDJSON if route.path == "/journal" else "application/json"
    operation: dict[str, Any] = {
        "summary": f"{route.says} Needs the role {route.role.value}.",
        "responses": _build_responses(route.statuses, body=route.body is not None, content=content),
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": _QUERIES[name]} for name in route.query
    ]
    if re.search(r"\{id\}", route.path):
        schema = {"type": "string", "pattern": f"^{PLAN_ID}$"}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": schema})
    if route.keyed:
        schema = {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN}
        parameters.append(
            {"name": "Idempotency-Key", "in": "header", "required": True, "schema": schema}
        )
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _build_hook_operation() -> dict[str, Any]:
    alert = {
        "type": "object",
        "required": ["status", "labels", "startsAt", "fingerprint"],
        "properties": {
            "status": {"enum": ["firing", "resolved"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "startsAt": {"type": "string", "format": "date-time"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        },
    }
    schema = {
        "type": "object",
        "required": ["version", "alerts"],
        "properties": {
            "version": {"const": "4"},
            "alerts": {"type": "array", "maxItems": 500, "items": alert},
        },
    }
    return {
        "summary": "Alerts, as Alertmanager sends them: hints, never evidence. "
        "Needs the role hook.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _build_responses((202,), body=True, content="application/json"),
    }


def _build_responses(statuses: tuple[int, ...], *, body: bool, content: str) -> dict[str, Any]:
    every = {*statuses, *_COMMON_STATUSES, *(_BODY_STATUSES if body else ()), 503}
    return {str(status): _build_response(status, content) for status in sorted(every)}


def _build_response(status: int, content: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
    if status >= 400:
        return {
            "description": _REASONS[status],
            "content": {"application/json": {"schema": schema}},
        }
    kind = {} if content == NDJSON else {"schema": {"type": "object"}}
    return {"description": _REASONS[status], "content": {content: kind}}


def _build_problem_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string", "pattern": "^[a-z_]+$"},
            "message": {"type": "string"},
        },
    }
