"""Register of findings: the rules, what they report and since when, and what explains what.

A rule is a small function over one judged snapshot that yields findings. It reports what is wrong
at `RuleContext.now` and sets `since` to that moment. Many partitions of one connector with the same
trouble are one finding. A finding is held for as long as its rule reports it. A finding that its
rule no longer reports is resolved. If an input of the finding is unavailable, it stays, for a day
at most, and shows when it was last seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from functools import cached_property
from typing import Final

import msgspec

from offsetwatch.judge.findings.advice import add_advice
from offsetwatch.judge.findings.rule_context import (
    FindingRule,
    RuleContext,
    RuleMemory,
    RuleMemoryState,
    decode_state,
)
from offsetwatch.judge.findings.rules import (
    connect,
    failures,
    missing_inputs,
    offsets,
    progress,
    replication,
    sources,
)
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.judge.text_formats import build_time_item
from offsetwatch.model.findings import (
    FINDINGS_MAX,
    EvidenceItem,
    FailureRun,
    Finding,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.model.findings import FindingName as Name
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey

_FindingKey = tuple[str, str, str, str]
RULES: Final[tuple[tuple[int, FindingRule], ...]] = (
    (1, progress.find_stalled_connectors),
    (2, progress.find_silent_connectors),
    (3, progress.find_rewound_connectors),
    (4, progress.find_simultaneous_rewinds),
    (5, failures.find_failed_connectors),
    (6, failures.find_failed_tasks),
    (7, failures.find_suspected_poison),
    (8, failures.find_restart_loops),
    (9, failures.find_sinks_below_log_start),
    (10, replication.find_near_retention),
    (11, replication.find_lost_records),
    (12, replication.find_recreated_topics),
    (13, replication.find_positions_ahead),
    (14, replication.find_recopies),
    (15, offsets.find_half_resets),
    (16, offsets.find_remnant_offsets),
    (17, offsets.find_connectors_without_moved_offsets),
    (18, offsets.find_duplicate_keys),
    (19, offsets.find_unusable_offsets),
    (20, offsets.find_internal_topic_problems),
    (21, replication.find_stale_checkpoints),
    (22, missing_inputs.find_hanging_transactions),
    (23, missing_inputs.find_down_inputs),
    (24, replication.find_unusual_lag),
    (25, replication.find_syncs_without_commits),
    (26, replication.find_unreplicated_partitions),
    (27, connect.find_changed_connect_clusters),
    (28, connect.find_missing_connector_states),
    (29, connect.find_unlisted_connectors),
    (30, connect.find_differing_rest_offsets),
    (31, connect.find_doubtful_offsets_topics),
    (32, missing_inputs.find_dropped_series),
    (33, connect.find_differing_rest_states),
    (34, sources.find_late_sources),
    (35, sources.find_near_source_retention),
    (36, sources.find_lost_source_positions),
    (37, sources.find_source_positions_ahead),
    (38, sources.find_inactive_slots),
    (39, sources.find_mismatched_sources),
    (40, sources.find_down_sources),
    (41, connect.find_differing_rest_tasks),
)
_STALL_FINDINGS: Final = frozenset(
    {
        Name.MM2_STALLED,
        Name.MM2_SILENT_STALL,
        Name.CONNECTOR_STALLED,
        Name.CONNECTOR_SILENT,
        Name.SINK_STUCK,
    }
)
_LAG_FINDINGS: Final = _STALL_FINDINGS | {Name.MM2_LAG_UNUSUAL, Name.SOURCE_BEHIND}
_SOURCE_EFFECT_FINDINGS: Final = frozenset(
    {
        Name.CONNECTOR_STALLED,
        Name.CONNECTOR_SILENT,
        Name.SOURCE_BEHIND,
        Name.SOURCE_SLOT_INACTIVE,
    }
)
_EFFECT_FINDINGS: Final = _LAG_FINDINGS | {Name.SYNCS_WITHOUT_COMMITS}
# The first finding of a connector explains the others: they are named in its evidence.
# A cause before its effects, a diagnosis before its symptoms.
EFFECTS_BY_CAUSE: Final[dict[Name, frozenset[Name]]] = {
    Name.POISON_SUSPECTED: frozenset({Name.RESTART_LOOP, Name.CONNECTOR_FAILED, Name.TASK_FAILED})
    | _EFFECT_FINDINGS,
    Name.RESTART_LOOP: frozenset({Name.CONNECTOR_FAILED, Name.TASK_FAILED}) | _EFFECT_FINDINGS,
    Name.CONNECTOR_FAILED: frozenset({Name.TASK_FAILED}) | _EFFECT_FINDINGS,
    Name.TASK_FAILED: _EFFECT_FINDINGS,
    Name.SYNCS_WITHOUT_COMMITS: _LAG_FINDINGS,
    Name.UNREPLICATED_PARTITIONS: _LAG_FINDINGS,
    Name.SOURCE_MISMATCH: _SOURCE_EFFECT_FINDINGS,
    Name.SOURCE_POSITION_LOST: _SOURCE_EFFECT_FINDINGS,
    Name.SINK_BELOW_LOG_START: frozenset({Name.SINK_STUCK}),
    Name.MM2_TOPIC_RECREATED: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.RECOPY: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.HALF_RESET: frozenset({Name.REWOUND, Name.MM2_LAG_UNUSUAL}),
    Name.MM2_STALLED: frozenset({Name.MM2_LAG_UNUSUAL}),
    Name.MM2_SILENT_STALL: frozenset({Name.MM2_LAG_UNUSUAL}),
    Name.CONNECTOR_STALLED: frozenset({Name.SOURCE_BEHIND}),
    Name.CONNECTOR_SILENT: frozenset({Name.SOURCE_BEHIND}),
}


def drop_explained_findings(candidates: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what another finding of the same connector explains, and say so in that one."""
    by_connector: dict[tuple[str, str | None], list[Finding]] = {}
    for finding in candidates:
        by_connector.setdefault((finding.connect_cluster, finding.connector), []).append(finding)
    for findings in by_connector.values():
        names = {finding.name for finding in findings}
        silenced = {
            weaker: name
            for name in reversed(EFFECTS_BY_CAUSE)
            if name in names
            for weaker in EFFECTS_BY_CAUSE[name]
            if weaker in names
        }
        for finding in findings:
            if finding.name in silenced:
                continue
            effects = tuple(
                sorted(weaker for weaker, name in silenced.items() if name is finding.name)
            )
            more = (EvidenceItem("explains", ", ".join(effects)),) if effects else ()
            yield replace(finding, evidence=finding.evidence + more, explains=effects)


