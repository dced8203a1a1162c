"""Declarations of the `history` verbs, for which the extra `history` need not be installed."""

from __future__ import annotations

from pathlib import Path

import click

from offsetwatch.cli.common.options import (
    FILE_TYPE,
    TIME_HELP,
    UNTIL_HELP,
    WholeNumber,
    calls,
    config_option,
    output_options,
    timeout_option,
)


@click.command()
@config_option
@click.option(
    "--available-now", "mode", flag_value="available-now", help="Read what is available, then exit."
)
@click.option("--continuous", "mode", flag_value="continuous", help="Run until stopped.")
@click.option(
    "--up-to",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help='Compute gold at this log end: a JSON file {"kafka/topic": {"partition": next offset}}.',
)
@output_options
@timeout_option()
@calls("history.pipeline:run_pipeline")
def history_run() -> None:
    """Read the offset topics into the tables."""


@click.command()
@config_option
@click.option("--time", "moment", required=True, help=TIME_HELP)
@click.option("--connector", help="Only this connector.")
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several were read.")
@click.option("--topic", help="Read this offsets topic, whichever the connector uses now.")
@click.option(
    "--diff", is_flag=True, help="Compare with the offsets of now, from Connect or the tables."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["kip199", "patch", "table"]),
    default="kip199",
    show_default=True,
    help="KIP-199 JSON, the body of PATCH /connectors/{connector}/offsets, or a table.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print which files were opened.")
@calls("history.queries.asof:print_as_of")
def history_as_of() -> None:
    """Print source offsets as they were at a moment, from the tables, without a JVM. Exit code 1 if
    the tables do not contain the answer.
    """


@click.command()
@click.argument("connector")
@config_option
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several were read.")
@click.option("--since", default="1d ago", show_default=True, help=TIME_HELP)
@click.option("--until", help=UNTIL_HELP)
@output_options
@calls("history.queries.timeline:print_timeline")
def history_timeline() -> None:
    """Print what happened to a connector, as far as the tables know: requests, states, rewinds,
    pauses and the results of remediation. Exit code 1 if nothing is known of it.
    """


@click.command()
@config_option
@click.option("--flow", required=True, help="SOURCE->TARGET, by MirrorMaker's aliases.")
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several have it.")
@click.option("--group", "groups", multiple=True, help="Only this consumer group; repeatable.")
@click.option("--from", "since", default="1d ago", show_default=True, help=TIME_HELP)
@click.option("--to", "until", help=UNTIL_HELP)
@click.option("--html", type=FILE_TYPE, help="Write a page with plots here.")
@click.option("--parquet", type=FILE_TYPE, help="Write every minute of every partition here.")
@output_options
@calls("history.queries.failover_report:print_report")
def history_report() -> None:
    """Print what a failover of consumer groups to the target of a flow would have cost at each
    minute of a past window: records read again or never, and records not on the target yet. Exit
    code 1 if nothing is known of that time.
    """


@click.command()
@config_option
@click.option("--flow", help="A->B or the connector's name; needed if there are several flows.")
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several copy it.")
@click.option("--topic", "topics", multiple=True, help="Only this upstream topic; repeatable.")
@click.option(
    "--copy-topic",
    "copy_topics",
    multiple=True,
    metavar="TOPIC=COPY",
    help="Where a transform renames copies: what those of TOPIC are called; repeatable.",
)
@click.option("--from-offset", type=WholeNumber(min=0), help="The first upstream offset.")
@click.option("--to-offset", type=WholeNumber(min=0), help="The upstream offset to end before.")
@click.option(
    "--since", help="Only records with a timestamp since then: ISO 8601 with a zone, or '2h ago'."
)
@click.option(
    "--until", help="Only records with a timestamp until then: ISO 8601 with a zone, or '1h ago'."
)
@click.option(
    "--sample",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Compare only this share, in pieces between offset syncs.",
)
@click.option("--seed", default=0, show_default=True, help="The random seed of the sample.")
@click.option(
    "--accept-transforms",
    is_flag=True,
    help="Count as explained what the connector's transforms or header converter may explain.",
)
@click.option("--headers/--no-headers", default=True, help="Whether headers are compared.")
@click.option("--report", type=FILE_TYPE, help="Write the JSON here too.")
@output_options
@timeout_option()
@calls("history.audit:print_audit")
def history_audit() -> None:
    """Compare the topics of a MirrorMaker 2 flow with their copies, record by record. Exit code 1
    if a record is lost, duplicated, out of order or changed, and nothing explains it.
    """


@click.command()
@config_option
@output_options
@calls("history.pipeline:learn_baselines")
def history_baselines() -> None:
    """Learn the baselines of each connector from the tables, and publish them for the daemon. Run
    it daily, or weekly at least.
    """


@click.command()
@config_option
@output_options
@calls("history.pipeline:maintain_tables")
def history_maintain() -> None:
    """Compact and vacuum the tables, and count the records of bronze. Exit code 1 if a record is
    stored twice.
    """


@click.command()
@click.option(
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write to.",
)
@output_options
@calls("history.pipeline:write_package")
def history_package() -> None:
    """Write what spark-submit needs to run the pipeline on a cluster: the code, the jars, and the
    list of what executors must have installed.
    """
