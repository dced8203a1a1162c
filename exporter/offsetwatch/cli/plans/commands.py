"""Declarations of the `plan`, `journal` and `backup` verbs; heavy imports wait for a verb."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsetwatch.cli.common.options import (
    apply_options,
    change_timeout_option,
    config_option,
    output_options,
    state_dir_option,
    yes_option,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.options import (
    FILE_TYPE,
    because_option,
    build_service_access,
    journal_config_option,
    listener_options,
    optional_because_option,
    plan_options,
    request_plan,
    service_options,
)

if TYPE_CHECKING:
    from offsetwatch.cli.offsets.arguments import OffsetStoreOptions
    from offsetwatch.cli.plans.list import JournalOptions


def _store_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that reach a plan's offset store, as in the verb that made the plan."""
    return apply_options(
        verb,
        click.option("--flow", help="The flow, if a MirrorMaker's file has several."),
        click.option("--kafka", help="The cluster of --config that has the worker's topics."),
        click.option(
            "--worker-config",
            type=FILE_TYPE,
            help="The worker's properties file, for a plan on storage.",
        ),
        click.option("--strimzi", metavar="NAMESPACE/NAME", help="For a plan through Strimzi."),
        click.option("--kubeconfig", type=FILE_TYPE, help="With --strimzi: the kubeconfig."),
        click.option("--connect", help="The Connect cluster; a plan knows its own."),
        state_dir_option,
        journal_config_option,
    )


def _build_store_options(config_path: Path | None = None, **reach: Any) -> OffsetStoreOptions:
    from offsetwatch.cli.offsets.arguments import OffsetStoreOptions  # noqa: PLC0415

    return OffsetStoreOptions(
        config_path=config_path, **{"connect": None, "worker_config": None, **reach}
    )


def _build_journal_options(state_dir: Path | None = None, **where: Any) -> JournalOptions:
    from offsetwatch.cli.plans.list import JournalOptions  # noqa: PLC0415

    return JournalOptions(state_dir, _build_store_options(**where))


@click.group()
def plan() -> None:
    """Changes: what is proposed, what was approved, how it ended, and what is still open."""


@plan.command("list")
@service_options
@output_options
def plan_list(*, output_format: OutputFormat, **where: Any) -> None:
    """List all plans. Exit code 5 if one is open that no process works on."""
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    sys.exit(plans.list_plans(build_service_access(**where), output_format=output_format))


@plan.command("show")
@click.argument("plan_id", metavar="ID")
@service_options
@output_options
def plan_show(plan_id: str, *, output_format: OutputFormat, **where: Any) -> None:
    """Print a plan, the answers of its guards, its journal, and what to do about it. Exit code 5 if
    it is open and no process works on it.
    """
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    reach = _build_store_options(config_path=where["config_path"])
    sys.exit(
        plans.show_plan(build_service_access(**where), reach, plan_id, output_format=output_format)
    )


@plan.command("create")
@click.argument("action", type=click.Choice(["stop", "restart", "skip", "restore"]))
@click.option("--connector", required=True, help="The connector it is about.")
@click.option("--partition", help="skip: the source partition, as offsets list names it (JSON).")
@click.option("--offset", help="skip: its offset afterwards (JSON).")
@click.option("--backup", type=FILE_TYPE, help="restore: a backup, as backup list names it.")
@plan_options
def plan_create(
    action: str,
    *,
    connector: str,
    partition: str | None,
    offset: str | None,
    backup: Path | None,
    **more: Any,
) -> None:
    """Make a plan for another operator to approve; with --dry-run only show it, and exit with 3
    if a guard denies its start.

    `skip` skips the one record between the offset that is committed and the one that is given: of a
    sink that is the offset after the record, of MirrorMaker 2 the record's own.
    """
    skips = action == "skip"
    if (partition is not None, offset is not None) != (skips, skips):
        raise click.UsageError("--partition and --offset go with skip, and skip with both")
    if (backup is not None) != (action == "restore"):
        raise click.UsageError("--backup goes with restore, and restore with it")
    pair = None if partition is None or offset is None else (partition, offset)
    sys.exit(request_plan(action, connector, more, pair=pair, backup=backup))


@plan.command("approve")
@click.argument("plan_id", metavar="ID")
@click.option(
    "--sha256", help="The hash of the plan you read; a plan with another hash is not approved."
)
@optional_because_option
@yes_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the plan is over.")
@service_options
def plan_approve(
    plan_id: str, *, sha256: str | None, because: str | None, yes: bool, no_wait: bool, **where: Any
) -> None:
    """Let the daemon carry out exactly this plan, and follow it until it is over. A plan needs the
    approval of another operator than its author.
    """
    from offsetwatch.cli.plans import approve as deciding  # noqa: PLC0415

    options = deciding.ApprovalOptions(
        plan_id=plan_id, sha256=sha256, because=because, yes=yes, wait=not no_wait
    )
    sys.exit(deciding.approve_plan(build_service_access(**where), options))


