"""The step that sees whether a skip has helped: probation, before a plan is called a success.

Looks only. What it remembers between calls is since when the connector runs without failing, which
whoever takes the plan up anew counts again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from offsetwatch.clock import Clock
from offsetwatch.errors import NotFound
from offsetwatch.remedy.drivers.rest.connect_state import Seen, Sight
from offsetwatch.remedy.model.driver import Look, Standing
from offsetwatch.remedy.model.plan import Pair, Prove, RecordAt

_FIELDS: Final = ("kafka_offset", "offset")  # of a sink, and of a MirrorSourceConnector

NothingAfter = Callable[[RecordAt], bool]
"""Whether no record that can be read stands after this one."""


class ProofSteps:
    """Looks at `Prove`, for one connector."""

    def __init__(
        self, sight: Sight, connector: str, clock: Clock, nothing_after: NothingAfter
    ) -> None:
        self._sight = sight
        self._connector = connector
        self._clock = clock
        self._nothing_after = nothing_after
        self._quiet_since: float | None = None

    def look(self, step: Prove) -> Look:
        """Foreign where it failed again before it got past the record, or went back before it; and
        where another client has it rest before that was seen.
        """
        try:
            seen = self._sight.seen(self._connector)
            now = {at.partition: at for at in self._sight.pairs(self._connector)}
        except NotFound:
            # A worker that is still starting says so of everything, and then of this list, too.
            if any(at.name == self._connector for at in self._sight.connectors()):
                return Look(Standing.NOT_YET, "a worker lists it and has yet to find it")
            return Look(Standing.DONE, "another client has deleted it since")
        if seen is None:
            return Look(Standing.NOT_YET, "no worker has said anything of it yet")
        target, at = position(step.pair), position(now.get(step.pair.partition))
        if target is None or at is None:
            return Look(Standing.FOREIGN, "its offset is none that could be compared any more")
        if at < target:
            return Look(Standing.FOREIGN, f"it is back at {at}, before the {target} it was given")
        if seen.standing.state in {"stopped", "paused"}:
            said = f"another client has requested {seen.standing.state} since, and it is at {at}"
            return Look(Standing.DONE if at > target else Standing.FOREIGN, said)
        if _failed(seen):
            self._quiet_since = None
            if at > target:
                return Look(Standing.DONE, f"it got past it, to {at}, and failed later on")
            return Look(Standing.FOREIGN, f"it failed again, still at {at}")
        return self._moving(step, seen, at, target)

    def _moving(self, step: Prove, seen: Seen, at: int, target: int) -> Look:
        now = self._clock.now()
        if not _up(seen):
            self._quiet_since = None
            return Look(Standing.NOT_YET, "its tasks are not all running yet")
        if self._quiet_since is None or self._quiet_since > now:
            self._quiet_since = now
        quiet_s = now - self._quiet_since
        if at == target and not self._nothing_after(step.record):
            return Look(Standing.NOT_YET, f"it runs, and has not committed beyond {at} yet")
        if quiet_s < step.quiet_s:
            said = f"it runs, at {at}; it has to for {step.quiet_s:.0f} s"
            return Look(Standing.NOT_YET, said)
        return Look(Standing.DONE, f"it has run for {quiet_s:.0f} s, and is at {at}")


def position(pair: Pair | None) -> int | None:
    """The number in the offset of a sink or of a MirrorSourceConnector; None where it has none."""
    if pair is None or pair.offset is None:
        return None
    offset = msgspec.json.decode(pair.offset)
    for name in _FIELDS:
        found = offset.get(name) if isinstance(offset, dict) else None
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def _failed(seen: Seen) -> bool:
    return seen.standing.state == "failed" or "failed" in seen.standing.tasks


def _up(seen: Seen) -> bool:
    tasks = seen.standing.tasks
    return (
        seen.standing.state == "running"
        and bool(seen.configured)
        and len(tasks) >= seen.configured
        and set(tasks) == {"running"}
    )
