"""Preparation of every change of the toolbox: from a request to a checked plan.

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
"""The note about anything that is changed while the connector runs."""
Recheck = Callable[[FrozenOffsets], tuple[str, ...]]
"""Called by the runner after the connector has stopped; returns why the plan no longer holds."""


class StateBeforeChange(NamedTuple):
    """The state of a connector before a change.

    state   restored afterwards; None where there is nothing to stop
    notes   unusual facts about the state, a sentence each
    new     no connector here has its name yet: it may be misspelt
    blocked why a change is refused now, although the difference can be computed
    """

    subject: PlanSubject
    state: RequestedState | None
    notes: tuple[str, ...] = ()
    new: bool = False
    blocked: ValidationProblem | None = None


class ChangeSteps(NamedTuple):
    """The steps that make the change, and notes about it for the user."""

    steps: tuple[AnyStep, ...]
    notes: tuple[str, ...] = ()


class OffsetStore(Protocol):
    """Access to the connectors of a cluster over REST, through Strimzi, or in their storage.

    Every query may raise ClientError, and RemoteRefusal where the query is not supported.
    """

    @property
    def place(self) -> OffsetReader:
        """The reader of the current offsets."""

    def lock(self, connector: str) -> str:
        """Return the name in the journal of this connector's cluster or storage."""

    def standing(self, connector: str) -> StateBeforeChange | ValidationProblem:
        """Return the connector's state, or why it cannot be changed."""

    def facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        wanted: Collection[TopicPartition],
    ) -> ValidationFacts:
        """Gather the facts for checking its offsets."""

    def effect(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        """Return the steps that set these pairs; `whole` if no offset may remain."""

    def driver(self, connector: str) -> Driver:
        """Build the driver that executes a plan."""


@dataclass(frozen=True, slots=True)
class ConnectorChangeRequest:
    """A requested change of one connector.

    request     for a whole reset, its pairs are the existing ones
    verb        in words, for the journal
    whole       no offset may remain
    also        steps after the offsets are set, while the connector is still stopped
    """

    request: OffsetsRequest
    verb: str
    whole: bool = False
    also: tuple[AnyStep, ...] = ()


class Author(NamedTuple):
    """The plan's id, its time in Unix seconds, and its author's operating system user name."""

    plan_id: str
    at: float
    by: str


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A prepared change of one connector.

    problems    why it is not possible: then there is no plan
    changes     every difference that it makes: if empty, nothing needs to change
    notes       for the user to read before confirming, a sentence each
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
    """Read and check everything that the change depends on.

    The result has a plan if the change is possible and makes a difference.
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
    """Return the steps; None if nothing would differ.

    A whole reset also removes offsets that no task would receive, as under a key in other bytes,
    where they can be reached.
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
    """Build a plan that stops the connector and restores its state, if it has a state."""
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
    """Build the check to run after the stop: offsets and logs may have advanced until then."""

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
    """Describe changes whose direction has reversed: a planned skip would repeat records."""
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
