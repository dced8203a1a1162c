"""Preparation of plans that create, stop, pause, resume, restart or delete a connector.

The result is a plan for remedy's runner, problems, or nothing if no change is needed.

A new connector starts at given offsets with its first record (KIP-995). It is created stopped, so
that it cannot run before its offsets are set. Offsets that an earlier connector of its name left
are backed up and removed, never merged. Then it gets the requested state. If a step fails, the
earlier offsets are restored and the connector is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import msgspec

from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.formatting import format_connector_command, format_count
from offsetwatch.model.connectors import Connector, ConnectorSettings, build_connector_path
from offsetwatch.remedy.drivers.rest.driver import CREATE_STOPPED_SINCE
from offsetwatch.remedy.gather.live_queries import compute_config_sha256, query_worker_versions
from offsetwatch.remedy.model.driver import Driver, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    Freeze,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Watch,
)
from offsetwatch.toolbox.change import Author, PreparedChange, build_plan, compute_changes
from offsetwatch.toolbox.documents import (
    OffsetsDocument,
    OffsetsSection,
    parse_document,
    parse_json,
)
from offsetwatch.toolbox.offset_locations import StoredPairsLocation
from offsetwatch.toolbox.store.rest import (
    RestOffsetStore,
    check_strimzi_ownership,
    check_worker_versions,
    describe_silent_workers,
    infer_target_state,
)
from offsetwatch.toolbox.suggestions import format_names
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
    list_source_partitions,
)

STOPPED_STATE_SINCE: Final = (3, 5)  # KIP-875: STOPPED, and offsets that can be read
_RESTART_TASKS_SINCE: Final = (3, 0)  # KIP-745

_VERBS: Final = {
    RequestedState.RUNNING: "resume",
    RequestedState.PAUSED: "pause",
    RequestedState.STOPPED: "stop",
}


def prepare_state(
    store: RestOffsetStore,
    name: str,
    state: RequestedState,
    author: Author,
    *,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a stop, pause or resume; after a resume the connector is watched for `watch_s`."""
    owned = check_strimzi_ownership(store.connect, name)
    if owned is not None:
        return PreparedChange(name, (owned,))
    needs = STOPPED_STATE_SINCE if state is RequestedState.STOPPED else None
    known = store.connector(name)
    versions = query_worker_versions(store.connect)
    pause = format_connector_command("connectors pause", name)
    problems = check_worker_versions(
        store.connect,
        needs,
        instead=f"`{pause}` until then: its tasks do nothing",
        versions=versions,
    )
    if problems or known is None:
        return _report_problems(store, name, problems)
    driver = store.driver(name)
    inspection = driver.inspect(ToState(state), None)
    if inspection.status is StepStatus.DONE:
        notes = [f"{name}: {inspection.said}: there is nothing to do"]
        if "failed" in {known.state, *(task.state for task in known.tasks)}:
            restart = format_connector_command("connectors restart", name)
            notes.append(f"what has failed is started by `{restart}`")
        return PreparedChange(name, (), notes=tuple(notes))
    return _build_change(
        f"{_VERBS[state]} {name}",
        store,
        known,
        (ToState(state), *_build_watch(watch_s)),
        author=author,
        final=state,
        notes=(f"{name}: {inspection.said}", *describe_silent_workers(versions)),
        driver=driver,
    )


