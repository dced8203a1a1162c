"""Kinds of failure, and rules for the meaning of exception classes."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple


class FailureKind(StrEnum):
    """The kind of a failure.

    One record may cause any of the first six; each of the others forbids blaming a record.
    """

    DESERIALIZATION = "deserialization"
    SCHEMA = "schema"
    TRANSFORM = "transform"
    SINK_DATA = "sink_data"
    PRODUCER_SIZE = "producer_size"
    CORRUPT = "corrupt"
    CONNECTIVITY = "connectivity"
    AUTH = "auth"
    RESOURCE = "resource"
    CONFIG = "config"
    REGISTRY_DOWN = "registry_down"
    FENCING = "fencing"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


SKIPPABLE: Final = frozenset(
    {
        FailureKind.DESERIALIZATION,
        FailureKind.SCHEMA,
        FailureKind.TRANSFORM,
        FailureKind.SINK_DATA,
        FailureKind.PRODUCER_SIZE,
        FailureKind.CORRUPT,
    }
)


class ThrowableHint(Enum):
    """The meaning of a class that forbids nothing; its effect depends on the stage that threw it.

    WRAPS    nothing: it may have any cause. Only classes that always have frames: without them, a
             message could forge all that follows it.
    VALUE    the record's content does not fit
    CODE     a bug in a program that a record can trigger
    SCHEMA   the record's schema does not fit
    SIZE     the record is too large for Kafka
    CORRUPT  the bytes in Kafka's log are broken
    """

    WRAPS = auto()
    VALUE = auto()
    CODE = auto()
    SCHEMA = auto()
    SIZE = auto()
    CORRUPT = auto()


ThrowableMeaning = FailureKind | ThrowableHint


class ThrowableRule(NamedTuple):
    """Classes with the same meaning, and the reason for it.

    names   `package.Class`; a trailing `*` matches by prefix, a leading `*` by suffix. Only rules
            that forbid may use `*`.
    """

    word: ThrowableMeaning
    why: str
    names: tuple[str, ...]


def build_rule(word: ThrowableMeaning, why: str, package: str, names: str) -> ThrowableRule:
    """Build a rule from space-separated names with the prefix `package`, which may be empty."""
    return ThrowableRule(word, why, tuple(package + name for name in names.split()))
