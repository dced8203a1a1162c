"""Changes of offsets: what a request would change, and the checked plan for it.

Nothing here changes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from offsetwatch.decode.dialects import (
    DEBEZIUM_POSTGRES,
    compare_offsets,
    find_dialect,
    read_position,
)
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.errors import RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.model.moments import Moment
from offsetwatch.model.offsets import Order, SourceOffset
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
    Watch,
    Write,
)
from offsetwatch.toolbox.offset_shapes import SINK, parse_fields
from offsetwatch.toolbox.store.offset_store import ChangeSteps, OffsetStore
from offsetwatch.toolbox.suggestions import suggest_name
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    UnknownConnector,
    ValidationFacts,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
    list_source_partitions,
)


class OffsetChangeKind(StrEnum):
    """The kind of change of one partition's offset."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """A partition whose current and requested offsets differ.

    before, after   JSON, or None for none
    key             as in PartitionOffset
    order           of `after` against `before`, where the connector has an order and both exist
    distance        from `before` to `after`, where the position is one number
    dialect         of the connector's offsets; "" for a sink
    """

    partition: str
    before: str | None
    after: str | None
    order: Order | None = None
    key: str | None = None
    distance: int | None = None
    dialect: str = ""

    @property
    def kind(self) -> OffsetChangeKind:
        """The kind of change, by which of `before` and `after` exist."""
        if self.before is None:
            return OffsetChangeKind.ADDED
        return OffsetChangeKind.REMOVED if self.after is None else OffsetChangeKind.CHANGED

    @property
    def pair(self) -> PartitionOffset:
        """The requested offset as a pair."""
        return PartitionOffset(self.partition, self.after, self.key)


def compute_changes(
    now: tuple[PartitionOffset, ...], requested: tuple[PartitionOffset, ...], class_name: str = ""
) -> tuple[Change, ...]:
    """Return what a request would change, in its order; partitions that it does not name stay.

    `class_name` is the connector's, where it is known: it determines the meaning of its offsets.
    Numbers are compared with their types: 5 and 5.0 differ to a connector.
    """
    have = {pair.partition: pair.offset for pair in now}
    return tuple(
        compute_change(
            pair.partition, have.get(pair.partition), pair.offset, pair.key, class_name=class_name
        )
        for pair in requested
        if have.get(pair.partition) != pair.offset
    )


def compute_differences(
    now: tuple[PartitionOffset, ...], requested: tuple[PartitionOffset, ...], class_name: str = ""
) -> tuple[Change, ...]:
    """Return all differences, sorted, including partitions that only `now` has.

    `class_name` is as in compute_changes.
    """
    named = {pair.partition for pair in requested}
    gone = (PartitionOffset(pair.partition, None) for pair in now if pair.partition not in named)
    changes = compute_changes(now, (*requested, *gone), class_name)
    return tuple(sorted(changes, key=lambda change: change.partition))


def describe_directions(changes: tuple[Change, ...]) -> tuple[str, ...]:
    """Describe the effect of moving forward or back, or that the direction is unknown."""
    counted = Counter(_describe_direction(change) for change in changes)
    return tuple(
        words.format(
            partitions_go=format_count(counted[words], "partition goes", "partitions go"),
            partitions=format_count(counted[words], "source partition"),
        )
        for words in _DIRECTIONS
        if counted[words]
    )


_FORWARD: Final = "{partitions_go} forward: the records in between are skipped for good"
_BACK: Final = "{partitions_go} back: the records in between are processed again"
_BACK_BY_SLOT: Final = (
    "{partitions_go} back: a replication slot never goes back behind what it has confirmed, so "
    "only what lies after that is processed again"
)
_UNKNOWN_DIRECTION: Final = (
    "the direction of {partitions} is unknown: their connector has no known order of offsets"
)
_DIRECTIONS: Final = (_FORWARD, _BACK, _BACK_BY_SLOT, _UNKNOWN_DIRECTION)


def _describe_direction(change: Change) -> str | None:
    """Return the words for one change; None for one that has no direction."""
    if change.order is Order.AHEAD:
        return _FORWARD
    if change.order is Order.BEHIND:
        return _BACK_BY_SLOT if change.dialect == DEBEZIUM_POSTGRES.name else _BACK
    return _UNKNOWN_DIRECTION if change.kind is OffsetChangeKind.CHANGED else None


def compute_change(
    partition: str,
    before: str | None,
    after: str | None,
    key: str | None = None,
    *,
    class_name: str = "",
) -> Change:
    """Build one partition's change, with its order and distance where they are known."""
    if before is None or after is None:
        return Change(partition, before, after, key=key)
    fields = parse_fields(partition)
    if fields is not None and fields.keys() == SINK.partition.keys():
        was, now = (_parse_sink_offset(text) for text in (before, after))
        dialect, order = "", Order.UNORDERED
        if was is not None and now is not None and was != now:
            order = Order.AHEAD if now > was else Order.BEHIND
    else:
        dialect = find_dialect(fields, class_name)
        old, new = (_parse_offset(text) for text in (before, after))
        order = compare_offsets(dialect, old, new)
        was, now = (read_position(dialect, offset) for offset in (old, new))
    distance = None if was is None or now is None else now - was
    return Change(
        partition, before, after, order=order, key=key, distance=distance, dialect=dialect
    )


def _parse_sink_offset(text: str) -> int | None:
    number = (parse_fields(text) or {}).get(SINK.position)
    return number if isinstance(number, int) else None


def _parse_offset(text: str) -> SourceOffset | None:
    offset = decode_value(text.encode())
    return offset if isinstance(offset, SourceOffset) else None


