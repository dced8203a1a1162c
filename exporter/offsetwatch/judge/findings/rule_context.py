"""What a rule is given, and how it says what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from offsetwatch.judge.findings.memory import RuleMemory
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.judge.snapshot_index import ConnectorKey, SnapshotIndex
from offsetwatch.model.evidence import Evidence
from offsetwatch.model.findings import Finding, FindingName, Severity
from offsetwatch.state.snapshot import Snapshot

# How long something that happened, and is over, is still told: a person has to get to see it.
REPORT_INTERVALS: Final = 3


@dataclass(frozen=True, slots=True)
class RuleContext:
    """One moment: the snapshot with its judgements, and what was before."""

    look: SnapshotIndex
    settings: JudgeSettings
    memory: RuleMemory

    @property
    def snapshot(self) -> Snapshot:
        """With judgements."""
        return self.look.snapshot

    @property
    def now(self) -> float:
        """Its time."""
        return self.look.snapshot.at

    @property
    def told_s(self) -> float:
        """See TOLD_INTERVALS."""
        return REPORT_INTERVALS * self.settings.interval_s

    def lasts(self, what: str, key: ConnectorKey, subject: str = "") -> float:
        """For how long this has been so, in seconds: asked while it is so, and only then."""
        since, _ = self.memory.held.since((what, *key, subject), self.now)
        return self.now - since

    def found(
        self,
        name: FindingName,
        severity: Severity,
        key: tuple[str, str | None],
        summary: str,
        *,
        subject: str = "",
        evidence: Evidence = (),
    ) -> Finding:
        """Return a finding of now. `who`: a Connect cluster, and a connector of it or None.

        summary    of a connector: what goes on after its name; else a sentence that begins with
                   the topic, flow or cluster that it is about
        """
        return Finding(
            name=name,
            severity=severity,
            connect_cluster=key[0],
            connector=key[1],
            subject=subject,
            summary=summary if key[1] is None else f"{self._named(key[0], key[1])} {summary}",
            since=self.now,
            evidence=evidence,
        )

    def _named(self, cluster: str, connector: str) -> str:
        """Name a connector, and the flow that it replicates."""
        shown = connector if connector.isprintable() else repr(connector)[1:-1]
        flow = self.look.flows.get((cluster, connector))
        return shown if flow is None else f"{shown} ({flow.source}->{flow.target})"


FindingRule = Callable[[RuleContext], Iterator[Finding]]
