"""Classification of Connect's replies to requests that change something.

The status code is not enough: 500 may be a refusal in the connector's own words, consumers that
have not left yet, a worker that could not be reached, or a reply that took longer than 90 s while
the work continues. Connect's own messages are known; all others are the connector's.
"""

from __future__ import annotations

import re
from typing import Final

from offsetwatch.clients.write.connect import ConnectReply
from offsetwatch.remedy.model.driver import AttemptResult, Outcome

# Connect's own sentences for a change of offsets (Kafka 4.3.1: Worker, HerderRequestHandler,
# RestClient). Any other is what the connector refuses with: it is asked before anything is written.
_IN_DOUBT_MESSAGE = re.compile(
    r"\btimed? ?out|\binterrupted|IO Error trying to forward|Worker is shutting down",
    re.IGNORECASE,
)
# The attempt has ended, perhaps halfway. "Failed to modify offsets for source connector c" also
# stands for whatever a connector throws that is no ConnectException; its words are not passed on.
# An exception without words is "null".
_FAILURES = re.compile(
    r"^Failed to (?:modify|alter|reset|write|perform|delete|list|read)\b|^(?:null)?$",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"^Failed to modify offsets for connector .* because it doesn't support", re.DOTALL
)
# Of other requests a 500 is a refusal only where the request could not be read.
_UNREADABLE_REQUEST = re.compile(
    r"Unrecognized field|Cannot deserialize|Cannot construct instance|Unexpected (?:character|end)"
    r"|JSON parse",
    re.IGNORECASE,
)
_RETRIABLE_MESSAGE = re.compile(
    r"can be safely retried|zombie sink task|because a rebalance is expected", re.IGNORECASE
)
# The worker that answered could not even connect to its leader, which is gone or just starting.
_NOT_FORWARDED = re.compile(r"IO Error trying to forward.*ConnectException", re.IGNORECASE)
_NOT_STOPPED: Final = "must be in the STOPPED state"
_OFFSETS_CHANGED_MESSAGE = re.compile(
    r"The offsets for this connector have been (?:altered|reset) successfully\.?"
)
_NO_ROUTE: Final = "HTTP 404 Not Found"
_EXISTS: Final = "already exists"


def classify_request_reply(reply: ConnectReply, *, done: frozenset[int]) -> Outcome:
    """Classify a reply to a request for a state, a restart, a creation or a deletion.

    `done` has the status codes that mean success.
    """
    said = _format_reply(reply)
    if reply.status in done:
        return Outcome(AttemptResult.ACK, said)
    if reply.status == 409 and _EXISTS in said:
        return Outcome(AttemptResult.IN_DOUBT, said)  # an attempt of ours may have come late
    if reply.status in {409, 429} or (reply.status == 404 and reply.said == _NO_ROUTE):
        return Outcome(AttemptResult.RETRY, said)
    if reply.status == 500 and _NOT_FORWARDED.search(said):
        return Outcome(AttemptResult.RETRY, said)
    if 300 <= reply.status < 500:
        return Outcome(AttemptResult.NACK, said)
    if reply.status == 500 and reply.said is not None and _UNREADABLE_REQUEST.search(reply.said):
        return Outcome(AttemptResult.NACK, said)
    return Outcome(AttemptResult.IN_DOUBT, said)


def classify_offsets_reply(reply: ConnectReply) -> Outcome:
    """Classify a reply to a PATCH or a DELETE of offsets."""
    said = _format_reply(reply)
    if reply.status == 200 and reply.said is not None:
        definite = _OFFSETS_CHANGED_MESSAGE.fullmatch(reply.said) is not None
        return Outcome(AttemptResult.ACK, said, definite=definite)
    if reply.status == 400 and _NOT_STOPPED in said:
        return Outcome(
            AttemptResult.RETRY, said
        )  # a leader may hear of a stop later than its worker
    if reply.status == 500 and _RETRIABLE_MESSAGE.search(said):
        return Outcome(AttemptResult.RETRY, said)
    if reply.status == 500 and reply.said and not _IN_DOUBT_MESSAGE.search(reply.said):
        return Outcome(_classify_refusal(reply.said), said)
    return classify_request_reply(reply, done=frozenset())


def _classify_refusal(message: str) -> AttemptResult:
    ended_halfway = _FAILURES.search(message) and not _UNSUPPORTED.search(message)
    return AttemptResult.FAILED if ended_halfway else AttemptResult.NACK


def _format_reply(reply: ConnectReply) -> str:
    code = f"HTTP {reply.status}"
    said = reply.said or reply.other
    return code if not said else f"{code}: {said}"
