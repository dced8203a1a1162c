"""values.schema.json: what each default tells of its type, and what only people know.

Strict: a key that is misspelt is refused where it stands, except in what belongs to Kubernetes or
to offsetwatch itself, which look at it themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.chart.values import Value

Json = dict[str, Any]

_PORT: Final[Json] = {"minimum": 1, "maximum": 65535}
_PORTS: Final[Json] = {"items": {"type": "integer", **_PORT}}
_DIGEST: Final[Json] = {"pattern": "^(sha256:[0-9a-f]{64})?$"}
_DURATION: Final[Json] = {"pattern": "^[1-9][0-9]*(ms|s|m|h)$"}
_SCHEME: Final[Json] = {"enum": ["", "http", "https"]}
_SIZE: Final[Json] = {"pattern": "^[0-9.]+(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"}
_OBJECTS: Final[Json] = {"items": {"type": "object"}}
_NAMED: Final[Json] = {"items": {"type": "object", "required": ["name"]}}
_TEXTS: Final[Json] = {"additionalProperties": {"type": "string"}}
_ACCESS: Final[Json] = {
    "minItems": 1,
    "items": {"enum": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]},
}
_POSITIVE: Final[Json] = {"minimum": 1}
_FREE: Final[Json] = {"properties": {}, "additionalProperties": True}
_MONITOR: Final[Json] = {"interval": _DURATION, "scrapeTimeout": _DURATION, "scheme": _SCHEME}
_MONITOR_LISTS: Final[Json] = {"relabelings": _OBJECTS, "metricRelabelings": _OBJECTS}

# By path: what is added to what the default says; a type here wins.
_MORE: Final[dict[str, Json]] = {
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.digest": _DIGEST,
    "history.image.digest": _DIGEST,
    "image.repository": {"minLength": 1},
    "global": {"additionalProperties": True},
    "global.imagePullSecrets": _NAMED,
    "commonLabels": _TEXTS,
    "replicaCount": {"minimum": 0},
    "revisionHistoryLimit": {"minimum": 0},
    "configFiles": _TEXTS,
    "existingSecretKey": {"minLength": 1},
    "webConfig": {
        "properties": {
            name: {"type": "object"}
            for name in ("tls_server_config", "http_server_config", "basic_auth_users")
        },
        "additionalProperties": False,
    },
    "secretMounts": {
        "items": {
            "type": "object",
            "required": ["secretName"],
            "properties": {
                "secretName": {"type": "string", "minLength": 1},
                "items": {"type": "array", **_OBJECTS},
            },
            "additionalProperties": False,
        }
    },
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "service.port": _PORT,
    "containerPort": _PORT,
    "control.port": _PORT,
    "probes.by": {"enum": ["auto", "http", "https", "exec"]},
    **{
        f"probes.{probe}.{name}": _POSITIVE
        for probe in ("startup", "liveness", "readiness")
        for name in ("periodSeconds", "timeoutSeconds", "failureThreshold")
    },
    **{
        f"{value}.{name}": more
        for value in ("persistence", "history.persistence")
        for name, more in (("accessModes", _ACCESS), ("size", _SIZE), ("annotations", _TEXTS))
    },
    "history.mode": {"enum": ["sidecar", "deployment", "cronjob"]},
    "history.schedule": {"minLength": 1},
    "history.maintain.schedule": {"minLength": 1},
    "history.extraEnv": _NAMED,
    "history.tolerations": _OBJECTS,
    "strimzi.namespaces": {
        "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
    },
    "strimzi.secretNames": {"items": {"type": "string", "minLength": 1}},
    "serviceAccount.annotations": _TEXTS,
    "automountServiceAccountToken": {"type": ["boolean", "null"]},
    "extraArgs": {"items": {"type": "string"}},
    "extraEnv": _NAMED,
    "extraEnvFrom": _OBJECTS,
    "extraVolumes": _NAMED,
    "extraVolumeMounts": _NAMED,
    "initContainers": _NAMED,
    "extraContainers": _NAMED,
    "extraManifests": {"items": {"type": ["string", "object"]}},
    "podAnnotations": _TEXTS,
    "podLabels": _TEXTS,
    "podSecurityContext": _FREE,
    "securityContext": _FREE,
    "tolerations": _OBJECTS,
    "topologySpreadConstraints": _OBJECTS,
    "terminationGracePeriodSeconds": {"minimum": 0},
    "podDisruptionBudget.maxUnavailable": {"type": ["integer", "string"], "minimum": 0},
    "networkPolicy.ingress.from": _OBJECTS,
    "networkPolicy.ingress.controlFrom": _OBJECTS,
    "networkPolicy.egress.ports": _PORTS,
    "networkPolicy.egress.apiServerPorts": _PORTS,
    "networkPolicy.egress.extra": _OBJECTS,
    **{
        f"{value}.{name}": more
        for value in ("serviceMonitor", "podMonitor")
        for name, more in {**_MONITOR, **_MONITOR_LISTS, "additionalLabels": _TEXTS}.items()
    },
    "prometheusRule.additionalLabels": _TEXTS,
    "prometheusRule.additionalRuleLabels": _TEXTS,
    "prometheusRule.additionalGroups": _NAMED,
    "prometheusRule.thresholds": {"additionalProperties": {"type": "number", "minimum": 0}},
    "dashboards.label": {"minLength": 1},
    "dashboards.annotations": _TEXTS,
}


def render(tree: Sequence[Value], optional_rules: Sequence[str]) -> str:
    """The schema's text. `optional_rules`: what lies in alerts/optional."""
    more = {
        **_MORE,
        "prometheusRule.optional": {"items": {"enum": list(optional_rules)}, "uniqueItems": True},
    }
    unknown = more.keys() - {value.path for value in _all(tree)}
    assert not unknown, f"no such values: {sorted(unknown)}"
    built = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart offsetwatch",
        **_object(tree, more),
    }
    # Whoever has this chart below another one switches it on and off by it.
    built["properties"]["enabled"] = {"type": "boolean"}
    return json.dumps(built, indent=2, ensure_ascii=False) + "\n"


def optional_rules(alerts: Path) -> tuple[str, ...]:
    """Their names, as a value of the chart has them."""
    files = (alerts / "optional").glob("*.rules.yaml")
    return tuple(sorted(file.name.removesuffix(".rules.yaml") for file in files))


def _all(tree: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(each for value in tree for each in (value, *_all(value.within)))


def _object(tree: Sequence[Value], more: dict[str, Json]) -> Json:
    return {
        "type": "object",
        "properties": {value.path.rpartition(".")[2]: _one(value, more) for value in tree},
        "additionalProperties": False,
    }


def _one(value: Value, more: dict[str, Json]) -> Json:
    answer = {"description": value.said} if value.said else {}
    built = _object(value.within, more) if value.within else {"type": _type(value.default)}
    return {**answer, **built, **more.get(value.path, {})}


def _type(default: Any) -> str:
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return names.get(type(default), "null")
