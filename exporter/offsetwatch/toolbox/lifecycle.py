"""Preparation of plans that stop, pause, resume, restart or delete a connector.

The result is a plan for remedy's runner, problems, or nothing if no change is needed.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.config import Connect, Kafka
from offsetwatch.model.commands import format_connector_command
from offsetwatch.model.connect.connectors import Connector, ConnectorKind
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.drivers.rest.connect_state import (
    WorkerVersions,
    parse_kafka_version,
    query_worker_versions,
)
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.model.driver import StepStatus
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Delete,
    Freeze,
    Plan,
    PlanSubject,
    RequestedState,
    Restart,
    ToState,
    Watch,
)
from offsetwatch.toolbox.change import Author, PreparedChange
from offsetwatch.toolbox.store.rest import RestOffsetReader
from offsetwatch.toolbox.suggestions import explain_offsets_name, find_nearest, format_names
from offsetwatch.toolbox.validation import ValidationProblem

STOPPED_STATE_SINCE: Final = (3, 5)  # KIP-875: STOPPED, and offsets that can be read
ALTER_OFFSETS_SINCE: Final = (3, 6)  # KIP-875: offsets that can be altered
_RESTART_TASKS_SINCE: Final = (3, 0)  # KIP-745

_VERBS: Final = {
    RequestedState.RUNNING: "resume",
    RequestedState.PAUSED: "pause",
    RequestedState.STOPPED: "stop",
}


def check_strimzi_ownership(connect: Connect, name: str) -> ValidationProblem | None:
    """Return why Strimzi forbids changes over REST; None if it does not own the connectors.

    Its operator would revert them, in whole or in part.
    """
    strimzi = connect.strimzi
    if strimzi is None:
        return None
    place = f"{strimzi.namespace}/{strimzi.name}"
    return ValidationProblem(
        name,
        f"Strimzi owns the connectors of {connect.name} ({place}), and puts back what is done to "
        "them over REST",
        f"offsets: `{format_connector_command('offsets alter', name, '--strimzi', place)}`; "
        "its state: "
        "spec.state of its resource",
    )


def prepare_state(
    connect: Connect,
    kafka: Kafka | None,
    name: str,
    state: RequestedState,
    author: Author,
    *,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a stop, pause or resume; after a resume the connector is watched for `watch_s`."""
    needs = STOPPED_STATE_SINCE if state is RequestedState.STOPPED else None
    mine = check_strimzi_ownership(connect, name)
    if mine is not None:
        return PreparedChange(name, (mine,))
    reader = RestOffsetReader(connect)
    known = reader.connector(name)
    found = query_worker_versions(connect)
    problems = _find_problems(reader, name, check_worker_versions(connect, needs, found=found))
    if problems or known is None:
        return PreparedChange(name, problems)
    driver = RestDriver(connect, name, kafka)
    inspection = driver.look(ToState(state), None)
    if inspection.standing is StepStatus.DONE:
        return PreparedChange(
            name,
            (),
            notes=(f"{name}: {inspection.said}: there is nothing to do", *_suggest_restart(known)),
        )
    plan = _build_plan(
        f"{_VERBS[state]} {name}",
        reader,
        known,
        (ToState(state), *_build_watch(watch_s)),
        author=author,
        final=state,
    )
    notes = (f"{name}: {inspection.said}", *describe_silent_workers(found))
    return PreparedChange(name, (), notes=notes, plan=plan, driver=driver)


