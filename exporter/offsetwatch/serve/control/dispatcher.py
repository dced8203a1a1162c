"""Dispatcher of control requests: from the head of a request to its answer.

The checks are in this order, so that an unauthenticated client learns nothing: the Host header, the
principal, the endpoint, its role, the body. Then the endpoint runs in a worker.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import structlog

from offsetwatch.addresses import normalize_address
from offsetwatch.clock import UnixClock
from offsetwatch.config import Control, WebConfig
from offsetwatch.config.schema.types import is_loopback
from offsetwatch.errors import JournalDamaged, NotLeader
from offsetwatch.model.observations import ControlRequestsCounted
from offsetwatch.remedy.service import RemediationService
from offsetwatch.serve.control import connection, routes
from offsetwatch.serve.control.access import AuthenticatedPrincipal, Principals, UserRole
from offsetwatch.serve.control.connection import (
    BODY_BYTES_MAX,
    ControlHttpAnswer,
    ControlRequest,
    build_answer,
    build_problem,
)
from offsetwatch.serve.control.request_bodies import (
    MalformedRequest,
    convert_body,
    parse_json,
    parse_payload,
)
from offsetwatch.serve.control.routes import PREFIX, Call, Route
from offsetwatch.serve.web_config.passwords import (
    AuthFailureCounter,
    PasswordChecker,
    PasswordRejection,
)
from offsetwatch.serve.web_config.reloader import is_certificate_allowed

HOOK: Final = PREFIX + routes.HOOK_PATH
DOCUMENT: Final = PREFIX + routes.DOCUMENT_PATH
ACCEPTED_ANSWER: Final = build_answer({"status": "taken"}, 202)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::\d{1,5})?")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_IDEMPOTENCY_KEY = re.compile(routes.IDEMPOTENCY_KEY_PATTERN)
_QUERY_FIELDS_MAX: Final = 8

log = structlog.get_logger()

JobResult = TypeVar("JobResult")


class ControlWorkers:
    """Three workers of one thread each, started when first needed.

    hints   alerts
    slow    plans to be made, and the journal verified from start to end
    rest    all other requests: those that stop, pause or approve something
    """

    def __init__(self) -> None:
        self.hints = ThreadPoolExecutor(1, thread_name_prefix="control-hints")
        self.slow = ThreadPoolExecutor(1, thread_name_prefix="control-slow")
        self.rest = ThreadPoolExecutor(1, thread_name_prefix="control-desk")

    def end(self, at_end: Callable[[], None]) -> None:
        """Accept no more work; each worker calls `at_end` last. Idempotent."""
        for worker in (self.hints, self.slow, self.rest):
            with suppress(RuntimeError):  # it was shut down before
                worker.submit(at_end)
            worker.shutdown(wait=False)


class ControlRequestCounters:
    """Counters of the control listener.

    hooks     alerts by outcome, and refused requests with alerts by reason
    refused   all other refused requests and connections, by reason
    """

    def __init__(self) -> None:
        self.hooks: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def current(self) -> ControlRequestsCounted:
        """Return the current counts."""
        return ControlRequestsCounted(
            tuple(sorted(self.hooks.items())), tuple(sorted(self.refused.items()))
        )


class ControlDispatcher:
    """Dispatcher of control requests to one remediation API.

    workers     of one thread each: alerts do not wait for operators, operators not for alerts, and
                a stop not for a plan that is being made
    web         the current web config file, if there is one
    why_not     as in ControlServer
    """

    def __init__(
        self,
        control: Control,
        remediation_api: RemediationService,
        clock: UnixClock,
        counts: ControlRequestCounters,
        workers: ControlWorkers,
        *,
        web: Callable[[], WebConfig | None] = lambda: None,
        why_not: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._why_not = why_not
        self._service = remediation_api
        self._clock = clock
        self._counts = counts
        self._workers = workers
        self._failures = AuthFailureCounter()
        self._web = web
        self._passwords = PasswordChecker(AuthFailureCounter(), "control-listener")
        self._document = build_answer(routes.build_document())
        self._paths = [
            (
                re.compile(re.escape(PREFIX + path).replace(r"\{id\}", f"({routes.PLAN_ID})")),
                handlers,
            )
            for path, handlers in _group_routes_by_path().items()
        ]
        self.follow(control)

    def follow(self, control: Control) -> None:
        """Use the principals of this configuration from the next request on. Any thread."""
        self._names = _list_host_names(control.listen)
        self._principals = Principals(control)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers to send with every answer."""
        web = self._web()
        return () if web is None else web.headers

    def end(self) -> None:
        """End the thread that checks passwords."""
        self._passwords.end()

    async def answer(self, request: ControlRequest) -> ControlHttpAnswer:
        """Return an answer, whatever goes wrong. Errors are logged without text of the request."""
        path = request.raw_path.partition("?")[0]
        counted = self._counts.hooks if path == HOOK else self._counts.refused
        try:
            answer, reason = await self._answer(request, path)
        except MalformedRequest as exc:
            answer, reason = build_problem(400, "malformed", str(exc)), "malformed"
        except NotLeader as exc:
            answer, reason = connection.build_not_leader_answer(str(exc)), "not_leader"
        except JournalDamaged:
            answer, reason = connection.NO_JOURNAL, "journal_unavailable"
        except Exception as exc:  # noqa: BLE001 - the outermost frame of a request
            # Without the text of the error, which may quote what was sent: its origin must do.
            log.error("control_failed", kind=type(exc).__name__, at=_find_origin(exc))  # noqa: TRY400
            answer, reason = connection.INTERNAL_ERROR, "internal_error"
        if reason is not None:
            counted[reason] += 1
        return answer

    async def _answer(
        self, request: ControlRequest, path: str
    ) -> tuple[ControlHttpAnswer, str | None]:
        """Return the answer, and for a refusal the reason under which it is counted."""
        web = self._web()
        if web is not None and not is_certificate_allowed(request.certificate, web):
            request.cut()  # before anything is said, as all other listeners with such a file do
            return connection.UNAUTHORISED, "unauthorised"
        # On loopback only local names count: that of a web page may resolve to this listener.
        hosts = request.headers.getall("Host", [])
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None or (self._names is not None and host[1].lower() not in self._names):
            return connection.MISDIRECTED, "misdirected"
        if "Origin" in request.headers:  # a browser would add its user's certificate by itself
            return connection.NO_BROWSERS, "misdirected"
        now = self._clock.now()
        authorization = request.headers.getall("Authorization", [])
        if web is not None and any(name[:6].lower() == "basic " for name in authorization):
            users = web.basic_auth_users
            user = await self._passwords.authenticate(authorization, users, request.address, now)
            if user is PasswordRejection.THROTTLED:
                return connection.THROTTLED, "throttled"
            by = None if isinstance(user, PasswordRejection) else self._principals.of_user(user)
        else:
            by = self._principals.authenticate(authorization, request.certificate, now)
        if by is None:
            return self._refuse_unknown(request, now)
        if path == HOOK:
            return await self._hook(request, by)
        return await self._run_endpoint(request, path, by, now)

    def _refuse_unknown(self, request: ControlRequest, now: float) -> tuple[ControlHttpAnswer, str]:
        if self._failures.again(request.address, now):
            return connection.THROTTLED, "throttled"
        log.warning("control_unauthorised", address=request.address)
        if self._principals.users:
            return connection.UNAUTHORISED_USERS, "unauthorised"
        return connection.UNAUTHORISED, "unauthorised"

    async def _hook(
        self, request: ControlRequest, by: AuthenticatedPrincipal
    ) -> tuple[ControlHttpAnswer, str | None]:
        if request.method != "POST":
            return _refuse_method(["POST"]), "malformed"
        if not by.role.allows(UserRole.HOOK):
            return self._forbidden(by, HOOK)
        body = await _read_body(request)
        if isinstance(body, ControlHttpAnswer):
            return body, "malformed"
        taken = await _run_in_worker(self._workers.hints, request, lambda: self._take(body, by))
        self._counts.hooks.update(taken)
        # Who leads looks by itself: a hint is never needed, and never a reason to ask again.
        why_not = self._why_not()
        return ACCEPTED_ANSWER if why_not is None else build_answer(
            {"status": "follows", "said": why_not}, 202
        ), None

    def _take(self, body: bytes, by: AuthenticatedPrincipal) -> Counter[str]:
        """Pass the hints of a payload to the remediation API. Runs in the worker.

        Return the number of alerts by outcome.
        """
        known = self._service.inventory()
        hints = parse_payload(parse_json(body), lambda *key: key in known and by.sees(*key))
        reasons = Counter(
            "duplicate" if not self._service.hint(hint) else "new" if hint.firing else "resolved"
            for hint in hints.hints
        )
        if hints.unknown:
            reasons["unknown_subject"] = hints.unknown
        return reasons

    async def _run_endpoint(
        self, request: ControlRequest, path: str, by: AuthenticatedPrincipal, now: float
    ) -> tuple[ControlHttpAnswer, str | None]:
        if path == DOCUMENT and request.method == "GET" and by.role.allows(UserRole.VIEWER):
            return self._document, None
        # The path is matched as it was sent: one with encoded characters or `..` has no routes.
        matches = (
            (match, by_method)
            for pattern, by_method in self._paths
            if (match := pattern.fullmatch(path)) is not None
        )
        match, by_method = next(matches, (None, {}))
        plan_id = match[1] if match is not None and match.re.groups else ""
        if not by_method:
            if by.role is UserRole.HOOK:
                return self._forbidden(by, "other")
            return connection.NOT_FOUND, None
        route = by_method.get(request.method)
        if route is None:
            return _refuse_method(by_method), "malformed"
        if not by.role.allows(route.role):
            return self._forbidden(by, route.path, route.role)
        why_not = None if route.method == "GET" else self._why_not()
        if why_not is not None:
            return connection.build_not_leader_answer(why_not), "not_leader"
        body = b"" if route.body is None else await _read_body(request)
        if isinstance(body, ControlHttpAnswer):
            return body, "malformed"

        def run() -> ControlHttpAnswer:
            return routes.run_route(
                route,
                Call(
                    service=self._service,
                    by=by,
                    now=now,
                    plan_id=plan_id,
                    query=_parse_query(request.raw_path, route.query),
                    key=_read_idempotency_key(request) if route.keyed else "",
                    body=None if route.body is None else convert_body(route.body, parse_json(body)),
                ),
            )

        worker = self._workers.slow if route.slow else self._workers.rest
        answer = await _run_in_worker(worker, request, run)
        return answer, "forbidden" if answer.status == 403 else None

    def _forbidden(
        self, by: AuthenticatedPrincipal, path: str, needed: UserRole | None = None
    ) -> tuple[ControlHttpAnswer, str]:
        log.warning("control_forbidden", principal=by.name, role=by.role.value, path=path)
        if needed is None:
            return connection.FORBIDDEN, "forbidden"
        return connection.build_role_refusal(by.role.value, needed.value), "forbidden"


