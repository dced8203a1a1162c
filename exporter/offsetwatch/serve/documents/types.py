"""Types of the documents of the read API. The OpenAPI document is made from them (openapi.py), and
the functions that build a document are checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.findings import Evidence, Verdict
from offsetwatch.model.moments import Moment
from offsetwatch.model.observations import Frozen
from offsetwatch.model.remediation import OpenPlan, RefusalRow
from offsetwatch.serve.documents.findings import FindingRow, JudgementRow

Origin = Literal["rest", "group", "topic"]
REST: Final = "rest"
UNKNOWN_DOCUMENT: Final = "there is no such document; /api/v1/ lists all"

OwnJson = Annotated[
    msgspec.Raw, msgspec.Meta(description="the connector's own JSON; null for none")
]


class TailRecords(TypedDict):
    """Counts of records since the topic was caught up, by kind."""

    value: int
    tombstone: int
    undecodable: int


class TailRow(TypedDict):
    """Progress of reading a topic. positions: the next offset of each partition."""

    kafka: str
    topic: str
    caught_up: bool
    behind: int | None
    records: TailRecords
    positions: dict[str, int]
    frozen: Sequence[Frozen]


class InputRow(TypedDict):
    """State of an input. errors: their number by reason."""

    input: str
    kind: str
    up: bool
    live: bool
    last_success_at: Moment | None
    errors: dict[str, int]
    last_error: str | None
    tail: TailRow | None


class UnreadInput(msgspec.Struct, frozen=True):
    """An input that is not up; last_success_at: None if it was never read."""

    kind: str
    input: str
    last_success_at: Moment | None = None
    last_error: str | None = None


class DocumentHead(TypedDict):
    """The moment, and how complete the document is. recorded: the topics that progress is read
    from, as kafka/topic. waiting_for: inputs that have not been read to their end yet.
    """

    at: Moment
    ready: bool
    waiting_for: Sequence[str]
    recorded: list[str]
    inputs: list[InputRow]


class TaskRow(TypedDict):
    """State of a task."""

    task: int
    state: str


_Class = TypedDict("_Class", {"class": str | None})
_From = TypedDict("_From", {"from": Origin})
_FromRest = TypedDict("_FromRest", {"from": Literal["rest"] | None})
_FromText = TypedDict("_FromText", {"from": str})


class ConnectorHead(_Class):
    """A connector as Connect lists it. One that is not listed, as Connect's REST API is not asked
    or does not answer, has kind `unknown` and null for class, version and state.
    """

    connect_cluster: str
    name: str
    kind: ConnectorKind
    version: str | None
    state: str | None
    tasks: list[TaskRow]


class RawKeyRow(msgspec.Struct, frozen=True):
    """A raw key of a source partition that has several, and its offset."""

    raw_key: str
    offset: OwnJson


class SourceEndRow(msgspec.Struct, frozen=True):
    """A source partition against the end that its source reports. end: as the source writes it.
    server: which server reports it (system identifier and timeline, or server id), if it tells.
    caught_up: null while it is not known; the lags are upper bounds then. connected: whether a
    connection of the connector is open at the source. lost, mismatch: why the source no longer has
    what the offset needs, and why the two cannot be of one source. problem: why there is nothing to
    compare. There are no numbers during a snapshot.
    """

    source: str
    kind: str
    read_at: Moment
    server: str | None
    end: str | None
    position: int | None
    end_position: int | None
    lag_bytes: int | None
    lag_transactions: int | None
    lag_rows: int | None
    lag_seconds: float | None
    caught_up: bool | None
    behind_since: Moment | None
    ahead: int
    retention_headroom_bytes: int | None
    retained_bytes: int | None
    connected: bool | None
    snapshot_in_progress: bool
    lost: str | None
    mismatch: str | None
    problem: str | None


class SourcePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A source partition and its newest effective offset. Where `from` is `rest`, committed_at and
    commits are null, and advanced_at is of the poll that saw the change. Counts are since the
    topic was read to its end. raw_key and raw_keys_unsure are there where it was written under
    other raw keys than that of a HashMap alone; raw_key is the one that its task looks up, null
    while that is not known. source_end is there where the end of its source is read.
    """

    source_partition: OwnJson
    label: str
    offset: OwnJson
    kafka_partition: int | None
    log_offset: int | None
    committed_at: Moment | None
    advanced_at: Moment | None
    commits: int | None
    advances: int | None
    rewinds: int | None
    resets: int | None
    variants: int
    raw_key: str | UnsetType | None = UNSET
    raw_keys_unsure: tuple[RawKeyRow, ...] | UnsetType = UNSET
    origin: Origin = msgspec.field(name="from")
    dialect: str
    event_at: Moment | None
    poisoned: bool
    shadow: OwnJson
    source_end: SourceEndRow | UnsetType = UNSET


