"""What Strimzi runs, as a configuration that loads."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from offsetwatch import config
from offsetwatch.toolbox.strimzi_discovery import (
    NamespaceResources,
    build_file_text,
    discover_config,
)

KAFKA = {
    "metadata": {"name": "main"},
    "spec": {"kafka": {"listeners": [{"name": "tls", "port": 9093, "tls": True}]}},
    "status": {"listeners": [{"name": "tls", "bootstrapServers": "10.0.0.7:9093"}]},
}
SERVICE = "main-kafka-bootstrap:9093"
TLS = {"trustedCertificates": [{"secretName": "main-cluster-ca-cert", "certificate": "ca.crt"}]}
SCRAM = {
    "type": "scram-sha-512",
    "username": "app",
    "passwordSecret": {"secretName": "app", "password": "password"},
}
MUTUAL = {
    "type": "tls",
    "certificateAndKey": {"secretName": "app", "certificate": "user.crt", "key": "user.key"},
}


def connect(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "my-connect"}, "spec": {"bootstrapServers": SERVICE, **spec}}


def secret(**data: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


@pytest.mark.parametrize(
    "bootstrap", [SERVICE, "10.0.0.7:9093", "main-kafka-bootstrap.ns.svc:9093"]
)
def test_the_kafka_of_a_connect_cluster_is_known_by_any_of_its_addresses(bootstrap: str) -> None:
    resources = NamespaceResources(
        "ns", kafkas=(KAFKA,), connects=(connect(bootstrapServers=bootstrap),)
    )
    result = discover_config(resources, folder="f")
    assert result.kafka == {"main": {"bootstrap": bootstrap}}
    assert result.connect == [
        {
            "name": "my-connect",
            "kafka": "main",
            "url": "http://my-connect-connect-api.ns.svc:8083",
            "strimzi": {"namespace": "ns", "name": "my-connect"},
        }
    ]


@pytest.mark.parametrize(
    ("how", "properties"),
    [
        pytest.param(
            {"tls": TLS, "authentication": SCRAM},
            {
                "ssl.ca.location": "f/main-ca.pem",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "app",
                "sasl.password_file": "f/main-password",
            },
            id="a password over TLS",
        ),
        pytest.param(
            {"tls": TLS, "authentication": MUTUAL},
            {
                "ssl.ca.location": "f/main-ca.pem",
                "ssl.certificate.location": "f/main-certificate.pem",
                "ssl.key.location": "f/main-key.pem",
                "security.protocol": "SSL",
            },
            id="a certificate",
        ),
        pytest.param({"tls": {}}, {"security.protocol": "SSL"}, id="trusted by the system"),
        pytest.param(
            {"authentication": {**SCRAM, "type": "plain"}},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "app",
                "sasl.password_file": "f/main-password",
            },
            id="a password in the clear",
        ),
    ],
)
def test_credentials_become_properties_that_name_files(
    how: dict[str, Any], properties: dict[str, str]
) -> None:
    resources = NamespaceResources("ns", kafkas=(KAFKA,), connects=(connect(**how),))
    assert discover_config(resources, folder="f").kafka["main"]["properties"] == properties


def test_an_authentication_that_is_not_known_is_said_and_not_guessed() -> None:
    resources = NamespaceResources("ns", connects=(connect(authentication={"type": "oauth"}),))
    result = discover_config(resources, folder="f")
    assert "properties" not in result.kafka["main-kafka-bootstrap"]
    assert any("oauth" in note for note in result.notes)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "target": {
                    "alias": "west",
                    "bootstrapServers": "west:9092",
                    "offsetStorageTopic": "offsets",
                },
                "mirrors": [
                    {
                        "source": {"alias": "east", "bootstrapServers": "east:9092"},
                        "sourceConnector": {},
                    }
                ],
            },
            id="v1",
        ),
        pytest.param(
            {
                "connectCluster": "west",
                "clusters": [
                    {"alias": "east", "bootstrapServers": "east:9092"},
                    {
                        "alias": "west",
                        "bootstrapServers": "west:9092",
                        "config": {"offset.storage.topic": "offsets"},
                    },
                ],
                "mirrors": [
                    {"sourceCluster": "east", "targetCluster": "west", "sourceConnector": {}}
                ],
            },
            id="v1beta2",
        ),
    ],
)
def test_a_mirror_maker_is_a_connect_cluster_beside_the_clusters_it_copies_from(
    spec: dict[str, Any],
) -> None:
    resources = NamespaceResources("ns", mirrors=({"metadata": {"name": "mm"}, "spec": spec},))
    result = discover_config(resources, folder="f")
    assert {name: labels["bootstrap"] for name, labels in result.kafka.items()} == {
        "east": "east:9092",
        "west": "west:9092",
    }
    (entry,) = result.connect
    assert (entry["kafka"], entry["offsets_topic"]) == ("west", "offsets")
    assert entry["url"] == "http://mm-mirrormaker2-api.ns.svc:8083"
    assert result.owners == {("mm", "east->west.MirrorSourceConnector"): "KafkaMirrorMaker2 mm"}


def test_what_is_found_is_a_configuration_that_loads(tmp_path: Path) -> None:
    labels = {"strimzi.io/cluster": "my-connect"}
    resources = NamespaceResources(
        "ns",
        kafkas=(KAFKA,),
        connects=(connect(tls=TLS, authentication=SCRAM),),
        connectors=(
            {"metadata": {"name": "orders", "labels": labels}},
            {"metadata": {"name": "other", "labels": {"strimzi.io/cluster": "else"}}},
        ),
    )
    result = discover_config(resources, folder=str(tmp_path))
    secrets = {
        "main-cluster-ca-cert": secret(**{"ca.crt": "a certificate"}),
        "app": secret(password="hidden"),
    }
    for name, parts in result.files.items():
        (tmp_path / name).write_text(build_file_text(parts, secrets))
        (tmp_path / name).chmod(0o600)
    assert result.owners == {("my-connect", "orders"): "KafkaConnector orders"}
    loaded = config.parse({"kafka": result.kafka, "connect": result.connect}, {})
    assert loaded.kafka["main"].client_properties()["sasl.password"] == "hidden"
    assert "hidden" not in str(result)


def test_certificates_that_a_pattern_names_are_all_taken() -> None:
    secrets = {"s": secret(**{"a.crt": "one", "b.crt": "two\n", "c.key": "no"})}
    assert build_file_text([("s", "*.crt")], secrets) == "one\ntwo\n"
    with pytest.raises(KeyError, match="has no x"):
        build_file_text([("s", "x")], secrets)
