"""Descriptions of all settings, read from the schema: path, type, default and meaning.

reference_file.py makes the YAML reference file of them, and configuration.py the page.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from offsetwatch.config.document import find_section_type, plain_number_of
from offsetwatch.config.schema import remediation, root, sources, types
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.types import ConfigSection

# What stands where a setting has no default, or none that says anything.
EXAMPLES: Final[dict[str, Any]] = {
    "Config.kafka": "east",
    "Kafka.bootstrap": "broker-1:9092,broker-2:9092",
    "Kafka.properties": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "watcher",
        "sasl.password_file": "secrets/kafka-password",
    },
    "Kafka.oauth_hook": "package.module:function",
    "Connect.name": "lab",
    "Connect.kafka": "east",
    "Connect.url": "http://worker-1:8083",
    "Connect.urls": ["https://worker-1:8083", "https://worker-2:8083"],
    "Connect.offsets_topic": "connect-offsets",
    "Connect.config_topic": "connect-configs",
    "Connect.status_topic": "connect-status",
    "Connect.worker_properties_file": "worker.properties",
    "Strimzi.namespace": "kafka",
    "Strimzi.name": "my-connect",
    "Strimzi.kubeconfig_file": "kubeconfig",
    "Auth.username": "watcher",
    "Auth.password": "${CONNECT_PASSWORD}",
    "Auth.password_file": "secrets/connect-password",
    "Auth.bearer_token": "${CONNECT_TOKEN}",
    "Auth.bearer_token_file": "secrets/connect-token",
    "Tls.ca_file": "tls/ca.pem",
    "Tls.cert_file": "tls/watcher.pem",
    "Tls.key_file": "tls/watcher-key.pem",
    "Tls.key_password": "${KEY_PASSWORD}",
    "Tls.key_password_file": "secrets/key-password",
    "Source.name": "shop",
    "Source.kind": "postgresql",
    "Source.dsn": "postgresql://watcher:${SHOP_PASSWORD}@db-1/shop",
    "Source.dsn_file": "secrets/shop-dsn",
    "Source.host": "db-1",
    "Source.port": 5432,
    "Source.database": "shop",
    "Source.user": "watcher",
    "Source.password": "${SHOP_PASSWORD}",
    "Source.password_file": "secrets/shop-password",
    "Source.folder": "/mnt/files",
    "SourceTls.ca_file": "tls/ca.pem",
    "SourceTls.cert_file": "tls/watcher.pem",
    "SourceTls.key_file": "tls/watcher-key.pem",
    "SourceConnectors.connect": "lab",
    "SourceColumn.table": "shop.public.orders",
    "SourceColumn.statement": "SELECT max(id) FROM public.orders",
    "Flow.source": "west",
    "Flow.target": "east",
    "Flow.upstream": "east",
    "Flow.downstream": "east",
    "Flow.connect": "lab",
    "Flow.copies": {"orders": "orders-eu", "lines": "copy-of-{topic}"},
    "OffsetSyncs.kafka": "east",
    "OffsetSyncs.topic": "mm2-offset-syncs.east.internal",
    "Alertmanager.url": "https://alertmanager-1:9093",
    "AutoRuleConfig.connect": "lab",
    "AutoRuleConfig.connectors": ["orders-sink", "billing.*"],
    "AutoRuleConfig.actions": ["restart_failed"],
    "RemedyConfig.sink_data_errors": {
        "com.example.LedgerSinkConnector": ["com.example.InvalidEntryException"]
    },
    "QuarantineConfig.kafka": "east",
    "QuarantineConfig.replication_factor": 3,
    "QuarantineConfig.retention_days": "365d",
    "KafkaJournal.kafka": "east",
    "KafkaJournal.name": "https://watch-1:9641",
    "MaintenanceWindowConfig.start": "22:00",
    "MaintenanceWindowConfig.end": "06:00",
    "WebhookConfig.name": "on-call",
    "NotifyConfig.runbooks_url": "https://docs.example.com/offsetwatch/runbooks",
    "NotifyConfig.boards_url": "https://grafana.example.com",
    "NotifyConfig.external_url": "https://offsetwatch.example.com",
    "WebhookConfig.url": "https://hooks.example.com/offsetwatch",
    "WebhookConfig.url_file": "secrets/webhook-url",
    "TokenPrincipal.name": "on-call",
    "TokenPrincipal.role": "operator",
    "TokenPrincipal.connect": ["lab"],
    "TokenPrincipal.token_sha256": "0" * 64,
    "TokenPrincipal.token_file": "secrets/on-call-token",
    "TokenPrincipal.expires": "2030-01-31T00:00:00Z",
    "PasswordPrincipal.name": "ada",
    "PasswordPrincipal.role": "approver",
    "PasswordPrincipal.connect": ["lab"],
    "PasswordPrincipal.user": "ada",
    "Config.web_config_file": "web.yaml",
    "Control.web_config_file": "web-control.yaml",
    "CertificatePrincipal.name": "alertmanager",
    "CertificatePrincipal.role": "hook",
    "CertificatePrincipal.connect": ["lab"],
    "CertificatePrincipal.san": "dns:alertmanager-1.example.com",
}


class Setting(NamedTuple):
    """Description of one key.

    key       `Section.field`, by the class that uses it
    path      as in the file: kafka.NAME.bootstrap, connect[].poll.state_s
    takes     its type and its bounds
    default   None if there is no informative one
    inner     the settings of the section that the key holds, if any
    about     description of that section
    """

    key: str
    path: str
    field: FieldInfo
    takes: str
    required: bool
    default: str | None
    meaning: str
    inner: tuple[Setting, ...] = ()
    about: str = ""


def describe_settings() -> tuple[Setting, ...]:
    """Return all settings in the order of the file, those of sections inside their section."""
    return tuple(_describe_section(Config, "", read_docstrings()))


def _describe_section(
    of: type[ConfigSection], before: str, report: dict[str, str]
) -> Iterator[Setting]:
    for name, field in of.model_fields.items():
        inner = find_section_type(field.annotation)
        path = f"{before}{name}"
        yield Setting(
            key=f"{of.__name__}.{name}",
            path=path,
            field=field,
            takes=describe_type(field),
            required=field.is_required(),
            default=describe_default(field),
            meaning=report[find_docstring_key(of, name)],
            inner=()
            if inner is None
            else tuple(_describe_section(inner, _format_prefix(path, field), report)),
            about="" if inner is None else inspect.getdoc(inner) or "",
        )


def _format_prefix(path: str, field: FieldInfo) -> str:
    """Return the prefix of the keys of a section."""
    origin = get_origin(field.annotation)
    if origin is dict:
        return f"{path}.NAME."
    return f"{path}[]." if origin is list else f"{path}."


def find_docstring_key(of: type[ConfigSection], name: str) -> str:
    """Return the key of a field's docstring, by the class or base class that declares it."""
    owner = next(item for item in of.__mro__ if name in inspect.get_annotations(item))
    return f"{owner.__name__}.{name}"


