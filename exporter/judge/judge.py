"""Snapshot -> the same snapshot with its verdicts and findings. Called by the loop, in its thread.

What is judged is judged over time, so this remembers; what it remembers outlives the process.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from exporter.judge.register import Register
from exporter.judge.settings import Settings
from exporter.state.snapshot import Snapshot


class _Remembered(msgspec.Struct, frozen=True):
    """The document of judge.json."""

    register: msgspec.Raw


class Judge:
    """See the module."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._register = Register(settings)

    @property
    def urgent(self) -> bool:
        """Would a restart now forget something that people may have been told?"""
        return self._register.urgent

    def judged(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with judgements and findings."""
        return replace(snapshot, findings=self._register.found(snapshot))

    def remembered(self) -> bytes | None:
        """What a restart must not forget; None while there is nothing new."""
        register = self._register.remembered()
        if register is None:
            return None
        return msgspec.json.encode(_Remembered(register=msgspec.Raw(register)))

    def recall(self, remembered: bytes) -> None:
        """Go on from there. Raises ValueError if it is not what `remembered` gave."""
        try:
            told = msgspec.json.decode(remembered, type=_Remembered)
            self._register.recall(bytes(told.register))
        except msgspec.DecodeError as exc:
            raise ValueError(str(exc)) from exc
