"""Translation of librdkafka's errors to ClientError."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import confluent_kafka as ck

from offsetwatch.clients.kafka.connection_errors import explain_failure
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    NotFound,
    ResponseTimeout,
    ServerError,
    TargetUnreachable,
    TopicChanged,
)

DENIED_CODES = {
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ck.KafkaError.SASL_AUTHENTICATION_FAILED,
    ck.KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's local codes are spelt like this
}
_NOT_FOUND_CODES = {
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART,
    ck.KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    ck.KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    # What ListOffsets says if not one of the partitions asked for exists.
    ck.KafkaError._NOENT,  # noqa: SLF001
    ck.KafkaError.GROUP_ID_NOT_FOUND,
}
_UNSETTLED_CODES = {
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
}
# Metadata without brokers and topics.
_NO_BROKERS = ck.KafkaError._PARTIAL  # noqa: SLF001
_TOPIC_CHANGED_CODES = {
    ck.KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the log no longer reaches where we stand
    ck.KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    ck.KafkaError.OFFSET_OUT_OF_RANGE,
}
_TIMED_OUT_CODES = {
    ck.KafkaError._TIMED_OUT,  # noqa: SLF001
    ck.KafkaError.REQUEST_TIMED_OUT,
}
_ALL_BROKERS_DOWN_CODE = ck.KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - it does not say why
# The same failure has the same text.
_DURATION: Final = re.compile(r" \(after \d+ms in state \w+[^()]*\)")
_RETAINED_ERRORS_MAX: Final = 100
_ERROR_AGE_MAX_S: Final = 60.0
_UNREACHABLE_CODES = {
    ck.KafkaError._TRANSPORT,  # noqa: SLF001
    ck.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    ck.KafkaError._RESOLVE,  # noqa: SLF001
    ck.KafkaError._SSL,  # noqa: SLF001
}


def build_no_brokers_error(target: str) -> LeaderNotAvailable:
    """Return the error of a broker that is starting, or is fenced like all others."""
    return LeaderNotAvailable(target, "the broker that answers knows no broker of its cluster")


def client_error_from(target: str, error: ck.KafkaError) -> ClientError:
    """Return the ClientError for an error of librdkafka."""
    code, detail = error.code(), _DURATION.sub("", error.str())
    failure = explain_failure(detail)
    if failure is not None:
        return failure.kind(target, failure.detail, failure.advice)
    if code in DENIED_CODES:
        return AccessDenied(target, detail)
    if code in _NOT_FOUND_CODES:
        return NotFound(target, detail)
    if code == _NO_BROKERS:
        return build_no_brokers_error(target)
    if code in _UNSETTLED_CODES:
        return LeaderNotAvailable(target, detail)
    if code in _TOPIC_CHANGED_CODES:
        return TopicChanged(target, detail)
    if code in _TIMED_OUT_CODES:
        return ResponseTimeout(target, detail)
    if code in _UNREACHABLE_CODES:
        return TargetUnreachable(target, detail)
    return ServerError(target, detail)


class ConnectionErrors(logging.Handler):
    """Newest connection failures of one client; bounded and thread-safe.

    librdkafka reports them apart from the failing request: in its error callback, and some only in
    its log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._errors: deque[tuple[float, ck.KafkaError]] = deque(maxlen=_RETAINED_ERRORS_MAX)
        self._failures: deque[tuple[float, str]] = deque(maxlen=_RETAINED_ERRORS_MAX)
        self._logger = logging.Logger("librdkafka")  # noqa: LOG001 - each client its own
        self._logger.addHandler(self)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the client properties that direct its failures here."""
        return {"error_cb": self.add, "logger": self._logger}

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line of the client's log."""
        line = record.getMessage()
        if line.startswith("FAIL "):
            self._failures.append((time.monotonic(), line))

    def add(self, error: ck.KafkaError) -> None:
        """Add an error that belongs to no request."""
        if error.code() != ck.KafkaError.GROUP_AUTHORIZATION_FAILED:  # of a group nobody joins
            self._errors.append((time.monotonic(), error))

    def pop(self, target: str) -> ClientError | None:
        """Return why there is no connection, None if no error says so; forget all errors.

        Errors older than a minute belong to another failure; of the others the newest counts.
        """
        since = time.monotonic() - _ERROR_AGE_MAX_S
        errors = [error for told_at, error in self._errors if told_at >= since]
        lines = [line for told_at, line in self._failures if told_at >= since]
        self.clear()
        for error in reversed(errors):
            if error.code() != _ALL_BROKERS_DOWN_CODE:
                return client_error_from(target, error)
        for line in reversed(lines):
            failure = explain_failure(line)
            if failure is not None:
                return failure.kind(target, failure.detail, failure.advice)
        return None

    def clear(self) -> None:
        """Forget all errors."""
        self._errors.clear()
        self._failures.clear()

    def __bool__(self) -> bool:
        return bool(self._errors)


@contextmanager
def translate_kafka_errors(target: str) -> Iterator[None]:
    """Translate exceptions of librdkafka to ClientError."""
    try:
        yield
    except ck.KafkaException as exc:
        raise client_error_from(target, exc.args[0]) from exc
