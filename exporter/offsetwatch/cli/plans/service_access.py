"""Access to the remediation service, and the options of the verbs that use it.

It is accessed by the local journal, or by a remote control listener. Both have the same interface.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import click

from offsetwatch import config
from offsetwatch.cli.common.options import is_typed
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.remote.control_client import ControlEndpoint, RemoteRemediationService
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, RemedyConfig
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.model.service_api import Mode, PlanningAnswer, PlanRequest
from offsetwatch.remedy.service import RemediationService, ServiceCallbacks

OperatorService = RemediationService | RemoteRemediationService

TOKEN_VARIABLE: Final = "OFFSETWATCH_TOKEN"  # noqa: S105 - a name
_LOGIN_UID_FILE: Final = Path("/proc/self/loginuid")
_NO_LOGIN_UID: Final = 2**32 - 1  # where no user has logged in


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """Options that name a remediation service."""

    config_path: Path | None = None
    state_dir: Path | None = None
    listener: ControlEndpoint | None = None

    @property
    def options(self) -> str:
        """Return the options that a further command needs to reach the same service."""
        endpoint = self.listener
        named: tuple[tuple[str, object], ...]
        if endpoint is None:
            folder = None if self.config_path is None and self.state_dir is None else self.folder
            named = (("--config", self.config_path), ("--state-dir", folder))
        else:
            named = (
                ("--url", endpoint.url),
                ("--token-file", endpoint.token_file),
                ("--ca-file", endpoint.ca_file),
                ("--cert-file", endpoint.cert_file),
                ("--key-file", endpoint.key_file),
            )
        named_options = ((option, str(value)) for option, value in named if value is not None)
        return shlex.join(word for pair in named_options for word in pair)

    @property
    def loaded(self) -> Config | None:
        """Return the configuration; None if no file is named. Raises ConfigError."""
        return None if self.config_path is None else config.load(self.config_path)

    @property
    def folder(self) -> Path:
        """Return the folder of journal and backups on this host."""
        return execute.find_state_folder(self.state_dir, self.loaded)


def build_service_access(
    *,
    config_path: Path | None = None,
    state_dir: Path | None = None,
    url: str | None = None,
    **listener_files: Path | None,
) -> ServiceAccess:
    """Return the access that these options describe; `listener_files` are those of the listener.

    Typed options override the environment, and the --url of the environment overrides its --config.
    Raises UsageError.
    """
    context = click.get_current_context()
    here = is_typed(context, "config_path") or is_typed(context, "state_dir")
    if here and not is_typed(context, "url"):
        url = None
    if url is None:
        for name in listener_files:
            if is_typed(context, name):
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --url")
        return ServiceAccess(config_path, state_dir)
    if state_dir is not None:
        raise click.UsageError("--state-dir is for this host, and --url for another")
    if listener_files.get("key_file") is not None and listener_files.get("cert_file") is None:
        raise click.UsageError("--key-file goes with --cert-file")
    token = os.environ.get(TOKEN_VARIABLE) or None
    if is_typed(context, "token_file") or is_typed(context, "cert_file"):
        token = None
    return ServiceAccess(config_path, None, ControlEndpoint(url, token=token, **listener_files))


class ServiceSession(NamedTuple):
    """An open remediation service, and the operator who uses it.

    by              the operator's name on this host; "" elsewhere, where the listener knows it
    options         ServiceAccess.options
    local_service   the service itself if it uses this host's journal; else None
    """

    service: OperatorService
    by: str
    options: str
    local_service: RemediationService | None = None


@contextmanager
def open_service(
    access: ServiceAccess, callbacks: ServiceCallbacks | None = None
) -> Iterator[ServiceSession]:
    """Yield the service that the options name; `world` provides inputs for plans.

    Raises ConfigError if there is no journal: a decision in an empty one would have no effect.
    """
    if access.listener is not None:
        with closing(RemoteRemediationService(access.listener)) as remote:
            yield ServiceSession(remote, "", access.options)
        return
    execute.require_journal_folder(access.folder)
    loaded = access.loaded
    remedy = RemedyConfig() if loaded is None else loaded.remedy
    remediation_service = RemediationService(
        access.folder,
        callbacks or _build_inputs_without_plans(),
        SystemClock(),
        mode=Mode(remedy.mode),
        second_person=remedy.second_person,
        cool_down_s=remedy.cool_down_s,
    )
    with closing(remediation_service):
        yield ServiceSession(
            remediation_service, find_operator_name(), access.options, remediation_service
        )


def _build_inputs_without_plans() -> ServiceCallbacks:
    """Build callbacks that cannot plan, wake a thread or list connectors.

    The daemon, which reads the same journal, does all of that.
    """

    def plan_for(request: PlanRequest, by: str) -> PlanningAnswer:
        del request, by
        raise ConfigError(("--config: a plan cannot be made without it",))

    return ServiceCallbacks(plan_for=plan_for, wake=lambda _hint: None, inventory=frozenset)


def find_operator_name() -> str:
    """Return the user who logged in, even after a change of user; else the user of this process.

    Two people who become the same user thus remain two operators.
    """
    number = os.getuid()
    try:
        login = int(_LOGIN_UID_FILE.read_text())
    except (OSError, ValueError):
        login = _NO_LOGIN_UID
    if login != _NO_LOGIN_UID:
        number = login
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)  # a container's user need not have a name
