"""Translation of librdkafka's errors to ClientError, and causes of failed connections."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

import confluent_kafka as ck

from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    TargetUnreachable,
    TopicChanged,
)

_Entry = TypeVar("_Entry")

_HTTP: Final = int.from_bytes(b"HTTP")
_TLS_ALERTS: Final = range(0x15030000, 0x15040000)  # a TLS alert, read as the size of an answer


class ConnectionFailure(NamedTuple):
    """Failure of a connection, and what to do about it.

    detail  one sentence without times, so that the same failure has the same text
    advice  names the property, or what else to change
    """

    kind: type[ClientError]
    detail: str
    advice: str


class _Cause(NamedTuple):
    """Pattern of a failure; `detail` has placeholders for the address and the groups of `text`."""

    text: str
    kind: type[ClientError]
    detail: str
    advice: str


def explain_failure(text: str) -> ConnectionFailure | None:
    """Return the connection failure in a text of librdkafka; None if it is about something else."""
    broker = _BROKER_ADDRESS.match(text)
    if broker is None:
        return None
    what, address = broker["what"], broker["address"]
    if broker["node"] != "bootstrap":
        address = f"{address} (broker {broker['node']}, as it advertises itself)"
    for pattern, cause in _PATTERNS:
        match = pattern.search(what)
        if match is not None:
            groups = {name: (group or "").strip(" :,") for name, group in match.groupdict().items()}
            exact = _refine_cause(cause, groups)
            detail = exact.detail.format(address=address, **groups)
            return ConnectionFailure(exact.kind, detail, exact.advice)
    return None


def _refine_cause(cause: _Cause, groups: dict[str, str]) -> _Cause:
    """Return the more specific cause that the matched groups indicate."""
    if cause is _SASL and not groups["offered"]:
        return _NO_SASL
    if cause is _UNTRUSTED and not groups["reason"]:
        return cause._replace(detail=cause.detail.removesuffix(" ({reason})"))
    if cause is _OTHER_PROTOCOL and int(groups["size"]) in _TLS_ALERTS:
        return _NEEDS_TLS
    if cause is _OTHER_PROTOCOL and int(groups["size"]) == _HTTP:
        return _SPEAKS_HTTP
    return cause


# As an error, and as a line of its log.
_BROKER_ADDRESS: Final = re.compile(
    r"(?:FAIL .*?\]: )?(?:\w+://)?(?P<address>\S+)/(?P<node>bootstrap|\d+): (?P<what>.*)", re.DOTALL
)
_UNTRUSTED: Final = _Cause(
    r"certificate verify failed(?P<reason>:[^()]*)?",
    TargetUnreachable,
    "TLS handshake failed: the certificate of {address} is not trusted ({reason})",
    "set ssl.ca.location to the certificate authority that issued it",
)
_NEEDS_TLS: Final = _Cause(
    r"connecting to a SSL listener",
    TargetUnreachable,
    "the listener at {address} speaks TLS, and security.protocol is without it",
    "set security.protocol to SSL or SASL_SSL",
)
_OTHER_PROTOCOL: Final = _Cause(
    r"Invalid response size (?P<size>\d+)",
    TargetUnreachable,
    "the port at {address} is no Kafka listener: its answer is not of Kafka's protocol",
    "name the address of a Kafka listener",
)
_SPEAKS_HTTP: Final = _OTHER_PROTOCOL._replace(
    detail="the port at {address} is no Kafka listener: it answers HTTP"
)
_SASL: Final = _Cause(
    r"SASL (?P<wanted>\S+) mechanism handshake failed:.*supported mechanisms:(?P<offered>[^()]*)",
    AccessDenied,
    "{address} does not offer the SASL mechanism {wanted}; it offers {offered}",
    "set sasl.mechanism to one that it offers",
)
_NO_SASL: Final = _SASL._replace(
    detail="the listener at {address} has no SASL",
    advice="set security.protocol to PLAINTEXT or SSL, or name the port of a SASL listener",
)
# The first that fits counts.
_CAUSES: Final = (
    _Cause(
        r"PLAINTEXT broker listener|wrong version number|packet length too long"
        r"|record layer failure|unknown protocol|http request",
        TargetUnreachable,
        "TLS handshake failed: the listener at {address} does not speak TLS",
        "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the TLS port",
    ),
    _Cause(
        r"hostname mismatch|does not match target host|IP address mismatch",
        TargetUnreachable,
        "TLS handshake failed: the certificate of {address} is for another host name",
        "name the broker as its certificate does, or see ssl.endpoint.identification.algorithm",
    ),
    _UNTRUSTED,
    _Cause(
        r"certificate required|bad certificate|alert unknown ca|alert certificate"
        r"|alert handshake failure|alert access denied",
        AccessDenied,
        "TLS handshake failed: {address} does not accept the client certificate, or asks for one",
        "set ssl.certificate.location and ssl.key.location to a certificate that it trusts",
    ),
    _Cause(
        r"SSL handshake failed:(?P<reason>[^()]*)",
        TargetUnreachable,
        "TLS handshake with {address} failed: {reason}",
        "check security.protocol and the ssl.* properties against the broker's listener",
    ),
    _NEEDS_TLS,
    _OTHER_PROTOCOL,
    _SASL,
    _Cause(
        r"(?:SASL authentication error:|authentication failed:?)(?P<reason>[^()]*)",
        AccessDenied,
        "{address} refused the SASL credentials: {reason}",
        "check sasl.username and sasl.password; for OAUTHBEARER the token",
    ),
    _Cause(
        r"require SASL",
        AccessDenied,
        "{address} closes the connection: it may require SASL or TLS",
        "set security.protocol to that of the broker's listener",
    ),
    _Cause(
        r"Connection refused",
        TargetUnreachable,
        "nothing listens at {address}: connection refused",
        "check that the broker runs, and its address and port",
    ),
    _Cause(
        r"Failed to resolve '[^']*':(?P<reason>[^()]*)",
        TargetUnreachable,
        "the host name of {address} cannot be resolved: {reason}",
        "correct the host name, or this host's DNS",
    ),
    _Cause(
        r"Connection setup timed out|timed out in state CONNECT|No route to host"
        r"|Network is unreachable|Host is down",
        TargetUnreachable,
        "no connection to {address} within the time for it",
        "check the address, the network and its firewalls",
    ),
    _Cause(
        r"ApiVersion\w* ?(?:Request)? failed:.*timed out|request\(s\) timed out",
        ResponseTimeout,
        "{address} takes connections and does not answer",
        "check that the broker is not frozen or overloaded, and that this is a Kafka listener",
    ),
    _Cause(
        r"Disconnected.*in state APIVERSION_QUERY",
        TargetUnreachable,
        "{address} closes each connection before it has answered: it speaks TLS, or is no Kafka "
        "listener",
        "set security.protocol to SSL or SASL_SSL, or name the address of a Kafka listener",
    ),
)
_PATTERNS: Final = tuple(
    (re.compile(cause.text, re.IGNORECASE | re.DOTALL), cause) for cause in _CAUSES
)


# --- errors of requests ---------------------------------------------------------------------------

DENIED_CODES = {
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ck.KafkaError.SASL_AUTHENTICATION_FAILED,
    ck.KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's local codes are spelt like this
}
_ERRORS_BY_CODE: Final[dict[int, type[ClientError]]] = {
    **dict.fromkeys(DENIED_CODES, AccessDenied),
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART: NotFound,
    ck.KafkaError._UNKNOWN_TOPIC: NotFound,  # noqa: SLF001
    ck.KafkaError._UNKNOWN_PARTITION: NotFound,  # noqa: SLF001
    # What ListOffsets says if not one of the requested partitions exists.
    ck.KafkaError._NOENT: NotFound,  # noqa: SLF001
    ck.KafkaError.GROUP_ID_NOT_FOUND: NotFound,
    ck.KafkaError.INVALID_GROUP_ID: RemoteRefusal,
    ck.KafkaError.LEADER_NOT_AVAILABLE: LeaderNotAvailable,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION: LeaderNotAvailable,
    ck.KafkaError.FENCED_LEADER_EPOCH: LeaderNotAvailable,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH: LeaderNotAvailable,
    # The log no longer reaches our position.
    ck.KafkaError._AUTO_OFFSET_RESET: TopicChanged,  # noqa: SLF001
    ck.KafkaError._LOG_TRUNCATION: TopicChanged,  # noqa: SLF001
    ck.KafkaError.OFFSET_OUT_OF_RANGE: TopicChanged,
    ck.KafkaError._TIMED_OUT: ResponseTimeout,  # noqa: SLF001
    ck.KafkaError.REQUEST_TIMED_OUT: ResponseTimeout,
    ck.KafkaError._TRANSPORT: TargetUnreachable,  # noqa: SLF001
    ck.KafkaError._ALL_BROKERS_DOWN: TargetUnreachable,  # noqa: SLF001
    ck.KafkaError._RESOLVE: TargetUnreachable,  # noqa: SLF001
    ck.KafkaError._SSL: TargetUnreachable,  # noqa: SLF001
}
# The same failure has the same text.
_DURATION: Final = re.compile(r" \(after \d+ms in state \w+[^()]*\)")
_RETAINED_ERRORS_MAX: Final = 100
_ERROR_AGE_MAX_S: Final = 60.0


def build_no_brokers_error(target: str) -> LeaderNotAvailable:
    """Return the error of a broker that is starting, or is fenced like all others."""
    return LeaderNotAvailable(target, "the broker that answers knows no broker of its cluster")


def client_error_from(target: str, error: ck.KafkaError) -> ClientError:
    """Return the ClientError for an error of librdkafka."""
    code, detail = error.code(), _DURATION.sub("", error.str())
    failure = explain_failure(detail)
    if failure is not None:
        return failure.kind(target, failure.detail, failure.advice)
    if code == ck.KafkaError._PARTIAL:  # noqa: SLF001 - metadata without brokers and topics
        return build_no_brokers_error(target)
    return _ERRORS_BY_CODE.get(code, ServerError)(target, detail)


def kafka_code_of(error: ClientError) -> int | None:
    """Return librdkafka's code for the cause of an error; None if it has another cause."""
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, ck.KafkaException) else None


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
        if error.code() != ck.KafkaError.GROUP_AUTHORIZATION_FAILED:  # of a group without members
            self._errors.append((time.monotonic(), error))

    def pop(self, target: str) -> ClientError | None:
        """Return why there is no connection, None if no error says so; forget all errors.

        Errors older than a minute belong to another failure; of the others the newest counts.
        """
        since = time.monotonic() - _ERROR_AGE_MAX_S
        errors = [error for reported_at, error in _drain(self._errors) if reported_at >= since]
        lines = [line for reported_at, line in _drain(self._failures) if reported_at >= since]
        for error in reversed(errors):
            if error.code() != ck.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - it says no cause
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


def _drain(entries: deque[_Entry]) -> list[_Entry]:
    """Remove all entries and return them. Other threads may add and remove some meanwhile."""
    drained: list[_Entry] = []
    with suppress(IndexError):
        while len(drained) < _RETAINED_ERRORS_MAX:
            drained.append(entries.popleft())
    return drained


@contextmanager
def translate_kafka_errors(target: str) -> Iterator[None]:
    """Translate exceptions of librdkafka to ClientError."""
    try:
        yield
    except ck.KafkaException as exc:
        raise client_error_from(target, exc.args[0]) from exc
