"""A connector set back to where it stood at a moment: what that means. Pure, but for the questions
it is given; which offsets those are, the command line has from the history tables.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import Pair
from offsetwatch.toolbox.change import Asked, Author, Prepared, Way, prepare
from offsetwatch.toolbox.differences import Change, Kind
from offsetwatch.toolbox.mirror.copy_costs import Count, count, said
from offsetwatch.toolbox.mirror.flow_reset import FlowChange
from offsetwatch.toolbox.mirror.pairs import mirrored, upstream
from offsetwatch.toolbox.validation import Facts, Problem, Request, named_partitions


def prepare_rewind(
    way: Way, request: Request, moment: str, author: Author, *, allow_skip: bool
) -> FlowChange:
    """The change that brings a connector back, checked like any other; of a mirror also what it
    costs in records. `moment` is for people.
    """
    name = request.connector
    asked = Asked(request=request, verb=f"set {name} back to {moment}")
    prepared = prepare(way, asked, author)
    if prepared.problems:
        return FlowChange(prepared)
    ahead = () if allow_skip else forward(prepared.changes)
    present = way.place.pairs(name)
    facts = way.facts(name, present, _partitions(request.pairs))
    counts = counted(facts, present, prepared.changes)
    notes = (*prepared.notes, *doubts(prepared.changes), *said(counts))
    if ahead:
        return FlowChange(Prepared(name, ahead, notes=notes), counts)
    return FlowChange(replace(prepared, notes=notes), counts)


def forward(changes: Collection[Change]) -> tuple[Problem, ...]:
    """Partitions that stood further ahead at that moment than they do now: that is no way back.
    One without an offset stands at the beginning.
    """
    return tuple(
        Problem(
            where=at.partition,
            wrong=f"it stood at {at.after} then, and {_stands(at)} now: what lies between would be "
            "left out, LOST downstream unless it is there already",
            right="say --allow-skip if it is",
        )
        for at in changes
        if at.order is Order.AHEAD or at.kind is Kind.ADDED
    )


def _stands(at: Change) -> str:
    return "would start over" if at.before is None else f"stands at {at.before}"


def doubts(changes: Collection[Change]) -> tuple[str, ...]:
    """That some partitions may not go back at all."""
    count_of = sum(
        at.kind is Kind.CHANGED and at.order in {None, Order.UNORDERED} for at in changes
    )
    said_of = f"it is unknown whether {count_of} source partition(s) go back or forward"
    return (f"{said_of}: their connector has no known order of offsets",) if count_of else ()


def counted(
    facts: Facts, present: Collection[Pair], changes: Collection[Change]
) -> tuple[Count, ...]:
    """What it means in records, of a mirror; nothing of others."""
    if facts.mirror is None:
        return ()
    stored = mirrored(present)
    after = mirrored([at.pair for at in changes])
    return tuple(
        count(facts.mirror, at, facts.logs[upstream(at)], before=stored.get(at), after=after[at])
        for at in after
        if upstream(at) in facts.logs
    )


def _partitions(pairs: tuple[Pair, ...]) -> frozenset[TopicPartition]:
    """Those of offsets to be removed as well: they are counted from the start of their logs."""
    return named_partitions(pairs) | frozenset(upstream(at) for at in mirrored(pairs))
