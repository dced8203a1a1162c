"""Declarations of the verbs `offsets` and `connectors` with their options, without their work."""

from __future__ import annotations

from pathlib import Path

import click

from offsetwatch.cli.common.options import (
    CONFIG_HELP,
    FILE_TYPE,
    TIME_HELP,
    WholeNumber,
    allow_new_option,
    calls,
    change_options,
    change_timeout_option,
    combine_options,
    config_option,
    daemon_options,
    dry_run_option,
    optional_config_option,
    output_options,
    state_dir_option,
    watch_option,
    watch_options,
    yes_option,
)
from offsetwatch.cli.plans.options import listener_options, optional_because_option
from offsetwatch.model.source_ends import BINLOG_EVENTS_MAX

# `take_store_options` reads them.
store_options = combine_options(
    click.option("--connect", help="A Connect cluster of --config, over REST."),
    optional_config_option(CONFIG_HELP),
    click.option(
        "--worker-config",
        type=FILE_TYPE,
        help="A worker's or MirrorMaker's properties file: change its storage directly.",
    ),
    click.option(
        "--kafka", help="With --worker-config and --strimzi: the Kafka cluster of --config."
    ),
    click.option(
        "--strimzi",
        metavar="NAMESPACE/NAME",
        help="A KafkaConnect or KafkaMirrorMaker2, changed through Strimzi's operator.",
    ),
    click.option("--kubeconfig", type=FILE_TYPE, help="With --strimzi: the kubeconfig."),
    click.option(
        "--even-if-gitops",
        is_flag=True,
        help="With --strimzi: also resources that Argo CD or Flux owns.",
    ),
    click.option("--flow", metavar="A->B", help="The flow, if a MirrorMaker has several."),
)
shared_lifecycle_options = combine_options(
    click.argument("name"),
    click.option("--connect", "connect_cluster", help="Its Connect cluster, if several are known."),
    yes_option,
    dry_run_option,
    state_dir_option,
    change_timeout_option,
)
# Of verbs that change a connector and none of its offsets.
lifecycle_options = combine_options(config_option, shared_lifecycle_options)
connectors_option = click.option(
    "--connectors", help="Only these connectors, comma-separated; \\, is a comma in a name."
)
document_option = click.option(
    "--offsets",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="A document of offsets (KIP-199 JSON), or - for standard input.",
)
# For connectors and aliases that have other names at the destination.
rename_options = combine_options(
    click.option(
        "--rename",
        multiple=True,
        metavar="OLD=NEW",
        help="Connector OLD of the document is called NEW.",
    ),
    click.option(
        "--rename-alias",
        multiple=True,
        metavar="OLD=NEW",
        help="MirrorMaker's alias OLD in the document is called NEW.",
    ),
)
# Target of a flow reset.
flow_options = combine_options(
    click.option(
        "--to-offset",
        type=WholeNumber(min=0),
        help="With --flow: the next record to be copied, in each partition.",
    ),
    click.option(
        "--to-time",
        help="With --flow: continue with the first record of this moment: ISO 8601 with a zone, "
        "Unix seconds, or '10m ago'.",
    ),
    click.option(
        "--by",
        metavar="DURATION",
        help="With --flow: go back by this span of record time: 90s, 30m, 2h, 1d; +30m is forward.",
    ),
    click.option("--topics", help="With --flow: only these topics, by their upstream names."),
    click.option(
        "--clear-syncs", is_flag=True, help="With --flow: also delete its offset-syncs topic."
    ),
)
allow_skip_option = click.option(
    "--allow-skip",
    is_flag=True,
    help="Accept that records are never copied: they are lost, unless they are there already.",
)


@click.command()
@store_options
@document_option
@connectors_option
@rename_options
@change_options
@calls("offsets.change:import_offsets")
def offsets_import() -> None:
    """Set the offsets in a document, from a file or from standard input. null removes an offset;
    offsets that are not in the document are not changed.
    """


@click.command()
@click.argument("connector")
@store_options
@click.option(
    "--partition", multiple=True, metavar="JSON", help="A source partition; its --offset follows."
)
@click.option("--offset", multiple=True, metavar="JSON", help="The offset to set; null removes it.")
@document_option
@change_options
@calls("offsets.change:alter_offsets")
def offsets_alter() -> None:
    """Set offsets of one connector, from pairs or from a document (KIP-199, or a PATCH body)."""


@click.command()
@lifecycle_options
@calls("offsets.connectors:stop_connector")
def connectors_stop() -> None:
    """Stop a connector and wait until no task of it is left (KIP-875, Kafka 3.5)."""


