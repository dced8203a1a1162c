"""Kafka client properties of librdkafka, translated to those of Spark's Kafka client.

A property that this module cannot translate is refused by name: dropping it silently could mean
reading another cluster, or reading it in the clear.

Certificates and keys are passed as text and not as paths, as an executor may run elsewhere. Values
are secret: Spark hides them by the names of the options (session.py), and no error here repeats
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from offsetwatch.config.properties import (
    LOGIN_MODULES,
    OAUTH_CALLBACK_HANDLER,
    OAUTH_LOGIN_MODULE,
    PEM_SETTINGS,
    format_login,
)
from offsetwatch.errors import HistoryError

# Properties that tune or name OUR librdkafka clients and say nothing about reaching the cluster.
# `isolation.level` is among them because the pipeline always reads committed records only.
IGNORED_PROPERTIES = frozenset(
    {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "client.id",
        "debug",
        "enable.auto.commit",
        "enable.partition.eof",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "isolation.level",
        "log_level",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "statistics.interval.ms",
    }
)
# The second name of what librdkafka knows under two.
_ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_PROTOCOLS = frozenset({"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"})
_PKCS8 = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")
_FILE_BYTES_MAX = 1024 * 1024


def kafka_options(kafka: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source for the cluster `kafka`.

    Raises HistoryError with the names (never the values) of properties that cannot be translated.
    """
    client_properties = _ClientProperties(kafka, properties)
    servers = client_properties.take("bootstrap.servers")
    if not servers:
        raise HistoryError(f"kafka {kafka} has no bootstrap.servers")
    translated = _security(client_properties)
    client_properties.refuse_the_rest()
    return {
        "kafka.bootstrap.servers": servers,
        # Aborted transactions leave records in the log that Connect itself never saw.
        "kafka.isolation.level": "read_committed",
        # Spark asks three times: a cluster that is away is given up after one minute, not three.
        "kafka.default.api.timeout.ms": "20000",
        "kafka.request.timeout.ms": "15000",
        # A task reads what is known to be there. The fetch that its client sends ahead, at the end
        # of a log, would hold up its next question for the half second that is the default.
        "kafka.fetch.max.wait.ms": "10",
        **{f"kafka.{name}": value for name, value in translated.items()},
    }


class _ClientProperties:
    """Client properties of a cluster; each is taken once, and those left at the end are refused."""

    def __init__(self, kafka: str, properties: Mapping[str, str]) -> None:
        self.kafka = kafka
        self._left: dict[str, str] = {}
        for alias, value in properties.items():
            name = _ALIASES.get(alias, alias)
            if self._left.get(name, value) != value:
                raise self.refuse(alias, f"{name} is given too, and says otherwise")
            if name not in IGNORED_PROPERTIES:
                self._left[name] = value

    def take(self, name: str) -> str | None:
        """Return the value; None if there is none."""
        return self._left.pop(name, None)

    def need(self, name: str) -> str:
        """Return the value. Raises HistoryError if there is none."""
        value = self.take(name)
        if not value:
            raise HistoryError(f"kafka {self.kafka}: {name} is required")
        return value

    def text(self, name: str) -> str | None:
        """Return the PEM in NAME.pem, or in the file of NAME.location; None without either."""
        inline, path = self.take(f"{name}.pem"), self.take(f"{name}.location")
        if inline is not None or path is None:
            return inline
        try:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(_FILE_BYTES_MAX)
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not PEM"
            raise HistoryError(f"kafka {self.kafka}: {name}.location: {why}") from None
        if "-----BEGIN " not in text:
            raise HistoryError(f"kafka {self.kafka}: {name}.location: it is not PEM")
        return text

    def refuse(self, name: str, why: str) -> HistoryError:
        """Return the error for one property, without its value."""
        return HistoryError(f"kafka {self.kafka}: the pipeline cannot use {name}: {why}")

    def refuse_hook(self) -> None:
        """Raise HistoryError if tokens come from a Python function (oauth_hook)."""
        if "oauth_cb" in self._left:
            raise self.refuse("oauth_hook", "a Python function, and Spark's client runs in a JVM")

    def refuse_the_rest(self) -> None:
        """Raise HistoryError with the names of the properties that were not taken, if any."""
        self.refuse_hook()
        if self._left:
            names = ", ".join(sorted(self._left))
            raise HistoryError(f"kafka {self.kafka}: the pipeline cannot translate {names}")


