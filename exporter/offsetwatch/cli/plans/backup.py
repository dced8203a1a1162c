"""The verb `backup`: what was kept before changes, and one more, now."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.open_store import way_of
from offsetwatch.cli.plans.list import OK, Home
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.journal import backups
from offsetwatch.toolbox.suggestions import nearest, told


def create(home: Home, connector: str) -> int:
    """Keep every offset that a connector has now."""
    with way_of(home.where) as way:
        known = way.place.connectors()
        if connector not in known:
            meant = nearest(connector, known)
            right = f"did you mean {meant}?" if meant else f"it has: {told(known) or 'none'}"
            raise ConfigError((f"{way.place.name} has no connector {connector} ({right})",))
        pairs = tuple(at for at in way.place.pairs(connector) if at.offset is not None)
        for note in way.place.notes(connector):
            output.error(f"{connector}: {note}")
    try:
        written = backups.write(
            home.folder, connector=connector, pairs=pairs, at=SystemClock().now()
        )
    except OSError as exc:
        raise ConfigError((f"--state-dir: {exc}",)) from exc
    sys.stdout.write(f"{written.path}\n")
    output.error(f"{len(pairs)} offsets of {connector}, read back; sha256 {written.sha256}")
    return OK


def list_backups(home: Home, *, output_format: OutputFormat) -> int:
    """All backups, oldest first."""
    found = backups.found(execute.used_folder(home.folder))
    if output_format is not OutputFormat.TABLE:
        output.document(
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
            output.moment(kept.at),
            ", ".join(name for name, _ in kept.connectors) or "cannot be read",
            sum(count for _, count in kept.connectors),
            kept.path,
        )
        for kept in found
    )
    output.table("Backups", ("written", "connector", "offsets#", "file"), rows)
    return OK


def show_backup(home: Home, file: Path, *, output_format: OutputFormat) -> int:
    """What a backup holds; with JSON the file itself, to be imported."""
    path = file if file.exists() else home.folder / backups.FOLDER / file
    try:
        body = path.read_bytes()
        held = backups.entries(body)
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError((f"{file} cannot be read as a backup: {exc}",)) from exc
    if output_format is not OutputFormat.TABLE:
        sys.stdout.write(body.decode())
        return OK
    output.table(f"Backup {path}", ("connector", "source partition", "offset"), held)
    return OK