class FindingInput(Enum):
    """Inputs that a finding depends on."""

    STATES = auto()
    OFFSETS = auto()  # committed ones, and the syncs of a flow
    ENDS = auto()  # of the logs that a flow reads
    GROUPS = auto()
    FAILOVER = auto()  # syncs, checkpoints and groups of all flows of a Connect cluster
    KAFKA = auto()  # the cluster that holds the topic in the subject
    TOPIC = auto()  # its tail
    LIST = auto()  # of connectors: is it read
    TOPICS = auto()  # was the offsets topic looked for again
    COMPARED = auto()  # its offsets by REST with those of the topic, and whether they are the same
    BELIEF = auto()  # is it certain whose list that is
    SOURCE_ENDS = auto()  # of all sources that the connector reads
    SOURCE = auto()  # the one in the subject
    ASSIGNMENT = auto()  # which partitions a flow copies
    VERDICT = auto()  # of the connector, which more than its inputs can hide


_SUBJECT_INPUTS: Final = frozenset({FindingInput.KAFKA, FindingInput.TOPIC, FindingInput.SOURCE})
_SOURCE_INPUTS: Final = (FindingInput.STATES, FindingInput.OFFSETS, FindingInput.SOURCE_ENDS)
_FLOW_INPUTS: Final = (FindingInput.STATES, FindingInput.OFFSETS, FindingInput.ENDS)
_STALL_INPUTS: Final = (FindingInput.VERDICT, FindingInput.STATES)
_INPUTS_BY_FINDING: Final[Mapping[str, tuple[FindingInput, ...]]] = {
    Name.CONNECTOR_STALLED: (*_STALL_INPUTS, FindingInput.OFFSETS),
    Name.CONNECTOR_SILENT: (*_STALL_INPUTS, FindingInput.OFFSETS),
    Name.MM2_STALLED: (FindingInput.VERDICT, *_FLOW_INPUTS),
    Name.MM2_SILENT_STALL: (FindingInput.VERDICT, *_FLOW_INPUTS),
    Name.REWOUND: _FLOW_INPUTS,
    Name.REWINDS_AT_ONCE: (),
    Name.RECOPY: _FLOW_INPUTS,
    Name.CONNECTOR_FAILED: (FindingInput.STATES,),
    Name.TASK_FAILED: (FindingInput.STATES,),
    Name.POISON_SUSPECTED: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.RESTART_LOOP: (FindingInput.STATES,),
    Name.SINK_STUCK: (*_STALL_INPUTS, FindingInput.GROUPS),
    Name.SINK_BELOW_LOG_START: (FindingInput.STATES, FindingInput.GROUPS),
    Name.MM2_LAG_UNUSUAL: _FLOW_INPUTS,
    Name.SYNCS_WITHOUT_COMMITS: _FLOW_INPUTS,
    Name.UNREPLICATED_PARTITIONS: _FLOW_INPUTS,
    Name.MM2_RETENTION_NEAR: _FLOW_INPUTS,
    Name.MM2_RECORDS_LOST: _FLOW_INPUTS,
    Name.MM2_TOPIC_RECREATED: _FLOW_INPUTS,
    Name.MM2_POSITION_AHEAD: _FLOW_INPUTS,
    Name.HALF_RESET: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.REMNANT_OFFSETS: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.DUPLICATE_KEYS: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.UNUSABLE_OFFSET: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.STARTS_FROM_SCRATCH: (FindingInput.STATES, FindingInput.OFFSETS),
    Name.INTERNAL_TOPIC_PROBLEM: (FindingInput.KAFKA,),
    Name.HANGING_TRANSACTION: (FindingInput.TOPIC,),
    Name.CHECKPOINTS_STALE: (FindingInput.FAILOVER,),
    Name.CONNECT_CLUSTER_CHANGED: (FindingInput.LIST,),
    Name.CONNECTOR_STATE_MISSING: (FindingInput.LIST,),
    Name.CONNECTOR_NOT_LISTED: (FindingInput.LIST,),
    Name.REST_OFFSETS_DIFFER: (FindingInput.LIST, FindingInput.OFFSETS),
    Name.REST_STATES_DIFFER: (FindingInput.LIST,),
    Name.REST_TASKS_DIFFER: (FindingInput.LIST, FindingInput.OFFSETS),
    Name.OFFSETS_TOPIC_DOUBTED: (),
    Name.SOURCE_BEHIND: _SOURCE_INPUTS,
    Name.SOURCE_RETENTION_NEAR: _SOURCE_INPUTS,
    Name.SOURCE_POSITION_LOST: _SOURCE_INPUTS,
    Name.SOURCE_POSITION_AHEAD: _SOURCE_INPUTS,
    Name.SOURCE_SLOT_INACTIVE: _SOURCE_INPUTS,
    Name.SOURCE_MISMATCH: _SOURCE_INPUTS,
    Name.SOURCE_DOWN: (),
    Name.INPUT_DOWN: (),
    Name.SERIES_DROPPED: (),
    # What rules count the time of (Held), by their own words for it.
    "ahead": _FLOW_INPUTS,
    "lag": _FLOW_INPUTS,
    "below": (FindingInput.STATES, FindingInput.GROUPS),
    "unsynced": (FindingInput.STATES, FindingInput.OFFSETS),
    "checkpoints": (FindingInput.FAILOVER,),
    "stateless": (FindingInput.LIST,),
    "source_behind": _SOURCE_INPUTS,
    "retention": _SOURCE_INPUTS,
    "source_ahead": _SOURCE_INPUTS,
    "slot": _SOURCE_INPUTS,
    "mismatch": _SOURCE_INPUTS,
    "down": (),
    "input": (),
    "rest_offsets": (),
    "gone": (),
    "syncs_topic": (),
}


