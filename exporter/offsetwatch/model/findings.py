"""Verdicts and findings, and their evidence: the nouns of judge, notify and serve.

Times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

RECORDS: Final = "records"
OFFSET: Final = "offset"
TIME: Final = "time"
PARTITIONS: Final = "partitions"
TIMES: Final = "times"
BYTES: Final = "bytes"
TRANSACTIONS: Final = "transactions"
ROWS: Final = "rows"
SECONDS: Final = "seconds"
OFFSETS: Final = "offsets"  # how many; OFFSET is one of them

NONE: Final = "none"  # stands for a value that is null
_UNPRINTED_UNITS: Final = frozenset({OFFSET, TIME, None})  # the value alone says what it is


class EvidenceItem(msgspec.Struct, frozen=True, gc=False):
    """Named value of a finding or a judgement.

    value   a number with its unit, a moment in RFC 3339 (unit `time`), or words (no unit); None if
            there is none
    unit    `records`, `offset`, `time`, or whatever else is counted, in the plural
    """

    name: str
    value: str | int | float | None
    unit: str | None = None


Evidence = tuple[EvidenceItem, ...]  # in order of weight


def format_value(item: EvidenceItem) -> str:
    """Return a value with its unit as text: `3 records`, `120`, `none`."""
    if item.value is None:
        return NONE
    if item.unit in _UNPRINTED_UNITS or isinstance(item.value, str):
        return str(item.value)
    unit = item.unit or ""
    return f"{item.value} {unit.removesuffix('s') if item.value == 1 else unit}"


def format_item(item: EvidenceItem) -> str:
    """Return a name and its value: `lag: 3 records`."""
    return f"{item.name}: {format_value(item)}"


# In one document. The most severe and oldest are listed, the others counted.
FINDINGS_MAX: Final = 500


class Verdict(StrEnum):
    """Progress of a source partition, a connector or a flow.

    ok         it advances, or has just done all of its work
    idle       no work waits, and a second signal confirms it: the log end does not advance
    slow       it advances, and its lag grows
    stalled    work waits, it does not advance, and a cause is visible: a failed task, commits that
               repeat one offset
    silent     work waits, it does not advance, and no state shows a failure
    rewound    it went back and has not reached its earlier position again
    failed     of a connector or flow: it, or a task of it, has failed; `stalled` once work is
               known to wait for it
    paused     an operator paused the connector: no progress is expected
    stopped    an operator stopped the connector: no progress is expected
    unknown    an input is missing, or nothing distinguishes idle from stalled
    """

    OK = "ok"
    IDLE = "idle"
    SLOW = "slow"
    STALLED = "stalled"
    SILENT = "silent"
    REWOUND = "rewound"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """Kind of subject of a verdict."""

    PARTITION = "partition"
    CONNECTOR = "connector"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and why.

    subject    the source partition's label, `source->target` of a flow, "" of a connector
    rule       the number of the rule that decided (judge/progress/verdict_rules.py)
    since      when this verdict was first reached without another one in between
    """

    scope: Scope
    connect_cluster: str
    connector: str
    subject: str
    verdict: Verdict
    rule: int
    reason: str
    since: float
    evidence: Evidence = ()