def prepare_restart(
    store: RestOffsetStore,
    name: str,
    author: Author,
    *,
    only_failed: bool,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare a restart of the connector and its tasks, all or only failed ones.

    They are watched for `watch_s` afterwards.
    """
    known = store.connector(name)
    path = f"{build_connector_path(name)}/tasks/N/restart"
    problems = check_worker_versions(
        store.connect, _RESTART_TASKS_SINCE, instead=f"restart each task by POST {path}"
    )
    if problems or known is None:
        return _report_problems(store, name, problems)
    state = infer_target_state(known)
    if state is RequestedState.STOPPED:
        wrong = "is stopped: a restart would leave it so"
        problem = ValidationProblem(name, wrong, "`connectors resume` starts it")
        return PreparedChange(name, (problem,))
    if only_failed and "failed" not in {known.state, *(task.state for task in known.tasks)}:
        note = f"{_describe_state(known)}: no task is failed: there is nothing to restart"
        return PreparedChange(name, (), notes=(note,))
    return _build_change(
        f"restart {name}",
        store,
        known,
        (Restart(only_failed=only_failed), *_build_watch(watch_s)),
        author=author,
        final=state,
        notes=(_describe_state(known),),
        driver=store.driver(name),
    )


def prepare_delete(store: RestOffsetStore, name: str, author: Author) -> PreparedChange:
    """Prepare a deletion. The offsets that remain are backed up before, and reported."""
    owned = check_strimzi_ownership(store.connect, name)
    if owned is not None:
        return PreparedChange(name, (owned,))
    known = store.connector(name)
    instead = f"without a backup of its offsets, by DELETE {build_connector_path(name)}"
    problems = check_worker_versions(store.connect, STOPPED_STATE_SINCE, instead=instead)
    if problems or known is None:
        return _report_problems(store, name, problems)
    return _build_change(
        f"delete {name}",
        store,
        known,
        (Freeze(), Delete()),
        author=author,
        final=None,
        notes=(_describe_state(known), _describe_remaining_offsets(known, store)),
        driver=store.driver(name),
    )


def _report_problems(
    store: RestOffsetStore, name: str, others: tuple[ValidationProblem, ...]
) -> PreparedChange:
    missing = () if store.connector(name) else (store.report_missing(name),)
    return PreparedChange(name, (*missing, *others))


def _build_watch(seconds: float) -> tuple[Watch, ...]:
    return (Watch(seconds),) if seconds > 0 else ()


def _describe_remaining_offsets(known: Connector, store: RestOffsetStore) -> str:
    count = sum(pair.offset is not None for pair in store.pairs(known.name))
    if not count:
        return "it has no offsets that would stay behind"
    return (
        f"its {format_count(count, 'offset stays', 'offsets stay')} behind, and a "
        "connector of the same name would continue there; where that is not wanted, "
        f"`{format_connector_command('offsets reset', known.name)}` first"
    )


def _build_change(
    verb: str,
    store: RestOffsetStore,
    known: Connector,
    steps: tuple[AnyStep, ...],
    *,
    author: Author,
    final: RequestedState | None,
    notes: tuple[str, ...],
    driver: Driver,
) -> PreparedChange:
    subject = store.subject(known.name, known.kind)
    plan = build_plan(verb, subject, steps, author, original=infer_target_state(known), final=final)
    return PreparedChange(known.name, (), notes=notes, plan=plan, driver=driver)


def _describe_state(known: Connector) -> str:
    tasks = " ".join(f"{task.number}:{task.state}" for task in known.tasks) or "none"
    return f"{known.name}: {known.state}, tasks: {tasks}"


# --- creation ------------------------------------------------------------------------------------

_BODY: Final = ("name", "config", "initial_offsets", "initial_state")
_STATES: Final = {state.value.upper(): state for state in RequestedState}
_MANUAL_ADVICE: Final = (
    "Connect creates a connector stopped since Kafka 3.7; before, it runs for a moment, from "
    "an offset of its own choice: where that does no harm, create it, then `{stop}` and "
    "`offsets import`"
)


class InitialOffsets(NamedTuple):
    """A document of offsets as it was written, and its name, for problems."""

    raw: bytes
    name: str = "--config-file: initial_offsets"
    is_part: bool = True


@dataclass(frozen=True, slots=True)
class CreationRequest:
    """A body of `POST /connectors` (KIP-980), with the `initial_offsets` of KIP-995.

    config      with the connector's name in it; it may hold secrets, and is not shown
    offsets     the JSON list of pairs, or another document; None for none
    state       its final state; None if it is not named
    """

    config: Mapping[Any, Any]
    offsets: InitialOffsets | None = None
    state: RequestedState | None = None

    def __repr__(self) -> str:
        return f"CreationRequest({self.state!r})"


def parse_request(name: str, raw: bytes) -> CreationRequest | tuple[ValidationProblem, ...]:
    """Parse a configuration alone, or a body of `POST /connectors`; return problems if any.

    No problem repeats a value.
    """
    try:
        parsed = msgspec.json.decode(raw)
        if not isinstance(parsed, dict):
            right = '{"connector.class": "…", …}'
            return (ValidationProblem("--config-file", "it is no JSON object", right),)
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = parse_json(raw)
        wrong = value.wrong if isinstance(value, ValidationProblem) else "it is not JSON"
        return (ValidationProblem("--config-file", wrong, ""),)
    if not isinstance(parsed.get("config"), dict):
        return tuple(_find_wrong_settings(name, parsed)) or CreationRequest(
            {**parsed, "name": name}
        )
    inner = {"name": parsed.get("name", name), **parsed["config"]}
    problems = (*_find_wrong_parts(parsed), *_find_wrong_settings(name, inner))
    has_offsets = parsed.get("initial_offsets") is not None
    return problems or CreationRequest(
        config={**inner, "name": name},
        offsets=InitialOffsets(bytes(parts["initial_offsets"])) if has_offsets else None,
        state=_STATES.get(str(parsed.get("initial_state")).upper()),
    )


def _find_wrong_parts(body: Mapping[str, Any]) -> Iterator[ValidationProblem]:
    for key in sorted(body.keys() - set(_BODY)):
        yield ValidationProblem(
            f"--config-file: {key}", "is no part of this", f"it has {', '.join(_BODY)}"
        )
    state, offsets = body.get("initial_state"), body.get("initial_offsets")
    if state is not None and str(state).upper() not in _STATES:
        yield ValidationProblem(
            "--config-file: initial_state", "is no state", ", ".join(sorted(_STATES))
        )
    if offsets is not None and not (isinstance(offsets, list) and offsets):
        right = 'a list of {"partition": {…}, "offset": {…}}; leave it out for no offsets'
        yield ValidationProblem("--config-file: initial_offsets", "has none", right)


def _find_wrong_settings(name: str, config: Mapping[str, Any]) -> Iterator[ValidationProblem]:
    if config.get("name", name) != name:
        yield ValidationProblem(
            "--config-file: name", "is another connector's", f'"name": "{name}"'
        )
    if not isinstance(config.get("connector.class"), str):
        yield ValidationProblem("--config-file", "it has no connector.class", "")
    for key, value in sorted(config.items()):
        if isinstance(value, dict | list):
            where = f"--config-file: {key}"
            yield ValidationProblem(where, "is no single value", "Connect keeps texts")


def prepare_create(
    store: RestOffsetStore,
    name: str,
    connector: CreationRequest,
    author: Author,
    *,
    allow_new: bool,
    watch_s: float = 0.0,
) -> PreparedChange:
    """Prepare the creation, with every check that is possible before the connector exists.

    `allow_new` is as in OffsetsRequest. If it is to run, it is watched for `watch_s` afterwards.
    """
    state = connector.state or RequestedState.RUNNING
    owned = check_strimzi_ownership(store.connect, name)
    if owned is not None:
        return PreparedChange(name, (owned,))
    problems = [*_find_obstacles(store, name)]
    class_name = str(connector.config.get("connector.class"))
    kind = store.kind_of(class_name)
    if kind is None:
        right = "install it on every worker, or correct connector.class"
        problems.append(
            ValidationProblem("connector.class", f"{store.name} has no {class_name}", right)
        )
    section = _find_section(name, connector.offsets)
    if not isinstance(section, OffsetsSection):
        return PreparedChange(name, (*problems, *section))
    if problems:
        return PreparedChange(name, tuple(problems))
    settings = parse_connector_settings(name, connector.config, kind=kind or "")
    request = OffsetsRequest(name, section.pairs, section.where, allow_new=allow_new)
    wrong, notes = _check_offsets(store, request, settings, state)
    if wrong:
        return PreparedChange(name, wrong)
    steps: tuple[AnyStep, ...] = (
        Create(compute_config_sha256(name, connector.config)),
        ToState(RequestedState.STOPPED),
    )
    if request.pairs:
        direct = store.plan_direct_writes(name, settings, request.pairs, whole=True)
        setting_offsets = direct.writes or (Reset(), Alter(request.pairs))
        steps, notes = (*steps, Settle(), Freeze(), *setting_offsets), (*notes, *direct.notes)
    if state is not RequestedState.STOPPED:
        steps = (*steps, ToState(state))
    if state is RequestedState.RUNNING:
        steps = (*steps, *_build_watch(watch_s))
    subject = store.subject(name, settings.kind)
    return PreparedChange(
        connector=name,
        problems=(),
        changes=compute_changes((), request.pairs),
        notes=notes,
        plan=build_plan(f"create {name}", subject, steps, author, original=None, final=state),
        driver=store.driver(name, create_config=connector.config),
    )


def _check_offsets(
    store: RestOffsetStore,
    request: OffsetsRequest,
    settings: ConnectorSettings,
    state: RequestedState,
) -> tuple[tuple[ValidationProblem, ...], tuple[str, ...]]:
    """Return the problems of the offsets, and notes for the user."""
    name = request.connector
    if not request.pairs:
        said = (
            f"{name} is created stopped, and is then {state.value}; it continues from offsets "
            "that an earlier connector of its name left behind, if there are any"
        )
        return (), (said,)
    facts = store.gather_facts(
        name,
        (),
        find_named_partitions(request.pairs),
        settings,
        list_source_partitions(request.pairs),
    )
    said = (
        f"{name} is created stopped; what one of its name has left behind is backed up and "
        f"removed; it gets {format_count(len(request.pairs), 'offset')}, and is then {state.value}"
    )
    nulls = (
        ValidationProblem(
            request.where.locate(index, pair.partition, "offset"),
            "is none",
            "leave its partition out",
        )
        for index, pair in enumerate(request.pairs)
        if pair.offset is None
    )
    return (*find_problems(request, facts), *nulls), (said, *collect_notes(request, facts))


def _find_section(
    name: str, offsets: InitialOffsets | None
) -> OffsetsSection | tuple[ValidationProblem, ...]:
    """Return the pairs of this connector, none where no offsets are given."""
    if offsets is None:
        return OffsetsSection(name, (), StoredPairsLocation(name))
    document = parse_document(
        offsets.raw, name=offsets.name, is_part=offsets.is_part, patch_of=name, list_of=name
    )
    if not isinstance(document, OffsetsDocument):
        return document
    for section in document.sections:
        if section.connector == name and section.pairs:
            return section
    others = format_names(document.connectors()) or "no connector"
    return (ValidationProblem(offsets.name, f"it has none for {name}: {others}", ""),)


def _find_obstacles(store: RestOffsetStore, name: str) -> Iterator[ValidationProblem]:
    """Yield what in this Connect cluster prevents the creation."""
    stop = format_connector_command("connectors stop", name)
    for problem in check_worker_versions(store.connect, CREATE_STOPPED_SINCE):
        yield replace(problem, right=_MANUAL_ADVICE.format(stop=stop))
    if store.connector(name) is not None:
        right = "`offsets import` sets the offsets of one that is there"
        yield ValidationProblem(name, f"{store.name} has a connector of this name", right)