def default_of(field: FieldInfo) -> Any:
    """Return the default as it is written in a file; None if there is none."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    plain = plain_number_of(field)
    return default if default is None or plain is None else plain.written(default)


def describe_type(field: FieldInfo) -> str:
    """Return the type and its bounds in words."""
    plain = plain_number_of(field)
    words = [_describe_annotation(field.annotation) if plain is None else "duration"]
    written = "{:g}".format if plain is None else plain.written
    words += [f"at least {written(item.ge)}" for item in field.metadata if isinstance(item, Ge)]  # type: ignore[arg-type]
    words += [f"at most {written(item.le)}" for item in field.metadata if isinstance(item, Le)]  # type: ignore[arg-type]
    return ", ".join(words)


def describe_default(field: FieldInfo) -> str | None:
    """Return the default in words; None if there is none or an empty one."""
    default = default_of(field)
    if field.is_required() or default is None or default in ([], {}):
        return None
    return None if find_section_type(field.annotation) is not None else _format_default(default)


def _format_default(default: object) -> str:
    if isinstance(default, bool):
        return json.dumps(default)
    return ", ".join(default) if isinstance(default, list) else str(default)


def _describe_annotation(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(arguments)
    if origin is Union or type(None) in arguments:
        return next(
            _describe_annotation(argument) for argument in arguments if argument is not type(None)
        )
    if origin is list:
        return f"list of: {_describe_annotation(arguments[0])}"
    if origin is dict:
        return f"by name: {_describe_annotation(arguments[1])}"
    if hasattr(annotation, "__metadata__"):
        return _describe_annotation(annotation.__origin__)
    if origin is re.Pattern:
        return "regular expression"
    if inspect.isclass(annotation) and issubclass(annotation, ConfigSection):
        return "section"
    words = {str: "text", SecretStr: "text, secret", int: "whole number"}
    return {**words, bool: "true or false", Path: "file", datetime: "date and time"}[annotation]


def read_docstrings() -> dict[str, str]:
    """Return the docstrings under the fields by `Section.field`; Python does not retain them."""
    reports: dict[str, str] = {}
    modules = (types, remediation, sources, root)
    for node in [stmt for module in modules for stmt in ast.parse(inspect.getsource(module)).body]:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    reports[f"{node.name}.{name}"] = " ".join(words.split())
    return reports
