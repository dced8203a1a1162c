"""Judge of snapshots: returns each snapshot with its verdicts and findings.

Verdicts and findings depend on earlier snapshots, so the judge has a state that outlives the
process. For 100,000 partitions that state is 30 MB, written once a minute. The few findings may
change with every evaluation, so they are a document of their own that is saved separately.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from offsetwatch.judge.findings.register import FindingsRegister
from offsetwatch.judge.findings.rule_context import decode_state
from offsetwatch.judge.progress import tracker as progress
from offsetwatch.judge.progress.tracker import ProgressTracker
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.state.snapshot import Snapshot

VERSION: Final = 1


class _JudgeState(msgspec.Struct, frozen=True):
    """Content of judge.json.

    Its parts are arrays without field names, so `version` says what each position means.
    """

    version: int
    progress: progress.ProgressState


class SnapshotJudge:
    """Judge of snapshots; `findings` is the part of its state that is saved separately."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._progress = ProgressTracker(settings)
        self.findings = FindingsRegister(settings)

    @property
    def urgent(self) -> bool:
        """Check whether a restart now would lose a verdict that users may have been notified of."""
        return self._progress.urgent

    def judged(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with new judgements and findings."""
        self.findings.found(replace(snapshot, judgements=self._progress.judgements(snapshot)))
        return self._with_newest(snapshot)

    def judged_before(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot with the newest judgements and findings, without evaluating anything.

        None if it must be judged first: an input became unavailable or available since, or nothing
        was judged yet.
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
        """Return the verdicts as bytes to persist across restarts; None if nothing is new."""
        progress = self._progress.remembered()
        if progress is None:
            return None
        return msgspec.json.encode(_JudgeState(version=VERSION, progress=progress))

    def recall(self, remembered: bytes) -> None:
        """Restore the state that `remembered` returned. Raise ValueError for any other bytes."""
        judge = decode_state(remembered, _JudgeState)
        if judge.version != VERSION:
            raise ValueError(f"version {judge.version}, and this is {VERSION}")
        self._progress.recall(judge.progress)
