"""Consistency check of states: the REST API's against those in the status topic.

A worker answers from its status topic. A lasting difference means that we read the topic of another
Connect cluster whose connectors have the same names, or that the worker lost its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from offsetwatch.model.connectors import Connector, StateChange, StateHistory
from offsetwatch.state.snapshot import StateDifference

DIFFERING_ANSWERS_MIN: Final = 3  # in a row, while the newest record stays the same
# Agreement of the moment proves little: connectors of both clusters run most of the time.
DOUBT_S: Final = 3600.0
# After so long without a comparison the hour of agreement begins again: nobody saw them agree.
UNCOMPARED_S_MAX: Final = 300.0
# Others pass, or are written by a worker that lost the connector (Condition.outdated_by).
_LASTING_STATES: Final = frozenset({"running", "paused", "stopped", "failed"})

_TaskKey = tuple[str, int | None]  # connector, task


@dataclass(slots=True)
class StateConsistencyChecks:
    """Differences of one Connect cluster's connectors and tasks, and the doubts they raise.

    `doubts` has the newest lasting difference of each connector: its histories are not believed. It
    also has those from before a restart, until both agreed for an hour. `topic` is the status topic
    that differed; None if none was known yet.
    """

    doubts: Mapping[str, StateDifference] = field(default_factory=dict)
    topic: str | None = None
    _compared_at: float | None = None
    _compared: tuple[object, object] = (None, None)
    _differing: dict[_TaskKey, tuple[str, StateChange]] = field(default_factory=dict)
    _answers: dict[_TaskKey, tuple[StateChange, int, float]] = field(default_factory=dict)

    def follow(self, topic: str) -> None:
        """Use this status topic: what was doubted of another one does not concern it."""
        if self.topic not in {None, topic}:
            self.doubts = {}
        self.topic = topic

    def read(
        self, listed: tuple[Connector, ...], histories: tuple[StateHistory, ...], now: float
    ) -> frozenset[str]:
        """Apply a list of connectors; `histories` are those of the status topic at the time.

        They are empty while the topic is not read, which is no agreement. Returns the connectors
        that are not doubted any more. What their histories had meanwhile may be another's.
        """
        if not histories:
            self._answers = {}
            return frozenset()
        compared_at, self._compared_at = self._compared_at, now
        is_gap = compared_at is None or not 0 <= now - compared_at < UNCOMPARED_S_MAX
        if self.doubts and is_gap:  # or histories would be built again for an equal dictionary
            self.doubts = {name: replace(doubt, at=now) for name, doubt in self.doubts.items()}
        if self._compared[0] is not listed or self._compared[1] is not histories:
            self._compared = (listed, histories)
            self._differing = dict(_find_differences(listed, histories))
        before, self._answers = self._answers, {}
        doubts = {
            name: doubt for name, doubt in self.doubts.items() if 0 <= now - doubt.at < DOUBT_S
        }
        for key, (state, change) in self._differing.items():
            known, count, since = before.get(key, (change, 0, now))
            if known != change:
                count, since = 0, now
            self._answers[key] = (change, count + 1, since)
            if count + 1 >= DIFFERING_ANSWERS_MIN:
                name, task = key
                first = doubts[name].since if name in doubts else since
                doubts[name] = StateDifference(task, state, change.state, first, now)
        ended = frozenset(self.doubts.keys() - doubts.keys())
        if doubts != self.doubts:
            self.doubts = doubts
        return ended


def _find_differences(
    listed: Iterable[Connector], histories: Iterable[StateHistory]
) -> Iterator[tuple[_TaskKey, tuple[str, StateChange]]]:
    newest = {(history.connector, history.task): history.changes[-1] for history in histories}
    for connector in listed if newest else ():
        states: list[tuple[int | None, str]] = [(None, connector.state)]
        states += [(task.number, task.state) for task in connector.tasks]
        for number, state in states:
            change = newest.get((connector.name, number))
            if (
                change is not None
                and change.state != state
                and _LASTING_STATES.issuperset((state, change.state))
            ):
                yield (connector.name, number), (state, change)
