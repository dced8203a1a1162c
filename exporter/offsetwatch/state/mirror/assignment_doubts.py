"""Contradictions of the tasks that REST reports of a flow: its commits, its list, its topics.

A task that is stopped commits once more, and two answers are of different moments. So only what
three reports in a row show, over two intervals, is a contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from offsetwatch.model.connectors import UNKNOWN_STATE, Connector
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.snapshot import AssignmentDoubt

K = TypeVar("K")
REPORTS_MIN: Final = 3
LASTING_INTERVALS: Final = 2.0
RECENT_INTERVALS: Final = 3.0  # what has not been committed for so long contradicts nothing


@dataclass(slots=True)
class _Contradiction:
    first_at: float
    last_at: float
    reports: int = 0

    def count(self, moment: float) -> None:
        self.first_at = min(self.first_at, moment)  # the clock may be set back
        self.last_at = moment
        self.reports += 1

    def holds(self, interval_s: float) -> bool:
        lasts_s = self.last_at - self.first_at
        return self.reports >= REPORTS_MIN and lasts_s >= LASTING_INTERVALS * interval_s


@dataclass(slots=True)
class AssignmentDoubts:
    """Contradictions of one connector's assignment."""

    _commits: dict[TopicPartition, _Contradiction] = field(default_factory=dict)
    _topics: dict[str, _Contradiction] = field(default_factory=dict)
    _tasks: _Contradiction | None = None
    _counts: tuple[int, int] = (0, 0)

    def count_commits(
        self, partitions: Iterable[TopicPartition], moment: float, interval_s: float
    ) -> None:
        """Apply a report: these partitions were committed though the one before had them not."""
        self._commits = _count(self._commits, partitions, moment, RECENT_INTERVALS * interval_s)

    def count_rejected(self, topics: Iterable[str], moment: float) -> None:
        """Apply a report: tasks have these topics, which the configuration does not select."""
        self._topics = _count(self._topics, topics, moment, 0.0)

    def compare_tasks(self, tasks: int | None, listed: Connector | None, moment: float) -> None:
        """Apply a report: so many tasks, beside those of the connector in Connect's list."""
        if tasks is None:
            return
        if listed is None or listed.state == UNKNOWN_STATE or len(listed.tasks) == tasks:
            self._tasks = None
            return
        self._counts = (tasks, len(listed.tasks))
        if self._tasks is None:
            self._tasks = _Contradiction(moment, moment)
        self._tasks.count(moment)

    def find_committed(self, interval_s: float) -> frozenset[TopicPartition]:
        """Return the partitions that no task has by REST, and that are committed all the same."""
        return frozenset(
            partition for partition, known in self._commits.items() if known.holds(interval_s)
        )

    def find(self, interval_s: float) -> AssignmentDoubt | None:
        """Return the contradictions; None if there is none."""
        committed = self.find_committed(interval_s)
        tasks = self._tasks if self._tasks is not None and self._tasks.holds(interval_s) else None
        topics = {topic: known for topic, known in self._topics.items() if known.holds(interval_s)}
        if not committed and tasks is None and not topics:
            return None
        since = [self._commits[partition].first_at for partition in committed]
        since += [known.first_at for known in topics.values()]
        if tasks is not None:
            since.append(tasks.first_at)
        return AssignmentDoubt(
            min(since),
            tuple(sorted(committed)),
            None if tasks is None else self._counts,
            tuple(sorted(topics)),
        )


def _count(
    known: dict[K, _Contradiction], subjects: Iterable[K], moment: float, recent_s: float
) -> dict[K, _Contradiction]:
    """Return the contradictions after a report of these; others are no older than `recent_s`."""
    for subject in subjects:
        known.setdefault(subject, _Contradiction(moment, moment)).count(moment)
    return {
        subject: contradiction
        for subject, contradiction in known.items()
        if abs(moment - contradiction.last_at) <= recent_s
    }
