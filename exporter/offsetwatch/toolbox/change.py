"""From a request to a plan that has been checked: the one way to every change of the toolbox.

Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.moments import Moment
from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanSubject,
    RequestedState,
    Settle,
    ToState,
    Write,
)
from offsetwatch.toolbox.differences import (
    Change,
    compute_change,
    compute_changes,
    describe_directions,
)
from offsetwatch.toolbox.store.reader import OffsetReader
from offsetwatch.toolbox.suggestions import find_nearest, format_names
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
)

MOVING_OFFSETS_NOTE: Final = (
    "it is running: its present offsets move until it has stopped; the requested ones do not"
)
"""Of whatever is changed while it runs."""
Recheck = Callable[[FrozenOffsets], tuple[str, ...]]
"""Called by the runner once the connector has stopped: why the plan no longer holds, if it does
not."""


class StateBeforeChange(NamedTuple):
    """What a connector is before it is changed.

    state   what it is to be again afterwards; None where there is nothing to be stopped
    notes   what is odd about that, a sentence each
    new     nothing here has its name yet: it may be misspelt
    blocked why a change is refused now, although the difference can be worked out
    """

    subject: PlanSubject
    state: RequestedState | None
    notes: tuple[str, ...] = ()
    new: bool = False
    blocked: ValidationProblem | None = None


class ChangeSteps(NamedTuple):
    """The steps that make the change, and what a person should know of it."""

    steps: tuple[AnyStep, ...]
    notes: tuple[str, ...] = ()


class OffsetStore(Protocol):
    """One way to the connectors of one place: over REST, or straight to their storage. Every
    question may raise ClientError, and RemoteRefusal where the answer is that it cannot be done.
    """

    @property
    def place(self) -> OffsetReader:
        """Where offsets are read."""

    def lock(self, connector: str) -> str:
        """As what the journal knows the place of this connector."""

    def standing(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """What it is now, or why it cannot be changed."""

    def facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        wanted: Collection[TopicPartition],
    ) -> ValidationFacts:
        """What its offsets are held against."""

    def effect(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """How these pairs are set; `whole` if no offset at all is to be left."""

    def driver(self, connector: str) -> Driver:
        """Who carries a plan out."""


@dataclass(frozen=True, slots=True)
class ConnectorChangeRequest:
    """What a person asks for.

    request     of a whole reset, its pairs are those that are there
    verb        in words, for the journal
    whole       no offset at all is to be left
    also        what is to be done once the offsets are as asked for, while it is still stopped
    """

    request: OffsetsRequest
    verb: str
    whole: bool = False
    also: tuple[AnyStep, ...] = ()


class Author(NamedTuple):
    """Whose plan it is, and since when: Unix seconds, the name the operating system knows."""

    plan_id: str
    at: float
    by: str


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """One connector's change, as far as it came.

    problems    why it cannot be: then there is no plan
    changes     what would be different afterwards, and nothing else: empty, there is nothing to do
    notes       what a person should know before saying yes, a sentence each
    """

    connector: str
    problems: tuple[ValidationProblem, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    driver: Driver | None = None
    recheck: Recheck | None = None


def prepare_change(
    store: OffsetStore, asked: ConnectorChangeRequest, author: Author
) -> PreparedChange:
    """Look everything up that the change depends on, and check it; a plan if it can be carried
    out and changes anything.
    """
    name = asked.request.connector
    standing = store.standing(name)
    if isinstance(standing, ValidationProblem):
        return PreparedChange(name, (standing,))
    if standing.new and asked.whole:
        return PreparedChange(name, (_report_unknown_connector(store, name),))
    present = store.place.pairs(name)
    request = asked.request
    if asked.whole:
        there = tuple(
            PartitionOffset(pair.partition, None) for pair in present if pair.offset is not None
        )
        request = replace(request, pairs=there)
    facts = store.facts(name, present, find_named_partitions(request.pairs))
    wanted = compute_changes(present, request.pairs, facts.class_name)
    said = (
        *standing.notes,
        *((str(_report_unknown_connector(store, name)),) if standing.new else ()),
        *store.place.notes(name),
        *collect_notes(request, facts),
        *describe_directions(wanted),
    )
    found = find_problems(request, facts)
    if standing.blocked is not None:
        found = (standing.blocked, *found)
    effect = None if found else _build_change_steps(store, name, wanted, whole=asked.whole)
    if found or not (effect or asked.also):
        return PreparedChange(name, found, wanted, said)
    steps = asked.also
    if effect is not None:
        steps, said = (*effect.steps, *steps), (*said, *effect.notes)
    return PreparedChange(
        connector=name,
        problems=(),
        changes=wanted,
        notes=said,
        plan=_build_plan(standing, steps, asked, author),
        driver=store.driver(name),
        recheck=None if asked.whole else _build_recheck(store, request, wanted),
    )


def _report_unknown_connector(store: OffsetStore, name: str) -> ValidationProblem:
    there = store.place.connectors()
    meant = find_nearest(name, there)
    right = f"did you mean {meant}?" if meant else f"it has: {format_names(there) or 'none'}"
    return ValidationProblem(name, f"nothing in {store.place.name} has this name", right)


def _build_change_steps(
    store: OffsetStore, name: str, wanted: tuple[Change, ...], *, whole: bool
) -> ChangeSteps | None:
    """None where nothing would be different. Of a whole reset, what no task would be handed, as
    under a key in other bytes, goes as well where it can be reached.
    """
    if wanted:
        return store.effect(name, tuple(change.pair for change in wanted), whole=whole)
    if not whole:
        return None
    try:
        effect = store.effect(name, (), whole=True)
    except RemoteRefusal:
        return None  # there is not even a topic
    left = any(isinstance(step, Write) and step.records for step in effect.steps)
    return effect if left else None


def _build_plan(
    state_before_change: StateBeforeChange,
    between: tuple[AnyStep, ...],
    request: ConnectorChangeRequest,
    author: Author,
) -> Plan:
    """Stopped, and as it was again afterwards; what has no state, as it is."""
    steps: tuple[AnyStep, ...] = (Settle(), Freeze(), *between)
    if state_before_change.state is not None:
        steps = (ToState(RequestedState.STOPPED), *steps)
    if state_before_change.state not in (None, RequestedState.STOPPED):
        steps = (*steps, ToState(state_before_change.state))
    return Plan(
        plan_id=author.plan_id,
        verb=request.verb,
        subject=state_before_change.subject,
        steps=steps,
        original=state_before_change.state,
        final=state_before_change.state,
        created_at=Moment(author.at),
        created_by=author.by,
    )


def _build_recheck(
    store: OffsetStore, request: OffsetsRequest, planned: tuple[Change, ...]
) -> Recheck:
    """What was true while it ran need not be once it has stopped: it moved, and so did its logs."""

    def recheck(frozen: FrozenOffsets) -> tuple[str, ...]:
        facts = store.facts(request.connector, frozen.pairs, find_named_partitions(request.pairs))
        return (
            *(str(problem) for problem in find_problems(request, facts)),
            *_find_reversed_changes(planned, frozen.pairs),
        )

    return recheck


def _find_reversed_changes(
    planned: tuple[Change, ...], frozen: tuple[PartitionOffset, ...]
) -> tuple[str, ...]:
    """Changes that go the other way by now: what was to skip records would repeat some."""
    have = {pair.partition: pair.offset for pair in frozen}
    found = []
    for was in planned:
        now = compute_change(was.partition, have.get(was.partition), was.after)
        if {was.order, now.order} == {Order.AHEAD, Order.BEHIND}:
            found.append(
                f"{was.partition} has moved from {was.before} to {now.before} since: going to "
                f"{was.after} was a step {_describe_direction(was)} and would be one "
                f"{_describe_direction(now)}"
            )
    return tuple(found)


def _describe_direction(change: Change) -> str:
    return "forward" if change.order is Order.AHEAD else "back"