Recheck = Callable[[FrozenOffsets], tuple[str, ...]]
"""Called by the runner after the connector has stopped; returns why the plan no longer holds."""


@dataclass(frozen=True, slots=True)
class ConnectorChangeRequest:
    """A requested change of one connector.

    request     for a whole reset, its pairs are the existing ones
    verb        in words, for the journal
    whole       no offset may remain
    also        steps after the offsets are set, while the connector is still stopped
    watch_s     how long its tasks have to run afterwards without a failure, where that can be seen
    """

    request: OffsetsRequest
    verb: str
    whole: bool = False
    also: tuple[AnyStep, ...] = ()
    watch_s: float = 0.0


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
    store: OffsetStore, change: ConnectorChangeRequest, author: Author
) -> PreparedChange:
    """Read and check everything that the change depends on.

    The result has a plan if the change is possible and makes a difference.
    """
    name, request = change.request.connector, change.request
    state = store.read_state(name)
    if isinstance(state, ValidationProblem):
        return PreparedChange(name, (state,))
    unknown: tuple[ValidationProblem, ...] = ()
    if state.new:
        right = suggest_name(name, store.connectors())
        unknown = (UnknownConnector(name, f"nothing in {store.name} has this name", right),)
    if unknown and change.whole:
        return PreparedChange(name, unknown)
    present = store.pairs(name)
    if change.whole:
        there = tuple(
            PartitionOffset(pair.partition, None) for pair in present if pair.offset is not None
        )
        request = replace(request, pairs=there)
    facts = _gather_facts(store, request, present)
    changes = compute_changes(present, request.pairs, facts.class_name)
    notes = (
        *state.notes,
        *map(str, unknown),
        *store.notes(name),
        *collect_notes(request, facts),
        *describe_directions(changes),
    )
    problems = find_problems(request, facts)
    if state.blocked is not None:
        problems = (state.blocked, *problems)
    planned = None if problems else _build_change_steps(store, name, changes, whole=change.whole)
    if problems or not (planned or change.also):
        return PreparedChange(name, problems, changes, notes)
    steps: tuple[AnyStep, ...] = (Settle(), Freeze())
    if planned is not None:
        steps, notes = (*steps, *planned.steps), (*notes, *planned.notes)
    steps = (*steps, *change.also)
    original = state.state
    if original is not None:
        steps = (ToState(RequestedState.STOPPED), *steps)
        if original is not RequestedState.STOPPED:
            steps = (*steps, ToState(original))
        if original is RequestedState.RUNNING and change.watch_s > 0 and store.can_watch:
            steps = (*steps, Watch(change.watch_s))
    return PreparedChange(
        connector=name,
        problems=(),
        changes=changes,
        notes=notes,
        plan=build_plan(
            change.verb, state.subject, steps, author, original=original, final=original
        ),
        driver=store.driver(name),
        recheck=None if change.whole else partial(_recheck_change, store, request, changes),
    )


def _build_change_steps(
    store: OffsetStore, name: str, changes: tuple[Change, ...], *, whole: bool
) -> ChangeSteps | None:
    """Return the steps; None if nothing would differ.

    A whole reset also removes offsets that no task would receive, as under a key in other bytes,
    where they can be reached.
    """
    if changes:
        return store.plan_steps(name, tuple(change.pair for change in changes), whole=whole)
    if not whole:
        return None
    try:
        planned = store.plan_steps(name, (), whole=True)
    except RemoteRefusal:
        return None  # there is not even a topic
    writes = any(isinstance(step, Write) and step.records for step in planned.steps)
    return planned if writes else None


def build_plan(
    verb: str,
    subject: PlanSubject,
    steps: tuple[AnyStep, ...],
    author: Author,
    *,
    original: RequestedState | None,
    final: RequestedState | None,
) -> Plan:
    """Build a plan of a person at the command line."""
    return Plan(
        plan_id=author.plan_id,
        verb=verb,
        subject=subject,
        steps=steps,
        original=original,
        final=final,
        created_at=Moment(author.at),
        created_by=author.by,
    )


def _recheck_change(
    store: OffsetStore,
    request: OffsetsRequest,
    planned: tuple[Change, ...],
    frozen: FrozenOffsets,
) -> tuple[str, ...]:
    """Check again after the stop: offsets and logs may have advanced until then."""
    facts = _gather_facts(store, request, frozen.pairs)
    return (
        *(str(problem) for problem in find_problems(request, facts)),
        *_find_reversed_changes(planned, frozen.pairs),
    )


def _gather_facts(
    store: OffsetStore, request: OffsetsRequest, present: tuple[PartitionOffset, ...]
) -> ValidationFacts:
    return store.gather_facts(
        request.connector,
        present,
        find_named_partitions(request.pairs),
        source_partitions=list_source_partitions(request.pairs),
    )


def _find_reversed_changes(
    planned: tuple[Change, ...], frozen: tuple[PartitionOffset, ...]
) -> Iterator[str]:
    """Describe changes whose direction has reversed: a planned skip would repeat records."""
    have = {pair.partition: pair.offset for pair in frozen}
    directions = {Order.AHEAD: "forward", Order.BEHIND: "back"}
    for was in planned:
        now = compute_change(was.partition, have.get(was.partition), was.after)
        if was.order in directions and now.order in directions and was.order is not now.order:
            yield (
                f"{was.partition} has moved from {was.before} to {now.before} since: going to "
                f"{was.after} was a step {directions[was.order]} and would be one "
                f"{directions[now.order]}"
            )
