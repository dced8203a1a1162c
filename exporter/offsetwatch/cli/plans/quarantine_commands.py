"""Declarations of the `quarantine` verbs; heavy imports wait until a verb needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from offsetwatch.cli.common.options import (
    config_option,
    dry_run_option,
    optional_config_option,
    output_options,
    state_dir_option,
)
from offsetwatch.cli.common.output import OutputFormat

_FILE = click.Path(dir_okay=False, path_type=Path)

_config_option = optional_config_option(
    "The YAML file: its state_dir has the files, remedy.quarantine names the topic."
)


@click.group()
def quarantine() -> None:
    """Records that were copied before they were skipped."""


@quarantine.command("list")
@_config_option
@state_dir_option
@output_options
def quarantine_list(
    config_path: Path | None, state_dir: Path | None, *, output_format: OutputFormat
) -> None:
    """List all copies, without their content. Exit code 1 if one is damaged."""
    from offsetwatch.cli.plans import quarantine as verbs  # noqa: PLC0415

    sys.exit(
        verbs.list_copies(
            verbs.QuarantineOptions(config_path, state_dir), output_format=output_format
        )
    )


@quarantine.command("get")
@click.argument("copy_id", metavar="ID")
@_config_option
@state_dir_option
@output_options
@click.option("--raw", is_flag=True, help="Its value, byte by byte, and nothing else.")
@click.option(
    "--output",
    "to",
    type=_FILE,
    help="Write the whole record to this new file, as lines of JSON; with --raw its value.",
)
def quarantine_get(
    copy_id: str,
    config_path: Path | None,
    state_dir: Path | None,
    to: Path | None,
    *,
    raw: bool,
    output_format: OutputFormat,
) -> None:
    """Print the facts about a copy. ID is a unique prefix of its id. The record's content is
    printed only with --raw, or written with --output.
    """
    from offsetwatch.cli.plans import quarantine as verbs  # noqa: PLC0415

    if output_format is not OutputFormat.TABLE and (raw or to is not None):
        raise click.UsageError(f"-o {output_format} goes without --raw and --output")
    home = verbs.QuarantineOptions(config_path, state_dir)
    sys.exit(verbs.print_copy(home, copy_id, to=to, raw=raw, output_format=output_format))


@quarantine.command("replay")
@click.argument("copy_id", metavar="ID")
@config_option
@state_dir_option
@click.option("--to", "topic", help="Another topic than the one it came from.")
@click.option("--kafka", help="Another cluster of --config than the one it came from.")
@click.option(
    "--timestamp",
    type=click.Choice(["original", "now"]),
    default="original",
    show_default=True,
    help="Its own, or the time of the write.",
)
@click.option("--again", is_flag=True, help="Write it although it was written back before.")
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask for the topic's name to be typed first.")
def quarantine_replay(
    copy_id: str,
    config_path: Path,
    state_dir: Path | None,
    timestamp: str,
    *,
    again: bool,
    dry_run: bool,
    yes: bool,
    **where: Any,
) -> None:
    """Write a record back, unchanged, to its topic or to another. Every consumer of that topic gets
    it again. A record that was written back before, by the journal, is refused without --again.
    """
    from offsetwatch.cli.plans import quarantine as verbs  # noqa: PLC0415

    options = verbs.QuarantineReplayOptions(
        copy_id,
        keep_timestamp=timestamp == "original",
        again=again,
        dry_run=dry_run,
        yes=yes,
        **where,
    )
    sys.exit(verbs.replay_copy(verbs.QuarantineOptions(config_path, state_dir), options))
