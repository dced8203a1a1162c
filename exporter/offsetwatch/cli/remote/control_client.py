"""The remediation service of a remote daemon, used through its control listener.

The token or the certificate identifies the operator: `by` is not sent. One request is sent at a
time, each once, with limits of time and size. One without a response may have been recorded: read
the state again to find out.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import httpx
import msgspec

from offsetwatch import documents
from offsetwatch.clients.http.bodies import HTML_PAGE, is_html
from offsetwatch.clients.http.client import (
    build_blocking_client,
    describe_redirect,
    read_body_blocking,
)
from offsetwatch.clients.http.exchange import build_connection_error
from offsetwatch.config.files import (
    describe_file_error,
    describe_tls_error,
    parse_tokens,
    read_private_file,
)
from offsetwatch.errors import (
    AccessDenied,
    ConfigError,
    IncompleteResponse,
    JournalDamaged,
    MalformedResponse,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import (
    AlreadyDecided,
    ApprovalAnswer,
    BackupRow,
    ChangeRecorded,
    DecisionAnswer,
    GuardAnswerRow,
    JournalCheckFailed,
    JournalCheckPassed,
    JournalLine,
    KeyReused,
    Mode,
    PlanDetails,
    PlanHashMismatch,
    PlanRequest,
    PlanRow,
    ProposalAccepted,
    ProposalAnswer,
    ProposalExpired,
    ProposalRefused,
    QuarantineRow,
    RequestRefusal,
    RequestTargetNotFound,
    SelfApproval,
    Switches,
)
from offsetwatch.serve.documents.types import UNKNOWN_DOCUMENT

PREFIX: Final = "/api/v1"
TIMEOUT_S: Final = 120.0  # a plan is made while we wait, and Connect may take 90 s to answer
BODY_BYTES_MAX: Final = 16 * 1024 * 1024  # four times the largest page of the journal
_CREDENTIALS_ADVICE: Final = (
    "give --token-file or OFFSETWATCH_TOKEN_FILE, or --cert-file; control.tokens has the tokens"
)
_REFUSED: Final = "it does not know the token that was sent"
_REFUSED_ADVICE: Final = (
    "send one of control.tokens in the daemon's configuration: --token-file or "
    "OFFSETWATCH_TOKEN_FILE names its file"
)
_ADVICE: Final = "check the address, and that the daemon's configuration has a section control"
_ADDRESS: Final = "give --url the address of control.listen in the daemon's configuration"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

DocumentType = TypeVar("DocumentType")


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Address of a control listener, and the credentials for it.

    token    instead of a file with it
    ca_file  authorities to trust besides the system's
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token: str | None = field(default=None, repr=False)


class ControlClientReply(NamedTuple):
    """Status and body of a response."""

    status: int
    body: bytes

    @property
    def fine(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status < 300


class ControlProblem(msgspec.Struct):
    """An error document of the control listener."""

    error: str
    message: str = ""
    plan_sha256: str = ""
    expired_at: Moment = Moment(0)
    state: PlanStatus = PlanStatus.EXPIRED
    by: str | None = None
    guards: tuple[GuardAnswerRow, ...] = ()


class ControlClient:
    """An open connection to one control listener."""

    def __init__(self, listener: ControlEndpoint) -> None:
        self._url = listener.url
        authorization = _build_authorization(listener)
        self._has_token = bool(authorization)
        self._client = build_blocking_client(
            _check_base_url(listener),
            headers={"Accept": "application/json", **authorization},
            timeout_s=TIMEOUT_S,
            verify=_build_tls_context(listener),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(
        self, path: str, kind: type[DocumentType], *, params: dict[str, str] | None = None
    ) -> DocumentType:
        """Return a document. Raises ClientError, JournalDamaged."""
        return self.decode(self.send("GET", path, params=params).body, kind)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        also: frozenset[int] = frozenset(),
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
    ) -> ControlClientReply:
        """Return a response of status 2xx or one of `also`. Raises ClientError, JournalDamaged."""
        content = None if body is None else documents.encode(body)
        kind = {} if content is None else {"Content-Type": "application/json"}
        try:
            with self._client.stream(
                method,
                f"{PREFIX}{path}",
                params=params,
                content=content,
                headers={**kind, **(headers or {})},
            ) as response:
                where = describe_redirect(response.status_code, response.headers.get("Location"))
                if where is not None:
                    raise MalformedResponse(self._url, f"HTTP {response.status_code}: {where}")
                body_read = read_body_blocking(response, BODY_BYTES_MAX)
                if len(body_read) > BODY_BYTES_MAX:
                    said = f"an answer of more than {BODY_BYTES_MAX} bytes"
                    raise SizeLimitExceeded(self._url, said)
                answer = ControlClientReply(response.status_code, body_read)
        except httpx.ConnectError as exc:
            failed = build_connection_error(self._url, exc)
            failed.advice = failed.advice or _ADVICE
            raise failed from exc
        except httpx.ConnectTimeout as exc:
            raise TargetUnreachable(self._url, "no connection in time", _ADVICE) from exc
        except httpx.TimeoutException as exc:
            said = "no answer in time; look whether it was done before asking again"
            raise ResponseTimeout(self._url, said) from exc
        except UnicodeError as exc:  # of a host name with an empty label
            raise TargetUnreachable(self._url, "its host name cannot be resolved", _ADVICE) from exc
        except httpx.HTTPError as exc:
            raise IncompleteResponse(self._url, f"{exc}; look whether it was done") from exc
        if answer.fine or answer.status in also:
            return answer
        raise self.build_error(answer)

    def build_error(self, answer: ControlClientReply) -> Exception:
        """Return the error for a response with an unexpected status."""
        status = answer.status
        try:
            problem = documents.decode(answer.body, ControlProblem)
            error, said = problem.error, problem.message
            if said == UNKNOWN_DOCUMENT:
                return RemoteRefusal(self._url, "a read listener, which changes nothing", _ADDRESS)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            error, said = "", f"HTTP {status}, and no answer of a control listener"
            if is_html(answer.body):
                said = f"HTTP {status} with {HTML_PAGE}, and not a control listener's answer"
        if status in {401, 403}:
            if status != httpx.codes.UNAUTHORIZED:
                return AccessDenied(self._url, said)
            if self._has_token:
                return AccessDenied(self._url, _REFUSED, _REFUSED_ADVICE)
            return AccessDenied(self._url, said, _CREDENTIALS_ADVICE)
        if status == httpx.codes.TOO_MANY_REQUESTS:
            return TooManyRequests(self._url, said)
        if error == "journal_unavailable":
            return JournalDamaged(said)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return ServerError(self._url, said)
        return RemoteRefusal(self._url, said)

    def decode(self, body: bytes, kind: type[DocumentType]) -> DocumentType:
        """Return the document of a body, or of a part of one. Raises MalformedResponse."""
        try:
            return documents.decode(body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            said = HTML_PAGE if is_html(body) else str(exc)
            raise MalformedResponse(self._url, f"no answer of a control listener: {said}") from exc


def _check_base_url(listener: ControlEndpoint) -> str:
    """Return the base URL. Raises ConfigError for an invalid one, or a token over plain HTTP."""
    try:
        parts = urlsplit(listener.url)
        httpx.URL(listener.url)
        host = parts.hostname
    except (ValueError, httpx.InvalidURL) as exc:
        raise ConfigError((f"--url: {exc}",)) from exc
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query:
        raise ConfigError(
            ("--url: expected http://host:port or https://host:port, as in https://host:9641",)
        )
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise ConfigError(
            ("--url: write https:// here: a token is not sent over a network in the clear",)
        )
    return listener.url.rstrip("/").removesuffix(PREFIX)


def _build_authorization(listener: ControlEndpoint) -> dict[str, str]:
    if listener.token is not None:
        try:
            (token,) = parse_tokens(listener.token.strip())
        except ValueError as exc:
            raise ConfigError((f"OFFSETWATCH_TOKEN: {describe_file_error(exc)}",)) from exc
        return {"Authorization": f"Bearer {token}"}
    if listener.token_file is None:
        return {}
    try:
        token = parse_tokens(read_private_file(listener.token_file))[0]
    except (OSError, ValueError) as exc:
        raise ConfigError((f"--token-file: {describe_file_error(exc)}",)) from exc
    return {"Authorization": f"Bearer {token}"}


def _build_tls_context(listener: ControlEndpoint) -> ssl.SSLContext | bool:
    if not listener.url.startswith("https:"):
        return False  # of no meaning: on this machine, in the clear
    context = ssl.create_default_context()
    if listener.ca_file is not None:
        try:
            context.load_verify_locations(listener.ca_file)
        except OSError as exc:  # ssl.SSLError is one
            raise ConfigError((f"--ca-file: {describe_tls_error(exc, authorities=True)}",)) from exc
    if listener.cert_file is not None:
        try:
            context.load_cert_chain(listener.cert_file, listener.key_file)
        except OSError as exc:
            raise ConfigError((f"--cert-file or --key-file: {describe_tls_error(exc)}",)) from exc
    return context


_REFUSAL_STATUSES: Final = frozenset({403, 404, 409, 422})
_PLAN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class _Plans(msgspec.Struct):
    plans: tuple[PlanRow, ...]


class _QuarantineRows(msgspec.Struct):
    quarantine: tuple[QuarantineRow, ...]


class _Backups(msgspec.Struct):
    backups: tuple[BackupRow, ...]


class _Connector(msgspec.Struct):
    connect_cluster: str
    connector: str


class _Connectors(msgspec.Struct):
    connectors: tuple[_Connector, ...]


class _JournalVerification(msgspec.Struct):
    intact: bool
    records: int = 0
    said: str = ""


_REFUSALS: Final[dict[str, Callable[[ControlProblem], RequestRefusal]]] = {
    "not_found": lambda _: RequestTargetNotFound(),
    "unknown_connector": lambda _: RequestTargetNotFound(),
    "plan_changed": lambda problem: PlanHashMismatch(sha256=problem.plan_sha256),
    "plan_expired": lambda problem: ProposalExpired(at=problem.expired_at),
    "self_approval": lambda _: SelfApproval(),
    "already_decided": lambda problem: AlreadyDecided(state=problem.state, by=problem.by),
    "idempotency_key_reused": lambda _: KeyReused(),
    "refused": lambda problem: ProposalRefused(said=problem.message, guards=problem.guards),
}


class RemoteRemediationService:
    """The RemediationService of a daemon over HTTP, for operators.

    Raises ClientError if the listener does not answer or denies the request.
    """

    def __init__(self, listener: ControlEndpoint) -> None:
        self._client = ControlClient(listener)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def inventory(self) -> frozenset[tuple[str, str]]:
        connectors = self._client.get("/connectors", _Connectors).connectors
        return frozenset(
            (connector.connect_cluster, connector.connector) for connector in connectors
        )

    # --- plans -----------------------------------------------------------------------------------

    def plans(self, state: PlanStatus | None = None) -> tuple[PlanRow, ...]:
        query = {} if state is None else {"state": state.value}
        return self._client.get("/plans", _Plans, params=query).plans

    def plan(self, plan_id: str) -> PlanDetails | None:
        reply = self._client.send("GET", _format_plan_path(plan_id), also=frozenset({404}))
        return self._client.decode(reply.body, PlanDetails) if reply.fine else None

    def propose(self, request: PlanRequest, _by: str) -> ProposalAnswer:
        body: dict[str, Any] = {
            "action": request.action.value,
            "connect_cluster": request.connect_cluster,
            "connector": request.connector,
            "because": request.because,
        }
        if request.pair is not None:
            body["partition"] = msgspec.Raw(request.pair.partition.encode())
            body["offset"] = msgspec.Raw((request.pair.offset or "null").encode())
        if request.backup is not None:
            body["backup"] = request.backup
        headers = {"Idempotency-Key": request.key}
        reply = self._client.send("POST", "/plans", body, headers=headers, also=_REFUSAL_STATUSES)
        if reply.fine:
            new = reply.status == httpx.codes.CREATED
            return ProposalAccepted(row=self._client.decode(reply.body, PlanRow), new=new)
        return cast(ProposalAnswer, self._refusal(reply, ProposalAnswer))

    def approve(self, plan_id: str, sha256: str, _by: str, because: str) -> ApprovalAnswer:
        body = {"plan_sha256": sha256, "because": because}
        return cast(ApprovalAnswer, self._decide(plan_id, "approve", body, ApprovalAnswer))

    def reject(self, plan_id: str, _by: str, because: str) -> DecisionAnswer:
        return cast(DecisionAnswer, self._decide(plan_id, "reject", {"because": because}))

    def abort(self, plan_id: str, _by: str, because: str) -> DecisionAnswer:
        return cast(DecisionAnswer, self._decide(plan_id, "abort", {"because": because}))

    def resolve(self, plan_id: str, _by: str, because: str) -> DecisionAnswer:
        return cast(DecisionAnswer, self._decide(plan_id, "resolve", {"because": because}))

    def _decide(
        self,
        plan_id: str,
        decision: str,
        body: dict[str, str],
        expected: UnionType = DecisionAnswer,
    ) -> ChangeRecorded | RequestRefusal:
        path = f"{_format_plan_path(plan_id)}/{decision}"
        reply = self._client.send("POST", path, body, also=_REFUSAL_STATUSES)
        if reply.fine:
            return ChangeRecorded(row=self._client.decode(reply.body, PlanRow))
        return self._refusal(reply, expected)

    def _refusal(
        self, reply: ControlClientReply, expected: UnionType | type[ProposalRefused]
    ) -> RequestRefusal:
        """Return the refusal. Raises ClientError for one that is not among the expected answers."""
        problem = self._client.decode(reply.body, ControlProblem)
        if problem.error in _REFUSALS:
            refusal = _REFUSALS[problem.error](problem)
            if isinstance(refusal, expected):
                return refusal
        raise self._client.build_error(reply)

    # --- switches --------------------------------------------------------------------------------

    def ack_breaker(
        self, scope: str, _by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound:
        body = {"scope": scope, "because": because}
        reply = self._client.send("POST", "/breakers/ack", body, also=frozenset({404}))
        return ChangeRecorded() if reply.fine else RequestTargetNotFound()

    def switches(self) -> Switches:
        return self._client.get("/mode", Switches)

    def set_mode(self, mode: Mode, _by: str, because: str) -> ChangeRecorded | ProposalRefused:
        body = {"mode": mode.value, "because": because}
        reply = self._client.send("PUT", "/mode", body, also=frozenset({422}))
        if reply.fine:
            return ChangeRecorded()
        return cast(ProposalRefused, self._refusal(reply, ProposalRefused))

    def pause(self, until: float | None, _by: str, because: str) -> ChangeRecorded:
        end: dict[str, Any] = {"indefinite": True} if until is None else {"until": Moment(until)}
        self._client.send("POST", "/pause", {**end, "because": because})
        return ChangeRecorded()

    def unpause(self, _by: str, because: str) -> ChangeRecorded:
        self._client.send("POST", "/unpause", {"because": because})
        return ChangeRecorded()

    # --- journal, quarantine and backups ---------------------------------------------------------

    def journal(self, from_seq: int, count_max: int) -> tuple[JournalLine, ...]:
        reply = self._client.send("GET", "/journal", params={"from_seq": str(from_seq)})
        lines = reply.body.splitlines()[:count_max]
        return tuple(self._client.decode(line, JournalLine) for line in lines)

    def verify(self) -> JournalCheckPassed | JournalCheckFailed:
        verification = self._client.get("/journal/verify", _JournalVerification)
        if verification.intact:
            return JournalCheckPassed(records=verification.records)
        return JournalCheckFailed(said=verification.said)

    def quarantine(self) -> tuple[QuarantineRow, ...]:
        return self._client.get("/quarantine", _QuarantineRows).quarantine

    def backups(self) -> tuple[BackupRow, ...]:
        return self._client.get("/backups", _Backups).backups


def _format_plan_path(plan_id: str) -> str:
    if not _PLAN_ID.fullmatch(plan_id):
        raise ConfigError((f"{plan_id}: that is no plan's id; `plan list` prints them",))
    return f"/plans/{plan_id}"
