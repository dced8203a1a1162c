"""Errors of librdkafka -> errors of ours, which say what to do. Called by all Kafka clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka as ck

from exporter.errors import (
    ClientError,
    Denied,
    NotFound,
    ServerError,
    TimedOut,
    TopicChanged,
    Unreachable,
    Unsettled,
)

DENIED = {
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ck.KafkaError.SASL_AUTHENTICATION_FAILED,
    ck.KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's local codes are spelt like this
}
_NOT_FOUND = {
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART,
    ck.KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    ck.KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    # What ListOffsets says if not one of the partitions asked for exists.
    ck.KafkaError._NOENT,  # noqa: SLF001
    ck.KafkaError.GROUP_ID_NOT_FOUND,
}
_UNSETTLED = {
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
}
_CHANGED = {
    ck.KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the log no longer reaches where we stand
    ck.KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    ck.KafkaError.OFFSET_OUT_OF_RANGE,
}
_TIMED_OUT = {
    ck.KafkaError._TIMED_OUT,  # noqa: SLF001
    ck.KafkaError.REQUEST_TIMED_OUT,
}
_UNREACHABLE = {
    ck.KafkaError._TRANSPORT,  # noqa: SLF001
    ck.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    ck.KafkaError._RESOLVE,  # noqa: SLF001
    ck.KafkaError._SSL,  # noqa: SLF001
}


def translate(target: str, error: ck.KafkaError) -> ClientError:
    """The error of ours that says what to do about this one of librdkafka's."""
    code, detail = error.code(), error.str()
    if code in DENIED:
        return Denied(target, detail)
    if code in _NOT_FOUND:
        return NotFound(target, detail)
    if code in _UNSETTLED:
        return Unsettled(target, detail)
    if code in _CHANGED:
        return TopicChanged(target, detail)
    if code in _TIMED_OUT:
        return TimedOut(target, detail)
    if code in _UNREACHABLE:
        return Unreachable(target, detail)
    return ServerError(target, detail)


@contextmanager
def translated(target: str) -> Iterator[None]:
    """Exceptions of librdkafka end here."""
    try:
        yield
    except ck.KafkaException as exc:
        raise translate(target, exc.args[0]) from exc