@plan.command("reject")
@click.argument("plan_id", metavar="ID")
@because_option
@service_options
def plan_reject(plan_id: str, *, because: str, **where: Any) -> None:
    """Reject a plan that has not begun."""
    from offsetwatch.cli.plans import approve as deciding  # noqa: PLC0415

    sys.exit(deciding.reject_plan(build_service_access(**where), plan_id, because=because))


@plan.command("abort")
@click.argument("plan_id", metavar="ID")
@because_option
@service_options
def plan_abort(plan_id: str, *, because: str, **where: Any) -> None:
    """Roll a plan back as far as possible; reject one that has not begun."""
    from offsetwatch.cli.plans import approve as deciding  # noqa: PLC0415

    sys.exit(deciding.abort_plan(build_service_access(**where), plan_id, because=because))


@plan.command("recover")
@click.argument("plan_id", metavar="ID")
@_store_options
@change_timeout_option
def plan_recover(plan_id: str, *, timeout_s: float, **where: Any) -> None:
    """Continue an open plan: complete it if a change may have begun, otherwise roll it back. Exit
    code 5 if an operator must still decide.
    """
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    sys.exit(plans.recover_plan(_build_journal_options(**where), plan_id, timeout_s=timeout_s))


@plan.command("resolve")
@click.argument("plan_id", metavar="ID")
@because_option
@_store_options
@listener_options
def plan_resolve(plan_id: str, *, because: str, **where: Any) -> None:
    """Close an open plan and leave everything as it is now."""
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    for no_matter in ("flow", "kafka", "worker_config", "connect"):
        del where[no_matter]
    sys.exit(plans.resolve_plan(build_service_access(**where), plan_id, because=because))


@click.group()
def journal() -> None:
    """The journal: every step of each change."""


@journal.command("tail")
@service_options
@click.option("--lines", "count", default=20, show_default=True, help="How many records.")
@output_options
def journal_tail(*, count: int, output_format: OutputFormat, **where: Any) -> None:
    """Print the newest records of all plans."""
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    sys.exit(
        plans.print_journal_tail(
            build_service_access(**where), count=count, output_format=output_format
        )
    )


@journal.command("verify")
@service_options
def journal_verify(**where: Any) -> None:
    """Check that every record is as it was written, and every backup. Exit code 3 if a record is
    not, 1 if a backup is not.
    """
    from offsetwatch.cli.plans import list as plans  # noqa: PLC0415

    sys.exit(plans.verify_journal(build_service_access(**where)))


@journal.command("create")
@config_option
def journal_create(config_path: Path) -> None:
    """Create the topic of a journal that several replicas share. A journal of a single daemon in
    this host's state_dir becomes its beginning. Exit code 1 if there is a topic of this name that
    is not fit.
    """
    from offsetwatch.cli.plans import create_journal as journal_create  # noqa: PLC0415

    sys.exit(journal_create.create_journal(config_path))


@click.group()
def backup() -> None:
    """Offsets as they were before each change."""


@backup.command("create")
@click.argument("connector")
@_store_options
def backup_create(connector: str, **where: Any) -> None:
    """Back up the offsets that a connector has now, and print the file. `restore` and `offsets
    import` take it.
    """
    from offsetwatch.cli.plans import backup as backing  # noqa: PLC0415

    home = _build_journal_options(**where)
    if (home.where.connect is None) == (home.where.worker_config is None):
        raise click.UsageError("say --connect with --config, or --worker-config")
    if home.where.connect is not None and home.where.config_path is None:
        raise click.UsageError("--connect goes with --config")
    sys.exit(backing.create_backup(home, connector))


@backup.command("list")
@journal_config_option
@state_dir_option
@output_options
def backup_list(*, output_format: OutputFormat, **where: Any) -> None:
    """List all backups."""
    from offsetwatch.cli.plans import backup as backing  # noqa: PLC0415

    sys.exit(backing.list_backups(_build_journal_options(**where), output_format=output_format))


@backup.command("show")
@click.argument("file", type=FILE_TYPE)
@journal_config_option
@state_dir_option
@output_options
def backup_show(file: Path, *, output_format: OutputFormat, **where: Any) -> None:
    """Print the content of a backup. FILE is a path, or a name among the backups; --json prints it
    as a document for offsets import.
    """
    from offsetwatch.cli.plans import backup as backing  # noqa: PLC0415

    sys.exit(
        backing.show_backup(_build_journal_options(**where), file, output_format=output_format)
    )
