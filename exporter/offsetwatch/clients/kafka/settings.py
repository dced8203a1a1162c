"""Explanation of properties that librdkafka refuses: which one, and what to write instead.

Users copy properties from Java clients. librdkafka reports the first that it refuses, in words that
name neither the property nor a correction.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from offsetwatch.config.properties import PEM_SETTINGS

_JAVA: Final = "a property of Java clients"
_PEM: Final = "convert the store to PEM (keytool -exportcert, openssl pkcs12)"
# Of Java's client properties, those that say how to connect, and librdkafka's way to say it.
_JAVA_PROPERTY_ADVICE: Final = {
    "sasl.jaas.config": f"{_JAVA}; write sasl.username and sasl.password",
    "sasl.client.callback.handler.class": f"{_JAVA}; for OAUTHBEARER see oauth_hook",
    "sasl.login.callback.handler.class": f"{_JAVA}; for OAUTHBEARER see oauth_hook",
    "sasl.login.class": f"{_JAVA}; leave it out",
    "ssl.truststore.location": f"{_JAVA}; {_PEM} and name it in ssl.ca.location",
    "ssl.truststore.password": f"{_JAVA}; leave it out, a PEM file of certificates has none",
    "ssl.truststore.type": f"{_JAVA}; leave it out",
    **{java: f"{_JAVA}; write {name}.pem" for name, java in PEM_SETTINGS.items()},
    "ssl.keystore.type": f"{_JAVA}; leave it out",
    "ssl.protocol": f"{_JAVA}; leave it out",
    "ssl.enabled.protocols": f"{_JAVA}; leave it out",
}
_SUPPORTED_MECHANISMS: Final = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"
_MECHANISMS: Final = {
    "AWS_MSK_IAM": "is of Java clients alone; write OAUTHBEARER, and oauth_hook for the tokens",
    "GSSAPI": (
        f"(Kerberos) is not in this build of librdkafka, which has {_SUPPORTED_MECHANISMS}; use a "
        "listener that has one of them, or a confluent-kafka that is built with libsasl2"
    ),
}
_VALUES: Final = {
    "security.protocol": "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    "sasl.oauthbearer.method": "expected default or oidc",
    "ssl.endpoint.identification.algorithm": (
        "expected https, or none to take a certificate of any host name"
    ),
}
_NO_CERTIFICATE: Final = "the file has no certificate in PEM"
_NO_KEY: Final = "the file has no private key in PEM, or ssl.key.password is missing or wrong"
# Of librdkafka's messages on files, a part of each, and what it means.
_FILES: Final = {
    "key values mismatch": "the key does not belong to the certificate",
    "key type mismatch": "the key does not belong to the certificate",
    "no certificate or crl found": _NO_CERTIFICATE,
    "ssl.certificate.": _NO_CERTIFICATE,
    "ssl.ca.": _NO_CERTIFICATE,
    "ssl.keystore.location": "the file is no PKCS#12 store, or ssl.keystore.password is wrong",
    "ssl.key.": _NO_KEY,
}
# To suggest one for a name that there is not: those of connections, of 2.15.
_KNOWN_PROPERTIES: Final = (
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
_PROPERTIES_BY_WORDS: Final = {
    "Java JAAS": ("sasl.jaas.config",),
    "Java TrustStore": (
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ),
}
_UNKNOWN_PROPERTY: Final = re.compile(r'No such configuration property: "(?P<name>[^"]*)"')
_WRONG_VALUE: Final = re.compile(
    r'Invalid value .*for configuration property "(?P<name>[^"]*)"'
    r'|"(?P<empty>[^"]*)" cannot be set to empty value'
)
_RANGE: Final = re.compile(
    r'property "(?P<name>[^"]*)" value .* is outside allowed range (?P<least>\S+)\.\.(?P<most>\d+)'
)
_CREATION_PREFIX: Final = re.compile(r"^Failed to create [a-z ]+: ")
_MECHANISM: Final = re.compile(r"(?:SASL mechanism:?|mechanism) (?P<mechanism>[\w-]+)")


class RefusedProperty(NamedTuple):
    """Property that librdkafka refuses; `detail` says why and what to write, without values."""

    name: str
    detail: str


def explain_refusal(properties: Mapping[str, str], said: str) -> RefusedProperty | None:
    """Return the property that librdkafka refuses with this message; None if it names none."""
    said = _CREATION_PREFIX.sub("", said)
    unknown = _UNKNOWN_PROPERTY.search(said)
    if unknown is not None:
        name = unknown["name"]
        near = difflib.get_close_matches(name, _KNOWN_PROPERTIES, n=1)
        hint = f"did you mean {near[0]}?" if near else "see CONFIGURATION.md of librdkafka"
        advice = f"librdkafka has no such property; {hint}"
        return RefusedProperty(name, _JAVA_PROPERTY_ADVICE.get(name, advice))
    for words, names in _PROPERTIES_BY_WORDS.items():
        if words in said:
            name = next((name for name in names if name in properties), names[0])
            return RefusedProperty(name, _JAVA_PROPERTY_ADVICE[name])
    wrong = _WRONG_VALUE.search(said)
    if wrong is not None:
        name = wrong["name"] or wrong["empty"]
        why = "its value is refused; see CONFIGURATION.md of librdkafka"
        return RefusedProperty(name, _VALUES.get(name, why))
    bounds = _RANGE.search(said)
    if bounds is not None:
        why = f"expected a number from {bounds['least']} to {bounds['most']}"
        return RefusedProperty(bounds["name"], why)
    mechanism = _MECHANISM.search(said)
    if mechanism is not None:
        name = "sasl.mechanisms" if "sasl.mechanisms" in properties else "sasl.mechanism"
        why = _MECHANISMS.get(mechanism["mechanism"].upper(), f"is none of {_SUPPORTED_MECHANISMS}")
        return RefusedProperty(name, f"{mechanism['mechanism']} {why}")
    named = [name for name in properties if name in said]
    if not named:
        return None
    of_file = "failed: error:" in said
    words = next((words for part, words in _FILES.items() if of_file and part in said), said)
    return RefusedProperty(max(named, key=len), words)
