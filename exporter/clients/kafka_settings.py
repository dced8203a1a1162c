"""What librdkafka refuses among a cluster's properties: which one, and what to write instead.

People copy properties from Java clients. librdkafka reports the first that it refuses, in words
that name neither the property nor the way out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_JAVA: Final = "a property of Java clients"
_PEM: Final = "convert the store to PEM (keytool -exportcert, openssl pkcs12)"
# Of Java's client properties, those that say how to connect, and librdkafka's way to say it.
_OF_JAVA: Final = {
    "sasl.jaas.config": f"{_JAVA}; write sasl.username and sasl.password",
    "sasl.client.callback.handler.class": f"{_JAVA}; for OAUTHBEARER see oauth_hook",
    "sasl.login.callback.handler.class": f"{_JAVA}; for OAUTHBEARER see oauth_hook",
    "sasl.login.class": f"{_JAVA}; leave it out",
    "ssl.truststore.location": f"{_JAVA}; {_PEM} and name it in ssl.ca.location",
    "ssl.truststore.password": f"{_JAVA}; leave it out, a PEM file of certificates has none",
    "ssl.truststore.type": f"{_JAVA}; leave it out",
    "ssl.truststore.certificates": f"{_JAVA}; write ssl.ca.pem",
    "ssl.keystore.certificate.chain": f"{_JAVA}; write ssl.certificate.pem",
    "ssl.keystore.key": f"{_JAVA}; write ssl.key.pem",
    "ssl.keystore.type": f"{_JAVA}; leave it out",
    "ssl.protocol": f"{_JAVA}; leave it out",
    "ssl.enabled.protocols": f"{_JAVA}; leave it out",
}
_MECHANISMS: Final = {
    "AWS_MSK_IAM": "is of Java clients alone; write OAUTHBEARER, and oauth_hook for the tokens",
    "GSSAPI": (
        "(Kerberos) is not in this build of librdkafka, which has PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 and OAUTHBEARER; use a listener that has one of them, or a confluent-kafka "
        "that is built with libsasl2"
    ),
}
# To suggest one for a name that there is not: those of connections, of 2.15.
_KNOWN: Final = (
    "bootstrap.servers",
    "broker.address.family",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "enable.ssl.certificate.verification",
    "https.ca.location",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.sigalgs.list",
)
_IN_WORDS: Final = {
    "Java JAAS": ("sasl.jaas.config",),
    "Java TrustStore": (
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ),
}
_UNKNOWN: Final = re.compile(r'No such configuration property: "(?P<name>[^"]*)"')
_WRONG_VALUE: Final = re.compile(r'Invalid value .*for configuration property "(?P<name>[^"]*)"')
_MECHANISM: Final = re.compile(r"(?:SASL mechanism:?|mechanism) (?P<mechanism>[\w-]+)")


class RefusedProperty(NamedTuple):
    """One property that librdkafka refuses; `detail` says why and what to write, without values."""

    name: str
    detail: str


def explain_refusal(properties: Mapping[str, str], said: str) -> RefusedProperty | None:
    """Return which property librdkafka refuses with these words; None where they do not tell."""
    unknown = _UNKNOWN.search(said)
    if unknown is not None:
        name = unknown["name"]
        return RefusedProperty(name, _OF_JAVA.get(name) or _no_such(name))
    for words, names in _IN_WORDS.items():
        if words in said:
            name = next((name for name in names if name in properties), names[0])
            return RefusedProperty(name, _OF_JAVA[name])
    wrong = _WRONG_VALUE.search(said)
    if wrong is not None:
        return RefusedProperty(wrong["name"], f"is refused: {said}")
    mechanism = _MECHANISM.search(said)
    if mechanism is not None:
        name = "sasl.mechanisms" if "sasl.mechanisms" in properties else "sasl.mechanism"
        why = _MECHANISMS.get(mechanism["mechanism"].upper(), f"is refused: {said}")
        return RefusedProperty(name, f"{mechanism['mechanism']} {why}")
    named = [name for name in properties if name in said]
    return RefusedProperty(max(named, key=len), said) if named else None


def _no_such(name: str) -> str:
    near = difflib.get_close_matches(name, _KNOWN, n=1)
    hint = f"did you mean {near[0]}?" if near else "see CONFIGURATION.md of librdkafka"
    return f"librdkafka has no such property; {hint}"