class LagAge(TypedDict):
    """The age of the oldest record that waits: 0 when caught up, null while it is not known. It
    counts from behind_since, which behind_from tells: `record`, read from the log, or `log_ends`,
    when the log end was last seen at the position.
    """

    caught_up: bool | None
    lag_seconds: float | None
    behind_since: Moment | None
    behind_from: str | None


class SinkPartitionRow(_From, LagAge):
    """A partition that a sink consumes; `committed` is the next record."""

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag_records: int | None


class ConnectorBody(ConnectorHead):
    """A connector with its positions."""

    source_partitions: list[SourcePartition]
    sink_partitions: list[SinkPartitionRow]


class ConnectorsBody(DocumentHead):
    """/api/v1/connectors."""

    connectors: list[ConnectorBody]


RouterRow = TypedDict(
    "RouterRow",
    {
        "class": str,
        "regex": str | None,
        "replacement": str | None,
        "conditional": bool,
        "topics": str | None,
        "negated": bool,
    },
)


class Retention(TypedDict):
    """Distance of retention from a position, and the records lost, by cause."""

    headroom_records: int | None
    headroom_seconds: float | None
    lost_records: dict[str, int]


class MirrorPartitionRow(_From, LagAge, Retention):
    """A replicated upstream partition. Positions are of the last record replicated; lag_records
    belongs to lag_position.
    """

    topic: str
    partition: int
    committed: int | None
    committed_at: Moment | None
    synced: int | None
    replicated: int | None
    log_start: int | None
    log_end: int | None
    lag_records: int | None
    ahead_records: int | None
    lag_position: int | None


class SyncRow(TypedDict):
    """The newest offset sync of an upstream partition."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    at: Moment


class GroupRow(TypedDict):
    """Position of a consumer group in one partition after a failover."""

    group: str
    topic: str
    partition: int
    upstream: int
    best: int | None
    start_offset: int | None
    start_offset_from: str | None
    translated: int | None
    reread_records: int | None
    skip_records: int | None
    checkpoint_at: Moment | None


class FlowGroupRow(GroupRow):
    """A row of a group with its flow as SOURCE->TARGET."""

    flow: str


class CheckpointRow(TypedDict):
    """The newest checkpoint of a group."""

    group: str
    at: Moment


class LossRow(TypedDict):
    """Upstream offsets that can no longer be replicated, both ends in them."""

    topic: str
    partition: int
    cause: str
    first: int
    last: int
    records: int
    at: Moment


class RecreationRow(TypedDict):
    """An upstream topic that was deleted and created again."""

    topic: str
    count: int
    at: Moment
    id_before: str | None
    id_after: str | None


class FlowLossRows(TypedDict):
    """The newest losses and recreations of a flow."""

    losses: list[LossRow]
    recreations: list[RecreationRow]


class FlowEnds(TypedDict):
    """Upstream cluster of a flow, and the transforms that rename its copies. offset_syncs:
    kafka/topic. A router whose regex is null gives names that are not known. copies: the names
    that the configuration states.
    """

    upstream: str | None
    offset_syncs: str | None
    routers: list[RouterRow]
    copies: dict[str, str]


class FlowBody(FlowEnds, FlowLossRows):
    """A replication flow. lag_records: the sum over all partitions, null unless each is known. Two
    flows under one pair of aliases share syncs, groups, checkpoints and heartbeats.
    """

    connect_cluster: str
    connector: str
    source: str
    target: str
    partitions: list[MirrorPartitionRow]
    lag_records: int | None
    syncs: list[SyncRow]
    groups: list[GroupRow]
    checkpoints: list[CheckpointRow]
    heartbeat_at: Moment | None


class FlowsBody(DocumentHead):
    """/api/v1/flows."""

    flows: list[FlowBody]


class ExplainedTaskRow(TaskRow):
    """A task; failure: the exception's class and the method that it came from."""

    failure: str | None


class ExplainedJudgement(JudgementRow, frozen=True):
    """A judgement with the text of its rule."""

    rule_text: str | None = None


class ExplainedInput(TypedDict):
    """An input on which the data of a connector depends."""

    input: str
    kind: str
    up: bool
    live: bool
    last_success_at: Moment | None
    last_error: str | None
    undecodable: int | None


class DatedOffset(_FromText):
    """An offset, the time at which it was true, and its source."""

    offset: int
    at: Moment | None


