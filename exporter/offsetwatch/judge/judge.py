"""Snapshot -> the same snapshot with its verdicts and findings.

What is judged is judged over time, so this remembers; what it remembers outlives the process. Of
100,000 partitions that is 30 MB once a minute, so the few findings, which may have news with every
look, are a part of their own that is saved alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from offsetwatch.judge.findings.memory import decode_state
from offsetwatch.judge.findings.register import FindingsRegister
from offsetwatch.judge.progress import tracker as progress
from offsetwatch.judge.progress.tracker import ProgressTracker
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.state.snapshot import Snapshot

VERSION: Final = 1


class _JudgeState(msgspec.Struct, frozen=True):
    """The document of judge.json. Its parts are lists without names, so what another version means
    by a place has to be told by a number.
    """

    version: int
    progress: progress.ProgressState


class SnapshotJudge:
    """See the module. `findings` is the part that is remembered apart."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._progress = ProgressTracker(settings)
        self.findings = FindingsRegister(settings)

    @property
    def urgent(self) -> bool:
        """Would a restart now forget a verdict that people may have been told?"""
        return self._progress.urgent

    def judged(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with judgements and findings."""
        self.findings.found(replace(snapshot, judgements=self._progress.judgements(snapshot)))
        return self._with_newest(snapshot)

    def judged_before(self, snapshot: Snapshot) -> Snapshot | None:
        """The snapshot with what was last judged and found, at no cost. None where an input went
        blind or sees again since, or nothing was judged yet: that is to be judged first.
        """
        return self._with_newest(snapshot) if self._progress.sees_as_before(snapshot) else None

    def _with_newest(self, snapshot: Snapshot) -> Snapshot:
        return replace(
            snapshot,
            judgements=self._progress.newest,
            findings=self.findings.newest,
            dropped=(*snapshot.dropped, *self.findings.dropped),
            failure_runs=self.findings.failure_runs,
        )

    def remembered(self) -> bytes | None:
        """The verdicts, which a restart must not forget; None while there is nothing new."""
        told = self._progress.remembered()
        if told is None:
            return None
        return msgspec.json.encode(_JudgeState(version=VERSION, progress=told))

    def recall(self, remembered: bytes) -> None:
        """Go on from there. Raises ValueError if it is not what `remembered` gave."""
        judge = decode_state(remembered, _JudgeState)
        if judge.version != VERSION:
            raise ValueError(f"version {judge.version}, and this is {VERSION}")
        self._progress.recall(judge.progress)
