"""Preparation of every change of the toolbox: from a request to a checked plan.

Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.moments import Moment
from offsetwatch.model.offsets import Order
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    Plan,
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
from offsetwatch.toolbox.store.offset_store import ChangeSteps, OffsetStore, StateBeforeChange
from offsetwatch.toolbox.suggestions import suggest_name
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
)

Recheck = Callable[[FrozenOffsets], tuple[str, ...]]
"""Called by the runner after the connector has stopped; returns why the plan no longer holds."""


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
    state_before = store.read_state(name)
    if isinstance(state_before, ValidationProblem):
        return PreparedChange(name, (state_before,))
    if state_before.new and asked.whole:
        return PreparedChange(name, (_report_unknown_connector(store, name),))
    present = store.pairs(name)
    request = asked.request
    if asked.whole:
        there = tuple(
            PartitionOffset(pair.partition, None) for pair in present if pair.offset is not None
        )
        request = replace(request, pairs=there)
    facts = store.gather_facts(name, present, find_named_partitions(request.pairs))
    wanted = compute_changes(present, request.pairs, facts.class_name)
    said = (
        *state_before.notes,
        *((str(_report_unknown_connector(store, name)),) if state_before.new else ()),
        *store.notes(name),
        *collect_notes(request, facts),
        *describe_directions(wanted),
    )
    found = find_problems(request, facts)
    if state_before.blocked is not None:
        found = (state_before.blocked, *found)
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
        plan=_build_plan(state_before, steps, asked, author),
        driver=store.driver(name),
        recheck=None if asked.whole else _build_recheck(store, request, wanted),
    )


def _report_unknown_connector(store: OffsetStore, name: str) -> ValidationProblem:
    right = suggest_name(name, store.connectors())
    return ValidationProblem(name, f"nothing in {store.name} has this name", right)


def _build_change_steps(
    store: OffsetStore, name: str, wanted: tuple[Change, ...], *, whole: bool
) -> ChangeSteps | None:
    """Return the steps; None if nothing would differ.

    A whole reset also removes offsets that no task would receive, as under a key in other bytes,
    where they can be reached.
    """
    if wanted:
        return store.plan_steps(name, tuple(change.pair for change in wanted), whole=whole)
    if not whole:
        return None
    try:
        effect = store.plan_steps(name, (), whole=True)
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
        facts = store.gather_facts(
            request.connector, frozen.pairs, find_named_partitions(request.pairs)
        )
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
