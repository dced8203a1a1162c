"""Visibility of findings: which of them cannot be resolved now because an input is unavailable."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Final

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.findings import FindingName as Name
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.snapshot_index import ConnectorKey

_FindingKey = tuple[str, str, str, str]  # name, Connect cluster, connector, subject


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
    VERDICT = auto()  # of the connector, which more than its inputs can hide


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
    Name.OFFSETS_TOPIC_DOUBTED: (),
    Name.INPUT_DOWN: (),
    Name.SERIES_DROPPED: (),
    # What rules count the time of (Held), by their own words for it.
    "ahead": _FLOW_INPUTS,
    "lag": _FLOW_INPUTS,
    "below": (FindingInput.STATES, FindingInput.GROUPS),
    "unsynced": (FindingInput.STATES, FindingInput.OFFSETS),
    "checkpoints": (FindingInput.FAILOVER,),
    "stateless": (FindingInput.LIST,),
    "input": (),
    "rest_offsets": (),
    "gone": (),
}


# What they are is that something is not known, so what rules say of it counts; that they say it no
# more counts once it is known.
_ENDING_INPUTS_BY_FINDING: Final[Mapping[str, tuple[FindingInput, ...]]] = {
    Name.CONNECT_CLUSTER_CHANGED: (FindingInput.BELIEF,),
    Name.CONNECTOR_STATE_MISSING: (FindingInput.STATES,),
    Name.CONNECTOR_NOT_LISTED: (FindingInput.STATES,),
    Name.REST_OFFSETS_DIFFER: (FindingInput.COMPARED,),
    Name.OFFSETS_TOPIC_DOUBTED: (FindingInput.TOPICS,),
}


class FindingVisibility:
    """Visibility of findings in one snapshot.

    Until every input was read once, no finding counts as resolved.
    """

    def __init__(self, visibility: InputVisibility) -> None:
        self._visibility = visibility
        self._known: dict[tuple[FindingInput, str, str, str], bool] = {}

    def hides(self, key: _FindingKey) -> bool:
        """Check whether it is unknown if a finding or a condition still holds."""
        starting = not self._visibility.snapshot.ready and bool(_INPUTS_BY_FINDING[key[0]])
        return (
            starting
            or self.blinds(key)
            or self._blinded(key, _ENDING_INPUTS_BY_FINDING.get(key[0], ()))
        )

    def blinds(self, key: _FindingKey) -> bool:
        """Check whether an input of a finding or a condition is unavailable."""
        return self._blinded(key, _INPUTS_BY_FINDING[key[0]])

    def _blinded(self, key: _FindingKey, sights: tuple[FindingInput, ...]) -> bool:
        _, cluster, connector, subject = key
        return any(
            self._blind(finding_input, (cluster, connector), subject) for finding_input in sights
        )

    def _blind(self, finding_input: FindingInput, key: ConnectorKey, subject: str) -> bool:
        topic = (
            subject.partition(" ")[0]
            if finding_input in {FindingInput.KAFKA, FindingInput.TOPIC}
            else ""
        )
        of = (finding_input, *key, topic)
        if of not in self._known:
            self._known[of] = self._is_blind(finding_input, key, topic)
        return self._known[of]

    def _is_blind(self, finding_input: FindingInput, key: ConnectorKey, topic: str) -> bool:
        visibility, cluster = self._visibility, key[0]
        kafka, _, name = topic.partition("/")
        match finding_input:
            case FindingInput.STATES:
                return visibility.explain_unknown_state(key) is not None
            case FindingInput.LIST:
                return visibility.explain_unknown_state((cluster, "")) is not None
            case FindingInput.TOPICS:
                return cluster not in visibility.snapshot.topic_doubts
            case FindingInput.COMPARED:
                check = visibility.snapshot.rest_checks.get(key)
                return check is None or check.rounds > 0
            case FindingInput.BELIEF:
                return not visibility.believes_list(cluster)
            case FindingInput.OFFSETS:
                return visibility.is_progress_hidden(key)
            case FindingInput.ENDS:
                flow = visibility.flows.get(key)
                return flow is not None and visibility.are_log_ends_hidden(flow.upstream)
            case FindingInput.GROUPS:
                return visibility.are_groups_hidden(cluster) or visibility.is_progress_hidden(key)
            case FindingInput.FAILOVER:
                return any(
                    flow.connect_cluster == cluster and visibility.is_failover_hidden(flow)
                    for flow in visibility.flows.values()
                )
            case FindingInput.KAFKA:
                return visibility.are_log_ends_hidden(kafka)
            case FindingInput.TOPIC:
                return visibility.is_topic_hidden(KafkaTopic(kafka, name))
            case FindingInput.VERDICT:
                return key in self._hidden

    @cached_property
    def _hidden(self) -> frozenset[ConnectorKey]:
        """Return the connectors whose verdict is unknown because an input is unavailable."""
        unknown = self._visibility.index.judgements(Scope.CONNECTOR, Verdict.UNKNOWN)
        return frozenset(
            (judgement.connect_cluster, judgement.connector)
            for judgement in unknown
            if judgement.rule == UNAVAILABLE_INPUT_RULE
        )