# What they are is that something is not known, so what rules say of it counts; that they say it no
# more counts once it is known.
_ENDING_INPUTS_BY_FINDING: Final[Mapping[str, tuple[FindingInput, ...]]] = {
    Name.CONNECT_CLUSTER_CHANGED: (FindingInput.BELIEF,),
    Name.CONNECTOR_STATE_MISSING: (FindingInput.STATES,),
    Name.CONNECTOR_NOT_LISTED: (FindingInput.STATES,),
    Name.REST_OFFSETS_DIFFER: (FindingInput.COMPARED,),
    Name.OFFSETS_TOPIC_DOUBTED: (FindingInput.TOPICS,),
    Name.SOURCE_DOWN: (FindingInput.SOURCE,),
    Name.HALF_RESET: (FindingInput.ASSIGNMENT,),
    Name.REWOUND: (FindingInput.ASSIGNMENT,),
    Name.MM2_LAG_UNUSUAL: (FindingInput.ASSIGNMENT,),
    Name.MM2_POSITION_AHEAD: (FindingInput.ASSIGNMENT,),
    Name.MM2_RETENTION_NEAR: (FindingInput.ASSIGNMENT,),
    Name.SYNCS_WITHOUT_COMMITS: (FindingInput.ASSIGNMENT,),
    Name.UNREPLICATED_PARTITIONS: (FindingInput.ASSIGNMENT,),
    Name.REST_TASKS_DIFFER: (FindingInput.ASSIGNMENT,),
    "ahead": (FindingInput.ASSIGNMENT,),
    "lag": (FindingInput.ASSIGNMENT,),
    "unsynced": (FindingInput.ASSIGNMENT,),
}


