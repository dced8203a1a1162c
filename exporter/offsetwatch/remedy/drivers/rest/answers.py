"""What Connect's answer to a request that changes something is worth.

Its code alone does not tell: 500 stands for a refusal in the connector's own words, for consumers
that have not left yet, for a worker that could not be asked, and for an answer that took longer
than 90 s while the work goes on. Connect's own sentences are known; others are the connector's.
"""

from __future__ import annotations

import re
from typing import Final

from offsetwatch.clients.write.connect import Reply
from offsetwatch.remedy.model.driver import Answer, Outcome

# Connect's own sentences for a change of offsets (Kafka 4.3.1: Worker, HerderRequestHandler,
# RestClient). Any other is what the connector refuses with: it is asked before anything is written.
_DOUBTS = re.compile(
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
_UNREAD = re.compile(
    r"Unrecognized field|Cannot deserialize|Cannot construct instance|Unexpected (?:character|end)"
    r"|JSON parse",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"can be safely retried|zombie sink task|because a rebalance is expected", re.IGNORECASE
)
# The worker that answered could not even connect to its leader, which is gone or just starting.
_NOT_FORWARDED = re.compile(r"IO Error trying to forward.*ConnectException", re.IGNORECASE)
_NOT_STOPPED: Final = "must be in the STOPPED state"
_VOUCHED = re.compile(r"The offsets for this connector have been (?:altered|reset) successfully\.?")
_NO_ROUTE: Final = "HTTP 404 Not Found"
_EXISTS: Final = "already exists"


def of_request(reply: Reply, *, done: frozenset[int]) -> Outcome:
    """Of a request for a state, a restart, a creation or a deletion; `done` are the codes by which
    Connect says yes.
    """
    said = _words(reply)
    if reply.status in done:
        return Outcome(Answer.ACK, said)
    if reply.status == 409 and _EXISTS in said:
        return Outcome(Answer.IN_DOUBT, said)  # an attempt of ours may have come late
    if reply.status in {409, 429} or (reply.status == 404 and reply.said == _NO_ROUTE):
        return Outcome(Answer.RETRY, said)
    if reply.status == 500 and _NOT_FORWARDED.search(said):
        return Outcome(Answer.RETRY, said)
    if 300 <= reply.status < 500:
        return Outcome(Answer.NACK, said)
    if reply.status == 500 and reply.said is not None and _UNREAD.search(reply.said):
        return Outcome(Answer.NACK, said)
    return Outcome(Answer.IN_DOUBT, said)


def of_offsets(reply: Reply) -> Outcome:
    """Of a PATCH or a DELETE of offsets."""
    said = _words(reply)
    if reply.status == 200 and reply.said is not None:
        definite = _VOUCHED.fullmatch(reply.said) is not None
        return Outcome(Answer.ACK, said, definite=definite)
    if reply.status == 400 and _NOT_STOPPED in said:
        return Outcome(Answer.RETRY, said)  # a leader may hear of a stop later than its worker
    if reply.status == 500 and _LATER.search(said):
        return Outcome(Answer.RETRY, said)
    if reply.status == 500 and reply.said and not _DOUBTS.search(reply.said):
        return Outcome(_refusal(reply.said), said)
    return of_request(reply, done=frozenset())


def _refusal(message: str) -> Answer:
    ended_halfway = _FAILURES.search(message) and not _UNSUPPORTED.search(message)
    return Answer.FAILED if ended_halfway else Answer.NACK


def _words(reply: Reply) -> str:
    code = f"HTTP {reply.status}"
    said = reply.said or reply.other
    return code if not said else f"{code}: {said}"
