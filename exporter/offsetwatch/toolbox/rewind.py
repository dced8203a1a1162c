"""Preparation of a connector's return to its offsets of an earlier moment.

The command line reads those offsets from the history tables. Pure, except for queries through the
store.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from offsetwatch.model.offsets import Order
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.change import (
    Author,
    Change,
    ConnectorChangeRequest,
    OffsetChangeKind,
    PreparedChange,
    prepare_change,
)
from offsetwatch.toolbox.mirror.copy_costs import (
    CopyCost,
    build_upstream_partition,
    compute_copy_cost,
    describe_costs,
    parse_mirror_pairs,
)
from offsetwatch.toolbox.mirror.flow_reset import FlowChange
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
    find_named_partitions,
)


def prepare_rewind(
    store: OffsetStore,
    request: OffsetsRequest,
    moment: str,
    author: Author,
    *,
    allow_skip: bool,
    watch_s: float = 0.0,
) -> FlowChange:
    """Prepare the change to the earlier offsets, and check it; for a mirror also its costs.

    `moment` is for users.
    """
    name, pairs = request.connector, request.pairs
    verb = f"set {name} back to {moment}"
    change = ConnectorChangeRequest(request=request, verb=verb, watch_s=watch_s)
    prepared = prepare_change(store, change, author)
    if prepared.problems:
        return FlowChange(prepared)
    ahead = () if allow_skip else find_forward_moves(prepared.changes)
    present = store.pairs(name)
    # The costs of removed offsets are counted from the start of their logs.
    removed = (build_upstream_partition(partition) for partition in parse_mirror_pairs(pairs))
    facts = store.gather_facts(name, present, find_named_partitions(pairs) | frozenset(removed))
    counts = compute_copy_costs(facts, present, prepared.changes)
    notes = (
        *prepared.notes,
        *describe_costs(counts),
    )
    if ahead:
        return FlowChange(PreparedChange(name, ahead, notes=notes), counts)
    return FlowChange(replace(prepared, notes=notes), counts)


def find_forward_moves(changes: Collection[Change]) -> tuple[ValidationProblem, ...]:
    """Return partitions whose earlier offset is ahead of the current one, as problems.

    A partition without an offset is at the beginning.
    """
    return tuple(
        ValidationProblem(
            where=change.partition,
            wrong=(
                f"it stood at {change.after} then, and "
                f"{'would start over' if change.before is None else f'stands at {change.before}'} "
                "now: what lies between would be left out, LOST downstream unless it is there "
                "already"
            ),
            right="say --allow-skip if it is",
        )
        for change in changes
        if change.order is Order.AHEAD or change.kind is OffsetChangeKind.ADDED
    )


def compute_copy_costs(
    facts: ValidationFacts, present: Collection[PartitionOffset], changes: Collection[Change]
) -> tuple[CopyCost, ...]:
    """Compute the costs in records of a mirror; empty for others."""
    if facts.mirror is None:
        return ()
    stored = parse_mirror_pairs(present)
    after = parse_mirror_pairs([change.pair for change in changes])
    return tuple(
        compute_copy_cost(
            facts.mirror,
            partition,
            facts.logs[build_upstream_partition(partition)],
            before=stored.get(partition),
            after=after[partition],
        )
        for partition in after
        if build_upstream_partition(partition) in facts.logs
    )
