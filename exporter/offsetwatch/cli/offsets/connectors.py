"""The verbs `connectors stop`, `pause`, `resume`, `restart`, `delete` and `create`.

Each finds the Connect cluster, prepares a plan and has it carried out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import CONFIG_VARIABLE, add_config_option, is_typed
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans.create import create_restart_plan
from offsetwatch.cli.plans.options import CONTROL_VARIABLE
from offsetwatch.cli.plans.service_access import ServiceAccess, build_service_access
from offsetwatch.clients.connect.reader import reader_of
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_connector_command
from offsetwatch.remedy.gather.live_queries import READ_TIMEOUT_S, compute_config_sha256
from offsetwatch.remedy.model.plan import Create, Delete, Plan, RequestedState
from offsetwatch.toolbox import lifecycle
from offsetwatch.toolbox.change import Author, PreparedChange
from offsetwatch.toolbox.store.rest import RestOffsetStore
from offsetwatch.toolbox.suggestions import suggest_name

INEFFECTIVE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorChangeOptions(execute.ChangeOptions):
    """The options of a `connectors` verb as they were given."""

    name: str
    config_path: Path
    connect_cluster: str | None


@contextmanager
def _open_connect_cluster(options: ConnectorChangeOptions) -> Iterator[RestOffsetStore]:
    """Yield the named Connect cluster, or the only one with a URL. Raises ConfigError.

    Raises ClientError if it does not answer within a timeout that is shorter than a request's.
    """
    loaded = config.load(options.config_path)
    known = {cluster.name: cluster for cluster in loaded.connect if cluster.worker_urls}
    name = options.connect_cluster
    if name is None:
        if len(known) != 1:
            names = ", ".join(known) or f"{options.config_path} has none with a url"
            raise ConfigError((f"--connect: name the Connect cluster: {names}",))
        (name,) = known
    if name not in known:
        right = suggest_name(name, known, "known")
        raise ConfigError((f"--connect: no Connect cluster {name} with a url ({right})",))
    if options.timeout_s < READ_TIMEOUT_S:
        with closing(reader_of(known[name], options.timeout_s)) as reader:
            reader.root()
    with closing(RestOffsetStore(loaded, known[name])) as store:
        yield store


def stop_connector(**options: Any) -> int:
    """Stop a connector; return the exit code."""
    return _change_state(RequestedState.STOPPED, ConnectorChangeOptions(**options))


def pause_connector(**options: Any) -> int:
    """Pause a connector; return the exit code."""
    return _change_state(RequestedState.PAUSED, ConnectorChangeOptions(**options))


def resume_connector(*, watch_s: float, **options: Any) -> int:
    """Resume a connector and watch its tasks; return the exit code."""
    return _change_state(RequestedState.RUNNING, ConnectorChangeOptions(**options), watch_s=watch_s)


def _change_state(
    state: RequestedState, options: ConnectorChangeOptions, *, watch_s: float = 0.0
) -> int:
    with _open_connect_cluster(options) as store:
        prepare = partial(lifecycle.prepare_state, store, options.name, state, watch_s=watch_s)
        return _suggest_explain(options, _change_connector(options, store, prepare))


def restart_connector(
    *, only_failed: bool, watch_s: float, because: str | None, **options: Any
) -> int:
    """Restart a connector here, or by a plan of a daemon elsewhere; return the exit code."""
    reach = {
        name: options.pop(name)
        for name in ("url", "token_file", "ca_file", "cert_file", "key_file")
    }
    where = build_service_access(
        config_path=options["config_path"], state_dir=options["state_dir"], **reach
    )
    here = ConnectorChangeOptions(**options)
    if where.listener is not None:
        return _restart_remotely(where, because, here, only_failed=only_failed)
    if options["config_path"] is None:
        raise click.UsageError(
            f"name the file (--config, {CONFIG_VARIABLE}) or a daemon elsewhere (--url, "
            f"{CONTROL_VARIABLE})"
        )
    if because is not None:
        raise click.UsageError("--because goes with --url")
    with _open_connect_cluster(here) as store:
        prepare = partial(
            lifecycle.prepare_restart,
            store,
            here.name,
            only_failed=only_failed,
            watch_s=watch_s,
        )
        return _suggest_explain(here, _change_connector(here, store, prepare))


def _restart_remotely(
    where: ServiceAccess,
    because: str | None,
    options: ConnectorChangeOptions,
    *,
    only_failed: bool,
) -> int:
    if not only_failed:
        raise click.UsageError("--url: only what has failed is restarted there: add --only-failed")
    watched = is_typed(click.get_current_context(), "watch_s")
    for option, typed in (("--dry-run", options.dry_run), ("--watch", watched)):
        if typed:
            raise click.UsageError(f"{option} is for this host, and --url for another")
    because = because or "restarted at the command line"
    return create_restart_plan(
        where, options.name, options.connect_cluster, because, yes=options.yes
    )


def _suggest_explain(options: ConnectorChangeOptions, code: int) -> int:
    """Print the command that shows the error if the connector did not keep running."""
    if code == INEFFECTIVE:
        command = add_config_option(format_connector_command("explain", options.name))
        output.print_error(f"its error, and what remediation would do: {command}")
    return code


def delete_connector(**typed: Any) -> int:
    """Delete a connector; return the exit code."""
    options = ConnectorChangeOptions(**typed)
    with _open_connect_cluster(options) as store:
        prepare = partial(lifecycle.prepare_delete, store, options.name)
        return _change_connector(
            options, store, prepare, is_done=lambda plan: Delete() in plan.steps
        )


def _change_connector(
    options: ConnectorChangeOptions,
    store: RestOffsetStore,
    prepare: Callable[[Author], PreparedChange],
    *,
    create_config: Mapping[str, Any] | None = None,
    is_done: Callable[[Plan], bool] = lambda _earlier: False,
) -> int:
    how = options.build_execution(store.config, shlex.join(("--config", str(options.config_path))))
    driver = store.driver(options.name, create_config=create_config)
    return execute.change_connector(
        how,
        store_name=store.name,
        connector=options.name,
        driver=driver,
        prepare=prepare,
        is_done=is_done,
    )


def create_connector(
    config_file: Path,
    offsets_file: Path | None,
    initial_state: str | None,
    **typed: Any,
) -> int:
    """Create a connector that begins at given offsets; return the exit code."""
    options = ConnectorChangeOptions(**typed)
    with _open_connect_cluster(options) as store:
        request = lifecycle.parse_request(options.name, _read_file(config_file, "--config-file"))
        if not isinstance(request, lifecycle.CreationRequest):
            raise ConfigError(tuple(str(problem) for problem in request))
        twice = None
        if offsets_file is not None and request.offsets is not None:
            twice = "--initial-offsets: --config-file has initial_offsets, too"
        elif None not in (initial_state, request.state) and initial_state != request.state:
            twice = f"--initial-state: --config-file says {request.state}"
        if twice is not None:
            raise ConfigError((f"{twice}: leave one of them out",))
        if offsets_file is not None:
            raw = _read_file(offsets_file, "--initial-offsets")
            offsets = lifecycle.InitialOffsets(raw, str(offsets_file), is_part=False)
            request = replace(request, offsets=offsets)
        if initial_state is not None:
            request = replace(request, state=RequestedState(initial_state))
        prepare = partial(
            lifecycle.prepare_create,
            store,
            options.name,
            request,
            allow_new=options.allow_new,
            watch_s=options.watch_s,
        )
        step = Create(compute_config_sha256(options.name, request.config))
        return _change_connector(
            options,
            store,
            prepare,
            create_config=request.config,
            is_done=lambda plan: step in plan.steps,
        )


def _read_file(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise ConfigError((f"{option}: {path}: {exc.strerror}",)) from exc