class Severity(StrEnum):
    """Urgency: an operator must act now, must act soon, or should know."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class FindingName(StrEnum):
    """Everything that can be found. A name is a public contract: people route by it."""

    # progress
    CONNECTOR_STALLED = "connector_stalled"
    CONNECTOR_SILENT = "connector_silent"
    MM2_STALLED = "mm2_stalled"
    MM2_SILENT_STALL = "mm2_silent_stall"
    REWOUND = "rewound"
    REWINDS_AT_ONCE = "rewinds_at_once"
    RECOPY = "recopy"
    MM2_LAG_UNUSUAL = "mm2_lag_unusual"
    SYNCS_WITHOUT_COMMITS = "syncs_without_commits"
    UNREPLICATED_PARTITIONS = "unreplicated_partitions"
    # failures
    CONNECTOR_FAILED = "connector_failed"
    TASK_FAILED = "task_failed"
    POISON_SUSPECTED = "poison_suspected"
    RESTART_LOOP = "restart_loop"
    SINK_STUCK = "sink_stuck"
    SINK_BELOW_LOG_START = "sink_below_log_start"
    # what replication lost or is about to lose
    MM2_RETENTION_NEAR = "mm2_retention_near"
    MM2_RECORDS_LOST = "mm2_records_lost"
    MM2_TOPIC_RECREATED = "mm2_topic_recreated"
    MM2_POSITION_AHEAD = "mm2_position_ahead"
    # offsets and the topics they lie in
    HALF_RESET = "half_reset"
    REMNANT_OFFSETS = "remnant_offsets"
    DUPLICATE_KEYS = "duplicate_keys"
    UNUSABLE_OFFSET = "unusable_offset"
    STARTS_FROM_SCRATCH = "starts_from_scratch"
    INTERNAL_TOPIC_PROBLEM = "internal_topic_problem"
    HANGING_TRANSACTION = "hanging_transaction"
    # what Connect's answers and other witnesses contradict each other in
    CONNECT_CLUSTER_CHANGED = "connect_cluster_changed"
    CONNECTOR_STATE_MISSING = "connector_state_missing"
    CONNECTOR_NOT_LISTED = "connector_not_listed"
    REST_OFFSETS_DIFFER = "rest_offsets_differ"
    REST_STATES_DIFFER = "rest_states_differ"
    REST_TASKS_DIFFER = "rest_tasks_differ"
    OFFSETS_TOPIC_DOUBTED = "offsets_topic_doubted"
    # failover
    CHECKPOINTS_STALE = "checkpoints_stale"
    # ends of sources
    SOURCE_BEHIND = "source_behind"
    SOURCE_RETENTION_NEAR = "source_retention_near"
    SOURCE_POSITION_LOST = "source_position_lost"
    SOURCE_POSITION_AHEAD = "source_position_ahead"
    SOURCE_SLOT_INACTIVE = "source_slot_inactive"
    SOURCE_MISMATCH = "source_mismatch"
    SOURCE_DOWN = "source_down"
    # ourselves
    INPUT_DOWN = "input_down"
    SERIES_DROPPED = "series_dropped"


@dataclass(frozen=True, slots=True)
class FailureRun:
    """Failures of one kind, one after the other, of a task or (None) of the connector itself.

    kind       the exception's class
    failure    the newest in full (decode/stack_trace.py)
    count      how many there were
    restarts   how often it was started again between the first and the newest
    same       positions that are where they were at the first, by what they are of: label, text
    moved      others did move meanwhile
    read_at    when the newest was read, by our clock: `first_at` and `last_at` may be by workers'
    begun_by   when the first was read, by our clock: it came no later
    lasted_s   from the first to the newest, by our clock: so long at least
    """

    connect_cluster: str
    connector: str
    task: int | None
    kind: str
    failure: str
    count: int
    first_at: float
    last_at: float
    restarts: int
    same: tuple[tuple[str, str], ...]
    moved: bool
    read_at: float | None = None
    begun_by: float | None = None
    lasted_s: float | None = None


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """A plan of remediation for the connector of a finding, that waits for approval.

    what    what it does, in words
    """

    plan_id: str
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that exists now.

    connector  None for what is wrong with a whole Connect cluster, a topic or an input
    subject    which part: a topic-partition, a group, a topic, an input; "" for the connector
    summary    one sentence for a person who has just been woken; it begins with the connector,
               flow, topic or cluster
    since      when it was first found without being resolved in between
    explains   findings of the same connector that are so as well and are not listed beside it
    next_command   the command that a person runs next
    runbook_url    absolute; None where the configuration does not say where runbooks are
    plan       the one to approve now; in notifications only
    """

    name: FindingName
    severity: Severity
    connect_cluster: str
    connector: str | None
    subject: str
    summary: str
    since: float
    evidence: Evidence = ()
    explains: tuple[FindingName, ...] = ()
    next_command: str = ""
    runbook_url: str | None = None
    plan: ProposedPlan | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return the key by which it is the same finding at another moment."""
        return (self.name.value, self.connect_cluster, self.connector or "", self.subject)
