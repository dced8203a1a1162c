"""Answers: JSON, never kept by anybody, and problems in one form:
`{"error": snake_case, "message": for people}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from offsetwatch import documents
from offsetwatch.serve.web_config.passwords import CHALLENGE

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON


def told(document: Any, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """A document."""
    return Answer(status, documents.encode(document) + b"\n", headers)


def problem(
    status: int, error: str, message: str, *headers: tuple[str, str], **more: Any
) -> Answer:
    """Why not."""
    return told({"error": error, "message": message, **more}, status, *headers)


UNAUTHORISED: Final = problem(
    401,
    "unauthorised",
    "a valid bearer token or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
)
UNAUTHORISED_USERS: Final = problem(
    401,
    "unauthorised",
    "a valid bearer token, password or client certificate is required",
    ("WWW-Authenticate", "Bearer"),
    CHALLENGE,
)
THROTTLED: Final = problem(
    429, "throttled", "too many failed attempts from this address", ("Retry-After", "60")
)
NOT_FOUND: Final = problem(404, "not_found", "there is no such path or object")
FORBIDDEN: Final = problem(403, "forbidden", "your role does not allow this")
SCOPED: Final = problem(403, "forbidden", "your role covers some connectors, and this needs all")
MISDIRECTED: Final = problem(403, "misdirected", "the Host header does not name this listener")
BROWSER: Final = problem(403, "no_browsers", "requests from web pages are refused")
TOO_LARGE: Final = problem(413, "too_large", "the body is larger than 1 MiB")
NOT_JSON: Final = problem(415, "not_json", "send application/json, in UTF-8 and not compressed")
BAD_REQUEST: Final = problem(400, "bad_request", "malformed HTTP request")
NO_JOURNAL: Final = problem(
    503, "journal_unavailable", "the journal cannot be used: nothing is changed without it"
)


def not_leader(said: str) -> Answer:
    """Another replica has to be asked, or nobody can be just now."""
    return problem(503, "not_leader", said, ("Retry-After", "5"))


INTERNAL: Final = problem(500, "internal_error", "a bug in offsetwatch: see the daemon's log")
