"""Register of findings: what the rules report, and since when.

A finding is held for as long as its rule reports it. A finding that its rule no longer reports is
resolved. If an input of the finding is unavailable, it stays, for a day at most, and shows when it
was last seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from offsetwatch.judge.findings.advice import add_advice
from offsetwatch.judge.findings.memory import RuleMemory, RuleMemoryState, decode_state
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.findings.rules.registry import RULES, drop_explained_findings
from offsetwatch.judge.findings.visibility import FindingVisibility
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.judge.text_formats import build_time_item
from offsetwatch.model.findings import FINDINGS_MAX, EvidenceItem, FailureRun, Finding, Severity
from offsetwatch.state.snapshot import Snapshot

UNAVAILABLE_S_MAX: Final = 86_400.0
# Rules are asked so many times an interval: what counts in intervals needs no finer grain, and a
# snapshot a second of a hundred thousand partitions does.
EVALUATIONS_PER_INTERVAL: Final = 12
LAST_SEEN: Final = "last seen"
_INPUT_UNAVAILABLE: Final = EvidenceItem("its input", "unavailable now")
VERSION: Final = 1

_WORST_FIRST: Final = {severity: rank for rank, severity in enumerate(Severity)}

_FindingKey = tuple[str, str, str, str]


class _TrackedFinding(msgspec.Struct, frozen=True):
    """Finding, and when a rule last reported it."""

    finding: Finding
    seen_at: float


class _FindingsState(msgspec.Struct, frozen=True):
    """Content of findings.json."""

    kept: tuple[_TrackedFinding, ...]
    memory: RuleMemoryState
    version: int


class FindingsRegister:
    """Register of findings."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._memory = RuleMemory()
        self._kept: dict[_FindingKey, _TrackedFinding] = {}
        self._evaluated: tuple[float, bool] | None = None  # when, and whether all was read then
        self._found: tuple[Finding, ...] = ()
        self._runs: tuple[FailureRun, ...] = ()
        self._told = b""
        self._changed = False
        self._unlisted: frozenset[_FindingKey] = frozenset()  # beyond FINDINGS_MAX
        self._cuts = 0

    @property
    def urgent(self) -> bool:
        """Check whether a restart now would lose a finding, a resolution, or a counted failure."""
        return self._changed or self._memory.urgent

    def found(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return all findings of a judged snapshot, the most severe first.

        They are evaluated EVALUATIONS_PER_INTERVAL times an interval at most.
        """
        if self._is_due(snapshot):
            self._evaluate(InputVisibility(snapshot))
        return self._found

    @property
    def newest(self) -> tuple[Finding, ...]:
        """Return the findings of the newest evaluation."""
        return self._found

    def _is_due(self, snapshot: Snapshot) -> bool:
        if self._evaluated is None:
            return True
        moment, ready = self._evaluated
        apart = self._settings.interval_s / EVALUATIONS_PER_INTERVAL
        return snapshot.ready is not ready or not 0 <= snapshot.at - moment < apart

    def _evaluate(self, visibility: InputVisibility) -> None:
        snapshot = visibility.snapshot
        now = snapshot.at
        self._evaluated = (now, snapshot.ready)
        self._memory.observe(visibility, self._settings)
        context = RuleContext(visibility, self._settings, self._memory)
        said = {
            finding.key: finding
            for _, rule in RULES
            for finding in rule(context)
            if _is_about_existing_connector(finding, visibility)
        }
        blindness = FindingVisibility(visibility)
        self._memory.settle(blindness.hides)
        kept = {key: _TrackedFinding(finding, now) for key, finding in said.items()}
        for key, old in self._kept.items():
            since = min(old.finding.since, now)  # the clock may be set back
            lately = abs(now - old.seen_at) < UNAVAILABLE_S_MAX
            if _is_excluded(old.finding, visibility):
                continue
            if lately and (blindness.blinds(key) or (key not in kept and blindness.hides(key))):
                # If anything is said of it, then from memory alone.
                kept[key] = _TrackedFinding(replace(old.finding, since=since), old.seen_at)
            elif key in kept:
                kept[key] = _TrackedFinding(replace(said[key], since=since), now)
        self._changed |= kept.keys() != self._kept.keys()
        self._kept = kept
        without_rest = frozenset(listing.connect_cluster for listing in snapshot.topology.listings)
        told = sorted(
            (
                add_advice(finding, self._settings.runbooks_url, without_rest)
                for finding in drop_explained_findings(
                    _add_last_seen(tracked_finding, now) for tracked_finding in kept.values()
                )
            ),
            key=_sort_key,
        )
        self._count_unlisted(told[FINDINGS_MAX:])
        self._found = tuple(told)
        self._runs = self._memory.failures.runs()

    def _count_unlisted(self, beyond: list[Finding]) -> None:
        """Count findings that documents leave out; they hold, and are notified, like the others."""
        keys = frozenset(finding.key for finding in beyond)
        self._cuts += len(keys - self._unlisted)
        self._unlisted = keys

    @property
    def failure_runs(self) -> tuple[FailureRun, ...]:
        """Return the runs of failures of the newest evaluation."""
        return self._runs

    @property
    def dropped(self) -> tuple[tuple[str, int], ...]:
        """Return how many findings documents have left out so far, by limit; () for none."""
        return (("findings_max", self._cuts),) if self._cuts else ()

    def remembered(self) -> bytes | None:
        """Return the findings as bytes to persist across restarts; None if nothing is new."""
        told = msgspec.json.encode(
            _FindingsState(
                kept=tuple(self._kept.values()),
                memory=self._memory.remembered(),
                version=VERSION,
            )
        )
        if told == self._told:
            return None
        self._told = told
        self._changed = False
        return told

    def recall(self, remembered: bytes) -> None:
        """Restore the state that `remembered` returned. Raise ValueError for any other bytes."""
        findings = decode_state(remembered, _FindingsState)
        if findings.version != VERSION:
            raise ValueError(f"version {findings.version}, and this is {VERSION}")
        self._kept = {kept.finding.key: kept for kept in findings.kept}
        self._memory.recall(findings.memory)
        self._told = remembered


def _is_about_existing_connector(finding: Finding, visibility: InputVisibility) -> bool:
    """Check whether a finding's connector exists and is not excluded; True without a connector.

    Its judgement may be a moment older than the list without it.
    """
    if finding.connector is None:
        return True
    key = (finding.connect_cluster, finding.connector)
    return not (visibility.excludes(key) or visibility.is_deleted(key))


def _is_excluded(finding: Finding, visibility: InputVisibility) -> bool:
    return finding.connector is not None and visibility.excludes(
        (finding.connect_cluster, finding.connector)
    )


def _add_last_seen(kept: _TrackedFinding, now: float) -> Finding:
    if kept.seen_at == now:
        return kept.finding
    last_seen = build_time_item(LAST_SEEN, kept.seen_at)
    return replace(kept.finding, evidence=(last_seen, _INPUT_UNAVAILABLE, *kept.finding.evidence))


def _sort_key(finding: Finding) -> tuple[int, float, _FindingKey]:
    return (_WORST_FIRST[finding.severity], finding.since, finding.key)
