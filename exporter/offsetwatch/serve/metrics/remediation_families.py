"""Snapshot -> the metric families of guarded remediation. Called by families.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.model.remediation import FOLLOWER_MODE
from offsetwatch.serve.metrics import catalog_remediation as catalog
from offsetwatch.serve.metrics.series_table import Family, build_family
from offsetwatch.state.snapshot import Snapshot

MODES: Final = ("observe", "propose", "auto")


def collect_remediation(snapshot: Snapshot) -> Iterator[Family]:
    """What remediation does, and holds. Nothing where it does not run."""
    yield from _collect_replica(snapshot)
    seen = snapshot.remedies
    if seen is None:
        return
    if seen.mode != FOLLOWER_MODE:
        yield build_family(
            catalog.REMEDIATION_MODE,
            [(mode,) for mode in MODES],
            [int(mode == seen.mode) for mode in MODES],
        )
    yield build_family(
        catalog.REMEDIATION_PLANS,
        [(state,) for state, _ in seen.plans],
        [count for _, count in seen.plans],
    )
    yield build_family(
        catalog.REMEDIATION_ACTIONS,
        [row[:4] for row in seen.actions],
        [row[4] for row in seen.actions],
    )
    yield build_family(
        catalog.REMEDIATION_BLOCKED,
        [row[:4] for row in seen.blocked],
        [row[4] for row in seen.blocked],
    )
    yield build_family(
        catalog.REMEDIATION_STOPPED_SINCE,
        [(connect, connector) for connect, connector, _ in seen.stopped_by_us],
        [since for _, _, since in seen.stopped_by_us],
    )
    yield build_family(catalog.REMEDIATION_HEARTBEAT, [()], [seen.at])


def _collect_replica(snapshot: Snapshot) -> Iterator[Family]:
    """How this daemon stands among several. Nothing of one that acts alone."""
    seen = snapshot.replica
    if seen is None:
        return
    yield build_family(catalog.REMEDIATION_LEADER, [()], [int(seen.leading)])
    yield build_family(catalog.REMEDIATION_JOURNAL_SEQ, [()], [seen.seq])
