"""A request from its head to an answer. Called by server.py, on its loop.

In this order, so that who is not known learns nothing: is it meant for us, who asks, is there such
an endpoint, may they, is the body one; then, in a worker, the endpoint itself.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import structlog

from offsetwatch.addresses import canonical
from offsetwatch.clock import Clock
from offsetwatch.config import Control, Web
from offsetwatch.config.schema.types import is_loopback
from offsetwatch.errors import JournalDamaged, NotLeader
from offsetwatch.remedy.model.service_api import Desk
from offsetwatch.serve.control import openapi, responses, routes
from offsetwatch.serve.control.access import Principal, Principals, Role
from offsetwatch.serve.control.alertmanager_webhook import read
from offsetwatch.serve.control.connection import BODY_BYTES_MAX, Request
from offsetwatch.serve.control.request_bodies import body_of
from offsetwatch.serve.control.request_counters import Counts
from offsetwatch.serve.control.responses import Answer, problem, told
from offsetwatch.serve.control.routes import PREFIX, Call, Route
from offsetwatch.serve.control.strict_json import Wrong, parsed
from offsetwatch.serve.control.workers import Workers
from offsetwatch.serve.http.auth_failures import Failures
from offsetwatch.serve.web_config.passwords import No, Passwords
from offsetwatch.serve.web_config.tls import allowed

HOOK: Final = PREFIX + openapi.HOOK_PATH
DOCUMENT: Final = PREFIX + openapi.DOCUMENT_PATH
TAKEN: Final = told({"status": "taken"}, 202)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::\d{1,5})?")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_KEY = re.compile(openapi.KEY)
_QUERY_FIELDS_MAX: Final = 8

log = structlog.get_logger()

Found = TypeVar("Found")


class Listener:
    """What is asked over HTTP, of one desk.

    workers     of one thread each: alerts do not wait for people, nor people for alerts, nor
                whoever must stop something for a plan that is worked out
    web         the web config file of now, if there is one
    why_not     see ControlServer
    """

    def __init__(
        self,
        control: Control,
        desk: Desk,
        clock: Clock,
        counts: Counts,
        workers: Workers,
        *,
        web: Callable[[], Web | None] = lambda: None,
        why_not: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._why_not = why_not
        self._desk = desk
        self._clock = clock
        self._counts = counts
        self._workers = workers
        self._failures = Failures()
        self._web = web
        self._passwords = Passwords(Failures(), "control-listener")
        self._document = told(openapi.document())
        self._paths = [
            (re.compile(re.escape(PREFIX + path).replace(r"\{id\}", f"({routes.PLAN_ID})")), found)
            for path, found in _by_path().items()
        ]
        self.follow(control)

    def follow(self, control: Control) -> None:
        """Let in those that this configuration names, from the next request on. Any thread."""
        self._names = _names(control.listen)
        self._principals = Principals(control)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """To be sent with every answer."""
        web = self._web()
        return () if web is None else web.headers

    def end(self) -> None:
        """Nobody asks any more."""
        self._passwords.end()

    async def answer(self, request: Request) -> Answer:
        """Always an answer; whatever goes wrong is logged without a word of the request."""
        path = request.raw_path.partition("?")[0]
        counted = self._counts.hooks if path == HOOK else self._counts.refused
        try:
            found, reason = await self._answer(request, path)
        except Wrong as exc:
            found, reason = problem(400, "malformed", str(exc)), "malformed"
        except NotLeader as exc:
            found, reason = responses.not_leader(str(exc)), "not_leader"
        except JournalDamaged:
            found, reason = responses.NO_JOURNAL, "journal_unavailable"
        except Exception as exc:  # noqa: BLE001 - the outermost frame of a request
            # Without the text of the error, which may quote what was sent: its origin must do.
            log.error("control_failed", kind=type(exc).__name__, at=_origin(exc))  # noqa: TRY400
            found, reason = responses.INTERNAL, "internal_error"
        if reason is not None:
            counted[reason] += 1
        return found

    async def _answer(self, request: Request, path: str) -> tuple[Answer, str | None]:
        """The answer, and if it is a refusal the reason that it is counted under."""
        web = self._web()
        if web is not None and not allowed(request.certificate, web):
            request.cut()  # before anything is said, as all other listeners with such a file do
            return responses.UNAUTHORISED, "unauthorised"
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return responses.MISDIRECTED, "misdirected"
        if "Origin" in request.headers:  # a browser would add its user's certificate by itself
            return responses.BROWSER, "misdirected"
        now = self._clock.now()
        authorization = request.headers.getall("Authorization", [])
        if web is not None and any(at[:6].lower() == "basic " for at in authorization):
            users = web.basic_auth_users
            who = await self._passwords.who(authorization, users, request.address, now)
            if who is No.THROTTLED:
                return responses.THROTTLED, "throttled"
            by = None if isinstance(who, No) else self._principals.of_user(who)
        else:
            by = self._principals.who(authorization, request.certificate, now)
        if by is None:
            return self._unknown(request, now)
        if path == HOOK:
            return await self._hook(request, by)
        return await self._asked(request, path, by, now)

    def _is_ours(self, host: str) -> bool:
        """On loopback by its names alone: a web page's own name may be made to lead here."""
        found = _HOST.fullmatch(host)
        return found is not None and (self._names is None or found[1].lower() in self._names)

    def _unknown(self, request: Request, now: float) -> tuple[Answer, str]:
        if self._failures.again(request.address, now):
            return responses.THROTTLED, "throttled"
        log.warning("control_unauthorised", address=request.address)
        if self._principals.users:
            return responses.UNAUTHORISED_USERS, "unauthorised"
        return responses.UNAUTHORISED, "unauthorised"

    async def _hook(self, request: Request, by: Principal) -> tuple[Answer, str | None]:
        if request.method != "POST":
            return _not_allowed(["POST"]), "malformed"
        if not by.role.allows(Role.HOOK):
            return self._forbidden(by, HOOK)
        body = await _body(request)
        if isinstance(body, Answer):
            return body, "malformed"
        taken = await _in(self._workers.hints, request, lambda: self._take(body, by))
        self._counts.hooks.update(taken)
        # Who leads looks by itself: a hint is never needed, and never a reason to ask again.
        why_not = self._why_not()
        return TAKEN if why_not is None else told({"status": "follows", "said": why_not}, 202), None

    def _take(self, body: bytes, by: Principal) -> Counter[str]:
        """What became of each alert. In the worker."""
        known = self._desk.inventory()
        found = read(parsed(body), lambda *at: at in known and by.sees(*at))
        reasons = Counter(
            "duplicate" if not self._desk.hint(hint) else "new" if hint.firing else "resolved"
            for hint in found.hints
        )
        if found.unknown:
            reasons["unknown_subject"] = found.unknown
        return reasons

    async def _asked(
        self, request: Request, path: str, by: Principal, now: float
    ) -> tuple[Answer, str | None]:
        if path == DOCUMENT and request.method == "GET" and by.role.allows(Role.VIEWER):
            return self._document, None
        plan_id, by_method = self._found(path)
        if not by_method:
            if by.role is Role.HOOK:
                return self._forbidden(by, "other")
            return responses.NOT_FOUND, None
        route = by_method.get(request.method)
        if route is None:
            return _not_allowed(by_method), "malformed"
        if not by.role.allows(route.role):
            return self._forbidden(by, route.path)
        why_not = None if route.method == "GET" else self._why_not()
        if why_not is not None:
            return responses.not_leader(why_not), "not_leader"
        body = b"" if route.body is None else await _body(request)
        if isinstance(body, Answer):
            return body, "malformed"

        def run() -> Answer:
            return routes.run(
                route,
                Call(
                    desk=self._desk,
                    by=by,
                    now=now,
                    plan_id=plan_id,
                    query=_query(request.raw_path, route.query),
                    key=_key(request) if route.keyed else "",
                    body=None if route.body is None else body_of(route.body, parsed(body)),
                ),
            )

        worker = self._workers.slow if route.slow else self._workers.rest
        found = await _in(worker, request, run)
        return found, "forbidden" if found.status == 403 else None

    def _found(self, path: str) -> tuple[str, dict[str, Route]]:
        """The plan that a path names, "" if none, and what can be done there by method. As it was
        sent: what is encoded in it, or climbs in it, is no path of ours.
        """
        for pattern, by_method in self._paths:
            match = pattern.fullmatch(path)
            if match is not None:
                return (match[1] if match.re.groups else "", by_method)
        return "", {}

    def _forbidden(self, by: Principal, path: str) -> tuple[Answer, str]:
        log.warning("control_forbidden", principal=by.name, role=by.role.value, path=path)
        return responses.FORBIDDEN, "forbidden"


