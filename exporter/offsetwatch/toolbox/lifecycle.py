"""A connector's life, changed carefully: stop, pause, resume, restart, delete.

Each becomes a plan for remedy's runner, or problems, or nothing where it is so already. Called by
the command line.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.config import Connect, Kafka
from offsetwatch.model.commands import connector_command
from offsetwatch.model.connectors import Connector, ConnectorKind
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.drivers.rest.connect_state import Workers, kafka_version, workers
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.model.driver import Standing
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Delete,
    Freeze,
    Plan,
    Restart,
    State,
    Subject,
    ToState,
    Watch,
)
from offsetwatch.toolbox.change import Author, Prepared
from offsetwatch.toolbox.store.rest import RestPlace
from offsetwatch.toolbox.suggestions import body_hint, nearest, told
from offsetwatch.toolbox.validation import Problem

STOPS: Final = (3, 5)  # KIP-875: STOPPED, and offsets that can be read
ALTERS: Final = (3, 6)  # KIP-875: offsets that can be altered
_RESTARTS_TASKS: Final = (3, 0)  # KIP-745

_VERBS: Final = {State.RUNNING: "resume", State.PAUSED: "pause", State.STOPPED: "stop"}


def owned(connect: Connect, name: str) -> Problem | None:
    """Why nothing of it is changed over REST: an operator would put it back, or half of it."""
    at = connect.strimzi
    if at is None:
        return None
    place = f"{at.namespace}/{at.name}"
    return Problem(
        name,
        f"Strimzi owns the connectors of {connect.name} ({place}), and puts back what is done to "
        "them over REST",
        f"offsets: `{connector_command('offsets alter', name, '--strimzi', place)}`; its state: "
        "spec.state of its resource",
    )


def prepare_state(
    connect: Connect,
    kafka: Kafka | None,
    name: str,
    state: State,
    author: Author,
    *,
    watch_s: float = 0.0,
) -> Prepared:
    """Stop, pause or resume; what is resumed is watched for `watch_s`."""
    needs = STOPS if state is State.STOPPED else None
    mine = owned(connect, name)
    if mine is not None:
        return Prepared(name, (mine,))
    place = RestPlace(connect)
    known = place.connector(name)
    found = workers(connect)
    problems = _problems(place, name, too_old(connect, needs, found=found))
    if problems or known is None:
        return Prepared(name, problems)
    driver = RestDriver(connect, name, kafka)
    look = driver.look(ToState(state), None)
    if look.standing is Standing.DONE:
        return Prepared(
            name, (), notes=(f"{name}: {look.said}: there is nothing to do", *_hint(known))
        )
    plan = _plan(
        f"{_VERBS[state]} {name}",
        place,
        known,
        (ToState(state), *_watch(watch_s)),
        author=author,
        final=state,
    )
    notes = (f"{name}: {look.said}", *unheard(found))
    return Prepared(name, (), notes=notes, plan=plan, driver=driver)


def prepare_restart(
    connect: Connect,
    kafka: Kafka | None,
    name: str,
    author: Author,
    *,
    only_failed: bool,
    watch_s: float = 0.0,
) -> Prepared:
    """Restart the connector and its tasks, all or those that have failed, and watch them for
    `watch_s`.
    """
    place = RestPlace(connect)
    known = place.connector(name)
    problems = _problems(place, name, too_old(connect, _RESTARTS_TASKS))
    if problems or known is None:
        return Prepared(name, problems)
    state = state_of(known)
    if state is State.STOPPED:
        wrong = "is stopped: a restart would leave it so"
        return Prepared(name, (Problem(name, wrong, "`connectors resume` starts it"),))
    steps: tuple[AnyStep, ...] = (Restart(only_failed=only_failed), *_watch(watch_s))
    plan = _plan(f"restart {name}", place, known, steps, author=author, final=state)
    return Prepared(name, (), notes=_now(known), plan=plan, driver=RestDriver(connect, name, kafka))


def _watch(seconds: float) -> tuple[Watch, ...]:
    return (Watch(seconds),) if seconds > 0 else ()


def prepare_delete(connect: Connect, kafka: Kafka | None, name: str, author: Author) -> Prepared:
    """Delete the connector. What it leaves behind is backed up before, and said."""
    mine = owned(connect, name)
    if mine is not None:
        return Prepared(name, (mine,))
    place = RestPlace(connect)
    known = place.connector(name)
    problems = _problems(place, name, too_old(connect, STOPS))
    if problems or known is None:
        return Prepared(name, problems)
    steps = (Freeze(), Delete())
    plan = _plan(f"delete {name}", place, known, steps, author=author, final=None)
    notes = (*_now(known), _left_behind(known, place))
    return Prepared(name, (), notes=notes, plan=plan, driver=RestDriver(connect, name, kafka))


def _left_behind(known: Connector, place: RestPlace) -> str:
    count = sum(pair.offset is not None for pair in place.pairs(known.name))
    if not count:
        return "it has no offsets that would stay behind"
    what = "1 offset stays" if count == 1 else f"{count} offsets stay"
    return (
        f"its {what} behind, and a connector of the same name would continue there; where that "
        f"is not wanted, `{connector_command('offsets reset', known.name)}` first"
    )


# --- what holds for all --------------------------------------------------------------------------


def state_of(connector: Connector) -> State:
    """What it was asked to be, as far as Connect tells: of one that failed or moves just now it
    does not, and nearly always that is to run.
    """
    match connector.state:
        case "paused":
            return State.PAUSED
        case "stopped":
            return State.STOPPED
    return State.RUNNING


def too_old(
    connect: Connect, needs: tuple[int, int] | None, *, found: Workers | None = None
) -> tuple[Problem, ...]:
    """Workers that do not know what is to be asked for, by their addresses: a leader of an older
    version would refuse it, or take STOPPED for PAUSED. One that gives no answer may be gone.
    """
    if needs is None:
        return ()
    asked = workers(connect) if found is None else found
    wanted = f"Kafka {needs[0]}.{needs[1]}"
    right = "upgrade it first"
    if needs == ALTERS:
        right += ", or stop every worker and go straight to the storage: --worker-config"
    problems = [
        Problem(
            connect.name,
            f"the worker at {url} has version {version}, and this needs {wanted}",
            right,
        )
        for url, version in asked.versions
        if (kafka_version(version) or needs) < needs
    ]
    if len(asked.cluster_ids) > 1:
        ids = ", ".join(sorted(asked.cluster_ids))
        problems.append(
            Problem(connect.name, f"its addresses lead to several Kafka clusters: {ids}", "")
        )
    return tuple(problems)


def unheard(found: Workers) -> tuple[str, ...]:
    """Workers that gave no answer: nobody knows their version, should they come back."""
    return tuple(
        f"the worker at {url} gives no answer ({why}), so its version is unknown"
        for url, why in found.silent
    )


def no_connector(place: RestPlace, name: str) -> Problem:
    """It is not there; what is."""
    names = place.connectors()
    meant = nearest(name, names)
    right = f"did you mean {meant}?" if meant else f"it has: {told(names) or 'none'}"
    right += body_hint(name)
    return Problem(name, f"Connect cluster {place.name} has no such connector", right)


def subject_of(place: RestPlace, known: Connector) -> Subject:
    """What is changed over REST."""
    kinds = {ConnectorKind.SINK: "sink", ConnectorKind.MIRROR: "mirror"}
    return Subject(
        driver="rest",
        place=place.name,
        connector=known.name,
        kind=kinds.get(known.kind, "source"),
        identity=place.identity(),
    )


def _problems(place: RestPlace, name: str, others: tuple[Problem, ...]) -> tuple[Problem, ...]:
    there = place.connector(name) is not None
    return others if there else (no_connector(place, name), *others)


def _plan(
    verb: str,
    place: RestPlace,
    known: Connector,
    steps: tuple[AnyStep, ...],
    *,
    author: Author,
    final: State | None,
) -> Plan:
    return Plan(
        plan_id=author.plan_id,
        verb=verb,
        subject=subject_of(place, known),
        steps=steps,
        original=state_of(known),
        final=final,
        created_at=Moment(author.at),
        created_by=author.by,
    )


def _now(known: Connector) -> tuple[str, ...]:
    tasks = " ".join(f"{task.number}:{task.state}" for task in known.tasks) or "none"
    return (f"{known.name}: {known.state}, tasks: {tasks}",)


def _hint(known: Connector) -> tuple[str, ...]:
    if "failed" not in {known.state, *(task.state for task in known.tasks)}:
        return ()
    restart = connector_command("connectors restart", known.name)
    return (f"what has failed is started by `{restart}`",)
