"""Connect's config topic: one log, and what each worker has made of it so far.

Keys and order of records as in KafkaConfigBackingStore: task configurations count once their commit
record is there, and a target state of its own version 2 wins over the one that old workers read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"
FAILED = "FAILED"  # what a connector can be, and nobody can want


class ConfigRecord(NamedTuple):
    """`by` is who asked for it: the number of a request, a person, or the cluster itself."""

    at: float
    key: str
    value: Any
    by: str


def of_target(name: str, state: str) -> tuple[str, Any]:
    """STOPPED is unknown to old workers, which are to read PAUSED."""
    old = PAUSED if state == STOPPED else state
    return f"target-state-{name}", {"state": old, "state.v2": state}


def of_tasks(name: str, tasks: list[dict[str, str]]) -> list[tuple[str, Any]]:
    """The tasks' records and the one that makes them count."""
    records = [(f"task-{name}-{n}", {"properties": task}) for n, task in enumerate(tasks)]
    return [*records, (f"commit-{name}", {"tasks": len(tasks)})]


@dataclass
class ConfigState:
    """What a worker knows after so many records.

    known       how many tasks a connector ever had: their configurations outlive a stop
    unfenced    connectors whose tasks changed after their last fencing
    """

    offset: int = 0
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    pending: dict[str, dict[int, dict[str, str]]] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    fenced: dict[str, int] = field(default_factory=dict)
    unfenced: set[str] = field(default_factory=set)

    def copy(self) -> ConfigState:
        return ConfigState(
            self.offset,
            dict(self.configs),
            dict(self.targets),
            dict(self.tasks),
            dict(self.pending),
            dict(self.known),
            dict(self.fenced),
            set(self.unfenced),
        )

    def target(self, name: str) -> str:
        """What it is meant to do; STARTED where nobody ever said."""
        return self.targets.get(name, STARTED)

    def task_count(self, name: str) -> int:
        return len(self.tasks.get(name, ()))

    def apply(self, record: ConfigRecord) -> tuple[str, str] | None:
        """Take one record in: what a worker is told of it, and of which connector."""
        self.offset += 1
        for prefix, taken in (
            ("target-state-", self._target),
            ("connector-", self._connector),
            ("commit-", self._commit),
            ("tasks-fencing-", self._fencing),
            ("restart-connector-", self._restart),
            ("task-", self._task),
        ):
            if record.key.startswith(prefix):
                return taken(record.key.removeprefix(prefix), record.value)
        return None

    def _target(self, name: str, value: Any) -> tuple[str, str] | None:
        if value is None:
            self.targets.pop(name, None)
            return None
        self.targets[name] = value["state.v2"]
        return ("target", name) if name in self.configs else None

    def _connector(self, name: str, value: Any) -> tuple[str, str]:
        if value is None:
            self.configs.pop(name, None)
            self.tasks.pop(name, None)
            self.known.pop(name, None)
            self.targets.pop(name, None)
            self.fenced.pop(name, None)
            self.unfenced.discard(name)
            return "removed", name
        self.configs[name] = value["properties"]
        return "config", name

    def _commit(self, name: str, value: Any) -> tuple[str, str] | None:
        inputs = self.pending.pop(name, {})
        if name not in self.configs:
            return None
        self.tasks[name] = [inputs[number] for number in range(value["tasks"])]
        self.known[name] = max(self.known.get(name, 0), value["tasks"])
        self.unfenced.add(name)
        return "tasks", name

    def _task(self, key: str, value: Any) -> None:
        name, _, number = key.rpartition("-")
        self.pending[name] = {**self.pending.get(name, {}), int(number): value["properties"]}

    def _fencing(self, name: str, value: Any) -> None:
        self.fenced[name] = value["task-count"]
        self.unfenced.discard(name)

    def _restart(self, name: str, value: Any) -> tuple[str, str]:
        flags = f"{value['include-tasks']}/{value['only-failed']}"
        return "restart", f"{flags}/{name}"
