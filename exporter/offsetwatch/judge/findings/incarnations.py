"""Incarnations of connectors: offsets that a deleted connector of the same name left behind.

A connector that is deleted and created again under its name starts from the earlier one's offsets.
Only offsets that are certainly older than it count as left over, and no two clocks are compared:

- It was missing from three lists in a row, and no status topic shows that it existed. Then those
  offsets are left over that its offsets topic held before the last of these lists was requested,
  by how far the topic was read. One list is not enough: a worker may answer from an older
  configuration, or belong to another cluster.
- Its status topic reported its deletion while it was followed. Then those offsets are left over
  that were committed before the first status of a task since, which that task's worker wrote before
  it committed anything. A worker releases what is deleted, and reports it
  (state/connect/state_history.py): a status that disappears without that is a gap in the topic, and
  no deletion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.model.connectors import DELETED, StateChange, StateHistory
from offsetwatch.model.observations import CONNECT_REST, InputId
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.connect.state_history import find_deletions
from offsetwatch.state.snapshot import Snapshot, SourcePartitionView
from offsetwatch.state.snapshot_index import ConnectorKey

LEFTOVER_OFFSETS_MAX: Final = 1_000  # source partitions of a connector: a longer list is not read
ABSENT_LISTS: Final = 3  # in a row, for a connector to be known not to exist

_EXISTING_STATES: Final = frozenset({"running", "paused", "stopped", "failed"})
_STARTED_STATES: Final = frozenset({"running", "paused", "failed"})  # unassigned is another's word
# MM2's checkpoint and heartbeat connectors store a 0 and never read it.
_CONSTANT_DIALECTS: Final = frozenset({"mirror_checkpoint", "mirror_heartbeat"})

Positions = Mapping[str, Mapping[int, int]]  # topic -> Kafka partition -> the next offset to read


class ConnectorIncarnation(msgspec.Struct):
    """Incarnation of a connector.

    born        time at which it is known not to have existed yet; 0.0 if unknown
    left_over   offsets that were there before it, by source partition. None until its offsets could
                be read
    """

    born: float = 0.0
    left_over: dict[str, str] | None = None


class IncarnationRecord(
    msgspec.Struct, frozen=True, rename={"connector": "who", "incarnation": "life"}
):
    """Incarnation as it is stored on disk."""

    connector: ConnectorKey
    incarnation: ConnectorIncarnation


class SnapshotFreshness(NamedTuple):
    """Freshness of a snapshot's lists and offsets topics.

    listed_at    when the connectors of each Connect cluster were last listed
    positions    how far each offsets topic was read
    topic_of     offsets topic of a connector, if it is known
    """

    listed_at: Mapping[str, float]
    positions: Positions
    topic_of: Callable[[ConnectorKey], KafkaTopic | None]


UNKNOWN_FRESHNESS: Final = SnapshotFreshness({}, {}, lambda _: None)


def find_freshness(visibility: InputVisibility) -> SnapshotFreshness:
    """Return how current the lists of connectors and the offsets topics of a snapshot are."""
    index = visibility.index
    listed_at = {
        cluster: _find_list_time(visibility.snapshot, cluster) for cluster in visibility.listed
    }
    tails = (
        (topic, view.tail)
        for topic in set(index.offsets_topics.values())
        if (view := index.inputs.get(InputId.of_tail(topic))) is not None
    )
    return SnapshotFreshness(
        listed_at={cluster: moment for cluster, moment in listed_at.items() if moment is not None},
        positions={str(topic): dict(tail.positions) for topic, tail in tails if tail is not None},
        topic_of=index.offsets_topic_of,
    )


def _find_list_time(snapshot: Snapshot, cluster: str) -> float | None:
    inputs = snapshot.index.inputs
    rest = inputs.get(InputId(CONNECT_REST, connect_cluster=cluster))
    if rest is not None:
        return rest.last_success_at
    moments = (
        view.last_success_at
        for listing in snapshot.topology.listings
        if listing.connect_cluster == cluster
        for topic in listing.topics()
        if (view := inputs.get(InputId.of_tail(topic))) is not None
    )
    return min((moment for moment in moments if moment is not None), default=None)


@dataclass(slots=True)
class _ConnectorLists:
    """Newest lists of the connectors of a Connect cluster.

    at          when the newest one was answered
    names       connectors that they have, or that still existed by their status topic
    before, before_last    how far topics were read before the newest list was answered, and before
                the preceding one was: the newest was requested after that
    """

    at: float = 0.0
    names: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=ABSENT_LISTS))
    before: Positions = field(default_factory=dict)
    before_last: Positions = field(default_factory=dict)

    def lack(self, name: str) -> bool:
        """Check whether a connector certainly did not exist when the newest list was answered."""
        return len(self.names) == ABSENT_LISTS and not any(name in names for names in self.names)


@dataclass(slots=True)
class IncarnationTracker:
    """Tracker of connector incarnations.

    of            incarnations of the connectors that are listed
    unlisted      connectors whose newest list may still be about the incarnation before, and when
                  that list was answered
    _listed_after    deletions that a list has come after
    """

    of: dict[ConnectorKey, ConnectorIncarnation] = field(default_factory=dict)
    unlisted: dict[ConnectorKey, float] = field(default_factory=dict)
    _lists: dict[str, _ConnectorLists] = field(default_factory=dict)
    _positions: Positions = field(default_factory=dict)
    _read_before: dict[ConnectorKey, Positions] = field(default_factory=dict)
    _followed: set[ConnectorKey] = field(default_factory=set)
    _deleted: dict[ConnectorKey, float] = field(
        default_factory=dict
    )  # ends without a later incarnation
    _listed_after: dict[ConnectorKey, float] = field(default_factory=dict)

    def observe(
        self,
        snapshot: Snapshot,
        listed: Mapping[str, frozenset[str]],
        sources: Mapping[ConnectorKey, Iterable[SourcePartitionView]],
        read: SnapshotFreshness = UNKNOWN_FRESHNESS,
        believed: Collection[str] | None = None,
    ) -> None:
        """Update the incarnations from a snapshot.

        listed      connectors of each Connect cluster that lists them
        sources     source partitions of each connector whose offsets are readable
        believed    Connect clusters whose unlisted connectors do not exist; None: all of them
        """
        alive, again, deleted = self._apply_histories(snapshot)
        for cluster, names in listed.items():
            certain = believed is None or cluster in believed
            gone = [key for key in self.of if key[0] == cluster and key[1] not in names]
            for connector_key in gone if certain else ():
                del self.of[connector_key]
                self.unlisted.pop(connector_key, None)
                self._listed_after.pop(connector_key, None)
                self._read_before.pop(connector_key, None)
            for name in names:
                connector_key, listed_at = (cluster, name), read.listed_at.get(cluster, 0.0)
                incarnation = self.of.get(connector_key)
                self._meet(connector_key, again.get(connector_key, 0.0))
                if incarnation is None:
                    self._listed_after[connector_key] = deleted.get(connector_key, 0.0)
                elif self.of[connector_key] is not incarnation and self._listed_after.get(
                    connector_key
                ) != deleted.get(connector_key):
                    self.unlisted[connector_key] = listed_at
                elif self.unlisted.get(connector_key, listed_at) != listed_at:
                    del self.unlisted[connector_key]
            if certain and cluster in read.listed_at:
                lived = {name for of, name in alive if of == cluster}
                self._list(cluster, read.listed_at[cluster], names | lived)
        self._positions = read.positions
        for connector_key, incarnation in self.of.items():
            if incarnation.born and incarnation.left_over is None and connector_key in sources:
                before = self._read_before.pop(connector_key, None)
                topic = read.topic_of(connector_key)
                properties = None if before is None or topic is None else before.get(str(topic))
                skew_s = 0.0 if before is None else SKEW_S_MAX
                incarnation.left_over = _find_leftover_offsets(
                    sources[connector_key], properties, incarnation.born - skew_s
                )

    def _list(self, cluster: str, moment: float, names: frozenset[str]) -> None:
        lists = self._lists.setdefault(cluster, _ConnectorLists())
        if moment == lists.at:
            return
        lists.at = moment
        lists.names.append(names)
        lists.before_last, lists.before = lists.before, self._positions

    def _meet(self, key: ConnectorKey, again_at: float) -> None:
        """Record that a connector is listed.

        `again_at` is the first status of a task since the connector's deletion, if that was
        observed; else 0.0.
        """
        incarnation, lists = self.of.get(key), self._lists.get(key[0])
        if incarnation is None:
            absent = lists is not None and lists.lack(key[1])
            self.of[key] = ConnectorIncarnation(
                born=lists.at if lists is not None and absent else again_at
            )
            if lists is not None and absent:
                self._read_before[key] = lists.before_last
        elif again_at > incarnation.born and lists is not None:
            self.of[key] = ConnectorIncarnation(born=again_at)
            self._read_before.pop(key, None)

    def _apply_histories(
        self, snapshot: Snapshot
    ) -> tuple[set[ConnectorKey], dict[ConnectorKey, float], dict[ConnectorKey, float]]:
        """Return, by status topics, the existing connectors, the recreated ones and deletions.

        A recreated connector was deleted while its topic was followed. Its time is the first status
        of a task since then, by the worker's clock. A deletion from before may have lost all other
        statuses to compaction, so it does not count; nor does a deleted status of a connector that
        is still listed.
        """
        listed = {
            (view.connect_cluster, connector.connector)
            for view in snapshot.lists
            for connector in view.without_state
            if not connector.tasks
        }
        alive: set[ConnectorKey] = set()
        deleted: dict[ConnectorKey, float] = {}
        began: dict[ConnectorKey, float] = {}
        for history in snapshot.histories:
            key = (history.connect_cluster, history.connector)
            ended, after = _find_last_deletion(history)
            if history.task is not None:
                started = (change.at for change in after if change.state in _STARTED_STATES)
                first = next(started, None)
                if first is not None:
                    began[key] = min(first, began.get(key, first))
                continue
            if ended:
                deleted[key] = ended
            if any(change.state in _EXISTING_STATES for change in after):
                alive.add(key)
        self._deleted |= {
            key: ended
            for key, ended in deleted.items()
            if key not in self._followed or key in listed
        }
        self._followed.update(
            (history.connect_cluster, history.connector) for history in snapshot.histories
        )
        again = {
            key: began[key]
            for key, ended in deleted.items()
            if key in alive and key in began and self._deleted.get(key) != ended
        }
        return alive, again, deleted

    def remembered(self) -> tuple[IncarnationRecord, ...]:
        """Return the incarnations with left-over offsets, to persist across restarts."""
        return tuple(
            IncarnationRecord(key, incarnation)
            for key, incarnation in sorted(self.of.items())
            if incarnation.left_over
        )

    def recall(self, records: tuple[IncarnationRecord, ...]) -> None:
        """Restore persisted incarnations."""
        self.of = {record.connector: record.incarnation for record in records}


def _find_last_deletion(history: StateHistory) -> tuple[float, tuple[StateChange, ...]]:
    """Return when a connector's status was last deleted, and the changes since.

    The time is 0.0 where no worker had released the connector before: that is no deletion of it.
    """
    changes = history.changes
    taken_back = [number for number, change in enumerate(changes) if change.state == DELETED]
    if not taken_back:
        return 0.0, changes
    last = taken_back[-1]
    is_end = history.task is not None or last in find_deletions(changes)
    return changes[last].at if is_end else 0.0, changes[last + 1 :]


def _find_leftover_offsets(
    sources: Iterable[SourcePartitionView], read: Mapping[int, int] | None, before: float
) -> dict[str, str]:
    """Return the offsets before the positions in `read`, by partition label.

    Where `read` is None, return those that were committed before the moment `before`.
    """
    leftovers: dict[str, str] = {}
    for view in sources:
        if view.offset is None or view.dialect in _CONSTANT_DIALECTS:
            continue
        if read is None:
            is_older = view.committed_at is not None and view.committed_at < before
        elif view.kafka_partition is None or view.log_offset is None:
            is_older = False
        else:
            is_older = view.log_offset < read.get(view.kafka_partition, 0)
        if is_older:
            leftovers[view.label] = view.offset.text
    return dict(list(leftovers.items())[:LEFTOVER_OFFSETS_MAX])
