"""Why a connection to a broker failed, in an operator's words, from what librdkafka says of it.

librdkafka 2.x reports one text for each failed connection, such as `ssl://b:9092/bootstrap: SSL
handshake failed: ... (after 2ms in state SSL_HANDSHAKE)`. The texts are those of rdkafka_broker.c,
rdkafka_ssl.c, rdkafka_sasl.c and of OpenSSL 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from exporter.errors import ClientError, Denied, TimedOut, Unreachable

_HTTP: Final = int.from_bytes(b"HTTP")
_TLS_ALERTS: Final = range(0x15030000, 0x15040000)  # a TLS alert, read as the size of an answer


class ConnectionFailure(NamedTuple):
    """What went wrong with a connection, and what to do about it.

    detail  one sentence without times, so that the same failure has the same text
    advice  names the property, or what else to change
    """

    kind: type[ClientError]
    detail: str
    advice: str


_Explain = Callable[[str, re.Match[str]], ConnectionFailure]


def explain_failure(text: str) -> ConnectionFailure | None:
    """Return what a text of librdkafka says of a connection; None if it is about something else."""
    found = _PLACE.match(text)
    if found is None:
        return None
    what, address = found["what"], found["address"]
    if found["node"] != "bootstrap":
        address = f"{address} (broker {found['node']}, as it advertises itself)"
    for pattern, explain in _CAUSES:
        cause = pattern.search(what)
        if cause is not None:
            return explain(address, cause)
    return None


# As an error, and as a line of its log.
_PLACE: Final = re.compile(
    r"(?:FAIL .*?\]: )?(?:\w+://)?(?P<address>\S+)/(?P<node>bootstrap|\d+): (?P<what>.*)", re.DOTALL
)


def _no_tls(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"TLS handshake failed: the listener at {address} does not speak TLS",
        "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the TLS port",
    )


def _needs_tls(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"the listener at {address} speaks TLS, and security.protocol is without it",
        "set security.protocol to SSL or SASL_SSL",
    )


def _other_name(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"TLS handshake failed: the certificate of {address} is for another host name",
        "name the broker as its certificate does, or see ssl.endpoint.identification.algorithm",
    )


def _untrusted(address: str, cause: re.Match[str]) -> ConnectionFailure:
    reason = (cause["reason"] or "").strip(" :")
    return ConnectionFailure(
        Unreachable,
        f"TLS handshake failed: the certificate of {address} is not trusted"
        + (f" ({reason})" if reason else ""),
        "set ssl.ca.location to the certificate authority that issued it",
    )


def _certificate_refused(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Denied,
        f"TLS handshake failed: {address} does not accept the client certificate, or asks for one",
        "set ssl.certificate.location and ssl.key.location to a certificate that it trusts",
    )


def _tls(address: str, cause: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"TLS handshake with {address} failed: {cause['reason'].strip()}",
        "check security.protocol and the ssl.* properties against the broker's listener",
    )


def _mechanism(address: str, cause: re.Match[str]) -> ConnectionFailure:
    offered = (cause["offered"] or "").strip(" ,")
    if not offered:
        return ConnectionFailure(
            Denied,
            f"the listener at {address} has no SASL",
            "set security.protocol to PLAINTEXT or SSL, or name the port of a SASL listener",
        )
    return ConnectionFailure(
        Denied,
        f"{address} does not offer the SASL mechanism {cause['wanted']}; it offers {offered}",
        "set sasl.mechanism to one that it offers",
    )


def _password(address: str, cause: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Denied,
        f"{address} refused the SASL credentials: {cause['reason'].strip()}",
        "check sasl.username and sasl.password; for OAUTHBEARER the token",
    )


def _needs_sasl(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Denied,
        f"{address} closes the connection: it may require SASL or TLS",
        "set security.protocol to that of the broker's listener",
    )


def _other_size(address: str, cause: re.Match[str]) -> ConnectionFailure:
    size = int(cause["size"])
    if size in _TLS_ALERTS:
        return _needs_tls(address, cause)
    what = "it answers HTTP" if size == _HTTP else "its answer is not of Kafka's protocol"
    return ConnectionFailure(
        Unreachable,
        f"the port at {address} is no Kafka listener: {what}",
        "name the address of a Kafka listener",
    )


def _nothing_listens(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"nothing listens at {address}: connection refused",
        "check that the broker runs, and its address and port",
    )


def _no_route(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"no connection to {address} within the time for it",
        "check the address, the network and its firewalls",
    )


def _no_name(address: str, cause: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"the host name of {address} cannot be resolved: {cause['reason'].strip()}",
        "correct the host name, or this host's DNS",
    )


def _no_answer(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        TimedOut,
        f"{address} takes connections and does not answer",
        "check that the broker is not frozen or overloaded, and that this is a Kafka listener",
    )


def _closes(address: str, _: re.Match[str]) -> ConnectionFailure:
    return ConnectionFailure(
        Unreachable,
        f"{address} closes each connection before it has answered: it speaks TLS, or is no Kafka "
        "listener",
        "set security.protocol to SSL or SASL_SSL, or name the address of a Kafka listener",
    )


_NO_TLS: Final = (
    r"PLAINTEXT broker listener|wrong version number|packet length too long|record layer failure"
    r"|unknown protocol|http request"
)
_CERTIFICATE: Final = (
    r"certificate required|bad certificate|alert unknown ca|alert certificate"
    r"|alert handshake failure|alert access denied"
)
_SASL: Final = (
    r"SASL (?P<wanted>\S+) mechanism handshake failed:.*supported mechanisms:(?P<offered>[^()]*)"
)
_AWAY: Final = (
    r"Connection setup timed out|timed out in state CONNECT|No route to host"
    r"|Network is unreachable|Host is down"
)
# The first that fits counts.
_CAUSES: Final[tuple[tuple[re.Pattern[str], _Explain], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), explain)
    for pattern, explain in (
        (_NO_TLS, _no_tls),
        (r"hostname mismatch|does not match target host|IP address mismatch", _other_name),
        (r"certificate verify failed(?P<reason>:[^()]*)?", _untrusted),
        (_CERTIFICATE, _certificate_refused),
        (r"SSL handshake failed:(?P<reason>[^()]*)", _tls),
        (r"connecting to a SSL listener", _needs_tls),
        (r"Invalid response size (?P<size>\d+)", _other_size),
        (_SASL, _mechanism),
        (r"SASL authentication error:(?P<reason>[^()]*)", _password),
        (r"authentication failed:?(?P<reason>[^()]*)", _password),
        (r"require SASL", _needs_sasl),
        (r"Connection refused", _nothing_listens),
        (r"Failed to resolve '[^']*':(?P<reason>[^()]*)", _no_name),
        (_AWAY, _no_route),
        (r"ApiVersion\w* ?(?:Request)? failed:.*timed out|request\(s\) timed out", _no_answer),
        (r"Disconnected.*in state APIVERSION_QUERY", _closes),
    )
)