async def _run_in_worker(
    worker: Executor, request: ControlRequest, job: Callable[[], JobResult]
) -> JobResult:
    request.whole()
    return await asyncio.get_running_loop().run_in_executor(worker, job)


def _group_routes_by_path() -> dict[str, dict[str, Route]]:
    grouped: dict[str, dict[str, Route]] = {}
    for route in routes.ROUTES:
        grouped.setdefault(route.path, {})[route.method] = route
    return grouped


def _list_host_names(listen: str) -> frozenset[str] | None:
    """Return the host names that clients may use; None off loopback, where TLS checks the name."""
    if not is_loopback(listen):
        return None
    host = normalize_address(listen).rpartition(":")[0]
    return _LOOPBACK_NAMES | {host.lower()}


def _refuse_method(methods: Any) -> ControlHttpAnswer:
    allow = ("Allow", ", ".join(sorted(methods)))
    return build_problem(405, "method_not_allowed", "this path has other methods", allow)


async def _read_body(request: ControlRequest) -> bytes | ControlHttpAnswer:
    """Return the whole body, or the answer that refuses it.

    A compressed body is refused: its size would be known too late.
    """
    kind = request.headers.get("Content-Type", "").replace(" ", "").lower()
    encoded = request.headers.get("Content-Encoding", "identity").lower() != "identity"
    if encoded or kind not in {"application/json", "application/json;charset=utf-8"}:
        return connection.NOT_JSON
    body = await request.read(BODY_BYTES_MAX)
    return connection.TOO_LARGE if body is None else body


def _parse_query(raw_path: str, known: tuple[str, ...]) -> dict[str, str]:
    text = raw_path.partition("?")[2]
    if not text:
        return {}
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, max_num_fields=_QUERY_FIELDS_MAX
        )
    except ValueError:
        raise MalformedRequest("the query cannot be read") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs) or not parameters.keys() <= set(known):
        raise MalformedRequest(f"the query may have {', '.join(known) or 'nothing'}, and each once")
    return parameters


def _read_idempotency_key(request: ControlRequest) -> str:
    keys = request.headers.getall("Idempotency-Key", [])
    if len(keys) != 1 or not _IDEMPOTENCY_KEY.fullmatch(keys[0]):
        raise MalformedRequest(
            "Idempotency-Key: expected one of 1 to 100 printable characters, no spaces"
        )
    return keys[0]


def _find_origin(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else f"{at.tb_frame.f_globals.get('__name__')}:{at.tb_lineno}"
