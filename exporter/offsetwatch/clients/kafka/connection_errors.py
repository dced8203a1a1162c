"""Connection errors of librdkafka, translated to an operator's words with advice.

librdkafka 2.x reports one text for each failed connection, such as `ssl://b:9092/bootstrap: SSL
handshake failed: ... (after 2ms in state SSL_HANDSHAKE)`. The texts are those of rdkafka_broker.c,
rdkafka_ssl.c, rdkafka_sasl.c and of OpenSSL 3.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from offsetwatch.errors import AccessDenied, ClientError, ResponseTimeout, TargetUnreachable

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
    found = _BROKER_ADDRESS.match(text)
    if found is None:
        return None
    what, address = found["what"], found["address"]
    if found["node"] != "bootstrap":
        address = f"{address} (broker {found['node']}, as it advertises itself)"
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
