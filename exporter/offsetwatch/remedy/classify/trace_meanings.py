"""Meanings of exception classes and calls, and the stages of Connect by a stack trace's calls.

A name said in full wins over a beginning, the longer beginning over the shorter one, and both over
an ending. Every kind of rule may forbid; only a name in full may allow.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from enum import Enum, StrEnum, auto
from importlib.resources import files
from typing import Any, Final, NamedTuple

from offsetwatch.decode.stack_trace import RUNTIME_PACKAGE, TASK_STARTS, StackFrame


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

    meaning: ThrowableMeaning
    why: str
    names: tuple[str, ...]


def _read_rule(table: dict[str, Any]) -> ThrowableRule:
    hint = table.get("hint")
    return ThrowableRule(
        FailureKind(table["forbids"]) if hint is None else ThrowableHint[hint.upper()],
        table["why"],
        tuple(table.get("package", "") + name for name in table["names"]),
    )


_TABLES: Final = tomllib.loads(
    files(__package__).joinpath("exception_classes.toml").read_text(encoding="utf-8")
)
RULES: Final = tuple(map(_read_rule, _TABLES["rule"]))
CALLS: Final = tuple(
    (begins, FailureKind(call["forbids"])) for call in _TABLES["call"] for begins in call["names"]
)

_MEANINGS: Final = tuple((name, rule.meaning) for rule in RULES for name in rule.names)
_EXACT_NAMES: Final = {name: meaning for name, meaning in _MEANINGS if "*" not in name}
_PREFIXES: Final = tuple(
    sorted(
        ((name[:-1], meaning) for name, meaning in _MEANINGS if name.endswith("*")),
        key=lambda prefix: -len(prefix[0]),
    )
)
_SUFFIXES: Final = tuple((name[1:], meaning) for name, meaning in _MEANINGS if name[:1] == "*")
_CALL_PREFIXES: Final = tuple(begins for begins, _ in CALLS)  # most calls are none of these


def find_meaning(name: str) -> ThrowableMeaning | None:
    """Return the meaning of a class; None if no rule has it."""
    exact = _EXACT_NAMES.get(name)
    if exact is not None:
        return exact
    for begins, meaning in _PREFIXES:
        if name.startswith(begins):
            return meaning
    for ends, meaning in _SUFFIXES:
        if name.endswith(ends):
            return meaning
    return None


def find_call_veto(frame_text: str) -> FailureKind | None:
    """Return the kind by which a call, `package.Class.method`, forbids a skip; None if none."""
    if not frame_text.startswith(_CALL_PREFIXES):
        return None
    return next(kind for begins, kind in CALLS if frame_text.startswith(begins))


# --- stages ---------------------------------------------------------------------------------------

KEY: Final = "converter_key"  # the converters are between Kafka's bytes and Connect's values
VALUE: Final = "converter_value"
HEADER: Final = "converter_header"
CONVERTER: Final = "converter"  # one of these; some releases do not distinguish them
TRANSFORM: Final = "transform"  # a transformation or its predicate
PUT: Final = "put"  # the sink's own code
PRODUCER_SEND: Final = "producer_send"  # the source's producer, or the broker it sent to
POLL: Final = "poll"  # reading: the sink's consumer, or the source's own code
START: Final = "start"  # before the first record
UNKNOWN: Final = "unknown"  # the trace shows none of these

# The first that any call begins with, from the most telling to the least: a sink's `put` is called
# from a method named `poll`, as its converters are.
_CALLS: Final = (
    ("TransformationChain.", TRANSFORM),
    ("TransformationStage.", TRANSFORM),
    ("PredicatedTransformation.", TRANSFORM),
    ("WorkerSinkTask.convertAndTransformRecord", CONVERTER),
    ("WorkerSinkTask.lambda$convertAndTransformRecord", CONVERTER),
    ("AbstractWorkerSourceTask.convertTransformedRecord", CONVERTER),
    ("WorkerSourceTask.convertTransformedRecord", CONVERTER),
    ("WorkerSinkTask.convertMessages", CONVERTER),
    ("WorkerSinkTask.deliverMessages", PUT),
    ("WorkerSourceTask.maybeThrowProducerSendException", PRODUCER_SEND),
    ("WorkerSourceTask.producerSendFailed", PRODUCER_SEND),
    ("ExactlyOnceWorkerSourceTask.maybeWrapProducerSendException", PRODUCER_SEND),
    ("AbstractWorkerSourceTask.sendRecords", PRODUCER_SEND),
    ("WorkerSourceTask.sendRecords", PRODUCER_SEND),
    ("WorkerSinkTask.pollConsumer", POLL),
    ("AbstractWorkerSourceTask.poll", POLL),
    ("WorkerSourceTask.poll", POLL),
    *((call, START) for call in TASK_STARTS),
    ("Worker.startConnector", START),
    ("WorkerConnector.", START),
)

# Some releases convert in methods, others in lambdas of one method. javac counts lambdas in the
# order of the source, and so the numbers below tell key from value: from 0 in 4.x, from 3 and 4
# in 3.9. A number that is not here tells nothing.
_METHODS: Final = (
    (re.compile(r"WorkerSinkTask\.convertKey"), KEY),
    (re.compile(r"WorkerSinkTask\.convertValue"), VALUE),
    (re.compile(r"Worker(?:Sink|Source)Task\.convertHeaders?For"), HEADER),
)
_LAMBDAS: Final = (
    (re.compile(r"WorkerSinkTask\.lambda\$convertAndTransformRecord\$[03]"), KEY),
    (re.compile(r"WorkerSinkTask\.lambda\$convertAndTransformRecord\$[14]"), VALUE),
    (re.compile(r"WorkerSinkTask\.lambda\$convertAndTransformRecord\$[25]"), HEADER),
    (re.compile(r"WorkerSourceTask\.lambda\$convertTransformedRecord\$[04]"), HEADER),
    (re.compile(r"WorkerSourceTask\.lambda\$convertTransformedRecord\$[15]"), KEY),
    (re.compile(r"WorkerSourceTask\.lambda\$convertTransformedRecord\$[26]"), VALUE),
)


def stage_of(frames: Sequence[StackFrame]) -> str:
    """Return the stage of these calls; CONVERTER instead of KEY, VALUE or HEADER."""
    frame_texts = [
        frame.qualified_method.removeprefix(RUNTIME_PACKAGE)
        for frame in frames
        if frame.package.startswith(RUNTIME_PACKAGE)
    ]
    for begins, stage in _CALLS:
        if any(frame_text.startswith(begins) for frame_text in frame_texts):
            return stage
    return UNKNOWN


def converter_stage_of(frames: Sequence[StackFrame]) -> str:
    """Return which converter failed, CONVERTER if unknown.

    The last call counts: calls that a message adds come before it.
    """
    methods = [
        (frame.method or "").removeprefix("Abstract")
        for frame in reversed(frames)
        if frame.package == RUNTIME_PACKAGE
    ]
    for table in (_METHODS, _LAMBDAS):
        for method in methods:
            for pattern, stage in table:
                if pattern.fullmatch(method):
                    return stage
    return CONVERTER
