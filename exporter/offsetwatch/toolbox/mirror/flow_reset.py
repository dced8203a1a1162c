"""A replication flow set back, or on: its partitions looked up, counted and checked, one plan for
each connector that copies it. Called by the command line; nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsetwatch.model.connectors import MirrorSettings
from offsetwatch.remedy.model.plan import DeleteTopic, Frozen
from offsetwatch.toolbox.change import Asked, Author, Prepared, Recheck, Way, prepare
from offsetwatch.toolbox.connector_facts import Kafkas, record_times
from offsetwatch.toolbox.mirror.copy_costs import Count, said, skips, turned
from offsetwatch.toolbox.mirror.flow_request import Chosen, Target, Wanted, choose, want
from offsetwatch.toolbox.validation import Facts, Problem, Request


@dataclass(frozen=True, slots=True)
class Clearing:
    """What clearing the topic of the offset syncs takes.

    step        None where it cannot be done, or there is nothing to be done
    """

    step: DeleteTopic | None
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks of a flow.

    flow        `A->B`, for people
    topics      only these, as they are called upstream; None for all
    alone       one connector copies the whole flow
    """

    flow: str
    to: Target
    topics: frozenset[str] | None = None
    allow_skip: bool = False
    allow_new: bool = False
    alone: bool = True


@dataclass(frozen=True, slots=True)
class FlowChange:
    """One connector's part: a change like any other, and what it costs in records."""

    prepared: Prepared
    counts: tuple[Count, ...] = ()


def prepare_flow(
    way: Way,
    connector: str,
    wish: Wish,
    author: Author,
    *,
    kafkas: Kafkas,
    upstream: str | None,
    clearing: Clearing | None = None,
) -> FlowChange:
    """Look everything up and check it. `upstream`: the cluster that the connector copies from."""
    present = way.place.pairs(connector)
    known = way.facts(connector, present, ())
    if known.mirror is None or known.topics is None or upstream is None:
        return FlowChange(Prepared(connector, (_blind(wish, known),)))
    chosen = choose(
        known.mirror,
        present,
        known.topics,
        wish.topics,
        complete=wish.to.complete,
        alone=wish.alone,
    )
    logs = way.facts(connector, present, chosen.upstream()).logs
    wanted = want(
        known.mirror,
        chosen,
        wish.to,
        logs,
        moments=kafkas.at(upstream).offsets_at,
        record_times=lambda starts: record_times(
            kafkas, upstream, starts, committed=_committed(known)
        ),
    )
    found = _refused(wish, chosen, wanted, clearing)
    notes = (*chosen.notes, *wanted.notes, *said(wanted.counts))
    if clearing is not None:
        notes = (*notes, *clearing.notes)
    elif known.mirror.syncs_topic is not None:
        kept = "are retained: MirrorMaker writes new ones as it copies"
        notes = (*notes, f"the offset syncs in {known.mirror.syncs_topic} {kept}")
    if found:
        return FlowChange(Prepared(connector, found, notes=notes), wanted.counts)
    prepared = prepare(way, _asked(connector, wish, wanted, clearing), author)
    return FlowChange(
        replace(
            prepared,
            notes=(*prepared.notes, *notes),
            recheck=_recheck(way, connector, wish, prepared.recheck, known.mirror, chosen, wanted),
        ),
        wanted.counts,
    )


def _committed(known: Facts) -> bool:
    return known.mirror is not None and known.mirror.read_committed


def _blind(wish: Wish, known: Facts) -> Problem:
    if known.mirror is None:
        return Problem(
            where=f"--flow {wish.flow}",
            wrong=f"the configuration of {known.connector} cannot be read",
            right="; ".join(known.unknown),
        )
    return Problem(
        where=f"--flow {wish.flow}",
        wrong="the logs that it copies from cannot be read",
        right="; ".join(known.unknown) or "name its source cluster under kafka",
    )


def _refused(
    wish: Wish, chosen: Chosen, wanted: Wanted, clearing: Clearing | None
) -> tuple[Problem, ...]:
    found = (*chosen.problems, *wanted.problems)
    if not wish.allow_skip:
        found = (*found, *skips(wanted.counts))
    return found if clearing is None else (*found, *clearing.problems)


def _asked(connector: str, wish: Wish, wanted: Wanted, clearing: Clearing | None) -> Asked:
    step = None if clearing is None else clearing.step
    return Asked(
        request=Request(
            connector=connector, pairs=wanted.pairs, where=wish.flow, allow_new=wish.allow_new
        ),
        verb=f"set the flow {wish.flow} {_to(wish.to)}" + (", clear its syncs" if step else ""),
        also=() if step is None else (step,),
    )


def _to(target: Target) -> str:
    if target.offset is not None:
        return f"to record {target.offset}"
    if target.at is not None:
        return f"to Unix second {target.at:g}"
    return "to the log starts" if target.by_s is None else f"by {target.by_s:g} s"


def _recheck(
    way: Way,
    connector: str,
    wish: Wish,
    before: Recheck | None,
    mirror: MirrorSettings,
    chosen: Chosen,
    wanted: Wanted,
) -> Recheck:
    whole = wish.to.complete and wish.topics is None

    def recheck(frozen: Frozen) -> tuple[str, ...]:
        logs = way.facts(connector, frozen.pairs, chosen.upstream()).logs
        now = turned(mirror, wanted.counts, frozen.pairs, wanted.pairs, logs, whole=whole)
        # What both would say is said once, in records.
        return now or (() if before is None else before(frozen))

    return recheck
