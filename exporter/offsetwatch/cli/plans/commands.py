"""Declarations of the verbs about plans, backups, journal, quarantine and switches."""

from __future__ import annotations

import click

from offsetwatch.cli.common.options import (
    FILE_TYPE,
    DurationType,
    calls,
    change_timeout_option,
    config_option,
    dry_run_option,
    output_options,
    state_dir_option,
    yes_option,
)
from offsetwatch.cli.plans.options import (
    because_option,
    journal_config_option,
    listener_options,
    optional_because_option,
    plan_options,
    plan_store_options,
    quarantine_options,
    service_options,
)


@click.command()
@click.argument("plan_id", metavar="ID")
@click.option(
    "--sha256", help="The hash of the plan you read; a plan with another hash is not approved."
)
@optional_because_option
@yes_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the plan is over.")
@service_options
@calls("plans.approve:approve_typed_plan")
def plan_approve() -> None:
    """Let the daemon carry out exactly this plan, and follow it until it is over. A plan needs the
    approval of another operator than its author.
    """


@click.command()
@click.argument("plan_id", metavar="ID")
@because_option
@service_options
@calls("plans.approve:reject_plan")
def plan_reject() -> None:
    """Reject a plan that has not begun."""


@click.command()
@click.argument("plan_id", metavar="ID")
@because_option
@service_options
@calls("plans.approve:abort_plan")
def plan_abort() -> None:
    """Roll a plan back as far as possible; reject one that has not begun."""


@click.command()
@click.argument("connector")
@plan_store_options
@calls("plans.backup:create_backup")
def backup_create() -> None:
    """Back up the offsets that a connector has now, and print the file. `restore` and `offsets
    import` take it.
    """


@click.command()
@journal_config_option
@state_dir_option
@output_options
@calls("plans.backup:print_backups")
def backup_list() -> None:
    """List all backups."""


@click.command()
@click.argument("file", type=FILE_TYPE)
@journal_config_option
@state_dir_option
@output_options
@calls("plans.backup:print_backup")
def backup_show() -> None:
    """Print the content of a backup. FILE is a path, or a name among the backups; --json prints it
    as a document for offsets import.
    """


@click.command()
@click.argument("action", type=click.Choice(["stop", "restart", "skip", "restore"]))
@click.option("--connector", required=True, help="The connector of the plan.")
@click.option("--partition", help="skip: the source partition (JSON); default: the only one.")
@click.option(
    "--offset", help="skip: its offset afterwards (JSON); default: after the next record."
)
@click.option("--backup", type=FILE_TYPE, help="restore: a backup, as backup list names it.")
@plan_options
@calls("plans.create:create_plan")
def plan_create() -> None:
    """Make a plan for another operator to approve; with --dry-run only show it, and exit with 3
    if a guard denies its start.

    `skip` skips the next record after the offset that is committed. An offset that is given has to
    be the one after that record: of a sink and of FileStream the offset after the record or line,
    of MirrorMaker 2 and JDBC that of the record or row itself.
    """


@click.command()
@click.option(
    "--from", "backup", required=True, type=FILE_TYPE, help="A backup, as backup list names it."
)
@click.option("--connector", default="", help="If the backup is not of one connector alone.")
@plan_options
@calls("plans.create:create_restoring_plan")
def restore() -> None:
    """Make a plan that restores a connector's offsets from a backup, for another operator to
    approve. For a file from elsewhere use offsets import.
    """


@click.command()
@service_options
@click.option("--lines", "count", default=20, show_default=True, help="How many records.")
@output_options
@calls("plans.journal:print_newest_records")
def journal_tail() -> None:
    """Print the newest records of all plans."""


@click.command()
@service_options
@calls("plans.journal:verify_journal")
def journal_verify() -> None:
    """Check that every record is as it was written, and every backup. Exit code 3 if a record is
    not, 1 if a backup is not.
    """


@click.command()
@config_option
@calls("plans.journal:create_journal")
def journal_create() -> None:
    """Create the topic of a journal that several replicas share. A journal of a single daemon in
    this host's state_dir becomes its beginning. Exit code 1 if there is a topic of this name that
    is not fit.
    """


@click.command()
@service_options
@output_options
@calls("plans.list:print_plans")
def plan_list() -> None:
    """List all plans. Exit code 5 if one is open that no process works on."""


@click.command()
@click.argument("plan_id", metavar="ID")
@service_options
@output_options
@calls("plans.list:print_plan_details")
def plan_show() -> None:
    """Print a plan, the answers of its guards, its journal, and what to do about it. Exit code 5 if
    it is open and no process works on it.
    """


@click.command()
@quarantine_options
@output_options
@calls("plans.quarantine:print_copies")
def quarantine_list() -> None:
    """List all copies, without their content. Exit code 1 if one is damaged."""


@click.command()
@click.argument("copy_id", metavar="ID")
@quarantine_options
@output_options
@click.option("--raw", is_flag=True, help="Its value, byte by byte, and nothing else.")
@click.option(
    "--output",
    "to",
    type=FILE_TYPE,
    help="Write the whole record to this new file, as lines of JSON; with --raw its value.",
)
@calls("plans.quarantine:print_copy")
def quarantine_get() -> None:
    """Print the facts about a copy. ID is a unique prefix of its id. The record's content is
    printed only with --raw, or written with --output.
    """


@click.command()
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
    help="The timestamp of the written record: its own, or the time of the write.",
)
@click.option("--again", is_flag=True, help="Write it although it was written back before.")
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask for the topic's name to be typed first.")
@calls("plans.quarantine:replay_copy")
def quarantine_replay() -> None:
    """Write a record back, unchanged, to its topic or to another. Every consumer of that topic gets
    it again. A record that was written back before, by the journal, is refused without --again.
    """


@click.command()
@click.argument("plan_id", metavar="ID")
@plan_store_options
@change_timeout_option
@calls("plans.recover:recover_plan")
def plan_recover() -> None:
    """Continue an open plan: complete it if a change may have begun, otherwise roll it back. Exit
    code 5 if an operator must still decide.
    """


@click.command()
@click.argument("plan_id", metavar="ID")
@because_option
@plan_store_options
@listener_options
@calls("plans.recover:resolve_plan")
def plan_resolve() -> None:
    """Close an open plan and leave everything as it is now."""


@click.command()
@click.argument("mode", type=click.Choice(["observe", "propose", "auto"]), required=False)
@optional_because_option
@service_options
@output_options
@calls("plans.switches:change_mode")
def mode() -> None:
    """Print the mode of remediation, or lower or raise it until further notice: never above the
    configured mode. Exit code 3 for a mode above that: it is refused.
    """


@click.command()
@click.option("--for", "span_s", type=DurationType(), help="The length of the pause: 30m, 2h, 1d.")
@click.option("--until", help="The end of the pause: ISO 8601 with a zone, or Unix seconds.")
@click.option("--indefinitely", is_flag=True, help="Until an operator runs unpause.")
@because_option
@service_options
@calls("plans.switches:pause_plans")
def pause() -> None:
    """Begin no new plan of remediation; a running plan ends safely."""


@click.command()
@because_option
@service_options
@calls("plans.switches:end_pause")
def unpause() -> None:
    """End a pause."""


@click.command()
@service_options
@output_options
@calls("plans.switches:print_breakers")
def breaker_list() -> None:
    """List open breakers. Exit code 1 if any is open."""


@click.command()
@click.argument("scope")
@because_option
@service_options
@calls("plans.switches:close_breaker")
def breaker_ack() -> None:
    """Close a breaker, as `breaker list` names it, after its cause is fixed."""
