"""The verbs `backup create`, `list` and `show` for backups of offsets."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.open_store import open_offset_store
from offsetwatch.cli.plans.list import OK, JournalOptions
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.journal import backups
from offsetwatch.toolbox.suggestions import find_nearest, format_names


def create_backup(home: JournalOptions, connector: str) -> int:
    """Back up every offset that a connector has now, and print the path."""
    with open_offset_store(home.where) as store:
        known = store.connectors()
        if connector not in known:
            meant = find_nearest(connector, known)
            right = (
                f"did you mean {meant}?" if meant else f"it has: {format_names(known) or 'none'}"
            )
            raise ConfigError((f"{store.name} has no connector {connector} ({right})",))
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
    output.print_error(f"{len(pairs)} offsets of {connector}, read back; sha256 {written.sha256}")
    return OK


def list_backups(home: JournalOptions, *, output_format: OutputFormat) -> int:
    """Print all backups, oldest first."""
    found = backups.list_backups(execute.require_used_folder(home.folder))
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            [
                {
                    "path": str(kept.path),
                    "written_at": Moment(kept.at),
                    "sha256": kept.sha256,
                    "connectors": dict(kept.connectors),
                }
                for kept in found
            ],
        )
        return OK
    rows = (
        (
            output.format_moment(kept.at),
            ", ".join(name for name, _ in kept.connectors) or "cannot be read",
            sum(count for _, count in kept.connectors),
            kept.path,
        )
        for kept in found
    )
    output.print_table("Backups", ("written", "connector", "offsets#", "file"), rows)
    return OK


def show_backup(home: JournalOptions, file: Path, *, output_format: OutputFormat) -> int:
    """Print the offsets of a backup; with JSON or YAML the file itself, to be imported."""
    path = file if file.exists() else home.folder / backups.FOLDER / file
    try:
        body = path.read_bytes()
        held = backups.parse_entries(body)
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError((f"{file} cannot be read as a backup: {exc}",)) from exc
    if output_format is not OutputFormat.TABLE:
        sys.stdout.write(body.decode())
        return OK
    output.print_table(f"Backup {path}", ("connector", "source partition", "offset"), held)
    return OK
