"""List of a Connect cluster's connectors from its own topics, for clusters without a REST API.

Above all for a dedicated MirrorMaker. The config topic has the connectors and the number of tasks
of each, the status topic their states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from offsetwatch.decode.rest_answers import CONNECTORS_MAX
from offsetwatch.model.connectors import (
    Condition,
    ConfigRecord,
    Connector,
    ConnectorConfigured,
    ConnectorSettings,
    ConnectorStatus,
    StatusRecord,
    Task,
    TaskConfigured,
    TasksCommitted,
    TaskStatus,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.key_budget import KeyBudget

STATUSES_MAX: Final = 500_000  # of connectors and tasks
SHARES_MAX: Final = 400_000  # partitions of all tasks, twice where new tasks are not in force yet
K = TypeVar("K", str, tuple[str, int | None])
NO_STATUS: Final = "unassigned"  # what Connect writes first; before that nothing has taken it up


class Listing:
    """Connectors of one Connect cluster by its config and status topics.

    Records must be applied in topic order.
    """

    def __init__(self) -> None:
        self._settings: dict[str, ConnectorSettings] = {}
        self._tasks: dict[str, int] = {}
        # A task's record is in force with the commit that follows; alone it may never be.
        self._uncommitted: dict[str, dict[int, tuple[TopicPartition, ...] | None]] = {}
        self._in_force: dict[str, dict[int, tuple[TopicPartition, ...] | None]] = {}
        self._copied: dict[str, frozenset[TopicPartition] | None] = {}
        self._by_name: tuple[dict[str, Any], ...] = (
            *(self._settings, self._tasks, self._uncommitted, self._in_force, self._copied),
        )
        self._conditions: dict[tuple[str, int | None], Condition] = {}
        self._names: set[str] = set()
        self._budget = KeyBudget(STATUSES_MAX)
        self._is_shorter = False  # some may be gone since the names were counted
        self._shares = 0  # partitions of tasks, as of the last count and added since
        self.dropped = 0

    def forget_configs(self) -> None:
        """Forget the configurations: the config topic is about to be read from its start."""
        for known in self._by_name:
            known.clear()
        self._is_shorter = True

    def forget_status(self) -> None:
        """Forget the states: the status topic is about to be read from its start."""
        self._conditions.clear()
        self._is_shorter = True

    def apply(self, records: Iterable[ConfigRecord | StatusRecord]) -> None:
        """Apply records of either topic; other kinds of records are ignored."""
        for record in records:
            if self._is_beyond(record):
                self.dropped += 1
                continue
            match record:
                case ConnectorConfigured(name, None):
                    self._delete(name)
                case ConnectorConfigured(name, settings):
                    assert settings is not None
                    self._settings[name] = settings
                case TasksCommitted(name, tasks):
                    self._commit(name, tasks or 0)
                case TaskConfigured(name, task, assigned):
                    share = self._admit_share(assigned)
                    self._uncommitted.setdefault(name, {})[task] = share
                case ConnectorStatus(name, condition):
                    self._judge(name, None, condition)
                case TaskStatus(name, task, condition):
                    self._judge(name, task, condition)
                case _:
                    pass

    def _is_beyond(self, record: ConfigRecord | StatusRecord) -> bool:
        """Return whether a record exceeds the limits of connectors, statuses or name lengths."""
        match record:
            case ConnectorConfigured(name, settings) if settings is not None:
                beyond = _is_full(self._settings, name, CONNECTORS_MAX)
            case TasksCommitted(name, _):
                beyond = _is_full(self._tasks, name, CONNECTORS_MAX)
            case TaskConfigured(name, _, _):
                beyond = _is_full(self._uncommitted, name, CONNECTORS_MAX)
            case ConnectorStatus(name, condition) if condition is not None:
                beyond = _is_full(self._conditions, (name, None), STATUSES_MAX)
            case TaskStatus(name, task, condition) if condition is not None:
                beyond = _is_full(self._conditions, (name, task), STATUSES_MAX)
            case _:
                return False
        return beyond or not self._admits(name)

    def _admits(self, name: str) -> bool:
        """Count a name if there is room. Names that are gone count until it is used up."""
        if name in self._names:
            return True
        if not self._budget.admits(len(name)) and self._is_shorter:
            statuses = {connector for connector, _ in self._conditions}
            self._names = statuses.union(*self._by_name)
            self._budget = KeyBudget(STATUSES_MAX)
            self._budget.add(sum(map(len, self._names)), len(self._names))
            self._is_shorter = False
        admitted = self._budget.take(len(name))
        if admitted:
            self._names.add(name)
        return admitted

    def _admit_share(
        self, share: tuple[TopicPartition, ...] | None
    ) -> tuple[TopicPartition, ...] | None:
        """Count the partitions of a task if there is room; else they are unknown, None."""
        size = 0 if share is None else len(share)
        if self._shares + size > SHARES_MAX:
            self._shares = sum(
                len(known or ())
                for tasks in (*self._uncommitted.values(), *self._in_force.values())
                for known in tasks.values()
            )
        if self._shares + size > SHARES_MAX:
            self.dropped += 1
            return None
        self._shares += size
        return share

    def _delete(self, name: str) -> None:
        """Delete a connector with its tasks, for which Connect writes no tombstones."""
        for known in self._by_name:
            known.pop(name, None)
        self._is_shorter = True

    def _commit(self, name: str, tasks: int) -> None:
        """Set the number of tasks. With none the connector is stopped: its assignment remains."""
        self._tasks[name] = tasks
        topic_partition = self._in_force.get(name, {}) | self._uncommitted.pop(name, {})
        self._in_force[name] = {number: topic_partition.get(number) for number in range(tasks)}
        if not tasks:
            return
        shares = tuple(self._in_force[name].values())
        known = [share for share in shares if share is not None]
        whole = len(known) == len(shares)
        self._copied[name] = (
            frozenset(partition for share in known for partition in share) if whole else None
        )

    def _judge(self, name: str, task: int | None, condition: Condition | None) -> None:
        if condition is None:
            self._conditions.pop((name, task), None)
            self._is_shorter = True
            return
        before = self._conditions.get((name, task))
        if before is None or not condition.outdated_by(before):
            self._conditions[name, task] = condition

    def connectors(self) -> tuple[Connector, ...]:
        """Return all connectors. Statuses of tasks beyond the committed number are left out."""
        return tuple(self._connector(name) for name in sorted(self._settings))

    def _connector(self, name: str) -> Connector:
        settings, condition = self._settings[name], self._conditions.get((name, None))
        return Connector(
            name=name,
            kind=settings.kind,
            class_name=settings.class_name,
            version="" if condition is None else condition.version,
            state=NO_STATUS if condition is None else condition.state,
            tasks=tuple(
                Task(number, NO_STATUS)
                if (task := self._conditions.get((name, number))) is None
                else Task(number, task.state, task.failure)
                for number in range(self._tasks.get(name, 0))
            ),
            mirror=settings.mirror,
            sink=settings.sink,
            dedicated_offsets_topic=settings.dedicated_offsets_topic,
            offsets_addresses=settings.offsets_addresses,
            failure=None if condition is None else condition.failure,
            translates=settings.translates,
            filename=settings.filename,
            database=settings.database,
        )

    def assigned(self, name: str) -> frozenset[TopicPartition] | None:
        """Return the partitions that a MirrorSourceConnector assigned to its tasks.

        After a stop these are the last ones. None if one task's share is not known.
        """
        return self._copied.get(name)


def _is_full(known: Mapping[K, object], key: K, most: int) -> bool:
    return len(known) >= most and key not in known
