"""Snapshot -> the metric families of guarded remediation. Called by families.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.model.remediation import FOLLOWS
from offsetwatch.serve.metrics import catalog_remediation as catalog
from offsetwatch.serve.metrics.series_table import Family, family
from offsetwatch.state.snapshot import Snapshot

MODES: Final = ("observe", "propose", "auto")


def remedies(snapshot: Snapshot) -> Iterator[Family]:
    """What remediation does, and holds. Nothing where it does not run."""
    yield from _replicas(snapshot)
    seen = snapshot.remedies
    if seen is None:
        return
    if seen.mode != FOLLOWS:
        yield family(
            catalog.REMEDIATION_MODE,
            [(mode,) for mode in MODES],
            [int(mode == seen.mode) for mode in MODES],
        )
    yield family(
        catalog.REMEDIATION_PLANS,
        [(state,) for state, _ in seen.plans],
        [count for _, count in seen.plans],
    )
    yield family(
        catalog.REMEDIATION_ACTIONS,
        [row[:4] for row in seen.actions],
        [row[4] for row in seen.actions],
    )
    yield family(
        catalog.REMEDIATION_BLOCKED,
        [row[:4] for row in seen.blocked],
        [row[4] for row in seen.blocked],
    )
    yield family(
        catalog.REMEDIATION_STOPPED_SINCE,
        [(connect, connector) for connect, connector, _ in seen.stopped_by_us],
        [since for _, _, since in seen.stopped_by_us],
    )
    yield family(catalog.REMEDIATION_HEARTBEAT, [()], [seen.at])


def _replicas(snapshot: Snapshot) -> Iterator[Family]:
    """How this daemon stands among several. Nothing of one that acts alone."""
    seen = snapshot.replica
    if seen is None:
        return
    yield family(catalog.REMEDIATION_LEADER, [()], [int(seen.leading)])
    yield family(catalog.REMEDIATION_JOURNAL_SEQ, [()], [seen.seq])
