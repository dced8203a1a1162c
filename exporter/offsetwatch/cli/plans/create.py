"""The verbs `plan create` and `restore`: request a plan, for another operator to approve."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.own_inspection import inspect_for_connector
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans.approve import CHANGED, DENIED, OK, ApprovalOptions, approve_plan
from offsetwatch.cli.plans.print import (
    build_details_document,
    describe_next_step,
    print_plan,
    print_refusal,
    select_denying_guards,
)
from offsetwatch.cli.plans.service_access import (
    OperatorService,
    ServiceAccess,
    ServiceSession,
    build_service_access,
    open_service,
)
from offsetwatch.clock import SystemClock
from offsetwatch.daemon.remediation import plan_for_person
from offsetwatch.errors import ClientError, ConfigError
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.model.plan import PartitionOffset, PlanStatus
from offsetwatch.remedy.model.service_api import (
    KeyReused,
    PlanDetails,
    PlanRequest,
    ProposalAccepted,
    ProposalRefused,
    RequestedAction,
    RequestTargetNotFound,
)
from offsetwatch.remedy.planner import NOTHING_FAILED
from offsetwatch.remedy.service import ServiceCallbacks
from offsetwatch.state.snapshot_index import ConnectorKey
from offsetwatch.toolbox.documents import parse_pairs
from offsetwatch.toolbox.offset_locations import TypedPairsLocation
from offsetwatch.toolbox.suggestions import suggest_name

_ACTIONS: Final = {
    "stop": RequestedAction.STOP,
    "restart": RequestedAction.RESTART_FAILED,
    "skip": RequestedAction.SKIP_ONE,
    "restore": RequestedAction.RESTORE,
}


def create_plan(
    action: str,
    *,
    connector: str,
    partition: str | None,
    offset: str | None,
    backup: Path | None,
    **more: Any,
) -> int:
    """Make the plan of an action; return the exit code."""
    if action != "skip" and (partition, offset) != (None, None):
        raise click.UsageError("--partition and --offset go with skip")
    if partition is None and offset is not None:
        raise click.UsageError("--offset goes with --partition")
    if (backup is not None) != (action == "restore"):
        raise click.UsageError("--backup goes with restore, and restore with it")
    pair = None
    if partition is not None:
        pair = _parse_skip_pair(partition, offset)
    return _request_plan(_ACTIONS[action], connector, pair=pair, backup=backup, **more)


def create_restoring_plan(*, backup: Path, connector: str, **more: Any) -> int:
    """Make a plan that restores offsets from a backup; return the exit code."""
    return _request_plan(RequestedAction.RESTORE, connector, backup=backup, **more)


def _request_plan(
    action: RequestedAction,
    connector: str,
    *,
    connect: str | None,
    because: str,
    key: str | None,
    pair: PartitionOffset | None = None,
    backup: Path | None = None,
    **more: Any,
) -> int:
    """Request a plan; without a connector, for that of the backup."""
    how = {name: more.pop(name) for name in ("timeout_s", "dry_run", "output_format")}
    access = build_service_access(**more)
    if backup is not None and not connector:
        connector = _find_backup_connector(access, backup)
    request = PlanRequest(
        action=action,
        connect_cluster=connect or _find_configured_cluster(access),
        connector=connector,
        because=because,
        key=key or secrets.token_hex(16),
        pair=pair,
        backup=None if backup is None else _require_backup_name(access, backup),
    )
    return _create_plan(access, request, **how)


@contextmanager
def open_plan_inputs(
    access: ServiceAccess, timeout_s: float, key: ConnectorKey
) -> Iterator[ServiceCallbacks | None]:
    """Yield the inputs of a plan for a connector; None if a remote daemon plans.

    Silent clusters that the plan does not depend on are named on standard error. Raises
    ConfigError, and ResponseTimeout that names what is missing.
    """
    if access.listener is not None:
        yield None
        return
    loaded = access.loaded
    if loaded is None:
        raise ConfigError(
            ("--config: needed, as a plan is made from the clusters of the file: -c FILE",)
        )
    execute.require_journal_folder(access.folder)
    configure_logging("error", "console")
    with inspect_for_connector(loaded, timeout_s, key) as inspection:
        snapshot = inspection.snapshot
        for cluster in inspection.unread:
            output.print_error(cluster.text)
        plan_for = partial(plan_for_person, loaded, lambda: snapshot, access.folder, SystemClock())
        known = frozenset(
            (connector.connect_cluster, connector.name) for connector in snapshot.connectors
        )
        yield ServiceCallbacks(plan_for=plan_for, wake=lambda _hint: None, inventory=lambda: known)


def _create_plan(
    access: ServiceAccess,
    request: PlanRequest,
    *,
    timeout_s: float,
    dry_run: bool,
    output_format: OutputFormat,
) -> int:
    """Request a plan, for another operator to approve; return the exit code."""
    if dry_run and access.listener is not None:
        raise ConfigError(("--dry-run: only on the daemon's host; a proposal changes nothing yet",))
    key = (request.connect_cluster, request.connector)
    with (
        open_plan_inputs(access, timeout_s, key) as callbacks,
        open_service(access, callbacks) as session,
    ):
        request = _add_single_cluster(request, session)
        if dry_run:
            assert session.local_service is not None
            rehearsed = session.local_service.rehearse(request, session.by)
            if not isinstance(rehearsed, PlanDetails):
                return _report_refusal(rehearsed, request, session.service)
            _print_created_plan(rehearsed, output_format=output_format)
            output.print_error("dry run: nothing was written")
            return DENIED if _format_denying_guards(rehearsed) else OK
        answer = session.service.propose(request, session.by)
        if not isinstance(answer, ProposalAccepted):
            return _report_refusal(answer, request, session.service)
        plan_details = session.service.plan(answer.row.plan_id)
        assert plan_details is not None, "nothing is ever taken out of a journal"
        _print_created_plan(plan_details, output_format=output_format)
        if not answer.new:
            output.print_error(f"this was requested before, with the same --key {request.key}")
        denying = _format_denying_guards(plan_details)
        if denying:
            output.print_error(f"as it is now it could not begin: {denying}")
        output.print_error(describe_next_step(plan_details.row, session.options))
    return OK


def create_restart_plan(
    access: ServiceAccess, connector: str, connect: str | None, because: str, *, yes: bool
) -> int:
    """Request a plan that restarts what has failed, approve it and follow it.

    This is the restart for a person who is not on the daemon's host. If another operator has to
    approve, the plan waits.
    """
    request = PlanRequest(
        action=RequestedAction.RESTART_FAILED,
        connect_cluster=connect or _find_configured_cluster(access),
        connector=connector,
        because=because,
        key=secrets.token_hex(16),
    )
    with open_service(access) as session:
        request = _add_single_cluster(request, session)
        answer = session.service.propose(request, session.by)
        if not isinstance(answer, ProposalAccepted):
            return _report_refusal(answer, request, session.service)
        row = answer.row
    code = approve_plan(access, ApprovalOptions(row.plan_id, row.sha256, because, yes=yes))
    with open_service(access) as session:
        plan_details = session.service.plan(row.plan_id)
        assert plan_details is not None, "nothing is ever taken out of a journal"
        if plan_details.row.state is PlanStatus.PROPOSED and code == DENIED:
            session.service.reject(row.plan_id, session.by, "not confirmed at the command line")
        elif plan_details.row.state is PlanStatus.PROPOSED:
            output.print_error(describe_next_step(plan_details.row, session.options))
    return code


def _add_single_cluster(request: PlanRequest, session: ServiceSession) -> PlanRequest:
    """Return the request with the only Connect cluster that the daemon knows, if it has none."""
    if request.connect_cluster:
        return request
    clusters = {cluster for cluster, _ in session.service.inventory()}
    return msgspec.structs.replace(request, connect_cluster=_require_single_cluster(clusters))


def _format_denying_guards(plan_details: PlanDetails) -> str:
    """Return the names of the guards that would not let the plan begin now."""
    return ", ".join(answer.guard for answer in select_denying_guards(plan_details.guards))


def _find_backup_connector(access: ServiceAccess, backup: Path) -> str:
    """Return the only connector of a backup on this host."""
    if access.listener is not None:
        raise ConfigError(("--connector: the backup is elsewhere, and cannot be asked",))
    name = _require_backup_name(access, backup)
    connectors_by_backup = {
        known.name: known.connectors for known in backups.list_backups(access.folder)
    }
    if name not in connectors_by_backup:
        raise ConfigError(
            (f"--from {name}: there is no such backup: `offsetwatch backup list` lists all",)
        )
    if len(connectors_by_backup[name]) != 1:
        raise ConfigError(("--connector: the backup is not of one connector alone",))
    ((connector, _),) = connectors_by_backup[name]
    return connector


def _find_configured_cluster(access: ServiceAccess) -> str:
    """Return the only Connect cluster of the configuration; "" if only the daemon knows it."""
    if access.listener is not None:
        return ""
    loaded = access.loaded
    configured = () if loaded is None else loaded.connect
    return _require_single_cluster([cluster.name for cluster in configured if cluster.worker_urls])


def _require_single_cluster(clusters: Collection[str]) -> str:
    if not clusters:
        raise ConfigError(("--connect: name the Connect cluster (none is known yet)",))
    if len(clusters) > 1:
        raise ConfigError((f"--connect: name the Connect cluster: {', '.join(sorted(clusters))}",))
    return next(iter(clusters))


def _parse_skip_pair(partition: str, offset: str | None) -> PartitionOffset:
    parsed = parse_pairs(TypedPairsLocation(((partition, offset or "null"),)))
    pair = parsed[0]
    if not isinstance(pair, PartitionOffset):
        raise ConfigError(tuple(str(problem) for problem in parsed))
    if pair.offset is None and offset is not None:
        raise ConfigError(("--offset: null would remove it; a skip sets one",))
    return pair


def _require_backup_name(access: ServiceAccess, backup: Path) -> str:
    """Return the name of a backup in the daemon's own folder. Raises ConfigError for other files.

    A file elsewhere may change before the plan is approved.
    """
    if backup.name == str(backup):
        return backup.name
    home = None if access.listener is not None else access.folder / backups.FOLDER
    if home is None or backup.resolve().parent != home.resolve():
        said = "a backup of the daemon's own, by its name; for another file: offsets import"
        raise ConfigError((f"--from {backup}: {said}",))
    return backup.name


def _report_refusal(
    answer: ProposalRefused | RequestTargetNotFound | KeyReused,
    request: PlanRequest,
    api: OperatorService,
) -> int:
    match answer:
        case ProposalRefused():
            print_refusal(answer)
            return OK if answer.said == NOTHING_FAILED else DENIED  # as without a plan
        case KeyReused():
            output.print_error(
                f"--key {request.key}: something else was requested with it before: use another "
                "key, or leave it out"
            )
            return CHANGED
        case RequestTargetNotFound():
            what = "" if request.backup is None else f", or no backup {request.backup}"
            subject = f"{request.connector} in {request.connect_cluster}"
            right = _suggest_connector(request, api)
            raise ConfigError((f"there is no connector {subject}{what}{right}",))


def _suggest_connector(request: PlanRequest, api: OperatorService) -> str:
    """Return a hint with a similar connector or Connect cluster; "" if there is none."""
    try:
        known = api.inventory()
    except ClientError:  # an older daemon does not list them
        return ""
    clusters = {cluster for cluster, _ in known}
    names = {name for cluster, name in known if cluster == request.connect_cluster}
    if not known or request.connector in names:
        return ""
    if names:
        return f" ({suggest_name(request.connector, names)})"
    right = suggest_name(request.connect_cluster, clusters, "Connect clusters")
    return f" ({right})"


def _print_created_plan(plan_details: PlanDetails, *, output_format: OutputFormat) -> None:
    status = plan_details.row.state.value
    document = build_details_document(plan_details, status)
    output.print_result(
        output_format, document, lambda: print_plan(plan_details, status, brief=True)
    )
