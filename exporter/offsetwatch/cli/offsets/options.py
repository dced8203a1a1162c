"""Options of the verbs that list and change offsets and connectors. Imports nothing slow."""

from __future__ import annotations

from pathlib import Path

import click

from offsetwatch.cli.common.options import (
    FILE_TYPE,
    WholeNumber,
    change_timeout_option,
    combine_options,
    config_option,
    dry_run_option,
    optional_config_option,
    state_dir_option,
    yes_option,
)

# `take_store_options` reads them.
store_options = combine_options(
    click.option("--connect", help="A Connect cluster of --config, over REST."),
    optional_config_option("The YAML file."),
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
    help="KIP-199 JSON; - to read it.",
)
# For connectors and aliases that have other names at the destination.
rename_options = combine_options(
    click.option("--rename", multiple=True, metavar="OLD=NEW", help="A connector has a new name."),
    click.option(
        "--rename-alias",
        multiple=True,
        metavar="OLD=NEW",
        help="MirrorMaker calls a cluster by a new alias.",
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
