"""Declarations of verbs that read from the daemon or the clusters, without their work."""

from __future__ import annotations

import click

from offsetwatch.cli.common.options import calls, config_option, reads


@click.command()
@reads("inspect.status:print_status")
def status() -> None:
    """Print findings, connectors, flows and sinks, from the daemon or, if none answers, from the
    clusters. Inputs that could not be read are named. Exit code 1 if something is wrong or was not
    read, 7 if nothing could be read.
    """


@click.command()
@click.argument("name", required=False)
@reads("inspect.status:print_connectors_status")
def connectors_status() -> None:
    """Print the states of one connector or of all, and of their tasks, from the daemon or, if none
    answers, from Connect. Exit code 1 if one has failed, or if a Connect cluster could not be read:
    it is named.
    """


@click.command()
@config_option
@calls("inspect.status:check_health")
def healthcheck() -> None:
    """Exit 0 if the local daemon is healthy (for a container's probe)."""


@click.command()
@click.argument("connector")
@reads(
    "inspect.explain:explain_connector",
    click.option("--connect", "connect_cluster", help="Its Connect cluster, if several have one."),
)
def explain() -> None:
    """Print everything known about one connector, from the daemon or, if none answers, from the
    clusters. Inputs that could not be read are named. Exit code 1 if something is wrong with it or
    was not read, 7 if nothing could be read.
    """
