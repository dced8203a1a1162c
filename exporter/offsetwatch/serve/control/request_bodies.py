"""Bodies of control requests: strict JSON, types of each endpoint, Alertmanager's payload. Pure.

JSON has one meaning here: duplicate keys, NaN and infinity, numbers beyond 64 bits, lone
surrogates, a byte order mark and deep nesting are refused.

Alertmanager (payload version 4, as of 0.25 to 0.34) cannot sign what it sends, delivers at least
once, and passes on labels that an attacker may have chosen. So only four labels of an alert are
read, and compared with known names or with a pattern: nothing is fetched, evaluated, followed or
logged. All other fields are ignored.

Types are strict: of `0`, `0.0`, `"0"` and `false` the first alone is an offset. Whether it is a
good one is for remedy's guards to say; here is refused what can be no offset at all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from offsetwatch import documents
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.remedy.model.service_api import AlertHint, Mode, PlanRequest, RequestedAction

DEPTH_MAX: Final = 32  # an Alertmanager's payload has four levels
_NUMBERS_MAX: Final = 2**63 - 1
_INT_CHARS_MAX: Final = 20
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKET = re.compile(rb"[^\[\]{}]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class MalformedRequest(Exception):
    """Request that cannot be used. Its message is for the client, and is not logged."""


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text. Raises MalformedRequest."""
    if _measure_depth(body) > DEPTH_MAX:
        raise MalformedRequest(f"nested deeper than {DEPTH_MAX} levels")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("not UTF-8") from None
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_int=_parse_integer,
            parse_float=_parse_float,
            parse_constant=_reject_constant,
        )
    except (ValueError, RecursionError):
        raise MalformedRequest("not JSON") from None
    if _has_surrogate(parsed):
        raise MalformedRequest("text that is no Unicode")
    return parsed