async def _in(worker: Executor, request: Request, job: Callable[[], Found]) -> Found:
    request.whole()
    return await asyncio.get_running_loop().run_in_executor(worker, job)


def _by_path() -> dict[str, dict[str, Route]]:
    found: dict[str, dict[str, Route]] = {}
    for route in routes.ROUTES:
        found.setdefault(route.path, {})[route.method] = route
    return found


def _names(listen: str) -> frozenset[str] | None:
    """What a client may call us by; None where a certificate says it."""
    if not is_loopback(listen):
        return None
    host = canonical(listen).rpartition(":")[0]
    return _LOCAL | {host.lower()}


def _not_allowed(methods: Any) -> Answer:
    allow = ("Allow", ", ".join(sorted(methods)))
    return problem(405, "method_not_allowed", "this path has other methods", allow)


async def _body(request: Request) -> bytes | Answer:
    """The whole body, or why it is not read. A compressed one is not: how large it is would be
    known too late.
    """
    kind = request.headers.get("Content-Type", "").replace(" ", "").lower()
    encoded = request.headers.get("Content-Encoding", "identity").lower() != "identity"
    if encoded or kind not in {"application/json", "application/json;charset=utf-8"}:
        return responses.NOT_JSON
    found = await request.read(BODY_BYTES_MAX)
    return responses.TOO_LARGE if found is None else found


def _query(raw_path: str, known: tuple[str, ...]) -> dict[str, str]:
    text = raw_path.partition("?")[2]
    if not text:
        return {}
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, max_num_fields=_QUERY_FIELDS_MAX
        )
    except ValueError:
        raise Wrong("the query cannot be read") from None
    found = dict(pairs)
    if len(found) < len(pairs) or not found.keys() <= set(known):
        raise Wrong(f"the query may have {', '.join(known) or 'nothing'}, and each once")
    return found


def _key(request: Request) -> str:
    found = request.headers.getall("Idempotency-Key", [])
    if len(found) != 1 or not _KEY.fullmatch(found[0]):
        raise Wrong("Idempotency-Key: expected one of 1 to 100 printable characters, no spaces")
    return found[0]


def _origin(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else f"{at.tb_frame.f_globals.get('__name__')}:{at.tb_lineno}"
