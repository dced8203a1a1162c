"""What people write for Strimzi, and an account that may do what docs/strimzi.md asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPACE, ACCOUNT, CLUSTER = "pipelines", "offsetwatch", "connect"
GROUP = "kafka.strimzi.io"

# As in docs/strimzi.md.
RULES = [
    {
        "apiGroups": ["kafka.strimzi.io"],
        "resources": ["kafkaconnects"],
        "verbs": ["get", "list"],
    },
    {
        "apiGroups": ["kafka.strimzi.io"],
        "resources": ["kafkaconnectors", "kafkamirrormaker2s"],
        "verbs": ["get", "list", "patch"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]},
]
TOPICS = {
    "groupId": "connect",
    "configStorageTopic": "connect-configs",
    "statusStorageTopic": "connect-status",
    "offsetStorageTopic": "connect-offsets",
}


def account() -> list[dict[str, Any]]:
    def at(kind: str, version: str = "rbac.authorization.k8s.io/v1") -> dict[str, Any]:
        metadata = {"name": ACCOUNT, "namespace": SPACE}
        return {"apiVersion": version, "kind": kind, "metadata": metadata}

    whom = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    return [
        at("ServiceAccount", "v1"),
        {**at("Role"), "rules": RULES},
        {**at("RoleBinding"), "subjects": [whom], "roleRef": role},
    ]


def cluster(version: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "KafkaConnect",
        "metadata": {
            "name": CLUSTER,
            "namespace": SPACE,
            "annotations": {"strimzi.io/use-connector-resources": "true"},
        },
        "spec": {"replicas": 1, "bootstrapServers": "127.0.0.1:9092", **topics(version)},
    }


def topics(version: str) -> dict[str, str]:
    """In v1beta2 they stand in the configuration."""
    return TOPICS if version == "v1" else {}


def connector_of(name: str, version: str, kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The resource of a connector of our cluster with one task."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "KafkaConnector",
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": {"strimzi.io/cluster": CLUSTER},
        },
        "spec": {"class": kind, "tasksMax": 1, "config": dict(config)},
    }
