"""Declarations of the verbs `restore`, `mode`, `pause`, `unpause` and `breaker`.

Heavy imports wait until a verb needs them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from offsetwatch.cli.common.options import DurationType, output_options
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.options import (
    FILE_TYPE,
    because_option,
    build_service_access,
    optional_because_option,
    plan_options,
    request_plan,
    service_options,
)


@click.command()
@click.option(
    "--from", "backup", required=True, type=FILE_TYPE, help="A backup, as backup list names it."
)
@click.option("--connector", default="", help="If the backup is not of one connector alone.")
@plan_options
def restore(*, backup: Path, connector: str, **more: Any) -> None:
    """Make a plan that restores a connector's offsets from a backup, for another operator to
    approve. For a file from elsewhere use offsets import.
    """
    sys.exit(request_plan("restore", connector, more, backup=backup))


@click.command()
@click.argument("wanted", type=click.Choice(["observe", "propose", "auto"]), required=False)
@optional_because_option
@service_options
@output_options
def mode(
    *, wanted: str | None, because: str | None, output_format: OutputFormat, **where: Any
) -> None:
    """Print the mode of remediation, or lower or raise it until further notice: never above the
    configured mode.
    """
    from offsetwatch.cli.plans import switches as switching  # noqa: PLC0415
    from offsetwatch.remedy.model.service_api import Mode  # noqa: PLC0415

    access = build_service_access(**where)
    if access.listener is None and access.config_path is None:
        raise click.UsageError("say --config or --url: the configuration sets how far it may go")
    if wanted is None:
        sys.exit(switching.show_mode(access, output_format=output_format))
    if because is None:
        raise click.UsageError(
            "say --because: the journal needs a reason for every change of the mode"
        )
    sys.exit(switching.set_mode(access, Mode(wanted), because=because))


@click.command()
@click.option("--for", "span_s", type=DurationType(), help="The length of the pause: 30m, 2h, 1d.")
@click.option("--until", help="Its end: ISO 8601 with a zone, or Unix seconds.")
@click.option("--indefinitely", is_flag=True, help="Until an operator runs unpause.")
@because_option
@service_options
def pause(
    *, span_s: float | None, until: str | None, indefinitely: bool, because: str, **where: Any
) -> None:
    """Begin no new plan of remediation; a running plan ends safely."""
    from offsetwatch.cli.plans import switches as switching  # noqa: PLC0415

    if (span_s is not None) + (until is not None) + indefinitely != 1:
        raise click.UsageError("say one of --for, --until and --indefinitely")
    sys.exit(
        switching.pause_remediation(
            build_service_access(**where), span_s=span_s, until=until, because=because
        )
    )


@click.command()
@because_option
@service_options
def unpause(*, because: str, **where: Any) -> None:
    """End a pause."""
    from offsetwatch.cli.plans import switches as switching  # noqa: PLC0415

    sys.exit(switching.end_pause(build_service_access(**where), because=because))


@click.group()
def breaker() -> None:
    """Breakers: they stop remediation until an operator closes them."""


@breaker.command("list")
@service_options
@output_options
def breaker_list(*, output_format: OutputFormat, **where: Any) -> None:
    """List open breakers. Exit code 1 if any is open."""
    from offsetwatch.cli.plans import switches as switching  # noqa: PLC0415

    sys.exit(switching.list_breakers(build_service_access(**where), output_format=output_format))


@breaker.command("ack")
@click.argument("scope")
@because_option
@service_options
def breaker_ack(scope: str, *, because: str, **where: Any) -> None:
    """Close a breaker, as `breaker list` names it, after its cause is fixed."""
    from offsetwatch.cli.plans import switches as switching  # noqa: PLC0415

    sys.exit(switching.ack_breaker(build_service_access(**where), scope, because=because))
