"""Where a group would land, at the edges of the log on the target."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import LogBounds
from offsetwatch.state.failover import (
    OWN_COMMIT,
    FailoverCost,
    GroupPosition,
    compute_failover_cost,
)
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from tests.changed import replace


def syncs(*pairs: tuple[int, int]) -> PartitionSyncs:
    built = PartitionSyncs()
    for upstream, downstream in pairs:
        built.read(upstream, downstream, live=True)
    return built


# A hundred records upstream, of which ten are not on the target any more.
HERE = LogBounds(0, 100, 100)
STANDING = GroupPosition(
    upstream=100,
    own=60,
    checkpoint=None,
    syncs=syncs((0, 0), (99, 99)),
    here=HERE,
    there=LogBounds(10, 100, 100),
    synced_before=True,
    landed_before=True,
)


def test_where_no_sync_was_read_nothing_is_known():
    assert compute_failover_cost(replace(STANDING, syncs=PartitionSyncs())) == FailoverCost()


@pytest.mark.parametrize(("end", "best"), [(100, 100), (99, None)])
def test_a_log_that_ends_at_its_newest_sync_was_cut(end, best):
    """The record of the sync lies at its offset, so the log ends after it at least."""
    assert compute_failover_cost(replace(STANDING, there=LogBounds(10, end, end))).best == best


@pytest.mark.parametrize(
    ("own", "reread"),
    [(9, None), (10, 90), (100, 0), (101, None)],
    ids=["before the start", "at the start", "at the end", "after the end"],
)
def test_a_consumer_can_start_at_either_end_of_a_log_and_nowhere_else(own, reread):
    position = replace(STANDING, own=own)
    assert position.landing_from == OWN_COMMIT
    at_the_end = replace(position, synced_before=False)
    assert compute_failover_cost(at_the_end).reread == reread
