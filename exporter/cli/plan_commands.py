"""`plan`, `journal` and `backup` on the command line: declarations only. Heavy imports wait until a
verb needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.cli.options import json_option, patience_option, state_dir_option

if TYPE_CHECKING:
    from exporter.cli.plans import Home

_FILE = click.Path(dir_okay=False, path_type=Path)

_config = click.option(
    "--config", "config_path", type=_FILE, help="The YAML file; its state_dir has the journal."
)


def _reach(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The options that reach the place of a plan; the verb that makes plans has the same."""
    for option in (
        click.option("--flow", help="The flow, of a MirrorMaker's file that has several."),
        click.option("--kafka", help="The cluster of --config that has the worker's topics."),
        click.option("--worker-config", type=_FILE, help="The worker's, for a plan on storage."),
        click.option("--connect", help="Of no need: the plan knows its Connect cluster."),
        state_dir_option,
        _config,
    ):
        verb = option(verb)
    return verb


def _home(config_path: Path | None = None, state_dir: Path | None = None, **reach: Any) -> Home:
    from exporter.cli.asked import Where  # noqa: PLC0415
    from exporter.cli.plans import Home  # noqa: PLC0415

    named = {"connect": None, "worker_config": None, **reach}
    return Home(state_dir, Where(config_path=config_path, **named))


@click.group()
def plan() -> None:
    """Changes of offsets: what was planned, how it ended, and what is still open."""


@plan.command("list")
@_config
@state_dir_option
@json_option
def plan_list(*, as_json: bool, **where: Any) -> None:
    """List all plans. Exit code 5 if one is open that nobody works on."""
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.list_plans(_home(**where), as_json=as_json))


@plan.command("show")
@click.argument("plan_id", metavar="ID")
@_config
@state_dir_option
@json_option
def plan_show(plan_id: str, *, as_json: bool, **where: Any) -> None:
    """Print a plan, its journal, and what to do about it. Exit code 5 if it is open and nobody
    works on it.
    """
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.show_plan(_home(**where), plan_id, as_json=as_json))


@plan.command("recover")
@click.argument("plan_id", metavar="ID")
@_reach
@patience_option
def plan_recover(plan_id: str, *, timeout_s: float, **where: Any) -> None:
    """Go on with an open plan: to its end if a change may have begun, else back to how everything
    was. Exit code 5 if a person must still decide.
    """
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.recover(_home(**where), plan_id, timeout_s=timeout_s))


@plan.command("resolve")
@click.argument("plan_id", metavar="ID")
@click.option("--because", required=True, help="What you found, and what you did about it.")
@_reach
def plan_resolve(plan_id: str, *, because: str, **where: Any) -> None:
    """Close an open plan and leave everything as it is now."""
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.resolve(_home(**where), plan_id, because=because))


@click.group()
def journal() -> None:
    """What was written down before and after each change."""


@journal.command("tail")
@_config
@state_dir_option
@click.option("--lines", "count", default=20, show_default=True, help="How many records.")
@json_option
def journal_tail(*, count: int, as_json: bool, **where: Any) -> None:
    """Print the newest records of all plans."""
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.tail(_home(**where), count=count, as_json=as_json))


@journal.command("verify")
@_config
@state_dir_option
def journal_verify(**where: Any) -> None:
    """Check that every record is as it was written, and every backup. Exit code 3 if a record is
    not, 1 if a backup is not.
    """
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.verify(_home(**where)))


@click.group()
def backup() -> None:
    """Offsets as they were before each change."""


@backup.command("list")
@_config
@state_dir_option
@json_option
def backup_list(*, as_json: bool, **where: Any) -> None:
    """List all backups."""
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.list_backups(_home(**where), as_json=as_json))


@backup.command("show")
@click.argument("file", type=_FILE)
@_config
@state_dir_option
@json_option
def backup_show(file: Path, *, as_json: bool, **where: Any) -> None:
    """Print what a backup holds. FILE is a path, or a name among the backups; --json prints it as
    it is, for offsets import.
    """
    from exporter.cli import plans  # noqa: PLC0415

    sys.exit(plans.show_backup(_home(**where), file, as_json=as_json))
