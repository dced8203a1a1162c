"""Discovery of a configuration from the Strimzi resources of a namespace.

It finds Kafka clusters with the addresses and credentials that resources name, Connect clusters and
MirrorMakers with their REST addresses, and the owner of each connector.

Pure: the caller reads resources and secrets. The configuration has no secrets, only the paths of
files that hold them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from offsetwatch.addresses import parse_address
from offsetwatch.remedy.drivers.strimzi.resources import CLUSTER_LABEL, find_mirror_parts

Json = dict[str, Any]
SecretKeyRef = tuple[str, str]  # its name, and the key in it

_MECHANISMS: Final = {
    "plain": "PLAIN",
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
}
_REST_PORT: Final = 8083


@dataclass(frozen=True, slots=True)
class NamespaceResources:
    """The Strimzi resources of one namespace, as they were listed."""

    namespace: str
    kafkas: tuple[Json, ...] = ()
    connects: tuple[Json, ...] = ()
    mirrors: tuple[Json, ...] = ()
    connectors: tuple[Json, ...] = ()


@dataclass(slots=True)
class StrimziDiscoveryResult:
    """The discovered configuration, and notes about it for the user.

    files   name of a file -> the parts of secrets that it holds, one after the other
    owners  (Connect cluster, connector) -> kind and name of the resource that owns it
    """

    kafka: dict[str, Json] = field(default_factory=dict)
    connect: list[Json] = field(default_factory=list)
    files: dict[str, tuple[SecretKeyRef, ...]] = field(default_factory=dict)
    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def discover_config(resources: NamespaceResources, *, folder: str) -> StrimziDiscoveryResult:
    """Discover the configuration; files of secrets are in `folder`."""
    return _ConfigDiscovery(resources, folder).run()


class _ConfigDiscovery:
    def __init__(self, resources: NamespaceResources, folder: str) -> None:
        self._resources = resources
        self._folder = folder
        self._result = StrimziDiscoveryResult()

    def run(self) -> StrimziDiscoveryResult:
        for connect in self._resources.connects:
            self._add_connect(connect)
        for mirror in self._resources.mirrors:
            self._add_mirror_maker(mirror)
        for name in map(_read_name, self._resources.kafkas):
            if name not in self._result.kafka:
                self._result.notes.append(
                    f"Kafka {name}: no KafkaConnect and no KafkaMirrorMaker2 uses it"
                )
        return self._result

    def _add_connect(self, document: Json) -> None:
        name = _read_name(document)
        self._add_connect_entry(document, document.get("spec") or {}, f"{name}-connect-api")
        for connector in self._resources.connectors:
            labels = (connector.get("metadata") or {}).get("labels") or {}
            if labels.get(CLUSTER_LABEL) == name:
                owned = _read_name(connector)
                self._result.owners[name, owned] = f"KafkaConnector {owned}"

    def _add_mirror_maker(self, document: Json) -> None:
        name, spec = _read_name(document), document.get("spec") or {}
        clusters = {str(item.get("alias")): item for item in spec.get("clusters") or ()}
        target: Json = spec.get("target") or clusters.get(str(spec.get("connectCluster"))) or {}
        for mirror in spec.get("mirrors") or ():
            source = mirror.get("source") or clusters.get(str(mirror.get("sourceCluster")))
            if source:
                self._add_kafka(source)
        self._add_connect_entry(document, target, f"{name}-mirrormaker2-api")
        for connector, _, _ in find_mirror_parts(document):
            self._result.owners[name, connector] = f"KafkaMirrorMaker2 {name}"

    def _add_connect_entry(self, document: Json, client: Json, service: str) -> None:
        """Add a Connect cluster; `client` has the settings of its workers' Kafka cluster."""
        name, namespace = _read_name(document), self._resources.namespace
        kafka = self._add_kafka(client)
        reported = (document.get("status") or {}).get("url")
        url = f"http://{service}.{namespace}.svc:{_REST_PORT}"
        entry: Json = {"name": name, "kafka": kafka, "url": str(reported or url)}
        topic = client.get("offsetStorageTopic")
        topic = topic or (client.get("config") or {}).get("offset.storage.topic")
        if topic:
            entry["offsets_topic"] = str(topic)
        entry["strimzi"] = {"namespace": namespace, "name": name}
        if any(mapping["name"] == name for mapping in self._result.connect):
            entry["name"] = f"{name}-mirrors"
            self._result.notes.append(
                f"{name} is a KafkaConnect and a KafkaMirrorMaker2: rename one"
            )
        self._result.connect.append(entry)

    def _add_kafka(self, client: Mapping[str, Any]) -> str:
        """Return the name of the cluster that a client section reaches; add it if it is new."""
        parts = str(client.get("bootstrapServers")).split(",")
        bootstrap = ",".join(part.strip() for part in parts)
        own = (
            _read_name(kafka)
            for kafka in self._resources.kafkas
            if bootstrap in self._collect_addresses(kafka)
        )
        name = next(own, None) or _build_cluster_name(bootstrap)
        if name not in self._result.kafka:
            entry: Json = {"bootstrap": bootstrap}
            properties = self._build_properties(client, name)
            if properties:
                entry["properties"] = properties
            self._result.kafka[name] = entry
        return name

    def _collect_addresses(self, kafka: Json) -> frozenset[str]:
        """Return all client addresses of a cluster, from its status and its Service."""
        listeners = (kafka.get("status") or {}).get("listeners") or ()
        reported = {str(listener.get("bootstrapServers")) for listener in listeners}
        service = f"{_read_name(kafka)}-kafka-bootstrap"
        space = self._resources.namespace
        hosts = (service, f"{service}.{space}", f"{service}.{space}.svc")
        ports = {name.rpartition(":")[2] for name in reported}
        cluster = (kafka.get("spec") or {}).get("kafka") or {}
        ports |= {str(listener.get("port")) for listener in cluster.get("listeners") or ()}
        return frozenset(reported | {f"{host}:{port}" for host in hosts for port in ports})

    def _build_properties(self, client: Mapping[str, Any], name: str) -> dict[str, str]:
        """Build librdkafka's properties from the client settings in a Strimzi resource."""
        properties: dict[str, str] = {}
        how, tls = client.get("authentication") or {}, client.get("tls")
        kind = str(how.get("type") or "")
        if tls is not None:
            trusted = tuple(
                (  # the key of a certificate, or a pattern of keys
                    str(item.get("secretName")),
                    str(item.get("certificate") or item.get("pattern") or "*.crt"),
                )
                for item in tls.get("trustedCertificates") or ()
            )
            if trusted:
                properties["ssl.ca.location"] = self._add_secret_file(f"{name}-ca.pem", *trusted)
        if kind in _MECHANISMS:
            secret = how.get("passwordSecret") or {}
            part = (str(secret.get("secretName")), str(secret.get("password")))
            return properties | {
                "security.protocol": "SASL_PLAINTEXT" if tls is None else "SASL_SSL",
                "sasl.mechanism": _MECHANISMS[kind],
                "sasl.username": str(how.get("username")),
                "sasl.password_file": self._add_secret_file(f"{name}-password", part),
            }
        if kind == "tls":
            own = how.get("certificateAndKey") or {}
            for option in ("certificate", "key"):
                part = (str(own.get("secretName")), str(own.get(option)))
                path = self._add_secret_file(f"{name}-{option}.pem", part)
                properties[f"ssl.{option}.location"] = path
        elif kind:
            self._result.notes.append(
                f"kafka.{name}: authentication {kind} is to be configured by hand"
            )
        if tls is not None:
            properties["security.protocol"] = "SSL"
        return properties

    def _add_secret_file(self, name: str, *parts: SecretKeyRef) -> str:
        self._result.files[name] = parts
        return f"{self._folder}/{name}"


def build_file_text(parts: Iterable[SecretKeyRef], secrets: Mapping[str, Json]) -> str:
    """Build the text of a file. Raises KeyError with what is missing."""
    lines = []
    for secret, key in parts:
        data = secrets[secret].get("data") or {}
        pattern = re.compile(re.escape(key).replace(r"\*", ".*"))
        matching = [value for name, value in sorted(data.items()) if pattern.fullmatch(name)]
        if not matching:
            raise KeyError(f"Secret {secret} has no {key}")
        for value in matching:
            try:
                lines.append(base64.b64decode(value, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError) as exc:
                raise KeyError(f"Secret {secret}: {key} is no text") from exc
    return "\n".join(text.rstrip("\n") for text in lines) + "\n"


def _build_cluster_name(bootstrap: str) -> str:
    """Build a name for a cluster that Strimzi does not run here."""
    first = bootstrap.partition(",")[0].strip()
    address = parse_address(first)
    host = first.partition(":")[0] if address is None else address.host
    return re.sub(r"[^A-Za-z0-9-]+", "-", host).strip("-") or "kafka"


def _read_name(document: Mapping[str, Any]) -> str:
    return str((document.get("metadata") or {}).get("name"))
