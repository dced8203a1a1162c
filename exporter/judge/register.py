"""What is wrong now, and since when: the rules' findings from one moment to the next.

Called by judge.py only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from exporter.judge.rules import RULES, Memory, Seen
from exporter.judge.settings import Settings
from exporter.model.findings import Finding, Severity
from exporter.state.snapshot import Snapshot

_WORST_FIRST: Final = {severity: rank for rank, severity in enumerate(Severity)}

_Key = tuple[str, str, str, str]


class _Remembered(msgspec.Struct, frozen=True):
    since: tuple[tuple[_Key, float], ...]


class Register:
    """See the module. `urgent` until what is new has been remembered."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory = Memory()
        self._since: dict[_Key, float] = {}
        self._changed = False

    @property
    def urgent(self) -> bool:
        """Would a restart now forget something that was found or mended?"""
        return self._changed

    def found(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Everything that is wrong in a judged snapshot, the worst first."""
        seen = Seen(snapshot=snapshot, settings=self._settings, memory=self._memory)
        found = {finding.key: finding for rule in RULES for finding in rule(seen)}
        since = {key: self._since.get(key, finding.since) for key, finding in found.items()}
        self._changed |= since != self._since
        self._since = since
        dated = (replace(finding, since=since[key]) for key, finding in found.items())
        return tuple(sorted(dated, key=_order))

    def remembered(self) -> bytes | None:
        """What a restart must not forget; None while there is nothing new."""
        if not self._changed:
            return None
        self._changed = False
        return msgspec.json.encode(_Remembered(since=tuple(self._since.items())))

    def recall(self, remembered: bytes) -> None:
        """Go on from there. Raises ValueError if it is not what `remembered` gave."""
        told = msgspec.json.decode(remembered, type=_Remembered)
        self._since = dict(told.since)


def _order(finding: Finding) -> tuple[int, float, _Key]:
    return (_WORST_FIRST[finding.severity], finding.since, finding.key)
