"""Snapshot -> the same snapshot with its verdicts and findings. Called by the loop, in its thread.

What is judged is judged over time, so this remembers; what it remembers outlives the process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from exporter.judge.progress import Progress
from exporter.judge.register import Register
from exporter.judge.settings import Settings
from exporter.state.snapshot import Snapshot

VERSION: Final = 1  # documents without one are of it


class _Remembered(msgspec.Struct, frozen=True):
    """The document of judge.json: each part as it was when it last had something new. Its parts are
    lists without names, so what another version means by a place has to be told by a number.
    """

    progress: msgspec.Raw = msgspec.Raw()
    register: msgspec.Raw = msgspec.Raw()
    version: int = VERSION


class Judge:
    """See the module."""

    def __init__(self, settings: Settings) -> None:
        self._progress = Progress(settings)
        self._register = Register(settings)
        self._told: dict[str, bytes] = {}

    @property
    def urgent(self) -> bool:
        """Would a restart now forget something that people may have been told?"""
        return self._progress.urgent or self._register.urgent

    def judged(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with judgements and findings."""
        judged = replace(snapshot, judgements=self._progress.judgements(snapshot))
        findings = self._register.found(judged)
        dropped = (*snapshot.dropped, *self._register.dropped)
        runs = self._register.failure_runs
        return replace(judged, findings=findings, dropped=dropped, failure_runs=runs)

    def remembered(self) -> bytes | None:
        """What a restart must not forget; None while there is nothing new."""
        parts = {
            "progress": self._progress.remembered(),
            "register": self._register.remembered(),
        }
        new = {name: document for name, document in parts.items() if document is not None}
        if not new:
            return None
        self._told.update(new)
        told = {name: msgspec.Raw(at) for name, at in self._told.items()}
        return msgspec.json.encode({"version": VERSION, **told})

    def recall(self, remembered: bytes) -> None:
        """Go on from there. Raises ValueError if it is not what `remembered` gave."""
        try:
            told = msgspec.json.decode(remembered, type=_Remembered)
            if told.version != VERSION:
                raise ValueError(f"version {told.version}, and this is {VERSION}")
            for name, part, recall in (
                ("progress", bytes(told.progress), self._progress.recall),
                ("register", bytes(told.register), self._register.recall),
            ):
                if part:
                    recall(part)
                    self._told[name] = part
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise ValueError(str(exc)) from exc
