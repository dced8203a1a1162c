"""The bodies of requests as Jackson reads them, and what Connect says of those it cannot."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.fakes.connect_model.answers import NO_OFFSETS, Refusal

_ENTITIES: Final = "org.apache.kafka.connect.runtime.rest.entities"
_WHERE: Final = (
    "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
    "line: 1, column: {}]"
)
_MAP: Final = "java.util.LinkedHashMap"
_ENDED: Final = "Unexpected end-of-input"
_STATES: Final = {"RUNNING": "STARTED", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}

Chain = tuple[str, ...]


def offsets_of(body: bytes) -> list[tuple[Any, Any]]:
    """(partition, offset) of the body of a PATCH. Raises Refusal."""
    result = _entity(_parsed(body), "ConnectorOffsets", ("offsets",), ())
    if result is None:
        raise _null("ConnectorOffsets.offsets()", "offsets")
    here: Chain = (f'{_ENTITIES}.ConnectorOffsets["offsets"]',)
    entries = result.get("offsets")
    if entries is not None and not isinstance(entries, list):
        raise _mismatch(f"java.util.ArrayList<{_ENTITIES}.ConnectorOffset>", entries, here)
    pairs = [
        _pair(entry, (*here, f"java.util.ArrayList[{number}]"))
        for number, entry in enumerate(entries or ())
    ]
    if not pairs:
        raise Refusal(400, NO_OFFSETS)
    inputs = [pair for pair in pairs if pair is not None]
    if len(inputs) < len(pairs):
        raise _null("ConnectorOffset.partition()", "offset")
    return inputs


def _pair(result: Any, here: Chain) -> tuple[Any, Any] | None:
    entry = _entity(result, "ConnectorOffset", ("partition", "offset"), here)
    if entry is None:
        return None
    for name in entry:
        if entry[name] is not None and not isinstance(entry[name], dict):
            there = (*here, f'{_ENTITIES}.ConnectorOffset["{name}"]')
            raise _mismatch(f"{_MAP}<java.lang.String,java.lang.Object>", entry[name], there)
    return entry.get("partition"), entry.get("offset")


def creation_of(body: bytes) -> tuple[str, dict[str, Any], str]:
    """Name, configuration and target state of a POST. Raises Refusal."""
    known = ("config", "name", "initial_state")
    result = _entity(_parsed(body), "CreateConnectorRequest", known, ())
    if result is None:
        raise _null("CreateConnectorRequest.name()", "createRequest")
    state = result.get("initial_state")
    if state is not None and str(state).upper() not in _STATES:
        kind = f"{_ENTITIES}.CreateConnectorRequest"
        where = _where((f'{kind}["initial_state"]',))
        raise Refusal(
            500,
            f"Cannot construct instance of `{kind}$InitialState`, problem: No enum constant "
            f"{kind}.InitialState.{str(state).upper()}{where}",
        )
    config = result.get("config") or {}
    name = result.get("name") or config.get("name") or ""
    return str(name), config, _STATES[str(state or "RUNNING").upper()]


def config_of(body: bytes) -> dict[str, Any]:
    """The body of a PUT of a configuration. Raises Refusal."""
    result = _parsed(body)
    if not isinstance(result, dict):
        raise _mismatch(f"{_MAP}<java.lang.String,java.lang.String>", result, ())
    return result


def _parsed(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except json.JSONDecodeError as exc:
        name = exc.doc[exc.pos : exc.pos + 1]
        words = f"Unexpected character ('{name}' (code {ord(name)}))" if name else _ENDED
        if exc.msg.startswith("Expecting property name"):
            words += ": was expecting double-quote to start field name"
        raise Refusal(500, words + _WHERE.format(exc.colno)) from None
    except UnicodeDecodeError:
        raise Refusal(500, "Invalid UTF-8 start byte" + _WHERE.format(1)) from None


def _entity(
    result: Any, entity: str, known: tuple[str, ...], chain: Chain
) -> dict[str, Any] | None:
    """A map with only the fields that the entity has."""
    name = f"{_ENTITIES}.{entity}"
    if result is None:
        return None
    if not isinstance(result, dict):
        raise _mismatch(name, result, chain)
    for field in result:
        if field not in known:
            listed = ", ".join(f'"{each}"' for each in known)
            count = "one known property" if len(known) == 1 else f"{len(known)} known properties"
            where = _where((*chain, f'{name}["{field}"]'))
            raise Refusal(
                500,
                f'Unrecognized field "{field}" (class {name}), not marked as ignorable '
                f"({count}: {listed}){where}",
            )
    fields: dict[str, Any] = result
    return fields


def _mismatch(expected: str, result: Any, chain: Chain) -> Refusal:
    """Texts and numbers are first tried as the argument of a constructor, where there is one."""
    plain = expected.partition("<")[0]
    is_list, is_map = plain == "java.util.ArrayList", plain == _MAP
    no = f"Cannot construct instance of `{plain}` (although at least one Creator exists): no"
    deserialized = "constructor/factory method to deserialize from"
    if isinstance(result, str) and not is_list:
        words = f"{no} String-argument {deserialized} String value ('{result}')"
    elif isinstance(result, int) and not isinstance(result, bool) and not (is_list or is_map):
        words = f"{no} int/Int-argument {deserialized} Number value ({result})"
    else:
        kind, token = _token(result)
        words = (
            f"Cannot deserialize value of type `{expected}` from {kind} value (token "
            f"`JsonToken.{token}`)"
        )
    return Refusal(500, words + _where(chain))


def _token(result: Any) -> tuple[str, str]:
    match result:
        case bool():
            return "Boolean", f"VALUE_{str(result).upper()}"
        case int():
            return "Integer", "VALUE_NUMBER_INT"
        case float():
            return "Floating-point", "VALUE_NUMBER_FLOAT"
        case str():
            return "String", "VALUE_STRING"
        case list():
            return "Array", "START_ARRAY"
        case _:
            return "Object", "START_OBJECT"


def _where(chain: Chain) -> str:
    """Where Jackson was, in the body and in the entities. The column is never the real one."""
    through = f" (through reference chain: {'->'.join(chain)})" if chain else ""
    return _WHERE.format(1) + through


def _null(called: str, variable: str) -> Refusal:
    return Refusal(500, f'Cannot invoke "{_ENTITIES}.{called}" because "{variable}" is null')