class ExplainedMirrorOffsets(TypedDict):
    """Positions of a replicated partition."""

    topic: str
    partition: int
    committed: DatedOffset | None
    synced: DatedOffset | None
    log_end: DatedOffset | None
    replicated: int | None
    log_start: int | None
    lag_records: int | None
    lag_position: int | None
    ahead_records: int | None


class ExplainedMirrorPartition(ExplainedMirrorOffsets, LagAge, Retention):
    """Positions, lag and losses of a replicated partition."""


class ExplainedFlow(FlowEnds, FlowLossRows):
    """The flow of a connector."""

    source: str
    target: str
    read_committed: bool
    partitions: list[ExplainedMirrorPartition]


class ExplainedGroup(TypedDict):
    """The consumer group of a sink. lag_unknown: why its lag is not known; null if it may be."""

    group: str
    kafka: str | None
    lag_unknown: str | None
    partitions: list[SinkPartitionRow]


class ExplainedConnector(_Class):
    """Everything known of one connector."""

    at: Moment
    connect_cluster: str
    name: str
    kind: ConnectorKind
    version: str
    state: str
    tasks: list[ExplainedTaskRow]
    offsets_topic: str | None
    source_partitions: list[SourcePartition]
    flow: ExplainedFlow | None
    group: ExplainedGroup | None
    failover: list[FlowGroupRow]
    judgements: list[ExplainedJudgement]
    findings: list[FindingRow]
    inputs: list[ExplainedInput]
    problems: list[str]


class ExplainBody(ExplainedConnector):
    """/api/v1/explain."""

    waiting_for: Sequence[str]


class DownInput(TypedDict):
    """An input that cannot be read, or whose data is out of date."""

    input: str
    kind: str
    up: bool
    live: bool
    last_success_at: Moment | None
    last_error: str | None


class VerdictRow(TypedDict):
    """A verdict with its reason; null while there is none."""

    verdict: Verdict | None
    rule: int | None
    reason: str | None
    since: Moment | None
    evidence: Evidence


class ConditionRow(VerdictRow):
    """State and verdict; urgency 0 is most urgent."""

    worst_state: str | None
    urgency: int


class TotalsRow(TypedDict):
    """All partitions of a connector or a flow together; null is not known."""

    partitions: int
    position: str | None
    committed_at: Moment | None
    advanced_at: Moment | None
    lag_records: int | None
    lag_seconds: float | None


class OverviewConnectorHead(TypedDict):
    """A connector. tasks: how many are in each state."""

    connect_cluster: str
    name: str
    kind: ConnectorKind
    state: str | None
    tasks: dict[str, int]
    has_lag: bool


class OverviewConnector(OverviewConnectorHead, ConditionRow, TotalsRow, _FromRest):
    """A connector with its state, its verdict and its lag."""


class OverviewFlow(ConditionRow, TotalsRow, _FromRest):
    """A flow with its state, its verdict and its lag."""

    connect_cluster: str
    connector: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class OpenPlanRow(OpenPlan):
    """A plan that is not over; approve: the command, while it can be approved."""

    approve: str | None


class RemediesBody(TypedDict):
    """Remediation. untold: how many plans and refusals are not listed."""

    at: Moment
    mode: str
    plans: list[OpenPlanRow]
    refusals: Sequence[RefusalRow]
    untold: int


class OverviewBody(TypedDict):
    """/api/v1/overview."""

    at: Moment
    ready: bool
    waiting_for: Sequence[str]
    version: str
    alive: bool
    inputs: int
    inputs_down: list[DownInput]
    connectors: list[OverviewConnector]
    flows: list[OverviewFlow]
    findings: Sequence[FindingRow]
    findings_left_out: int
    remedies: RemediesBody | None
    boards_url: str | None


class TrendSeries(TypedDict):
    """A value for each minute, null where it was not known; null where it never was."""

    lag_seconds: list[int | None] | None
    lag_records: list[int | None] | None
    quiet_seconds: list[int | None] | None


class ConnectorTrend(TrendSeries):
    """The last hour of a connector."""

    connect_cluster: str
    name: str


class FlowTrend(TrendSeries):
    """The last hour of a flow."""

    connect_cluster: str
    connector: str
    source: str
    target: str


class TrendsBody(TypedDict):
    """/api/v1/trends."""

    at: Moment | None
    since: Moment | None
    every_s: float
    minutes: list[Moment]
    left_out: int
    connectors: list[ConnectorTrend]
    flows: list[FlowTrend]


class IndexBody(TypedDict):
    """The paths of all documents."""

    documents: Sequence[str]