def _measure_depth(body: bytes) -> int:
    """Return how deeply brackets are nested, without a walk through the strings."""
    deepest = depth = 0
    for bracket in _NO_BRACKET.sub(b"", _STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > deepest:
            deepest = depth
            if deepest > DEPTH_MAX:
                break
    return deepest


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise MalformedRequest("a key is given twice in one object")
    for key, value in pairs:
        if _SURROGATE.search(key) or _has_surrogate(value):
            raise MalformedRequest("text that is no Unicode")
    return members


def _has_surrogate(value: Any) -> bool:
    """Check a string, or the strings of a list. Objects were already checked by _build_object."""
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    return isinstance(value, list) and any(_has_surrogate(item) for item in value)


def _parse_integer(text: str) -> int:
    if len(text) > _INT_CHARS_MAX or abs(int(text)) > _NUMBERS_MAX:
        raise MalformedRequest("a number that does not fit in 64 bits")
    return int(text)


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise MalformedRequest("a number that is not finite")
    return number


def _reject_constant(_text: str) -> Any:
    raise MalformedRequest("a number that is not finite")


# --- bodies ---------------------------------------------------------------------------------------

SHA256: Final = "^[0-9a-f]{64}$"
# One line that shows all that is in it: nothing that moves the cursor, turns text round or hides.
_LINE: Final = (
    r"^(?=.*\S)[^\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"+$(?!\n)"
)
_PARTITIONS_MAX: Final = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # of a topic, or of a cluster
# What MirrorMaker's checkpoint and heartbeat connectors name their source partitions by: their
# offsets say nothing, and Connect takes none for them but 0.
_RECORDLESS_KEYS: Final = frozenset({"consumerGroup", "sourceClusterAlias", "targetClusterAlias"})

ReasonLine = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        pattern=_LINE,
        description="The reason, in one line, for later readers of the journal.",
    ),
]
FileName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$(?!\n)")]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Text = Annotated[str, Meta(max_length=2000)]
Fields = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=249)], int | Text | bool | None],
    Meta(min_length=1, max_length=16),
]


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of bodies; an unknown key is a mistake."""


class WantPlan(_Body, frozen=True):
    """A plan to be made. Of skip_one: `partition` as Connect names it among the offsets of a
    connector (default: the only one), and in `offset` what it is to have afterwards (default: the
    offset after the next record). Of restore: the name of a backup.
    """

    action: RequestedAction
    connect_cluster: Name
    connector: Name
    because: ReasonLine
    partition: Fields | UnsetType = UNSET
    offset: Fields | UnsetType = UNSET
    backup: FileName | UnsetType = UNSET


class Approval(_Body, frozen=True):
    """`plan_sha256` is of the plan that was looked at: another is not approved."""

    plan_sha256: Annotated[str, Meta(pattern=SHA256, max_length=64)]
    because: ReasonLine


class Reason(_Body, frozen=True):
    """Why."""

    because: ReasonLine


class BreakerToClose(_Body, frozen=True):
    """A breaker to be closed, as `GET /api/v1/mode` names it."""

    scope: Name
    because: ReasonLine


class WantMode(_Body, frozen=True):
    """A mode to be set."""

    mode: Mode
    because: ReasonLine


class WantPause(_Body, frozen=True):
    """A pause: `until` a moment, or `indefinite`, true; one of the two."""

    because: ReasonLine
    until: Moment | UnsetType = UNSET
    indefinite: bool = False


AnyBody = TypeVar("AnyBody", bound=msgspec.Struct)


def convert_body(kind: type[AnyBody], document: Any) -> AnyBody:
    """Return a body of this kind. Raises MalformedRequest."""
    try:
        return documents.convert(document, kind)
    except msgspec.ValidationError as exc:
        raise MalformedRequest(str(exc)) from None


def build_plan_request(body: WantPlan, key: str) -> PlanRequest:
    """Return the request for the service. Raises MalformedRequest if its fields do not fit."""
    skip, restore = body.action is RequestedAction.SKIP_ONE, body.action is RequestedAction.RESTORE
    for name, value, is_used in (
        ("partition", body.partition, skip),
        ("offset", body.offset, skip and body.partition is not UNSET),
        ("backup", body.backup, restore),
    ):
        if value is not UNSET and not is_used:
            raise MalformedRequest(f"{name}: of no use for {body.action.value}")
    if restore and body.backup is UNSET:
        raise MalformedRequest("backup: required for restore")
    return PlanRequest(
        action=body.action,
        connect_cluster=body.connect_cluster,
        connector=body.connector,
        because=body.because,
        key=key,
        pair=None if body.partition is UNSET else _build_pair(body.partition, body.offset),
        backup=None if body.backup is UNSET else body.backup,
    )


def _build_pair(partition: Any, offset: Any) -> PartitionOffset:
    """Return a partition with its offset or none, checked as far as its kind is known."""
    expected: dict[str, Any] = {}
    if _RECORDLESS_KEYS & partition.keys():
        raise MalformedRequest(
            "partition: of a connector whose offsets say nothing, and skip nothing"
        )
    if {"kafka_topic", "kafka_partition"} & partition.keys():
        _check_fields(
            partition,
            "partition",
            {"kafka_topic": _check_topic, "kafka_partition": _check_partition_number},
        )
        expected = {"kafka_offset": _check_offset_number}
    elif partition.keys() == {"cluster", "topic", "partition"}:
        _check_fields(
            partition,
            "partition",
            {"cluster": _check_alias, "topic": _check_topic, "partition": _check_partition_number},
        )
        expected = {"offset": _check_offset_number}
    text = encode_sorted(partition).decode()
    if offset is UNSET:
        return PartitionOffset(text, None)
    if expected:
        _check_fields(offset, "offset", expected)
    return PartitionOffset(text, encode_sorted(offset).decode())


def _check_fields(fields: dict[str, Any], where: str, checks: dict[str, Any]) -> None:
    if fields.keys() != checks.keys():
        raise MalformedRequest(f"{where}: expected {' and '.join(checks)}, and nothing else")
    for name, check in checks.items():
        problem = check(fields[name])
        if problem is not None:
            raise MalformedRequest(f"{where}.{name}: expected {problem}")


def _check_topic(value: object) -> str | None:
    fits = isinstance(value, str) and _NAME.fullmatch(value) and value not in {".", ".."}
    return None if fits else "the name of a topic"


def _check_alias(value: object) -> str | None:
    return None if isinstance(value, str) and _NAME.fullmatch(value) else "a cluster's alias"


def _check_partition_number(value: object) -> str | None:
    return _check_number(value, _PARTITIONS_MAX)


def _check_offset_number(value: object) -> str | None:
    # The largest number is no position: there is no record after it.
    return _check_number(value, _NUMBERS_MAX - 1)


def _check_number(value: object, most: int) -> str | None:
    # A bool is an int to Python.
    fits = type(value) is int and 0 <= value <= most
    return None if fits else f"a whole number from 0 to {most}"


# --- payload of Alertmanager ----------------------------------------------------------------------

VERSION: Final = "4"
ALERTS_MAX: Final = 500
LABELS: Final = ("connect_cluster", "connector", "topic", "partition")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_STARTS_AT = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class AlertHints(NamedTuple):
    """Hints of a payload, and the number of alerts that concern no known connector."""

    hints: tuple[AlertHint, ...]
    unknown: int


def parse_payload(payload: Any, is_known: Callable[[str, str], bool]) -> AlertHints:
    """Return the hints of a payload. Raises MalformedRequest if Alertmanager would not send it.

    `is_known` checks whether a Connect cluster has a connector. One malformed alert rejects the
    whole payload.
    """
    if not isinstance(payload, dict) or payload.get("version") != VERSION:
        raise MalformedRequest("not an Alertmanager's payload of version 4")
    alerts = payload.get("alerts")
    if not isinstance(alerts, list):
        raise MalformedRequest("alerts: expected a list")
    if len(alerts) > ALERTS_MAX:
        raise MalformedRequest(f"alerts: more than {ALERTS_MAX}; set max_alerts in Alertmanager")
    parsed = (_parse_hint(alert, f"alerts[{n}]", is_known) for n, alert in enumerate(alerts))
    hints = tuple(hint for hint in parsed if hint is not None)
    return AlertHints(hints, len(alerts) - len(hints))


def _parse_hint(alert: Any, at: str, is_known: Callable[[str, str], bool]) -> AlertHint | None:
    if not isinstance(alert, dict):
        raise MalformedRequest(f"{at}: expected an object")
    status, fingerprint = alert.get("status"), alert.get("fingerprint")
    if status not in ("firing", "resolved"):
        raise MalformedRequest(f"{at}.status: expected firing or resolved")
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        raise MalformedRequest(f"{at}.fingerprint: expected 16 hex digits")
    starts_at = _normalise_moment(alert.get("startsAt"), at)
    labels = alert.get("labels")
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        raise MalformedRequest(f"{at}.labels: expected names with text")
    cluster, connector, topic, partition = (labels.get(name) for name in LABELS)
    if cluster is None or connector is None or not is_known(cluster, connector):
        return None
    return AlertHint(
        fingerprint=fingerprint,
        starts_at=starts_at,
        firing=status == "firing",
        connect_cluster=cluster,
        connector=connector,
        topic=topic if topic is not None and _NAME.fullmatch(topic) else None,
        partition=int(partition)
        if partition and _PARTITION.fullmatch(partition) and int(partition) <= _PARTITIONS_MAX
        else None,
    )


def _normalise_moment(value: Any, name: str) -> str:
    """Return a time in UTC with all its digits: each Alertmanager of a cluster gives the same."""
    match = _STARTS_AT.fullmatch(value) if isinstance(value, str) else None
    try:
        if match is None:
            raise MalformedRequest(f"{name}.startsAt: expected a date and time")
        moment = datetime.fromisoformat(match[1] + match[3]).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise MalformedRequest(f"{name}.startsAt: expected a date and time") from None
    fraction = (match[2] or "").rstrip("0")
    return f"{moment.isoformat()}{'.' if fraction else ''}{fraction}Z"
