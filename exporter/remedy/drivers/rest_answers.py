"""What Connect's answer to a request that changes something is worth.

Its code alone does not tell: 500 stands for a refusal in the connector's own words, for consumers
that have not left yet, for a worker that could not be asked, and for an answer that took longer
than 90 s while the work goes on. What is not known for a refusal is in doubt.
"""

from __future__ import annotations

import re
from typing import Final

from exporter.clients.write.connect import Reply
from exporter.remedy.model.driver import Answer, Outcome

# Said before anything is done: the request could not be read, or the connector's class does not
# agree with it (FileStream, MM2, sinks of every kind, and what Connect's own code says for them).
_REFUSALS = re.compile(
    r"Unrecognized field|Cannot deserialize|Cannot construct instance|Unexpected (?:character|end)"
    r"|because \"offsets\" is null|JSON parse"
    r"|does(?:n't| not) support|not supported|unsupported"
    r"|(?:may|should|must|can) only contain|should (?:either )?(?:be|contain)|expected to be"
    r"|must (?:not )?be|cannot be (?:null|negative|empty)|is missing the|should be a|need to be "
    r"|invalid value|Invalid ",
    re.IGNORECASE,
)
# Said of these even where the words above occur in them.
_DOUBTS = re.compile(
    r"timed out|time out|timeout|IO Error trying to forward|^Failed to (?:modify|alter|reset|write"
    r"|perform|delete)",
    re.IGNORECASE,
)
_LATER = re.compile(r"can be safely retried|zombie sink task", re.IGNORECASE)
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
    if reply.status == 500 and reply.said is not None and _refused(reply.said):
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
    return of_request(reply, done=frozenset())


def _refused(message: str) -> bool:
    return _DOUBTS.search(message) is None and _REFUSALS.search(message) is not None


def _words(reply: Reply) -> str:
    code = f"HTTP {reply.status}"
    said = reply.said or reply.other
    return code if not said else f"{code}: {said}"
