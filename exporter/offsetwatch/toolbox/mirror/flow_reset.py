"""Preparation of a replication flow's reset: its connectors' plans, with costs in records.

Partitions are read, counted and checked; each connector that copies the flow gets one plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsetwatch.model.connectors import MirrorSettings
from offsetwatch.remedy.model.plan import DeleteTopic, FrozenOffsets
from offsetwatch.toolbox.change import (
    Author,
    ConnectorChangeRequest,
    PreparedChange,
    Recheck,
    prepare_change,
)
from offsetwatch.toolbox.connector_facts import read_record_times
from offsetwatch.toolbox.mirror.copy_costs import (
    CopyCost,
    describe_costs,
    find_skips,
    recheck_costs,
)
from offsetwatch.toolbox.mirror.flow_request import (
    FlowOffsets,
    FlowResetTarget,
    PartitionSelection,
    compute_flow_offsets,
    select_partitions,
)
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.validation import OffsetsRequest, ValidationFacts, ValidationProblem


@dataclass(frozen=True, slots=True)
class SyncTopicDeletion:
    """The deletion of the offset-syncs topic.

    step        None where it cannot be done, or nothing is to be deleted
    """

    step: DeleteTopic | None
    notes: tuple[str, ...] = ()
    problems: tuple[ValidationProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowResetRequest:
    """A request to reset a flow.

    flow        `A->B`, for users
    topics      only these, by their upstream names; None for all
    alone       one connector copies the whole flow
    """

    flow: str
    to: FlowResetTarget
    topics: frozenset[str] | None = None
    allow_skip: bool = False
    allow_new: bool = False
    alone: bool = True


@dataclass(frozen=True, slots=True)
class FlowChange:
    """The prepared change of one connector of a flow, and its costs in records."""

    prepared: PreparedChange
    counts: tuple[CopyCost, ...] = ()


def prepare_flow_reset(
    store: OffsetStore,
    connector: str,
    wish: FlowResetRequest,
    author: Author,
    *,
    clearing: SyncTopicDeletion | None = None,
) -> FlowChange:
    """Prepare and check the reset."""
    upstream = store.upstream(connector)
    present = store.pairs(connector)
    known = store.gather_facts(connector, present, ())
    if known.mirror is None or known.topics is None or upstream is None:
        return FlowChange(PreparedChange(connector, (_report_unreadable_flow(wish, known),)))
    chosen = select_partitions(
        known.mirror,
        present,
        known.topics,
        wish.topics,
        complete=wish.to.complete,
        alone=wish.alone,
    )
    logs = store.gather_facts(connector, present, chosen.upstream()).logs
    offsets = compute_flow_offsets(
        known.mirror,
        chosen,
        wish.to,
        logs,
        moments=store.kafkas.at(upstream).offsets_at,
        record_times=lambda starts: read_record_times(
            store.kafkas, upstream, starts, committed=_is_read_committed(known)
        ),
    )
    found = _collect_problems(wish, chosen, offsets, clearing)
    notes = (*chosen.notes, *offsets.notes, *describe_costs(offsets.counts))
    if clearing is not None:
        notes = (*notes, *clearing.notes)
    elif known.mirror.syncs_topic is not None:
        kept = "are retained: MirrorMaker writes new ones as it copies"
        notes = (*notes, f"the offset syncs in {known.mirror.syncs_topic} {kept}")
    if found:
        return FlowChange(PreparedChange(connector, found, notes=notes), offsets.counts)
    prepared = prepare_change(
        store, _build_change_request(connector, wish, offsets, clearing), author
    )
    return FlowChange(
        replace(
            prepared,
            notes=(*prepared.notes, *notes),
            recheck=_build_recheck(
                store, connector, wish, prepared.recheck, known.mirror, chosen, offsets
            ),
        ),
        offsets.counts,
    )


def _is_read_committed(known: ValidationFacts) -> bool:
    return known.mirror is not None and known.mirror.read_committed


def _report_unreadable_flow(wish: FlowResetRequest, known: ValidationFacts) -> ValidationProblem:
    if known.mirror is None:
        return ValidationProblem(
            where=f"--flow {wish.flow}",
            wrong=f"the configuration of {known.connector} cannot be read",
            right="; ".join(known.unknown),
        )
    return ValidationProblem(
        where=f"--flow {wish.flow}",
        wrong="the logs that it copies from cannot be read",
        right="; ".join(known.unknown) or "name its source cluster under kafka",
    )


def _collect_problems(
    wish: FlowResetRequest,
    chosen: PartitionSelection,
    offsets: FlowOffsets,
    clearing: SyncTopicDeletion | None,
) -> tuple[ValidationProblem, ...]:
    found = (*chosen.problems, *offsets.problems)
    if not wish.allow_skip:
        found = (*found, *find_skips(offsets.counts))
    return found if clearing is None else (*found, *clearing.problems)


def _build_change_request(
    connector: str, wish: FlowResetRequest, offsets: FlowOffsets, clearing: SyncTopicDeletion | None
) -> ConnectorChangeRequest:
    step = None if clearing is None else clearing.step
    return ConnectorChangeRequest(
        request=OffsetsRequest(
            connector=connector, pairs=offsets.pairs, where=wish.flow, allow_new=wish.allow_new
        ),
        verb=f"set the flow {wish.flow} {_describe_target(wish.to)}"
        + (", clear its syncs" if step else ""),
        also=() if step is None else (step,),
    )


def _describe_target(target: FlowResetTarget) -> str:
    if target.offset is not None:
        return f"to record {target.offset}"
    if target.at is not None:
        return f"to Unix second {target.at:g}"
    return "to the log starts" if target.by_s is None else f"by {target.by_s:g} s"


def _build_recheck(
    store: OffsetStore,
    connector: str,
    wish: FlowResetRequest,
    before: Recheck | None,
    mirror: MirrorSettings,
    chosen: PartitionSelection,
    offsets: FlowOffsets,
) -> Recheck:
    whole = wish.to.complete and wish.topics is None

    def recheck(frozen: FrozenOffsets) -> tuple[str, ...]:
        logs = store.gather_facts(connector, frozen.pairs, chosen.upstream()).logs
        now = recheck_costs(mirror, offsets.counts, frozen.pairs, offsets.pairs, logs, whole=whole)
        # What both would say is said once, in records.
        return now or (() if before is None else before(frozen))

    return recheck