def _security(client_properties: _ClientProperties) -> dict[str, str]:
    """Return the JVM client's settings for `security.protocol`."""
    protocol = (client_properties.take("security.protocol") or "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise client_properties.refuse("security.protocol", "it is none that Kafka knows")
    if protocol == "plaintext":
        return {}
    properties = {"security.protocol": protocol.upper()}
    if protocol.endswith("ssl"):
        properties.update(_tls(client_properties))
    if protocol.startswith("sasl"):
        properties.update(_sasl(client_properties))
    return properties


def _tls(client_properties: _ClientProperties) -> Iterator[tuple[str, str]]:
    verification = "enable.ssl.certificate.verification"
    if (client_properties.take(verification) or "true").lower() != "true":
        raise client_properties.refuse(
            verification, "Spark's client verifies always; give ssl.ca.location"
        )
    authorities = client_properties.text("ssl.ca")
    if authorities is not None:
        yield "ssl.truststore.type", "PEM"
        yield PEM_SETTINGS["ssl.ca"], authorities
    certificate, key = client_properties.text("ssl.certificate"), client_properties.text("ssl.key")
    if (certificate is None) != (key is None):
        raise client_properties.refuse("ssl.certificate and ssl.key", "one needs the other")
    if certificate is not None and key is not None:
        if not any(header in key for header in _PKCS8):
            raise client_properties.refuse(
                "ssl.key", "not PKCS#8, as `openssl pkcs8 -topk8` writes it"
            )
        yield "ssl.keystore.type", "PEM"
        yield PEM_SETTINGS["ssl.certificate"], certificate
        yield PEM_SETTINGS["ssl.key"], key
    # Java before 19 cannot open a key that openssl encrypted by its default, PBES2, and says so
    # when the stream starts; `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES` writes one that it can.
    password = client_properties.take("ssl.key.password")
    if password is not None:
        yield "ssl.key.password", password
    check = client_properties.take("ssl.endpoint.identification.algorithm")
    if check is not None:
        yield "ssl.endpoint.identification.algorithm", "" if check.lower() == "none" else check


def _sasl(client_properties: _ClientProperties) -> dict[str, str]:
    mechanism = client_properties.need("sasl.mechanism").upper()
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, **_oidc(client_properties)}
    if mechanism not in LOGIN_MODULES:
        raise client_properties.refuse("sasl.mechanism", "neither PLAIN, SCRAM nor OAUTHBEARER")
    options = {
        "username": client_properties.need("sasl.username"),
        "password": client_properties.need("sasl.password"),
    }
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": format_login(LOGIN_MODULES[mechanism], options),
    }


def _oidc(client_properties: _ClientProperties) -> dict[str, str]:
    """Return settings for client credentials at a token endpoint (KIP-768).

    Both clients support them.
    """
    client_properties.refuse_hook()
    if (client_properties.take("sasl.oauthbearer.method") or "default").lower() != "oidc":
        raise client_properties.refuse(
            "sasl.mechanism", "OAUTHBEARER needs sasl.oauthbearer.method=oidc"
        )
    options = {
        "clientId": client_properties.need("sasl.oauthbearer.client.id"),
        "clientSecret": client_properties.need("sasl.oauthbearer.client.secret"),
    }
    scope = client_properties.take("sasl.oauthbearer.scope")
    if scope:
        options["scope"] = scope
    for pair in (client_properties.take("sasl.oauthbearer.extensions") or "").split(","):
        name, _, value = pair.partition("=")
        if name:
            options[f"extension_{name.strip()}"] = value.strip()
    return {
        "sasl.oauthbearer.token.endpoint.url": client_properties.need(
            "sasl.oauthbearer.token.endpoint.url"
        ),
        "sasl.login.callback.handler.class": OAUTH_CALLBACK_HANDLER,
        "sasl.jaas.config": format_login(OAUTH_LOGIN_MODULE, options),
    }
