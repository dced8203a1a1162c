"""Preparation of plans that stop, pause, resume, restart or delete a connector.

The result is a plan for remedy's runner, problems, or nothing if no change is needed.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.config import Config, Connect
from offsetwatch.model.commands import format_connector_command
from offsetwatch.model.connectors import Connector
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.gather.live_queries import (
    query_worker_versions,
)
from offsetwatch.remedy.model.driver import StepStatus
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Delete,
    Freeze,
    Plan,
    RequestedState,
    Restart,
    ToState,
    Watch,
)
from offsetwatch.toolbox.change import Author, PreparedChange
from offsetwatch.toolbox.store.rest import (
    RestOffsetStore,
    check_strimzi_ownership,
    check_worker_versions,
    describe_silent_workers,
    infer_target_state,
)
from offsetwatch.toolbox.validation import ValidationProblem

STOPPED_STATE_SINCE: Final = (3, 5)  # KIP-875: STOPPED, and offsets that can be read
_RESTART_TASKS_SINCE: Final = (3, 0)  # KIP-745

_VERBS: Final = {
    RequestedState.RUNNING: "resume",
    RequestedState.PAUSED: "pause",
    RequestedState.STOPPED: "stop",
}


def prepare_state(
    config: Config,
    connect: Connect,
    name: str,
    state: RequestedState,
    author: Author,
    *,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a stop, pause or resume; after a resume the connector is watched for `watch_s`."""
    needs = STOPPED_STATE_SINCE if state is RequestedState.STOPPED else None
    owned = check_strimzi_ownership(connect, name)
    if owned is not None:
        return PreparedChange(name, (owned,))
    store = RestOffsetStore(config, connect)
    known = store.connector(name)
    found = query_worker_versions(connect)
    problems = _find_problems(store, name, check_worker_versions(connect, needs, found=found))
    if problems or known is None:
        return PreparedChange(name, problems)
    driver = RestDriver(connect, name, config.kafka_of(connect))
    inspection = driver.inspect(ToState(state), None)
    if inspection.status is StepStatus.DONE:
        return PreparedChange(
            name,
            (),
            notes=(f"{name}: {inspection.said}: there is nothing to do", *_suggest_restart(known)),
        )
    plan = _build_plan(
        f"{_VERBS[state]} {name}",
        store,
        known,
        (ToState(state), *_build_watch(watch_s)),
        author=author,
        final=state,
    )
    notes = (f"{name}: {inspection.said}", *describe_silent_workers(found))
    return PreparedChange(name, (), notes=notes, plan=plan, driver=driver)


def prepare_restart(
    config: Config,
    connect: Connect,
    name: str,
    author: Author,
    *,
    only_failed: bool,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a restart of the connector and its tasks, all or only failed ones.

    They are watched for `watch_s` afterwards.
    """
    store = RestOffsetStore(config, connect)
    known = store.connector(name)
    problems = _find_problems(store, name, check_worker_versions(connect, _RESTART_TASKS_SINCE))
    if problems or known is None:
        return PreparedChange(name, problems)
    state = infer_target_state(known)
    if state is RequestedState.STOPPED:
        wrong = "is stopped: a restart would leave it so"
        return PreparedChange(
            name, (ValidationProblem(name, wrong, "`connectors resume` starts it"),)
        )
    steps: tuple[AnyStep, ...] = (Restart(only_failed=only_failed), *_build_watch(watch_s))
    plan = _build_plan(f"restart {name}", store, known, steps, author=author, final=state)
    return PreparedChange(
        name,
        (),
        notes=_describe_state(known),
        plan=plan,
        driver=RestDriver(connect, name, config.kafka_of(connect)),
    )


def _build_watch(seconds: float) -> tuple[Watch, ...]:
    return (Watch(seconds),) if seconds > 0 else ()


def prepare_delete(config: Config, connect: Connect, name: str, author: Author) -> PreparedChange:
    """Prepare a deletion. The offsets that remain are backed up before, and reported."""
    owned = check_strimzi_ownership(connect, name)
    if owned is not None:
        return PreparedChange(name, (owned,))
    store = RestOffsetStore(config, connect)
    known = store.connector(name)
    problems = _find_problems(store, name, check_worker_versions(connect, STOPPED_STATE_SINCE))
    if problems or known is None:
        return PreparedChange(name, problems)
    steps = (Freeze(), Delete())
    plan = _build_plan(f"delete {name}", store, known, steps, author=author, final=None)
    notes = (*_describe_state(known), _describe_remaining_offsets(known, store))
    return PreparedChange(
        name, (), notes=notes, plan=plan, driver=RestDriver(connect, name, config.kafka_of(connect))
    )


def _describe_remaining_offsets(known: Connector, store: RestOffsetStore) -> str:
    count = sum(pair.offset is not None for pair in store.pairs(known.name))
    if not count:
        return "it has no offsets that would stay behind"
    return (
        f"its {'1 offset stays' if count == 1 else f'{count} offsets stay'} behind, and a "
        "connector of the same name would continue there; where that is not wanted, "
        f"`{format_connector_command('offsets reset', known.name)}` first"
    )


def _find_problems(
    store: RestOffsetStore, name: str, others: tuple[ValidationProblem, ...]
) -> tuple[ValidationProblem, ...]:
    return others if store.connector(name) else (store.report_missing(name), *others)


def _build_plan(
    verb: str,
    store: RestOffsetStore,
    known: Connector,
    steps: tuple[AnyStep, ...],
    *,
    author: Author,
    final: RequestedState | None,
) -> Plan:
    return Plan(
        plan_id=author.plan_id,
        verb=verb,
        subject=store.subject(known.name, known.kind),
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
