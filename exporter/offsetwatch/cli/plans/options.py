"""Options of the verbs that make, decide and list plans. Nothing that takes long is imported."""

from __future__ import annotations

import re
from typing import Final

import click

from offsetwatch.cli.common.options import (
    FILE_TYPE,
    OptionDecorator,
    combine_options,
    dry_run_option,
    optional_config_option,
    output_options,
    state_dir_option,
    timeout_option,
)

REASON_CHARS_MAX: Final = 500
CONTROL_VARIABLE: Final = "OFFSETWATCH_CONTROL_URL"
journal_config_option = optional_config_option(
    "offsetwatch's configuration (YAML); its state_dir has the journal."
)


def _build_file_option(name: str, text: str) -> OptionDecorator:
    variable = f"OFFSETWATCH_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, type=FILE_TYPE, envvar=variable, show_envvar=True, help=text)


# Reach the control listener of a remote daemon.
listener_options = combine_options(
    click.option(
        "--url",
        envvar=CONTROL_VARIABLE,
        show_envvar=True,
        help="The control listener of a daemon elsewhere.",
    ),
    _build_file_option("--token-file", "A file with the token that authenticates this command."),
    _build_file_option("--ca-file", "Authorities to trust besides the system's, in PEM."),
    _build_file_option("--cert-file", "A client certificate in PEM, instead of a token."),
    _build_file_option("--key-file", "The key of --cert-file, if not in it."),
)
# Reach the remediation service, here or elsewhere. `build_service_access` reads them.
service_options = combine_options(journal_config_option, state_dir_option, listener_options)


def _check_reason(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value is None:
        return None
    said = value.strip()
    if not said or not said.isprintable() or len(said) > REASON_CHARS_MAX:
        raise click.BadParameter(
            f"say why, in one line of at most {REASON_CHARS_MAX} characters", param=parameter
        )
    return said


because_option = click.option(
    "--because",
    required=True,
    callback=_check_reason,
    help="The reason, for later readers of the journal.",
)
optional_because_option = click.option(
    "--because", callback=_check_reason, help="The reason, for later readers of the journal."
)
# Reach a plan's offset store, as in the verb that made the plan.
plan_store_options = combine_options(
    journal_config_option,
    state_dir_option,
    click.option("--connect", help="The Connect cluster; a plan knows its own."),
    click.option("--kubeconfig", type=FILE_TYPE, help="With --strimzi: the kubeconfig."),
    click.option("--strimzi", metavar="NAMESPACE/NAME", help="For a plan through Strimzi."),
    click.option(
        "--worker-config",
        type=FILE_TYPE,
        help="The worker's properties file, for a plan on storage.",
    ),
    click.option("--kafka", help="The cluster of --config that has the worker's topics."),
    click.option("--flow", help="The flow, if a MirrorMaker's file has several."),
)


def _check_key(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not re.fullmatch(r"[\x21-\x7e]{1,100}", value):
        raise click.BadParameter("one word of at most 100 characters", param=parameter)
    return value


# Of every verb that requests a plan; `_request_plan` takes them.
plan_options = combine_options(
    click.option("--connect", help="Its Connect cluster, if several are configured."),
    because_option,
    dry_run_option,
    click.option(
        "--key",
        callback=_check_key,
        help="An idempotency key: repeated requests with it give one plan.",
    ),
    timeout_option(),
    service_options,
    output_options,
)
quarantine_options = combine_options(
    optional_config_option(
        "offsetwatch's configuration (YAML): its state_dir has the files, remedy.quarantine names "
        "the topic."
    ),
    state_dir_option,
)
