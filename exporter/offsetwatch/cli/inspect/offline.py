"""The verbs `check`, `decode`, `metrics` and `completion`, which ask no cluster and no daemon."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click
import msgspec
from click.shell_completion import get_completion_class

from offsetwatch import config
from offsetwatch.cli.commands import cli
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.clients.http.auth import find_tls_problems
from offsetwatch.clients.kafka.clients import find_refused_settings
from offsetwatch.decode.topic_records import decode_record, format_record
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_count
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicKind
from offsetwatch.remedy.policy_settings import find_ineffective_data_errors
from offsetwatch.serve.metrics import catalog
from offsetwatch.serve.web_config.reloader import check_web_config

OK, FINDINGS, USAGE = 0, 1, 2

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*", re.ASCII)


def check_config_file(config_path: Path) -> None:
    """Check a configuration file, and print every mistake at once."""
    loaded = config.load(config_path)
    mistakes = [
        f"kafka.{name}.properties.{error.detail}"
        for name, kafka in loaded.kafka.items()
        for error in find_refused_settings(name, kafka.properties)
    ]
    for path, tls in loaded.tls_settings():
        mistakes.extend(f"{path}.{problem}" for problem in find_tls_problems(tls))
    mistakes.extend(find_ineffective_data_errors(loaded.remedy))
    if mistakes:
        raise ConfigError(tuple(f"{config_path.name}: {mistake}" for mistake in mistakes))
    control = None if loaded.control is None else loaded.control.web_config_file
    for file in (loaded.web_config_file, control):
        if file is not None:
            check_web_config(file)
    click.echo(
        f"{config_path.name}: ok: {len(loaded.kafka)} Kafka and "
        f"{format_count(len(loaded.connect), 'Connect cluster')}, listening on {loaded.listen}"
    )


def print_metrics(output_format: OutputFormat) -> None:
    """Print the metric catalogue."""
    rows = catalog.describe_metrics()
    output.print_result(
        output_format,
        [
            {"name": name, "type": kind, "labels": labels, "help": text}
            for name, kind, labels, text in rows
        ],
        lambda: output.print_table(
            "Metrics",
            ("metric", "type", "labels", "meaning"),
            ((name, kind, ", ".join(labels), text) for name, kind, labels, text in rows),
        ),
    )


def print_completion(shell: str) -> None:
    """Print the script that completes commands in a shell."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(cli, {}, "offsetwatch", "_OFFSETWATCH_COMPLETE").source())


class _UnusableError(Exception):
    """An entry of the input that is no record; the argument is the reason."""


def decode_records(topic_role: str, encoding: str | None, file: str) -> int:
    """Decode records of a file; return the exit code."""
    role = TopicKind(topic_role)
    worst = OK
    with click.open_file(file, "rb") as source:
        for position, record in _read_records(source):
            try:
                entry = _decode_entry(record, role, encoding)
            except _UnusableError as exc:
                output.print_error(f"{position}: {exc}")
                worst = USAGE
                continue
            if "undecodable" in entry:
                worst = max(worst, FINDINGS)
            sys.stdout.write(msgspec.json.encode(entry).decode() + "\n")
    return worst


def _read_records(source: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield each record and its place in the file, which holds JSON lines or one JSON array."""
    for number, line in enumerate(source, start=1):
        if not line.strip():
            continue
        if line.lstrip().startswith(b"["):
            yield from _read_array(line + source.read(), number)
            return
        yield f"line {number}", _parse_json(line)


def _read_array(text: bytes, line: int) -> Iterator[tuple[str, Any]]:
    records = _parse_json(text)
    if not isinstance(records, list):
        yield f"line {line}", None
        return
    for number, record in enumerate(records, start=1):
        yield f"record {number}", record


def _parse_json(text: bytes) -> Any:
    """Return the value; None if it is not JSON. Only a map is a record."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_entry(record: object, role: TopicKind, encoding: str | None) -> dict[str, Any]:
    """Return the entry's other fields, with its observation or the reason why there is none."""
    if not isinstance(record, dict):
        raise _UnusableError("not a JSON map")
    for name in ("key", "value"):
        if not isinstance(record.get(name, 0), str | None):
            raise _UnusableError(f'no "{name}" in {encoding or "hex or base64"}, and not null')
    carried = {name: value for name, value in record.items() if name not in {"key", "value"}}
    key, value = record["key"], record["value"]
    chosen = encoding or _guess_encoding(key, value)
    noun = decode_record(
        role, _decode_text("key", key, chosen), _decode_text("value", value, chosen)
    )
    if isinstance(noun, Undecodable):
        return {**carried, "undecodable": noun.reason}
    return {**carried, "observation": msgspec.Raw(format_record(noun).encode())}


def _guess_encoding(key: str | None, value: str | None) -> str:
    """Return one encoding for key and value, "hex" or "base64".

    A short value in base64 may look like hex, but its key hardly does as well.
    """
    texts = [text for text in (key, value) if text is not None]
    return "hex" if all(_HEX.fullmatch(text) for text in texts) else "base64"


def _decode_text(name: str, text: str | None, encoding: str) -> bytes | None:
    if text is None:
        return None
    if encoding == "hex":
        if _HEX.fullmatch(text) is None:
            raise _UnusableError(f'"{name}" is not hex')
        return bytes.fromhex(text)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        raise _UnusableError(f'"{name}" is not {encoding}') from None
