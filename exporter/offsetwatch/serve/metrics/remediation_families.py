"""Snapshot -> the metric families of guarded remediation, for families.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.model.remediation import FOLLOWER_MODE
from offsetwatch.serve.metrics import catalog_remediation as catalog
from offsetwatch.serve.metrics.series_table import Family, build_family
from offsetwatch.state.snapshot import Snapshot

MODES: Final = ("observe", "propose", "auto")


def collect_remediation(snapshot: Snapshot) -> Iterator[Family]:
    """Yield what remediation did and holds; nothing of that where it does not run."""
    yield from _collect_replica(snapshot)
    remediation_reported = snapshot.remedies
    if remediation_reported is None:
        return
    if remediation_reported.mode != FOLLOWER_MODE:
        yield build_family(
            catalog.REMEDIATION_MODE,
            [(mode,) for mode in MODES],
            [int(mode == remediation_reported.mode) for mode in MODES],
        )
    yield build_family(
        catalog.REMEDIATION_PLANS,
        [(state,) for state, _ in remediation_reported.plans],
        [count for _, count in remediation_reported.plans],
    )
    yield build_family(
        catalog.REMEDIATION_ACTIONS,
        [row[:4] for row in remediation_reported.actions],
        [row[4] for row in remediation_reported.actions],
    )
    yield build_family(
        catalog.REMEDIATION_BLOCKED,
        [row[:4] for row in remediation_reported.blocked],
        [row[4] for row in remediation_reported.blocked],
    )
    yield build_family(
        catalog.REMEDIATION_STOPPED_SINCE,
        [(connect, connector) for connect, connector, _ in remediation_reported.stopped_by_us],
        [since for _, _, since in remediation_reported.stopped_by_us],
    )
    yield build_family(catalog.REMEDIATION_HEARTBEAT, [()], [remediation_reported.at])


def _collect_replica(snapshot: Snapshot) -> Iterator[Family]:
    """Yield whether this replica leads, and its journal position; nothing without replicas."""
    replica_reported = snapshot.replica
    if replica_reported is None:
        return
    yield build_family(catalog.REMEDIATION_LEADER, [()], [int(replica_reported.leading)])
    yield build_family(catalog.REMEDIATION_JOURNAL_SEQ, [()], [replica_reported.seq])
