"""Creation of a connector that starts at given offsets with its first record (KIP-995).

The connector is created stopped, so that it cannot run before its offsets are set. Offsets that an
earlier connector of its name left are backed up and removed, never merged. Then it gets the
requested state. If a step fails, the earlier offsets are restored and the connector is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

import msgspec

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.model.commands import format_connector_command
from offsetwatch.model.connectors import ConnectorSettings
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.drivers.rest.driver import CREATE_STOPPED_SINCE, RestDriver
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Freeze,
    Plan,
    RequestedState,
    Reset,
    Settle,
    ToState,
)
from offsetwatch.toolbox import connector_facts
from offsetwatch.toolbox.change import Author, PreparedChange, compute_changes
from offsetwatch.toolbox.documents import OffsetsDocument, OffsetsSection, parse_document
from offsetwatch.toolbox.store.rest import (
    RestOffsetStore,
    check_strimzi_ownership,
    check_worker_versions,
)
from offsetwatch.toolbox.store.tombstones import DirectTopicWrites, plan_direct_writes
from offsetwatch.toolbox.suggestions import format_names
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
)

_BODY: Final = ("name", "config", "initial_offsets", "initial_state")
_STATES: Final = {state.value.upper(): state for state in RequestedState}


@dataclass(frozen=True, slots=True)
class CreationRequest:
    """A body of `POST /connectors` (KIP-980), with the `initial_offsets` of KIP-995.

    config      with the connector's name in it; it may hold secrets, and is not shown
    offsets     the JSON list of pairs, as it was written; None if there is none
    state       None if it is not named
    """

    config: Mapping[str, Any]
    offsets: bytes | None = None
    state: RequestedState | None = None

    def __repr__(self) -> str:
        return f"CreationRequest({self.state!r})"


@dataclass(frozen=True, slots=True)
class NewConnector:
    """The connector to create. Its configuration may hold secrets, and is not shown.

    config      for Connect
    offsets     the document: KIP-199, the body of a PATCH, or a list of pairs; None for none
    state       its final state
    allow_new   as in OffsetsRequest
    """

    name: str
    config: Mapping[Any, Any]
    offsets: bytes | None
    state: RequestedState
    allow_new: bool = False

    def __repr__(self) -> str:
        return f"Wanted({self.name!r}, {self.state!r})"


def parse_request(name: str, raw: bytes) -> CreationRequest | tuple[ValidationProblem, ...]:
    """Parse a configuration alone, or a body of `POST /connectors`; return problems if any.

    No problem repeats a value.
    """
    try:
        parsed = msgspec.json.decode(raw)
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) if _is_object(parsed) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (ValidationProblem("--config-file", "it is not JSON", ""),)
    if not _is_object(parsed):
        return (
            ValidationProblem(
                "--config-file", "it is no JSON object", '{"connector.class": "…", …}'
            ),
        )
    if not isinstance(parsed.get("config"), dict):
        found = _find_wrong_settings(name, parsed)
        return tuple(found) or CreationRequest({**parsed, "name": name})
    inner = dict(parsed["config"])
    inner.setdefault("name", parsed.get("name", name))
    found = [*_find_wrong_parts(parsed), *_find_wrong_settings(name, inner)]
    if found:
        return tuple(found)
    given = parsed.get("initial_offsets") is not None
    return CreationRequest(
        config={**inner, "name": name},
        offsets=bytes(parts["initial_offsets"]) if given else None,
        state=_STATES.get(str(parsed.get("initial_state")).upper()),
    )


def _is_object(parsed: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(parsed, dict)


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


def _find_wrong_settings(name: str, config: Mapping[str, Any]) -> list[ValidationProblem]:
    found = []
    if config.get("name", name) != name:
        found.append(
            ValidationProblem("--config-file: name", "is another connector's", f'"name": "{name}"')
        )
    if not isinstance(config.get("connector.class"), str):
        found.append(ValidationProblem("--config-file", "it has no connector.class", ""))
    found.extend(
        ValidationProblem(f"--config-file: {key}", "is no single value", "Connect keeps texts")
        for key, value in sorted(config.items())
        if isinstance(value, dict | list)
    )
    return found


def prepare_create(
    config: Config,
    connect: Connect,
    connector: NewConnector,
    author: Author,
    *,
    clock: UnixClock | None = None,
) -> PreparedChange:
    """Prepare the creation, with every check that is possible before the connector exists."""
    owned = check_strimzi_ownership(connect, connector.name)
    if owned is not None:
        return PreparedChange(connector.name, (owned,))
    store = RestOffsetStore(config, connect)
    found = [*_find_obstacles(store, connect, connector)]
    kind = store.kind_of(str(connector.config.get("connector.class")))
    section = _find_section(connector)
    if not isinstance(section, OffsetsSection):
        return PreparedChange(connector.name, (*found, *section))
    if found:
        return PreparedChange(connector.name, tuple(found))
    settings = parse_connector_settings(connector.name, connector.config, kind=kind or "")
    request = OffsetsRequest(
        connector.name, section.pairs, section.where, allow_new=connector.allow_new
    )
    wrong, said = _check_offsets(config, connect, request, settings, connector.state)
    if wrong:
        return PreparedChange(connector.name, wrong)
    direct, steps = DirectTopicWrites(), tuple[AnyStep, ...]()
    if request.pairs:
        direct = plan_direct_writes(
            config,
            connect,
            connector.name,
            settings,
            request.pairs,
            version=store.version(),
            whole=True,
        )
        steps = direct.writes or (Reset(), Alter(request.pairs))
    return PreparedChange(
        connector=connector.name,
        problems=(),
        changes=compute_changes((), request.pairs),
        notes=(*said, *direct.notes),
        plan=_build_plan(store, connector, steps, settings, author),
        driver=RestDriver(
            connect,
            connector.name,
            config.kafka_of(connect),
            create_config=connector.config,
            offsets_topics=direct.topics,
            clock=clock,
        ),
    )


def _check_offsets(
    config: Config,
    connect: Connect,
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
    known = _gather_facts(config, connect, request, settings)
    said = (
        f"{name} is created stopped; what one of its name has left behind is backed up and "
        f"removed; it gets {len(request.pairs)} offsets, and is then {state.value}"
    )
    return (*find_problems(request, known), *_find_null_offsets(request)), (
        said,
        *collect_notes(request, known),
    )


def _find_section(connector: NewConnector) -> OffsetsSection | tuple[ValidationProblem, ...]:
    """Return the pairs of this connector, none where no offsets are given."""
    if connector.offsets is None:
        return OffsetsSection(connector.name, (), "")
    document = parse_document(connector.offsets, patch_of=connector.name, list_of=connector.name)
    if not isinstance(document, OffsetsDocument):
        return document
    for section in document.sections:
        if section.connector == connector.name and section.pairs:
            return section
    others = format_names(document.connectors()) or "no connector"
    return (
        ValidationProblem("--initial-offsets", f"it has none for {connector.name}: {others}", ""),
    )


def _find_obstacles(
    store: RestOffsetStore, connect: Connect, connector: NewConnector
) -> list[ValidationProblem]:
    """Return what in this Connect cluster prevents the creation."""
    stop = format_connector_command("connectors stop", connector.name)
    found = [
        replace(problem, right=_MANUAL_ADVICE.format(stop=stop))
        for problem in check_worker_versions(connect, CREATE_STOPPED_SINCE)
    ]
    if store.connector(connector.name) is not None:
        right = "`offsets import` sets the offsets of one that is there"
        found.append(
            ValidationProblem(connector.name, f"{store.name} has a connector of this name", right)
        )
    class_name = str(connector.config.get("connector.class"))
    if store.kind_of(class_name) is None:
        right = "install it on every worker, or correct connector.class"
        found.append(
            ValidationProblem("connector.class", f"{store.name} has no {class_name}", right)
        )
    return found


_MANUAL_ADVICE: Final = (
    "Connect creates a connector stopped since Kafka 3.7; before, it runs for a moment, from "
    "an offset of its own choice: where that does no harm, create it, then `{stop}` and "
    "`offsets import`"
)


def _gather_facts(
    config: Config, connect: Connect, request: OffsetsRequest, settings: ConnectorSettings
) -> ValidationFacts:
    """Gather the facts for checking the offsets, about the topics that the connector would read."""
    kafkas = connector_facts.KafkaClusterPool(config.kafka)
    try:
        return connector_facts.gather_facts(
            request.connector,
            settings,
            (),
            find_named_partitions(request.pairs),
            kafkas=kafkas,
            home=connect.kafka,
            upstream=connector_facts.find_configured_upstream(
                config, connect.name, request.connector
            ),
        )
    finally:
        kafkas.close()


def _find_null_offsets(request: OffsetsRequest) -> list[ValidationProblem]:
    return [
        ValidationProblem(f"{request.where}[{index}].offset", "is none", "leave its partition out")
        for index, pair in enumerate(request.pairs)
        if pair.offset is None
    ]


def _build_plan(
    store: RestOffsetStore,
    connector: NewConnector,
    setting_offsets: tuple[AnyStep, ...],
    settings: ConnectorSettings,
    author: Author,
) -> Plan:
    steps: tuple[AnyStep, ...] = (
        Create(compute_config_sha256(connector.name, connector.config)),
        ToState(RequestedState.STOPPED),
    )
    if setting_offsets:
        steps = (*steps, Settle(), Freeze(), *setting_offsets)
    if connector.state is not RequestedState.STOPPED:
        steps = (*steps, ToState(connector.state))
    return Plan(
        plan_id=author.plan_id,
        verb=f"create {connector.name}",
        subject=store.subject(connector.name, settings.kind),
        steps=steps,
        original=None,
        final=connector.state,
        created_at=Moment(author.at),
        created_by=author.by,
    )
