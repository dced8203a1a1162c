"""Declarations of verbs that read from the daemon, the clusters or files, without their work."""

from __future__ import annotations

from pathlib import Path

import click

from offsetwatch.cli.common.options import (
    FILE_TYPE,
    calls,
    config_option,
    output_options,
    reads,
    timeout_option,
)
from offsetwatch.model.topology import TopicKind


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


@click.command()
@click.option(
    "--strimzi",
    "namespace",
    metavar="NAMESPACE",
    required=True,
    help="The namespace of its resources.",
)
@click.option(
    "--kubeconfig",
    type=FILE_TYPE,
    help="A kubeconfig; default: the pod's service account, or kubectl's files.",
)
@click.option(
    "--secrets-to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the named certificates and passwords here, each a file that only you can read.",
)
@calls("inspect.discover:print_strimzi_config")
def discover() -> None:
    """Print a configuration of what Strimzi runs in a namespace."""


@click.command()
@config_option
@output_options
@timeout_option()
@calls("inspect.doctor:run_doctor")
def doctor() -> None:
    """Check every cluster, worker and source, read-only, and print what to fix. Exit code 1 with
    warnings or failures, 7 if something does not answer.
    """


@click.command()
@config_option
@calls("inspect.offline:check_config_file")
def check() -> None:
    """Check a configuration file, offline; print every mistake at once."""


@click.command()
@output_options
@calls("inspect.offline:print_metrics")
def metrics() -> None:
    """Print the metric catalogue."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@calls("inspect.offline:print_completion")
def completion() -> None:
    """Print the script that completes this command in a shell."""


@click.command()
@click.option(
    "--topic-role",
    required=True,
    type=click.Choice([role.value for role in TopicKind]),
    help="The role of the topic.",
)
@click.option(
    "--encoding",
    type=click.Choice(["hex", "base64"]),
    help="How keys and values are encoded; by default hex where both of a record can be hex.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@calls("inspect.offline:decode_records")
def decode() -> None:
    """Decode records of an internal topic, or print why they cannot be decoded.

    FILE (or -) holds JSON lines or one JSON array of {"key": ..., "value": ...}, either of them
    null where the record has none; other fields are passed on. Exit code 1 if a record is
    undecodable, 2 if a line is no record.
    """
