"""The one HTTP request that a step makes of a Connect worker.

The driver sends what is said here, and a person is shown it before saying yes: they cannot differ.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from offsetwatch.model.connect.paths import build_connector_path
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
    """`path` is encoded; `body` is JSON, None for none."""

    method: str
    path: str
    body: bytes | None = None

    @property
    def said(self) -> str:
        """On a line, for people."""
        line = f"{self.method} {self.path}"
        return line if self.body is None else f"{line} {self.body.decode()}"


def build_step_request(connector: str, step: AnyStep) -> ConnectRequest | None:
    """None where a step asks Connect for nothing. The body of a creation is the connector's
    configuration, which may hold secrets and is in no plan: it has none here.
    """
    match step:
        case ToState(state=state):  # KIP-875, Kafka 3.5
            return ConnectRequest("PUT", _build_path(connector, _STATES[state]))
        case Restart():  # KIP-745, Kafka 3.0
            tasks, failed = (str(flag).lower() for flag in (step.include_tasks, step.only_failed))
            query = f"?includeTasks={tasks}&onlyFailed={failed}"
            return ConnectRequest("POST", _build_path(connector, "restart") + query)
        case Alter(pairs=pairs):  # KIP-875, Kafka 3.6
            return ConnectRequest(
                "PATCH", _build_path(connector, "offsets"), build_offsets_body(pairs)
            )
        case Reset():
            return ConnectRequest("DELETE", _build_path(connector, "offsets"))
        case Delete():
            return ConnectRequest("DELETE", build_connector_path(connector))
        case Create():
            return ConnectRequest("POST", "/connectors")
        case _:
            return None


def _build_path(connector: str, what: str) -> str:
    return build_connector_path(connector, what)


def build_offsets_body(pairs: tuple[PartitionOffset, ...]) -> bytes:
    """The body of a PATCH."""
    entries = [build_offset_entry(pair.partition, pair.offset) for pair in pairs]
    return msgspec.json.encode({"offsets": entries})


def build_offset_entry(
    partition: str, offset: str | None, key: str | None = None
) -> dict[str, msgspec.Raw]:
    """One entry of a PATCH (KIP-875) and of KIP-199, the JSON as it is: integers stay exact. With
    the raw key beside it where that is not the one of a HashMap, which no PATCH may have.
    """
    found = {
        "partition": msgspec.Raw(partition.encode()),
        "offset": msgspec.Raw((offset or "null").encode()),
    }
    return found if key is None else {**found, "key": msgspec.Raw(msgspec.json.encode(key))}
