"""What a failure can be, and what one class of exceptions can say of it."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple


class FailureKind(StrEnum):
    """What a failure is. The first six may be one record's doing; each of the others forbids to
    take a record for the cause.
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
    """What a class that forbids nothing says; what comes of it depends on where it was thrown.

    WRAPS    nothing: it may hold anything. Only classes that always have frames: without them, a
             message could make up all that follows it.
    VALUE    the record's content does not fit
    CODE     a mistake in a program that a record can set off
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
    """Classes that say the same, and why they do.

    names   `package.Class`; what begins with these letters if it ends in `*`, what ends with these
            if it begins with `*`. Only what forbids may be named by a part.
    """

    word: ThrowableMeaning
    why: str
    names: tuple[str, ...]


def build_rule(word: ThrowableMeaning, why: str, package: str, names: str) -> ThrowableRule:
    """`names` are of `package` and stand with spaces between them; `package` may be empty."""
    return ThrowableRule(word, why, tuple(package + name for name in names.split()))
