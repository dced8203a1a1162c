"""Context of a rule: its input, and helpers that build its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from offsetwatch.judge.findings.memory import RuleMemory
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Evidence, Finding, FindingName, Severity
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey, SnapshotIndex

# How long something that happened, and is over, is still told: a person has to get to see it.
REPORT_INTERVALS: Final = 3


@dataclass(frozen=True, slots=True)
class RuleContext:
    """Context of one evaluation: judged snapshot, settings, and memory of earlier ones."""

    visibility: InputVisibility
    settings: JudgeSettings
    memory: RuleMemory

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot, with judgements."""
        return self.visibility.snapshot

    @property
    def index(self) -> SnapshotIndex:
        """Return the parts of the snapshot by connector."""
        return self.visibility.index

    @property
    def now(self) -> float:
        """Return the time of the snapshot."""
        return self.snapshot.at

    @property
    def told_s(self) -> float:
        """Return for how many seconds a past event is still reported (REPORT_INTERVALS)."""
        return REPORT_INTERVALS * self.settings.interval_s

    def lasts(self, what: str, key: ConnectorKey, subject: str = "") -> float:
        """Return for how many seconds a condition has held. Call it only while it holds."""
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
        """Build a finding as of now.

        key        Connect cluster, and a connector of it or None
        summary    with a connector, the text after its name; else a sentence that begins with the
                   topic, flow or cluster that it is about
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
        """Return the name of a connector, and the flow that it replicates."""
        shown = connector if connector.isprintable() else repr(connector)[1:-1]
        flow = self.visibility.flows.get((cluster, connector))
        return shown if flow is None else f"{shown} ({flow.source}->{flow.target})"


FindingRule = Callable[[RuleContext], Iterator[Finding]]
