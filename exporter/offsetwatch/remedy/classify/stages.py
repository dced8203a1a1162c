"""Stages of Connect at which a task fails, by the calls of its stack trace.

converter_key, converter_value, converter_header    between Kafka's bytes and Connect's values
converter       one of these; some releases do not distinguish them
transform       a transformation or its predicate
put             the sink's own code
producer_send   the source's producer, or the broker it sent to
poll            reading: the sink's consumer, or the source's own code
start           before the first record
unknown         the trace shows none of these
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from offsetwatch.decode.stack_trace import RUNTIME_PACKAGE, TASK_STARTS, StackFrame

CONVERTER: Final = "converter"
KEY: Final = "converter_key"
VALUE: Final = "converter_value"
HEADER: Final = "converter_header"
TRANSFORM: Final = "transform"
PUT: Final = "put"
PRODUCER_SEND: Final = "producer_send"
POLL: Final = "poll"
START: Final = "start"
UNKNOWN: Final = "unknown"

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
    places = [
        frame.place.removeprefix(RUNTIME_PACKAGE)
        for frame in frames
        if frame.package.startswith(RUNTIME_PACKAGE)
    ]
    for begins, stage in _CALLS:
        if any(place.startswith(begins) for place in places):
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
