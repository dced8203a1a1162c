"""Probation after a skip: inspection of whether it has helped, before the plan succeeds.

Changes nothing. It remembers only since when the connector runs without failing; a process that
takes over the plan starts counting again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from offsetwatch.clock import UnixClock
from offsetwatch.errors import NotFound
from offsetwatch.remedy.drivers.rest.connect_state import ConnectClient, RestConnectorState
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.plan import PartitionOffset, Prove, RecordLocation

_FIELDS: Final = ("kafka_offset", "offset")  # of a sink, and of a MirrorSourceConnector

LastRecordCheck = Callable[[RecordLocation], bool]
"""Returns whether no readable record comes after this one."""


class ProbationChecker:
    """Inspections of the step `Prove`, for one connector."""

    def __init__(
        self,
        client: ConnectClient,
        connector: str,
        clock: UnixClock,
        nothing_after: LastRecordCheck,
    ) -> None:
        self._sight = client
        self._connector = connector
        self._clock = clock
        self._nothing_after = nothing_after
        self._quiet_since: float | None = None

    def look(self, step: Prove) -> StepInspection:
        """Inspect whether the connector gets past the record and keeps running.

        FOREIGN if it failed again before it passed the record, if its position went back before it,
        or if another client paused or stopped it before it passed.
        """
        try:
            seen = self._sight.seen(self._connector)
            now = {pair.partition: pair for pair in self._sight.pairs(self._connector)}
        except NotFound:
            # A worker that is still starting says so of everything, and then of this list, too.
            if any(connector.name == self._connector for connector in self._sight.connectors()):
                return StepInspection(
                    StepStatus.NOT_YET, "a worker lists it and has yet to find it"
                )
            return StepInspection(StepStatus.DONE, "another client has deleted it since")
        if seen is None:
            return StepInspection(StepStatus.NOT_YET, "no worker has said anything of it yet")
        target, position = parse_position(step.pair), parse_position(now.get(step.pair.partition))
        if target is None or position is None:
            return StepInspection(
                StepStatus.FOREIGN, "its offset is none that could be compared any more"
            )
        if position < target:
            return StepInspection(
                StepStatus.FOREIGN, f"it is back at {position}, before the {target} it was given"
            )
        if seen.standing.state in {"stopped", "paused"}:
            said = (
                f"another client has requested {seen.standing.state} since, and it is at {position}"
            )
            return StepInspection(
                StepStatus.DONE if position > target else StepStatus.FOREIGN, said
            )
        if _has_failed(seen):
            self._quiet_since = None
            if position > target:
                return StepInspection(
                    StepStatus.DONE, f"it got past it, to {position}, and failed later on"
                )
            return StepInspection(StepStatus.FOREIGN, f"it failed again, still at {position}")
        return self._moving(step, seen, position, target)

    def _moving(
        self, step: Prove, connector: RestConnectorState, position: int, target: int
    ) -> StepInspection:
        now = self._clock.now()
        if not _is_running(connector):
            self._quiet_since = None
            return StepInspection(StepStatus.NOT_YET, "its tasks are not all running yet")
        if self._quiet_since is None or self._quiet_since > now:
            self._quiet_since = now
        quiet_s = now - self._quiet_since
        if position == target and not self._nothing_after(step.record):
            return StepInspection(
                StepStatus.NOT_YET, f"it runs, and has not committed beyond {position} yet"
            )
        if quiet_s < step.quiet_s:
            said = f"it runs, at {position}; it has to for {step.quiet_s:.0f} s"
            return StepInspection(StepStatus.NOT_YET, said)
        return StepInspection(
            StepStatus.DONE, f"it has run for {quiet_s:.0f} s, and is at {position}"
        )


def parse_position(pair: PartitionOffset | None) -> int | None:
    """Return the number in a sink's or MirrorSourceConnector's offset; None if it has none."""
    if pair is None or pair.offset is None:
        return None
    offset = msgspec.json.decode(pair.offset)
    for name in _FIELDS:
        found = offset.get(name) if isinstance(offset, dict) else None
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _has_failed(connector: RestConnectorState) -> bool:
    return connector.standing.state == "failed" or "failed" in connector.standing.tasks


def _is_running(connector: RestConnectorState) -> bool:
    tasks = connector.standing.tasks
    return (
        connector.standing.state == "running"
        and bool(connector.configured)
        and len(tasks) >= connector.configured
        and set(tasks) == {"running"}
    )
