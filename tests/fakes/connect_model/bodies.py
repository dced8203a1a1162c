"""The bodies of requests as Jackson reads them, and what Connect says of those it cannot."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.fakes.connect_model.answers import NONE_GIVEN, Refusal

_ENTITIES: Final = "org.apache.kafka.connect.runtime.rest.entities"
_WHERE: Final = (
    "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
    "line: 1, column: {}]"
)
_TOKENS: Final = {
    list: ("Array", "START_ARRAY"),
    dict: ("Object", "START_OBJECT"),
    bool: ("Boolean", "VALUE_TRUE"),
    int: ("Integer", "VALUE_NUMBER_INT"),
    float: ("Floating-point", "VALUE_NUMBER_FLOAT"),
    str: ("String", "VALUE_STRING"),
}
_STATES: Final = {"RUNNING": "STARTED", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}


def offsets_of(body: bytes) -> list[tuple[Any, Any]]:
    """(partition, offset) of the body of a PATCH. Raises Refusal."""
    found = _object(body, "ConnectorOffsets", ("offsets",))
    if found is None:
        raise _null("ConnectorOffsets.offsets()", "offsets")
    entries = found.get("offsets")
    if entries is not None and not isinstance(entries, list):
        raise _mismatch("java.util.ArrayList<java.lang.Object>", entries)
    pairs: list[tuple[Any, Any] | None] = []
    for entry in entries or ():
        if entry is None:
            pairs.append(None)
            continue
        _known(entry, "ConnectorOffset", ("offset", "partition"))
        for name in ("partition", "offset"):
            if entry.get(name) is not None and not isinstance(entry[name], dict):
                raise _mismatch(
                    "java.util.LinkedHashMap<java.lang.String,java.lang.Object>", entry[name]
                )
        pairs.append((entry.get("partition"), entry.get("offset")))
    if not pairs:
        raise Refusal(400, NONE_GIVEN)
    given = [pair for pair in pairs if pair is not None]
    if len(given) < len(pairs):
        raise _null("ConnectorOffset.partition()", "offset")
    return given


def creation_of(body: bytes) -> tuple[str, dict[str, Any], str]:
    """Name, configuration and target state of a POST. Raises Refusal."""
    found = _object(body, "CreateConnectorRequest", ("config", "name", "initial_state"))
    if found is None:
        raise _null("CreateConnectorRequest.name()", "createRequest")
    state = found.get("initial_state")
    if state is not None and str(state).upper() not in _STATES:
        kind = f"{_ENTITIES}.CreateConnectorRequest"
        raise Refusal(
            500,
            f"Cannot construct instance of `{kind}$InitialState`, problem: No enum constant "
            f"{kind}.InitialState.{str(state).upper()}{_WHERE.format(1)} (through reference "
            f'chain: {kind}["initial_state"])',
        )
    config = found.get("config") or {}
    name = found.get("name") or config.get("name") or ""
    return str(name), config, _STATES[str(state or "RUNNING").upper()]


def config_of(body: bytes) -> dict[str, Any]:
    """The body of a PUT or PATCH of a configuration. Raises Refusal."""
    found = _parsed(body)
    if not isinstance(found, dict):
        raise _mismatch("java.util.LinkedHashMap<java.lang.String,java.lang.String>", found)
    return found


def _object(body: bytes, entity: str, known: tuple[str, ...]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = _parsed(body)
    if found is not None:
        _known(found, entity, known)
    return found


def _parsed(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except json.JSONDecodeError as exc:
        at = body.decode(errors="replace")[exc.pos : exc.pos + 1]
        if exc.msg.startswith("Expecting property name"):
            words = (
                f"Unexpected character ('{at}' (code {ord(at)})): was expecting double-quote to "
                "start field name"
            )
        elif not at:
            words = "Unexpected end-of-input"
        else:
            words = f"Unexpected character ('{at}' (code {ord(at)}))"
        raise Refusal(500, words + _WHERE.format(exc.colno)) from None
    except UnicodeDecodeError:
        raise Refusal(500, "Invalid UTF-8 start byte" + _WHERE.format(1)) from None


def _known(found: Any, entity: str, known: tuple[str, ...]) -> None:
    if not isinstance(found, dict):
        raise _mismatch(f"{_ENTITIES}.{entity}", found)
    for name in found:
        if name in known:
            continue
        if len(known) == 1:
            listed = f'one known property: "{known[0]}"'
        else:
            listed = f"{len(known)} known properties: " + ", ".join(f'"{each}"' for each in known)
        raise Refusal(
            500,
            f'Unrecognized field "{name}" (class {_ENTITIES}.{entity}), not marked as ignorable '
            f"({listed}){_WHERE.format(1)} (through reference chain: "
            f'{_ENTITIES}.{entity}["{name}"])',
        )


def _mismatch(wanted: str, found: Any) -> Refusal:
    kind, token = _TOKENS[type(found)]
    return Refusal(
        500,
        f"Cannot deserialize value of type `{wanted}` from {kind} value (token "
        f"`JsonToken.{token}`){_WHERE.format(1)}",
    )


def _null(called: str, variable: str) -> Refusal:
    return Refusal(
        500,
        f'Cannot invoke "{_ENTITIES}.{called}" because "{variable}" is null',
    )