@click.command()
@lifecycle_options
@calls("offsets.connectors:pause_connector")
def connectors_pause() -> None:
    """Pause a connector: its tasks remain assigned, and do nothing."""


@click.command()
@lifecycle_options
@watch_option
@calls("offsets.connectors:resume_connector")
def connectors_resume() -> None:
    """Resume a connector that was stopped or paused, and watch its tasks. Exit code 1 if one fails,
    or does not run.
    """


@click.command()
@shared_lifecycle_options
@optional_config_option(CONFIG_HELP)
@listener_options
@optional_because_option
@click.option("--only-failed", is_flag=True, help="Restart only what has failed.")
@watch_option
@calls("offsets.connectors:restart_connector")
def connectors_restart() -> None:
    """Restart a connector and its tasks, and watch them. Exit code 1 if one fails again, or does
    not run.

    With --url, a daemon elsewhere restarts what has failed, by a plan that is made and approved
    here. If another operator has to approve it, it waits (exit code 6).
    """


@click.command()
@lifecycle_options
@calls("offsets.connectors:delete_connector")
def connectors_delete() -> None:
    """Delete a connector. Its offsets are backed up, and remain in the offsets topic."""


@click.command()
@lifecycle_options
@allow_new_option
@watch_option
@click.option(
    "--config-file",
    required=True,
    type=FILE_TYPE,
    help="Its configuration in JSON: the settings, or a body of POST /connectors, which may hold "
    "initial_offsets (KIP-995) and initial_state.",
)
@click.option(
    "--initial-offsets",
    "offsets_file",
    type=FILE_TYPE,
    help="Where it begins: KIP-199 JSON as `offsets export` prints it, a body of a PATCH, or a "
    "list of pairs. Without any it begins where Connect lets it.",
)
@click.option(
    "--initial-state",
    type=click.Choice(["running", "paused", "stopped"]),
    help="Its state at the end; default: that of the body, or running.",
)
@calls("offsets.connectors:create_connector")
def connectors_create() -> None:
    """Create a connector that begins at given offsets (KIP-995). It is created stopped (Kafka 3.7);
    offsets of an earlier connector of its name are backed up and removed, its own are set, then it
    is started.
    """


@click.command()
@store_options
@connectors_option
@click.option("--from-beginning", is_flag=True, help="Include records that were overwritten since.")
@click.option("--output", "into", type=FILE_TYPE, help="A file instead of standard output.")
@calls("offsets.export:export_offsets")
def offsets_export() -> None:
    """Print offsets as KIP-199 JSON, which `import` takes. Exit code 1 if a connector could not be
    read: it is named and left out.
    """


@click.command()
@store_options
@document_option
@rename_options
@output_options
@calls("offsets.export:compare_offsets")
def offsets_diff() -> None:
    """Compare a document with the current offsets. Exit code 1 if anything differs, or if a
    connector could not be read: it is named and not compared.
    """


@click.command()
@store_options
@connectors_option
@daemon_options
@output_options
@watch_options
@calls("offsets.list:list_offsets")
def offsets_list() -> None:
    """List the offsets that Connect would give to a task now: from the daemon, else from Connect,
    else from the topics. Without --connect: of all Connect clusters.
    """


@click.command()
@click.argument("connector")
@store_options
@click.option("--partition", metavar="JSON", help="Its source partition, if it has several.")
@click.option(
    "--transactions",
    "count",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many transactions to pass over.",
)
@click.option(
    "--events-max",
    type=click.IntRange(1, 1_000_000),
    default=BINLOG_EVENTS_MAX,
    show_default=True,
    help="Give up after this many events of the binlog, or messages of the replication slot.",
)
@output_options
@calls("offsets.next_offset:show_next_offset")
def offsets_next() -> None:
    """Show the offset of a Debezium MySQL, MariaDB or PostgreSQL connector after its next
    transaction, what it passes over, and the command that sets it. The database is read, from
    `sources`; nothing is changed.
    """


@click.command()
@click.argument("connector", required=False)
@store_options
@flow_options
@allow_skip_option
@change_options
@calls("offsets.reset:reset_offsets")
def offsets_reset() -> None:
    """Remove all offsets of a connector, so that it starts over. Or, with --flow and no CONNECTOR,
    set a replication flow of MirrorMaker to the start of each log, or as the options say.
    """


@click.command()
@click.argument("connector")
@store_options
@click.option("--to", "moment", required=True, help=TIME_HELP)
@allow_skip_option
@change_options
@calls("offsets.reset:rewind_offsets")
def offsets_rewind() -> None:
    """Set a connector back to its offsets at a moment, from the tables of `history run`."""