def prepare_restart(
    connect: Connect,
    kafka: Kafka | None,
    name: str,
    author: Author,
    *,
    only_failed: bool,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a restart of the connector and its tasks, all or only failed ones.

    They are watched for `watch_s` afterwards.
    """
    reader = RestOffsetReader(connect)
    known = reader.connector(name)
    problems = _find_problems(reader, name, check_worker_versions(connect, _RESTART_TASKS_SINCE))
    if problems or known is None:
        return PreparedChange(name, problems)
    state = infer_target_state(known)
    if state is RequestedState.STOPPED:
        wrong = "is stopped: a restart would leave it so"
        return PreparedChange(
            name, (ValidationProblem(name, wrong, "`connectors resume` starts it"),)
        )
    steps: tuple[AnyStep, ...] = (Restart(only_failed=only_failed), *_build_watch(watch_s))
    plan = _build_plan(f"restart {name}", reader, known, steps, author=author, final=state)
    return PreparedChange(
        name, (), notes=_describe_state(known), plan=plan, driver=RestDriver(connect, name, kafka)
    )


def _build_watch(seconds: float) -> tuple[Watch, ...]:
    return (Watch(seconds),) if seconds > 0 else ()


def prepare_delete(
    connect: Connect, kafka: Kafka | None, name: str, author: Author
) -> PreparedChange:
    """Prepare a deletion. The offsets that remain are backed up before, and reported."""
    mine = check_strimzi_ownership(connect, name)
    if mine is not None:
        return PreparedChange(name, (mine,))
    reader = RestOffsetReader(connect)
    known = reader.connector(name)
    problems = _find_problems(reader, name, check_worker_versions(connect, STOPPED_STATE_SINCE))
    if problems or known is None:
        return PreparedChange(name, problems)
    steps = (Freeze(), Delete())
    plan = _build_plan(f"delete {name}", reader, known, steps, author=author, final=None)
    notes = (*_describe_state(known), _describe_remaining_offsets(known, reader))
    return PreparedChange(name, (), notes=notes, plan=plan, driver=RestDriver(connect, name, kafka))


def _describe_remaining_offsets(known: Connector, reader: RestOffsetReader) -> str:
    count = sum(pair.offset is not None for pair in reader.pairs(known.name))
    if not count:
        return "it has no offsets that would stay behind"
    what = "1 offset stays" if count == 1 else f"{count} offsets stay"
    return (
        f"its {what} behind, and a connector of the same name would continue there; where that "
        f"is not wanted, `{format_connector_command('offsets reset', known.name)}` first"
    )


# --- what holds for all --------------------------------------------------------------------------


def infer_target_state(connector: Connector) -> RequestedState:
    """Return the state that was requested for the connector, as far as Connect shows it.

    It does not for a failed or rebalancing connector; then it is RUNNING, which is nearly always
    right.
    """
    match connector.state:
        case "paused":
            return RequestedState.PAUSED
        case "stopped":
            return RequestedState.STOPPED
    return RequestedState.RUNNING


def check_worker_versions(
    connect: Connect, needs: tuple[int, int] | None, *, found: WorkerVersions | None = None
) -> tuple[ValidationProblem, ...]:
    """Return workers older than the request needs, by their addresses.

    A leader of an older version would refuse the request, or take STOPPED for PAUSED. A worker that
    does not answer may have been removed.
    """
    if needs is None:
        return ()
    worker_versions = query_worker_versions(connect) if found is None else found
    wanted = f"Kafka {needs[0]}.{needs[1]}"
    right = "upgrade it first"
    if needs == ALTER_OFFSETS_SINCE:
        right += ", or stop every worker and go straight to the storage: --worker-config"
    problems = [
        ValidationProblem(
            connect.name,
            f"the worker at {url} has version {version}, and this needs {wanted}",
            right,
        )
        for url, version in worker_versions.versions
        if (parse_kafka_version(version) or needs) < needs
    ]
    if len(worker_versions.cluster_ids) > 1:
        ids = ", ".join(sorted(worker_versions.cluster_ids))
        problems.append(
            ValidationProblem(
                connect.name, f"its addresses lead to several Kafka clusters: {ids}", ""
            )
        )
    return tuple(problems)


def describe_silent_workers(found: WorkerVersions) -> tuple[str, ...]:
    """Describe workers that did not answer, whose version is unknown should they come back."""
    return tuple(
        f"the worker at {url} gives no answer ({why}), so its version is unknown"
        for url, why in found.silent
    )


def report_missing_connector(reader: RestOffsetReader, name: str) -> ValidationProblem:
    """Return the problem that the connector is missing, with the nearest or existing names."""
    names = reader.connectors()
    meant = find_nearest(name, names)
    right = f"did you mean {meant}?" if meant else f"it has: {format_names(names) or 'none'}"
    right += explain_offsets_name(name)
    return ValidationProblem(name, f"Connect cluster {reader.name} has no such connector", right)


def build_subject(reader: RestOffsetReader, known: Connector) -> PlanSubject:
    """Build the subject of a plan over REST."""
    kinds = {ConnectorKind.SINK: "sink", ConnectorKind.MIRROR: "mirror"}
    return PlanSubject(
        driver="rest",
        place=reader.name,
        connector=known.name,
        kind=kinds.get(known.kind, "source"),
        identity=reader.identity(),
    )


def _find_problems(
    reader: RestOffsetReader, name: str, others: tuple[ValidationProblem, ...]
) -> tuple[ValidationProblem, ...]:
    there = reader.connector(name) is not None
    return others if there else (report_missing_connector(reader, name), *others)


def _build_plan(
    verb: str,
    reader: RestOffsetReader,
    known: Connector,
    steps: tuple[AnyStep, ...],
    *,
    author: Author,
    final: RequestedState | None,
) -> Plan:
    return Plan(
        plan_id=author.plan_id,
        verb=verb,
        subject=build_subject(reader, known),
        steps=steps,
        original=infer_target_state(known),
        final=final,
        created_at=Moment(author.at),
        created_by=author.by,
    )


def _describe_state(known: Connector) -> tuple[str, ...]:
    tasks = " ".join(f"{task.number}:{task.state}" for task in known.tasks) or "none"
    return (f"{known.name}: {known.state}, tasks: {tasks}",)


def _suggest_restart(known: Connector) -> tuple[str, ...]:
    if "failed" not in {known.state, *(task.state for task in known.tasks)}:
        return ()
    restart = format_connector_command("connectors restart", known.name)
    return (f"what has failed is started by `{restart}`",)
