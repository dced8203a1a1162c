"""How far syncs are believed beyond commits, from one moment to the next."""

from __future__ import annotations

import pytest

from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.mirror.offset_syncs import (
    LEAD_INTERVALS,
    PartitionProgress,
    SyncLeads,
    SyncRun,
)

ORDERS = TopicPartition("orders", 0)
INTERVAL_S = 60.0


def read(*steps: tuple[int, float]) -> SyncRun:
    """Return syncs read live: (upstream offset, when)."""
    run = SyncRun()
    before: int | None = None
    for offset, moment in steps:
        run.add(before, offset, moment)
        before = offset
    return run


@pytest.mark.parametrize(
    ("read_from", "replicated"),
    [(1000.0 - LEAD_INTERVALS * INTERVAL_S, 100), (1000.0 - INTERVAL_S, 900)],
    ids=["too-long", "a-flush"],
)
def test_syncs_that_were_not_known_to_be_the_flows_lead_since_the_first_of_them(
    read_from, replicated
):
    """Where nobody could tell that they are this flow's, another MirrorMaker may have written them
    for an hour; the newest was read a moment ago all the same.
    """
    leads = SyncLeads(INTERVAL_S)
    leads.progress(ORDERS, 90, None, None, 500.0)
    leads.progress(ORDERS, 100, None, None, 600.0)
    run = read((500, read_from), (900, 999.0))
    progress = leads.progress(ORDERS, 100, 900, run, 1000.0)
    assert progress == PartitionProgress(replicated, 900)
