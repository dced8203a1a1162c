"""The verbs `connectors stop`, `pause`, `resume`, `restart`, `delete` and `create`.

Each finds the Connect cluster, prepares a plan and has it carried out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.offsets import execute
from offsetwatch.errors import ConfigError
from offsetwatch.model.commands import format_connector_command
from offsetwatch.remedy.drivers.delete_topic import add_topic_deletion
from offsetwatch.remedy.drivers.rest.connect_state import compute_config_sha256
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.model.plan import Create, Delete, Plan, RequestedState
from offsetwatch.toolbox import creation, lifecycle
from offsetwatch.toolbox.change import PreparedChange
from offsetwatch.toolbox.suggestions import suggest_name

INEFFECTIVE = 1


@dataclass(frozen=True, slots=True)
class ConnectorChangeOptions:
    """The options of a `connectors` verb as they were given."""

    name: str
    config_path: Path
    connect_cluster: str | None
    state_dir: Path | None
    yes: bool
    dry_run: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class NewConnectorFiles:
    """Files of a connector to be created: its configuration and its initial offsets."""

    config: Path
    offsets: Path | None


@dataclass(frozen=True, slots=True)
class ConnectTarget:
    """A Connect cluster, and the Kafka cluster of its topics."""

    loaded: config.Config
    connect: config.Connect
    kafka: config.Kafka | None


def find_connect_target(path: Path, connect_cluster: str | None) -> ConnectTarget:
    """Return the named Connect cluster, or the only one with a URL. Raises ConfigError."""
    loaded = config.load(path)
    known = {cluster.name: cluster for cluster in loaded.connect if cluster.worker_urls}
    if connect_cluster is None and len(known) != 1:
        raise ConfigError(("--connect: name the Connect cluster: " + ", ".join(known),))
    name = next(iter(known)) if connect_cluster is None else connect_cluster
    if name not in known:
        right = suggest_name(name, known, "known")
        raise ConfigError((f"--connect: no Connect cluster {name} with a url ({right})",))
    return ConnectTarget(loaded, known[name], loaded.kafka_of(known[name]))


def change_state(options: ConnectorChangeOptions, state: str, *, watch_s: float = 0.0) -> int:
    """Stop, pause or resume the connector; return the exit code."""
    target = find_connect_target(options.config_path, options.connect_cluster)

    def prepare() -> PreparedChange:
        author = execute.create_author()
        return lifecycle.prepare_state(
            target.loaded,
            target.connect,
            options.name,
            RequestedState(state),
            author,
            watch_s=watch_s,
        )

    return _suggest_explain(options, _change_connector(options, target, prepare))


def restart_connector(options: ConnectorChangeOptions, *, only_failed: bool, watch_s: float) -> int:
    """Restart the connector and its tasks, and watch them; return the exit code."""
    target = find_connect_target(options.config_path, options.connect_cluster)

    def prepare() -> PreparedChange:
        author = execute.create_author()
        return lifecycle.prepare_restart(
            target.loaded,
            target.connect,
            options.name,
            author,
            only_failed=only_failed,
            watch_s=watch_s,
        )

    return _suggest_explain(options, _change_connector(options, target, prepare))


def _suggest_explain(options: ConnectorChangeOptions, code: int) -> int:
    """Print the command that shows the error if the connector did not keep running."""
    if code == INEFFECTIVE:
        command = add_config_option(format_connector_command("explain", options.name))
        output.print_error(f"its error, and what remediation would do: {command}")
    return code


def delete_connector(options: ConnectorChangeOptions) -> int:
    """Delete the connector; return the exit code."""
    target = find_connect_target(options.config_path, options.connect_cluster)

    def prepare() -> PreparedChange:
        return lifecycle.prepare_delete(
            target.loaded, target.connect, options.name, execute.create_author()
        )

    return _change_connector(options, target, prepare, was_it=lambda plan: Delete() in plan.steps)


def _change_connector(
    options: ConnectorChangeOptions,
    target: ConnectTarget,
    prepare: Callable[[], PreparedChange],
    *,
    create_config: Mapping[str, Any] | None = None,
    was_it: Callable[[Plan], bool] = lambda _earlier: False,
) -> int:
    driver = RestDriver(target.connect, options.name, target.kafka, create_config=create_config)
    how = execute.ExecutionOptions(
        folder=execute.find_state_folder(options.state_dir, target.loaded),
        options=shlex.join(("--config", str(options.config_path))),
        yes=options.yes,
        dry_run=options.dry_run,
        timeout_s=options.timeout_s,
    )
    return execute.change_connector(
        how,
        place=target.connect.name,
        connector=options.name,
        driver=add_topic_deletion(driver, target.loaded.kafka),
        prepare=prepare,
        was_it=was_it,
    )


def create_connector(
    options: ConnectorChangeOptions,
    *,
    files: NewConnectorFiles,
    initial_state: str | None,
    allow_new: bool,
) -> int:
    """Create the connector, with initial offsets if given; return the exit code."""
    target = find_connect_target(options.config_path, options.connect_cluster)
    request = creation.parse_request(options.name, _read_file(files.config, "--config-file"))
    if not isinstance(request, creation.CreationRequest):
        raise ConfigError(tuple(str(problem) for problem in request))
    if files.offsets is not None and request.offsets is not None:
        twice = "--initial-offsets: --config-file has initial_offsets, too: leave one of them out"
        raise ConfigError((twice,))
    state = None if initial_state is None else RequestedState(initial_state)
    if None not in (state, request.state) and state is not request.state:
        twice = f"--initial-state: --config-file says {request.state}: leave one of them out"
        raise ConfigError((twice,))
    settings = request.config
    offsets = request.offsets
    if files.offsets is not None:
        offsets = _read_file(files.offsets, "--initial-offsets")
    connector = creation.NewConnector(
        name=options.name,
        config=settings,
        offsets=offsets,
        state=state or request.state or RequestedState.RUNNING,
        allow_new=allow_new,
    )

    def prepare() -> PreparedChange:
        return creation.prepare_create(
            target.loaded, target.connect, connector, execute.create_author()
        )

    step = Create(compute_config_sha256(options.name, settings))
    return _change_connector(
        options, target, prepare, create_config=settings, was_it=lambda plan: step in plan.steps
    )


def _read_file(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise ConfigError((f"{option}: {path}: {exc.strerror}",)) from exc
