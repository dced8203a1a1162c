"""Options that several verbs share. Called by the declarations of verbs; nothing heavy is imported.

A change of a connector is dry, confirmed and journalled in one way for all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

config_option = click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The YAML file.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of tables.")
output_file: click.ParamType[Path] = click.Path(dir_okay=False, path_type=Path)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    default=60.0,
    show_default=True,
    help="Seconds to wait for a catch-up.",
)
yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask for the connector's name to be typed first."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, step by step, and do nothing."
)
state_dir_option = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where journal and backups are; by default state_dir of the configuration, or "
    "$XDG_STATE_HOME/offsetwatch where there is none.",
)
patience_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=180.0,
    show_default=True,
    help="Seconds to wait for a step to show.",
)
allow_new_option = click.option(
    "--allow-new",
    is_flag=True,
    help="Accept source partitions that were never there, and offsets that nobody here can check.",
)


def change_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Those of every verb that changes offsets."""
    for option in (allow_new_option, patience_option, state_dir_option, yes_option, dry_run_option):
        verb = option(verb)
    return verb
