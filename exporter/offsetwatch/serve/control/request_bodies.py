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
from offsetwatch.decode.jsontext import encode_sorted
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import Pair
from offsetwatch.remedy.model.service_api import Asked, Mode, Wish
from offsetwatch.serve.control.strict_json import Wrong

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
_OF_NO_RECORD: Final = frozenset({"consumerGroup", "sourceClusterAlias", "targetClusterAlias"})

Because = Annotated[
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
    because: Because
    partition: Fields | UnsetType = UNSET
    offset: Fields | UnsetType = UNSET
    backup: FileName | UnsetType = UNSET


class Approval(_Body, frozen=True):
    """`plan_sha256` is of the plan that was looked at: another is not approved."""

    plan_sha256: Annotated[str, Meta(pattern=SHA256, max_length=64)]
    because: Because


class Reason(_Body, frozen=True):
    """Why."""

    because: Because


class BreakerSeen(_Body, frozen=True):
    """A breaker to be closed, as `GET /api/v1/mode` names it."""

    scope: Name
    because: Because


class WantMode(_Body, frozen=True):
    """A mode to be set."""

    mode: Mode
    because: Because


class WantPause(_Body, frozen=True):
    """A pause: `until` a moment, or `indefinite`, true; one of the two."""

    because: Because
    until: Moment | UnsetType = UNSET
    indefinite: bool = False


AnyBody = TypeVar("AnyBody", bound=msgspec.Struct)


def body_of(kind: type[AnyBody], document: Any) -> AnyBody:
    """A body of this kind. Raises Wrong."""
    try:
        return documents.convert(document, kind)
    except msgspec.ValidationError as exc:
        raise Wrong(str(exc)) from None


def asked(body: WantPlan, key: str) -> Asked:
    """What is asked of the desk. Raises Wrong for what does not go together."""
    skip, restore = body.action is Wish.SKIP_ONE, body.action is Wish.RESTORE
    for name, value, wanted in (
        ("partition", body.partition, skip),
        ("offset", body.offset, skip),
        ("backup", body.backup, restore),
    ):
        if wanted and value is UNSET:
            raise Wrong(f"{name}: required for {body.action.value}")
        if not wanted and value is not UNSET:
            raise Wrong(f"{name}: of no use for {body.action.value}")
    return Asked(
        wish=body.action,
        connect_cluster=body.connect_cluster,
        connector=body.connector,
        because=body.because,
        key=key,
        pair=None if body.partition is UNSET else _pair(body.partition, body.offset),
        backup=None if body.backup is UNSET else body.backup,
    )


def _pair(partition: Any, offset: Any) -> Pair:
    """One partition with one offset, as strict as what is known of its kind."""
    if _OF_NO_RECORD & partition.keys():
        raise Wrong("partition: of a connector whose offsets say nothing, and skip nothing")
    if {"kafka_topic", "kafka_partition"} & partition.keys():
        _exactly(partition, "partition", {"kafka_topic": _topic, "kafka_partition": _number_31})
        _exactly(offset, "offset", {"kafka_offset": _number_63})
    elif partition.keys() == {"cluster", "topic", "partition"}:
        _exactly(
            partition, "partition", {"cluster": _alias, "topic": _topic, "partition": _number_31}
        )
        _exactly(offset, "offset", {"offset": _number_63})
    return Pair(encode_sorted(partition).decode(), encode_sorted(offset).decode())


def _exactly(fields: dict[str, Any], at: str, wanted: dict[str, Any]) -> None:
    if fields.keys() != wanted.keys():
        raise Wrong(f"{at}: expected {' and '.join(wanted)}, and nothing else")
    for name, check in wanted.items():
        problem = check(fields[name])
        if problem is not None:
            raise Wrong(f"{at}.{name}: expected {problem}")


def _topic(value: object) -> str | None:
    fits = isinstance(value, str) and _TOPIC.fullmatch(value) and value not in {".", ".."}
    return None if fits else "the name of a topic"


def _alias(value: object) -> str | None:
    return None if isinstance(value, str) and _ALIAS.fullmatch(value) else "a cluster's alias"


def _number_31(value: object) -> str | None:
    return _number(value, _PARTITIONS_MAX)


def _number_63(value: object) -> str | None:
    # The last number of all is nobody's position: there is no record after it.
    return _number(value, _NUMBERS_MAX - 1)


def _number(value: object, most: int) -> str | None:
    # A bool is an int to Python.
    fits = type(value) is int and 0 <= value <= most
    return None if fits else f"a whole number from 0 to {most}"
