"""The bodies of requests, and what of them can be asked of the desk. Pure.

Types are strict: of `0`, `0.0`, `"0"` and `false` the first alone is an offset. Whether it is a
good one is for remedy's guards to say; here is refused what can be no offset at all.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from offsetwatch import documents
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.remedy.model.service_api import Mode, PlanRequest, Wish
from offsetwatch.serve.control.strict_json import MalformedRequest

SHA256: Final = "^[0-9a-f]{64}$"
# One line that shows all that is in it: nothing that moves the cursor, turns text round or hides.
_LINE: Final = (
    r"^(?=.*\S)[^\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"+$(?!\n)"
)
_NUMBERS_MAX: Final = 2**63 - 1
_PARTITIONS_MAX: Final = 2**31 - 1
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ALIAS = re.compile(r"[A-Za-z0-9._-]{1,249}")
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
    """One body; an unknown key is a mistake."""


class WantPlan(_Body, frozen=True):
    """A plan to be made. Of skip_one: `partition` as Connect names it among the offsets of a
    connector, and in `offset` what it is to have afterwards. Of restore: the name of a backup.
    """

    action: Wish
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


class BreakerSeen(_Body, frozen=True):
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
    """A body of this kind. Raises Wrong."""
    try:
        return documents.convert(document, kind)
    except msgspec.ValidationError as exc:
        raise MalformedRequest(str(exc)) from None


def build_plan_request(body: WantPlan, key: str) -> PlanRequest:
    """What is asked of the desk. Raises Wrong for what does not go together."""
    skip, restore = body.action is Wish.SKIP_ONE, body.action is Wish.RESTORE
    for name, value, wanted in (
        ("partition", body.partition, skip),
        ("offset", body.offset, skip),
        ("backup", body.backup, restore),
    ):
        if wanted and value is UNSET:
            raise MalformedRequest(f"{name}: required for {body.action.value}")
        if not wanted and value is not UNSET:
            raise MalformedRequest(f"{name}: of no use for {body.action.value}")
    return PlanRequest(
        wish=body.action,
        connect_cluster=body.connect_cluster,
        connector=body.connector,
        because=body.because,
        key=key,
        pair=None if body.partition is UNSET else _build_pair(body.partition, body.offset),
        backup=None if body.backup is UNSET else body.backup,
    )


def _build_pair(partition: Any, offset: Any) -> PartitionOffset:
    """One partition with one offset, as strict as what is known of its kind."""
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
        _check_fields(offset, "offset", {"kafka_offset": _check_offset_number})
    elif partition.keys() == {"cluster", "topic", "partition"}:
        _check_fields(
            partition,
            "partition",
            {"cluster": _check_alias, "topic": _check_topic, "partition": _check_partition_number},
        )
        _check_fields(offset, "offset", {"offset": _check_offset_number})
    return PartitionOffset(encode_sorted(partition).decode(), encode_sorted(offset).decode())


def _check_fields(fields: dict[str, Any], at: str, wanted: dict[str, Any]) -> None:
    if fields.keys() != wanted.keys():
        raise MalformedRequest(f"{at}: expected {' and '.join(wanted)}, and nothing else")
    for name, check in wanted.items():
        problem = check(fields[name])
        if problem is not None:
            raise MalformedRequest(f"{at}.{name}: expected {problem}")


def _check_topic(value: object) -> str | None:
    fits = isinstance(value, str) and _TOPIC.fullmatch(value) and value not in {".", ".."}
    return None if fits else "the name of a topic"


def _check_alias(value: object) -> str | None:
    return None if isinstance(value, str) and _ALIAS.fullmatch(value) else "a cluster's alias"


def _check_partition_number(value: object) -> str | None:
    return _check_number(value, _PARTITIONS_MAX)


def _check_offset_number(value: object) -> str | None:
    # The last number of all is nobody's position: there is no record after it.
    return _check_number(value, _NUMBERS_MAX - 1)


def _check_number(value: object, most: int) -> str | None:
    # A bool is an int to Python.
    fits = type(value) is int and 0 <= value <= most
    return None if fits else f"a whole number from 0 to {most}"
