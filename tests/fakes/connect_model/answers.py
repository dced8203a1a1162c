"""What Connect says no with, how an answer is waited for, and its sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tests.fakes.connect_model.timeline import Signal

if TYPE_CHECKING:
    from tests.fakes.connect_model.worker import Worker

ROUTE: Final = "HTTP 404 Not Found"
REBALANCE: Final = "Request cannot be completed because a rebalance is expected"
STALE: Final = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a "
    "concurrent config change)"
)
NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)
TWO_HOPS: Final = (
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)
NOT_STOPPED: Final = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' "
    "endpoint"
)
NO_OFFSETS: Final = "Partitions / offsets need to be provided for an alter offsets request"
SURE: Final = "The offsets for this connector have been {} successfully"
UNSURE: Final = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. "
    "However, if this connector manages offsets externally, they will need to be manually {0} in "
    "the system that the connector uses."
)
ZOMBIES: Final = (
    "Failed to {0} consumer group offsets for connector {1} either because its tasks haven't "
    "stopped completely yet or the connector was resumed before the request to {0} its offsets "
    "could be successfully completed. If the connector is in a stopped state, this operation can "
    "be safely retried. If it doesn't eventually succeed, the Connect cluster may need to be "
    "restarted to get rid of the zombie sink tasks."
)
NOT_MODIFIABLE: Final = (
    "Failed to modify offsets for connector {} because it doesn't support external modification "
    "of offsets"
)
FENCING: Final = "Failed to perform zombie fencing for source connector prior to modifying offsets"
GONE_WHILE_FORWARDING: Final = (
    "IO Error trying to forward REST request: java.util.concurrent.ExecutionException: "
    "java.io.EOFException: HttpConnectionOverHTTP closed"
)
NOT_FORWARDED: Final = (
    "IO Error trying to forward REST request: java.util.concurrent.ExecutionException: "
    "java.net.ConnectException: Connection refused"
)


class Refusal(Exception):
    """An error of Connect's own, with the code it becomes."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class RebalanceNeeded(Refusal):
    """Becomes a 409 or a 500: that depends on the question."""

    def __init__(self) -> None:
        super().__init__(500, REBALANCE)


class NotHere(Refusal):
    """Another worker has to do it; None where nobody knows which."""

    def __init__(self, worker: Worker | None) -> None:
        super().__init__(409, NO_LEADER)
        self.owner = worker


class Reply(NamedTuple):
    status: int
    body: bytes
    location: str | None = None


def said(status: int, result: Any = None) -> Reply:
    """An answer in JSON, or without a body."""
    if result is None:
        return Reply(status, b"")
    return Reply(status, msgspec.json.encode(result))


def refused(status: int, message: str) -> Reply:
    return said(status, {"error_code": status, "message": message})


class Callback:
    """What a request waits for. Only the first answer counts: who gave up hears of no other."""

    __slots__ = ("done", "error", "has_outcome", "result")

    def __init__(self) -> None:
        self.done, self.has_outcome = Signal(), False
        self.result: Any = None
        self.error: Refusal | None = None

    def complete(self, result: Any = None) -> None:
        if not self.has_outcome:
            self.has_outcome, self.result = True, result
            self.done.notify()

    def fail(self, error: Refusal) -> None:
        if not self.has_outcome:
            self.has_outcome, self.error = True, error
            self.done.notify()
