"""Failover cost of one consumer group in one partition: records read again or skipped. Pure.

This is the only place of the computation: groups.py uses it for the present,
history/failover_report/replay.py for past moments. groups.py explains the numbers, and when there
is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsetwatch.model.log_readings import LogBounds
from offsetwatch.state.mirror.offset_translation import PartitionSyncs

OWN_COMMIT, CHECKPOINT = "group", "checkpoint"  # where a landing comes from


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Position of a group in a partition at one moment. Offsets name the NEXT record.

    upstream        the group's commit on the source
    own             its own commit on the target; None if it has none
    checkpoint      the downstream offset of its newest checkpoint; None if there is none
    syncs           None if there are none, or they may be another flow's
    here, there     bounds of the upstream and the downstream log; None if they are not known
    synced_before   whether the newest sync was known before the downstream log's end was read
    landed_before   whether the landing was. A group's own commit always is.
    """

    upstream: int
    own: int | None
    checkpoint: int | None
    syncs: PartitionSyncs | None
    here: LogBounds | None
    there: LogBounds | None
    synced_before: bool
    landed_before: bool

    @property
    def landing(self) -> int | None:
        """Return the offset where the group would start; None without commit and checkpoint."""
        return self.checkpoint if self.own is None else self.own

    @property
    def landing_from(self) -> str | None:
        """Return OWN_COMMIT or CHECKPOINT; None without a landing."""
        if self.own is not None:
            return OWN_COMMIT
        return None if self.checkpoint is None else CHECKPOINT


@dataclass(frozen=True, slots=True)
class FailoverCost:
    """Failover cost of a group in a partition; None is not known.

    best            the offset from which nothing is read twice and nothing is skipped
    translated      the least that MM2 translates its upstream offset to
                    (state/mirror/offset_translation.py)
    reread, skip    records that it reads again, and that it never reads: one of them is 0
    """

    best: int | None = None
    translated: int | None = None
    reread: int | None = None
    skip: int | None = None


def compute_failover_cost(position: GroupPosition) -> FailoverCost:
    """Compute the failover cost of a group in a partition."""
    if position.syncs is None or position.here is None or position.upstream > position.here.end:
        return FailoverCost()
    best = _find_best_start(position, position.syncs)
    translated = position.syncs.at_least(position.upstream)
    if best is None or position.landing is None or not _can_start_at(position, position.landing):
        return FailoverCost(best=best, translated=translated)
    number = position.syncs.history.record_number
    distance = number(best) - number(position.landing)
    return FailoverCost(
        best=best, translated=translated, reread=max(0, distance), skip=max(0, -distance)
    )


def _find_best_start(position: GroupPosition, syncs: PartitionSyncs) -> int | None:
    """Return the best offset to start at, inside the downstream log; None if it is not known."""
    newest = syncs.history.newest
    if position.there is None or newest is None:
        return None
    if newest[1] >= position.there.end and position.synced_before:
        return None
    # What was acknowledged or checkpointed since the log end was read is there by now.
    end = max(
        position.there.end, newest[1] + 1, 0 if position.landing is None else position.landing
    )
    best = syncs.history.best(position.upstream, end)
    return None if best is None else max(best, position.there.start)


def _can_start_at(position: GroupPosition, landing: int) -> bool:
    """Return whether a consumer can start at this offset of the downstream log."""
    if position.there is None or landing < position.there.start:
        return False
    return landing <= position.there.end or not (position.own is not None or position.landed_before)