class FindingVisibility:
    """Visibility of findings in one snapshot.

    Until every input that a finding depends on was read once, it does not count as resolved.
    """

    def __init__(self, visibility: InputVisibility) -> None:
        self._visibility = visibility
        self._known: dict[tuple[FindingInput, str, str, str], bool] = {}
        self._awaited: dict[tuple[FindingInput, str, str, str], bool] = {}

    def hides(self, key: _FindingKey) -> bool:
        """Check whether it is unknown if a finding or a condition still holds."""
        return (
            self._awaits_input(key)
            or self.lacks_input(key)
            or self._lacks_any(key, _ENDING_INPUTS_BY_FINDING.get(key[0], ()))
        )

    def lacks_input(self, key: _FindingKey) -> bool:
        """Check whether an input of a finding or a condition is unavailable."""
        return self._lacks_any(key, _INPUTS_BY_FINDING[key[0]])

    def _awaits_input(self, key: _FindingKey) -> bool:
        """Check whether an input of a finding or a condition was not read since the start."""
        if self._visibility.snapshot.ready:
            return False
        return _is_any(key, _INPUTS_BY_FINDING[key[0]], self._awaited, self._is_awaited)

    def _lacks_any(self, key: _FindingKey, inputs: tuple[FindingInput, ...]) -> bool:
        return _is_any(key, inputs, self._known, self._is_hidden)

    def _is_awaited(self, finding_input: FindingInput, key: ConnectorKey, topic: str) -> bool:
        if not key[0]:  # the Connect cluster that names its topic is unknown
            return True
        return self._visibility.is_any_awaited(self._list_inputs(finding_input, key, topic))

    def _list_inputs(
        self, finding_input: FindingInput, key: ConnectorKey, topic: str
    ) -> Iterator[InputId]:
        visibility, cluster = self._visibility, key[0]
        kafka, _, name = topic.partition("/")
        # What a connector depends on is known once it is listed.
        yield from visibility.list_state_inputs(cluster)
        match finding_input:
            case FindingInput.OFFSETS:
                yield from visibility.list_progress_inputs(key)
            case FindingInput.ENDS:
                flow = visibility.flows.get(key)
                if flow is not None and flow.upstream is not None:
                    yield InputId(LOG_ENDS, kafka=flow.upstream)
            case FindingInput.GROUPS:
                yield from visibility.list_group_inputs(cluster)
            case FindingInput.FAILOVER:
                for flow in visibility.flows.values():
                    if flow.connect_cluster == cluster:
                        yield from visibility.list_failover_inputs(flow)
            case FindingInput.KAFKA:
                yield InputId(LOG_ENDS, kafka=kafka)
            case FindingInput.TOPIC:
                yield InputId.of_tail(KafkaTopic(kafka, name))
            case FindingInput.SOURCE_ENDS:
                yield from visibility.list_source_inputs(key)

    def _is_hidden(self, finding_input: FindingInput, key: ConnectorKey, topic: str) -> bool:
        visibility, cluster = self._visibility, key[0]
        match finding_input:
            case FindingInput.STATES | FindingInput.LIST:
                of = key if finding_input is FindingInput.STATES else (cluster, "")
                return visibility.explain_unknown_state(of) is not None
            case FindingInput.TOPICS:
                return cluster not in visibility.snapshot.topic_doubts
            case FindingInput.COMPARED:
                check = visibility.snapshot.rest_checks.get(key)
                return check is None or check.rounds > 0
            case FindingInput.BELIEF:
                return not visibility.believes_list(cluster)
            case FindingInput.OFFSETS:
                return visibility.explain_hidden_progress(key) is not None
            case FindingInput.ENDS:
                flow = visibility.flows.get(key)
                return flow is not None and visibility.are_log_ends_hidden(flow.upstream)
            case FindingInput.GROUPS:
                hidden = visibility.explain_hidden_progress(key) is not None
                return visibility.are_groups_hidden(cluster) or hidden
            case FindingInput.FAILOVER:
                return any(
                    flow.connect_cluster == cluster and visibility.is_failover_hidden(flow)
                    for flow in visibility.flows.values()
                )
            case FindingInput.SOURCE_ENDS:
                return visibility.are_source_ends_hidden(key)
            case FindingInput.ASSIGNMENT:
                return visibility.explain_outdated_assignment(key) is not None
            case FindingInput.VERDICT:
                return key in self._connectors_without_verdict
            case FindingInput.KAFKA | FindingInput.TOPIC | FindingInput.SOURCE:
                return self._is_subject_hidden(finding_input, topic)

    def _is_subject_hidden(self, finding_input: FindingInput, subject: str) -> bool:
        kafka, _, name = subject.partition("/")
        match finding_input:
            case FindingInput.KAFKA:
                return self._visibility.are_log_ends_hidden(kafka)
            case FindingInput.TOPIC:
                return self._visibility.is_topic_hidden(KafkaTopic(kafka, name))
        return self._visibility.is_source_silent(subject)

    @cached_property
    def _connectors_without_verdict(self) -> frozenset[ConnectorKey]:
        unknown = self._visibility.index.judgements(Scope.CONNECTOR, Verdict.UNKNOWN)
        return frozenset(
            (judgement.connect_cluster, judgement.connector)
            for judgement in unknown
            if judgement.rule == UNAVAILABLE_INPUT_RULE
        )


