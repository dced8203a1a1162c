"""REST request of a step: the one HTTP request that it makes to a Connect worker.

The driver sends it, and an operator is shown the same before approving: they cannot differ.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from offsetwatch.model.connectors import build_connector_path
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    PartitionOffset,
    RequestedState,
    Reset,
    Restart,
    ToState,
)

_STATES: Final = {
    RequestedState.STOPPED: "stop",
    RequestedState.PAUSED: "pause",
    RequestedState.RUNNING: "resume",
}


class ConnectRequest(NamedTuple):
    """Request to a Connect worker; `path` is URL-encoded, `body` is JSON, None for none."""

    method: str
    path: str
    body: bytes | None = None

    @property
    def said(self) -> str:
        """Return the request on one line, for users."""
        line = f"{self.method} {self.path}"
        return line if self.body is None else f"{line} {self.body.decode()}"


def build_step_request(connector: str, step: AnyStep) -> ConnectRequest | None:
    """Build the request of a step; None if the step makes none to Connect.

    The body of a creation is the connector's configuration. That may hold secrets and is in no
    plan, so the request has no body here.
    """
    match step:
        case ToState(state=state):  # KIP-875, Kafka 3.5
            return ConnectRequest("PUT", build_connector_path(connector, _STATES[state]))
        case Restart():  # KIP-745, Kafka 3.0
            tasks, failed = (str(flag).lower() for flag in (step.include_tasks, step.only_failed))
            query = f"?includeTasks={tasks}&onlyFailed={failed}"
            return ConnectRequest("POST", build_connector_path(connector, "restart") + query)
        case Alter(pairs=pairs):  # KIP-875, Kafka 3.6
            return ConnectRequest(
                "PATCH", build_connector_path(connector, "offsets"), build_offsets_body(pairs)
            )
        case Reset():
            return ConnectRequest("DELETE", build_connector_path(connector, "offsets"))
        case Delete():
            return ConnectRequest("DELETE", build_connector_path(connector))
        case Create():
            return ConnectRequest("POST", "/connectors")
        case _:
            return None


def build_offsets_body(pairs: tuple[PartitionOffset, ...]) -> bytes:
    """Build the body of a PATCH of offsets."""
    entries = [build_offset_entry(pair.partition, pair.offset) for pair in pairs]
    return msgspec.json.encode({"offsets": entries})


def build_offset_entry(
    partition: str, offset: str | None, key: str | None = None
) -> dict[str, msgspec.Raw]:
    """Build one entry of a PATCH (KIP-875) or of KIP-199 JSON.

    The JSON stays as it is: integers stay exact. `key` adds the raw key if it is not in HashMap
    order; a PATCH may not have one.
    """
    entry = {
        "partition": msgspec.Raw(partition.encode()),
        "offset": msgspec.Raw((offset or "null").encode()),
    }
    return entry if key is None else {**entry, "key": msgspec.Raw(msgspec.json.encode(key))}
