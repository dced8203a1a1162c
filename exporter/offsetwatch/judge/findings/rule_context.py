"""Context of a rule: its input, and helpers that build its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from offsetwatch.judge.findings import failure_history as failures
from offsetwatch.judge.findings import incarnations
from offsetwatch.judge.findings import rewinds as falls
from offsetwatch.judge.findings.failure_history import FailureTracker, find_positions
from offsetwatch.judge.findings.incarnations import IncarnationTracker, find_freshness
from offsetwatch.judge.findings.rewinds import MirrorPartitionKey, RewindTracker, find_pause_ends
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Evidence, Finding, FindingName, Severity
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey, SnapshotIndex

ConditionKey = tuple[str, str, str, str]  # rule or finding, Connect cluster, connector, subject

_Document = TypeVar("_Document")


class ConditionAges:
    """Ages of conditions, by rule or finding, Connect cluster, connector and subject."""

    def __init__(self) -> None:
        self._since: dict[ConditionKey, tuple[float, float]] = {}
        self._touched: set[ConditionKey] = set()

    def since(self, key: ConditionKey, now: float, level: float = 0.0) -> tuple[float, float]:
        """Return since when a condition holds, and the level that was given then.

        Mark the condition as checked.
        """
        self._touched.add(key)
        moment, was = self._since.get(key, (now, level))
        self._since[key] = (min(moment, now), was)  # the clock may have been set back
        return self._since[key]

    def has(self, key: ConditionKey) -> bool:
        """Check whether a condition is recorded: it held when it was last checked."""
        return key in self._since

    def settle(self, is_hidden: Callable[[ConditionKey], bool]) -> None:
        """Remove the conditions that were not checked since the last call, except hidden ones.

        `is_hidden` says whether an unavailable input hides a condition.
        """
        self._since = {
            key: since
            for key, since in self._since.items()
            if key in self._touched or is_hidden(key)
        }
        self._touched = set()

    def remembered(self) -> tuple[tuple[ConditionKey, float, float], ...]:
        """Return all conditions, to persist across restarts."""
        return tuple((key, moment, level) for key, (moment, level) in sorted(self._since.items()))

    def recall(self, conditions: tuple[tuple[ConditionKey, float, float], ...]) -> None:
        """Restore persisted conditions."""
        self._since = {key: (moment, level) for key, moment, level in conditions}


class RuleMemoryState(msgspec.Struct, frozen=True, rename={"incarnations": "lives"}):
    """State of the memory as it is persisted."""

    held: tuple[tuple[ConditionKey, float, float], ...]
    failures: tuple[failures.TaskFailureRecord, ...]
    incarnations: tuple[incarnations.IncarnationRecord, ...]
    falls: falls.RewindState


def decode_state(document: bytes, kind: type[_Document]) -> _Document:
    """Decode a state document of the judge. Raise ValueError for bytes of another kind."""
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc


@dataclass(slots=True)
class RuleMemory:
    """Memory of the rules.

    synced    upstream partitions that had an offset sync since observation began, each with the
              topic of the sync: a flow that begins to write to another one has none there
    """

    held: ConditionAges = field(default_factory=ConditionAges)
    failures: FailureTracker = field(default_factory=FailureTracker)
    incarnations: IncarnationTracker = field(default_factory=IncarnationTracker)
    falls: RewindTracker = field(default_factory=RewindTracker)
    synced: set[tuple[KafkaTopic, MirrorPartitionKey]] = field(default_factory=set)
    _observed_inputs: tuple[object, object] = (None, None)

    def observe(self, visibility: InputVisibility, settings: JudgeSettings) -> None:
        """Update the memory from a snapshot, before the rules run."""
        snapshot, index, listed = visibility.snapshot, visibility.index, visibility.listed
        positions = find_positions(visibility, self.failures.list_failing(snapshot))
        believed = {name: names for name, names in listed.items() if visibility.believes_list(name)}
        self.failures.observe(snapshot, believed, positions, settings.patience_s)
        self.incarnations.observe(
            snapshot,
            listed,
            index.source_partitions,
            find_freshness(visibility),
            believed.keys(),
        )
        self.falls.observe(snapshot, settings.interval_s, find_pause_ends(snapshot))
        mirrors, syncs = index.mirror_partitions, index.syncs
        if self._observed_inputs[0] is mirrors and self._observed_inputs[1] is syncs:
            return  # there is no other sync than at the last evaluation
        self._observed_inputs = (mirrors, syncs)
        for key, views in mirrors.items():
            known, flow = index.syncs_of(key[0]), index.flows.get(key)
            if flow is None or flow.offset_syncs is None:
                continue
            for view in views:
                if (view.source, view.target, view.topic, view.partition) in known:
                    self.synced.add((flow.offset_syncs, (*key, view.topic, view.partition)))

    @property
    def urgent(self) -> bool:
        """Check whether a restart now would lose state that no input reports again."""
        return self.failures.urgent

    def settle(self, is_hidden: Callable[[ConditionKey], bool]) -> None:
        """Remove conditions that no rule checked in this evaluation, after all rules ran."""
        self.held.settle(is_hidden)

    def remembered(self) -> RuleMemoryState:
        """Return the state to persist across restarts."""
        return RuleMemoryState(
            held=self.held.remembered(),
            failures=self.failures.remembered(),
            incarnations=self.incarnations.remembered(),
            falls=self.falls.remembered(),
        )

    def recall(self, rule_memory: RuleMemoryState) -> None:
        """Restore a persisted state."""
        self.held.recall(rule_memory.held)
        self.failures.recall(rule_memory.failures)
        self.incarnations.recall(rule_memory.incarnations)
        self.falls.recall(rule_memory.falls)


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
    def reported_s(self) -> float:
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
            summary=summary if key[1] is None else f"{self._name(key[0], key[1])} {summary}",
            since=self.now,
            evidence=evidence,
        )

    def _name(self, cluster: str, connector: str) -> str:
        """Return the name of a connector, and the flow that it replicates."""
        name_text = connector if connector.isprintable() else repr(connector)[1:-1]
        flow = self.visibility.flows.get((cluster, connector))
        return name_text if flow is None else f"{name_text} ({flow.source}->{flow.target})"


FindingRule = Callable[[RuleContext], Iterator[Finding]]
