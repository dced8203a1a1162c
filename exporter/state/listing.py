"""The connectors of a Connect cluster as its own topics tell of them: for clusters without a REST
API, a dedicated MirrorMaker above all.

The config topic says which connectors there are and how many tasks each was given, the status topic
how they are. Called by site.py only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exporter.model.connectors import (
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
from exporter.model.topology import TopicPartition

NO_STATUS: Final = "unassigned"  # what Connect writes first; before that nothing has taken it up


class Listing:
    """See the module. Records come in topic order."""

    def __init__(self) -> None:
        self._settings: dict[str, ConnectorSettings] = {}
        self._tasks: dict[str, int] = {}
        self._assigned: dict[str, dict[int, tuple[TopicPartition, ...]]] = {}
        self._conditions: dict[tuple[str, int | None], Condition] = {}

    def forget_configs(self) -> None:
        """The config topic is read anew, whole."""
        self._settings.clear()
        self._tasks.clear()
        self._assigned.clear()

    def forget_status(self) -> None:
        """The status topic is read anew, whole."""
        self._conditions.clear()

    def apply(self, records: Iterable[ConfigRecord | StatusRecord]) -> None:
        """Take in records of either topic; the rest of what they hold is not needed."""
        for record in records:
            match record:
                case ConnectorConfigured(name, None):
                    self._settings.pop(name, None)
                case ConnectorConfigured(name, settings):
                    assert settings is not None
                    self._settings[name] = settings
                case TasksCommitted(name, tasks):
                    self._tasks[name] = tasks or 0
                case TaskConfigured(name, task, assigned):
                    self._assigned.setdefault(name, {})[task] = assigned or ()
                case ConnectorStatus(name, condition):
                    self._judge(name, None, condition)
                case TaskStatus(name, task, condition):
                    self._judge(name, task, condition)
                case _:
                    pass

    def _judge(self, name: str, task: int | None, condition: Condition | None) -> None:
        if condition is None:
            self._conditions.pop((name, task), None)
            return
        before = self._conditions.get((name, task))
        # A worker that lost a connector in a rebalance may say so after the one that took it over.
        late = condition.state == "unassigned" and before is not None
        if late and before is not None and condition.generation < before.generation:
            return
        self._conditions[name, task] = condition

    def connectors(self) -> tuple[Connector, ...]:
        """All of them. Statuses of tasks beyond the number that was committed are left over."""
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
                Task(number=number, state=NO_STATUS if at is None else at.state)
                for number in range(self._tasks.get(name, 0))
                for at in (self._conditions.get((name, number)),)
            ),
            mirror=settings.mirror,
            sink=settings.sink,
            dedicated_offsets_topic=settings.dedicated_offsets_topic,
            offsets_addresses=settings.offsets_addresses,
        )

    def assigned(self, name: str) -> frozenset[TopicPartition] | None:
        """What a MirrorSourceConnector gave its tasks; None while it has none, as when stopped."""
        tasks = self._tasks.get(name, 0)
        if not tasks:
            return None
        given = self._assigned.get(name, {})
        return frozenset(at for number in range(tasks) for at in given.get(number, ()))
