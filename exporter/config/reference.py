"""The reference file: every key with its meaning, type and default, made from the shape itself.

`python -m exporter.config.reference > config-reference.yaml` makes it; a test holds it to the code.
A line that begins with ## explains, one that begins with # is a setting that is not given.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from exporter.config import control, remedy, section, shape
from exporter.config.load import section_in
from exporter.config.section import Section
from exporter.config.shape import Config

_HEAD: Final = """\
## Every setting of offsetwatch. Made from the code: python -m exporter.config.reference
##
## A line that begins with ## explains; one that begins with # is a setting that is not given.
## ${NAME} inside a string is the environment variable NAME. A _file is relative to this file.
"""
# What stands where a setting has no default, or none that says anything.
_EXAMPLES: Final[dict[str, Any]] = {
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
    "Flow.source": "west",
    "Flow.target": "east",
    "Flow.upstream": "east",
    "Flow.downstream": "east",
    "Flow.connect": "lab",
    "OffsetSyncs.kafka": "east",
    "OffsetSyncs.topic": "mm2-offset-syncs.east.internal",
    "Alertmanager.url": "http://alertmanager-1:9093",
    "Auto.connect": "lab",
    "Auto.connectors": ["orders-sink", "billing.*"],
    "Auto.actions": ["restart_failed"],
    "Remedy.sink_data_errors": {
        "com.example.LedgerSinkConnector": ["com.example.InvalidEntryException"]
    },
    "Quarantine.kafka": "east",
    "Quarantine.replication_factor": 3,
    "Quarantine.retention_days": 365,
    "Window.start": "22:00",
    "Window.end": "06:00",
    "Webhook.name": "on-call",
    "Webhook.url": "https://hooks.example.com/offsetwatch",
    "Webhook.url_file": "secrets/webhook-url",
    "ControlTls.cert_file": "tls/control.pem",
    "ControlTls.key_file": "tls/control-key.pem",
    "ControlTls.key_password": "${KEY_PASSWORD}",
    "ControlTls.key_password_file": "secrets/key-password",
    "ControlTls.client_ca_file": "tls/clients-ca.pem",
    "Token.name": "on-call",
    "Token.role": "operator",
    "Token.connect": ["lab"],
    "Token.token_sha256": "0" * 64,
    "Token.token_file": "secrets/on-call-token",
    "Token.expires": "2030-01-31T00:00:00Z",
    "Client.name": "alertmanager",
    "Client.role": "hook",
    "Client.connect": ["lab"],
    "Client.san": "dns:alertmanager-1.example.com",
}
_ON: Final = frozenset({"Connect.url"})  # optional by itself, but the smallest file has it
_WIDTH: Final = 96


def render() -> str:
    """The whole file."""
    return "\n".join((_HEAD, *_section(Config, _docstrings(), on=True))) + "\n"


def _section(of: type[Section], told: dict[str, str], *, on: bool) -> Iterator[str]:
    """Every field of a section, not indented."""
    for name, field in of.model_fields.items():
        key = f"{of.__name__}.{name}"
        inner = section_in(field.annotation)
        empty = _default(field) in ((None, {}) if inner is None else (None, []))
        given = on and (key in _ON or field.is_required() or not empty)
        yield from _prose(f"{told[_told_at(of, name)]} ({_kind(field)})")
        if inner is None:
            yield from _setting(name, _value(key, field), on=given)
            continue
        given = given and any(_on(line) for line in _section(inner, told, on=given))
        lines = [_off(f"{name}:", on=given)]
        if get_origin(field.annotation) is dict:
            lines.append(_off(f"  {_EXAMPLES[key]}:", on=given))
            lines += _indented(_section(inner, told, on=given), 4)
        elif get_origin(field.annotation) is list:
            lines.append(_off("  -", on=given))
            lines += _indented(_section(inner, told, on=given), 4)
        else:
            lines += _indented(_section(inner, told, on=given), 2)
        yield from lines
        if of is Config:
            yield ""


def _told_at(of: type[Section], name: str) -> str:
    """Where a field's docstring stands: under the class that has it from no other."""
    owner = next(at for at in of.__mro__ if name in inspect.get_annotations(at))
    return f"{owner.__name__}.{name}"


def _indented(lines: Iterator[str], by: int) -> Iterator[str]:
    """Deeper; a setting that is not given keeps its # first, so that taking it away is enough."""
    for line in lines:
        off = re.match(r"#(?!#)", line)
        yield f"#{' ' * by}{line[1:]}" if off else f"{' ' * by}{line}" if line else line


def _on(line: str) -> bool:
    """Whether it is a setting that is given: a section without one would be none at all."""
    return bool(line) and not line.lstrip().startswith("#")


def _off(line: str, *, on: bool) -> str:
    return line if on else f"#{line}"


def _setting(name: str, value: Any, *, on: bool) -> Iterator[str]:
    """JSON is YAML, and leaves no doubt about what is a string."""
    if not isinstance(value, dict):
        yield _off(f"{name}: {json.dumps(value)}", on=on)
        return
    yield _off(f"{name}:", on=on)
    for key, item in value.items():
        yield _off(f"  {key}: {json.dumps(item)}", on=on)


def _prose(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH - 10, initial_indent="## ", subsequent_indent="## ")


def _value(key: str, field: FieldInfo) -> Any:
    if key in _EXAMPLES:
        return _EXAMPLES[key]
    return _default(field)


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _kind(field: FieldInfo) -> str:
    """The type, its bound and its default, in a reader's words."""
    words = [_type(field.annotation)]
    words += [f"at least {bound.ge:g}" for bound in field.metadata if isinstance(bound, Ge)]
    words += [f"at most {bound.le:g}" for bound in field.metadata if isinstance(bound, Le)]
    default = _default(field)
    if field.is_required():
        words.append("required")
    elif default is not None and section_in(field.annotation) is None and default not in ([], {}):
        words.append(f"default {_word(default)}")
    return ", ".join(words)


def _word(default: object) -> str:
    if isinstance(default, bool):
        return json.dumps(default)
    if isinstance(default, list):
        return ", ".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(arguments)
    if origin is Union or type(None) in arguments:
        return next(_type(argument) for argument in arguments if argument is not type(None))
    if origin is list:
        return f"list of: {_type(arguments[0])}"
    if origin is dict:
        return f"by name: {_type(arguments[1])}"
    if hasattr(annotation, "__metadata__"):
        return _type(annotation.__origin__)
    if origin is re.Pattern:
        return "regular expression"
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        return "section"
    words = {str: "text", SecretStr: "text, secret", float: "number", int: "whole number"}
    return {**words, bool: "true or false", Path: "file", datetime: "date and time"}[annotation]


def _docstrings() -> dict[str, str]:
    """`Section.field` -> the docstring under the field, which Python itself throws away."""
    told: dict[str, str] = {}
    modules = (section, control, remedy, shape)
    for node in [at for module in modules for at in ast.parse(inspect.getsource(module)).body]:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    told[f"{node.name}.{name}"] = " ".join(words.split())
    return told


if __name__ == "__main__":
    sys.stdout.write(render())
