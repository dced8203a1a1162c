"""Answers of the control listener: JSON documents, and problems in one form.

A problem is `{"error": snake_case, "message": text for the user}`. No answer may be cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from offsetwatch import documents
from offsetwatch.serve.web_config.passwords import CHALLENGE

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class ControlHttpAnswer:
    """Answer to a control request: status, body, headers and content type."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON


def build_answer(document: Any, status: int = 200, *headers: tuple[str, str]) -> ControlHttpAnswer:
    """Build the answer with this document."""
    return ControlHttpAnswer(status, documents.encode(document) + b"\n", headers)


def build_problem(
    status: int, error: str, message: str, *headers: tuple[str, str], **more: Any
) -> ControlHttpAnswer:
    """Build the answer that refuses a request."""
    return build_answer({"error": error, "message": message, **more}, status, *headers)


UNAUTHORISED: Final = build_problem(
    401,
    "unauthorised",
    "a valid bearer token or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
)
UNAUTHORISED_USERS: Final = build_problem(
    401,
    "unauthorised",
    "a valid bearer token, password or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
    CHALLENGE,
)
THROTTLED: Final = build_problem(
    429, "throttled", "too many failed attempts from this address", ("Retry-After", "60")
)
NOT_FOUND: Final = build_problem(404, "not_found", "there is no such path or object")
FORBIDDEN: Final = build_problem(403, "forbidden", "your role does not allow this")
SCOPE_TOO_SMALL: Final = build_problem(
    403, "forbidden", "your role covers some connectors, and this needs all"
)
MISDIRECTED: Final = build_problem(
    403, "misdirected", "the Host header does not name this listener"
)
NO_BROWSERS: Final = build_problem(403, "no_browsers", "requests from web pages are refused")
TOO_LARGE: Final = build_problem(413, "too_large", "the body is larger than 1 MiB")
NOT_JSON: Final = build_problem(
    415, "not_json", "send application/json, in UTF-8 and not compressed"
)
BAD_REQUEST: Final = build_problem(400, "bad_request", "malformed HTTP request")
NO_JOURNAL: Final = build_problem(
    503, "journal_unavailable", "the journal cannot be used: nothing is changed without it"
)


def build_not_leader_answer(said: str) -> ControlHttpAnswer:
    """Build the answer of a replica that does not lead; `said` names the leader, if any."""
    return build_problem(503, "not_leader", said, ("Retry-After", "5"))


INTERNAL_ERROR: Final = build_problem(
    500, "internal_error", "a bug in offsetwatch: see the daemon's log"
)
