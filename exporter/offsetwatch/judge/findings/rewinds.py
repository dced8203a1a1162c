"""Rewinds of committed positions: several connectors at once, and partitions that MM2 copies again.

An operator's change to a stopped or paused connector, and a commit from before a topic was
recreated, are recognised by what changed between two evaluations. The clocks of those who write
statuses and commits cannot be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from operator import is_
from typing import Final, NamedTuple

import msgspec

from offsetwatch.model.connectors import StateChange
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.snapshot import MirrorPartitionView, Snapshot, SourcePartitionView, SyncView
from offsetwatch.state.snapshot_index import ConnectorKey

SHARED_REWIND_CONNECTORS_MIN: Final = 3  # connectors; two may be chance, three share a cause
EVENTS_MAX: Final = 1_000
MANUAL_REWIND_INTERVALS: Final = 3  # after a resume, for a verdict on what an operator did
PAUSE_MEMORY_S: Final = 3_600.0  # what is asked of a rest is whether it was within an interval
RECOPIES_MAX: Final = 5_000  # partitions
_PAUSE_STATES: Final = frozenset({"stopped", "paused"})
NO_COMMIT: Final = -1  # below every offset: syncs alone tell how far it is

# Connect cluster, connector, upstream topic and partition.
MirrorPartitionKey = tuple[str, str, str, int]


class Recopy(msgspec.Struct, frozen=True):
    """Partition that MM2 had copied up to `peak` and began to copy again at about `again_from`.

    done_at    when it reached `peak` again; None before
    """

    where: MirrorPartitionKey
    peak: int
    again_from: int
    at: float
    done_at: float | None = None


class SharedRewind(msgspec.Struct, frozen=True):
    """Connectors of one Connect cluster that went back within one interval of each other."""

    connect_cluster: str
    connectors: tuple[str, ...]
    at: float


class RewindState(msgspec.Struct, frozen=True, rename={"shared": "together"}):
    """State of the tracker as it is persisted."""

    recopies: tuple[Recopy, ...]
    shared: tuple[SharedRewind, ...]
    meant: tuple[tuple[ConnectorKey, float], ...]


_RecreatedTopicKey = tuple[str, str, str]  # Connect cluster, connector, topic


class _CopiedPosition(NamedTuple):
    committed: int
    sync: tuple[int, int] | None  # upstream, downstream

    def extend_to_sync(self) -> _CopiedPosition:
        """Return the position with a commit as far as its sync.

        Offsets that were reset may have gone further than the last commit that was seen, if any
        was: a first commit and its loss can lie between two evaluations.
        """
        if self.sync is None:
            return self
        return self._replace(committed=max(self.committed, self.sync[0]))


class _OutdatedCommit(NamedTuple):
    """Commit from before its topic was recreated at `renewed_at`."""

    renewed_at: float
    committed: int | None
    committed_at: float | None


@dataclass(slots=True)
class RewindTracker:
    """Tracker of rewinds and recopies.

    shared     newest shared rewind of each Connect cluster
    meant      connectors that an operator set back, and when that was last under way
    """

    recopies: dict[MirrorPartitionKey, Recopy] = field(default_factory=dict)
    shared: dict[str, SharedRewind] = field(default_factory=dict)
    meant: dict[ConnectorKey, float] = field(default_factory=dict)
    _rewinds: dict[ConnectorKey, int] = field(default_factory=dict)
    _resets: dict[ConnectorKey, int] = field(default_factory=dict)
    _reset: set[ConnectorKey] = field(default_factory=set)
    _events: deque[tuple[float, ConnectorKey]] = field(
        default_factory=lambda: deque(maxlen=EVENTS_MAX)
    )
    _positions: dict[MirrorPartitionKey, _CopiedPosition] = field(default_factory=dict)
    _rests: dict[ConnectorKey, float] = field(default_factory=dict)
    _rested_at: dict[ConnectorKey, float] = field(default_factory=dict)
    _observed_at: float = -inf
    _of_before: dict[MirrorPartitionKey, _OutdatedCommit] = field(default_factory=dict)
    _sources: tuple[SourcePartitionView, ...] = ()
    _before: tuple[tuple[object, ...], tuple[object, ...]] | None = None

    def observe(
        self, snapshot: Snapshot, interval_s: float, rests: Mapping[ConnectorKey, float]
    ) -> None:
        """Update the tracker from a snapshot.

        rests      time until which an operator could change a connector's offsets; inf: still
                   possible
        """
        now = snapshot.at
        resting = {row_key for row_key, until in rests.items() if until == inf}
        self._note_rests(rests, now)
        if snapshot.source_partitions is not self._sources:
            self._sources = snapshot.source_partitions
            self._count(now, interval_s)
        # A person's reset needs a stopped connector; what is copied again after it is meant to be.
        # It may be resumed before we look.
        by_hand = {
            row_key
            for row_key in self._reset
            if self._rested_at.get(row_key, -inf) > now - interval_s
        }
        rewound = {
            (judgement.connect_cluster, judgement.connector)
            for scope in Scope
            for judgement in snapshot.index.judgements(scope, Verdict.REWOUND)
        }
        for row_key in by_hand | (self.meant.keys() & (rewound | resting)):
            self.meant[row_key] = now
        if by_hand:
            self._reset -= by_hand
            self._positions = {
                key: position for key, position in self._positions.items() if key[:2] not in by_hand
            }
        renewed = {
            (recreation.connect_cluster, recreation.connector, recreation.topic): recreation.at
            for recreation in snapshot.recreations
            if recreation.count
        }
        if by_hand or not self._followed(snapshot, rests, renewed):
            self._follow_all(snapshot, rests, renewed)
        self._forget(snapshot)
        self.meant = {
            key: moment
            for key, moment in self.meant.items()
            if 0 <= now - moment <= MANUAL_REWIND_INTERVALS * interval_s
        }
        self._group(now, interval_s)
        self._observed_at = now

    def _note_rests(self, rests: Mapping[ConnectorKey, float], now: float) -> None:
        """Record the connectors that are paused or stopped, or were since the last evaluation.

        The latter are those whose last pause ends at another time than before, by whichever clock.
        """
        is_first = self._observed_at == -inf
        before, self._rests = self._rests, dict(rests)
        for key, until in rests.items():
            was = before.get(key, until if is_first else 0.0)
            if inf in {was, until} or was != until:
                self._rested_at[key] = now
        for key in before.keys() - rests.keys():  # where no status topic tells when it ended
            if before[key] == inf:
                self._rested_at[key] = now
        self._rested_at = {
            key: moment
            for key, moment in self._rested_at.items()
            if 0 <= now - moment < PAUSE_MEMORY_S
        }

    def _rested(self, key: ConnectorKey) -> bool:
        """Check whether a connector was paused or stopped since the evaluation before the last one.

        Two tails read statuses and offsets, and one of them may be a moment late.
        """
        return self._rested_at.get(key, -inf) >= self._observed_at

    def _followed(
        self,
        snapshot: Snapshot,
        rests: Mapping[ConnectorKey, float],
        renewed: Mapping[_RecreatedTopicKey, float],
    ) -> bool:
        """Check whether positions and topology are those of the last evaluation; store them."""
        inputs = (snapshot.index.mirror_partitions, snapshot.index.syncs)
        known = (snapshot.topology.flows, dict(rests), renewed)
        before, self._before = self._before, (inputs, known)
        return before is not None and all(map(is_, before[0], inputs)) and before[1] == known

    def _follow_all(
        self,
        snapshot: Snapshot,
        rests: Mapping[ConnectorKey, float],
        renewed: Mapping[_RecreatedTopicKey, float],
    ) -> None:
        now, index = snapshot.at, snapshot.index
        for key, views in index.mirror_partitions.items():
            flow = index.flows.get(key)
            own = flow is not None and index.has_own_syncs(flow)
            syncs = index.syncs_of(key[0]) if own else {}
            for view in views:
                moment = renewed.get((*key, view.topic))
                if moment is not None and self._is_of_before(view, moment):
                    # What is known of its position is of a topic that is no more.
                    self._positions.pop((*key, view.topic, view.partition), None)
                    self.recopies.pop((*key, view.topic, view.partition), None)
                    continue
                sync = syncs.get((view.source, view.target, view.topic, view.partition))
                self._follow(view, sync, now, own=own, resting=rests.get(key, 0.0) == inf)

    def _is_of_before(self, view: MirrorPartitionView, renewed_at: float) -> bool:
        """Check whether a commit is from before its topic was recreated, or may be.

        It is if it is the commit that was known then, or one that may be older. Our clock gave the
        time of the recreation, and a worker's clock that of the commit.
        """
        where = (view.connect_cluster, view.connector, view.topic, view.partition)
        commit = _OutdatedCommit(renewed_at, view.committed, view.committed_at)
        known = self._of_before.get(where)
        if known is None or known.renewed_at != renewed_at:
            moment = view.committed_at
            is_newer = moment is not None and is_later(moment, renewed_at)
            known = commit._replace(committed=None, committed_at=inf) if is_newer else commit
            self._of_before[where] = known
        untimed = view.committed_at is None and view.committed == known.committed
        return untimed or known == commit

    def _count(self, now: float, interval_s: float) -> None:
        """Record the connectors that went back or were reset since the last evaluation.

        An offset from REST may have been committed as long ago as the time between two polls.
        """
        rewinds: dict[ConnectorKey, int] = {}
        resets: dict[ConnectorKey, int] = {}
        polled: set[ConnectorKey] = set()
        for view in self._sources:
            key = (view.connect_cluster, view.connector)
            if view.from_rest:
                polled.add(key)
            if view.rewinds is not None:
                rewinds[key] = rewinds.get(key, 0) + view.rewinds
            if view.resets is not None:
                resets[key] = resets.get(key, 0) + view.resets
        fallen = {key for key, count in rewinds.items() if count > self._rewinds.get(key, count)}
        by_hand = {
            key
            for key in fallen
            if self._rested(key)
            or (key in polled and self._rested_at.get(key, -inf) >= now - interval_s)
        }
        self._events.extend((now, key) for key in sorted(fallen - by_hand))
        self.meant |= dict.fromkeys(by_hand, now)
        # Whose first commit came since the last look may have lost it since as well.
        is_first = self._observed_at == -inf
        reset = {
            key
            for key, count in resets.items()
            if count > self._resets.get(key, count if is_first else 0)
        }
        if reset:
            self._reset |= reset
            self._positions = {
                where: position.extend_to_sync() if where[:2] in reset else position
                for where, position in self._positions.items()
            }
        self._rewinds, self._resets = rewinds, resets

    def _follow(
        self,
        view: MirrorPartitionView,
        sync: SyncView | None,
        now: float,
        *,
        own: bool,
        resting: bool,
    ) -> None:
        where = (view.connect_cluster, view.connector, view.topic, view.partition)
        pair = None if sync is None else (sync.upstream_offset, sync.downstream_offset)
        position = self._positions.get(where)
        if pair is None and own and position is not None:
            pair = position.sync  # it is not shown now, and comparable once it is again
        if position is not None and view.log_start is not None and view.log_end is not None:
            # What was copied, limited to what still holds now: it is never beyond the end of the
            # log, and the committed offset replaces one that an operator may have altered since the
            # last evaluation.
            copied = position.committed
            if view.committed is not None and self._rested(where[:2]):
                copied = view.committed
            position = position._replace(committed=min(copied, view.log_end - 1))
            began = None if resting else _find_recopy_start(position, view.committed, pair)
            # Nothing was kept: it goes back by half of what there is, or more. What a worker that
            # died had not committed yet is copied twice every time, and is not that.
            if (
                began is not None
                and 2 * (began - view.log_start) <= position.committed - view.log_start
            ):
                self._begin(where, position.committed, max(began, view.log_start), now)
        recopy = self.recopies.get(where)
        # A peak beyond the end of the log (an altered offset) is never reached again.
        done = view.caught_up or view.lag == 0
        if recopy is not None and recopy.done_at is None:
            done = done or (view.replicated is not None and view.replicated >= recopy.peak)
        if recopy is not None and recopy.done_at is None and done:
            self.recopies[where] = msgspec.structs.replace(recopy, done_at=now)
        measured = view.log_start is not None and view.log_end is not None
        if position is not None and not measured and not self._rested(where[:2]):
            return  # it is compared once the log is known, unless an operator may have altered it
        committed = view.committed
        if committed is None:
            committed = NO_COMMIT if position is None else position.committed
            if pair is not None and where[:2] in self._reset:
                committed = max(committed, pair[0])
        if committed != NO_COMMIT or pair is not None:
            self._positions[where] = _CopiedPosition(committed, pair)

    def _begin(self, where: MirrorPartitionKey, peak: int, began: int, now: float) -> None:
        before = self.recopies.get(where)
        if before is not None and before.done_at is None:
            return  # the same one, seen in syncs and then in commits
        if before is not None or len(self.recopies) < RECOPIES_MAX:
            self.recopies[where] = Recopy(where, peak, began, now)

    def _forget(self, snapshot: Snapshot) -> None:
        """Remove partitions that are no longer copied, of flows that are visible."""
        mirrors = snapshot.index.mirror_partitions
        present = {
            (*key, view.topic, view.partition)
            for key, views in mirrors.items()
            if any(key == where[:2] for where in self.recopies)
            for view in views
        }
        gone = [key for key in self.recopies if key[:2] in mirrors and key not in present]
        for key in gone:
            del self.recopies[key]
        partitions = sum(len(views) for views in mirrors.values())
        if len(self._positions) > 2 * partitions + RECOPIES_MAX:
            self._positions.clear()
            self._of_before.clear()
            self._before = None

    def unclear(self, now: float, interval_s: float) -> set[ConnectorKey]:
        """Return the connectors with a recopy younger than an interval.

        It is too early to say whether they copy the same records again, or a topic that was
        recreated.
        """
        return {
            recopy.where[:2]
            for recopy in self.recopies.values()
            if abs(now - recopy.at) < interval_s
        }

    def end(self, where: MirrorPartitionKey) -> None:
        """Remove a recopy that was reported for long enough."""
        self.recopies.pop(where, None)

    def _group(self, now: float, interval_s: float) -> None:
        while self._events and not 0 <= now - self._events[0][0] <= interval_s:
            self._events.popleft()
        clusters: dict[str, set[str]] = {}
        for _, (cluster, connector) in self._events:
            clusters.setdefault(cluster, set()).add(connector)
        for cluster, connectors in clusters.items():
            if len(connectors) >= SHARED_REWIND_CONNECTORS_MIN:
                last = max(moment for moment, key in self._events if key[0] == cluster)
                before = self.shared.get(cluster)
                if before is not None and last - before.at <= interval_s:
                    connectors |= set(before.connectors)
                self.shared[cluster] = SharedRewind(cluster, tuple(sorted(connectors)), last)

    def remembered(self) -> RewindState:
        """Return the state to persist across restarts."""
        return RewindState(
            recopies=tuple(self.recopies.values()),
            shared=tuple(self.shared.values()),
            meant=tuple(self.meant.items()),
        )

    def recall(self, state: RewindState) -> None:
        """Restore a persisted state."""
        self.recopies = {recopy.where: recopy for recopy in state.recopies}
        self.shared = {rewind.connect_cluster: rewind for rewind in state.shared}
        self.meant = dict(state.meant)


def find_pause_ends(snapshot: Snapshot) -> dict[ConnectorKey, float]:
    """Return the connectors that an operator stopped or paused, and when that ended.

    An operator may have written the offsets that were committed before that time. The time is inf
    for a connector that is paused or stopped now, by the newest record on it.
    """
    pause_ends = {
        key: inf for key, view in snapshot.index.connectors.items() if view.state in _PAUSE_STATES
    }
    for history in snapshot.histories:
        if history.task is None:
            # A status topic is followed; the states were polled a while ago.
            pause_ends[history.connect_cluster, history.connector] = _find_pause_end(
                history.changes
            )
    return pause_ends


def _find_pause_end(changes: tuple[StateChange, ...]) -> float:
    if changes[-1].state in _PAUSE_STATES:
        return inf
    ends = (after.at for change, after in pairwise(changes) if change.state in _PAUSE_STATES)
    return max(ends, default=0.0)


def _find_recopy_start(
    position: _CopiedPosition, committed: int | None, sync: tuple[int, int] | None
) -> int | None:
    """Return the upstream offset at which a partition is copied again; None if it did not go back.

    A short log is copied again between two flushes, and the commits never show it. The offset syncs
    do, because the records stand downstream a second time. Downstream records that were copied once
    since the sync before are subtracted: those committed beyond that sync, or as many as the new
    sync goes beyond it, with a transaction marker for each record at most. A sync that goes back,
    or has the same upstream offset with another downstream one, stands for at least one record.
    """
    if committed is not None and committed < position.committed:
        return committed
    if sync is None or position.sync is None or sync[0] > position.committed:
        return None
    added = sync[1] - position.sync[1]
    if added <= 0:
        return None
    forward = sync[0] - position.sync[0]
    again = added - max(2 * forward, position.committed - position.sync[0])
    if forward <= 0:
        again = max(again, 1)
    return sync[0] - again + 1 if again > 0 else None
