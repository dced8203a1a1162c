"""Options of the verbs that use the remediation service (service_access.py); no heavy imports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from offsetwatch.cli.common.options import (
    apply_options,
    dry_run_option,
    is_typed,
    optional_config_option,
    output_options,
    state_dir_option,
    timeout_option,
)

if TYPE_CHECKING:
    from offsetwatch.cli.plans.service_access import ServiceAccess

FILE_TYPE: Final = click.Path(dir_okay=False, path_type=Path)
REASON_CHARS_MAX: Final = 500
CONTROL_VARIABLE: Final = "OFFSETWATCH_CONTROL_URL"
TOKEN_VARIABLE: Final = "OFFSETWATCH_TOKEN"  # noqa: S105 - a name

journal_config_option = optional_config_option("The YAML file; its state_dir has the journal.")


def _build_file_option(name: str, text: str) -> Callable[..., Any]:
    variable = f"OFFSETWATCH_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(name, type=FILE_TYPE, envvar=variable, show_envvar=True, help=text)


def listener_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that reach the control listener of a remote daemon."""
    return apply_options(
        verb,
        _build_file_option("--key-file", "The key of --cert-file, if not in it."),
        _build_file_option("--cert-file", "A client certificate in PEM, instead of a token."),
        _build_file_option("--ca-file", "Authorities to trust besides the system's, in PEM."),
        _build_file_option(
            "--token-file", "A file with the token that authenticates this command."
        ),
        click.option(
            "--url",
            envvar=CONTROL_VARIABLE,
            show_envvar=True,
            help="The control listener of a daemon elsewhere.",
        ),
    )


def service_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that reach the remediation service, here or elsewhere."""
    return apply_options(verb, listener_options, state_dir_option, journal_config_option)


def build_service_access(
    *,
    config_path: Path | None = None,
    state_dir: Path | None = None,
    url: str | None = None,
    **shown: Path | None,
) -> ServiceAccess:
    """Return the access that these options describe; `shown` are those of the listener.

    Typed options override the environment, and the --url of the environment overrides its --config.
    Raises UsageError.
    """
    from offsetwatch.cli.plans.service_access import ServiceAccess  # noqa: PLC0415 - heavy
    from offsetwatch.cli.remote.control_client import ControlEndpoint  # noqa: PLC0415

    context = click.get_current_context()
    here = is_typed(context, "config_path") or is_typed(context, "state_dir")
    if here and not is_typed(context, "url"):
        url = None
    if url is None:
        for name in shown:
            if is_typed(context, name):
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --url")
        return ServiceAccess(config_path, state_dir)
    if state_dir is not None:
        raise click.UsageError("--state-dir is for this host, and --url for another")
    if shown.get("key_file") is not None and shown.get("cert_file") is None:
        raise click.UsageError("--key-file goes with --cert-file")
    token = os.environ.get(TOKEN_VARIABLE) or None
    if is_typed(context, "token_file") or is_typed(context, "cert_file"):
        token = None
    return ServiceAccess(config_path, None, ControlEndpoint(url, token=token, **shown))


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


def _check_key(
    _context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not re.fullmatch(r"[\x21-\x7e]{1,100}", value):
        raise click.BadParameter("one word of at most 100 characters", param=parameter)
    return value


def plan_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every verb that requests a plan; `request_plan` reads them."""
    return apply_options(
        verb,
        output_options,
        service_options,
        timeout_option(),
        click.option(
            "--key",
            callback=_check_key,
            help="An idempotency key: repeated requests with it give one plan.",
        ),
        dry_run_option,
        because_option,
        click.option("--connect", help="Its Connect cluster, if several are configured."),
    )


def request_plan(
    action: str,
    connector: str,
    more: dict[str, Any],
    *,
    pair: tuple[str, str] | None = None,
    backup: Path | None = None,
) -> int:
    """Request a plan with the options of plan_options in `more`; return the exit code."""
    from offsetwatch.cli.plans import create  # noqa: PLC0415 - heavy
    from offsetwatch.remedy.model.service_api import Wish  # noqa: PLC0415

    wishes = {
        "stop": Wish.STOP,
        "restart": Wish.RESTART_FAILED,
        "skip": Wish.SKIP_ONE,
        "restore": Wish.RESTORE,
    }
    options = create.PlanOptions(
        wish=wishes[action],
        connector=connector,
        pair=pair,
        backup=backup,
        **{name: more.pop(name) for name in ("connect", "because", "key", "timeout_s")},
    )
    how = {name: more.pop(name) for name in ("dry_run", "output_format")}
    make = create.create_plan if backup is None else create.create_restore_plan
    return make(build_service_access(**more), options, **how)
