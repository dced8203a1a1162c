"""From a request to a plan that has been checked: the one way to every change of the toolbox.

Called by the command line, which shows what was prepared, has it confirmed and hands the plan to
remedy's runner. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from offsetwatch.errors import Refused
from offsetwatch.model.moments import Moment
from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Freeze,
    Frozen,
    Pair,
    Plan,
    Settle,
    State,
    Subject,
    ToState,
    Write,
)
from offsetwatch.toolbox.differences import Change, change, changes, directions
from offsetwatch.toolbox.store.reader import Place
from offsetwatch.toolbox.suggestions import nearest, told
from offsetwatch.toolbox.validation import (
    Facts,
    Problem,
    Request,
    named_partitions,
    notes,
    problems,
)

MOVES: Final = (
    "it is running: its present offsets move until it has stopped; the requested ones do not"
)
"""Of whatever is changed while it runs."""
Recheck = Callable[[Frozen], tuple[str, ...]]
"""Called by the runner once the connector has stopped: why the plan no longer holds, if it does
not."""


class Standing(NamedTuple):
    """What a connector is before it is changed.

    state   what it is to be again afterwards; None where there is nothing to be stopped
    notes   what is odd about that, a sentence each
    new     nothing here has its name yet: it may be misspelt
    blocked why a change is refused now, although the difference can be worked out
    """

    subject: Subject
    state: State | None
    notes: tuple[str, ...] = ()
    new: bool = False
    blocked: Problem | None = None


class Effect(NamedTuple):
    """The steps that make the change, and what a person should know of it."""

    steps: tuple[AnyStep, ...]
    notes: tuple[str, ...] = ()


class Way(Protocol):
    """One way to the connectors of one place: over REST, or straight to their storage. Every
    question may raise ClientError, and Refused where the answer is that it cannot be done.
    """

    @property
    def place(self) -> Place:
        """Where offsets are read."""

    def lock(self, connector: str) -> str:
        """As what the journal knows the place of this connector."""

    def standing(self, connector: str) -> Standing | Problem:
        """What it is now, or why it cannot be changed."""

    def facts(
        self, connector: str, present: tuple[Pair, ...], wanted: Collection[TopicPartition]
    ) -> Facts:
        """What its offsets are held against."""

    def effect(self, connector: str, pairs: tuple[Pair, ...], *, whole: bool) -> Effect:
        """How these pairs are set; `whole` if no offset at all is to be left."""

    def driver(self, connector: str) -> Driver:
        """Who carries a plan out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asks for.

    request     of a whole reset, its pairs are those that are there
    verb        in words, for the journal
    whole       no offset at all is to be left
    also        what is to be done once the offsets are as asked for, while it is still stopped
    """

    request: Request
    verb: str
    whole: bool = False
    also: tuple[AnyStep, ...] = ()


class Author(NamedTuple):
    """Whose plan it is, and since when: Unix seconds, the name the operating system knows."""

    plan_id: str
    at: float
    by: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """One connector's change, as far as it came.

    problems    why it cannot be: then there is no plan
    changes     what would be different afterwards, and nothing else: empty, there is nothing to do
    notes       what a person should know before saying yes, a sentence each
    """

    connector: str
    problems: tuple[Problem, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    driver: Driver | None = None
    recheck: Recheck | None = None


def prepare(way: Way, asked: Asked, author: Author) -> Prepared:
    """Look everything up that the change depends on, and check it; a plan if it can be carried
    out and changes anything.
    """
    name = asked.request.connector
    standing = way.standing(name)
    if isinstance(standing, Problem):
        return Prepared(name, (standing,))
    if standing.new and asked.whole:
        return Prepared(name, (_unheard_of(way, name),))
    present = way.place.pairs(name)
    request = asked.request
    if asked.whole:
        there = tuple(Pair(at.partition, None) for at in present if at.offset is not None)
        request = replace(request, pairs=there)
    facts = way.facts(name, present, named_partitions(request.pairs))
    wanted = changes(present, request.pairs, facts.class_name)
    said = (
        *standing.notes,
        *((str(_unheard_of(way, name)),) if standing.new else ()),
        *way.place.notes(name),
        *notes(request, facts),
        *directions(wanted),
    )
    found = problems(request, facts)
    if standing.blocked is not None:
        found = (standing.blocked, *found)
    effect = None if found else _effect(way, name, wanted, whole=asked.whole)
    if found or not (effect or asked.also):
        return Prepared(name, found, wanted, said)
    steps = asked.also
    if effect is not None:
        steps, said = (*effect.steps, *steps), (*said, *effect.notes)
    return Prepared(
        connector=name,
        problems=(),
        changes=wanted,
        notes=said,
        plan=_plan(standing, steps, asked, author),
        driver=way.driver(name),
        recheck=None if asked.whole else _recheck(way, request, wanted),
    )


def _unheard_of(way: Way, name: str) -> Problem:
    there = way.place.connectors()
    meant = nearest(name, there)
    right = f"did you mean {meant}?" if meant else f"it has: {told(there) or 'none'}"
    return Problem(name, f"nothing in {way.place.name} has this name", right)


def _effect(way: Way, name: str, wanted: tuple[Change, ...], *, whole: bool) -> Effect | None:
    """None where nothing would be different. Of a whole reset, what no task would be handed, as
    under a key in other bytes, goes as well where it can be reached.
    """
    if wanted:
        return way.effect(name, tuple(at.pair for at in wanted), whole=whole)
    if not whole:
        return None
    try:
        effect = way.effect(name, (), whole=True)
    except Refused:
        return None  # there is not even a topic
    left = any(isinstance(step, Write) and step.records for step in effect.steps)
    return effect if left else None


def _plan(standing: Standing, between: tuple[AnyStep, ...], asked: Asked, author: Author) -> Plan:
    """Stopped, and as it was again afterwards; what has no state, as it is."""
    steps: tuple[AnyStep, ...] = (Settle(), Freeze(), *between)
    if standing.state is not None:
        steps = (ToState(State.STOPPED), *steps)
    if standing.state not in (None, State.STOPPED):
        steps = (*steps, ToState(standing.state))
    return Plan(
        plan_id=author.plan_id,
        verb=asked.verb,
        subject=standing.subject,
        steps=steps,
        original=standing.state,
        final=standing.state,
        created_at=Moment(author.at),
        created_by=author.by,
    )


def _recheck(way: Way, request: Request, planned: tuple[Change, ...]) -> Recheck:
    """What was true while it ran need not be once it has stopped: it moved, and so did its logs."""

    def recheck(frozen: Frozen) -> tuple[str, ...]:
        facts = way.facts(request.connector, frozen.pairs, named_partitions(request.pairs))
        return (
            *(str(problem) for problem in problems(request, facts)),
            *_turned(planned, frozen.pairs),
        )

    return recheck


def _turned(planned: tuple[Change, ...], frozen: tuple[Pair, ...]) -> tuple[str, ...]:
    """Changes that go the other way by now: what was to skip records would repeat some."""
    have = {pair.partition: pair.offset for pair in frozen}
    found = []
    for was in planned:
        now = change(was.partition, have.get(was.partition), was.after)
        if {was.order, now.order} == {Order.AHEAD, Order.BEHIND}:
            found.append(
                f"{was.partition} has moved from {was.before} to {now.before} since: going to "
                f"{was.after} was a step {_way(was)} and would be one {_way(now)}"
            )
    return tuple(found)


def _way(at: Change) -> str:
    return "forward" if at.order is Order.AHEAD else "back"