def _is_any(
    key: _FindingKey,
    inputs: tuple[FindingInput, ...],
    known: dict[tuple[FindingInput, str, str, str], bool],
    check: Callable[[FindingInput, ConnectorKey, str], bool],
) -> bool:
    """Return whether `check` is true of any input of a finding; `known` has former results."""
    _, cluster, connector, subject = key
    for finding_input in inputs:
        topic = subject.partition(" ")[0] if finding_input in _SUBJECT_INPUTS else ""
        of = (finding_input, cluster, connector, topic)
        if of not in known:
            known[of] = check(finding_input, (cluster, connector), topic)
        if known[of]:
            return True
    return False


UNAVAILABLE_S_MAX: Final = 86_400.0
# Rules are asked so many times an interval: what counts in intervals needs no finer grain, and a
# snapshot a second of a hundred thousand partitions does.
EVALUATIONS_PER_INTERVAL: Final = 12
LAST_SEEN: Final = "last seen"
_INPUT_UNAVAILABLE: Final = EvidenceItem("its input", "unavailable now")
VERSION: Final = 1

_WORST_FIRST: Final = {severity: rank for rank, severity in enumerate(Severity)}


class _TrackedFinding(msgspec.Struct, frozen=True):
    """Finding, and when a rule last reported it."""

    finding: Finding
    seen_at: float


class _FindingsState(msgspec.Struct, frozen=True, rename={"entries": "kept"}):
    """Content of findings.json."""

    entries: tuple[_TrackedFinding, ...]
    memory: RuleMemoryState
    version: int


