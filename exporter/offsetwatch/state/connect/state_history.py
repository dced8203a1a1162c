"""State history of connectors and tasks: every state change in a status topic.

The REST API is polled every few seconds and returns the state of that moment: if a task fails, is
restarted and fails again between two polls, nothing seems to have happened.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from offsetwatch.model.connectors import (
    DELETED,
    Condition,
    ConnectorStatus,
    StateChange,
    StateHistory,
    TaskStatus,
)
from offsetwatch.model.observations import ListingRecord
from offsetwatch.state.clock_skew import SKEW_S_MAX, has_timestamp

UNASSIGNED_STATE: Final = "unassigned"
CHANGES_MAX: Final = 32  # ten failures with the restart between them: no guard counts further
HISTORIES_MAX: Final = 50_000  # connectors and tasks of one Connect cluster
# A status that is gone without a release is a hole, or a worker was killed just before a deletion.
LOST_STATUS_S: Final = 3600.0

_HistoryKey = tuple[str, int | None]
TaskStarts = frozenset[tuple[int, float]]  # task, timestamp of its status


class ConnectorStateHistories:
    """State histories of one Connect cluster's connectors and tasks.

    Of the states before our first reading of the topic only the last is known.
    """

    def __init__(self, connect_cluster: str) -> None:
        self._connect_cluster = connect_cluster
        self._changes: dict[_HistoryKey, deque[StateChange]] = {}
        self._conditions: dict[_HistoryKey, Condition] = {}
        self._views: dict[_HistoryKey, StateHistory] = {}
        self._partitions: dict[_HistoryKey, int] = {}
        self._all: tuple[StateHistory, ...] | None = None
        self._hidden: frozenset[int] = frozenset()
        self.dropped = 0

    def forget(self) -> None:
        """Forget all histories: the topic is another one now."""
        for known in (self._changes, self._conditions, self._views, self._partitions):
            known.clear()
        self._all = None

    def cut(self, connectors: Collection[str]) -> None:
        """Forget all changes of these connectors and their tasks but the newest.

        The release before a deletion stays, as it tells that from a hole.
        """
        for key in [key for key in self._changes if key[0] in connectors]:
            changes = self._changes[key]
            is_deletion = len(changes) - 1 in find_deletions(changes)
            while len(changes) > (2 if is_deletion else 1):
                changes.popleft()
            self._views.pop(key, None)
            self._all = None

    def hide(self, partitions: frozenset[int]) -> None:
        """Hide the histories in these Kafka partitions: newer statuses there may be unread."""
        if partitions != self._hidden:
            self._hidden, self._all = partitions, None

    def may_hide(self, connector: str) -> bool:
        """Return whether a history of this connector may be in a hidden partition."""
        position = self._partitions.get((connector, None))
        return bool(self._hidden) and (position is None or position in self._hidden)

    def apply(self, records: tuple[ListingRecord, ...], read_at: float, *, whole: bool) -> None:
        """Apply records in topic order, read at `read_at`; `whole`: forget all other histories.

        A live record without a timestamp was written when it was read.
        """
        read: set[_HistoryKey] = set()
        for record in records:
            match record.says:
                case ConnectorStatus(name, condition):
                    key: _HistoryKey = (name, None)
                case TaskStatus(name, task, condition):
                    key = (name, task)
                case _:
                    continue
            read.add(key)
            is_timed = has_timestamp(record.at) or not record.live
            self._note(key, condition, record.at if is_timed else read_at)
            if key in self._changes:
                self._partitions[key] = record.partition
        if whole:
            for key in self._changes.keys() - read:
                for known in (self._changes, self._conditions, self._views, self._partitions):
                    known.pop(key, None)
        if read or whole:
            self._all = None

    def _note(self, key: _HistoryKey, condition: Condition | None, moment: float) -> None:
        before = self._conditions.get(key)
        if condition is not None and before is not None and condition.outdated_by(before):
            return
        changes = self._changes.get(key)
        if changes is None:
            if len(self._changes) >= HISTORIES_MAX:
                self.dropped += 1
                return
            changes = self._changes[key] = deque(maxlen=CHANGES_MAX)
        change = _build_change(condition, moment)
        if _is_late_unassignment(changes, change):
            if len(changes) < 2 or changes[-2] != change:
                changes.extend((change, changes.pop()))
                self._views.pop(key, None)
            return
        if not changes or changes[-1] != change:  # read again, it is no news
            changes.append(change)
        if condition is None:
            self._conditions.pop(key, None)
        else:
            self._conditions[key] = condition
        self._views.pop(key, None)

    def views(self) -> tuple[StateHistory, ...]:
        """Return histories that are not hidden; the same tuple while nothing changes."""
        if self._all is None:
            in_order = sorted(
                self._changes, key=lambda key: (key[0], -1 if key[1] is None else key[1])
            )
            self._all = tuple(
                self._view(key) for key in in_order if self._partitions.get(key) not in self._hidden
            )
        return self._all

    def _view(self, key: _HistoryKey) -> StateHistory:
        if key not in self._views:
            self._views[key] = StateHistory(
                connect_cluster=self._connect_cluster,
                connector=key[0],
                task=key[1],
                changes=tuple(self._changes[key]),
            )
        return self._views[key]


def _is_late_unassignment(changes: Sequence[StateChange], change: StateChange) -> bool:
    """Return whether a worker unassigned here what the leader has just deleted.

    The two write the status topic at the same time, in either order (both observed with Kafka 4.3.1
    and two workers). Much later it is a rebalance, after which the connector comes back.
    """
    if not changes or change.state != UNASSIGNED_STATE:
        return False
    last = changes[-1]
    return last.state == DELETED and abs(change.at - last.at) <= SKEW_S_MAX


def find_deletions(changes: Sequence[StateChange]) -> tuple[int, ...]:
    """Return the indexes of the changes that are a deletion of the connector itself.

    At a deletion a worker unassigns the connector, also a stopped or paused one (observed with
    Kafka 4.3.1), and the leader deletes its status; ConnectorStateHistories puts the two in this
    order. A status that is gone without that is a hole in the topic.
    """
    deletions, last = [], ""
    for number, change in enumerate(changes):
        if change.state != DELETED:
            last = change.state
        elif last == UNASSIGNED_STATE:
            deletions.append(number)
    return tuple(deletions)


def find_task_starts(histories: Iterable[StateHistory]) -> Mapping[str, TaskStarts]:
    """Return the newest starts of tasks by connector.

    A task gets another configuration when it is started, and never else.
    """
    starts: defaultdict[str, set[tuple[int, float]]] = defaultdict(set)
    for history in histories:
        if history.task is not None:
            moments = [change.at for change in history.changes if change.state == "running"]
            starts[history.connector].update((history.task, moment) for moment in moments[-1:])
    return {connector: frozenset(tasks) for connector, tasks in starts.items()}


def has_lost_status(changes: Sequence[StateChange], now: float) -> bool:
    """Return whether a connector may exist although its status was deleted.

    It may if no worker had released it before, and the hole is not older than LOST_STATUS_S.
    """
    number = len(changes) - 1
    return (
        changes[number].state == DELETED
        and number not in find_deletions(changes)
        and abs(now - changes[number].at) < LOST_STATUS_S
    )


def find_changes_since(
    changes: tuple[StateChange, ...], moment: float, state: str
) -> tuple[StateChange, ...]:
    """Return the changes after the one with this timestamp and state.

    If that is no longer among them, returns all. It is matched exactly, not by order of time, as
    the records are of several workers.
    """
    for number in range(len(changes), 0, -1):
        if (changes[number - 1].at, changes[number - 1].state) == (moment, state):
            return changes[number:]
    return changes


def _build_change(condition: Condition | None, moment: float) -> StateChange:
    if condition is None:
        return StateChange(at=moment, state=DELETED)
    return StateChange(
        at=moment,
        state=condition.state,
        failure=condition.failure,
        worker=condition.worker,
        generation=condition.generation,
    )
