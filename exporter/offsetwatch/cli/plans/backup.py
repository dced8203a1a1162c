"""The verbs `backup create`, `list` and `show` for backups of offsets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.offset_store import open_offset_store, require_connector
from offsetwatch.cli.plans.recover import build_journal_options
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_count
from offsetwatch.remedy.journal import backups


def create_backup(connector: str, **where: Any) -> None:
    """Back up the offsets that a connector has now, and print the file."""
    home = build_journal_options(**where)
    if (home.where.connect is None) == (home.where.worker_config is None):
        raise click.UsageError("say --connect with --config, or --worker-config")
    if home.where.connect is not None and home.where.config_path is None:
        raise click.UsageError("--connect goes with --config")
    with open_offset_store(home.where) as store:
        require_connector(store, connector)
        pairs = tuple(pair for pair in store.pairs(connector) if pair.offset is not None)
        for note in store.notes(connector):
            output.print_error(f"{connector}: {note}")
    try:
        written = backups.write_backup(
            home.folder, connector=connector, pairs=pairs, at=SystemClock().now()
        )
    except OSError as exc:
        raise ConfigError((f"--state-dir: {exc}",)) from exc
    sys.stdout.write(f"{written.path}\n")
    output.print_error(
        f"{format_count(len(pairs), 'offset')} of {connector}, read back; sha256 {written.sha256}"
    )


def print_backups(*, output_format: OutputFormat, **where: Any) -> None:
    """Print all backups."""
    folder = execute.require_used_folder(build_journal_options(**where).folder)
    backup_rows = backups.list_backups(folder)
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            [
                {
                    "path": str(backups.resolve_backup_path(folder, row.name)),
                    "written_at": row.at,
                    "sha256": row.sha256,
                    "connectors": dict(row.connectors),
                }
                for row in backup_rows
            ],
        )
        return
    rows = (
        (
            output.format_moment(row.at),
            ", ".join(name for name, _ in row.connectors) or "cannot be read",
            sum(count for _, count in row.connectors),
            backups.resolve_backup_path(folder, row.name),
        )
        for row in backup_rows
    )
    output.print_table("Backups", ("written", "connector", "offsets#", "file"), rows)


def print_backup(file: Path, *, output_format: OutputFormat, **where: Any) -> None:
    """Print the content of a backup."""
    home = build_journal_options(**where)
    path = file if file.exists() else home.folder / backups.FOLDER / file
    try:
        body = path.read_bytes()
        entries = backups.parse_entries(body)
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError(
            (f"{file} cannot be read as a backup: {exc}; `backup list` names them",)
        ) from exc
    if output_format is not OutputFormat.TABLE:
        sys.stdout.write(body.decode())
        return
    output.print_table(f"Backup {path}", ("connector", "source partition", "offset"), entries)