class FindingsRegister:
    """Findings from their first evaluation until evidence ends them, with the state of rules."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._memory = RuleMemory()
        self._entries: dict[_FindingKey, _TrackedFinding] = {}
        # When, and which inputs had not been read then.
        self._evaluated: tuple[float, frozenset[InputId]] | None = None
        self.newest: tuple[Finding, ...] = ()
        self.failure_runs: tuple[FailureRun, ...] = ()
        """The findings, and the runs of failures, of the newest evaluation."""
        self._saved = b""
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
        return self.newest

    def _is_due(self, snapshot: Snapshot) -> bool:
        if self._evaluated is None:
            return True
        moment, awaited = self._evaluated
        apart = self._settings.interval_s / EVALUATIONS_PER_INTERVAL
        return snapshot.awaited != awaited or not 0 <= snapshot.at - moment < apart

    def _evaluate(self, visibility: InputVisibility) -> None:
        snapshot = visibility.snapshot
        now = snapshot.at
        self._evaluated = (now, snapshot.awaited)
        self._memory.observe(visibility, self._settings)
        context = RuleContext(visibility, self._settings, self._memory)
        said = {
            finding.key: finding
            for _, rule in RULES
            for finding in rule(context)
            if _is_about_existing_connector(finding, visibility)
        }
        visible = FindingVisibility(visibility)
        self._memory.settle(visible.hides)
        entries = {key: _TrackedFinding(finding, now) for key, finding in said.items()}
        for key, old in self._entries.items():
            since = min(old.finding.since, now)  # the clock may be set back
            lately = abs(now - old.seen_at) < UNAVAILABLE_S_MAX
            connector = (old.finding.connect_cluster, old.finding.connector or "")
            if old.finding.connector is not None and visibility.excludes(connector):
                continue
            if lately and (visible.lacks_input(key) or (key not in entries and visible.hides(key))):
                # If a rule reports it, then from memory alone.
                entries[key] = _TrackedFinding(replace(old.finding, since=since), old.seen_at)
            elif key in entries:
                entries[key] = _TrackedFinding(replace(said[key], since=since), now)
        self._changed |= entries.keys() != self._entries.keys()
        self._entries = entries
        without_rest = frozenset(listing.connect_cluster for listing in snapshot.topology.listings)
        explained = drop_explained_findings(_add_last_seen(item, now) for item in entries.values())
        self.newest = tuple(
            sorted(
                (
                    add_advice(finding, self._settings.runbooks_url, without_rest)
                    for finding in explained
                ),
                key=lambda finding: (
                    _WORST_FIRST[finding.severity],
                    finding.since,
                    finding.key,
                ),
            )
        )
        # What documents leave out holds, and is notified, like the others.
        unlisted = frozenset(finding.key for finding in self.newest[FINDINGS_MAX:])
        self._cuts += len(unlisted - self._unlisted)
        self._unlisted = unlisted
        self.failure_runs = self._memory.failures.runs()

    @property
    def dropped(self) -> tuple[tuple[str, int], ...]:
        """Return how many findings documents have left out so far, by limit; () for none."""
        return (("findings_max", self._cuts),) if self._cuts else ()

    def remembered(self) -> bytes | None:
        """Return the findings as bytes to persist across restarts; None if nothing is new."""
        document = msgspec.json.encode(
            _FindingsState(
                entries=tuple(self._entries.values()),
                memory=self._memory.remembered(),
                version=VERSION,
            )
        )
        if document == self._saved:
            return None
        self._saved = document
        self._changed = False
        return document

    def recall(self, remembered: bytes) -> None:
        """Restore the state that `remembered` returned. Raise ValueError for any other bytes."""
        findings = decode_state(remembered, _FindingsState)
        if findings.version != VERSION:
            raise ValueError(f"version {findings.version}, and this is {VERSION}")
        self._entries = {entry.finding.key: entry for entry in findings.entries}
        self._memory.recall(findings.memory)
        self._saved = remembered


def _is_about_existing_connector(finding: Finding, visibility: InputVisibility) -> bool:
    """Check whether a finding's connector exists and is not excluded; True without a connector.

    Its judgement may be a moment older than the list without it.
    """
    if finding.connector is None:
        return True
    key = (finding.connect_cluster, finding.connector)
    return not (visibility.excludes(key) or visibility.is_deleted(key))


def _add_last_seen(entry: _TrackedFinding, now: float) -> Finding:
    if entry.seen_at == now:
        return entry.finding
    last_seen = build_time_item(LAST_SEEN, entry.seen_at)
    return replace(entry.finding, evidence=(last_seen, _INPUT_UNAVAILABLE, *entry.finding.evidence))
