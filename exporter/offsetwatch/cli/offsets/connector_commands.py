"""Declarations of the `connectors` verbs, which connectors.py implements."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsetwatch.cli.common.options import (
    CONFIG_VARIABLE,
    DurationType,
    allow_new_option,
    apply_options,
    change_timeout_option,
    config_option,
    dry_run_option,
    is_typed,
    optional_config_option,
    output_options,
    read_options,
    state_dir_option,
    take_read_options,
    take_watch_options,
    watch_options,
    yes_option,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.options import (
    CONTROL_VARIABLE,
    build_service_access,
    listener_options,
    optional_because_option,
)

if TYPE_CHECKING:
    from offsetwatch.cli.plans.service_access import ServiceAccess


@click.group()
def connectors() -> None:
    """Connectors and their states."""


def _lifecycle_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of verbs that change a connector and none of its offsets."""
    return config_option(_shared_lifecycle_options(verb))


def _shared_lifecycle_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options without the configuration."""
    return apply_options(
        verb,
        change_timeout_option,
        state_dir_option,
        dry_run_option,
        yes_option,
        click.option(
            "--connect", "connect_cluster", help="Its Connect cluster, if several are known."
        ),
        click.argument("name"),
    )


@connectors.command("status")
@click.argument("name", required=False)
@read_options
@output_options
@watch_options
def connectors_status(name: str | None, *, output_format: OutputFormat, **how: Any) -> None:
    """Print the states of one connector or of all, and of their tasks, from the daemon or, if none
    answers, from Connect. Exit code 1 if one has failed, or if a Connect cluster could not be read:
    it is named.
    """
    run = take_watch_options(how, output_format)
    reading = take_read_options(how)
    from offsetwatch.cli.inspect import status  # noqa: PLC0415 - heavy, as below

    sys.exit(
        run(partial(status.print_connectors_status, reading, name, output_format=output_format))
    )


@connectors.command("stop")
@_lifecycle_options
def stop(**asked: Any) -> None:
    """Stop a connector and wait until no task of it is left (KIP-875, Kafka 3.5)."""
    _change_state("stopped", asked)


@connectors.command("pause")
@_lifecycle_options
def pause(**asked: Any) -> None:
    """Pause a connector: its tasks remain assigned, and do nothing."""
    _change_state("paused", asked)


_watch_option = click.option(
    "--watch",
    "watch_s",
    type=DurationType(maximum=3600.0),
    default="10s",
    show_default=True,
    help="How long its tasks have to run without a failure.",
)


@connectors.command("resume")
@_lifecycle_options
@_watch_option
def resume(*, watch_s: float, **asked: Any) -> None:
    """Resume a connector that was stopped or paused, and watch its tasks. Exit code 1 if one fails,
    or does not run.
    """
    _change_state("running", asked, watch_s=watch_s)


def _change_state(state: str, asked: dict[str, Any], *, watch_s: float = 0.0) -> None:
    from offsetwatch.cli.offsets import connectors as lifecycle  # noqa: PLC0415

    sys.exit(
        lifecycle.change_state(lifecycle.ConnectorChangeOptions(**asked), state, watch_s=watch_s)
    )


@connectors.command("restart")
@_shared_lifecycle_options
@optional_config_option("The YAML file.")
@listener_options
@optional_because_option
@click.option("--only-failed", is_flag=True, help="Restart only what has failed.")
@_watch_option
def restart(*, only_failed: bool, watch_s: float, because: str | None, **options: Any) -> None:
    """Restart a connector and its tasks, and watch them. Exit code 1 if one fails again, or does
    not run.

    With --url, a daemon elsewhere restarts what has failed, by a plan that is made and approved
    here. If another operator has to approve it, it waits (exit code 6).
    """
    reach = {
        name: options.pop(name)
        for name in ("url", "token_file", "ca_file", "cert_file", "key_file")
    }
    where = build_service_access(
        config_path=options["config_path"], state_dir=options["state_dir"], **reach
    )
    if where.listener is not None:
        sys.exit(_restart_remotely(where, because, only_failed=only_failed, **options))
    if options["config_path"] is None:
        raise click.UsageError(
            f"name the file (--config, {CONFIG_VARIABLE}) or a daemon elsewhere (--url, "
            f"{CONTROL_VARIABLE})"
        )
    if because is not None:
        raise click.UsageError("--because goes with --url")
    from offsetwatch.cli.offsets import connectors as lifecycle  # noqa: PLC0415

    sys.exit(
        lifecycle.restart_connector(
            lifecycle.ConnectorChangeOptions(**options), only_failed=only_failed, watch_s=watch_s
        )
    )


def _restart_remotely(
    where: ServiceAccess,
    because: str | None,
    *,
    only_failed: bool,
    name: str,
    connect_cluster: str | None,
    yes: bool,
    dry_run: bool,
    timeout_s: float,
    **_here: Any,
) -> int:
    context = click.get_current_context()
    if not only_failed:
        raise click.UsageError("--url: only what has failed is restarted there: add --only-failed")
    for option, typed in (("--dry-run", dry_run), ("--watch", is_typed(context, "watch_s"))):
        if typed:
            raise click.UsageError(f"{option} is for this host, and --url for another")
    from offsetwatch.cli.plans import create as proposing  # noqa: PLC0415
    from offsetwatch.remedy.model.service_api import Wish  # noqa: PLC0415

    options = proposing.PlanOptions(
        wish=Wish.RESTART_FAILED,
        connector=name,
        connect=connect_cluster,
        because=because or "restarted at the command line",
        timeout_s=timeout_s,
    )
    return proposing.create_restart_plan(where, options, yes=yes)


@connectors.command("delete")
@_lifecycle_options
def delete(**asked: Any) -> None:
    """Delete a connector. Its offsets are backed up, and remain in the offsets topic."""
    from offsetwatch.cli.offsets import connectors as lifecycle  # noqa: PLC0415

    sys.exit(lifecycle.delete_connector(lifecycle.ConnectorChangeOptions(**asked)))


@connectors.command("create")
@_lifecycle_options
@allow_new_option
@click.option(
    "--config-file",
    "config_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Its configuration in JSON: the settings, or a body of POST /connectors, which may hold "
    "initial_offsets (KIP-995) and initial_state.",
)
@click.option(
    "--initial-offsets",
    "offsets_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it begins: KIP-199 JSON as `offsets export` prints it, a body of a PATCH, or a "
    "list of pairs. Without any it begins where Connect lets it.",
)
@click.option(
    "--initial-state",
    type=click.Choice(["running", "paused", "stopped"]),
    help="Its state at the end; default: that of the body, or running.",
)
def create(
    config_file: Path,
    offsets_file: Path | None,
    initial_state: str | None,
    *,
    allow_new: bool,
    **asked: Any,
) -> None:
    """Create a connector that begins at given offsets (KIP-995). It is created stopped (Kafka 3.7);
    offsets of an earlier connector of its name are backed up and removed, its own are set, then it
    is started.
    """
    from offsetwatch.cli.offsets import connectors as lifecycle  # noqa: PLC0415

    files = lifecycle.NewConnectorFiles(config_file, offsets_file)
    sys.exit(
        lifecycle.create_connector(
            lifecycle.ConnectorChangeOptions(**asked),
            files=files,
            initial_state=initial_state,
            allow_new=allow_new,
        )
    )
